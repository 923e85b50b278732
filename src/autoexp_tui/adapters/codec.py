"""Core values as JSON, and back: journal lines, plans, jobs, orders, live detail.

A journal line is one flat object, newline-terminated: the envelope (`v`, `seq`,
`epoch`, `t`, `event_id`, `cause_id`, `command_id`, `type`) and the event's own fields.
A record that others of its commit follow begins with `more`. Each line ends with `crc`,
the CRC-32 of the bytes before it: a bit that flipped inside a text would read well.
Lines of earlier versions have none, and are taken as they are.
Encoding is standard library alone; decoding checks with pydantic (`validators`), which
is imported at the first use. No file is touched here.

What JSON cannot hold: where a field's type admits text, `nan` and the infinities become
the texts `nan`, `inf`, `-inf`; a number-only field refuses them. Characters that no
encoding can write (undecodable bytes of a file name) become U+FFFD.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, partial
from typing import Any, TypeVar, cast, get_args

from autoexp_tui.adapters.line_check import (
    Rewritten,
    one_bit_back,
    rewritten,
    with_check,
    without_check,
)
from autoexp_tui.adapters.own_lines import Makers, read_own
from autoexp_tui.adapters.validators import complaint, validator
from autoexp_tui.core.commands import Order
from autoexp_tui.core.done import DoneWork
from autoexp_tui.core.errors import JournalDamaged, Problem, ValidationFailed
from autoexp_tui.core.events import Event, Recorded
from autoexp_tui.core.snapshot import EngineView, Live
from autoexp_tui.core.specs import JobSpec, Plan

T = TypeVar("T")
Fields = dict[str, Any]

MORE = b'{"more":true,'
"""How the line of a record begins that others of its commit follow."""

UPCASTERS: dict[tuple[str, int], Callable[[Fields], Fields]] = {}
"""(type, v) -> the fields of version v + 1. A type's version is 1 + its upcasters."""

PLAN_VERSION = 1
"""Of the plans that this program writes; it reads those before it."""

_EVENTS: dict[str, type] = {event.__name__: event for event in get_args(Event)}
_CHECKS: dict[str, Callable[[Fields], Event]] = {}
_MAKERS = Makers(_EVENTS)
_FIELD_NAMES: dict[Any, tuple[str, ...]] = {}
_SURROGATES = re.compile("[\ud800-\udfff]")
_NEWER = "It was written by a newer autoexp-tui: read it with that version."
_UNKNOWN_FIELD = "Unexpected keyword argument"


class Unencodable(ValueError):
    """A value that JSON has no way to write; names the field. A bug of its maker."""


