from __future__ import annotations

import pytest

from autoexp_tui.effects.effects import CancelTasks, ComposeJob
from autoexp_tui.engine.command_handlers import handle_order
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.commands import Command, Order, Sender
from autoexp_tui.model.decision_context import (
    Draft,
)
from autoexp_tui.model.event import Event, fold
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, JobState, why
from tests.engine.bench import decide
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


def handle_ordered(
    state: SessionState, command: Command, command_id: str = "c1", **fields: object
) -> list[Event]:
    context = decide(state, 300.0)
    order = Order(command_id=command_id, command=command, **fields)  # type: ignore[arg-type]
    handle_order(context, order)
    assert all(record.command_id == command_id for record in context.draft.records)
    return [record.event for record in context.draft.records]


def chain() -> SessionState:
    """a fails; b was skipped because of a; c because of b; d is its own master."""
    state = started(
        plan(
            job("a"),
            job("b", 1, depends_on=("a",)),
            job("c", 2, depends_on=("b",)),
            job("d", 3),
        )
    )
    run(state, "a")
    happen(state, ended("a"), events.JobEnded(job="a", state=JobState.FAILED))
    happen(state, events.JobsReleased(jobs=("b", "c", "d")))
    for name in ("b", "c"):
        happen(
            state,
            events.JobEnded(job=name, state=JobState.SKIPPED, cause=Cause.UPSTREAM),
        )
    return state


def refused(
    state: SessionState, command: Command, command_id: str = "c1", **fields: object
) -> str:
    """Why a command is refused."""
    (event,) = handle_ordered(state, command, command_id, **fields)
    assert isinstance(event, events.CommandRefused)
    return event.why.code


def test_what_cannot_be_carried_out_is_refused_with_its_reason() -> None:
    state = started(plan(job("a")))
    other = commands.Submit(jobs=("a",), plan_id="another")
    assert refused(state, other) == "other_plan"
    assert refused(state, commands.Kill(jobs=("x",))) == "no_such_job"
    run(state, "a")
    assert refused(state, commands.Kill(jobs=("a",)), expected={"a": 0}) == "stale"
    happen(state, events.SubmissionPaused(why=why("paused_by")))
    assert refused(state, commands.Pause()) == "nothing_to_do"


def test_what_was_not_chosen_is_held() -> None:
    state = started(plan(job("a"), job("b", 1)))
    assert handle_ordered(state, commands.Submit(jobs=("a",))) == [
        events.JobsReleased(jobs=("a",)),
        events.JobsHeld(jobs=("b",)),
    ]


def test_submitting_held_jobs_later_holds_nobody_else() -> None:
    state = started(plan(job("a"), job("b", 1)))
    happen(state, events.JobsReleased(jobs=("a",)), events.JobsHeld(jobs=("b",)))
    assert handle_ordered(state, commands.Submit(jobs=("b",))) == [
        events.JobsReleased(jobs=("b",))
    ]


def test_killing_a_running_job_orders_its_end_once() -> None:
    state = started(plan(job("a")))
    run(state, "a")
    (order,) = handle_ordered(state, commands.Kill(jobs=("a",)))
    assert isinstance(order, events.EffectOrdered)
    assert order.effect == CancelTasks(tasks=(("a", 1),))
    happen(state, order)
    assert refused(state, commands.Kill(jobs=("a",)), "c2")


def test_killing_a_waiting_job_ends_it_at_once() -> None:
    state = started(plan(job("a")))
    happen(state, events.JobsReleased(jobs=("a",)))
    (end,) = handle_ordered(state, commands.Kill(jobs=("a",)))
    assert isinstance(end, events.JobEnded)
    assert (end.state, end.cause) == (JobState.CANCELLED, Cause.USER)


def test_a_command_that_was_carried_out_is_not_carried_out_again() -> None:
    state = started(plan(job("a")))
    draft = Draft(state, at(250.0), epoch=1)
    draft.note_cause(command_id="c1")
    draft.emit(events.MessageLogged(text="done"))
    fold(state, draft.records)
    assert handle_ordered(state, commands.Submit()) == []


def test_resubmitting_brings_back_what_was_skipped_because_of_it() -> None:
    happened = handle_ordered(chain(), commands.Resubmit(jobs=("a",)))
    assert [e.job for e in happened if isinstance(e, events.JobRevived)] == [
        "a",
        "b",
        "c",
    ]


def test_a_job_that_a_person_skipped_stays_skipped() -> None:
    state = chain()
    happen(state, events.JobRevived(job="b", why=why("x")))
    happen(state, events.JobEnded(job="b", state=JobState.SKIPPED, cause=Cause.USER))
    happened = handle_ordered(state, commands.Resubmit(jobs=("a",)))
    assert [e.job for e in happened if isinstance(e, events.JobRevived)] == ["a"]


