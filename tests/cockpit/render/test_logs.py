"""Which log is read, and what is said where there is none."""

from __future__ import annotations

from autoexp_tui.cockpit.render.logs import NO_JOB, NONE_BEGAN, find_logs
from autoexp_tui.cockpit.state.session import build_session
from tests.support.campaigns import planned

JOBS = build_session(planned(4)).jobs


def test_without_a_job_no_job_is_said_not_to_have_begun() -> None:
    assert find_logs((), 0.0) == ((), NO_JOB, "")


def test_of_several_jobs_none_has_begun() -> None:
    assert find_logs(JOBS[:2], 0.0) == ((), NONE_BEGAN, "")


def test_a_job_that_has_not_begun_has_no_file() -> None:
    assert find_logs(JOBS[:1], 0.0) == ((), "", "")
