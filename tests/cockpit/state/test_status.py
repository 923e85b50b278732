"""How a job looks: what is recorded, and what a person cares about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cockpit.state.status import Look, find_look
from autoexp_tui.conditions.kinds import Approval, FileExists
from autoexp_tui.model.resubmission import unmet
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import Ask, ConditionStatus, JobRecord
from autoexp_tui.model.states import JobState, Result, why


def record(state: JobState, *results: Result | None, **changes: object) -> JobRecord:
    spec = JobSpec(
        name="a",
        index=0,
        command=("x",),
        output_dir="/o",
        log_dir="/l",
        start_conditions=tuple(FileExists(path=f"/{n}") for n in range(len(results))),
    )
    start = tuple(result and status(result) for result in results)
    return JobRecord(spec=spec, state=state, start=start, **changes)  # type: ignore[arg-type]


def status(result: Result, waived: str = "") -> ConditionStatus:
    return ConditionStatus(result=result, why=why("ok"), since=0, waived=waived)


ASK = Ask(digest="d", prompt="?", asked_at=0, asked_lived=0)


@pytest.mark.parametrize(
    ("job", "look"),
    [
        (record(JobState.RUNNING), Look.STALLED),
        (record(JobState.WAITING, Result.FAIL), Look.DOOMED),
        (record(JobState.WAITING, ask=ASK), Look.ASKS),
        (record(JobState.WAITING, ask=replace(ASK, approved=True)), Look.WAITING),
        (
            replace(
                record(JobState.WAITING, Result.FAIL),
                start=(status(Result.FAIL, waived="known"),),
            ),
            Look.WAITING,
        ),
    ],
)
def test_a_look_says_what_a_person_cares_about(job: JobRecord, look: Look) -> None:
    assert find_look(job, stalled=True) is look


def test_a_running_job_whose_run_is_over_is_ending() -> None:
    job = record(JobState.RUNNING)
    assert find_look(job, stalled=True, leaving=True) is Look.ENDING


def test_every_state_has_a_look_and_each_look_its_own_glyphs() -> None:
    assert all(find_look(record(state), stalled=False) for state in JobState)
    twins = [look.twin for look in Look]
    assert len({look.glyph for look in Look}) == len(set(twins)) == len(Look)
    assert all(twin.isascii() and len(twin) == 1 for twin in twins)


SHOWS = replace(
    record(JobState.WAITING).spec, start_conditions=(Approval(blocking=False),)
)


@pytest.mark.parametrize(
    ("job", "place"),
    [
        (record(JobState.WAITING, Result.WAIT, Result.FAIL), 1),
        (record(JobState.WAITING, Result.PASS), None),
        (JobRecord(spec=SHOWS, state=JobState.WAITING, start=(None,)), None),
    ],
    ids=["what failed before what waits", "all passed", "one that only shows"],
)
def test_what_a_job_has_not_got(job: JobRecord, place: int | None) -> None:
    missing = unmet(job)
    assert (missing and missing[0]) == place
