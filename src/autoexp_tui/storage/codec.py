"""The records of sessions as JSON, and back: journal lines, orders, live detail.

A journal line is one flat object, newline-terminated: the envelope (`v`, `seq`,
`epoch`, `t`, `utc`, `lived`, `event_id`, `cause_id`, `command_id`, `type`) and the
event's own fields.
A record that others of its commit follow begins with `more`. Each line ends with `crc`,
the CRC-32 of the bytes before it: a bit that flipped inside a text would read well.
Lines of earlier versions have none, and are taken as they are.
What JSON can hold of the model's values is `model_json`'s to say. No file is touched
here.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

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
from autoexp_tui.model.fast_replace import amended
from autoexp_tui.model.masking import MaskRules, mask_tree
from autoexp_tui.model.snapshot import EngineView, Live
from autoexp_tui.storage.model_json import (
    LOOSE,
    NEWER,
    Undecodable,
    build_validator,
    decode,
    describe_error,
    encode,
    field_names,
    read_json,
    to_json,
)

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

Fields = dict[str, Any]

MORE = b'{"more":true,'
"""How the line of a record begins that others of its commit follow."""
_TYPE = b',"type":"'
"""Where an event begins in a line that we wrote."""
_CRC = b',"crc":"'
_CRC_LENGTH = len(b',"crc":"01234567"}\n')
_BOM = b"\xef\xbb\xbf"
_BY_OTHERS = "an editor or a copy rewrote the file"

UPCASTERS: dict[tuple[str, int], Callable[[Fields], Fields]] = {}
"""(type, v) -> the fields of version v + 1. A type's version is 1 + its upcasters."""

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
    return _add_crc(to_json(tree, parse_record))


def holds_secret(event: Event, line: bytes, rules: MaskRules) -> bool:
    """Whether a record, encoded as `line`, has a secret of the config in it."""
    if not isinstance(event, EffectOrdered | JobReplanned):
        return False
    if isinstance(event, EffectOrdered) and isinstance(event.effect, SubmitTasks):
        return False  # its token is none
    tree: object = json.loads(line)
    return mask_tree(tree, rules) != tree


def decode_record(line: bytes, where: str = "") -> Recorded:
    """The record of one journal line.

    Raises:
        JournalDamaged: it does not read; names `where`, what is wrong and the remedy.
    """
    try:
        return parse_record(line)
    except Undecodable as error:
        raise JournalDamaged(
            str(error), where, error.hint, newer=error.newer
        ) from error


def parse_record(line: bytes) -> Recorded:
    """`decode_record` for who knows the place only afterwards.

    Raises:
        Undecodable: it does not read.
    """
    line = _strip_crc(line)
    return _parse_own(line) or _parse_any(line)


def _parse_own(line: bytes) -> Recorded | None:
    """The record of a line as this version writes it; None: read it the careful way.

    The envelope comes before the type, and the event is made straight from the JSON
    behind it: half the time of a tree. A text cannot hold a bare quotation mark, so
    the first `,"type":"` is the key.
    """
    envelope, _, rest = line.partition(_TYPE)
    name, _, fields = rest.partition(b'",')
    try:
        event = _validator(name.decode()).validate_json(b"{" + fields)
        record: Recorded = _envelope().validate_json(
            envelope + b',"event":null}', strict=True
        )
    except ValueError:
        return None
    if record.v != 1 or UPCASTERS:
        return None
    return amended(record, event=event)


def _parse_any(line: bytes) -> Recorded:
    """The record of a line of any spelling and version, or what is wrong with it."""
    tree = _read_object(line)
    if "type" not in tree:
        raise Undecodable("the record has no 'type'")
    name = tree.pop("type")
    names = [key for key in field_names(Recorded) if key in tree and key != "event"]
    if "v" not in names:
        raise Undecodable("the record has no 'v'")
    envelope = {"event": None, **{key: tree.pop(key) for key in names}}
    try:
        record: Recorded = _envelope().validate_json(json.dumps(envelope), strict=True)
    except ValueError as error:
        raise Undecodable(describe_error(error)) from error
    if record.v != 1 or UPCASTERS:
        tree = _upcast(name, record.v, tree)
    return amended(record, event=_event(name, tree), v=current_version(name))


@cache
def _envelope() -> SchemaValidator:
    return build_validator(Recorded, free=frozenset({(Recorded, "event")}))


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
    try:
        event: Event = _validator(name).validate_python(tree)
    except Undecodable:
        raise
    except ValueError as error:
        text = describe_error(error)
        # A field that we never had is one that came later.
        hint = NEWER if text.endswith(_UNKNOWN_FIELD) else ""
        raise Undecodable(f"{name}: {text}", hint) from error
    return event


def _validator(name: object) -> SchemaValidator:
    if not isinstance(name, str) or name not in EVENTS:
        raise Undecodable(f"unknown type of event {name!r}", NEWER)
    kind: Any = EVENTS[name]
    return build_validator(kind)


def _read_object(line: bytes) -> Fields:
    try:
        tree = read_json(line)
    except ValueError as error:
        raise Undecodable(f"not a line of JSON: {error}") from error
    if not isinstance(tree, dict):
        raise Undecodable("not a JSON object")
    if "crc" in tree:
        raise _rewritten(line)
    return tree


# -------------------------------------------------------------------- line checksum
def _add_crc(line: bytes) -> bytes:
    rest = line[:-1]
    return rest + _crc(rest)


def _crc(rest: bytes) -> bytes:
    return b'%s%08x"}\n' % (_CRC, zlib.crc32(rest))


def _strip_crc(line: bytes) -> bytes:
    """The JSON object of a line; raises `Undecodable` where the checksum differs."""
    if line[-1:] != b"\n":
        line += b"\n"
    rest, crc = line[:-_CRC_LENGTH], line[-_CRC_LENGTH:]
    if not crc.startswith(_CRC):
        return line
    if crc != _crc(rest):
        raise _rewritten(line)
    return rest + b"}"


def _rewritten(line: bytes) -> Undecodable:
    """How a line came to be another one than was written, as far as it shows."""
    if line.startswith(_BOM):
        return Undecodable(f"it begins with a byte-order mark: {_BY_OTHERS}")
    if line.endswith(b"\r\n"):
        return Undecodable(f"it ends in CR: {_BY_OTHERS}")
    return Undecodable("its bytes are not those that were written (CRC-32)")


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
