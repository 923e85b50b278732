"""Every row has a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.state.forecast import estimate_end
from autoexp_tui.cockpit.state.reasons import (
    describe_queue,
    find_common_reason,
    find_reason,
)
from autoexp_tui.cockpit.state.session import JobView, SessionView, build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.model.snapshot import InQueue, Live, Snapshot
from autoexp_tui.model.state import Attempt, ConditionStatus, JobRecord, Retry
from autoexp_tui.model.states import Cause, JobState, Result, why
from tests.support.campaigns import T0, campaign
from tests.support.scripted_handle import with_job

SESSION = build_session(campaign(125))
HELD = {"state": JobState.HELD, "why": why("held")}
LATER = Retry(lived=T0 + 600, from_checkpoint=True, why=why("retry"))
PRIORITY = "lower priority than other jobs in partition gpu"
STEPPING = "iteration 6700 | lm loss: 1.68"
PREEMPTED = "over, Slurm says PREEMPTED; waits for Slurm to start it again"


def changed(
    look: Look, live: Live | None = None, **changes: Any
) -> tuple[JobView, SessionView]:
    """A job of that look, changed, in its session."""
    snapshot = SESSION.snapshot
    place = next(job.index for job in SESSION.jobs if job.look is look)
    jobs, lives = list(snapshot.jobs), list(snapshot.live)
    jobs[place] = replace(jobs[place], **changes)
    if live is not None:
        lives[place] = live
    return seen(replace(snapshot, jobs=tuple(jobs), live=tuple(lives)), place)


def seen(snapshot: Snapshot, place: int) -> tuple[JobView, SessionView]:
    session = build_session(snapshot)
    return session.jobs[place], session


@pytest.mark.parametrize("state", list(JobState))
def test_no_state_is_without_a_reason(state: JobState) -> None:
    base = campaign(31)
    record = JobRecord(spec=base.jobs[0].spec, state=state)
    snapshot = replace(base, jobs=(record, *base.jobs[1:]))
    assert find_reason(*seen(snapshot, 0))


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_words(cause: Cause) -> None:
    assert find_reason(*changed(Look.FAILED, cause=cause, why=None))


def ended(cause: Cause, note: str = "", **fields: Any) -> dict[str, Any]:
    attempt = Attempt(number=1, token="t", ordered_at=0, **fields)
    said = why("signal", note=note) if note else why("signal")
    return {"cause": cause, "attempts": (attempt,), "why": said}


def killed(evidence: str, note: str = "") -> dict[str, Any]:
    return ended(Cause.SIGNAL, note, signal=9, evidence=evidence)


@pytest.mark.parametrize(
    ("look", "changes", "reason"),
    [
        (
            Look.FAILED,
            ended(Cause.EXIT_CODE, exit_code=1, evidence='KeyError: "rope"'),
            'exit 1, KeyError: "rope"',
        ),
        (Look.FAILED, killed("Out of memory: 7"), "signal 9, Out of memory: 7"),
        (Look.FAILED, killed(STEPPING), "signal 9"),
        (Look.FAILED, killed(STEPPING, "it died"), "signal 9, it died"),
        (
            Look.FAILED,
            {"cause": Cause.REJECTED, "why": why("rejected", message="wants 8 GPUs")},
            "refused: wants 8 GPUs",
        ),
        (Look.WAITING, {"state": JobState.PLANNED, "why": None}, "not submitted"),
        (Look.WAITING, HELD, "not chosen: S submits it"),
        (Look.RUNNING, {"state": JobState.RETRYING, "retry": LATER}, "again at 08:51"),
        (
            Look.SKIPPED,
            {"why": why("upstream", job=SESSION.jobs[30].name, state="FAILED")},
            "its dense300…_stable failed",
        ),
    ],
)
def test_a_job_says_why_it_is_where_it_is(
    look: Look, changes: dict[str, Any], reason: str
) -> None:
    assert find_reason(*changed(look, **changes)).startswith(reason)


@pytest.mark.parametrize(
    ("live", "reason"),
    [
        (Live(step=10, total=100), "since "),
        (Live(step=50_000, total=60_000, rate=10.0), "ends ~08:57"),
        (Live(step=10, total=60_000, rate=0.1), "limit hits"),
        (Live(queue=InQueue("Slurm says DREAMING: alive")), "Slurm says DREAMING"),
        (Live(queue=InQueue(PREEMPTED, leaving=True)), PREEMPTED),
    ],
)
def test_a_run_says_when_it_ends_or_what_is_odd(live: Live, reason: str) -> None:
    assert find_reason(*changed(Look.RUNNING, live)).startswith(reason)


@pytest.mark.parametrize(
    ("queue", "waited", "reason", "sentence"),
    [
        (InQueue("Priority"), 7800, "2 h 10: Priority", "for 2 h 10: Priority"),
        (
            InQueue(PRIORITY, T0 + 5 * 3600, "gpu"),
            7800,
            f"2 h 10, ~13:41: {PRIORITY}",
            f"for 2 h 10: {PRIORITY}; Slurm expects 13:41",
        ),
        (
            InQueue("held by its owner", None, "gpu"),
            60,
            "60 s: held by its owner",
            "for 60 s in gpu: held by its owner",
        ),
        (InQueue(PRIORITY, T0 - 5), 60, f"60 s: {PRIORITY}", f"for 60 s: {PRIORITY}"),
    ],
    ids=["reason", "expected start", "partition", "a start that has passed"],
)
def test_a_queued_job_says_how_long_why_and_when_it_starts(
    queue: InQueue, waited: int, reason: str, sentence: str
) -> None:
    found = changed(Look.QUEUED, Live(queue=queue), since=T0 - waited, why=None)
    assert find_reason(*found) == reason
    assert describe_queue(*found) == sentence


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        (Look.DONE, "the last ended "),
        (Look.QUEUED, "lower priority than 41 jobs in gpu"),
    ],
)
def test_jobs_told_together_share_one_reason(look: Look, reason: str) -> None:
    jobs = [job for job in SESSION.jobs if job.look is look]
    assert find_common_reason(jobs, SESSION).startswith(reason)


@pytest.mark.parametrize(
    ("look", "stage", "reason"),
    [
        (Look.WAITING, "evaluate", "waits for cooldown"),
        (Look.DOOMED, "cooldown", "its stable failed"),
    ],
)
def test_a_sibling_goes_by_its_stage(look: Look, stage: str, reason: str) -> None:
    jobs = (job for job in SESSION.jobs if job.look is look and job.stage == stage)
    assert find_reason(next(jobs), SESSION) == reason


def test_a_job_that_waits_for_many_names_their_stage() -> None:
    base = campaign(31)
    evaluates = tuple(job.name for job in base.jobs if job.spec.stage == "evaluate")
    report = base.jobs[-1]
    spec = replace(
        report.spec, start_conditions=(JobStateIs(jobs=evaluates, state="COMPLETED"),)
    )
    told = why("job_waits", job=evaluates[0], state="RUNNING", more=9)
    status = ConditionStatus(result=Result.WAIT, why=told, since=T0)
    session = build_session(
        with_job(base, report.name, spec=spec, start=(status,), ask=None)
    )
    assert find_reason(session.jobs[-1], session) == "waits for evaluate"


def test_stalled_jobs_told_together_say_how_long_at_least() -> None:
    live = Live(step=3, total=9, last_step_at=T0 - 3600)
    job, session = changed(Look.STALLED, live)
    other = next(
        one for one in session.jobs if one.look is Look.STALLED and one is not job
    )
    assert find_common_reason([job, other], session) == "no step for > 52 min"


def test_the_expected_end_of_a_stalled_job_stands_still() -> None:
    live = Live(step=3, total=9, rate=0.001, last_step_at=T0 - 3600)
    job, session = changed(Look.STALLED, live)
    assert estimate_end(job, session.now).ends_at == T0 - 3600 + 6000
    blind, _ = changed(Look.RUNNING, Live(step=10, total=100))
    assert estimate_end(blind, session.now).ends_at is None
    assert estimate_end(job, session.now + 60).ends_at == T0 - 3600 + 6000
