from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoexp_tui.cli.diagnostics import ExitCode, run_guarded
from autoexp_tui.cli.options import Options, parse_options
from autoexp_tui.model.errors import (
    EnvironmentFailed,
    Problem,
    SessionOwned,
    UsageError,
    ValidationFailed,
)


def options(*argv: str) -> Options:
    return parse_options("autoexp-run", "about", argv)[0]


def test_options_and_overrides_come_in_any_order() -> None:
    found = options("optim.lr=1e-3", "--config-ref", "exp", "+new=1", "--json", "~old")
    assert found.overrides == ("optim.lr=1e-3", "+new=1", "~old")
    assert (found.config_ref, found.json) == ("exp", True)


def test_the_state_directory_of_the_option_wins_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AUTOEXP_STATE_DIR", "/from/env")
    assert options().state_dir == "/from/env"
    assert options("--state-dir", "/given").state_dir == "/given"


@pytest.mark.parametrize(
    ("given", "stages"),
    [("none", set()), ("all", {"*"}), ("report,eval", {"report", "eval"})],
)
def test_approve_names_nobody_everybody_or_stages(given: str, stages: set[str]) -> None:
    assert options("--approve", given).approve == stages


def test_local_chooses_the_local_executor() -> None:
    local = "++slurm.client.class_name=LocalClient"
    assert options("--local", "a=1").overrides == ("a=1", local)


@pytest.mark.parametrize("text", ["plan", "= 3", "two words", "9x=1"])
def test_an_argument_that_is_no_override_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match="neither an option nor an override"):
        options(text)


def test_an_unknown_option_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--sesion"):
        options("--sesion", "k7f2")


def test_options_are_not_abbreviated() -> None:
    with pytest.raises(UsageError):
        options("--config", "exp")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (ValidationFailed("x", problems=(Problem("y"),)), 3),
        (SessionOwned("x"), 4),
        (EnvironmentFailed("x"), 5),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_kind_of_error_has_its_exit_code_and_no_traceback(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(_argv: Sequence[str]) -> int:
        raise error

    assert run_guarded(main, []) == code
    assert "Traceback" not in capsys.readouterr().err


def test_a_bug_ends_with_70_and_says_where_its_traceback_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def main(_argv: Sequence[str]) -> int:
        raise ZeroDivisionError("oops")

    assert run_guarded(main, []) == ExitCode.INTERNAL
    said = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: oops" in said
    assert "The traceback is in /" in said


def test_all_findings_of_a_plan_are_shown_at_once() -> None:
    error = ValidationFailed(
        "the plan has 2 errors",
        problems=(
            Problem("no stage stabel", where="sweep.groups[1]", hint="stable?"),
            Problem("two jobs are named a", job="a"),
        ),
    )
    assert "no stage stabel" in str(error)
    assert "stable?" in str(error)
    assert "two jobs are named a" in str(error)
