"""What may be told of an end, by what really befell the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.events import events
from autoexp_tui.model.state import Attempt
from autoexp_tui.model.states import Cause, Outcome
from tests.support.sim_causes import Memory, problem
from tests.support.true_ends import STROKES, Befallen, Stroke

PRECISE = Memory(forgets=False, mute=False, lost_after_seconds=5.0)
FORGETFUL = Memory(forgets=True, mute=False, lost_after_seconds=5.0)


def told(
    cause: Cause | None, outcome: Outcome = Outcome.FAILED, **fields: Any
) -> events.AttemptEnded:
    return events.AttemptEnded(
        job="a", attempt=1, outcome=outcome, cause=cause, **fields
    )


COMPLETED = told(None, Outcome.COMPLETED)
LOST = told(Cause.LOST, Outcome.LOST)


def attempt(**fields: Any) -> Attempt:
    return Attempt(number=1, token="t", ordered_at=0.0, run=0, **fields)


def end(code: int | None = 0, signal: int | None = None, **fields: Any) -> Befallen:
    return Befallen(stroke=Stroke.ENDED, run=0, exit_code=code, signal=signal, **fields)


def stroke(what: Stroke, run: int = 0) -> Befallen:
    return Befallen(stroke=what, run=run)


def is_right(
    event: events.AttemptEnded,
    *befallen: Befallen,
    memory: Memory = PRECISE,
    **fields: Any,
) -> bool:
    return not problem(event, attempt(**fields), befallen, memory)


def test_success_needs_a_good_end() -> None:
    assert is_right(COMPLETED, end(0))
    assert not is_right(COMPLETED, end(1))
    assert not is_right(COMPLETED, stroke(Stroke.VANISHED))
    assert not is_right(COMPLETED)


def test_success_of_an_earlier_run_is_none_of_the_newest() -> None:
    assert not is_right(COMPLETED, end(0), stroke(Stroke.NODE_LOST, run=1))


def test_an_exit_code_must_be_the_run_s_own() -> None:
    assert is_right(told(Cause.EXIT_CODE, exit_code=3), end(3))
    assert not is_right(told(Cause.EXIT_CODE, exit_code=3), end(4))
    assert not is_right(told(Cause.EXIT_CODE, exit_code=3), end(3, asked=True))


@pytest.mark.parametrize("cause", [c for c in STROKES if c is not Cause.USER])
def test_what_the_executor_did_is_told_as_that(cause: Cause) -> None:
    killed = end(None, 15, asked=True)
    assert is_right(told(cause), stroke(STROKES[cause]), killed)
    assert not is_right(told(cause), killed)


def test_a_signal_of_the_executor_s_is_told_bare_only_when_it_is_mute() -> None:
    bare = told(Cause.SIGNAL, signal=15)
    befallen = stroke(Stroke.PREEMPTED), end(None, 15, asked=True)
    assert not is_right(bare, *befallen)
    assert not is_right(bare, *befallen, memory=FORGETFUL)
    assert is_right(bare, *befallen, memory=replace(FORGETFUL, mute=True))


def test_a_signal_of_a_job_that_the_executor_forgot_is_told_bare() -> None:
    befallen = stroke(Stroke.FORGOTTEN), end(None, 15)
    assert is_right(told(Cause.SIGNAL, signal=15), *befallen, memory=FORGETFUL)


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED])
def test_nobody_is_said_to_have_cancelled_what_nobody_did(outcome: Outcome) -> None:
    assert not is_right(told(Cause.USER, outcome), end(None, 15))


def test_a_cancel_of_another_job_s_is_no_excuse() -> None:
    cancelled = told(Cause.USER, Outcome.CANCELLED)
    befallen = stroke(Stroke.CANCELLED), end(None, 15, asked=True)
    assert not is_right(cancelled, *befallen, memory=FORGETFUL)


def test_a_cancel_by_others_is_told_as_that() -> None:
    cancelled = told(Cause.USER, Outcome.CANCELLED)
    assert is_right(cancelled, stroke(Stroke.CANCELLED_BY_OTHERS))


def test_a_cancel_of_an_earlier_run_is_no_excuse() -> None:
    cancelled = told(Cause.USER, Outcome.CANCELLED)
    befallen = stroke(Stroke.CANCELLED_BY_OTHERS), stroke(Stroke.VANISHED, run=1)
    assert not is_right(cancelled, *befallen, memory=FORGETFUL)


def test_a_run_that_left_a_record_is_not_lost() -> None:
    assert not is_right(LOST, end(0), memory=FORGETFUL)
    assert not is_right(LOST, end(0, late_seconds=4.0), memory=FORGETFUL)
    assert is_right(LOST, end(0, late_seconds=8.0))


def test_lost_is_what_left_no_trace() -> None:
    assert is_right(LOST, stroke(Stroke.VANISHED))
    assert is_right(LOST, stroke(Stroke.FORGOTTEN))
    assert not is_right(LOST, stroke(Stroke.NODE_LOST))
    assert is_right(LOST, stroke(Stroke.NODE_LOST), memory=FORGETFUL)


def test_our_own_orders_are_told_as_ordered() -> None:
    ordered: dict[str, Any] = {"cancel_cause": Cause.NAN}
    assert is_right(told(Cause.NAN), end(0), **ordered)
    assert not is_right(told(Cause.SIGNAL, signal=15), end(None, 15), **ordered)
    assert not is_right(told(Cause.NAN, Outcome.CANCELLED), end(0), **ordered)


def test_a_good_end_before_its_kill_for_a_stall_is_success() -> None:
    stalled: dict[str, Any] = {"cancel_cause": Cause.STALL}
    assert is_right(COMPLETED, end(0), **stalled)
    assert not is_right(told(Cause.STALL), end(0), **stalled)
    assert is_right(told(Cause.STALL), end(0, asked=True), **stalled)
    assert not is_right(COMPLETED, end(0, asked=True), **stalled)


def test_what_was_finished_has_completed() -> None:
    assert is_right(COMPLETED, end(None, 15), finished=True)
    assert not is_right(told(Cause.SIGNAL, signal=15), end(None, 15), finished=True)


def test_what_was_never_taken_did_not_begin() -> None:
    rejected = told(Cause.REJECTED)
    assert not is_right(rejected, end(0))
    assert not problem(
        rejected, Attempt(number=1, token="t", ordered_at=0), (), PRECISE
    )
