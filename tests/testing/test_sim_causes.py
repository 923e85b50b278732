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


def end(code: int | None = 0, signal: int | None = None, **fields: Any) -> Befallen:
    return Befallen(stroke=Stroke.ENDED, run=0, exit_code=code, signal=signal, **fields)


def stroke(what: Stroke, run: int = 0) -> Befallen:
    return Befallen(stroke=what, run=run)


CANCELLED = told(Cause.USER, Outcome.CANCELLED)
BARE = told(Cause.SIGNAL, signal=15)
MUTE = replace(FORGETFUL, mute=True)
NODE_LOST, VANISHED = stroke(Stroke.NODE_LOST), stroke(Stroke.VANISHED)
FORGOTTEN = stroke(Stroke.FORGOTTEN)
KILLED, ASKED = end(None, 15), end(None, 15, asked=True)
PREEMPTED = (stroke(Stroke.PREEMPTED), ASKED)
BY_US = (stroke(Stroke.CANCELLED), ASKED)
NAN, STALL = {"cancel_cause": Cause.NAN}, {"cancel_cause": Cause.STALL}
FINISHED = {"finished": True}


@pytest.mark.parametrize(
    ("event", "befallen", "memory", "fields", "right"),
    [
        # success needs a good end, of the newest run
        (COMPLETED, (end(0),), PRECISE, {}, True),
        (COMPLETED, (end(1),), PRECISE, {}, False),
        (COMPLETED, (VANISHED,), PRECISE, {}, False),
        (COMPLETED, (), PRECISE, {}, False),
        (COMPLETED, (end(0), stroke(Stroke.NODE_LOST, run=1)), PRECISE, {}, False),
        # an exit code is the run's own
        (told(Cause.EXIT_CODE, exit_code=3), (end(3),), PRECISE, {}, True),
        (told(Cause.EXIT_CODE, exit_code=3), (end(4),), PRECISE, {}, False),
        (told(Cause.EXIT_CODE, exit_code=3), (end(3, asked=True),), PRECISE, {}, False),
        # a signal of the executor's is told bare only when that is mute, or forgot
        (BARE, PREEMPTED, PRECISE, {}, False),
        (BARE, PREEMPTED, FORGETFUL, {}, False),
        (BARE, PREEMPTED, MUTE, {}, True),
        (BARE, (FORGOTTEN, KILLED), FORGETFUL, {}, True),
        # nobody is said to have cancelled what nobody did, or another job's run did
        (CANCELLED, (KILLED,), PRECISE, {}, False),
        (CANCELLED, BY_US, FORGETFUL, {}, False),
        (CANCELLED, (stroke(Stroke.CANCELLED_BY_OTHERS),), PRECISE, {}, True),
        (
            CANCELLED,
            (stroke(Stroke.CANCELLED_BY_OTHERS), stroke(Stroke.VANISHED, run=1)),
            FORGETFUL,
            {},
            False,
        ),
        # lost is what left no trace, and no record in time
        (LOST, (end(0),), FORGETFUL, {}, False),
        (LOST, (end(0, late_seconds=4.0),), FORGETFUL, {}, False),
        (LOST, (end(0, late_seconds=8.0),), PRECISE, {}, True),
        (LOST, (VANISHED,), PRECISE, {}, True),
        (LOST, (FORGOTTEN,), PRECISE, {}, True),
        (LOST, (NODE_LOST,), PRECISE, {}, False),
        (LOST, (NODE_LOST,), FORGETFUL, {}, True),
        # our own orders are told as ordered
        (told(Cause.NAN), (end(0),), PRECISE, NAN, True),
        (BARE, (KILLED,), PRECISE, NAN, False),
        (told(Cause.NAN, Outcome.CANCELLED), (end(0),), PRECISE, NAN, False),
        # a good end before its kill for a stall is success
        (COMPLETED, (end(0),), PRECISE, STALL, True),
        (told(Cause.STALL), (end(0),), PRECISE, STALL, False),
        (told(Cause.STALL), (end(0, asked=True),), PRECISE, STALL, True),
        (COMPLETED, (end(0, asked=True),), PRECISE, STALL, False),
        # what was finished has completed
        (COMPLETED, (KILLED,), PRECISE, FINISHED, True),
        (BARE, (KILLED,), PRECISE, FINISHED, False),
        # what was never taken did not begin
        (told(Cause.REJECTED), (end(0),), PRECISE, {}, False),
        (told(Cause.REJECTED), (), PRECISE, {"run": -1}, True),
    ],
)
def test_an_end_is_told_by_what_befell_the_run(
    event: events.AttemptEnded,
    befallen: tuple[Befallen, ...],
    memory: Memory,
    fields: dict[str, Any],
    right: bool,
) -> None:
    run = Attempt(number=1, token="t", ordered_at=0.0, **{"run": 0, **fields})
    assert (not problem(event, run, befallen, memory)) is right


@pytest.mark.parametrize("cause", [c for c in STROKES if c is not Cause.USER])
def test_what_the_executor_did_is_told_as_that(cause: Cause) -> None:
    run = Attempt(number=1, token="t", ordered_at=0.0, run=0)
    assert not problem(told(cause), run, (stroke(STROKES[cause]), ASKED), PRECISE)
    assert problem(told(cause), run, (ASKED,), PRECISE)
