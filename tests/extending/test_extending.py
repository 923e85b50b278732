"""A condition, an action, an effect, an event and a policy that nothing of ours knows.

A real engine runs them, over the fake executor; their journal is read back.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.headless import Watching, finish, is_over
from autoexp_tui.config.specs import parse_action, parse_condition
from autoexp_tui.events.runs import EffectSettled
from autoexp_tui.events.session import JobsAdded, JoinRefused
from autoexp_tui.extend import DecisionContext, Headline
from autoexp_tui.model.commands import Command, Submit
from autoexp_tui.model.event import fold
from autoexp_tui.model.rules import Monitoring, StateEvent
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState
from autoexp_tui.planning.as_json import condition_to_json
from autoexp_tui.storage.journal import decode_record, encode_record
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from tests.cockpit.seat import cockpit
from tests.engine.bench import Bench
from tests.engine.parts import again, on_end, sample, says, writes
from tests.extending.conftest import bench
from tests.extending.disk_free import DiskFree
from tests.extending.run_tagged import RunTagged
from tests.extending.tag_run import TagRun
from tests.extending.tally import SetGoal, Tally, TallyPolicy
from tests.model.builders import happen, job, plan, started
from tests.support.memory_journal import Fault, Killed


def read_back(one: Bench) -> SessionState:
    """The state, folded from the bytes of its journal."""
    records = [decode_record(encode_record(r)) for r in one.world.session.records]
    return fold(SessionState(plans=one.world.session.plans), records)


def test_a_condition_is_written_kept_and_waited_for() -> None:
    value = {"class_name": "DiskFree", "report": "/report", "gib": 5}
    waits = parse_condition(value, "w")
    assert waits == DiskFree(report="/report", gib=5)
    assert condition_to_json(waits)["class_name"] == "DiskFree"
    of = plan(job("a", start_conditions=(waits,)))
    assert decode_plan(encode_plan(of)) == of
    one = bench(of)
    one.world.files.append("/report", b"3")
    one.run(10)
    assert one.job("a").state is JobState.WAITING
    status = one.job("a").start[0]
    assert status is not None
    assert status.why.arg("text") == "3 GiB are free"
    one.world.files.data["/report"] = b""
    one.world.files.append("/report", b"9")
    one.until(one.is_("a", JobState.COMPLETED))


def test_an_action_orders_an_effect_whose_answer_is_an_event() -> None:
    written = {
        "class_name": "TagRun",
        "tag": "best of {stage}",
        "conditions": [{"class_name": "MaxAttempts", "max_attempts": 3}],
    }
    action = parse_action(written, "w")
    assert isinstance(action, TagRun)
    rule = StateEvent(name="tag", state="success", actions=(action,))
    of = plan(job("a", stage="s"), monitoring=Monitoring(state_events=(rule,)))
    assert decode_plan(encode_plan(of)) == of
    one = bench(of)
    one.until(lambda: bool(one.happened(RunTagged)))
    assert one.job("a").metadata["tag"] == "best of s"
    assert read_back(one).jobs["a"] == one.job("a")


@pytest.mark.parametrize(("problem", "outcome"), [("", "ok"), ("disk full", "failed")])
def test_an_effect_is_carried_out_or_its_failure_told(
    problem: str, outcome: str
) -> None:
    rule = StateEvent(name="t", state="success", actions=(TagRun(tag="best"),))
    one = bench(plan(job("a"), monitoring=Monitoring(state_events=(rule,))))
    one.world.errands.problem = problem
    one.until(lambda: one.job("a").ended and not one.engine.state.pending)
    assert one.happened(EffectSettled)[-1].outcome == outcome
    tags = {} if problem else {"/out/a/tags.txt": "best\n"}
    assert one.world.errands.written == tags
    assert len(one.happened(RunTagged)) == len(tags)


def test_an_event_is_folded_told_and_read_back() -> None:
    state = started(plan(job("a")))
    (record,) = happen(state, RunTagged(job="a", tag="best"))
    assert state.jobs["a"].metadata["tag"] == "best"
    assert record.event.format_headline(0.0) == Headline("tagged", "best")
    assert decode_record(encode_record(record)) == record


async def test_a_policy_decides_is_resumed_and_keeps_the_session_open() -> None:
    one = bench(plan(job("a"), job("b", 1)))
    goal: Command = SetGoal(goal=3)
    one.order(goal)
    one.run(0.5)
    assert one.snapshots[-1].parts == {"tally": Tally(3)}
    one.die(gone_for=5)
    one.until(lambda: len(one.engine.state.parts["tally"].counted) == 2)
    assert read_back(one).parts == one.engine.state.parts
    one.run(2)
    shown = one.snapshots[-1]
    assert (shown.open, shown.open_ends) == (True, ("1 more to count",))
    async with cockpit(replace(shown)) as seat:
        seat.app.show_policy("tally")
        await seat.pilot.pause()
        assert "2 of 3" in seat.pane("policy")
        await seat.push(replace(shown, parts={"tally": Tally(7)}))
        assert "0 of 7" in seat.pane("policy")
        seat.app.show_policy("tally")
    one.order(SetGoal(goal=2))
    one.run(2)
    assert not one.snapshots[-1].open


def test_a_policy_reads_what_runs_tell_when_they_tell_it_and_nothing_of_runs_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decide(_: TallyPolicy, context: DecisionContext) -> None:
        live, points = context.find_run("a"), context.read_points("a", "loss")
        fact, gpus = live and live.find_value("loss"), live and live.find_gpus()
        reached, low = live and live.reached, gpus and gpus.low_seconds
        seconds = context.measure_run("a")
        read.append((reached, fact and fact.value, [*points], seconds, low))

    read: list[tuple[Any, ...]] = []
    monkeypatch.setattr(TallyPolicy, "decide", decide)
    samples = (sample(at, 5.0 if at else 90.0) for at in (0.0, 30.0, 60.0, 90.0, 150.0))
    told = says(20.0, "step: 1 loss: 3.0", "step: 2 loss: 2.0")
    first = writes(told, *samples, seconds=200.0, exit_code=1)
    second = writes(says(60.0, "step: 1 loss: 9.0"), seconds=100.0)
    rules = Monitoring(state_events=(on_end("crash", again(2)),))
    one = Bench(plan(job("a"), monitoring=rules), {"a": [[first], [second]]})
    one.order(SetGoal(goal=1))
    one.run(30)
    events, whole = len(one.world.session.records), [(1, 3.0), (2, 2.0)]
    assert read[-1][:4] == (2, 2.0, whole, 30.0)
    one.run(140)
    assert len(one.world.session.records) == events
    assert (read[-1][0], read[-1][4]) == (2, 120.0)
    one.until(lambda: one.tries("a") == 2)
    one.reach(a="RUNNING")
    one.run(20)
    assert read[-1][:3] == (None, None, [])
    one.start()  # another engine reads the log anew
    one.run(60)
    assert read[-1][:3] == (1, 9.0, [(1, 9.0)])
    one.ends()
    assert read[-1] == (1, 9.0, [(1, 9.0)], None, None)


def test_a_policy_reads_the_end_of_the_log_of_a_run_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decide(_: TallyPolicy, context: DecisionContext) -> None:
        for name in ("a", "b"):
            run = context.find_run(name)
            tails[name, context.job(name).state] = run.tail if run else ""

    tails: dict[tuple[str, str], str] = {}
    monkeypatch.setattr(TallyPolicy, "decide", decide)
    told = says(20.0, "MemoryError", "ended")
    scripts = {"a": [[writes(told, seconds=30.0, exit_code=1)]],
               "b": [[writes(told, seconds=30.0)]]}  # fmt: skip
    one = Bench(plan(job("a"), job("b")), scripts)
    one.order(SetGoal(goal=1))
    one.ends()
    assert tails["a", "RUNNING"] == tails["b", "COMPLETED"] == ""
    assert tails["a", "FAILED"] == "MemoryError\nended\n"


def pair_of(name: str = "p") -> Bench:
    """A session whose policy asks for two jobs, the second behind the first."""
    one = bench(plan(job("a"), job("b", 1)))
    one.order(SetGoal(goal=2, pair=name))
    return one


def test_jobs_of_a_policy_join_in_one_event_and_name_who_asked() -> None:
    one = pair_of()
    one.run(20)
    (added,) = one.happened(JobsAdded)
    assert added.list_jobs() == ("p1", "p2")
    second = one.job("p2")
    assert (second.policy, second.origin) == ("tally", "the pair p")
    assert second.spec.depends_on == ("p1",)
    assert second.attempts[0].ordered_at >= (one.job("p1").attempts[0].ended_at or 9e9)
    assert one.engine.state.asked == next(
        iter(one.engine.state.joined)
    )  # no person's plan
    assert read_back(one).jobs == one.engine.state.jobs


def test_a_policy_can_read_why_its_jobs_did_not_join() -> None:
    one = bench(plan(job("a"), job("p1", 1)))
    one.order(SetGoal(goal=2, pair="p"))
    one.run(5)
    refused = one.engine.state.refused_joins["the pair p"]
    assert "a job of this name" in one.words(refused)
    assert read_back(one).refused_joins == one.engine.state.refused_joins
    assert "p2" not in one.states()
    assert len(one.happened(JoinRefused)) == 1


def test_a_pair_whose_engine_is_killed_at_any_write_joins_once() -> None:
    whole = pair_of()
    whole.run(10)
    kills: Any = ("killed_before", "killed_after")
    for at_write, kind in product(range(1, whole.world.session.appends), kills):
        one = bench(plan(job("a"), job("b", 1)))
        one.world.session.faults[at_write] = Fault(kind=kind)
        for _ in range(2):  # what was not written is ordered again
            try:
                one.order(Submit())
                one.order(SetGoal(goal=2, pair="p"))
                one.run(10)
            except Killed:
                one.start()
        one.run(10)
        assert one.states() == whole.states(), (at_write, kind)
        assert len(one.happened(JobsAdded)) == 1
        assert len(one.executor.begun) == 4


def test_a_run_without_a_screen_ends_by_the_word_of_the_policies(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = bench(plan(job("a"), job("b", 1)))
    one.order(SetGoal(goal=3))
    one.run(10)
    shown, alone = one.snapshots[-1], Watching(wait_for_approval=False)
    assert not is_over(shown, alone)
    assert finish(shown, as_json=False) == ExitCode.JOBS_NOT_COMPLETED
    hopeless = replace(shown, parts={"tally": Tally(100)})
    assert (is_over(hopeless, Watching()), is_over(hopeless, alone)) == (False, True)
    assert finish(hopeless, as_json=False) == ExitCode.GUARD
    said = capsys.readouterr().err
    assert "still open: 1 more to count" in said
    assert "it cannot be reached" in said
