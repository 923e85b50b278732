"""Journal lines, plans, orders and live detail: what goes out comes back the same."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.conditions.kinds import Not, TimeReached
from autoexp_tui.events.events import JobEnded, MessageLogged, MetricsNoted, RunBegan
from autoexp_tui.model.commands import Kill, Order
from autoexp_tui.model.errors import JournalDamaged, ValidationFailed
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.snapshot import Curve, EngineView, Live
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.json_codec import (
    PLAN_VERSION,
    LiveDetail,
    Undecodable,
    Unencodable,
    build_validator,
    decode,
    decode_job,
    decode_plan,
    encode,
    encode_job,
    encode_live,
    encode_plan,
)
from autoexp_tui.storage.record_codec import decode_record, encode_record, parse_record
from autoexp_tui.telemetry.curves import Curves, ThinnedCurve, Trend

from .strategies import values_of

EVENTS: tuple[type, ...] = tuple(Event.kinds.values())
JOB = JobSpec(name="a", index=0, command=("x",), output_dir="/o", log_dir="/l")
PLAN = Plan(plan_id="p", name="n", state_dir="/s", jobs=(JOB,))


def recorded(event: Event, **fields: Any) -> Recorded:
    given_fields: dict[str, Any] = {
        "seq": 1,
        "epoch": 1,
        "t": 2.5,
        "event_id": "s-1-1",
        **fields,
    }
    return Recorded(event=event, **given_fields)


def line(**fields: object) -> bytes:
    envelope = {"v": 1, "seq": 1, "epoch": 1, "t": 1.0, "event_id": "e"}
    return json.dumps({**envelope, **fields}).encode()


def metrics(**values: float | str) -> MetricsNoted:
    return MetricsNoted(job="a", attempt=1, run=0, step=1, total=None, values=values)


@pytest.mark.parametrize("event_type", EVENTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_every_event_comes_back_as_it_went(
    event_type: type, data: st.DataObject
) -> None:
    event = data.draw(values_of(event_type))
    more, t = data.draw(st.booleans()), data.draw(st.floats(0, 1e12))
    record = recorded(event, cause_id="c", command_id="k", more=more, t=t)
    assert decode_record(encode_record(record)) == record


def test_a_record_is_one_flat_line() -> None:
    event = JobEnded(job="a", state=JobState.COMPLETED)
    assert encode_record(recorded(event)) == (
        b'{"v":1,"seq":1,"epoch":1,"t":2.5,"event_id":"s-1-1","type":"JobEnded",'
        b'"job":"a","state":"COMPLETED","cause":null,"why":null,"keeps":[],'
        b'"crc":"8a92186e"}\n'
    )


def test_every_flipped_bit_of_a_line_is_noticed() -> None:
    line = encode_record(recorded(MessageLogged(text="loss 2.5"), command_id="k"))
    for index in range(8 * (len(line) - 1)):
        flipped = bytearray(line)
        flipped[index // 8] ^= 1 << index % 8
        with pytest.raises(Undecodable):
            parse_record(bytes(flipped))


def test_a_line_without_a_check_is_one_of_an_earlier_version() -> None:
    record = recorded(MessageLogged(text="x"))
    earlier = encode_record(record).partition(b',"crc":"')[0] + b"}\n"
    assert decode_record(earlier) == record


@pytest.mark.parametrize("broken", ['"seq":"1"', '"seq":1.0', '"seq":true'])
def test_a_number_of_the_envelope_is_a_number(broken: str) -> None:
    whole = encode_record(recorded(MessageLogged(text="x"))).partition(b',"crc":"')[0]
    assert b'"seq":1' in whole
    with pytest.raises(Undecodable, match="seq: Input should be a valid integer"):
        parse_record(whole.replace(b'"seq":1', broken.encode()) + b"}\n")


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "\u2028", "\0", '"}\n{"', "\x1b["])
def test_hostile_text_stays_within_its_line(text: str) -> None:
    data = encode_record(recorded(MessageLogged(text=text)))
    assert data.count(b"\n") == 1
    assert decode_record(data).event == MessageLogged(text=text)


@pytest.mark.parametrize(
    ("number", "text"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")]
)
def test_a_number_that_json_lacks_becomes_text_where_text_may_stand(
    number: float, text: str
) -> None:
    data = encode_record(recorded(metrics(loss=number, step=1.5)))
    assert decode_record(data).event == metrics(loss=text, step=1.5)


def test_a_number_that_json_lacks_is_refused_where_only_numbers_stand() -> None:
    event = RunBegan(job="a", attempt=1, run=0, began_at=math.inf)
    with pytest.raises(Unencodable, match="began_at"):
        encode_record(recorded(event))
    with pytest.raises(Unencodable, match="number"):
        encode_record(recorded(MessageLogged(text="x"), t=math.nan))


def test_undecodable_bytes_of_a_file_name_become_the_replacement_character() -> None:
    data = encode_record(recorded(MessageLogged(text="log-\udcff.txt")))
    assert decode_record(data).event == MessageLogged(text="log-\ufffd.txt")


def test_an_object_of_another_library_is_refused() -> None:
    event = MessageLogged(text=object())  # type: ignore[arg-type]
    with pytest.raises(Unencodable, match="no JSON form"):
        encode_record(recorded(event))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not a line of JSON"),
        (b'{"v":1', "not a line of JSON"),
        (b"\xff\xfe", "not a line of JSON"),
        (b"\0\0\0", "not a line of JSON"),
        (b"12", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"{}", "no 'type'"),
        (line(type="JobsHeld"), "JobsHeld: jobs: Field required"),
        (line(type="JobsHeld", jobs=["a"], further=1), "further: Unexpected"),
        (line(type="JobsHeld", jobs="a"), "jobs: "),
        (line(type="JobEnded", job="a", state="ODD"), "state: "),
        (line(type=7), "unknown type of event 7"),
        (line(type="JobsHeld", jobs=[], seq="x"), "seq: Input should be a valid int"),
        (line(type="JobsHeld", jobs=[], t=None), "t: Input should be a valid num"),
        (line(type="JobsHeld", jobs=[], v="x"), "v: 'x' is no version"),
        (b'{"v":1,"seq":1,"epoch":1,"t":NaN}', "not a line of JSON"),
    ],
)
def test_a_line_that_does_not_read_is_refused_with_its_place(
    data: bytes, said: str
) -> None:
    with pytest.raises(JournalDamaged) as caught:
        decode_record(data, "journal.jsonl, line 7")
    assert caught.value.where == "journal.jsonl, line 7"
    assert said in caught.value.problem


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"type": "JobsHeld", "v": 2, "jobs": []}, r"version 2.*knows 1"),
        ({"type": "JobsHeld", "jobs": ["a"], "further": 1}, "further"),
        ({"type": "JobTeleported"}, "unknown type"),
    ],
)
def test_what_a_newer_version_wrote_is_refused_with_a_remedy(
    fields: dict[str, object], said: str
) -> None:
    with pytest.raises(JournalDamaged, match=said) as caught:
        decode_record(line(**fields))
    assert "newer autoexp-tui" in caught.value.hint


@given(plan=values_of(Plan))
@settings(max_examples=25, deadline=None)
def test_every_plan_comes_back_as_it_went(plan: Plan) -> None:
    plan = replace(plan, version=PLAN_VERSION)  # a newer one is refused
    assert decode_plan(encode_plan(plan)) == plan


@given(job=values_of(JobSpec))
@settings(max_examples=25, deadline=None)
def test_every_job_comes_back_as_it_went(job: JobSpec) -> None:
    assert decode_job(encode_job(job)) == job


@given(order=values_of(Order))
@settings(max_examples=50, deadline=None)
def test_every_order_comes_back_as_it_went(order: Order) -> None:
    assert decode(Order, encode(order), "order") == order


def test_a_plan_with_an_impossible_value_names_the_field() -> None:
    odd = replace(JOB, progress_total=math.inf)  # type: ignore[arg-type]
    with pytest.raises(ValidationFailed, match="progress_total"):
        encode_plan(replace(PLAN, jobs=(odd,)))


def test_a_plan_takes_no_text_for_a_number() -> None:
    data = encode_plan(PLAN).replace(b'"index":0', b'"index":"0"')
    with pytest.raises(JournalDamaged, match=r"jobs.0.index"):
        decode_plan(data)


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b'{"plan_id":"x"}'])
def test_what_is_no_plan_is_refused(data: bytes) -> None:
    with pytest.raises(JournalDamaged, match=r"plan\.json"):
        decode_plan(data, "plan.json")


def test_an_order_of_an_unknown_kind_is_refused() -> None:
    data = encode(Order(command_id="c", command=Kill(jobs=("a",))))
    with pytest.raises(JournalDamaged, match="command"):
        decode(Order, data.replace(b'"kill"', b'"explode"'), "order")


def test_an_order_takes_no_word_for_a_yes() -> None:
    data = b'{"command_id":"c","command":{"kind":"answer","job":"a","digest":"d",'
    with pytest.raises(JournalDamaged, match="approved"):
        decode(Order, data + b'"approved":"yes"}}', "order")


def test_live_detail_keeps_numbers_that_json_lacks() -> None:
    live = Live(
        metrics={"loss": math.nan},
        curves={"loss": Curve((1, 2), (math.inf, -math.inf))},
    )
    detail = LiveDetail(seq=1, t=2.0, engine=EngineView(role="live"), jobs={"a": live})
    back = decode(LiveDetail, encode_live(detail), "live", finite=False).jobs["a"]
    assert math.isnan(back.metrics["loss"])
    assert back.curves["loss"].values == (math.inf, -math.inf)


def test_importing_and_encoding_need_no_pydantic() -> None:
    script = (
        "import sys\n"
        "from autoexp_tui.storage.record_codec import encode_record\n"
        "from autoexp_tui.events.events import MessageLogged, Recorded\n"
        "encode_record(Recorded(seq=1, epoch=1, t=1.0, event_id='e',"
        " event=MessageLogged(text='x')))\n"
        "print(sorted(name for name in sys.modules if 'pydantic' in name))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_curves_that_nobody_looked_at_go_out_as_they_are() -> None:
    loss = ThinnedCurve()
    for step in range(3):
        loss.add(step, step / 2)
    live = Live(curves=Curves({"loss": loss}), trend=Trend(loss))
    detail = LiveDetail(seq=1, t=2.0, engine=EngineView(role="live"), jobs={"a": live})
    back = decode(LiveDetail, encode_live(detail), "live", finite=False).jobs["a"]
    assert back.curves["loss"].values == (0.0, 0.5, 1.0)
    assert tuple(back.trend) == (0.0, 0.5, 1.0)


def test_a_union_within_itself_is_read() -> None:
    spec = Not(condition=Not(condition=TimeReached(after_seconds=1.0)))
    inner = {"kind": "time", "after_seconds": 1.0}
    tree = {"kind": "not", "condition": {"kind": "not", "condition": inner}}
    assert build_validator(Not).validate_python(tree) == spec
