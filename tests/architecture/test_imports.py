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


SCREEN = "textual rich"
OUTER = "cockpit config backends executors storage probes cli"
SLOW = "hydra omegaconf git pydantic numpy"
NO_SCREEN = (
    "model.specs model.rules model.state model.facts model.commands model.outputs "
    "conditions.kinds actions.orders model.effect events.events effects.effects"
)
"""Making these dataclasses is a tenth of the time until the first paint."""
NO_PLAN = "planning.build sweep.expand conditions.kinds storage.journal events.events"
NO_SESSION = (
    "model.state model.commands model.snapshot events.events effects.effects "
    "storage.journal executors.local.start engine.report_reducer"
)


@pytest.mark.parametrize(("loaded", "foreign", "of_ours"), [
    ("text.spelling model.snapshot sweep.expand planning.build scheduling.decide "
     "telemetry.metrics engine.loop", f"{SCREEN} {SLOW}", ""),
    ("engine.loop engine.live", "", OUTER),
    ("cockpit.app", f"{SLOW} watchfiles",
     "engine.loop engine.ports engine.executor_port"),
    ("cli.tui engine.session_handle storage.session_dir cockpit.app", "", NO_SCREEN),
    ("cli.plan config.planning", "pydantic", NO_PLAN),
    ("config.planning_main", "", NO_SESSION),
    ("cli.tui cli.run cli.plan cli.monitor cli.submit cli.sessions cli.visualize",
     f"{SCREEN} {SLOW}", ""),
])  # fmt: skip
def test_a_room_loads_none_of(loaded: str, foreign: str, of_ours: str) -> None:
    names = loaded_by(*(f"autoexp_tui.{module}" for module in loaded.split()))
    for own in of_ours.split():
        place = SOURCE / own.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").exists()  # not moved
    banned = {*foreign.split(), *(f"autoexp_tui.{own}" for own in of_ours.split())}
    assert not names & banned


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
