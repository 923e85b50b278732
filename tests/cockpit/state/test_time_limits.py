"""Which jobs their time limit will cut, by what is known of their stage's rate."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.cockpit.render.questions import describe_cuts
from autoexp_tui.cockpit.render.why import explain_job
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.forecast import (
    StageRate,
    find_cut,
    format_cut,
    measure_rates,
)
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import SessionView, build_session
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.state import Attempt, JobRecord
from autoexp_tui.model.states import JobState
from tests.cockpit.plans import opened
from tests.planning.plans import job, plan
from tests.support.campaigns import T0, all_running

LIMITED = Resources(time_limit_seconds=3600)
USUAL = {"train": StageRate(2.0, 3)}


def view(**changes: object) -> SessionView:
    """Two jobs of a stage, 10,000 steps in an hour; the second one changed."""
    jobs = [
        job(f"j{at}", at, stage="train", resources=LIMITED, progress_total=10_000)
        for at in range(2)
    ]
    shown = opened(plan(jobs))
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


def test_a_job_too_slow_for_its_limit_is_cut_at_the_rate_of_its_stage() -> None:
    cut = find_cut(view().jobs[0], T0, USUAL)
    assert cut is not None
    assert (cut.step, cut.total, cut.runs) == (7200, 10_000, 3)


def test_a_job_fast_enough_is_not_cut() -> None:
    assert find_cut(view().jobs[0], T0, {"train": StageRate(3.0, 1)}) is None


def test_without_a_rate_nothing_is_said() -> None:
    assert find_cut(view().jobs[0], T0, {}) is None


def test_what_an_earlier_session_completed_tells_the_rate() -> None:
    assert measure_rates(view(**finished(5000.0))) == {"train": StageRate(2.0, 1)}


def test_a_run_in_several_attempts_tells_no_rate() -> None:
    assert measure_rates(view(**finished(5000.0, attempts=2))) == {}


def test_runs_that_go_on_tell_the_rate_of_their_stage() -> None:
    session = build_session(all_running())
    running = [one.live.rate for one in session.jobs if one.live and one.live.rate]
    assert running
    assert sum(one.runs for one in measure_rates(session).values()) == len(running)


def test_a_running_job_is_cut_at_its_own_rate() -> None:
    session = build_session(all_running())
    one = next(job for job in session.jobs if job.live and job.live.rate)
    spec = replace(one.record.spec, resources=Resources(time_limit_seconds=7300))
    short = replace(one, record=replace(one.record, spec=spec))
    cut = find_cut(short, session.now, {})
    assert cut is not None
    assert one.step is not None
    assert one.step <= cut.step < cut.total
    assert format_cut(cut).startswith("will be cut by its time limit at step ~")


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


def test_a_job_that_is_done_is_not_cut() -> None:
    session = view(**finished(5000.0))
    assert isinstance(session.jobs[1].record, JobRecord)
    assert find_cut(session.jobs[1], T0, {"train": StageRate(0.1, 1)}) is None
