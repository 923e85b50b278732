"""Compressing a part of the journal that is finished, so that nothing is ever lost.

The compressed form is written beside it, synced, read back and compared; only then does
it get its name, and only then does the part itself go. A kill in between leaves both,
and the part counts. Only the engine that wrote a part may pack it.
"""

from __future__ import annotations

import gzip
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.storage.atomic import (
    explaining,
    open_with_mode,
    sync_directory,
)
from autoexp_tui.storage.session_dir import packed
from autoexp_tui.storage.trust import open_session_file

_BLOCK = 1 << 20
"""Bytes at a time: zlib lets other threads run while it works on a block."""
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class _Sum:
    """What two copies of the same bytes share."""

    length: int
    crc: int


def pack(part: Path, length: int) -> None:
    """Replace a part of `length` bytes by its compressed form.

    Raises:
        EnvironmentFailed: the disk refused; the part is as it was.
        JournalDamaged: it is not `length` bytes long, or did not come back from the
            disk as it was written; the part is as it was.
    """
    temporary = part.with_name(f".{part.name}.{secrets.token_hex(6)}.tmp")
    with explaining(part, "compress the journal"):
        try:
            written = _compress(part, temporary)
            _require_same(part, written, _Sum(length, written.crc))
            _require_same(part, written, _unpacked(temporary))
            os.replace(temporary, packed(part))
        except BaseException:
            with suppress(OSError):  # a left-over dot-file harms nobody
                temporary.unlink(missing_ok=True)
            raise
        sync_directory(part.parent)
        part.unlink()


def _compress(part: Path, temporary: Path) -> _Sum:
    mode = stat.S_IMODE(part.stat().st_mode) & 0o640
    descriptor = open_with_mode(temporary, os.O_WRONLY | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as raw, open_session_file(part) as source:
        # The name is left out and the time is fixed: equal parts, equal bytes.
        with gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as target:
            total = _sum(_passing(source, target))
        raw.flush()
        os.fsync(raw.fileno())
    return total


def _passing(source: BinaryIO, target: gzip.GzipFile) -> Iterator[bytes]:
    for block in _blocks(source):
        target.write(block)
        yield block


def _unpacked(temporary: Path) -> _Sum:
    try:
        with gzip.open(temporary, "rb") as file:
            return _sum(_blocks(cast(BinaryIO, file)))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return _Sum(-1, 0)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _sum(blocks: Iterator[bytes]) -> _Sum:
    length = crc = 0
    for block in blocks:
        length += len(block)
        crc = zlib.crc32(block, crc)
    return _Sum(length, crc)


def _require_same(part: Path, written: _Sum, other: _Sum) -> None:
    if written != other:
        raise JournalDamaged(
            f"{written.length} bytes were read to be compressed, {other.length} belong",
            str(part),
            "It stays as it is. `autoexp-sessions check` reads all of the journal.",
        )
