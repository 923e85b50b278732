"""Estimated ends: arithmetic that holds for any session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.cockpit.state.forecast import Ends, estimate_ends
from autoexp_tui.cockpit.state.session import SessionView, build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.snapshot import InQueue, Live
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.state import Attempt, JobRecord, Retry
from autoexp_tui.model.states import JobState, Outcome, why
from tests.support.campaigns import HOUR, T0, campaign

TOTAL = 1000


@dataclass(frozen=True)
class Told:
    """One job of a made-up session."""

    stage: int
    state: JobState
    ran: float = HOUR
    step: int | None = None
    rate: float | None = None
    before: tuple[int, ...] = ()


def record(index: int, told: Told) -> JobRecord:
    began = told.state in (JobState.RUNNING, JobState.COMPLETED, JobState.FAILED)
    sent = began or told.state is JobState.QUEUED
    ended = told.state in (JobState.COMPLETED, JobState.FAILED)
    attempt = Attempt(
        number=1,
        token="t",
        ordered_at=T0 - told.ran,
        submitted_at=T0 - told.ran,
        began_at=T0 - told.ran if began else None,
        ended_at=T0 if ended else None,
        outcome=Outcome(told.state.value) if ended else None,
    )
    spec = JobSpec(
        name=f"j{index}",
        index=index,
        stage=f"s{told.stage}",
        command=("x",),
        output_dir="/o",
        log_dir="/l",
        progress_total=TOTAL,
    )
    return JobRecord(
        spec=spec,
        state=told.state,
        since=T0 - told.ran,
        attempts=(attempt,) if sent else (),
    )


def session(jobs: Sequence[Told], slots: int = 0) -> SessionView:
    records = tuple(record(index, told) for index, told in enumerate(jobs))
    edges = tuple(
        Edge(before=f"j{before}", after=f"j{after}", mode="waits")
        for after, told in enumerate(jobs)
        for before in told.before
    )
    plan = Plan(
        plan_id="p",
        name="p",
        state_dir="/s",
        jobs=tuple(one.spec for one in records),
        edges=edges,
    )
    lives = tuple(
        Live(step=told.step, total=TOTAL, rate=told.rate)
        if told.state is JobState.RUNNING
        else None
        for told in jobs
    )
    base = campaign(4)
    engine = replace(base.engine, slots=slots, committed_at=T0)
    return build_session(
        replace(
            base,
            t=T0,
            plan=plan,
            jobs=records,
            live=lives,
            warnings=(),
            engine=engine,
        )
    )


def of(*jobs: Told, slots: int = 0) -> Ends:
    return estimate_ends(session(jobs, slots))


DONE = Told(0, JobState.COMPLETED, ran=2 * HOUR)
RUNS = Told(0, JobState.RUNNING, ran=HOUR, step=500, rate=0.5)
QUEUED = Told(0, JobState.QUEUED, ran=60.0)
WAITS = Told(0, JobState.WAITING)


def test_what_runs_ends_when_its_steps_are_done() -> None:
    assert of(RUNS).session == pytest.approx(T0 + 500 / 0.5)


def test_without_steps_the_finished_siblings_tell() -> None:
    assert of(DONE, replace(RUNS, step=None, rate=None)).session == T0 + HOUR


def test_of_a_stage_that_nobody_has_run_nothing_is_said() -> None:
    found = of(RUNS, Told(1, JobState.WAITING))
    assert found.session is None
    assert set(found.stages) == {"s0"}


def test_what_waits_begins_after_what_it_waits_for() -> None:
    after = Told(0, JobState.WAITING, before=(0,))
    usual = (2 * HOUR + HOUR + 2000) / 2
    found = of(replace(RUNS, rate=0.25), DONE, after)
    assert found.session == pytest.approx(T0 + 2000 + usual)


def test_one_slot_runs_one_after_the_other() -> None:
    found = of(DONE, replace(RUNS, step=None, rate=None), WAITS, WAITS, slots=1)
    assert found.session == T0 + HOUR + 2 * 2 * HOUR


def test_where_more_run_than_there_are_slots_some_have_to_end_first() -> None:
    first = replace(RUNS, step=None, rate=None)
    late = replace(first, ran=HOUR / 2)
    found = of(DONE, first, late, WAITS, slots=1)
    assert found.session == T0 + 1.5 * HOUR + 2 * HOUR


def test_two_slots_run_two_at_a_time() -> None:
    runs = replace(RUNS, step=None, rate=None)
    assert of(DONE, runs, WAITS, WAITS, slots=2).session == T0 + HOUR + 2 * HOUR


def test_what_is_queued_begins_when_the_executor_expects_it() -> None:
    base = session([DONE, QUEUED]).snapshot
    queue = InQueue(expected_at=T0 + 5 * HOUR)
    told = replace(base, live=(None, Live(queue=queue)))
    assert estimate_ends(build_session(told)).session == T0 + 7 * HOUR


def test_what_is_queued_waits_as_long_as_others_did() -> None:
    base = session([DONE, QUEUED]).snapshot
    late = replace(base.jobs[0].attempts[0], submitted_at=T0 - 3 * HOUR)
    first = replace(base.jobs[0], attempts=(late,))
    told = replace(base, jobs=(first, base.jobs[1]))
    assert estimate_ends(build_session(told)).session == T0 - 60 + HOUR + 2 * HOUR


def test_a_retry_from_a_checkpoint_runs_only_what_is_left() -> None:
    base = session([DONE, replace(QUEUED, state=JobState.RETRYING)]).snapshot
    retry = Retry(lived=T0 + 60, from_checkpoint=True, why=why("retry"))
    again = replace(base.jobs[1], retry=retry, metadata={"checkpoint_step": "750"})
    told = replace(base, jobs=(base.jobs[0], again))
    assert estimate_ends(build_session(told)).session == T0 + 60 + 0.25 * 2 * HOUR


def test_those_that_a_person_holds_back_are_not_waited_for() -> None:
    assert of(RUNS, Told(0, JobState.HELD)).session is not None


def test_the_plan_may_name_what_comes_first_last() -> None:
    late = Told(0, JobState.WAITING, before=(2,))
    found = of(DONE, late, replace(RUNS, step=None, rate=None))
    assert found.session == T0 + HOUR + 2 * HOUR


def test_a_circle_of_waits_has_no_end_and_takes_no_time() -> None:
    first = Told(0, JobState.WAITING, before=(2,))
    second = Told(0, JobState.WAITING, before=(1,))
    assert of(RUNS, first, second).session is None


def test_a_silent_engine_s_estimates_stand_still() -> None:
    shown = session([RUNS])
    assert (
        estimate_ends(shown).session
        == estimate_ends(build_session(shown.snapshot)).session
    )


# -------------------------------------------------------------------- for any session
states = st.sampled_from(
    [
        JobState.COMPLETED,
        JobState.RUNNING,
        JobState.QUEUED,
        JobState.WAITING,
        JobState.RETRYING,
        JobState.FAILED,
        JobState.HELD,
    ]
)


@st.composite
def campaigns(draw: st.DrawFn) -> list[Told]:
    jobs = []
    for index in range(draw(st.integers(1, 14))):
        before = draw(st.sets(st.integers(0, index - 1), max_size=2)) if index else ()
        jobs.append(
            Told(
                stage=draw(st.integers(0, 2)),
                state=draw(states),
                ran=draw(st.floats(1, 1e5)),
                step=draw(st.none() | st.integers(2, TOTAL)),
                rate=draw(st.none() | st.floats(1e-3, 1e3)),
                before=tuple(before),
            )
        )
    return jobs


def known(found: Ends) -> list[float]:
    return [*found.stages.values(), *([found.session] if found.session else [])]


@given(campaigns(), st.integers(0, 4))
def test_no_end_is_past_or_no_number(jobs: list[Told], slots: int) -> None:
    for end in known(of(*jobs, slots=slots)):
        assert isfinite(end)
        assert end >= T0


@given(campaigns(), st.integers(0, 4))
def test_the_session_ends_with_its_last_stage(jobs: list[Told], slots: int) -> None:
    found = of(*jobs, slots=slots)
    if found.session is not None:
        assert found.session == max(found.stages.values())


@given(campaigns(), st.integers(0, 4))
def test_where_the_whole_is_known_each_stage_with_work_is(
    jobs: list[Told], slots: int
) -> None:
    shown = session(jobs, slots)
    found = estimate_ends(shown)
    if found.session is not None:
        at_work = {
            job.stage
            for job in shown.jobs
            if not job.record.ended and job.look not in (Look.HELD, Look.DOOMED)
        }
        assert set(found.stages) == at_work


@given(campaigns())
def test_without_a_limit_no_slot_makes_anything_later(jobs: list[Told]) -> None:
    free, bound = of(*jobs), of(*jobs, slots=1)
    assert set(free.stages) == set(bound.stages)
    for stage, end in free.stages.items():
        assert end <= bound.stages[stage] + 1e-6


@given(campaigns(), st.floats(1.0, 100.0))
def test_a_faster_run_never_ends_later_where_nothing_is_bound(
    jobs: list[Told], factor: float
) -> None:
    jobs = [replace(one, before=()) for one in jobs if one.state is JobState.RUNNING]
    fast = [replace(one, rate=one.rate * factor if one.rate else None) for one in jobs]
    slow_end, fast_end = of(*jobs).session, of(*fast).session
    if slow_end is not None and all(one.rate and one.step for one in jobs):
        assert fast_end is not None
        assert fast_end <= slow_end + 1e-6


@given(campaigns(), st.integers(0, 3))
def test_more_that_ended_never_changes_whether_others_are_known(
    jobs: list[Told], slots: int
) -> None:
    more = [*jobs, Told(0, JobState.COMPLETED), Told(1, JobState.COMPLETED)]
    assert set(of(*jobs, slots=slots).stages) <= set(of(*more, slots=slots).stages)