class Undecodable(ValueError):
    """A record that does not read; `hint` is the next step."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint

    @property
    def newer(self) -> bool:
        """Whether a newer version wrote it."""
        return self.hint == _NEWER


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveDetail:
    """What live.json holds: the volatile side of a snapshot."""

    seq: int
    """The newest record when it was made."""
    t: float
    """UTC of the snapshot."""
    engine: EngineView
    jobs: Mapping[str, Live] = field(default_factory=dict)
    """Job name -> its volatile detail; jobs without one are left out."""


# ---------------------------------------------------------------------- records
def encode_record(record: Recorded) -> bytes:
    """The journal line of `record`, newline included.

    Raises:
        Unencodable: a field holds what JSON cannot, or its type does not allow.
    """
    event = record.event
    name = type(event).__name__
    tree: Fields = {"more": True} if record.more else {}
    tree |= {
        "v": current_version(name),
        "seq": record.seq,
        "epoch": record.epoch,
        "t": record.t,
        "event_id": record.event_id,
    }
    if record.cause_id:
        tree["cause_id"] = record.cause_id
    if record.command_id:
        tree["command_id"] = record.command_id
    tree["type"] = name
    for key in _field_names(type(event)):
        tree[key] = getattr(event, key)
    return with_check(_to_json(tree, _check_record))


def decode_record(line: bytes, where: str = "") -> Recorded:
    """The record of one journal line, a single flipped bit put right.

    Raises:
        JournalDamaged: it does not read; names `where`, what is wrong and the remedy.
    """
    try:
        return parse_record(line)
    except Undecodable as error:
        written = one_bit_back(line)
        if written is None:
            raise JournalDamaged(
                str(error), where, error.hint, newer=error.newer
            ) from error
        return parse_record(written)


def parse_record(line: bytes) -> Recorded:
    """`decode_record` for who knows the place only afterwards.

    Raises:
        Undecodable: it does not read.
    """
    try:
        line = without_check(line)
    except Rewritten as error:
        raise Undecodable(str(error)) from error
    return (not UPCASTERS and read_own(line, _MAKERS)) or _parse_any(line)


def _parse_any(line: bytes) -> Recorded:
    tree = _from_json(line)
    take = tree.pop
    try:
        name, v, seq, epoch = take("type"), take("v"), take("seq"), take("epoch")
        t, event_id = take("t"), take("event_id")
    except KeyError as error:
        raise Undecodable(f"the record has no {error}") from error
    cause_id, command_id = take("cause_id", ""), take("command_id", "")
    more = take("more", False)  # noqa: FBT003 - a default
    if not (type(seq) is type(epoch) is type(v) is int and isinstance(t, int | float)):
        raise Undecodable("v, seq, epoch or t is not a number")
    if type(more) is not bool:
        raise Undecodable("more is neither true nor false")
    if v != 1 or UPCASTERS:
        tree = _upcast(name, v, tree)
        v = current_version(name)
    return Recorded(
        seq=seq,
        epoch=epoch,
        t=float(t),
        event_id=event_id,
        cause_id=cause_id,
        command_id=command_id,
        event=_event(name, tree),
        more=more,
        v=v,
    )


def current_version(name: str) -> int:
    """The version of the event type `name` that this program writes."""
    version = 1
    while UPCASTERS and (name, version) in UPCASTERS:
        version += 1
    return version


def _upcast(name: str, v: int, tree: Fields) -> Fields:
    current = current_version(name)
    if v > current or v < 1:
        problem = f"{name} has version {v}; this program knows {current}"
        raise Undecodable(problem, _NEWER)
    for version in range(v, current):
        tree = UPCASTERS[name, version](tree)
    return tree


def _event(name: object, tree: Fields) -> Event:
    check = _CHECKS.get(name) if isinstance(name, str) else None
    try:
        return (check or _check_of(name))(tree)
    except Undecodable:
        raise
    except ValueError as error:
        text = complaint(error)
        # A field that we never had is one that came later.
        hint = _NEWER if text.endswith(_UNKNOWN_FIELD) else ""
        raise Undecodable(f"{name}: {text}", hint) from error


def _check_of(name: object) -> Callable[[Fields], Event]:
    """What makes an event of its fields, kept for the next one of its type."""
    if not isinstance(name, str) or name not in _EVENTS:
        raise Undecodable(f"unknown type of event {name!r}", _NEWER)
    check: Callable[[Fields], Event] = validator(_EVENTS[name]).validate_python
    _CHECKS[name] = check
    return check


# -------------------------------------------------------- plans, jobs and orders
def encode_plan(plan: Plan) -> bytes:
    """`plan` as one line of JSON: a manifest's bytes. Equal plans, equal bytes.

    Raises:
        ValidationFailed: a value that JSON cannot hold, with the field's name.
    """
    return _encode_for_people(plan, "plan")


def decode_plan(data: bytes, where: str = "plan") -> Plan:
    """The plan of a manifest, of this version or an earlier one.

    Raises:
        JournalDamaged: it does not read; names `where` and what is wrong. `newer` when
            a later version of this program wrote it.
    """
    try:
        plan = _decode(Plan, data, where)
    except JournalDamaged:
        _refuse_newer(_version_in(data), where)
        raise
    _refuse_newer(plan.version, where)
    return plan


def _refuse_newer(version: object, where: str) -> None:
    if isinstance(version, int) and version > PLAN_VERSION:
        problem = f"it has version {version}; this program knows {PLAN_VERSION}"
        raise JournalDamaged(problem, where, _NEWER, newer=True)


def _version_in(data: bytes) -> object:
    """The version that a plan says it has; None: it says none."""
    try:
        tree = _json_reader()(data)
    except ValueError:
        return None
    return tree.get("version") if isinstance(tree, dict) else None


def plan_sha(data: bytes) -> str:
    """The name under which a session keeps a plan of these bytes: 16 hex digits."""
    return hashlib.sha256(data).hexdigest()[:16]


def encode_job(job: JobSpec) -> bytes:
    """One job as JSON; raises as `encode_plan` does."""
    return _encode_for_people(job, job.name)


def decode_job(data: bytes, where: str = "job") -> JobSpec:
    """The job of `encode_job`; raises as `decode_plan` does."""
    return _decode(JobSpec, data, where)


def encode_order(order: Order) -> bytes:
    """A command on its way, as JSON.

    Raises:
        Unencodable: a field holds what JSON cannot.
    """
    return _encode(order)


def decode_order(data: bytes, where: str = "order") -> Order:
    """The order of `encode_order`; raises as `decode_plan` does."""
    return _decode(Order, data, where)


def encode_done(work: DoneWork) -> bytes:
    """What a completed job leaves, as JSON.

    Raises:
        Unencodable: a field holds what JSON cannot.
    """
    return _encode(work)


def decode_done(data: bytes, where: str = "done.json") -> DoneWork:
    """The work of `encode_done`; raises as `decode_plan` does."""
    return _decode(DoneWork, data, where)


# ------------------------------------------------------------------ live detail
def encode_live(detail: LiveDetail) -> bytes:
    """Volatile detail as JSON; nan and the infinities as Python's JSON spells them."""
    return _LOOSE.encode(detail).encode("utf-8", "replace")


