"""A session is over when nothing is left to do, not when all jobs have ended."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.effects.effects import PlanJobs
from autoexp_tui.model.resubmission import is_acting, is_open
from autoexp_tui.model.state import Deferred, JobRecord, PendingEffect
from autoexp_tui.model.states import JobState, why
from tests.model.builders import job

ENDED = JobRecord(spec=job("a"), state=JobState.COMPLETED)
PLANNING = PendingEffect(
    effect_id="e1",
    effect=PlanJobs(config_ref="evaluate", job="a", action="saved/0"),
    seq=3,
    ordered_utc=1.0,
)


def putting_off(until: float | None) -> JobRecord:
    put_off = Deferred(
        trigger="m1", since_lived=1.0, why=why("cooldown"), until_lived=until
    )
    return replace(ENDED, deferred={"rule/0": put_off})


def test_jobs_that_ended_and_nothing_else_are_over() -> None:
    assert not is_open([ENDED], [])


def test_a_job_that_waits_or_is_held_keeps_a_session_open() -> None:
    for state in (JobState.WAITING, JobState.HELD, JobState.RETRYING):
        assert is_open([ENDED, replace(ENDED, state=state)], [])


def test_a_plan_that_a_rule_ordered_keeps_a_session_open() -> None:
    assert is_open([ENDED], [PLANNING])
    assert is_acting([ENDED], [PLANNING])


def test_an_action_put_off_to_a_known_moment_keeps_it_open_and_any_other_does_not() -> (
    None
):
    assert is_open([putting_off(9.0)], [])
    assert not is_open([putting_off(None)], [])


def test_a_session_whose_first_jobs_are_to_come_is_open() -> None:
    assert is_open([], [])
