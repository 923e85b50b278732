"""What commands become: the events that carry them out, or a refusal and its reason."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.engine.command_handlers import handle_order
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.commands import Command, Order, Sender
from autoexp_tui.model.decision_context import Draft
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
