"""A session's journal on disk, read: its lines, its parts, the state they add up to.

A line is one flat object: the envelope, `type` and the event's own fields; `more` first
where others of its commit follow. It ends with `crc`, the CRC-32 of the bytes before
it: a bit that flipped inside a text would read well. Old lines have none.

Each engine writes a part of its own, `journal.<epoch>.jsonl`, which nobody else ever
writes, moves or removes. Its first record names its predecessor and how many bytes of
it count (the *seal*). The chain of seals, followed back from the newest part, is the
journal; what it does not reach is void: a deposed engine that wakes late cannot hurt.
Earlier versions went on in `journal.<epoch>.<segment>.jsonl`, and compressed parts."""

from __future__ import annotations

import gc
import gzip
import json
import re
import sys
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events.events import (
    EffectOrdered,
    EngineStarted,
    JobReplanned,
    JobsAdded,
    JournalRotated,
)
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.event import Event, IllegalTransition, Recorded, apply, unseen
from autoexp_tui.model.masking import MaskRules, mask_value
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.atomic import explain, explaining
from autoexp_tui.storage.json_codec import (
    NEWER,
    Undecodable,
    build_validator,
    describe_error,
    list_fields,
    names_unknown_kind,
    read_json,
    to_json,
)
from autoexp_tui.storage.session_dir import PartId, SessionDir, get_packed, parse_part
from autoexp_tui.storage.trust import open_checked

Fields = dict[str, Any]

MORE: Final = b'{"more":true,'
"""How the line of a record begins that others of its commit follow."""
_CRC: Final = b',"crc":"'
_CRC_LENGTH: Final = len(b',"crc":"01234567"}')
_TYPE: Final = b',"type":"'
"""Between the envelope and the fields of the event."""
_OTHER_BYTES: Final = "its bytes are not those that were written (CRC-32)"
VERSION: Final = 1
"""Of every type of event; whoever changes one has to read the older form as well."""


def encode_record(record: Recorded) -> bytes:
    """The journal line of `record`, newline included; raises Unencodable."""
    event = record.event
    tree: Fields = {"more": True} if record.more else {}
    tree |= {"v": VERSION, "seq": record.seq, "epoch": record.epoch, "t": record.t}
    if record.utc is not None:  # else it was read from a journal of an older version
        tree |= {"utc": record.utc, "lived": record.lived}
    tree["event_id"] = record.event_id
    causes = {"cause_id": record.cause_id, "command_id": record.command_id}
    tree |= {key: value for key, value in causes.items() if value}
    tree["type"] = type(event).__name__
    tree |= {key: getattr(event, key) for key in list_fields(type(event))}
    rest = to_json(tree, parse_record)[:-1]
    return rest + _format_crc(rest) + b"\n"


def has_secret(event: Event, line: bytes, rules: MaskRules) -> bool:
    """Whether a record, encoded as `line`, has a secret of the config in it."""
    if not isinstance(event, EffectOrdered | JobReplanned | JobsAdded):
        return False
    if isinstance(event, EffectOrdered) and isinstance(event.effect, SubmitTasks):
        return False  # its token is none
    tree: object = json.loads(line)
    return mask_value("", tree, rules) != tree


def decode_record(line: bytes, where: str = "", remedy: str = "") -> Recorded:
    """The record of one journal line; raises JournalDamaged."""
    try:
        return parse_record(line)
    except Undecodable as error:
        hint = NEWER if error.newer else remedy
        raise JournalDamaged(str(error), where, hint, newer=error.newer) from error


def parse_record(line: bytes) -> Recorded:
    """`decode_record` for who knows no place; raises Undecodable."""
    whole = _check_bytes(line)
    head, _, tail = whole.partition(_TYPE)  # no text has it: it escapes its quotes
    name, _, fields = tail.partition(b'"')
    kind: Any = Event.kinds.find(name.decode("utf-8", "replace"))
    if kind is None:
        raise _explain_refusal(whole, ValueError("no event has that name"))
    try:
        envelope = build_validator(dict).validate_json(head + b"}")
        _check_envelope(envelope)
        fields = b"{" + fields.removeprefix(b",")
        envelope["event"] = build_validator(kind).validate_json(fields)
        made = build_validator(Recorded).validate_python(envelope)
    except (ValueError, TypeError) as error:
        raise _explain_refusal(whole, error) from error
    return cast(Recorded, made)


