"""Which jobs no engine will start: a person has to, or nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.model.resubmission import stuck
from autoexp_tui.model.state import Ask, ConditionStatus, JobRecord
from autoexp_tui.model.states import JobState, Result, why
from tests.model.builders import job


def waiting(name: str, result: Result, *, on: str = "x", **changes: Any) -> JobRecord:
    """A job that waits for another one to complete."""
    spec = job(
        name,
        depends_on=(on,),
        start_conditions=(JobStateIs(jobs=(on,), state="COMPLETED"),),
    )
    status = ConditionStatus(result=result, why=why("job_not_so"), since=0.0)
    made = JobRecord(spec=spec, state=JobState.WAITING, start=(status,))
    return replace(made, **changes)


def test_what_waits_for_a_held_job_is_stuck_with_it() -> None:
    held = JobRecord(spec=job("a"), state=JobState.HELD)
    chain = [held, waiting("b", Result.WAIT, on="a"), waiting("c", Result.WAIT, on="b")]
    assert stuck(chain, with_asks=False) == {"a", "b", "c"}


def test_a_job_that_cannot_start_is_stuck_and_others_are_not() -> None:
    jobs = [waiting("b", Result.FAIL), waiting("c", Result.WAIT)]
    assert stuck(jobs, with_asks=False) == {"b"}


def test_a_job_whose_conditions_pass_is_not_stuck_behind_a_held_one() -> None:
    held = JobRecord(spec=job("a"), state=JobState.HELD)
    ready = waiting("b", Result.PASS, on="a")
    assert stuck([held, ready], with_asks=False) == {"a"}


def test_what_asks_is_stuck_only_for_who_does_not_wait_for_the_answer() -> None:
    ask = Ask(digest="d", prompt="Go?", asked_at=0.0, asked_lived=0.0)
    jobs = [waiting("a", Result.WAIT, ask=ask), waiting("b", Result.WAIT, on="a")]
    assert stuck(jobs, with_asks=False) == frozenset()
    assert stuck(jobs, with_asks=True) == {"a", "b"}
