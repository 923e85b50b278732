"""One family first without a screen: what is chosen, and what a code says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cli import run
from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.headless import Watching, finish, over
from autoexp_tui.core.done import DoneWork
from autoexp_tui.core.errors import UsageError
from autoexp_tui.core.snapshot import Snapshot
from autoexp_tui.core.states import JobState
from autoexp_tui.testing.campaigns import all_done, planned


def canary_done() -> Snapshot:
    """All jobs completed but the last, which is held."""
    shown = all_done(4)
    held = replace(shown.jobs[-1], state=JobState.HELD)
    return replace(shown, jobs=(*shown.jobs[:-1], held))


def test_the_chosen_alone_decide_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    shown = canary_done()
    chosen = frozenset(job.name for job in shown.jobs[:-1])
    assert finish(shown, as_json=False, chosen=chosen) == ExitCode.OK


def test_without_a_choice_what_is_held_is_not_completed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert finish(canary_done(), as_json=False) == ExitCode.JOBS_NOT_COMPLETED


def test_a_submitted_rest_is_not_over_before_it_was_released() -> None:
    shown = canary_done()
    assert over(shown, Watching())
    assert not over(shown, Watching(after="c1", resting=1))


def test_a_rest_that_ended_is_over_though_its_command_has_left_the_tail() -> None:
    assert over(all_done(4), Watching(after="c1", resting=1))


def test_one_family_is_not_chosen_of_a_session() -> None:
    with pytest.raises(UsageError, match="new session"):
        run.main(["--session", "k7f2", "--first-family"])


def test_the_rest_is_of_a_session() -> None:
    with pytest.raises(UsageError, match="needs the session"):
        run.main(["--rest"])


def test_the_first_family_is_one_that_has_work_left() -> None:
    shown = planned(10)
    first = shown.jobs[0]
    done = DoneWork(job=first.name, session="k7f2", mark="", fingerprint="", at=1.0)
    jobs = tuple(
        replace(job, done=done) if job.spec.family == first.spec.family else job
        for job in shown.jobs
    )
    chosen = run.first_family_left(replace(shown, jobs=jobs))
    assert chosen
    assert first.name not in chosen
