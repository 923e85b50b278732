"""What the simulator finds wrong: causes, files of old attempts, late timers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.conditions.kinds import FileContent, FileExists
from autoexp_tui.effects.effects import ComposeJob
from autoexp_tui.events import events
from autoexp_tui.model.event import Event
from autoexp_tui.model.state import Attempt, SessionState
from autoexp_tui.model.states import Cause, JobState, Outcome, Result, why
from tests.model.builders import ended, happen, job, plan, run, started
from tests.support.sim_causes import Memory, problem
from tests.support.sim_checks import HANG_SECONDS, Timers, unsure_files
from tests.support.true_ends import STROKES, Befallen, Stroke

PRECISE = Memory(forgets=False, mute=False, lost_after_seconds=5.0)
FORGETFUL = replace(PRECISE, forgets=True)
MUTE = replace(FORGETFUL, mute=True)


def told(
    cause: Cause | None, outcome: Outcome = Outcome.FAILED, **fields: Any
) -> events.AttemptEnded:
    fixed: Any = {"job": "a", "attempt": 1, "outcome": outcome, "cause": cause}
    return events.AttemptEnded(**fixed, **fields)


def end(code: int | None = 0, signal: int | None = None, **fields: Any) -> Befallen:
    return Befallen(stroke=Stroke.ENDED, run=0, exit_code=code, signal=signal, **fields)


def stroke(what: Stroke, run: int = 0) -> Befallen:
    return Befallen(stroke=what, run=run)


COMPLETED, LOST = told(None, Outcome.COMPLETED), told(Cause.LOST, Outcome.LOST)
CODE, BARE = told(Cause.EXIT_CODE, exit_code=3), told(Cause.SIGNAL, signal=15)
CANCELLED = told(Cause.USER, Outcome.CANCELLED)
NODE_LOST, VANISHED = stroke(Stroke.NODE_LOST), stroke(Stroke.VANISHED)
FORGOTTEN, BY_OTHERS = stroke(Stroke.FORGOTTEN), stroke(Stroke.CANCELLED_BY_OTHERS)
KILLED, ASKED = end(None, 15), end(None, 15, asked=True)
PREEMPTED, BY_US = stroke(Stroke.PREEMPTED), stroke(Stroke.CANCELLED)
NAN, STALL = {"cancel_cause": Cause.NAN}, {"cancel_cause": Cause.STALL}
FINISHED = {"finished": True}


@pytest.mark.parametrize(
    ("event", "befallen", "memory", "right"),
    [
        # success needs a good end, of the newest run
        (COMPLETED, [end(0)], PRECISE, True),
        (COMPLETED, [end(1)], PRECISE, False),
        (COMPLETED, [VANISHED], PRECISE, False),
        (COMPLETED, [], PRECISE, False),
        (COMPLETED, [end(0), stroke(Stroke.NODE_LOST, run=1)], PRECISE, False),
        # an exit code is the run's own
        (CODE, [end(3)], PRECISE, True),
        (CODE, [end(4)], PRECISE, False),
        (CODE, [end(3, asked=True)], PRECISE, False),
        # a signal of the executor's is told bare only when that is mute, or forgot
        (BARE, [PREEMPTED, ASKED], PRECISE, False),
        (BARE, [PREEMPTED, ASKED], FORGETFUL, False),
        (BARE, [PREEMPTED, ASKED], MUTE, True),
        (BARE, [FORGOTTEN, KILLED], FORGETFUL, True),
        # nobody is said to have cancelled what nobody did, or another job's run did
        (CANCELLED, [KILLED], PRECISE, False),
        (CANCELLED, [BY_US, ASKED], FORGETFUL, False),
        (CANCELLED, [BY_OTHERS], PRECISE, True),
        (CANCELLED, [BY_OTHERS, stroke(Stroke.VANISHED, run=1)], FORGETFUL, False),
        # lost is what left no trace, and no record in time
        (LOST, [end(0)], FORGETFUL, False),
        (LOST, [end(0, late_seconds=4.0)], FORGETFUL, False),
        (LOST, [end(0, late_seconds=8.0)], PRECISE, True),
        (LOST, [VANISHED], PRECISE, True),
        (LOST, [FORGOTTEN], PRECISE, True),
        (LOST, [NODE_LOST], PRECISE, False),
        (LOST, [NODE_LOST], FORGETFUL, True),
        # what was never taken did not begin
        (told(Cause.REJECTED), [end(0)], PRECISE, False),
    ],
)
def test_an_end_is_told_by_what_befell_the_run(
    event: events.AttemptEnded, befallen: list[Befallen], memory: Memory, right: bool
) -> None:
    assert (not problem(event, attempt(), befallen, memory)) is right


@pytest.mark.parametrize(
    ("event", "befallen", "fields", "right"),
    [
        # our own orders are told as ordered
        (told(Cause.NAN), [end(0)], NAN, True),
        (BARE, [KILLED], NAN, False),
        (told(Cause.NAN, Outcome.CANCELLED), [end(0)], NAN, False),
        # a good end before its kill for a stall is success
        (COMPLETED, [end(0)], STALL, True),
        (told(Cause.STALL), [end(0)], STALL, False),
        (told(Cause.STALL), [end(0, asked=True)], STALL, True),
        (COMPLETED, [end(0, asked=True)], STALL, False),
        # what was finished has completed, and what was never taken did not begin
        (COMPLETED, [KILLED], FINISHED, True),
        (BARE, [KILLED], FINISHED, False),
        (told(Cause.REJECTED), [], {"run": -1}, True),
    ],
)
def test_an_end_that_was_ordered_is_told_as_ordered(
    event: events.AttemptEnded,
    befallen: list[Befallen],
    fields: dict[str, Any],
    right: bool,
) -> None:
    assert (not problem(event, attempt(**fields), befallen, PRECISE)) is right


@pytest.mark.parametrize("cause", [c for c in STROKES if c is not Cause.USER])
def test_what_the_executor_did_is_told_as_that(cause: Cause) -> None:
    assert not problem(told(cause), attempt(), (stroke(STROKES[cause]), ASKED), PRECISE)
    assert problem(told(cause), attempt(), (ASKED,), PRECISE)


def attempt(**fields: Any) -> Attempt:
    return Attempt(number=1, token="t", ordered_at=0.0, **{"run": 0, **fields})


# -------------------------------------------------------------------------------- files
FILE = FileExists(path="/out/a/done", writer="a")
TEXT = FileContent(path="/out/a/done", pattern="done", writer="a")


def begun_anew(file: FileExists | FileContent = FILE) -> SessionState:
    """`a` is to run again from its beginning, and `b` waits for its file."""
    state = started(plan(job("a"), job("b", 1, start_conditions=(file,))))
    happen(state, events.JobsReleased(jobs=("b",)))
    run(state, "a")
    over = events.JobEnded(job="a", state=JobState.FAILED, cause=Cause.EXIT_CODE)
    again = events.JobRevived(job="a", from_checkpoint=False, why=why("resubmitted"))
    happen(state, ended("a"), over, again)
    return state


def unsure(state: SessionState) -> dict[str, list[str]]:
    return {name: list(unsure_files(state, job)) for name, job in state.jobs.items()}


@pytest.mark.parametrize("file", [FILE, TEXT])
def test_writer_and_follower_wait_until_old_files_are_known(
    file: FileExists | FileContent,
) -> None:
    state = begun_anew(file)
    assert unsure(state) == {
        "a": ["a begins anew, and nobody has looked at what lies there"],
        "b": ["b begins from /out/a/done, and a begins anew"],
    }
    happen(state, events.FilesSetAside(job="a", attempt=2))
    assert unsure(state) == {"a": [], "b": []}


def test_a_condition_that_takes_any_file_or_was_waived_holds_nobody_back() -> None:
    assert not unsure(begun_anew(replace(FILE, fresh=False)))["b"]
    state = begun_anew()
    waits = why("files_unsure", path="/out/a/done", writer="a")
    judged = events.ConditionJudged(
        job="b", role="start", index=0, result=Result.WAIT, why=waits
    )
    happen(state, judged, events.ConditionWaived(job="b", index=0, reason="seen"))
    assert not unsure(state)["b"]


# ------------------------------------------------------------------------------- timers
BEGAN = 200.0
"""When the retries of these tests are ordered, in seconds that engines lived."""
LATE = HANG_SECONDS + 100.0
RETRY = events.RetryOrdered(
    job="a", wait_seconds=50.0, from_checkpoint=True, why=why("retry")
)
PAUSED = events.SubmissionPaused(why=why("paused_by"))
COMPOSES = events.EffectOrdered(effect_id="c", effect=ComposeJob(job="b", overrides=()))


class Campaign:
    """A job of two that is to be tried again, and a watch on its timer."""

    def __init__(self) -> None:
        self.state: SessionState = started(plan(job("a"), job("b")))
        self._now = BEGAN
        self._timers = Timers(lambda: self._now)
        run(self.state, "a")
        self.problems(ended("a"), RETRY)

    def problems(self, *happened: Event, after: float = 0.0) -> list[str]:
        """What is wrong once these events have happened, so long after the order."""
        self._now = BEGAN + after
        found: list[str] = []
        for event in (*happened, events.MessageLogged(text=f"{after}{len(happened)}")):
            for record in happen(self.state, event, t=self._now):
                found += self._timers.problems(record, self.state)
        return found


def test_a_job_that_nothing_holds_back_is_late_once_its_wait_is_over() -> None:
    campaign = Campaign()
    assert not campaign.problems(after=50 + HANG_SECONDS)
    found = campaign.problems(after=50 + LATE)
    assert found == ["a is 700 s late to be tried again"]
    campaign = Campaign()
    campaign.problems(COMPOSES, after=1)  # another one is planned anew
    assert campaign.problems(after=50 + LATE)


def test_a_job_is_not_late_by_the_time_that_a_pause_held_it_back() -> None:
    campaign = Campaign()
    assert not campaign.problems(PAUSED, after=1)
    assert not campaign.problems(after=5 * LATE)
    assert not campaign.problems(events.SubmissionResumed(), after=5 * LATE)
    assert campaign.problems(after=5 * LATE + LATE)  # it stands still all the same
