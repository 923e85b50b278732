"""Older records of a session, a page at a time, from the newest backwards.

For looking at what a snapshot does not carry any more. Reads backwards over the lines
of a part, and over the parts, so that a page costs its own lines and what lies behind
them. Remembers where the last page began: the next one goes on from there. Never
writes, and holds no file open.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from autoexp_tui.model.event import Recorded
from autoexp_tui.storage.atomic import explaining
from autoexp_tui.storage.journal_parts import Part, find_chain, open_part
from autoexp_tui.storage.record_codec import decode_record
from autoexp_tui.storage.session_dir import SessionDir

_BLOCK = 1 << 18
_SEQ = re.compile(rb'"seq":(\d{1,18}),')


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a record's line begins."""

    seq: int
    path: Path
    offset: int


class EarlierRecords:
    """Pages of any session, by its directory. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: _Place | None = None

    def __call__(self, directory: str, seq: int, count: int) -> Sequence[Recorded]:
        """The newest `count` records before record `seq`, oldest first.

        Raises:
            JournalDamaged: one of them does not read, or the parts do not fit.
            EnvironmentFailed: a file cannot be read.
        """
        if not directory or seq <= 1:
            return ()
        with self._lock:
            return self._page(SessionDir(Path(directory)), seq, count)

    def _page(self, session: SessionDir, seq: int, count: int) -> Sequence[Recorded]:
        found: list[Recorded] = []
        for part, stop in self._parts(session, seq):
            with _whole(part.path) as file:
                for offset, line in lines_before(file, stop):
                    number = _SEQ.search(line)
                    if number is not None and int(number[1]) >= seq:
                        continue
                    record = decode_record(line, f"{part.path} (byte {offset})")
                    found.append(record)
                    self._last = _Place(record.seq, part.path, offset)
                    if len(found) >= count or record.seq == 1:
                        return found[::-1]
        return found[::-1]

    def _parts(self, session: SessionDir, seq: int) -> Iterator[tuple[Part, int]]:
        """The parts from the newest that matters, each with where to go back from."""
        last = self._last
        known = last if last is not None and last.seq == seq else None
        for part in reversed(find_chain(session)):
            if known is not None and part.path != known.path:
                continue
            stop = part.length if part.length is not None else _size(part.path)
            yield part, known.offset if known is not None else stop
            known = None


def _size(path: Path) -> int:
    with explaining(path, "read the journal"):
        return path.stat().st_size


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """A part to read backwards in; a packed one, which only reads on, unpacked."""
    with open_part(path) as file:
        yield file if path.exists() else BytesIO(file.read())


def lines_before(file: BinaryIO, stop: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines that end at or before byte `stop`, the last first, with offsets."""
    rest, torn = b"", True
    for start, block in _blocks_before(file, stop):
        lines = (block + rest).split(b"\n")
        rest = lines[0]
        end = start + sum(len(line) + 1 for line in lines) - 1
        if torn and len(lines) > 1:  # what follows the last newline is no line
            torn = False
            end -= len(lines[-1])
            lines[-1] = b""
        for line in reversed(lines[1:]):
            if line:
                yield end - len(line), line + b"\n"
            end -= len(line) + 1
    if rest and not torn:
        yield 0, rest + b"\n"


def _blocks_before(file: BinaryIO, stop: int) -> Iterator[tuple[int, bytes]]:
    while stop > 0:
        start = max(0, stop - _BLOCK)
        file.seek(start)
        yield start, file.read(stop - start)
        stop = start
