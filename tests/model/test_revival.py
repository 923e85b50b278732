"""Who comes back with a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.resubmission import (
    dependants,
    is_ended_by_others,
    list_ended_because_of,
)
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState
from tests.model.builders import job, plan, started

BY_OTHERS = [Cause.UPSTREAM, Cause.CANCEL_CONDITION]
ON_THEIR_OWN = sorted(set(Cause) - set(BY_OTHERS), key=lambda cause: cause.value)
SKIPPED = (JobState.SKIPPED, Cause.UPSTREAM)


def record(
    name: str,
    state: JobState = JobState.SKIPPED,
    cause: Cause | None = Cause.UPSTREAM,
    behind: Sequence[str] = (),
) -> JobRecord:
    spec = job(name, depends_on=tuple(behind))
    made = started(plan(replace(spec, depends_on=()))).jobs[name]
    return replace(made, spec=spec, state=state, cause=cause)


def coming_back(names: Sequence[str], jobs: Sequence[JobRecord]) -> list[str]:
    by_name = {one.name: one for one in jobs}
    return list(list_ended_because_of(names, by_name, dependants(jobs)))


@pytest.mark.parametrize("state", [JobState.SKIPPED, JobState.CANCELLED])
@pytest.mark.parametrize("cause", BY_OTHERS)
def test_an_end_on_anothers_account_is_one(state: JobState, cause: Cause) -> None:
    assert is_ended_by_others(record("a", state, cause))


@pytest.mark.parametrize("cause", [*ON_THEIR_OWN, None])
def test_any_other_cause_is_the_jobs_own(cause: Cause | None) -> None:
    assert not is_ended_by_others(record("a", JobState.SKIPPED, cause))


@pytest.mark.parametrize(
    "state", sorted(set(JobState) - {JobState.SKIPPED, JobState.CANCELLED})
)
def test_a_job_that_is_neither_skipped_nor_cancelled_did_not_end_so(
    state: JobState,
) -> None:
    assert not is_ended_by_others(record("a", state, Cause.UPSTREAM))


def test_dependants_are_listed_in_the_order_of_the_jobs() -> None:
    jobs = [record("c", behind=["a"]), record("b", behind=["a", "c"]), record("a")]
    assert dependants(jobs) == {"a": ["c", "b"], "c": ["b"]}


def test_who_was_skipped_because_of_a_job_comes_back_with_it() -> None:
    jobs = [record("a", JobState.FAILED), record("b", behind=["a"]), record("c")]
    assert coming_back(["a"], jobs) == ["b"]


def test_it_goes_on_through_those_that_come_back() -> None:
    jobs = [record("a"), record("b", behind=["a"]), record("c", behind=["b"])]
    assert coming_back(["a"], jobs) == ["b", "c"]


def test_whom_the_user_skipped_stays_and_so_do_those_behind() -> None:
    by_hand = record("b", cause=Cause.USER, behind=["a"])
    jobs = [record("a"), by_hand, record("c", behind=["b"])]
    assert coming_back(["a"], jobs) == []


def test_one_who_hangs_on_two_comes_back_once() -> None:
    both = record("d", behind=["b", "c"])
    jobs = [record("a"), record("b", behind=["a"]), record("c", behind=["a"]), both]
    assert coming_back(["a"], jobs) == ["b", "c", "d"]


def test_jobs_that_come_back_anyway_are_not_told_again() -> None:
    jobs = [record("a"), record("b", behind=["a"]), record("c", behind=["b"])]
    assert coming_back(["a", "b"], jobs) == ["c"]


def test_a_ring_ends() -> None:
    jobs = [record("a", behind=["b"]), record("b", behind=["a"])]
    assert coming_back(["a"], jobs) == ["b"]


ENDS = st.sampled_from(
    [
        SKIPPED,
        SKIPPED,
        (JobState.CANCELLED, Cause.CANCEL_CONDITION),
        (JobState.SKIPPED, Cause.USER),
        (JobState.CANCELLED, Cause.USER),
        (JobState.SKIPPED, Cause.START_TIMEOUT),
        (JobState.COMPLETED, None),
        (JobState.FAILED, Cause.EXIT_CODE),
        (JobState.RUNNING, None),
    ]
)


@st.composite
def sessions(draw: st.DrawFn) -> list[JobRecord]:
    """Jobs with random ends, each behind some of those before it."""
    ends = draw(st.lists(ENDS, min_size=1, max_size=9))
    made: list[JobRecord] = []
    for at, (state, cause) in enumerate(ends):
        behind = draw(st.sets(st.integers(0, max(0, at - 1)), max_size=3)) if at else ()
        made.append(record(f"j{at}", state, cause, [f"j{b}" for b in sorted(behind)]))
    return made


def on_account(one: JobRecord, names: set[str], jobs: dict[str, JobRecord]) -> bool:
    """By the definition: a chain of such ends leads from the job to one of `names`."""
    if one.name in names or not is_ended_by_others(one):
        return False
    return any(
        up in names or on_account(jobs[up], names, jobs) for up in one.spec.depends_on
    )


@given(sessions(), st.data())
def test_exactly_those_come_back_that_ended_on_account_of_the_revived(
    session: list[JobRecord], data: st.DataObject
) -> None:
    jobs = {one.name: one for one in session}
    names = data.draw(st.sets(st.sampled_from(sorted(jobs)), min_size=1))
    found = coming_back(sorted(names), session)
    wanted = {one.name for one in session if on_account(one, names, jobs)}
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert all(jobs[name].cause is not Cause.USER for name in found)
