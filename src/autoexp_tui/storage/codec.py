"""The records of sessions as JSON, and back: journal lines, orders, live detail.

A journal line is one flat object, newline-terminated: the envelope (`v`, `seq`,
`epoch`, `t`, `utc`, `lived`, `event_id`, `cause_id`, `command_id`, `type`) and the
event's own fields.
A record that others of its commit follow begins with `more`. Each line ends with `crc`,
the CRC-32 of the bytes before it: a bit that flipped inside a text would read well.
Lines of earlier versions have none, and are taken as they are.
What JSON can hold of core values is `core_json`'s to say. No file is touched here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events.events import (
    EVENTS,
    EffectOrdered,
    Event,
    JobReplanned,
    Recorded,
)
from autoexp_tui.model.commands import Order
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.masking import MaskRules, mask_tree
from autoexp_tui.model.snapshot import EngineView, Live
from autoexp_tui.storage.core_json import (
    LOOSE,
    NEWER,
    Undecodable,
    decode,
    encode,
    field_names,
    json_reader,
    to_json,
)
from autoexp_tui.storage.encoded_lines import Makers, read_own
from autoexp_tui.storage.line_check import (
    Rewritten,
    one_bit_back,
    rewritten,
    with_check,
    without_check,
)
from autoexp_tui.storage.validators import complaint, validator

Fields = dict[str, Any]

MORE = b'{"more":true,'
"""How the line of a record begins that others of its commit follow."""

UPCASTERS: dict[tuple[str, int], Callable[[Fields], Fields]] = {}
"""(type, v) -> the fields of version v + 1. A type's version is 1 + its upcasters."""

_EVENTS: dict[str, type] = dict(EVENTS)
_CHECKS: dict[str, Callable[[Fields], Event]] = {}
_MAKERS = Makers(_EVENTS)
_UNKNOWN_FIELD = "Unexpected keyword argument"


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
        "utc": record.utc,
        "lived": record.lived,
        "event_id": record.event_id,
    }
    if record.utc is None:  # read from a journal of an older version
        del tree["utc"], tree["lived"]
    if record.cause_id:
        tree["cause_id"] = record.cause_id
    if record.command_id:
        tree["command_id"] = record.command_id
    tree["type"] = name
    for key in field_names(type(event)):
        tree[key] = getattr(event, key)
    return with_check(to_json(tree, _check_record))


def holds_secret(event: Event, line: bytes, rules: MaskRules) -> bool:
    """Whether a record, encoded as `line`, has a secret of the config in it."""
    if not isinstance(event, EffectOrdered | JobReplanned):
        return False
    if isinstance(event, EffectOrdered) and isinstance(event.effect, SubmitTasks):
        return False  # its token is none
    tree: object = json.loads(line)
    return mask_tree(tree, rules) != tree


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
    utc, lived = take("utc", None), take("lived", None)
    if not all(part is None or type(part) in (int, float) for part in (utc, lived)):
        raise Undecodable("utc or lived is not a number")
    if type(more) is not bool:
        raise Undecodable("more is neither true nor false")
    if v != 1 or UPCASTERS:
        tree = _upcast(name, v, tree)
        v = current_version(name)
    return Recorded(
        seq=seq,
        epoch=epoch,
        t=float(t),
        utc=None if utc is None else float(utc),
        lived=None if lived is None else float(lived),
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
        raise Undecodable(problem, NEWER)
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
        hint = NEWER if text.endswith(_UNKNOWN_FIELD) else ""
        raise Undecodable(f"{name}: {text}", hint) from error


def _check_of(name: object) -> Callable[[Fields], Event]:
    """What makes an event of its fields, kept for the next one of its type."""
    if not isinstance(name, str) or name not in _EVENTS:
        raise Undecodable(f"unknown type of event {name!r}", NEWER)
    check: Callable[[Fields], Event] = validator(_EVENTS[name]).validate_python
    _CHECKS[name] = check
    return check


# ----------------------------------------------------------------------- orders
def encode_order(order: Order) -> bytes:
    """A command on its way, as JSON.

    Raises:
        Unencodable: a field holds what JSON cannot.
    """
    return encode(order)


def decode_order(data: bytes, where: str = "order") -> Order:
    """The order of `encode_order`; raises as `decode_plan` does."""
    return decode(Order, data, where)


# ------------------------------------------------------------------ live detail
def encode_live(detail: LiveDetail) -> bytes:
    """Volatile detail as JSON; nan and the infinities as Python's JSON spells them."""
    return LOOSE.encode(detail).encode("utf-8", "replace")


def decode_live(data: bytes, where: str = "live.json") -> LiveDetail:
    """The detail of `encode_live`; raises as `decode_plan` does."""
    return decode(LiveDetail, data, where, finite=False)


# ----------------------------------------------------------------------- pieces
def _check_record(data: bytes) -> None:
    parse_record(data)


def _from_json(line: bytes) -> Fields:
    try:
        tree = json_reader()(line)
    except ValueError as error:
        raise Undecodable(f"not a line of JSON: {error}") from error
    if not isinstance(tree, dict):
        raise Undecodable("not a JSON object")
    if "crc" in tree:
        raise Undecodable(str(rewritten(line)))
    return tree