def _check_bytes(line: bytes) -> bytes:
    """The JSON of a line whose checksum, if it has one, is right."""
    line = line.removesuffix(b"\n")
    rest, crc = line[:-_CRC_LENGTH], line[-_CRC_LENGTH:]
    if not crc.startswith(_CRC):
        return line
    if crc != _format_crc(rest):
        raise Undecodable(_OTHER_BYTES)
    return rest + b"}"


def _check_envelope(envelope: Fields) -> None:
    """Numbers that are none are refused, which pydantic would read as what they say;
    raises ValueError or TypeError."""
    get = envelope.get
    if get("v") != VERSION:
        raise ValueError(f"v: {get('v')!r:.80} is no version")
    for key in ("seq", "epoch"):
        if type(get(key)) is not int:
            raise TypeError(f"{key}: Input should be a valid integer")
    for key in ("t", "utc", "lived"):
        if isinstance(get(key), str | bool):
            raise TypeError(f"{key}: Input should be a valid number")


def _explain_refusal(line: bytes, error: Exception) -> Undecodable:
    """What is wrong with a line that does not read."""
    try:
        tree = read_json(line)
    except ValueError as odd:
        return Undecodable(f"not a line of JSON: {odd}")
    if not isinstance(tree, dict):
        return Undecodable("not a JSON object")
    if "crc" in tree:
        return Undecodable(_OTHER_BYTES)
    if "type" not in tree:
        return Undecodable("the record has no 'type'")
    name, number = tree["type"], tree.get("v")
    if type(number) is int and number != VERSION:
        problem = f"{name} has version {number}; this program knows {VERSION}"
        return Undecodable(problem, newer=True)
    if not isinstance(name, str) or Event.kinds.find(name) is None:
        return Undecodable(f"unknown type of event {name!r}", newer=True)
    text = describe_error(error)
    # A field that we never had is one that came later.
    newer = text.endswith("Unexpected keyword argument") or names_unknown_kind(text)
    return Undecodable(f"{name}: {text}", newer=newer)


def _format_crc(rest: bytes) -> bytes:
    return b'%s%08x"}' % (_CRC, zlib.crc32(rest))


_MOST_BYTES = 1 << 40
"""Of a part, which is read line by line; months of a hundred runs write some 10 GB."""
_LONGEST_LINE = 64 << 20
"""Bytes of one record; what goes on without a line end is none."""
RESTORE = "Bring back the file from a copy; what is in the journal is never guessed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Where a predecessor's part ends: what the first record of the next one says."""

    part: str = ""
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    id: PartId
    path: Path
    """As it was written; an old one may be there packed instead."""
    length: int | None = None
    """None: all whole commits count."""


def find_chain(session: SessionDir, *, upto: PartId | None = None) -> list[Part]:
    """The parts that count, oldest first; `upto`: as if no part came after; raises
    JournalDamaged."""
    with explaining(session.path, "list the journal"):
        there = session.list_parts()
    parts = [part for part in there if upto is None or part <= upto]
    chain: list[Part] = []
    length: int | None = None
    while parts:
        newest = parts.pop()
        part = Part(id=newest, path=session.get_part(*newest), length=length)
        first = read_first_record(part)
        if first is None and not chain:
            continue
        chain.append(part)
        sealed = get_seal(first.event if first else None)
        length = sealed.bytes
        before = parse_part(sealed.part)
        if sealed.part and before not in parts:
            problem = f"the part before it, {sealed.part!r}, is missing"
            raise JournalDamaged(problem, str(part.path), RESTORE)
        parts = parts[: parts.index(before) + 1] if before in parts else []
    return chain[::-1]


