"""The house at run time: what a room loads when it is loaded, deferred imports too."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import autoexp_tui
from tests.architecture.measure import Package

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


def modules(*names: str) -> set[str]:
    """Modules of ours that there are, by their names in sys.modules.

    Raises:
        AssertionError: one of them was moved.
    """
    gone = [
        name for name in names if not (SOURCE / f"{name.replace('.', '/')}.py").exists()
    ]
    assert gone == []
    return {f"autoexp_tui.{name}" for name in names}


@pytest.mark.parametrize(
    "module",
    [
        "text.spelling",
        "model.snapshot",
        "sweep.expand",
        "planning.build",
        "scheduling.decide",
        "telemetry.metrics",
        "engine.loop",
    ],
)
def test_pure_packages_load_no_third_party(module: str) -> None:
    foreign = {"textual", "rich", "hydra", "omegaconf", "pydantic", "git", "numpy"}
    assert not loaded_by(f"autoexp_tui.{module}") & foreign


def test_the_engine_loads_neither_screens_nor_adapters() -> None:
    names = loaded_by(*(f"autoexp_tui.engine.{part}" for part in ("loop", "live")))
    outer = ("cockpit", "config", "backends", "executors", "storage", "probes", "cli")
    prefixes = tuple(f"autoexp_tui.{package}" for package in outer)
    assert [name for name in names if name.startswith(prefixes)] == []


def test_the_screens_load_neither_the_engine_s_inside_nor_slow_libraries() -> None:
    names = loaded_by("autoexp_tui.cockpit.app")
    slow = {*PLANNING, "pydantic", "numpy", "watchfiles"}
    assert not names & slow
    assert not names & modules("engine.loop", "engine.ports", "engine.executor_port")


def test_the_first_screen_loads_no_more_of_the_core_than_it_shows() -> None:
    """Making the core's dataclasses is a tenth of the time until the first paint."""
    names = loaded_by(
        "autoexp_tui.cli.tui",
        "autoexp_tui.engine.session_handle",
        "autoexp_tui.cockpit.app",
    )
    assert not names & modules(
        "model.specs",
        "model.rules",
        "model.state",
        "model.facts",
        "model.commands",
        "conditions.kinds",
        "actions.orders",
        "model.effect",
        "events.events",
        "effects.effects",
    )


def test_who_asks_for_a_plan_s_report_loads_nothing_that_reads_plans() -> None:
    names = loaded_by("autoexp_tui.cli.plan", "autoexp_tui.config.planning")
    assert "pydantic" not in names
    assert not names & modules("storage.journal", "events.events")
    assert not names & modules("planning.build", "sweep.expand", "conditions.kinds")


def test_planning_loads_neither_sessions_nor_what_runs_jobs() -> None:
    names = loaded_by("autoexp_tui.config.planning_main")
    assert not names & modules(
        "model.state",
        "model.commands",
        "model.snapshot",
        "events.events",
        "effects.effects",
        "storage.journal",
        "executors.local.start",
        "engine.report_reducer",
    )


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
    assert found == ["text/patterns.py"]


def test_no_module_is_in_a_circle_of_imports() -> None:
    """Imports for the type checker, and those inside functions, count too."""
    assert Package(SOURCE).circles() == []
