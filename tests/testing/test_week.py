"""The made-up week: legal, whole, the same each time."""

from __future__ import annotations

from collections import Counter

from autoexp_tui.model.event import fold
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Cause, JobState
from tests.support.campaigns import HOUR
from tests.support.week import SHA, week

WEEK = week(1000, note_seconds=4 * HOUR)
STATE = fold(SessionState(plans={SHA: WEEK.plan}), WEEK.records)


def test_every_job_comes_to_its_end_within_a_week_or_so() -> None:
    assert all(job.ended for job in STATE.jobs.values())
    assert 6 < (STATE.t - STATE.started_at) / 86400 < 9


def test_every_kind_of_fault_is_there() -> None:
    causes = Counter(
        attempt.cause
        for job in STATE.jobs.values()
        for attempt in job.attempts
        if attempt.cause
    )
    assert set(causes) >= {
        Cause.EXIT_CODE,
        Cause.OUT_OF_MEMORY,
        Cause.NODE_FAIL,
        Cause.STALL,
        Cause.NAN,
    }
    states = {job.state for job in STATE.jobs.values()}
    assert states == {JobState.COMPLETED, JobState.FAILED, JobState.SKIPPED}


def test_engines_died_and_others_came() -> None:
    assert STATE.epoch == 4
    assert len(STATE.gaps) == 3
    assert STATE.gaps == tuple(sorted(STATE.gaps))


def test_the_same_seed_is_the_same_week() -> None:
    assert week(31, note_seconds=HOUR) == week(31, note_seconds=HOUR)
    assert week(31, note_seconds=HOUR) != week(31, note_seconds=HOUR, seed=8)


def test_no_record_is_older_than_the_one_before() -> None:
    times = [record.t for record in WEEK.records]
    assert times == sorted(times)
