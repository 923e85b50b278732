"""What command lines mean, and what is said of errors, whoever wrote them."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace

import pytest

from autoexp_tui.cli import tui
from autoexp_tui.cli.diagnostics import ExitCode, run_guarded, say
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


@pytest.mark.parametrize("words", [("--sesion", "k7f2"), ("--config", "exp")])
def test_an_unknown_or_shortened_option_is_a_usage_error(words: Sequence[str]) -> None:
    with pytest.raises(UsageError, match=words[0]):
        options(*words)


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


def test_an_error_that_quotes_outside_text_steers_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def main(argv: Sequence[str]) -> int:
        raise UsageError("no job `\x1b[2J\u202ea\x9b1mb`", hint="one\nto a line")

    assert run_guarded(main, []) == 2
    assert capsys.readouterr().err == "error: no job `ab`\n  one\n  to a line\n"


def test_what_is_said_to_a_terminal_that_has_gone_is_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stderr", gone)
        say("words")
        monkeypatch.undo()
        with suppress(OSError):
            gone.close()


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}", SimpleNamespace(isatty=lambda: True))


@pytest.mark.parametrize(
    ("words", "config"),
    [
        (["-C", "conf"], "exp"),
        (["lr=3"], "exp"),
        (["--config-ref", "mine", "lr=3"], "mine"),
        (["--session", "k7f2", "-C", "conf"], ""),
        (["--manifest", "plan.json", "-C", "conf"], ""),
    ],
)
def test_a_config_directory_or_overrides_alone_mean_the_usual_config(
    monkeypatch: pytest.MonkeyPatch, words: list[str], config: str
) -> None:
    on_a_terminal(monkeypatch)
    shown: list[Options] = []
    monkeypatch.setattr(
        tui,
        "Cockpit",
        lambda options, _: SimpleNamespace(run=lambda: shown.append(options)),
    )
    tui.main(words)
    assert [options.config_ref for options in shown] == [config]


@pytest.mark.parametrize(
    ("text", "speed"), [("1", 1.0), ("60x", 60.0), ("1e6x", 1e6), ("max", math.inf)]
)
def test_a_replay_s_speed_is_a_number_or_as_fast_as_it_goes(
    text: str, speed: float
) -> None:
    assert tui.parse_speed(text) == speed


@pytest.mark.parametrize("text", ["", "x", "0.5x", "-1", "nan", "fast"])
def test_what_is_no_speed_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="speed"):
        tui.parse_speed(text)


def test_a_replay_takes_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch)
    with pytest.raises(UsageError, match="plays what happened"):
        tui.main(["--replay", "--config-ref", "exp"])


def test_a_cockpit_without_a_terminal_is_a_lack_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(EnvironmentFailed, match="needs a terminal") as failed:
        tui.main(["--config-ref", "exp"])
    assert failed.value.exit_code == 5
