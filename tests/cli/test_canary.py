"""One family first without a screen: what is chosen, and what a code says of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from autoexp_tui.cli import confirm as confirming
from autoexp_tui.cli import run
from autoexp_tui.cli.diagnostics import ExitCode, run_guarded
from autoexp_tui.cli.headless import Watching, finish, is_over
from autoexp_tui.cli.options import Options
from autoexp_tui.model.errors import NotConfirmed, UsageError
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.specs import ExecutorSpec, Plan, Resources
from autoexp_tui.model.states import JobState
from tests.model.builders import job, plan
from tests.support.campaigns import all_done, planned


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


def test_what_is_held_keeps_nobody() -> None:
    assert is_over(canary_done(), Watching())


def test_one_family_is_not_chosen_of_a_session() -> None:
    with pytest.raises(UsageError, match="new session"):
        run.main(["--session", "k7f2", "--first-family"])


def test_the_rest_is_of_a_session() -> None:
    with pytest.raises(UsageError, match="needs the session"):
        run.main(["--rest"])


FAMILIES = plan(
    *(
        replace(
            job(f"j{n}", n, resources=Resources(time_limit_seconds=3600.0, gpus=60)),
            family=f"f{n // 2}",
        )
        for n in range(4)
    ),
    executor=ExecutorSpec(settings={"confirm_gpu_hours": 120, "confirm_jobs": None}),
)


def test_the_first_family_is_one_that_has_work_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = SimpleNamespace(done=("j0", "j1"))
    monkeypatch.setattr(confirming, "check_done", lambda _: done)
    chosen = confirming.choose_jobs(FAMILIES, Options(), first_family=True)
    assert chosen == ("j2", "j3")


def test_of_one_family_its_own_cost_alone_is_confirmed() -> None:
    with pytest.raises(NotConfirmed, match="240 GPU h"):
        confirming.choose_jobs(FAMILIES, Options(), first_family=False)
    assert confirming.choose_jobs(FAMILIES, Options(), first_family=True)


def test_the_rest_is_confirmed_when_it_goes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = _Held(FAMILIES)
    found = SimpleNamespace(path="")
    monkeypatch.setattr("autoexp_tui.cli.open.find_session", lambda _: found)
    monkeypatch.setattr("autoexp_tui.cli.open.SessionOpener.own", lambda *_: rest)
    code = run_guarded(run.main, ["--session", "k7f2", "--rest"])
    assert (code, rest.closed) == (3, True)
    assert "this submits 180 GPU h" in capsys.readouterr().err


class _Held:
    """A session of which all but the first job is held."""

    closed = False

    def __init__(self, held: Plan) -> None:
        self._plan = held

    def snapshot(self) -> Snapshot:
        views = planned(10).jobs[:4]
        states = [JobState.COMPLETED, *[JobState.HELD] * 3]
        jobs = tuple(
            replace(view, spec=spec, state=state)
            for view, spec, state in zip(views, self._plan.jobs, states, strict=True)
        )
        return replace(planned(10), plan=self._plan, jobs=jobs)

    def close(self) -> None:
        self.closed = True
