"""The lines of a journal: records as JSON, and back.

A line is one flat object: the envelope, `type` and the event's own fields; `more` first
where others of its commit follow. It ends with `crc`, the CRC-32 of the bytes before
it: a bit that flipped inside a text would read well. Old lines have none."""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events.events import EffectOrdered, JobReplanned
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.masking import MaskRules, mask_tree
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

Fields = dict[str, Any]

MORE: Final = b'{"more":true,'
"""How the line of a record begins that others of its commit follow."""
_CRC: Final = b',"crc":"'
_CRC_LENGTH: Final = len(b',"crc":"01234567"}\n')
_BOM: Final = b"\xef\xbb\xbf"
_BY_OTHERS: Final = "an editor or a copy rewrote the file"
VERSION: Final = 1
"""Of every type of event; whoever changes one has to read the older form as well."""
_ENVELOPE: Final = tuple(name for name in list_fields(Recorded) if name != "event")


def encode_record(record: Recorded) -> bytes:
    """The journal line of `record`, newline included; raises Unencodable."""
    event = record.event
    tree: Fields = {"more": True} if record.more else {}
    tree |= {"v": VERSION, "seq": record.seq, "epoch": record.epoch, "t": record.t}
    if record.utc is not None:  # else it was read from a journal of an older version
        tree |= {"utc": record.utc, "lived": record.lived}
    tree["event_id"] = record.event_id
    if record.cause_id:
        tree["cause_id"] = record.cause_id
    if record.command_id:
        tree["command_id"] = record.command_id
    tree["type"] = type(event).__name__
    for key in list_fields(type(event)):
        tree[key] = getattr(event, key)
    rest = to_json(tree, parse_record)[:-1]
    return rest + _format_crc(rest)


def has_secret(event: Event, line: bytes, rules: MaskRules) -> bool:
    """Whether a record, encoded as `line`, has a secret of the config in it."""
    if not isinstance(event, EffectOrdered | JobReplanned):
        return False
    if isinstance(event, EffectOrdered) and isinstance(event.effect, SubmitTasks):
        return False  # its token is none
    tree: object = json.loads(line)
    return mask_tree(tree, rules) != tree


def decode_record(line: bytes, where: str = "") -> Recorded:
    """The record of one journal line; raises JournalDamaged."""
    try:
        return parse_record(line)
    except Undecodable as error:
        hint = NEWER if error.newer else ""
        raise JournalDamaged(str(error), where, hint, newer=error.newer) from error


def parse_record(line: bytes) -> Recorded:
    """`decode_record` for who knows the place only afterwards; raises Undecodable."""
    tree = _read_object(line)
    if "type" not in tree:
        raise Undecodable("the record has no 'type'")
    name = tree.pop("type")
    envelope = {key: tree.pop(key) for key in _ENVELOPE if key in tree}
    # Numbers that are none are refused, which pydantic would read as what they say.
    if "v" not in envelope:
        raise Undecodable("the record has no 'v'")
    if type(number := envelope["v"]) is not int:
        raise Undecodable(f"v: {number!r:.80} is no version")
    for key in ("seq", "epoch"):
        if key in envelope and type(envelope[key]) is not int:
            raise Undecodable(f"{key}: Input should be a valid integer")
    for key in ("t", "utc", "lived"):
        if isinstance(envelope.get(key), str | bool):
            raise Undecodable(f"{key}: Input should be a valid number")
    if number != VERSION:
        problem = f"{name} has version {number}; this program knows {VERSION}"
        raise Undecodable(problem, newer=True)
    kind: Any = Event.kinds.find(name) if isinstance(name, str) else None
    if kind is None:
        raise Undecodable(f"unknown type of event {name!r}", newer=True)
    try:
        envelope["event"] = build_validator(kind).validate_python(tree)
    except ValueError as error:
        text = describe_error(error)
        # A field that we never had is one that came later.
        newer = text.endswith("Unexpected keyword argument") or names_unknown_kind(text)
        raise Undecodable(f"{name}: {text}", newer=newer) from error
    try:
        record: Recorded = build_validator(Recorded).validate_python(envelope)
    except ValueError as error:
        raise Undecodable(describe_error(error)) from error
    return record


def _read_object(line: bytes) -> Fields:
    """The JSON object of a line whose checksum, if it has one, is right."""
    if line[-1:] != b"\n":
        line += b"\n"
    rest, crc = line[:-_CRC_LENGTH], line[-_CRC_LENGTH:]
    if crc.startswith(_CRC):
        if crc != _format_crc(rest):
            raise _explain_rewriting(line)
        line = rest + b"}"
    try:
        tree = read_json(line)
    except ValueError as error:
        raise Undecodable(f"not a line of JSON: {error}") from error
    if not isinstance(tree, dict):
        raise Undecodable("not a JSON object")
    if "crc" in tree:
        raise _explain_rewriting(line)
    return tree


def _format_crc(rest: bytes) -> bytes:
    return b'%s%08x"}\n' % (_CRC, zlib.crc32(rest))


def _explain_rewriting(line: bytes) -> Undecodable:
    """How a line came to be another one than was written, as far as it shows."""
    if line.startswith(_BOM):
        return Undecodable(f"it begins with a byte-order mark: {_BY_OTHERS}")
    if line.endswith(b"\r\n"):
        return Undecodable(f"it ends in CR: {_BY_OTHERS}")
    return Undecodable("its bytes are not those that were written (CRC-32)")
