"""The yes that a large submission needs."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from autoexp_tui.cli import plan as plan_command
from autoexp_tui.cli import run, submit
from autoexp_tui.cli.confirm import confirm, require_confirmed
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.cli.options import Options
from autoexp_tui.model.errors import NotConfirmed
from autoexp_tui.model.specs import ExecutorSpec, Resources
from autoexp_tui.storage.manifests import write_manifest
from tests.model.builders import job, plan

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


@pytest.mark.parametrize("answer", ["y\n", "Yes\n"])
def test_on_a_terminal_it_is_asked(
    answering: Callable[[str], Terminal], answer: str
) -> None:
    shown = answering(answer)
    confirm(LARGE, Options())
    assert shown.getvalue() == f"This submits {ABOVE}.\nSubmit? [y/N] "


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yess\n"])
def test_anything_but_a_yes_is_a_no(
    answering: Callable[[str], Terminal], answer: str
) -> None:
    answering(answer)
    with pytest.raises(NotConfirmed, match="not submitted"):
        confirm(LARGE, Options())


def test_yes_is_not_asked_again(answering: Callable[[str], Terminal]) -> None:
    shown = answering("n\n")
    confirm(LARGE, Options(yes=True))
    assert shown.getvalue() == ""


def test_what_is_within_the_bounds_is_not_asked(
    answering: Callable[[str], Terminal],
) -> None:
    shown = answering("n\n")
    small = plan(job("a"))
    confirm(small, Options())
    assert shown.getvalue() == ""


def test_jobs_that_are_done_already_do_not_count(
    answering: Callable[[str], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Done:
        done = ("j0", "j1")

    monkeypatch.setattr("autoexp_tui.cli.confirm.check_done", lambda _: Done)
    shown = answering("n\n")
    confirm(LARGE, Options())
    assert shown.getvalue() == ""
    with pytest.raises(NotConfirmed):
        confirm(LARGE, Options(force=True))


def test_jobs_without_a_time_limit_are_told_with_the_rest(
    answering: Callable[[str], Terminal],
) -> None:
    endless = plan(
        *LARGE.jobs,
        job("e", 3, resources=Resources(gpus=1)),
        executor=LARGE.executor,
    )
    shown = answering("y\n")
    confirm(endless, Options())
    assert "; 1 job without a time limit.\n" in shown.getvalue()


def test_the_cockpit_submits_at_once_only_with_a_yes() -> None:
    with pytest.raises(NotConfirmed, match="--submit submits 120 GPU h"):
        require_confirmed(LARGE, Options())
    require_confirmed(LARGE, Options(yes=True))


# ------------------------------------------------------------------------- the plan
def test_a_plan_says_what_it_may_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = write_manifest(tmp_path, LARGE)
    assert run_guarded(plan_command.main, ["--manifest", str(manifest)]) == 0
    shown = capsys.readouterr().out
    assert "estimate  3 jobs: at most 120 GPU h, 30 CPU h an attempt each\n" in shown


def test_the_json_of_a_plan_has_the_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = write_manifest(tmp_path, LARGE)
    run_guarded(plan_command.main, ["--manifest", str(manifest), "--json"])
    found = json.loads(capsys.readouterr().out)["estimate"]
    assert found["gpu_hours"] == 120.0
    assert len(found["confirm"]) == 2
