"""Lines of our own spelling read as the careful way reads them, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.events.events import EVENTS, JobEnded, MessageLogged, Recorded
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.codec import encode_record, parse_record
from autoexp_tui.storage.core_json import Undecodable
from autoexp_tui.storage.encoded_lines import Makers, read_own

from .strategies import values_of

MAKERS = Makers(dict(EVENTS))


def bare(record: Recorded) -> bytes:
    """A record's line as the reader gets it: its check is done."""
    return encode_record(record).partition(b',"crc":"')[0] + b"}"


def carefully(line: bytes) -> Recorded:
    """The record by the other road, which a blank after the brace leads to."""
    return parse_record(line.replace(b"{", b"{ ", 1))


def said(text: str = "x", **fields: Any) -> bytes:
    known: dict[str, Any] = {"seq": 7, "epoch": 2, "t": 2.5, "event_id": "s-2-7"}
    return bare(Recorded(event=MessageLogged(text=text), **{**known, **fields}))


@pytest.mark.parametrize("kind", EVENTS.values(), ids=list(EVENTS))
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_both_roads_lead_to_the_same_record(kind: type, data: st.DataObject) -> None:
    event = data.draw(values_of(kind))
    more, command = data.draw(st.booleans()), data.draw(st.sampled_from(["", "k"]))
    line = bare(
        Recorded(
            seq=7,
            epoch=2,
            t=data.draw(st.floats(0, 1e12)),
            event_id="s-2-7",
            command_id=command,
            event=event,
            more=more,
        )
    )
    own = read_own(line, MAKERS)
    assert own is None or own == carefully(line)


def test_what_the_encoder_writes_needs_no_careful_reading() -> None:
    event = JobEnded(job="a", state=JobState.FAILED)
    record = Recorded(seq=1, epoch=1, t=1.0, event_id="e", event=event, more=True)
    assert read_own(bare(record), MAKERS) == record


@pytest.mark.parametrize(
    "line",
    [
        said().replace(b"{", b"{ ", 1),
        said().replace(b'"seq":7', b'"seq":07'),
        said().replace(b'"v":1', b'"v":2'),
        said(event_id='a"b'),
        said().replace(b'"text":"x"', b'"text":"x","seq":9'),
        said().replace(b'"text":"x"', b'"text":7'),
        said().replace(b"MessageLogged", b"JobTeleported"),
        said().replace(b"}", b""),
        said().replace(b'"x"', b'"\xff"'),
        b"",
    ],
)
def test_any_other_spelling_is_left_to_the_careful_reading(line: bytes) -> None:
    assert read_own(line, MAKERS) is None


def test_a_line_that_neither_reads_is_refused_with_its_fault() -> None:
    with pytest.raises(Undecodable, match="text"):
        parse_record(said().replace(b'"text":"x"', b'"text":7'))


def test_a_time_of_any_size_is_read_back(  # large ones are spelt with an exponent
) -> None:
    for t in (0.0, 1e-7, 1732123456.789, 1e22):
        assert parse_record(said(t=t)).t == t


def test_the_other_road_is_the_careful_one() -> None:
    line = said().replace(b"{", b"{ ", 1)
    assert json.loads(line)["seq"] == carefully(said()).seq
