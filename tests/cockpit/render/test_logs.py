"""Which log is read, and what is said where there is none."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(("number", "said"), [(0, NO_JOB), (2, NONE_BEGAN), (1, "")])
def test_what_has_not_begun_has_no_file(number: int, said: str) -> None:
    assert find_logs(JOBS[:number], 0.0) == ((), said, "")


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


def test_an_end_leads_to_the_last_words_or_the_end_of_the_newest_log() -> None:
    ended = events.AttemptEnded(
        job=RAN.name, attempt=1, outcome=Outcome.FAILED, evidence="KeyError"
    )
    over = events.JobEnded(job=RAN.name, state=JobState.COMPLETED)
    for event, words in ((ended, "KeyError"), (over, "")):
        found = proof(event)
        assert isinstance(found, LogSpot)
        assert (found.offset, found.words) == (None, words)


@pytest.mark.parametrize("directory", ["/s/evidence", ""])
def test_kept_evidence_leads_to_its_directory_if_it_could_be_kept(
    directory: str,
) -> None:
    kept = events.EvidenceCaptured(
        job=RAN.name, attempt=1, reason="stall", directory=directory, summary="all"
    )
    assert proof(kept) == (Folder(RAN.name, directory) if directory else None)


def test_who_never_ran_has_no_log_and_other_events_their_words_alone() -> None:
    assert proof(match(WAITS.name)) is None
    assert proof(match("nobody")) is None
    assert proof(match(RAN.name, attempt=7)) is None
    assert proof(events.SubmissionPaused(why=why("paused"))) is None
