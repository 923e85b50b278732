"""How the parts of a journal hang together: which count, in which order, up to where.

Each engine writes parts of its own, `journal.<epoch>.jsonl` and, when that has grown
long, `journal.<epoch>.<segment>.jsonl`, which nobody else ever writes, moves or
removes. The first record of a part names its predecessor and how many bytes of it count
(the *seal*). The chain of seals, followed back from the newest part, is the journal;
what it does not reach is void: late bytes of a deposed engine, and parts whose engine
died before their first commit was whole. A part that its own engine sealed may be there
compressed (`file_journal.pack`), and reads as before.

So a deposed engine that wakes late cannot hurt: nothing that it still does touches a
name or a byte that counts.
"""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from autoexp_tui.events.events import EngineStarted, JournalRotated
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.storage.atomic import explained, explaining
from autoexp_tui.storage.json_codec import NEWER, Undecodable
from autoexp_tui.storage.record_codec import MORE, parse_record
from autoexp_tui.storage.session_dir import PartId, SessionDir, packed, part_id
from autoexp_tui.storage.trust import open_session_file

_TAIL_BLOCK = 1 << 16
_MOST_BYTES = 1 << 30
"""Of a part: a further one is begun long before."""
_LONGEST_LINE = 64 << 20
"""Bytes of one record; what goes on without a line end is none."""
RESTORE = "Bring back the file from a copy; what is in the journal is never guessed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Where a predecessor's part ends: what the first record of the next one says."""

    part: str = ""
    """File name; empty: there is no predecessor."""
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file of the journal, and how much of it counts."""

    id: PartId
    path: Path
    """As it was written; it may be there packed instead."""
    length: int | None = None
    """None: all whole commits count."""
    sealed: bool = False
    """A successor has written `length` down; it can never be less."""

    @property
    def epoch(self) -> int:
        """Of the engine that wrote it, and of each of its records."""
        return self.id[0]


@dataclass(slots=True)
class Notices:
    """What a reader noticed that is no damage, as sentences for people."""

    lines: list[str] = field(default_factory=list)

    def add(self, path: Path, text: str) -> None:
        """Note `text` about a file."""
        self.lines.append(f"{path}: {text}")


def find_chain(
    session: SessionDir,
    notices: Notices | None = None,
    *,
    upto: PartId | None = None,
) -> list[Part]:
    """The parts that count, oldest first; empty when no record was ever written.

    `upto`: as if there were none after that one.

    Raises:
        JournalDamaged: the chain is broken.
        EnvironmentFailed: a part cannot be read.
    """
    with explaining(session.path, "list the journal"):
        parts = session.journal_parts()
    if upto is not None:
        parts = [part for part in parts if part <= upto]
    chain: list[Part] = []
    length: int | None = None
    while parts:
        newest = parts.pop()
        path = session.journal_part(*newest)
        part = Part(id=newest, path=path, length=length, sealed=bool(chain))
        first = read_first_record(part)
        if first is None and not chain:
            continue
        chain.append(part)
        sealed = seal_of(first.event if first else None)
        length = sealed.bytes
        parts = _cut_parts(parts, sealed, part)
    if notices is not None:
        _note_void(session, chain, notices)
    return chain[::-1]


@contextmanager
def open_part(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a part as they were written, packed or not.

    Raises:
        EnvironmentFailed: the file cannot be read.
        JournalDamaged: its compressed form is damaged.
    """
    try:
        with _open_file(path) as file:
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        problem = f"the compressed part does not unpack: {error}"
        raise JournalDamaged(problem, str(packed(path)), RESTORE) from error
    except OSError as error:
        raise explained(error, path, "read the journal") from error


@contextmanager
def _open_file(path: Path) -> Iterator[BinaryIO]:
    unpack = False
    try:
        file = open_session_file(path, _MOST_BYTES)
    except FileNotFoundError:
        unpack = packed(path).exists()
        if not unpack:
            raise
        file = open_session_file(packed(path), _MOST_BYTES)
    with file:
        yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if unpack else file


def read_first_record(part: Part) -> Recorded | None:
    """The record that opens a part; None while its first commit is not whole.

    Raises:
        JournalDamaged: its line is whole and does not read.
        EnvironmentFailed: the file cannot be read.
    """
    with open_part(part.path) as file:
        first = line = file.readline(_LONGEST_LINE)
        while line.startswith(MORE):
            line = file.readline(_LONGEST_LINE)
    if not line.endswith(b"\n"):
        return None
    try:
        return parse_record(first)
    except Undecodable as error:
        raise _describe_damage(error, part, 1, 0) from error


