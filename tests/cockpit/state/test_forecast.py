"""Estimated ends: arithmetic that holds for any session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from autoexp_tui.actions.kinds import Restart
from autoexp_tui.cockpit.render.questions import describe_cuts
from autoexp_tui.cockpit.render.why import explain_job
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.forecast import (
    Cuts,
    estimate_ends,
    find_cut,
    find_sure_cuts,
    format_end,
    measure_rates,
)
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import SessionView, build_session
from autoexp_tui.model.commands import Acknowledge
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.rules import StateEvent
from autoexp_tui.model.snapshot import InQueue, Live, Snapshot
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.state import Attempt, JobRecord, Retry
from autoexp_tui.model.states import JobState, Outcome, why
from tests.cockpit.plans import opened
from tests.cockpit.seat import cockpit
from tests.cockpit.views import text
from tests.planning.plans import job, plan
from tests.support.campaigns import HOUR, T0, all_running, plan_of

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
    total: int | None = TOTAL


def attempt_of(told: Told) -> Attempt | None:
    ended = told.state is JobState.COMPLETED
    began = ended or told.state is JobState.RUNNING
    if not began and told.state is not JobState.QUEUED:
        return None
    at = T0 - told.ran
    return Attempt(
        number=1,
        token="t",
        ordered_at=at,
        submitted_at=at,
        began_at=at if began else None,
        ended_at=T0 if ended else None,
        outcome=Outcome.COMPLETED if ended else None,
    )


def session_of(jobs: Sequence[Told], slots: int = 0) -> Snapshot:
    specs = [
        job(
            f"j{index}",
            index,
            stage=f"s{told.stage}",
            progress_total=told.total,
            depends_on=tuple(f"j{before}" for before in told.before),
        )
        for index, told in enumerate(jobs)
    ]
    records, lives = [], []
    for spec, told in zip(specs, jobs, strict=True):
        one, live = attempt_of(told), Live(step=told.step, total=TOTAL, rate=told.rate)
        attempts, since = ((one,) if one else ()), T0 - told.ran
        record = JobRecord(spec=spec, state=told.state, since=since, attempts=attempts)
        records.append(record)
        lives.append(live if told.state is JobState.RUNNING else None)
    base = opened(plan(specs))
    engine = replace(base.engine, role="live", slots=slots, committed_at=T0)
    return replace(base, jobs=tuple(records), live=tuple(lives), engine=engine)


DONE = Told(0, JobState.COMPLETED, ran=2 * HOUR)
RUNS = Told(0, JobState.RUNNING, ran=HOUR, step=500, rate=0.5)
QUEUED = Told(0, JobState.QUEUED, ran=60.0)
WAITS = Told(0, JobState.WAITING)
BLIND = replace(RUNS, step=None, rate=None)
SHORT, LONG = (replace(one, total=None) for one in (DONE, WAITS))
FIRST, THIRD = replace(WAITS, before=(0,)), replace(WAITS, before=(2,))


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
        ([QUEUED, WAITS], 0, None),
        ([DONE, BLIND, replace(WAITS, total=3 * TOTAL)], 1, 7.0),
        ([DONE, replace(RUNS, total=None, rate=0.05), SHORT, SHORT, LONG], 1, 47 / 9),
    ],
)
def test_a_session_ends_with_its_last_run(
    jobs: list[Told], slots: int, hours: float | None
) -> None:
    found = estimate_ends(build_session(session_of(jobs, slots))).session
    end = None if found is None else (found.at - T0) / HOUR
    assert end == (hours and pytest.approx(hours))
    assert found is None or (found.guessed, found.least) == (False, False)


NEXT = replace(FIRST, stage=1)  # not begun, of 1000 steps
LAST = replace(WAITS, stage=2, before=(1,), total=None)
HASTY = replace(RUNS, rate=8.0)
SLOW = replace(RUNS, rate=3e-3)
BEGUN = replace(RUNS, stage=1, rate=0.1, step=900)


@pytest.mark.parametrize(
    ("jobs", "session", "stages"),
    [
        ([RUNS], "~08:57", "s0 ~08:57"),
        ([RUNS, NEXT], "in ~50 min, guessed", "s0 ~08:57|s1 in ~50 min, guessed"),
        ([BLIND, NEXT], "", ""),
        ([HASTY, NEXT], "in ~3 min, guessed", "s0 ~08:42|s1 in ~3 min, guessed"),
        ([RUNS, BEGUN, replace(NEXT, before=(1,))], "~10:14", "s0 ~08:57|s1 ~10:14"),
        ([RUNS, NEXT, LAST], "after ~50 min, guessed", "s0 ~08:57|s1 in ~50 min, gue"),
        ([RUNS, replace(LAST, before=(0,))], "after ~08:57", "s0 ~08:57"),
        ([SLOW, replace(LAST, before=(0,))], "after ~46 h 17", "s0"),
        ([replace(RUNS, rate=0.05), NEXT], "in ~8 h, guessed", "s0 ~11:27|s1 in ~8 h"),
        (
            [replace(RUNS, rate=0.003), NEXT],
            "in ~6 d, guessed",
            "s0 in ~46 h|s1 in ~6 d",
        ),
    ],
)
def test_a_stage_that_has_not_shown_its_rate_is_guessed_by_others_and_called_so(
    jobs: list[Told], session: str, stages: str
) -> None:
    found = estimate_ends(build_session(session_of(jobs)))
    assert (format_end(found.session, T0) if found.session else "") == session
    told = [f"{name} {format_end(end, T0)}" for name, end in found.stages.items()]
    assert len(told) == len(stages.split("|")) * bool(stages)
    assert all(map(str.startswith, told, stages.split("|")))


def test_what_waits_for_a_slot_behind_a_guess_is_guessed_as_well() -> None:
    jobs = [RUNS, NEXT, replace(WAITS, before=(1,))]
    assert estimate_ends(build_session(session_of(jobs, 1))).stages["s0"].guessed


def test_a_session_that_jobs_may_join_ends_after_what_is_known_of_it() -> None:
    grows = replace(session_of([RUNS]), open_ends=("depth 1 of 3",))
    found = estimate_ends(build_session(grows))
    assert found.session is not None
    assert format_end(found.session, T0) == "after ~08:57"
    assert format_end(found.stages["s0"], T0) == "~08:57"


def find_end(snapshot: Snapshot) -> float:
    """When a session ends whose stages have all shown how fast they are."""
    end = estimate_ends(build_session(snapshot)).session
    assert end is not None
    assert (end.guessed, end.least) == (False, False)
    return end.at


def test_what_is_queued_begins_when_the_executor_expects_it_or_as_others_did() -> None:
    base = session_of([DONE, QUEUED])
    queue = InQueue(expected_at=T0 + 5 * HOUR)
    told = replace(base, live=(None, Live(queue=queue)))
    assert find_end(told) == T0 + 7 * HOUR
    late = replace(base.jobs[0].attempts[0], submitted_at=T0 - 3 * HOUR)
    told = replace(base, jobs=(replace(base.jobs[0], attempts=(late,)), base.jobs[1]))
    assert find_end(told) == T0 - 60 + HOUR + 2 * HOUR


def test_a_retry_begins_when_its_wait_is_over() -> None:
    base = session_of([DONE, replace(QUEUED, state=JobState.RETRYING)])
    retry = Retry(lived=T0 + 60, from_checkpoint=True, why=why("retry"))
    told = replace(base, jobs=(base.jobs[0], replace(base.jobs[1], retry=retry)))
    assert find_end(told) == T0 + 60 + 2 * HOUR


def two() -> Snapshot:
    """Two jobs of a stage; 10,000 steps in an hour."""
    limit = Resources(time_limit_seconds=3600)
    own: Any = {"stage": "train", "resources": limit, "progress_total": 10_000}
    return opened(plan([job(f"j{at}", at, **own) for at in range(2)]))


def running(*, rate: float = 2.0, ran: float = 600.0, step: int = 1200) -> Snapshot:
    """Both run."""
    shown = two()
    one = Attempt(number=1, token="t", ordered_at=T0 - ran, began_at=T0 - ran)
    runs: Any = {"state": JobState.RUNNING, "attempts": (one,)}
    records = tuple(replace(record, **runs) for record in shown.jobs)
    live = Live(step=step, total=10_000, rate=rate, last_step_at=T0)
    return replace(shown, jobs=records, live=(live, live))


def cuts(shown: Snapshot, before: Cuts | None = None) -> Cuts:
    return find_sure_cuts(build_session(shown), before or {})


def restarted() -> Snapshot:
    """A rule starts again what its time limit cuts."""
    shown = running()
    rule = StateEvent(name="again", state="timeout", actions=(Restart(),))
    watched = replace(plan_of(shown).monitoring, state_events=(rule,))
    return replace(shown, plan=replace(plan_of(shown), monitoring=watched))


def test_what_is_not_certain_or_meant_warns_of_nothing() -> None:
    late, young = running(rate=0.1, step=1900), running(rate=0.1, ran=120.0, step=12)
    for shown in (running(rate=3.2), late, young, restarted()):
        assert cuts(shown) == {}


def test_what_was_warned_of_clears_later_than_it_begins_or_once_it_was_seen() -> None:
    near, shown = running(rate=2.73), running()
    assert cuts(near) == {}
    assert set(cuts(near, cuts(shown))) == {"j0", "j1"}
    known, other = shown.jobs
    seen = replace(known.attempts[0], limit_seen=True)
    jobs = (replace(known, attempts=(seen,)), other)
    assert set(cuts(replace(shown, jobs=jobs), cuts(shown))) == {"j1"}


async def test_x_in_pane_5_says_that_they_were_seen() -> None:
    async with cockpit(running()) as seat:
        seat.check(
            header="2 need you, 1 cause", needs=" !2  limit too short      train"
        )
        await seat.order("5 G X", Acknowledge(limits=(("j0", 1), ("j1", 1))))


def second(**changes: Any) -> SessionView:
    """The two, the second one changed."""
    shown = two()
    last = replace(shown.jobs[1], **changes)
    return build_session(replace(shown, jobs=(shown.jobs[0], last)))


def finished(attempts: int = 1) -> dict[str, Any]:
    one = Attempt(number=1, token="t", ordered_at=T0, began_at=T0 - 5000, ended_at=T0)
    told: Any = dict.fromkeys(("session", "mark", "fingerprint"), "s")
    seconds = 5000.0 if attempts == 1 else None
    done = DoneWork(job="j1", at=T0, step=10_000, seconds=seconds, **told)
    return {"state": JobState.COMPLETED, "attempts": (one,) * attempts, "done": done}


def test_runs_that_go_on_and_whole_ones_tell_the_rate_of_their_stage() -> None:
    assert measure_rates(second(**finished())) == {"train": 2.0}
    assert measure_rates(second(**finished(attempts=2))) == {}
    session = build_session(all_running())
    rates = [one.live.rate for one in session.jobs if one.live and one.live.rate]
    assert min(rates) <= measure_rates(session)["stable"] <= max(rates)


def test_why_and_submission_say_so_of_jobs_that_have_not_begun() -> None:
    session, usual = second(), {"train": 2.0}
    told = explain_job(session.jobs[0], session, PlanWords(None), usual=usual)
    assert "will be cut by its time limit at step ~7200 of 10k" in text(*told.lines)
    assert "(60 min; 2 steps a second)" in text(*told.lines)
    job = session.jobs[1]
    assert find_cut(job, T0, {"train": 3.0}) is find_cut(job, T0, {}) is None
    (line,) = describe_cuts(session.jobs, session, usual)
    assert plain(line) == (
        "! 2 jobs of train will be cut by its time limit at step ~7200 of 10k, "
        "at 2 steps a second."
    )
