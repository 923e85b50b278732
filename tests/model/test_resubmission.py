"""Who comes back with a job, who is stuck, and when a session is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.effects.effects import PlanJobs
from autoexp_tui.model.resubmission import (
    dependants,
    is_acting,
    is_open,
    list_ended_because_of,
    stuck,
)
from autoexp_tui.model.state import (
    Ask,
    ConditionStatus,
    Deferred,
    JobRecord,
    PendingEffect,
)
from autoexp_tui.model.states import Cause, JobState, Result, why
from tests.model.builders import job

S = JobState


def record(
    name: str,
    state: JobState = S.SKIPPED,
    cause: Cause | None = Cause.UPSTREAM,
    behind: Sequence[str] = (),
    **more: Any,
) -> JobRecord:
    spec = job(name, depends_on=tuple(behind))
    return JobRecord(spec=spec, state=state, cause=cause, **more)


A, B, C = record("a"), record("b", behind=["a"]), record("c", behind=["b"])


@pytest.mark.parametrize(
    ("names", "jobs", "back"),
    [
        ("a", [record("a", S.FAILED), B, record("c")], "b"),
        ("a", [A, B, C], "bc"),
        ("a", [A, replace(B, cause=Cause.USER), C], ""),  # skipped by a person
        ("a", [A, replace(B, state=S.FAILED), C], ""),
        ("a", [A, replace(B, state=S.CANCELLED, cause=Cause.CANCEL_CONDITION)], "b"),
        ("a", [A, B, record("c", behind=["a"]), record("d", behind=["b", "c"])], "bcd"),
        ("ab", [A, B, C], "c"),  # b comes back anyway
        ("a", [record("a", behind=["b"]), B], "b"),  # a ring
    ],
)
def test_who_ended_because_of_a_job_comes_back_with_it(
    names: str, jobs: list[JobRecord], back: str
) -> None:
    by_name = {one.name: one for one in jobs}
    found = list_ended_because_of(list(names), by_name, dependants(jobs))
    assert list(found) == list(back)


ASK: Final = Ask(digest="d", prompt="Go?", asked_at=0.0, asked_lived=0.0)
HELD: Final = record("a", S.HELD, None)


def waiting(name: str, result: Result, on: str = "x", **more: Any) -> JobRecord:
    waits = (JobStateIs(jobs=(on,), state="COMPLETED"),)
    spec = job(name, depends_on=(on,), start_conditions=waits)
    status = ConditionStatus(result=result, why=why("job_not_so"), since=0.0)
    return JobRecord(spec=spec, state=S.WAITING, start=(status,), **more)


BEHIND: Final = waiting("b", Result.WAIT, "a")
ASKING: Final = [waiting("a", Result.WAIT, ask=ASK), BEHIND]


@pytest.mark.parametrize(
    ("jobs", "no_answer", "found"),
    [
        ([HELD, BEHIND, waiting("c", Result.WAIT, "b")], False, "abc"),
        ([waiting("b", Result.FAIL), waiting("c", Result.WAIT)], False, "b"),
        ([HELD, waiting("b", Result.PASS, "a")], False, "a"),
        (ASKING, False, ""),
        (ASKING, True, "ab"),
    ],
)
def test_what_no_engine_will_start_is_stuck_and_so_is_what_waits_for_it(
    jobs: list[JobRecord], *, no_answer: bool, found: str
) -> None:
    assert stuck(jobs, with_asks=no_answer) == set(found)


ENDED: Final = record("a", S.COMPLETED, None)
PLANNING: Final = PendingEffect(
    effect_id="e1",
    effect=PlanJobs(config_ref="evaluate", job="a", action="saved/0"),
    seq=3,
    ordered_utc=1.0,
)


def test_of_many_jobs_the_last_are_looked_at_first() -> None:
    nobody_looks: Any = None
    assert is_open([nobody_looks, replace(ENDED, state=S.WAITING)], [])


def test_a_session_is_over_when_nothing_is_left_to_do() -> None:
    assert (is_acting([ENDED], []), is_open([ENDED], [])) == (False, False)
    for state in (S.WAITING, S.HELD, S.RETRYING):
        left = [ENDED, replace(ENDED, state=state)]
        assert (is_acting(left, []), is_open(left, [])) == (False, True)
    assert is_acting([ENDED], [PLANNING])
    assert is_open([ENDED], [PLANNING])
    reason = why("cooldown")
    for until, is_left in ((9.0, True), (None, False)):  # nobody knows when
        rule = Deferred(trigger="m1", since_lived=1.0, why=reason, until_lived=until)
        put_off = [replace(ENDED, deferred={"rule/0": rule})]
        assert (is_acting(put_off, []), is_open(put_off, [])) == (is_left, is_left)
    # the first are to come
    assert (is_acting([], []), is_open([], [])) == (False, True)