def get_seal(event: Event | None) -> Seal:
    """The seal that the first event of a part gives its predecessor."""
    if isinstance(event, EngineStarted | JournalRotated):
        return Seal(part=event.sealed_part, bytes=event.sealed_bytes)
    return Seal()


def find_seal(part: Part) -> Seal:
    """The seal that a successor gives a part: its known length, or its whole
    commits."""
    end = part.length
    if end is None:
        end = 0
        for line, start in read_lines(part):
            if line.endswith(b"\n") and not line.startswith(MORE):
                end = start + len(line)
    return Seal(part=part.path.name, bytes=end)


def describe_torn(part: Part, seal: Seal) -> str:
    """What stands behind the whole commits of a part; empty: nothing."""
    # Before a damaged part that a repair leaves out, a good one may be packed.
    size = part.path.stat().st_size if part.path.exists() else 0
    torn = size - seal.bytes
    return f"dropped {torn} bytes of an unfinished commit" if torn > 0 else ""


@contextmanager
def open_part(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a part as written, packed or not; raises JournalDamaged."""
    packed = get_packed(path)
    try:
        unpack = not path.exists() and packed.exists()
        with open_checked(packed if unpack else path, "session", _MOST_BYTES) as file:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if unpack else file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        problem = f"the compressed part does not unpack: {error}"
        raise JournalDamaged(problem, str(packed), RESTORE) from error
    except OSError as error:
        raise explain(error, path, "read the journal") from error


def read_first_record(part: Part) -> Recorded | None:
    """The record that opens a part; None: its first commit is not whole."""
    with open_part(part.path) as file:
        first = line = file.readline(_LONGEST_LINE)
        while line.startswith(MORE):
            line = file.readline(_LONGEST_LINE)
    return _parse_line(first, part, 1, 0) if line.endswith(b"\n") else None


def read_lines(part: Part, offset: int = 0) -> Iterator[tuple[bytes, int]]:
    """The lines of a part that count, each with its offset; at last one that is
    torn."""
    limit = sys.maxsize if part.length is None else part.length
    with open_part(part.path) as file:
        file.seek(offset)
        for line in iter(partial(file.readline, _LONGEST_LINE), b""):
            if offset + len(line) > limit:
                return
            yield line, offset
            offset += len(line)


def read_part(part: Part, offset: int = 0) -> Iterator[tuple[Recorded, int, int]]:
    """The records of a part, each with where its line begins and ends. What is torn off
    a part that nobody sealed is left out. Raises JournalDamaged."""
    commit: list[tuple[Recorded, int, int]] = []
    end = offset
    for number, (line, start) in enumerate(read_lines(part, offset), 1):
        if not line.endswith(b"\n"):
            break
        end = start + len(line)
        record = _parse_line(line, part, number, start)
        if record.more:
            commit.append((record, start, end))
            continue
        if commit:
            yield from commit
            commit.clear()
        yield record, start, end
    if part.length is not None and end < part.length:
        problem = f"{part.length - end} bytes are missing after byte {end}"
        raise JournalDamaged(problem, str(part.path), RESTORE)


def _parse_line(line: bytes, part: Part, number: int, offset: int) -> Recorded:
    try:
        return parse_record(line)
    except Undecodable:
        pass
    session = part.path.parent  # these words are not made for each good line
    remedy = (
        f"{RESTORE} `autoexp-sessions check {session.name} --repair --state-dir "
        f"{session.parent}` tells what going on without it would leave out."
    )
    return decode_record(line, f"{part.path}, line {number} (byte {offset})", remedy)


NO_PART: PartId = (0, 0)
"""Comes before every part."""
DOES_NOT_FOLLOW = (IllegalTransition, KeyError, IndexError, ValueError)
"""What `apply` raises of a record that does not follow from those before it."""
TAIL = 2000
"""How many of the newest events `load_state` hands out."""
_SEQ = re.compile(rb'"seq":(\d{1,18}),')


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    part: PartId = NO_PART
    """`NO_PART`: nothing was read."""
    start: int = 0
    offset: int = 0
    seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    state: SessionState
    events: tuple[Recorded, ...]
    position: Position


class StoredPlans(dict[str, Plan]):
    """The plans of a session by sha, read when they are first asked for."""

    def __init__(self, session: SessionDir) -> None:
        super().__init__()
        self._session = session

    def __missing__(self, sha: str) -> Plan:
        plan = self[sha] = self._session.load_plan(sha)
        return plan


def read_session(session: SessionDir) -> Iterator[Recorded]:
    """Every record that counts, oldest first; raises JournalDamaged."""
    seq = 0
    for part in find_chain(session):
        for record, *_ in read_records(part, seq):
            seq = record.seq
            yield record


def read_records(part: Part, seq: int) -> Iterator[tuple[Recorded, int, int]]:
    """The records of a part after record `seq`, with their places; raises
    JournalDamaged."""
    epoch = part.id[0]
    for found in read_part(part):
        record = found[0]
        seq += 1
        if record.seq != seq or record.epoch != epoch:
            raise JournalDamaged(
                f"record {record.seq} of epoch {record.epoch} stands where record "
                f"{seq} of epoch {epoch} belongs",
                f"{part.path} (byte {found[1]})",
                "Bring back the file from a copy; records are missing or out of order.",
            )
        yield found


def list_earlier(directory: str, seq: int, count: int) -> Sequence[Recorded]:
    """The newest `count` records before record `seq`, oldest first: only these are
    decoded; raises JournalDamaged."""
    page: list[Recorded] = []
    if not directory or seq <= 1:
        return page
    for part in reversed(find_chain(SessionDir(Path(directory)))):
        lines: deque[tuple[bytes, int]] = deque(maxlen=count - len(page))
        for line, offset in read_lines(part):
            number = _SEQ.search(line)
            if not line.endswith(b"\n") or (number and int(number[1]) >= seq):
                break
            lines.append((line, offset))
        page[:0] = [
            decode_record(line, f"{part.path} (byte {offset})")
            for line, offset in lines
        ]
        if len(page) >= count:
            break
    return page


def load_state(session: SessionDir, *, tail: int = TAIL) -> Loaded:
    """Fold a session that somebody else may be writing; raises JournalDamaged."""
    return fold_chain(session, find_chain(session), tail)


def fold_chain(session: SessionDir, chain: Sequence[Part], tail: int) -> Loaded:
    state = SessionState(plans=StoredPlans(session))
    newest: deque[Recorded] = deque(maxlen=tail)
    place = (NO_PART, 0, 0)
    # Nothing of what is loaded is garbage; looking for it takes twice the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with unseen(state, ours=True):
            for part in chain:
                for record, start, end in read_records(part, state.seq):
                    try:
                        apply(state, record)
                    except DOES_NOT_FOLLOW as error:
                        name = type(record.event).__name__
                        raise JournalDamaged(
                            f"record {record.seq} ({name}) does not follow from those "
                            f"before it: {error}",
                            f"{part.path}, before byte {end}",
                            "Bring back the file from a copy, or read it with the "
                            "version that wrote it.",
                        ) from error
                    newest.append(record)
                    place = (part.id, start, end)
    finally:
        if collecting:
            gc.enable()
    if state.base is None:
        _require_nothing_ran(session)
    at, start, end = place
    return Loaded(
        state=state,
        events=tuple(newest),
        position=Position(part=at, start=start, offset=end, seq=state.seq),
    )


def _require_nothing_ran(session: SessionDir) -> None:
    """In a session whose journal has no plan, nothing ever ran; else raises
    JournalDamaged."""
    try:
        ran = sorted(path.name for path in session.attempts.iterdir())
    except OSError:
        return
    if ran:
        of = f"{ran[0]} and {len(ran) - 1} more" if len(ran) > 1 else ran[0]
        raise JournalDamaged(
            f"it does not tell how the session began, and jobs have run: {of}",
            str(session.journal),
            "Records are gone: bring back the journal from a copy. "
            f"`autoexp-sessions check {session.id} --state-dir {session.state_dir}` "
            "tells what there is.",
        )
