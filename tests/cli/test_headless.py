"""What a run without a screen says while it runs."""

from __future__ import annotations

from autoexp_tui.cli.headless import Report, Watching, over
from autoexp_tui.core.states import Cause, JobState
from autoexp_tui.core.verdicts import why
from autoexp_tui.testing.campaigns import all_running
from autoexp_tui.testing.scripted_handle import with_job

RUNNING = all_running(4)
NAME = RUNNING.jobs[0].name
FAILED = with_job(
    RUNNING,
    NAME,
    state=JobState.FAILED,
    cause=Cause.EXIT_CODE,
    why=why("exit_code", code=1),
)


def new_lines(*, quiet: bool = False) -> list[str]:
    """What is said when one of several running jobs has failed."""
    lines: list[str] = []
    report = Report(out=lines.append, quiet=quiet)
    report.show(RUNNING)
    before = len(lines)
    report.show(FAILED)
    report.show(FAILED)
    return lines[before:]


def test_a_failure_is_told_with_its_reason_while_others_run() -> None:
    (line,) = new_lines()
    assert not over(FAILED, Watching())
    assert "failed" in line
    assert NAME in line
    assert "1" in line.partition(NAME)[2]


def test_who_wants_no_lines_gets_none() -> None:
    assert new_lines(quiet=True) == []