def decode_live(data: bytes, where: str = "live.json") -> LiveDetail:
    """The detail of `encode_live`; raises as `decode_plan` does."""
    return _decode(LiveDetail, data, where, finite=False)


# ----------------------------------------------------------------- text and tree
def _field_names(model: Any) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(model)
    if names is None:
        names = _FIELD_NAMES[model] = tuple(part.name for part in fields(model))
    return names


def _plain(value: object) -> object:
    """What the JSON encoder asks about anything that JSON has no word for."""
    if type(value) in _FIELD_NAMES or is_dataclass(value):
        return {name: getattr(value, name) for name in _field_names(type(value))}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return list(value)
    raise Unencodable(f"a {type(value).__name__} has no JSON form: {value!r:.80}")


_COMPACT = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
    separators=(",", ":"),
    default=_plain,
)
_LOOSE = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_plain
)


def _encode(value: Any) -> bytes:
    model = type(value)
    return _to_json(value, lambda data: _decode(model, data, model.__name__))


def _encode_for_people(value: Plan | JobSpec, where: str) -> bytes:
    """A plan's values are the person's: what cannot be kept is theirs to mend."""
    try:
        return _encode(value)
    except Unencodable as error:
        problem = Problem(message=str(error), where=where)
        raise ValidationFailed(
            "the plan holds a value that JSON cannot", where, problems=(problem,)
        ) from error


def _to_json(value: object, check: Callable[[bytes], object]) -> bytes:
    """`value` as JSON; what JSON cannot hold goes the slow way, which is checked."""
    try:
        return _COMPACT.encode(value).encode()
    except Unencodable:
        raise
    except (ValueError, TypeError):  # nan, lone surrogates, strange keys
        data = _COMPACT.encode(mended(value)).encode()
    try:
        check(data)
    except (Undecodable, JournalDamaged) as error:
        raise Unencodable(str(error)) from error
    return data


def _check_record(data: bytes) -> None:
    parse_record(data)


def mended(value: object) -> object:
    """`value` as plain JSON data, numbers and characters of no JSON form replaced.

    Raises:
        Unencodable: a part of it has no JSON form at all.
    """
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [mended(part) for part in value]
    tree = cast("Mapping[object, object]", _plain(value))
    return {_mended_key(key): mended(part) for key, part in tree.items()}


def _mended_key(key: object) -> str:
    if not isinstance(key, str):
        raise Unencodable(f"a key that is not text: {key!r:.80}")
    return _SURROGATES.sub("\ufffd", key)


@cache
def _json_reader() -> Callable[[bytes], Any]:
    from pydantic_core import from_json

    return partial(from_json, allow_inf_nan=False)


def _from_json(line: bytes) -> Fields:
    try:
        tree = _json_reader()(line)
    except ValueError as error:
        raise Undecodable(f"not a line of JSON: {error}") from error
    if not isinstance(tree, dict):
        raise Undecodable("not a JSON object")
    if "crc" in tree:
        raise Undecodable(str(rewritten(line)))
    return tree


def _decode(model: type[T], data: bytes, where: str, *, finite: bool = True) -> T:
    check = validator(cast(Any, model), finite=finite)
    try:
        value = check.validate_json(data, strict=True)
    except ValueError as error:
        raise JournalDamaged(complaint(error), where) from error
    if value is None:
        raise JournalDamaged("it is null", where)
    return cast(T, value)
