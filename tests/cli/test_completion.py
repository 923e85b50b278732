"""Completion and manual pages are made of the options that a command has."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from typing import Any

import pytest

from autoexp_tui.cli import completion
from autoexp_tui.cli.sessions import VERBS
from autoexp_tui.model.errors import UsageError

COMMANDS = ("tui", "run", "plan", "sessions", "doctor", "init", "run_sweep_entry")


def print_form(command: str, form: str, capsys: pytest.CaptureFixture[str]) -> str:
    main = importlib.import_module(f"autoexp_tui.cli.{command}").main
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", form])
    assert not ended.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_completes_the_options_and_verbs_of_a_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = print_form(command, "bash", capsys)
    subprocess.run(["bash", "-n"], input=script.encode(), check=True)
    own = {"tui": "--theme", "sessions": "--followers", "plan": "--diff"}
    assert own.get(command, "--help") in script
    assert ("approve" in script) or command != "sessions"
    assert "SUPPRESS" not in script


@pytest.mark.parametrize("command", COMMANDS)
def test_a_manual_page_tells_the_options_of_a_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = print_form(command, "man", capsys)
    name = f"autoexp-{command}".replace("_", "-").upper()
    assert page.splitlines()[0].replace("\\", "").startswith(f'.TH {name} "1"')
    assert r"\-\-print\-completion" in page
    assert f"{name.lower()} - " in page.replace("\\", "")


def test_the_manual_page_lists_the_verbs_below_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = print_form("sessions", "man", capsys)
    for verb in VERBS:
        assert re.search(rf"\.TP\n\\fB(?:\w+\|)*{verb}\b", page), verb


@pytest.mark.parametrize("form", completion.FORMS)
def test_without_the_packages_it_is_said_how_to_get_them(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing: dict[str, Any] = dict.fromkeys(
        ("shtab", "argparse_manpage", "argparse_manpage.manpage")
    )
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    main = importlib.import_module("autoexp_tui.cli.plan").main
    with pytest.raises(UsageError, match="needs the package"):
        main(["--print-completion", form])
