"""Every row has a reason; what needs a person and what waits is grouped by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.render import lists
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state import reasons
from autoexp_tui.cockpit.state.forecast import estimate_end
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.reasons import (
    CauseGroup,
    describe_queue,
    find_common_reason,
    find_reason,
)
from autoexp_tui.cockpit.state.session import NEEDS, Look, SessionView, build_session
from autoexp_tui.conditions.kinds import JobStateIs
from autoexp_tui.model.snapshot import InQueue, Live
from autoexp_tui.model.state import Attempt, Retry, Warned
from autoexp_tui.model.states import Cause, JobState, Result, why
from tests.cockpit.views import SESSION, changed, failed_by, looking, status
from tests.support.campaigns import T0
from tests.support.scripted_handle import with_warnings

PRIORITY = "lower priority than other jobs in partition gpu"
STEPPING = "iteration 6700 | lm loss: 1.68"
PREEMPTED = "over, Slurm says PREEMPTED; waits for Slurm to start it again"
LATER = Retry(lived=T0 + 600, from_checkpoint=True, why=why("retry"))
STATES = [(Look.DONE, {"state": state, "why": None}) for state in JobState]
CAUSES = [(Look.FAILED, {"cause": cause, "why": None}) for cause in Cause]


def ended(cause: Cause, note: str = "", **fields: Any) -> dict[str, Any]:
    attempt = Attempt(number=1, token="t", ordered_at=0, **fields)
    said = why("signal", note=note) if note else why("signal")
    return {"cause": cause, "attempts": (attempt,), "why": said}


def killed(evidence: str, note: str = "") -> dict[str, Any]:
    return ended(Cause.SIGNAL, note, signal=9, evidence=evidence)


@pytest.mark.parametrize(("look", "changes"), [*STATES, *CAUSES])
def test_no_state_and_no_cause_is_without_words(
    look: Look, changes: dict[str, Any]
) -> None:
    assert find_reason(*changed(looking(look)[0], **changes))


ROPE = ended(Cause.EXIT_CODE, exit_code=1, evidence='KeyError: "rope"')
REFUSED = why("rejected", message="wants 8 GPUs")
UPSTREAM = why("upstream", job=SESSION.jobs[30].name, state="FAILED")
HELD = {"state": JobState.HELD, "why": why("held")}
PLANNED = {"state": JobState.PLANNED, "why": None}


@pytest.mark.parametrize(
    ("look", "changes", "reason"),
    [
        (Look.FAILED, ROPE, 'exit 1, KeyError: "rope"'),
        (Look.FAILED, killed("Out of memory: 7"), "signal 9, Out of memory: 7"),
        (Look.FAILED, killed(STEPPING), "signal 9"),
        (Look.FAILED, killed(STEPPING, "it died"), "signal 9, it died"),
        (Look.FAILED, {"cause": Cause.REJECTED, "why": REFUSED}, "refused: wants 8 GP"),
        (Look.WAITING, PLANNED, "not submitted"),
        (Look.WAITING, HELD, "not chosen: S submits it"),
        (Look.RUNNING, {"state": JobState.RETRYING, "retry": LATER}, "again at 08:51"),
        (Look.SKIPPED, {"why": UPSTREAM}, "its dense300…_stable failed"),
    ],
)
def test_a_job_says_why_it_is_where_it_is(
    look: Look, changes: dict[str, Any], reason: str
) -> None:
    assert find_reason(*changed(looking(look)[0], **changes)).startswith(reason)


@pytest.mark.parametrize(
    ("live", "reason"),
    [
        (Live(step=10, total=100), "since "),
        (Live(step=50_000, total=60_000, rate=10.0), "ends ~08:57"),
        (Live(step=10, total=60_000, rate=0.1), "limit hits"),
        (Live(queue=InQueue(PREEMPTED, leaving=True)), PREEMPTED),
    ],
)
def test_a_run_says_when_it_ends_or_what_is_odd(live: Live, reason: str) -> None:
    assert find_reason(*changed(looking(Look.RUNNING)[0], live)).startswith(reason)


SOON = InQueue(PRIORITY, T0 + 5 * 3600, "gpu")
EXPECTED = f"for 2 h 10: {PRIORITY}; Slurm expects 13:41"
PASSED = InQueue("Priority", T0 - 5)
OWN = InQueue("held by its owner", None, "gpu")


@pytest.mark.parametrize(
    ("queue", "waited", "reason", "sentence"),
    [
        (SOON, 7800, f"2 h 10, ~13:41: {PRIORITY}", EXPECTED),
        (OWN, 60, "60 s: held by its owner", "for 60 s: held by its owner"),
        (PASSED, 60, "60 s: Priority", "for 60 s: Priority"),
    ],
)
def test_a_queued_job_says_how_long_why_and_when_it_starts(
    queue: InQueue, waited: int, reason: str, sentence: str
) -> None:
    job = looking(Look.QUEUED)[0]
    found = changed(job, Live(queue=queue), since=T0 - waited, why=None)
    assert (find_reason(*found), describe_queue(*found)) == (reason, sentence)


def test_jobs_told_together_share_one_reason() -> None:
    def told(look: Look) -> str:
        return find_common_reason(looking(look), SESSION)

    assert told(Look.DONE).startswith("the last ended ")
    stall, session = changed(
        looking(Look.STALLED)[0], Live(step=3, total=9, last_step_at=T0 - 3600)
    )
    both = [stall, looking(Look.STALLED, session)[1]]
    assert find_common_reason(both, session) == "no step for > 52 min"
    assert told(Look.QUEUED) == "lower priority than 41 jobs in gpu"
    other = changed(looking(Look.QUEUED)[0], Live(queue=OWN))[0]
    assert find_common_reason((*looking(Look.QUEUED), other), SESSION) == "queued"


def test_others_go_by_their_stage() -> None:
    evaluates = tuple(job.name for job in SESSION.jobs if job.stage == "evaluate")
    all_of_them = (JobStateIs(jobs=evaluates, state="COMPLETED"),)
    last = SESSION.jobs[-1]
    told = why("job_waits", job=evaluates[0], state="RUNNING", more=9)
    spec = replace(last.record.spec, start_conditions=all_of_them)
    start = (status(Result.WAIT, told),)
    report = changed(last, spec=spec, start=start, ask=None)
    assert find_reason(*report) == "waits for evaluate"


def test_the_expected_end_of_a_stalled_job_stands_still() -> None:
    live = Live(step=3, total=9, rate=0.001, last_step_at=T0 - 3600)
    job, session = changed(looking(Look.STALLED)[0], live)
    for now in (session.now, session.now + 60):
        assert estimate_end(job, now) == T0 - 3600 + 6000
    blind, _ = changed(looking(Look.RUNNING)[0], Live(step=10, total=100))
    assert estimate_end(blind, session.now) is None


def groups_of(session: SessionView = SESSION) -> tuple[CauseGroup, ...]:
    return reasons.group_causes(session, PlanWords(session.snapshot.plan))


GROUPS = groups_of()


def test_everybody_who_needs_a_person_is_in_a_cause_of_what_is_alike() -> None:
    wanted = {job.name for job in SESSION.jobs if job.look in NEEDS}
    assert {job.name for group in GROUPS for job in group.jobs} == wanted
    assert all(width(lists.render_cause(group, 33)) == 33 for group in GROUPS)
    long = replace(GROUPS[0], title="exit 1, RuntimeError", common="lr=1e-2 " * 9)
    assert "exit 1, Runtime" in plain(lists.render_cause(long, 33))
    assert reasons.describe_needs(()) == ""


def test_a_trial_that_failed_needs_nobody_and_its_row_says_that_it_failed() -> None:
    failed = looking(Look.FAILED)[0]
    spec = replace(failed.record.spec, trial=True, place="beside")
    job, session = changed(failed, spec=spec)
    about: Any = {"job": job.name, "severity": "error", "evidence": ""}
    told = Warned(warning_id="w", why=why("nan"), raised_at=T0, **about)
    session = build_session(with_warnings(session.snapshot, told))
    there = session.find_job(job.name)
    assert there is not None
    assert (there.look, there.is_needy) == (Look.FAILED, False)
    groups = groups_of(session)
    assert reasons.count_needs(groups) == reasons.count_needs(GROUPS) - 1
    assert job.name not in {one.name for group in groups for one in group.jobs}


def test_equal_evidence_is_shown_once_with_its_number() -> None:
    memory = next(group for group in GROUPS if group.title == "out of memory")
    (only,) = lists.render_evidence(memory)
    assert "oom_kill" in plain(only)
    assert "4 of them" in plain(only)
    job, keys = failed_by(Cause.EXIT_CODE)[0], set()
    for number in (3, 7):
        attempt = replace(job.record.attempts[0], evidence=f"rank {number} died")
        keys.add(reasons.build_cause_key(changed(job, attempts=(attempt,))[0]))
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("look", "severity", "more"),
    [
        (Look.DONE, "warning", 1),
        (Look.FAILED, "warning", 0),
        (None, "warning", 1),
        (None, "info", 0),
    ],
)
def test_warnings_of_what_looks_well_need_a_person(
    look: Look | None, severity: str, more: int
) -> None:
    told = Warned(
        warning_id="w",
        why=why("plateau", metric="loss"),
        job=looking(look)[0].name if look else "",
        severity=severity,
        evidence="iteration 900 loss 2.6",
        raised_at=T0,
    )
    groups = groups_of(build_session(with_warnings(SESSION.snapshot, told)))
    assert reasons.count_needs(groups) == reasons.count_needs(GROUPS) + more
    if more and look is None:
        assert groups[-1].look is None
        assert "loss 2.6" in plain(next(lists.render_evidence(groups[-1])))


def test_every_waiting_job_is_in_one_group_of_its_kind_the_longest_wait_first() -> None:
    waiting = [job for job in SESSION.jobs if job.look in reasons.WAITING]
    groups = reasons.group_waits(waiting)
    found = [job for group in groups for job in group.jobs]
    assert sorted(found, key=waiting.index) == waiting
    assert "4 can never start" in reasons.describe_waits(groups)
    assert reasons.describe_waits(()) == "nothing waits"
    assert (oldest := [group.oldest for group in groups]) == sorted(oldest)
    for group in groups:
        assert len({(job.look, job.stage) for job in group.jobs}) == 1
        since = [reasons.find_wait_begin(job) for job in group.jobs]
        assert since == sorted(since)


@pytest.mark.parametrize("code", ["paused", "held_by_storm"])
def test_a_job_that_asks_waits_since_then_and_one_that_a_pause_keeps_since_the_pause(
    code: str,
) -> None:
    asks = looking(Look.ASKS)[0]
    assert asks.record.ask is not None
    asked = replace(asks.record.ask, asked_at=T0 - 6)
    later, _ = changed(asks, ask=asked, since=T0 - 3600, waiting_lived=T0 - 3600)
    assert reasons.find_wait_begin(later) == T0 - 6
    kept: dict[str, Any] = {"start": (status(Result.PASS),), "waiting_lived": T0 - 99}
    told = why(code, at=T0 - 7)
    job, _ = changed(looking(Look.WAITING)[0], why=told, **kept)
    assert reasons.find_wait_begin(job) == T0 - 7
