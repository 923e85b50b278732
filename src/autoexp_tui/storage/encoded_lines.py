"""Journal lines exactly as our encoder writes them, read in half the time.

Every line of a session is read at each start, and nearly every one has the encoder's
own spelling: the envelope first, in one order, without blanks. Such a line needs no
tree of its own: the event is checked and made straight from the JSON. Whatever looks
different is None here, and `codec` reads it, or says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from autoexp_tui.events.events import Recorded
from autoexp_tui.model.fast_replace import setters
from autoexp_tui.storage.validators import validator

if TYPE_CHECKING:
    from autoexp_tui.events.events import Event

Make: TypeAlias = "Callable[[bytes], Event]"

_TEXT = rb'([^"\\\x00-\x1f]*)'
_WHOLE = rb"(0|[1-9]\d{0,17})"
_SECONDS = rb"((?:0|[1-9]\d{0,17})(?:\.\d{1,20})?)"
_ENVELOPE = re.compile(
    rb'\{("more":true,)?"v":1,"seq":'
    + _WHOLE
    + rb',"epoch":'
    + _WHOLE
    + rb',"t":'
    + _SECONDS
    + rb'(?:,"utc":'
    + _SECONDS
    + rb',"lived":'
    + _SECONDS
    + rb")?"
    rb',"event_id":"' + _TEXT + rb'",(?:"cause_id":"' + _TEXT + rb'",)?'
    rb'(?:"command_id":"' + _TEXT + rb'",)?"type":"(\w{1,60})",'
)

_NEW = Recorded.__new__
# A frozen record's own __init__ takes three times as long as its setters.
(
    _SEQ,
    _EPOCH,
    _T,
    _UTC,
    _LIVED,
    _EVENT_ID,
    _CAUSE_ID,
    _COMMAND_ID,
    _EVENT,
    _MORE,
    _V,
) = setters(Recorded)


class Makers(dict[bytes, Make]):
    """What makes an event of its fields' JSON, by the event's type."""

    def __init__(self, kinds: dict[str, type]) -> None:
        super().__init__()
        self._kinds = {name.encode(): kind for name, kind in kinds.items()}

    def __missing__(self, name: bytes) -> Make:
        if name not in self._kinds:
            raise ValueError(f"unknown type of event {name!r}")
        make: Make = validator(_any(self._kinds[name])).validate_json
        self[name] = make
        return make


def read_own(line: bytes, makers: Makers) -> Recorded | None:
    """The record of a line of ours in version 1; None: read it the careful way."""
    found = _ENVELOPE.match(line)
    if found is None:
        return None
    more, seq, epoch, t, utc, lived, *rest = found.groups(b"")
    event_id, cause_id, command_id, name = rest
    record = _NEW(Recorded)
    try:
        _SEQ(record, int(seq))
        _EPOCH(record, int(epoch))
        _T(record, float(t))
        _UTC(record, float(utc) if utc else None)
        _LIVED(record, float(lived) if utc else None)
        _EVENT_ID(record, event_id.decode())
        _CAUSE_ID(record, cause_id.decode())
        _COMMAND_ID(record, command_id.decode())
        _EVENT(record, makers[name](b"{" + line[found.end() :]))
        _MORE(record, more != b"")
        _V(record, 1)
    except ValueError:
        return None
    return record


def _any(kind: type) -> Any:
    return kind
