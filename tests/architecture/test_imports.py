"""The house at run time: what a room loads when it is loaded, deferred imports too."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import autoexp_tui

PLANNING = ("hydra", "omegaconf", "git")
SCREEN = ("textual", "rich")
SOURCE = Path(autoexp_tui.__file__).parent


@cache
def loaded_by(*modules: str) -> frozenset[str]:
    """Names in sys.modules after importing `modules` in a fresh interpreter."""
    imports = (f"import {module}" for module in ("sys", *modules))
    code = "; ".join([*imports, "print('\\n'.join(sys.modules))"])
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return frozenset(run.stdout.split())


@pytest.mark.parametrize("room", ["core", "plan", "monitor", "engine"])
def test_the_inner_rooms_load_no_third_party(room: str) -> None:
    foreign = {"textual", "rich", "hydra", "omegaconf", "pydantic", "git", "numpy"}
    assert not loaded_by(f"autoexp_tui.{room}") & foreign


def test_the_engine_loads_neither_screens_nor_adapters() -> None:
    names = loaded_by(
        *(f"autoexp_tui.engine.{part}" for part in ("loop", "live", "viewer"))
    )
    assert not any(
        name.startswith(("autoexp_tui.ui", "autoexp_tui.adapters", "autoexp_tui.cli"))
        for name in names
    )


def test_the_screens_load_neither_the_engine_s_inside_nor_slow_libraries() -> None:
    names = loaded_by("autoexp_tui.ui.app")
    slow = {*PLANNING, "pydantic", "numpy", "watchfiles"}
    inside = ("loop", "ports", "executor_port", "reading_ports", "session_ports")
    assert not names & {*slow, *(f"autoexp_tui.engine.{part}" for part in inside)}


def test_the_first_screen_loads_no_more_of_the_core_than_it_shows() -> None:
    """Making the core's dataclasses is a tenth of the time until the first paint."""
    names = loaded_by(
        "autoexp_tui.cli.tui", "autoexp_tui.engine.deferred", "autoexp_tui.ui.app"
    )
    asked = ("specs", "condition_kinds", "action_kinds", "rule_kinds")
    parts = (*asked, "state", "facts", "events", "effects", "commands")
    assert not names & {f"autoexp_tui.core.{part}" for part in parts}


def test_who_asks_for_a_plan_s_report_loads_nothing_that_reads_plans() -> None:
    names = loaded_by("autoexp_tui.cli.plan", "autoexp_tui.adapters.planning")
    codecs = {f"autoexp_tui.adapters.{part}" for part in ("codec", "plan_codec")}
    assert not names & {"pydantic", *codecs}
    assert "autoexp_tui.core.events" not in names


def test_planning_loads_neither_sessions_nor_what_runs_jobs() -> None:
    names = loaded_by("autoexp_tui.adapters.planning_main")
    assert not names & {
        "autoexp_tui.core.state",
        "autoexp_tui.adapters.journal",
        "autoexp_tui.adapters.local_start",
        "autoexp_tui.engine.judge",
    }
    words = ("commands", "effects", "events", "snapshot")
    assert not names & {f"autoexp_tui.core.{part}" for part in words}


@pytest.mark.parametrize(
    "command", ["tui", "run", "plan", "monitor", "submit", "sessions", "visualize"]
)
def test_a_command_s_help_loads_nothing_slow(command: str) -> None:
    names = loaded_by(f"autoexp_tui.cli.{command}")
    assert not names & {*PLANNING, *SCREEN, "pydantic", "numpy"}


def test_the_trainer_loads_nothing_of_ours() -> None:
    names = loaded_by("autoexp_tui.demo.command_line")
    assert {n for n in names if n.startswith("autoexp_tui.")} == {
        n for n in names if n.startswith("autoexp_tui.demo")
    }


def test_one_module_alone_compiles_users_patterns() -> None:
    imports = re.compile(r"^\s*(?:import|from) re2\b", re.MULTILINE)
    found = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if imports.search(path.read_text())
    ]
    assert found == ["monitor/patterns.py"]
