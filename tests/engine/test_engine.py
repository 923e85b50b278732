"""What the engine decides, seen through whole runs on fakes; what commands become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from autoexp_tui.conditions import kinds
from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.engine.command_handlers import handle_order
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.commands import Command, Order, Sender
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.decision_context import Draft
from autoexp_tui.model.event import Event, fold
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, JobState, why
from tests.engine.bench import Bench, alone, decide
from tests.engine.parts import OK, again, done, finds, on_end, says, writes
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


def test_a_command_that_was_carried_out_is_not_carried_out_again() -> None:
    state = session()
    draft = Draft(state, at(250.0), epoch=1)
    draft.command_id = "c1"
    draft.emit(events.MessageLogged(text="done"))
    fold(state, draft.records)
    assert handle(state, commands.Submit()) == []


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
