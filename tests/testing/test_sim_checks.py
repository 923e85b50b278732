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
from autoexp_tui.model.states import Cause, JobState, Outcome, why
from tests.model.builders import ended, happen, job, plan, run, started
from tests.support.sim_causes import Memory, problem
from tests.support.sim_checks import HANG_SECONDS, Timers, unsure_files
from tests.support.true_ends import STROKES, Befallen, Stroke

PRECISE = Memory(forgets=False, mute=False, lost_after_seconds=5.0)
FORGETFUL = replace(PRECISE, forgets=True)


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
BY_OTHERS = stroke(Stroke.CANCELLED_BY_OTHERS)
KILLED, ASKED = end(None, 15), end(None, 15, asked=True)
PREEMPTED, BY_US = stroke(Stroke.PREEMPTED), stroke(Stroke.CANCELLED)
NAN, STALL = {"cancel_cause": Cause.NAN}, {"cancel_cause": Cause.STALL}
FINISHED = {"finished": True}


@pytest.mark.parametrize(
    ("event", "befallen", "memory"),
    [
        # success needs a good end, of the newest run
        (COMPLETED, [end(1)], PRECISE),
        (COMPLETED, [VANISHED], PRECISE),
        (COMPLETED, [], PRECISE),
        (COMPLETED, [end(0), stroke(Stroke.NODE_LOST, run=1)], PRECISE),
        # an exit code is the run's own
        (CODE, [end(4)], PRECISE),
        (CODE, [end(3, asked=True)], PRECISE),
        # a signal of the executor's is told bare only when that is mute, or forgot
        (BARE, [PREEMPTED, ASKED], PRECISE),
        (BARE, [PREEMPTED, ASKED], FORGETFUL),
        # nobody is said to have cancelled what nobody did, or another job's run did
        (CANCELLED, [KILLED], PRECISE),
        (CANCELLED, [BY_US, ASKED], FORGETFUL),
        (CANCELLED, [BY_OTHERS, stroke(Stroke.VANISHED, run=1)], FORGETFUL),
        # lost is what left no trace, and no record in time
        (LOST, [end(0)], FORGETFUL),
        (LOST, [end(0, late_seconds=4.0)], FORGETFUL),
        (LOST, [NODE_LOST], PRECISE),
        # what was never taken did not begin
        (told(Cause.REJECTED), [end(0)], PRECISE),
        *((told(cause), [ASKED], PRECISE) for cause in STROKES if cause != Cause.USER),
    ],
)
def test_an_end_that_is_told_otherwise_than_it_befell_the_run_is_found(
    event: events.AttemptEnded, befallen: list[Befallen], memory: Memory
) -> None:
    assert problem(event, attempt(), befallen, memory)


@pytest.mark.parametrize(
    ("event", "befallen", "fields"),
    [
        (BARE, [KILLED], NAN),
        (told(Cause.NAN, Outcome.CANCELLED), [end(0)], NAN),
        # a good end before its kill for a stall is success
        (told(Cause.STALL), [end(0)], STALL),
        (COMPLETED, [end(0, asked=True)], STALL),
        # what was finished has completed
        (BARE, [KILLED], FINISHED),
    ],
)
def test_an_end_that_is_told_otherwise_than_it_was_ordered_is_found(
    event: events.AttemptEnded, befallen: list[Befallen], fields: dict[str, Any]
) -> None:
    assert problem(event, attempt(**fields), befallen, PRECISE)


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


# ------------------------------------------------------------------------------- timers
BEGAN = 200.0
"""When the retries of these tests are ordered, in seconds that engines lived."""
LATE = HANG_SECONDS + 100.0
RETRY = events.RetryOrdered(
    job="a", wait_seconds=50.0, from_checkpoint=True, why=why("retry")
)
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
