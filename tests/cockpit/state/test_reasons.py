"""Every row has a reason."""

from __future__ import annotations

from dataclasses import replace

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
from autoexp_tui.model.states import Cause, JobState, Result, Why, why
from tests.support.campaigns import T0, campaign
from tests.support.scripted_handle import with_job


def changed(
    look: Look, live: Live | None = None, **changes: object
) -> tuple[JobView, SessionView]:
    """A job of that look, changed, in its session."""
    snapshot = campaign(125)
    place = next(job.index for job in build_session(snapshot).jobs if job.look is look)
    jobs, lives = list(snapshot.jobs), list(snapshot.live)
    jobs[place] = replace(jobs[place], **changes)  # type: ignore[arg-type]
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
    job, session = changed(Look.FAILED, cause=cause, why=None)
    assert find_reason(job, session)


def test_an_exit_code_comes_with_the_last_error_line() -> None:
    attempt = Attempt(
        number=1, token="t", ordered_at=0, exit_code=1, evidence='KeyError: "rope"'
    )
    job, session = changed(Look.FAILED, cause=Cause.EXIT_CODE, attempts=(attempt,))
    assert find_reason(job, session) == 'exit 1, KeyError: "rope"'


def killed(evidence: str, note: str = "") -> str:
    attempt = Attempt(number=1, token="t", ordered_at=0, signal=9, evidence=evidence)
    said = why("signal", signal="SIGKILL", note=note) if note else why("signal")
    job, session = changed(
        Look.FAILED, cause=Cause.SIGNAL, attempts=(attempt,), why=said
    )
    return find_reason(job, session)


STEPPING = "iteration 6700 | lm loss: 1.68"


@pytest.mark.parametrize(
    ("evidence", "note", "reason"),
    [
        (
            "Out of memory: Killed process 7",
            "",
            "signal 9, Out of memory: Killed process 7",
        ),
        (STEPPING, "", "signal 9"),
        (STEPPING, "the supervisor died", "signal 9, the supervisor died"),
    ],
)
def test_a_signal_comes_with_what_explains_it(
    evidence: str, note: str, reason: str
) -> None:
    assert killed(evidence, note) == reason


@pytest.mark.parametrize(
    ("live", "reason"),
    [
        (Live(step=50_000, total=60_000, rate=10.0), "ends ~08:57"),
        (Live(step=10, total=60_000, rate=0.1), "limit hits"),
        (
            Live(queue=InQueue("Slurm says DREAMING: taken as alive")),
            "Slurm says DREAMING",
        ),
    ],
)
def test_a_running_job_says_when_it_ends_or_what_is_odd(
    live: Live, reason: str
) -> None:
    assert find_reason(*changed(Look.RUNNING, live)).startswith(reason)


@pytest.mark.parametrize(
    ("state", "of"), [(JobState.PLANNED, None), (JobState.HELD, why("held"))]
)
def test_what_was_not_submitted_says_how_to_begin(
    state: JobState, of: Why | None
) -> None:
    assert "S submits it" in find_reason(*changed(Look.WAITING, state=state, why=of))


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        (Look.DONE, "the last ended "),
        (Look.QUEUED, "lower priority than 41 jobs in gpu"),
    ],
)
def test_jobs_told_together_share_one_reason(look: Look, reason: str) -> None:
    session = build_session(campaign(125))
    jobs = [job for job in session.jobs if job.look is look]
    assert find_common_reason(jobs, session).startswith(reason)


def test_without_a_rate_there_is_no_estimate() -> None:
    job, session = changed(Look.RUNNING, Live(step=10, total=100))
    assert estimate_end(job, session.now).ends_at is None
    assert find_reason(job, session).startswith("since")


def test_a_queued_job_says_what_the_queue_says() -> None:
    live = Live(queue=InQueue("Priority"))
    job, session = changed(Look.QUEUED, live, since=T0 - 7800, why=None)
    assert find_reason(job, session) == "2 h 10: Priority"


def test_a_sibling_goes_by_its_stage() -> None:
    session = build_session(campaign(125))
    waiting = [job for job in session.jobs if job.look is Look.WAITING]
    evaluate = next(job for job in waiting if job.stage == "evaluate")
    assert find_reason(evaluate, session) == "waits for cooldown"


def test_another_family_s_job_goes_by_its_name() -> None:
    session = build_session(campaign(125))
    stranger = session.jobs[30].name
    told = why("upstream", job=stranger, state="FAILED")
    job, session = changed(Look.SKIPPED, why=told)
    assert stranger[:8] in find_reason(job, session)


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


def test_a_retry_says_when() -> None:
    retry = Retry(lived=T0 + 600, from_checkpoint=True, why=why("retry"))
    job, session = changed(Look.RUNNING, state=JobState.RETRYING, retry=retry)
    assert find_reason(job, session) == "again at 08:51"


def test_a_doomed_wait_names_the_stage_that_failed() -> None:
    session = build_session(campaign(125))
    doomed = next(job for job in session.jobs if job.look is Look.DOOMED)
    assert find_reason(doomed, session) == "its stable failed"


def test_a_long_name_leaves_room_for_what_became_of_it() -> None:
    told = why("upstream", job="a_name_" * 9, state="FAILED")
    job, session = changed(Look.SKIPPED, why=told)
    assert find_reason(job, session).endswith(" failed")


def test_what_the_executor_refused_is_told_in_its_words() -> None:
    told = why("rejected", message="wants 8 GPUs; this machine has 0")
    job, session = changed(Look.FAILED, cause=Cause.REJECTED, why=told)
    assert find_reason(job, session).startswith("refused: wants 8 GPUs; this m")


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
    assert estimate_end(job, session.now + 60).ends_at == T0 - 3600 + 6000


PRIORITY = "lower priority than other jobs in partition gpu"


def test_the_expected_start_stays_in_sight_when_the_reason_is_cut() -> None:
    live = Live(queue=InQueue(PRIORITY, T0 + 5 * 3600, "gpu"))
    job, session = changed(Look.QUEUED, live, since=T0 - 7800, why=None)
    assert find_reason(job, session).startswith("2 h 10, ~13:41: lower priority")


def test_a_queued_job_s_sentence_has_place_reason_and_expected_start() -> None:
    live = Live(queue=InQueue(PRIORITY, T0 + 5 * 3600, "gpu"))
    job, session = changed(Look.QUEUED, live, since=T0 - 7800, why=None)
    told = describe_queue(job, session)
    assert told == f"for 2 h 10: {PRIORITY}; Slurm expects 13:41"


def test_a_reason_that_does_not_name_the_partition_is_told_with_it() -> None:
    live = Live(queue=InQueue("held by its owner", None, "gpu"))
    job, session = changed(Look.QUEUED, live, since=T0 - 60, why=None)
    assert describe_queue(job, session) == "for 60 s in gpu: held by its owner"


def test_an_expected_start_that_has_passed_is_not_told() -> None:
    live = Live(queue=InQueue(PRIORITY, T0 - 5))
    job, session = changed(Look.QUEUED, live, since=T0 - 60, why=None)
    assert "expects" not in describe_queue(job, session)
    assert "~" not in find_reason(job, session)


def test_a_run_that_is_over_says_what_its_end_waits_for() -> None:
    says = "over, Slurm says PREEMPTED; waits for Slurm to start it again"
    job, session = changed(Look.RUNNING, Live(queue=InQueue(says, leaving=True)))
    assert (job.look, find_reason(job, session)) == (Look.ENDING, says)
