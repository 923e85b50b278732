"""Estimated ends: arithmetic that holds for any session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.actions.restart import Restart
from autoexp_tui.cockpit.render.lists import render_evidence
from autoexp_tui.cockpit.render.questions import describe_cuts
from autoexp_tui.cockpit.render.why import explain_job
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.causes import group_causes
from autoexp_tui.cockpit.state.forecast import (
    Cuts,
    Ends,
    StageRate,
    estimate_ends,
    find_cut,
    find_sure_cuts,
    measure_rates,
)
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import SessionView, build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.commands import Acknowledge
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.rules import StateEvent
from autoexp_tui.model.snapshot import InQueue, Live, Snapshot
from autoexp_tui.model.specs import Edge, JobSpec, Plan, Resources
from autoexp_tui.model.state import Attempt, JobRecord, Retry
from autoexp_tui.model.states import JobState, Outcome, why
from tests.cockpit.plans import opened
from tests.cockpit.seat import cockpit
from tests.planning.plans import job, plan
from tests.support.campaigns import HOUR, T0, all_running, campaign

TOTAL = 1000
LIMITED = Resources(time_limit_seconds=3600)


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


BLIND = replace(RUNS, step=None, rate=None)
FIRST, THIRD = replace(WAITS, before=(0,)), replace(WAITS, before=(2,))
ROUND = [replace(WAITS, before=(2,)), replace(WAITS, before=(1,))]


@pytest.mark.parametrize(
    ("jobs", "slots", "hours"),
    [
        ([RUNS], 0, 1000 / HOUR),
        ([RUNS, replace(WAITS, state=JobState.HELD)], 0, 1000 / HOUR),
        ([DONE, BLIND], 0, 1.0),
        ([replace(RUNS, rate=0.25), DONE, FIRST], 0, 2000 / HOUR * 1.5 + 1.5),
        ([DONE, BLIND, WAITS, WAITS], 1, 5.0),
        ([DONE, BLIND, WAITS, WAITS], 2, 3.0),
        ([DONE, BLIND, replace(BLIND, ran=HOUR / 2), WAITS], 1, 3.5),
        ([DONE, THIRD, BLIND], 0, 3.0),
        ([RUNS, *ROUND], 0, None),
    ],
    ids=[
        "its steps",
        "held back",
        "as finished siblings",
        "after what it waits for",
        "one slot",
        "two slots",
        "more run than slots",
        "waited for is last",
        "a ring",
    ],
)
def test_a_session_ends_with_its_last_run(
    jobs: list[Told], slots: int, hours: float | None
) -> None:
    end = None if hours is None else pytest.approx(T0 + hours * HOUR)
    assert of(*jobs, slots=slots).session == end


def test_of_a_stage_that_nobody_has_run_nothing_is_said() -> None:
    found = of(RUNS, Told(1, JobState.WAITING))
    assert found.session is None
    assert set(found.stages) == {"s0"}


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


def test_a_retry_begins_when_its_wait_is_over() -> None:
    base = session([DONE, replace(QUEUED, state=JobState.RETRYING)]).snapshot
    retry = Retry(lived=T0 + 60, from_checkpoint=True, why=why("retry"))
    told = replace(base, jobs=(base.jobs[0], replace(base.jobs[1], retry=retry)))
    assert estimate_ends(build_session(told)).session == T0 + 60 + 2 * HOUR


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


def two() -> Snapshot:
    """Two jobs of a stage; 10,000 steps in an hour."""
    jobs = [
        job(f"j{at}", at, stage="train", resources=LIMITED, progress_total=10_000)
        for at in range(2)
    ]
    return opened(plan(jobs))


def running(*, rate: float = 2.0, ran: float = 600.0, step: int = 1200) -> Snapshot:
    """Both run."""
    shown = two()
    one = Attempt(number=1, token="t", ordered_at=T0 - ran, began_at=T0 - ran)
    records = tuple(
        replace(record, state=JobState.RUNNING, attempts=(one,))
        for record in shown.jobs
    )
    live = Live(step=step, total=10_000, rate=rate, last_step_at=T0)
    return replace(shown, jobs=records, live=(live, live))


def cuts(shown: Snapshot, before: Cuts | None = None) -> Cuts:
    return find_sure_cuts(build_session(shown), before or {})


def test_jobs_too_slow_for_their_limit_are_one_cause_of_their_stage() -> None:
    session = build_session(running())
    words = PlanWords(session.snapshot.plan)
    (group,) = group_causes(session, words, find_sure_cuts(session))
    assert (group.title, group.size) == ("limit too short", 2)
    (evidence,) = render_evidence(group)
    told = "will be cut by its time limit at step ~7200 of 10k"
    assert plain(evidence).startswith(told)


@pytest.mark.parametrize(
    "shown",
    [
        running(rate=3.2),
        running(rate=0.1, step=1900),
        running(rate=0.1, ran=120.0, step=12),
    ],
    ids=["ends in time", "a moment of slowness", "hardly begun"],
)
def test_what_is_not_certain_warns_of_nothing(shown: Snapshot) -> None:
    assert cuts(shown) == {}


def test_what_was_warned_of_clears_later_than_it_begins() -> None:
    near = running(rate=2.73)
    assert cuts(near) == {}
    assert set(cuts(near, cuts(running()))) == {"j0", "j1"}


def test_a_job_that_a_rule_starts_again_is_meant_to_be_cut() -> None:
    shown = running()
    assert shown.plan is not None
    rule = StateEvent(name="again", state="timeout", actions=(Restart(),))
    watched = replace(shown.plan.monitoring, state_events=(rule,))
    assert cuts(replace(shown, plan=replace(shown.plan, monitoring=watched))) == {}


def test_a_limit_that_a_person_knows_of_is_not_told_again() -> None:
    shown = running()
    (known, other) = shown.jobs
    seen = replace(known.attempts[0], limit_seen=True)
    jobs = (replace(known, attempts=(seen,)), other)
    assert set(cuts(replace(shown, jobs=jobs), cuts(shown))) == {"j1"}


async def test_x_in_pane_5_says_that_they_were_seen() -> None:
    async with cockpit(running()) as seat:
        assert "2 need you, 1 cause" in seat.everything
        assert "!2  limit too short   train" in seat.pane("needs")
        await seat.press("5", "G", "X")
        assert seat.handle.commands == [Acknowledge(limits=(("j0", 1), ("j1", 1)))]
        assert "2 warnings acknowledged" in seat.everything


async def test_the_next_need_goes_on_after_a_job_with_two_causes() -> None:
    async with cockpit(running()) as seat:
        (group,) = seat.model.groups
        also = replace(group, key="other", jobs=group.jobs[:1])
        seat.model.groups = (also, group)
        after = seat.model.next_need("j0")
        assert after is not None
        assert after.name == "j1"


USUAL = {"train": StageRate(2.0, 3)}


def view(**changes: object) -> SessionView:
    """The second one changed."""
    shown = two()
    last = replace(shown.jobs[1], **changes)  # type: ignore[arg-type]
    return build_session(replace(shown, jobs=(shown.jobs[0], last)))


def finished(seconds: float, attempts: int = 1) -> dict[str, object]:
    one = Attempt(
        number=1, token="t", ordered_at=T0, began_at=T0 - seconds, ended_at=T0
    )
    done = DoneWork(
        job="j1", session="s", mark="s", fingerprint="f", at=T0, step=10_000
    )
    return {
        "state": JobState.COMPLETED,
        "attempts": (one,) * attempts,
        "done": replace(done, seconds=seconds if attempts == 1 else None),
    }


@pytest.mark.parametrize(
    ("changes", "known"),
    [({}, 3.0), ({}, None), (finished(5000.0), 0.1)],
    ids=["fast enough", "no rate", "done"],
)
def test_who_is_not_cut(changes: dict[str, object], known: float | None) -> None:
    rates = {"train": StageRate(known, 1)} if known else {}
    assert find_cut(view(**changes).jobs[1], T0, rates) is None


@pytest.mark.parametrize(
    ("attempts", "rates"), [(1, {"train": StageRate(2.0, 1)}), (2, {})]
)
def test_an_earlier_session_s_whole_run_tells_the_rate(
    attempts: int, rates: dict[str, StageRate]
) -> None:
    assert measure_rates(view(**finished(5000.0, attempts))) == rates


def test_runs_that_go_on_tell_the_rate_of_their_stage() -> None:
    session = build_session(all_running())
    running = [one.live.rate for one in session.jobs if one.live and one.live.rate]
    assert running
    assert sum(one.runs for one in measure_rates(session).values()) == len(running)


def test_why_says_so_of_a_job_that_has_not_begun() -> None:
    session = view()
    told = explain_job(session.jobs[0], session, PlanWords(None), usual=USUAL)
    text = "\n".join(plain(line) for line in told.lines)
    assert "will be cut by its time limit at step ~7200 of 10k" in text
    assert "as 3 runs of its stage" in text


def test_submission_says_so_once_a_stage() -> None:
    session = view()
    (line,) = describe_cuts(session.jobs, session, USUAL)
    assert plain(line) == (
        "! 2 jobs of train reach only step ~7200 of 10k before the time limit, "
        "at 2 steps a second."
    )
