"""Files that an agent wrote, read when none of its processes is left. It may have put
anything there: links to what it must not show us, pipes, files of any size."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from autoexp_tui.storage.trust import build_refusal

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_foreign(path: Path, most: int) -> bytes:
    """A regular file with no second name and at most `most` bytes; raises OSError."""
    if path.is_symlink():
        raise build_refusal(path, "it is a symbolic link")
    with os.fdopen(os.open(path, _FLAGS), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise build_refusal(path, "it is not a regular file")
        if found.st_nlink != 1:
            raise build_refusal(path, "it has a second name")
        if found.st_size > most:
            problem = f"it has {found.st_size} bytes, more than {most}"
            raise build_refusal(path, problem)
        return file.read(most)


def list_foreign(home: Path, pattern: str) -> Iterator[Path]:
    """What a pattern finds below `home` and really lies there, by name; nothing where
    it is empty."""
    real = home.resolve()
    for path in sorted(home.glob(pattern) if pattern else ()):
        if path.parent.resolve().is_relative_to(real):
            yield path


def move_foreign(path: Path, target: Path) -> None:
    """Move a file, link or directory, to another file system too; raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.move(path, target)
