"""Which log is read, and what is said where there is none."""

from __future__ import annotations

from autoexp_tui.cockpit.render.logs import (
    NO_JOB,
    NONE_BEGAN,
    Folder,
    LogSpot,
    find_evidence,
    find_logs,
)
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.events import events
from autoexp_tui.model.event import Event
from autoexp_tui.model.states import JobState, Outcome, why
from tests.support.campaigns import campaign, planned

JOBS = build_session(planned(4)).jobs


def test_without_a_job_no_job_is_said_not_to_have_begun() -> None:
    assert find_logs((), 0.0) == ((), NO_JOB, "")


def test_of_several_jobs_none_has_begun() -> None:
    assert find_logs(JOBS[:2], 0.0) == ((), NONE_BEGAN, "")


def test_a_job_that_has_not_begun_has_no_file() -> None:
    assert find_logs(JOBS[:1], 0.0) == ((), "", "")


SESSION = build_session(campaign(31))
RAN = next(job for job in SESSION.jobs if job.attempt and job.attempt.log_path)
WAITS = next(job for job in SESSION.jobs if job.attempt is None)


def proof(event: Event) -> LogSpot | Folder | None:
    return find_evidence(event, SESSION)


def match(job: str, attempt: int = 1) -> events.LogMatched:
    return events.LogMatched(
        match_id="m", job=job, attempt=attempt, run=0, rule="r", offset=812, line="x"
    )


def test_a_match_leads_to_its_byte_in_the_log() -> None:
    found = proof(match(RAN.name))
    assert isinstance(found, LogSpot)
    assert found.offset == 812
    assert found.source.path == RAN.record.attempts[0].log_path


def test_the_end_of_an_attempt_leads_to_its_last_words() -> None:
    ended = events.AttemptEnded(
        job=RAN.name, attempt=1, outcome=Outcome.FAILED, evidence="KeyError"
    )
    found = proof(ended)
    assert isinstance(found, LogSpot)
    assert (found.offset, found.words) == (None, "KeyError")


def test_a_job_s_end_leads_to_the_end_of_its_newest_log() -> None:
    found = proof(events.JobEnded(job=RAN.name, state=JobState.COMPLETED))
    assert isinstance(found, LogSpot)
    assert found.offset is None


def test_kept_evidence_leads_to_its_directory() -> None:
    kept = events.EvidenceCaptured(
        job=RAN.name, attempt=1, reason="stall", directory="/s/evidence", summary="all"
    )
    assert proof(kept) == Folder(RAN.name, "/s/evidence")


def test_what_could_not_be_kept_leads_nowhere() -> None:
    kept = events.EvidenceCaptured(
        job=RAN.name, attempt=1, reason="stall", directory="", summary="disk full"
    )
    assert proof(kept) is None


def test_a_job_that_never_ran_has_no_log() -> None:
    assert proof(match(WAITS.name)) is None
    assert proof(match("nobody")) is None
    assert proof(match(RAN.name, attempt=7)) is None


def test_other_events_have_their_own_words_alone() -> None:
    assert proof(events.SubmissionPaused(why=why("paused"))) is None
