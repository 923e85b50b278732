"""What the engine decides, seen through whole runs on fakes; what commands become; how
conditions hold jobs back, let them go, and doom them, while the wall clock is set by an
hour or by a year."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, pairwise
from typing import Any, Final
from unittest.mock import Mock

import pytest

from autoexp_tui.conditions import kinds
from autoexp_tui.conditions.kinds import Approval, Composite, FileExists, TimeReached
from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.engine import loop
from autoexp_tui.engine.command_handlers import handle_order
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.commands import Command, Order, Sender
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.decision_context import DecisionContext, Draft
from autoexp_tui.model.event import Event, fold
from autoexp_tui.model.facts import CommandResult
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, JobState, Result, why
from tests.engine.bench import Bench, alone, decide, require
from tests.engine.parts import CRASH, LONG, OK, again, done, finds, on_end, says, writes
from tests.model.builders import (
    at,
    ended,
    happen,
    job,
    plan,
    run,
    started,
    submit_event,
)
from tests.support.fake_script import Fault, RunScript
from tests.support.sim_world import Files

SAVED = finds("saved", r"saved checkpoint (?P<n>\d+)", checkpoint_iteration="n")
SAVING = Monitoring(log_events=(SAVED,))
AFTER_A = (done("a"),)
ALL = frozenset({"*"})


def two(
    *attempts: RunScript,
    start: Sequence[Condition] = AFTER_A,
    cancel: Sequence[Condition] = (),
    rules: Monitoring = SAVING,
    **how: Any,
) -> Bench:
    """`b` depends on `a`, which has these attempts."""
    given = {"start_conditions": tuple(start), "cancel_conditions": tuple(cancel)}
    both = (job("a"), job("b", 1, depends_on=("a",), **given))
    scripts = {"a": [[run] for run in attempts]}
    return Bench(plan(*both, monitoring=rules), scripts, **how)


def test_time_conditions_wake_the_engine_which_publishes_nothing_while_idle() -> None:
    bench = alone(start_conditions=(kinds.TimeReached(after_seconds=80.0),))
    bench.run(5)
    before = len(bench.snapshots)
    bench.run(70)
    assert len(bench.snapshots) == before
    assert (bench.state("a"), bench.engine.next_wake() < 6.0) == ("WAITING", True)
    bench.reach(a="COMPLETED")


def test_cancel_wins_when_start_and_cancel_are_true_at_once() -> None:
    bench = two(OK, cancel=AFTER_A)
    bench.reach(b="CANCELLED")
    assert bench.cause("b") == "cancel_condition"


def test_a_restart_with_overrides_runs_once_they_are_composed() -> None:
    restart = on_end("crash", again(overrides=("lr={best}",), exclude_node=True))
    best = finds("best", r"best lr (?P<best>\S+)", best="best")
    rules = Monitoring(log_events=(best,), state_events=(restart,))
    crash = writes(says(1.0, "best lr 2e-4"), seconds=3.0, exit_code=1)
    bench = alone(crash, OK, rules=rules)
    bench.reach(a="COMPLETED")
    spec = bench.job("a").spec
    assert spec.overrides == ("lr=2e-4",)
    assert spec.resources.options["exclude"] == "fakehost"


ASKING = (*AFTER_A, kinds.Approval(prompt="publish?"))


def test_an_answer_is_bound_to_what_the_job_takes_from_its_executor() -> None:
    digests = set()
    for gpus in (1, 8):
        approval = (kinds.Approval(),)
        bench = alone(start_conditions=approval, resources=Resources(gpus=gpus))
        bench.step()
        digests.add(bench.ask("a").digest)
    assert len(digests) == 2


def test_an_approval_given_beforehand_or_on_resuming_is_a_policy_and_nobody_s() -> None:
    bench = two(OK, start=ASKING, approve=frozenset())
    bench.reach(a="RUNNING")
    assert bench.job("b").ask is None
    bench.until(lambda: bench.job("b").ask is not None)
    bench.world.auto_approve = frozenset({"other"})
    bench.die(30.0)
    bench.run(30)
    assert bench.state("b") == "WAITING"  # of another stage
    bench.world.auto_approve = ALL
    bench.die(30.0)
    for one in (bench, two(OK, start=ASKING, approve=ALL)):
        one.reach(b="COMPLETED")
        (answer,) = one.happened(events.ApprovalAnswered)
        assert (answer.by, answer.sender) == ("--approve", None)
        assert answer.policy == "--approve all"


def submitted(fault: Fault) -> Bench:
    bench = alone(OK, submit=False)
    bench.executor.faults.append(fault)
    bench.order(commands.Submit())
    return bench


def test_a_lost_answer_is_looked_up_by_name_and_a_lost_request_sent_again() -> None:
    told = {
        Fault.ANSWER_LOST: events.SubmissionUncertain,
        Fault.REQUEST_LOST: events.SubmissionAbsent,
    }
    for fault, event in told.items():
        bench = submitted(fault)
        bench.reach(a="COMPLETED")
        assert (len(bench.executor.begun), bench.tries("a")) == (1, 1)
        assert bench.happened(event)


def test_a_killed_submission_that_never_arrived_ends_cancelled() -> None:
    bench = submitted(Fault.REQUEST_LOST)
    bench.reach(a="SUBMIT_UNKNOWN")
    bench.kill("a")
    bench.reach(a="CANCELLED")
    assert not bench.executor.begun


def test_a_lost_run_is_fenced_before_the_job_runs_again() -> None:
    bench = alone(RunScript(seconds=3.0, ends="vanish"), OK)
    bench.reach(a="LOST")
    bench.resubmit("a")
    bench.reach(a="COMPLETED")
    orders = bench.ordered(object)
    assert orders.index(CancelTasks(tasks=(("a", 1),))) == len(orders) - 2


KILL, AGAIN = commands.Kill(jobs=("a",)), commands.Resubmit(jobs=("a",))
RELEASED = events.JobsReleased(jobs=("a",))
ASKED = events.ApprovalAsked(job="a", attempt=1, digest="d1", prompt="sure?")
YES = commands.Answer(job="a", digest="d1", approved=True)


def handle(
    state: SessionState, command: Command, command_id: str = "c1", **fields: Any
) -> list[Event]:
    context = decide(state)
    handle_order(context, Order(command_id=command_id, command=command, **fields))
    assert all(record.command_id == command_id for record in context.draft.records)
    return [record.event for record in context.draft.records]


def refused(state: SessionState, command: Command, **fields: Any) -> str:
    """Why a command is refused."""
    (event,) = handle(state, command, **fields)
    assert isinstance(event, events.CommandRefused)
    return event.why.code


def session(*happened: Event, jobs: str = "a", runs: bool = False) -> SessionState:
    state = started(plan(*(job(name, n) for n, name in enumerate(jobs))))
    if runs:
        run(state, "a")
    happen(state, *happened)
    return state


def test_what_cannot_be_carried_out_is_refused_with_its_reason() -> None:
    state = session()
    other = commands.Submit(jobs=("a",), plan_id="another")
    assert refused(state, other) == "other_plan"
    assert refused(state, commands.Kill(jobs=("x",))) == "no_such_job"
    run(state, "a")
    assert refused(state, KILL, expected={"a": 0}) == "stale"
    happen(state, events.SubmissionPaused(why=why("paused_by")))
    assert refused(state, commands.Pause()) == "nothing_to_do"


def test_what_was_not_chosen_is_held_and_submitted_later_holds_nobody_else() -> None:
    state = session(jobs="ab")
    first = handle(state, commands.Submit(jobs=("a",)))
    assert first == [RELEASED, events.JobsHeld(jobs=("b",))]
    happen(state, *first)
    later = handle(state, commands.Submit(jobs=("b",)), "c2")
    assert later == [events.JobsReleased(jobs=("b",))]


def test_killing_ends_a_waiting_job_at_once_and_orders_a_running_one_s_end_once() -> (
    None
):
    (end,) = handle(session(RELEASED), KILL)
    assert isinstance(end, events.JobEnded)
    assert (end.state, end.cause) == (JobState.CANCELLED, Cause.USER)
    state = session(runs=True)
    (order,) = handle(state, KILL)
    assert isinstance(order, events.EffectOrdered)
    assert order.effect == CancelTasks(tasks=(("a", 1),))
    happen(state, order)
    assert refused(state, KILL)


def test_an_engine_stops_when_what_a_stop_from_elsewhere_ends_has_ended() -> None:
    bench, stop = alone(LONG), commands.StopEngine(cancel_jobs=True)
    bench.reach(20, a="RUNNING")
    for number in ("s1", "s2"):
        bench.world.inbox.orders[number] = Order(command_id=number, command=stop)
    bench.until(lambda: bench.engine.stopped, 60)
    assert bench.states() == {"a": "CANCELLED"}
    assert not bench.happened(events.CommandRefused)


def test_a_command_that_was_carried_out_is_not_carried_out_again() -> None:
    state = session()
    draft = Draft(state, at(250.0), epoch=1)
    draft.command_id = "c1"
    draft.emit(events.MessageLogged(text="done"))
    fold(state, draft.records)
    assert handle(state, commands.Submit()) == []


def test_a_bug_over_one_order_is_reported_and_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def handle_or_fail(context: DecisionContext, order: Order) -> None:
        if isinstance(order.command, commands.Pause):
            raise KeyError("a bug")
        handle_order(context, order)

    monkeypatch.setattr(loop, "handle_order", handle_or_fail)
    one = Bench(plan(job("a"), job("b", 1)))
    one.order(commands.Pause())
    one.kill("b")
    one.ends()
    assert one.states() == {"a": "COMPLETED", "b": "CANCELLED"}
    assert not one.engine.state.paused
    (fault,) = one.happened(events.EngineFaulted)
    assert (fault.where, fault.problem) == ("Order", "KeyError: 'a bug'")


def test_an_answer_needs_its_digest_and_is_recorded_with_who_gave_it() -> None:
    state = session(RELEASED, ASKED)
    assert refused(state, commands.Answer(job="a", digest="d0", approved=True))
    sender = Sender(user="ada", host="login1", pid=7, checked=True)
    (given,) = handle(state, YES, sender=sender)
    assert isinstance(given, events.ApprovalAnswered)
    assert given.sender == sender


@pytest.mark.parametrize(
    ("sender", "code"),
    [
        (Sender(job="attempt 1 of a"), "sender_is_job"),
        (Sender(doubt="unnamed"), "sender_unnamed"),
        (Sender(doubt="ended"), "sender_ended"),
    ],
)
def test_only_a_person_answers_or_waives(sender: Sender, code: str) -> None:
    state = session(RELEASED, ASKED)
    for command in (YES, commands.Waive(job="a", condition=0)):
        assert refused(state, command, sender=sender) == code


def test_a_time_limit_that_is_known_is_noted_of_the_attempt_that_runs_alone() -> None:
    state = session(runs=True)
    noted = handle(state, commands.Acknowledge(limits=(("a", 1),)), by="ann")
    assert noted == [events.LimitAcknowledged(job="a", attempt=1, by="ann")]
    happen(state, *noted)
    for limit in (("b", 1), ("a", 2), ("a", 1)):  # of another, or known already
        known = commands.Acknowledge(limits=(limit,))
        assert refused(state, known) == "nothing_to_do"
    reason = why("retry", attempt=2)
    again = events.RetryOrdered(
        job="a", wait_seconds=0.0, from_checkpoint=True, why=reason
    )
    happen(state, ended("a"), again, submit_event("a", 2))
    assert [attempt.limit_seen for attempt in state.jobs["a"].attempts] == [True, False]


NEVER = FileExists(path="/never")
READY = kinds.LogPattern(log_path="/logs/x.log", pattern="ready")


def waiting(*start: Condition, cancel: tuple[Condition, ...] = ()) -> Bench:
    spec = job("j", start_conditions=start, cancel_conditions=cancel)
    return Bench(plan(spec), {"j": [[LONG]]})


def results(bench: Bench) -> list[str]:
    return [status.result.value for status in bench.job("j").start if status]


def code(bench: Bench, name: str) -> str:
    return bench.wait(name).why.code


@pytest.mark.parametrize(
    "spec",
    [READY, Composite(conditions=(READY, kinds.TimeReached(after_seconds=0.0)))],
)
def test_a_pattern_that_was_found_stays_found_until_the_job_is_brought_back(
    spec: Condition,
) -> None:
    bench = waiting(spec, NEVER)
    bench.files.append("/logs/x.log", b"ready\n")
    bench.run(5)
    del bench.files.data["/logs/x.log"]
    for _ in range(2):
        bench.run(10)
        assert results(bench) == ["pass", "wait"]
        bench.start()
    bench.run(5)
    assert len(bench.happened(events.ConditionLatched)) == 1
    bench.kill("j")
    bench.run(2)
    bench.resubmit("j")
    bench.run(5)
    assert results(bench) == ["wait", "wait"]


def test_a_condition_that_does_not_block_neither_holds_nor_ends_the_wait() -> None:
    spec = FileExists(path="/never", timeout_seconds=10.0, blocking=False)
    bench = waiting(spec, kinds.TimeReached(after_seconds=30.0))
    bench.run(20)
    assert results(bench) == ["fail", "wait"]
    bench.reach(20, j="RUNNING")


def test_a_command_that_keeps_failing_is_asked_ever_more_seldom_whatever_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = (CommandResult(n % 5 or None, f"{n} to go") for n in count())
    see = Mock(side_effect=answers)
    monkeypatch.setattr(Files, "_see", see)
    bench = waiting(kinds.CommandPasses(command=("check",)))
    bench.run(600)
    assert 5 < see.call_count < 20
    verdict = require(bench.live().start[0])
    assert f"{see.call_count - 1} to go" in bench.words(verdict.why)


def test_a_reference_whose_job_ended_without_the_value_is_doomed() -> None:
    best = FileExists(path="/out/{runtime.a.best}")
    b = job("b", 1, depends_on=("a",), start_conditions=(best,))
    bench = Bench(plan(job("a"), b), {"a": [[OK]]})
    bench.run(10)
    assert code(bench, "b") == "no_metadata"
    bench.reach(80, b="SKIPPED")
    assert bench.cause("b") == "upstream"


@pytest.mark.parametrize(
    "refused",
    [
        kinds.LogPattern(log_path="/x", pattern="a(?=b)"),
        kinds.FileContent(path="/x", pattern="a(?=b)", mode="regex"),
    ],
)
def test_a_stored_pattern_that_is_refused_waits_and_is_told_once(
    refused: Condition,
) -> None:
    bench = waiting(refused)
    bench.files.append("/x", b"ab\n")
    bench.run(120)
    assert (bench.state("j"), code(bench, "j")) == ("WAITING", "bad_condition")
    assert bench.warned() == ["bad_condition"]


@pytest.mark.parametrize(("blocking", "end"), [(True, "CANCELLED"), (False, "RUNNING")])
def test_a_file_cancels_what_runs_and_is_looked_at_no_more_or_is_only_shown(
    blocking: bool, end: str
) -> None:
    bench = waiting(cancel=(FileExists(path="/stop", blocking=blocking),))
    bench.reach(j="RUNNING")
    bench.files.append("/stop", b"x")
    bench.run(60)
    assert bench.state("j") == end
    if blocking:
        assert not bench.executor.living()
        assert bench.engine._outside_facts == {}
    else:
        assert require(bench.job("j").cancel[0]).result is Result.PASS


FATAL = kinds.LogPattern(log_path="/logs/a/current.log", pattern="FATAL", writer="a")


@pytest.mark.parametrize(
    "cancel",
    [FATAL, Composite(conditions=(FATAL,)), Composite(mode="any", conditions=(FATAL,))],
)
def test_a_log_whose_job_may_restart_cancels_nobody_however_it_is_asked(
    cancel: Condition,
) -> None:
    waits = {"start_conditions": (done("a"),), "cancel_conditions": (cancel,)}
    jobs = (job("a"), job("b", 1, depends_on=("a",), **waits))
    rules = Monitoring(state_events=(on_end("crash", again(2)),))
    first = writes(says(1.0, "FATAL: out of luck"), seconds=4.0, exit_code=1)
    fresh = writes(says(0.5, "a fresh start"), seconds=5.0)
    bench = Bench(plan(*jobs, monitoring=rules), {"a": [[first], [fresh]]})
    bench.reach(120, b="COMPLETED")


def chain(*attempts: RunScript, **rules: Any) -> Bench:
    """a -> b -> c, each waiting for a file of the one before."""
    specs = [job("a")]
    for index, (before, name) in enumerate(pairwise("abc"), 1):
        waits = (FileExists(path=f"/out/{before}/done", writer=before),)
        specs.append(job(name, index, depends_on=(before,), start_conditions=waits))
    the_plan = plan(*specs, monitoring=Monitoring(**rules))
    return Bench(the_plan, {"a": [[run] for run in attempts]})


@pytest.mark.parametrize("doomed", ["skip", "hold"])
def test_bringing_the_writer_back_brings_the_chain_back(doomed: str) -> None:
    bench = chain(CRASH, LONG, doomed=doomed)
    if doomed == "skip":
        bench.reach(200, c="SKIPPED")
        assert [bench.cause(n) for n in "bc"] == ["upstream", "upstream"]
    else:
        bench.until(lambda: code(bench, "b") == "doomed_file", 100)
    bench.resubmit("a")
    bench.run(5)
    assert bench.states() == {"a": "RUNNING", "b": "WAITING", "c": "WAITING"}
    assert code(bench, "b") == "file_missing"


def test_a_writer_that_will_be_tried_again_dooms_nobody() -> None:
    cooled = (*again(3).conditions, kinds.Cooldown(cooldown_seconds=300.0))
    rule = on_end("crash", replace(again(), conditions=cooled))
    bench = chain(CRASH, CRASH, LONG, state_events=(rule,))
    bench.run(200)
    assert bench.states() == {"a": "RETRYING", "b": "WAITING", "c": "WAITING"}
    assert code(bench, "b") == "file_missing"


HOUR: Final = 3600.0
YEAR: Final = 365.25 * 24 * HOUR
LASTS: Final = 12.0
"""Seconds of each timer."""
Step = pytest.mark.parametrize("step", [-HOUR, HOUR, -YEAR, YEAR])
Anew = pytest.mark.parametrize("anew", [False, True])


def waits(*start: Condition) -> Bench:
    """A job that waits, and has been judged."""
    bench = alone(LONG, start_conditions=start)
    bench.run(2)
    return bench


def set_clock(bench: Bench, step: float, anew: bool) -> Bench:
    """The wall clock is set, and perhaps another engine takes the session."""
    bench.clock.set_utc(bench.clock.utc() + step)
    if anew:
        bench.gap_seconds = max(0.0, step)
        bench.start()
    bench.run(1)
    return bench


def takes(bench: Bench, holds: Callable[[], bool]) -> float:
    """Seconds until something holds."""
    before = bench.clock.monotonic()
    bench.until(holds, 4 * LASTS)
    return bench.clock.monotonic() - before


ANSWERED: dict[str, Any] = {"timeout_seconds": LASTS, "on_timeout": "reject"}


@Step
@Anew
@pytest.mark.parametrize(
    ("start", "state", "cause"),
    [
        (FileExists(path="/x", timeout_seconds=LASTS), "SKIPPED", "start_timeout"),
        (TimeReached(after_seconds=LASTS), "RUNNING", None),
        (Approval(**ANSWERED), "SKIPPED", "approval_refused"),
    ],
)
def test_a_wait_is_over_in_its_time(
    start: Condition, state: str, cause: str | None, step: float, anew: bool
) -> None:
    bench = set_clock(waits(start), step, anew)
    took = takes(bench, lambda: bench.state("a") == state)
    assert LASTS - 4 <= took <= LASTS + 1
    assert bench.cause("a") == cause


@Step
@Anew
def test_only_a_run_that_stands_still_is_a_stall(step: float, anew: bool) -> None:
    lines = (says(float(at), f"step {at} loss 1.0") for at in range(1, 70, 5))
    bench = alone(writes(*lines), rules=Monitoring(stall_after_seconds=60.0))
    bench.run(30)
    set_clock(bench, step, anew)
    bench.run(40)
    assert "stall" not in bench.warned()
    bench.until(lambda: "stall" in bench.warned(), 240)


def test_a_time_of_day_comes_and_goes_away_by_the_wall_clock() -> None:
    at = waits().clock.utc() + HOUR
    bench = waits(TimeReached(at=at))
    bench.clock.set_utc(at)
    assert takes(bench, lambda: bench.tries("a") == 1) <= 6
    bench = set_clock(waits(TimeReached(at=at - HOUR + 60)), -HOUR, anew=False)
    bench.run(120)
    assert bench.state("a") == "WAITING"
