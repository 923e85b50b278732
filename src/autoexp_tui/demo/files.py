"""Writing so that a reader, or a restart after a kill, sees all of a file or none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PARTIAL_SUFFIX = ".partial"


def partial_path(path: Path) -> Path:
    """The hidden neighbour that is written first and then renamed to `path`."""
    return path.with_name(f".{path.name}{PARTIAL_SUFFIX}")


def write_synced(path: Path, text: str) -> None:
    """Write text and wait until the disk has it; not atomic."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the disk has the directory's entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, text: str) -> None:
    """Replace `path` with `text` in one step, making its directory if need be.

    Raises OSError when the place cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    write_synced(partial, text)
    partial.replace(path)
    sync_directory(path.parent)