def test_overrides_are_composed_before_the_job_comes_back() -> None:
    (order,) = handle_ordered(
        chain(), commands.Resubmit(jobs=("a",), overrides=("x=1",))
    )
    assert isinstance(order, events.EffectOrdered)
    assert order.effect == ComposeJob(job="a", overrides=("x=1",))


def test_other_nodes_and_limits_need_no_composition() -> None:
    happened = handle_ordered(
        chain(),
        commands.Resubmit(
            jobs=("a",), exclude_nodes=("n1", "n2"), time_limit_seconds=60
        ),
    )
    replanned = happened[0]
    assert isinstance(replanned, events.JobReplanned)
    assert replanned.spec.resources.options["exclude"] == "n1,n2"
    assert replanned.spec.resources.time_limit_seconds == 60


def test_an_answer_must_carry_the_digest_that_was_asked() -> None:
    state = started(plan(job("a")))
    happen(state, events.ApprovalAsked(job="a", attempt=1, digest="d1", prompt="?"))
    assert refused(state, commands.Answer(job="a", digest="d0", approved=True))
    (given,) = handle_ordered(
        state, commands.Answer(job="a", digest="d1", approved=True), "c2"
    )
    assert isinstance(given, events.ApprovalAnswered)


@pytest.mark.parametrize(
    ("sender", "code"),
    [
        (Sender(job="attempt 1 of a"), "sender_is_job"),
        (Sender(doubt="unnamed"), "sender_unnamed"),
        (Sender(doubt="ended"), "sender_ended"),
    ],
)
def test_only_a_person_answers_or_waives(sender: Sender, code: str) -> None:
    state = started(plan(job("a")))
    asked = events.ApprovalAsked(job="a", attempt=1, digest="d1", prompt="sure?")
    happen(state, events.JobsReleased(jobs=("a",)), asked)
    for command in (
        commands.Answer(job="a", digest="d1", approved=True),
        commands.Waive(job="a", condition=0),
    ):
        assert refused(state, command, sender=sender) == code


def test_an_answer_is_recorded_with_the_process_that_gave_it() -> None:
    state = started(plan(job("a")))
    asked = events.ApprovalAsked(job="a", attempt=1, digest="d1", prompt="sure?")
    happen(state, events.JobsReleased(jobs=("a",)), asked)
    sender = Sender(user="ada", host="login1", pid=7, checked=True)
    answer = commands.Answer(job="a", digest="d1", approved=True)
    (event,) = handle_ordered(state, answer, sender=sender)
    assert isinstance(event, events.ApprovalAnswered)
    assert event.sender == sender


@pytest.mark.parametrize(
    ("hand_over", "reason"),
    [(True, "handed over"), (False, f"stopped by {commands.LEAVING}")],
)
def test_an_engine_that_leaves_says_whether_an_heir_goes_on(
    hand_over: bool,
    reason: str,
) -> None:
    stop = commands.StopEngine(hand_over=hand_over)
    (stopped,) = handle_ordered(started(plan(job("a"))), stop, by=commands.LEAVING)
    assert isinstance(stopped, events.EngineStopped)
    assert (stopped.reason, stopped.on_request) == (reason, False)


# ------------------------------------------------------------------- time limits known
def test_a_time_limit_that_is_known_is_noted_of_the_attempt_that_runs() -> None:
    state = started(plan(job("a")))
    run(state, "a")
    known = commands.Acknowledge(limits=(("a", 1),))
    noted = handle_ordered(state, known, by="ann")
    assert noted == [events.LimitAcknowledged(job="a", attempt=1, by="ann")]
    happen(state, *noted)
    assert state.jobs["a"].attempts[-1].limit_seen


@pytest.mark.parametrize("limit", [("b", 1), ("a", 2), ("a", 1)])
def test_a_limit_of_another_run_or_known_already_is_not_noted(
    limit: tuple[str, int],
) -> None:
    state = started(plan(job("a")))
    run(state, "a")
    happen(state, events.LimitAcknowledged(job="a", attempt=1))
    assert refused(state, commands.Acknowledge(limits=(limit,))) == "nothing_to_do"


def test_a_further_attempt_has_a_limit_that_nobody_knows_of() -> None:
    state = started(plan(job("a")))
    run(state, "a")
    again = events.RetryOrdered(
        job="a", wait_seconds=0.0, from_checkpoint=True, why=why("retry", attempt=2)
    )
    happen(state, events.LimitAcknowledged(job="a", attempt=1), ended("a"), again)
    happen(state, submit_event("a", 2))
    assert [attempt.limit_seen for attempt in state.jobs["a"].attempts] == [True, False]
