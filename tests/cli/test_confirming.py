"""The yes that a large submission needs."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from autoexp_tui.cli import plan as plan_command
from autoexp_tui.cli import run, submit
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.open import choose_jobs, confirm
from autoexp_tui.cli.options import Options
from autoexp_tui.model.errors import NotConfirmed, UsageError
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.specs import ExecutorSpec, Plan, Resources
from autoexp_tui.model.states import JobState
from autoexp_tui.storage.manifests import write_manifest
from tests.model.builders import job, plan
from tests.support.campaigns import planned

LARGE = plan(
    *(
        job(f"j{n}", n, resources=Resources(time_limit_seconds=3600.0 * 10, gpus=4))
        for n in range(3)
    ),
    executor=ExecutorSpec(settings={"confirm_gpu_hours": 100, "confirm_jobs": 2}),
)
ABOVE = (
    "120 GPU h, above the bound of 100 (slurm.confirm.gpu_hours); "
    "3 jobs, above the bound of 2 (slurm.confirm.jobs)"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Terminal]:
    """A terminal on which somebody answers; what is shown on it."""

    def prepare(answer: str) -> Terminal:
        shown = Terminal()
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        monkeypatch.setattr(sys, "stderr", shown)
        return shown

    return prepare


@pytest.mark.parametrize(
    ("command", "main"), [("autoexp-run", run.main), ("autoexp-submit", submit.main)]
)
def test_without_a_terminal_it_is_refused_and_nothing_starts(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    main: Callable[[Sequence[str]], int],
) -> None:
    manifest = write_manifest(tmp_path, LARGE)
    state = ["--state-dir", str(tmp_path)]
    code = run_guarded(main, ["--manifest", str(manifest), *state])
    assert (code, capsys.readouterr().err) == (
        3,
        f"error: this submits {ABOVE}\n"
        "  Add --yes to do it; `slurm.confirm` in the config has the bounds.\n",
    )
    assert [one.name for one in tmp_path.iterdir()] == ["manifests"]


ASKED = f"This submits {ABOVE}.\nSubmit? [y/N] "


@pytest.mark.parametrize("answer", ["y\n", "Yes\n"])
def test_on_a_terminal_it_is_asked(
    answering: Callable[[str], Terminal], answer: str
) -> None:
    shown = answering(answer)
    confirm(LARGE, Options())
    assert shown.getvalue() == ASKED


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yess\n"])
def test_anything_but_a_yes_is_a_no(
    answering: Callable[[str], Terminal], answer: str
) -> None:
    answering(answer)
    with pytest.raises(NotConfirmed, match="not submitted"):
        confirm(LARGE, Options())


@pytest.mark.parametrize(
    ("made", "options"), [(LARGE, Options(yes=True)), (plan(job("a")), Options())]
)
def test_what_is_confirmed_or_within_the_bounds_is_not_asked(
    answering: Callable[[str], Terminal], made: Plan, options: Options
) -> None:
    shown = answering("n\n")
    confirm(made, options)
    assert shown.getvalue() == ""


def test_jobs_that_are_done_already_do_not_count(
    answering: Callable[[str], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = SimpleNamespace(done={"j0": None, "j1": None})
    monkeypatch.setattr("autoexp_tui.storage.done_file.check_done", lambda _: done)
    shown = answering("n\n")
    confirm(LARGE, Options())
    assert shown.getvalue() == ""
    with pytest.raises(NotConfirmed):
        confirm(LARGE, Options(force=True))


def test_jobs_without_a_time_limit_are_told_with_the_rest(
    answering: Callable[[str], Terminal],
) -> None:
    endless = plan(
        *LARGE.jobs, job("e", 3, resources=Resources(gpus=1)), executor=LARGE.executor
    )
    shown = answering("y\n")
    confirm(endless, Options())
    assert "; 1 job without a time limit.\n" in shown.getvalue()


def test_the_cockpit_submits_at_once_only_with_a_yes() -> None:
    with pytest.raises(NotConfirmed, match="--submit submits 120 GPU h"):
        confirm(LARGE, Options(), asks=False)
    confirm(LARGE, Options(yes=True), asks=False)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--session", "k7f2", "--first-family"], "new session"),
        (["--rest"], "needs the session"),
    ],
)
def test_one_family_is_of_a_plan_and_the_rest_of_a_session(
    words: list[str], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        run.main(words)


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
    done = SimpleNamespace(done={"j0": None, "j1": None})
    monkeypatch.setattr("autoexp_tui.storage.done_file.check_done", lambda _: done)
    chosen = choose_jobs(FAMILIES, Options(), first_family=True)
    assert chosen == ("j2", "j3")


def test_of_one_family_its_own_cost_alone_is_confirmed() -> None:
    with pytest.raises(NotConfirmed, match="240 GPU h"):
        choose_jobs(FAMILIES, Options(), first_family=False)
    assert choose_jobs(FAMILIES, Options(), first_family=True)


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


def test_a_plan_says_what_it_may_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--manifest", str(write_manifest(tmp_path, LARGE))]
    assert run_guarded(plan_command.main, words) == 0
    shown = capsys.readouterr().out
    assert "estimate  3 jobs: at most 120 GPU h, 30 CPU h an attempt each\n" in shown
    run_guarded(plan_command.main, [*words, "--json"])
    found = json.loads(capsys.readouterr().out)["estimate"]
    assert (found["gpu_hours"], len(found["confirm"])) == (120.0, 2)
