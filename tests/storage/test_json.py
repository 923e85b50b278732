"""Journal lines, plans, orders and live detail: what goes out comes back the same."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.events.events import JobEnded, MessageLogged, MetricsNoted, RunBegan
from autoexp_tui.model.commands import Kill, Order
from autoexp_tui.model.errors import JournalDamaged, ValidationFailed
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.snapshot import Curve, EngineView, Live, LiveDetail
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.journal import decode_record, encode_record, parse_record
from autoexp_tui.storage.json_codec import (
    PLAN_VERSION,
    Undecodable,
    Unencodable,
    decode,
    decode_plan,
    encode,
    encode_live,
    encode_plan,
)
from autoexp_tui.telemetry.curves import Curves, ThinnedCurve, Trend
from tests.model.builders import job, plan

from .strategies import values_of

PLAN = plan(job("a"))


def recorded(event: Event, **fields: Any) -> Recorded:
    given_fields = {"seq": 1, "epoch": 1, "t": 2.5, "event_id": "s-1-1", **fields}
    return Recorded(event=event, **given_fields)


SAID = recorded(MessageLogged(text="loss 2.5"), command_id="k")


def line(**fields: object) -> bytes:
    envelope = {"v": 1, "seq": 1, "epoch": 1, "t": 1.0, "event_id": "e"}
    whole = {**envelope, **fields}
    return json.dumps(whole, separators=(",", ":")).encode()


def test_a_place_and_a_trial_are_written_where_they_are_unusual_alone() -> None:
    usual = encode(job("a"))
    assert not {b'"place"', b'"trial"'} & {*usual.replace(b":", b",").split(b",")}
    for spec in (job("a"), job("a", place="beside"), job("a", trial=True)):
        assert decode(JobSpec, encode(spec), "a") == spec


# ---------------------------------------------------------------- out and back again
@pytest.mark.parametrize("event_type", Event.kinds.values(), ids=lambda k: k.__name__)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_every_event_comes_back_as_it_went(
    event_type: type, data: st.DataObject
) -> None:
    event = data.draw(values_of(event_type))
    more, t = data.draw(st.booleans()), data.draw(st.floats(0, 1e12))
    record = recorded(event, cause_id="c", command_id="k", more=more, t=t)
    assert decode_record(encode_record(record)) == record


@given(values_of(Plan), values_of(JobSpec), values_of(Order))
@settings(max_examples=25, deadline=None)
def test_every_plan_job_and_order_comes_back_as_it_went(
    plan: Plan, job: JobSpec, order: Order
) -> None:
    plan = replace(plan, version=PLAN_VERSION)  # a newer one is refused
    assert decode_plan(encode_plan(plan)) == plan
    assert decode(JobSpec, encode_plan(job), "job") == job
    assert decode(Order, encode(order), "order") == order


def test_a_record_is_one_flat_line() -> None:
    event = JobEnded(job="a", state=JobState.COMPLETED)
    assert encode_record(recorded(event)) == (
        b'{"v":1,"seq":1,"epoch":1,"t":2.5,"event_id":"s-1-1","type":"JobEnded",'
        b'"job":"a","state":"COMPLETED","cause":null,"why":null,"keeps":[],'
        b'"crc":"8a92186e"}\n'
    )
    for text in ("a\nb", "a\r\nb", "\u2028", "\0", '"}\n{"', "\x1b["):  # hostile ones
        data = encode_record(recorded(MessageLogged(text=text)))
        assert data.count(b"\n") == 1
        assert decode_record(data).event == MessageLogged(text=text)
    data = encode_record(recorded(MessageLogged(text="log-\udcff.txt")))
    assert decode_record(data).event == MessageLogged(text="log-\ufffd.txt")


def test_live_detail_keeps_numbers_that_json_lacks_and_unseen_curves() -> None:
    def back(**fields: Any) -> Live:
        jobs = {"a": Live(**fields)}
        detail = LiveDetail(seq=1, t=2.0, engine=EngineView(role="live"), jobs=jobs)
        found = decode(LiveDetail, encode_live(detail), "live", finite=False)
        return found.jobs["a"]

    curve = Curve((1, 2), (math.inf, -math.inf))
    live = back(metrics={"loss": math.nan}, curves={"loss": curve})
    assert math.isnan(live.metrics["loss"])
    assert live.curves["loss"].values == (math.inf, -math.inf)
    loss = ThinnedCurve()
    for step in range(3):
        loss.add(step, step / 2)
    live = back(curves=Curves({"loss": loss}), trend=Trend(loss))
    assert live.curves["loss"].values == tuple(live.trend) == (0.0, 0.5, 1.0)


def test_a_number_that_json_lacks_becomes_text_where_text_may_stand() -> None:
    noted = MetricsNoted(
        job="a", attempt=1, run=0, step=1, total=None,
        values={"loss": math.nan, "lr": 1.5, "grad": -math.inf},
    )  # fmt: skip
    told = replace(noted, values={"loss": "nan", "lr": 1.5, "grad": "-inf"})
    assert decode_record(encode_record(recorded(noted))).event == told


# ------------------------------------------------------------------ what is refused
def test_every_flipped_bit_of_a_line_is_noticed() -> None:
    line = encode_record(SAID)
    for index in range(8 * (len(line) - 1)):
        flipped = bytearray(line)
        flipped[index // 8] ^= 1 << index % 8
        with pytest.raises(Undecodable):
            parse_record(bytes(flipped))


def test_a_line_without_a_check_is_one_of_an_earlier_version() -> None:
    earlier = encode_record(SAID).partition(b',"crc":"')[0] + b"}\n"
    assert decode_record(earlier) == SAID
    for broken in (b'"seq":"1"', b'"seq":1.0', b'"seq":true'):
        with pytest.raises(Undecodable, match="seq: Input should be a valid integer"):
            parse_record(earlier.replace(b'"seq":1', broken))


BY_A_NEWER_VERSION = (
    "further: Unexpected",
    "unknown type of event 'JobTeleported'",
    "version 2; this program knows 1",
)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not a line of JSON"),
        (b'{"v":1', "not a line of JSON"),
        (b"\xff\xfe", "not a line of JSON"),
        (b'{"v":1,"seq":1,"epoch":1,"t":NaN}', "not a line of JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "no 'type'"),
        (line(type="JobsHeld"), "JobsHeld: jobs: Field required"),
        (line(type="JobsHeld", jobs=["a"], further=1), "further: Unexpected"),
        (line(type="JobsHeld", jobs="a"), "jobs: "),
        (line(type="JobEnded", job="a", state="ODD"), "state: "),
        (line(type=7), "unknown type of event 7"),
        (line(type="JobTeleported"), "unknown type of event 'JobTeleported'"),
        (line(type="JobsHeld", jobs=[], seq="x"), "seq: Input should be a valid int"),
        (line(type="JobsHeld", jobs=[], t=None), "t: Input should be a valid num"),
        (line(type="JobsHeld", jobs=[], v="x"), "v: 'x' is no version"),
        (line(type="JobsHeld", jobs=[], v=2), "version 2; this program knows 1"),
    ],
)
def test_a_line_that_does_not_read_is_refused_with_its_place(
    data: bytes, said: str
) -> None:
    with pytest.raises(JournalDamaged) as caught:
        decode_record(data, "journal.jsonl, line 7")
    assert caught.value.where == "journal.jsonl, line 7"
    assert said in caught.value.problem
    if said in BY_A_NEWER_VERSION:
        assert "newer autoexp-tui" in caught.value.hint


KILL = encode(Order(command_id="c", command=Kill(jobs=("a",))))
YES = (
    b'{"command_id":"c","command":'
    b'{"kind":"answer","job":"a","digest":"d","approved":"yes"}}'
)


def test_an_event_that_has_no_form_is_refused() -> None:
    text: Any = object()
    for event, t, said in (
        (RunBegan(job="a", attempt=1, run=0, began_at=math.inf), 1.0, "began_at"),
        (MessageLogged(text="x"), math.nan, "number"),
        (MessageLogged(text=text), 1.0, "no JSON form"),
    ):
        with pytest.raises(Unencodable, match=said):
            encode_record(recorded(event, t=t))


def test_a_plan_or_an_order_of_another_form_is_refused_by_its_field() -> None:
    odd = replace(job("a"), progress_total=math.inf)  # type: ignore[arg-type]
    with pytest.raises(ValidationFailed, match="progress_total"):
        encode_plan(replace(PLAN, jobs=(odd,)))
    with pytest.raises(JournalDamaged, match=r"jobs.0.index"):
        decode_plan(encode_plan(PLAN).replace(b'"index":0', b'"index":"0"'))
    for data in (b"", b"null", b"[]", b"{}", b'{"plan_id":"x"}'):
        with pytest.raises(JournalDamaged, match=r"plan\.json"):
            decode_plan(data, "plan.json")
    exploding = KILL.replace(b'"kill"', b'"explode"')
    for data, said in ((exploding, "command"), (YES, "approved")):
        with pytest.raises(JournalDamaged, match=said):
            decode(Order, data, "order")