def find_seal(part: Part) -> Seal:
    """The seal that a successor gives the newest part: its whole commits, as of now.

    A part whose length is known already is sealed at that.

    Raises:
        EnvironmentFailed: the part cannot be read.
    """
    if part.length is not None:
        return Seal(part=part.path.name, bytes=part.length)
    with open_part(part.path) as file:
        end = _find_line_end(file, file.seek(0, os.SEEK_END))
        while end > 0:
            start = _find_line_end(file, end - 1)
            file.seek(start)
            if file.read(len(MORE)) != MORE:
                break
            end = start
    return Seal(part=part.path.name, bytes=end)


def _find_line_end(file: BinaryIO, end: int) -> int:
    """The offset behind the last newline before `end`; 0 when there is none."""
    while end > 0:
        start = max(0, end - _TAIL_BLOCK)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def read_part(
    part: Part, notices: Notices | None = None, offset: int = 0
) -> Iterator[tuple[Recorded, int, int]]:
    """The records of a part from `offset`, each with where its line begins and ends.

    The records of a commit come together: what is torn off at the end of a part that
    nobody sealed, a line or the rest of a commit, is left out, with a notice.

    Raises:
        JournalDamaged: a line does not read, or sealed bytes are missing.
        EnvironmentFailed: the part cannot be read.
    """
    limit = sys.maxsize if part.length is None else part.length
    commit: list[tuple[Recorded, int, int]] = []
    torn = 0
    with open_part(part.path) as file:
        file.seek(offset)
        lines = iter(partial(file.readline, _LONGEST_LINE), b"")
        for number, line in enumerate(lines, 1):
            end = offset + len(line)
            if end > limit:
                break
            if not line.endswith(b"\n"):
                torn = len(line)
                break
            try:
                record = parse_record(line)
            except Undecodable as error:
                raise _describe_damage(error, part, number, offset) from error
            found = (record, offset, end)
            offset = end
            if record.more:
                commit.append(found)
                continue
            if commit:
                yield from commit
                commit.clear()
            yield found
    if part.length is None and notices is not None:
        _note_torn(part, len(commit), torn, notices)
    if part.length is not None and offset < part.length:
        raise JournalDamaged(
            f"{part.length - offset} bytes are missing after byte {offset}",
            str(part.path),
            RESTORE,
        )


def _note_torn(part: Part, records: int, torn: int, notices: Notices) -> None:
    if torn:
        notices.add(part.path, f"dropped {torn} bytes of a torn line")
    if records:
        notices.add(part.path, f"dropped {records} records of an unfinished commit")


def _describe_damage(
    error: Undecodable, part: Part, number: int, offset: int
) -> JournalDamaged:
    hint = NEWER if error.newer else _describe_remedy(part)
    where = f"{part.path}, line {number} (byte {offset})"
    return JournalDamaged(str(error), where, hint, newer=error.newer)


def _describe_remedy(part: Part) -> str:
    session = part.path.parent
    return (
        f"{RESTORE} `autoexp-sessions check {session.name} --repair --state-dir "
        f"{session.parent}` tells what going on without it would leave out."
    )


def seal_of(event: Event | None) -> Seal:
    """The seal that the first event of a part gives its predecessor."""
    if isinstance(event, EngineStarted | JournalRotated):
        return Seal(part=event.sealed_part, bytes=event.sealed_bytes)
    return Seal()


def _cut_parts(parts: list[PartId], sealed: Seal, part: Part) -> list[PartId]:
    """`parts` up to the one that `part` sealed; none when it sealed nothing."""
    if not sealed.part:
        return []
    before = part_id(sealed.part)
    if before not in parts:
        raise JournalDamaged(
            f"the part before it, {sealed.part!r}, is missing",
            str(part.path),
            RESTORE,
        )
    return parts[: parts.index(before) + 1]


def _note_void(session: SessionDir, chain: list[Part], notices: Notices) -> None:
    counted = {part.id: part.length for part in chain}
    for part in session.journal_parts():
        path = session.journal_part(*part)
        counts = counted.get(part, 0)
        surplus = 0 if counts is None else _measure_size(path) - counts
        if surplus > 0:
            notices.add(path, f"{surplus} bytes that no later part counts")


def _measure_size(path: Path) -> int:
    """How many bytes a part has that was not packed; a packed one has no surplus."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
