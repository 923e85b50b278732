"""No job of a simulated campaign begins from files that nobody has told apart."""

from __future__ import annotations

import pytest

from autoexp_tui.conditions.kinds import FileContent, FileExists
from autoexp_tui.events import events
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, JobState, Result, why
from tests.model.builders import ended, happen, job, plan, run, started
from tests.support.sim_checks import unsure_files

FILES = (
    FileExists(path="/out/a/done", writer="a"),
    FileContent(path="/out/a/done", pattern="done", writer="a"),
)


def begun_anew(file: FileExists | FileContent = FILES[0]) -> SessionState:
    """`a` is to run again from its beginning, and `b` waits for its file."""
    state = started(plan(job("a"), job("b", 1, start_conditions=(file,))))
    happen(state, events.JobsReleased(jobs=("b",)))
    run(state, "a")
    over = events.JobEnded(job="a", state=JobState.FAILED, cause=Cause.EXIT_CODE)
    again = events.JobRevived(job="a", from_checkpoint=False, why=why("resubmitted"))
    happen(state, ended("a"), over, again)
    return state


def problems(state: SessionState, name: str) -> list[str]:
    return list(unsure_files(state, state.jobs[name]))


@pytest.mark.parametrize("file", FILES)
def test_a_follower_waits_until_old_files_are_known(
    file: FileExists | FileContent,
) -> None:
    assert problems(begun_anew(file), "b") == [
        "b begins from /out/a/done, and a begins anew"
    ]


def test_a_writer_waits_until_old_files_are_known() -> None:
    assert problems(begun_anew(), "a") == [
        "a begins anew, and nobody has looked at what lies there"
    ]


@pytest.mark.parametrize("name", ["a", "b"])
def test_they_go_on_once_files_are_set_aside(name: str) -> None:
    state = begun_anew()
    happen(state, events.FilesSetAside(job="a", attempt=2))
    assert not problems(state, name)


def test_a_condition_that_takes_any_file_holds_nobody_back() -> None:
    state = begun_anew(FileExists(path="/out/a/done", writer="a", fresh=False))
    assert not problems(state, "b")


def test_a_condition_that_a_person_waived_holds_nobody_back() -> None:
    state = begun_anew()
    waits = why("files_unsure", path="/out/a/done", writer="a")
    judged = events.ConditionJudged(
        job="b", role="start", index=0, result=Result.WAIT, why=waits
    )
    waived = events.ConditionWaived(job="b", index=0, reason="seen")
    happen(state, judged, waived)
    assert not problems(state, "b")
