"""Every mistake that a sweep can hold, and what is said of it, word for word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from autoexp_tui.adapters.hydra_compose import HydraComposer
from autoexp_tui.adapters.settings import HouseParser
from autoexp_tui.core.errors import Problem
from autoexp_tui.plan.build import plan_outcome
from autoexp_tui.plan.ports import CannotCompose

TABLE = Path(__file__).with_name("bad_sweeps.yaml")
MISTAKES: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text("utf-8"))
HEAD = """\
defaults: [{backend: train}, _self_]
project: {name: "{stage}_{index}", base_output_dir: /out}
lr: 1
steps: 10
monitoring:
  log_events:
    - {name: saved, pattern: '(?P<step>x)', extract_groups: {saved_step: step}}
sweep:
"""


def errors_of(sweep: str, place: Path) -> tuple[Problem, ...]:
    """What planning says of a config with this sweep."""
    (place / "backend").mkdir()
    for name in ("train", "eval"):
        (place / "backend" / f"{name}.yaml").write_text(
            "{class_name: 'Null', load: null}"
        )
    (place / "exp.yaml").write_text(HEAD + indent(sweep, "  "))
    composer = HydraComposer("exp", place, environ={}, cwd="/cwd")
    try:
        return plan_outcome(composer=composer, parser=HouseParser("/cwd")).errors
    except CannotCompose as refused:
        return refused.problems
    finally:
        composer.close()


@pytest.mark.parametrize("row", [pytest.param(r, id=r["mistake"]) for r in MISTAKES])
def test_a_mistake_is_told_word_for_word(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = tuple(Problem(**one) for one in row["said"])
    found = errors_of(row["sweep"], tmp_path)
    assert tuple(replace(one, others=()) for one in found) == said
