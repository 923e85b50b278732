"""Every mistake that a sweep can hold, and what is said of it, word for word."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.build import build_plan_outcome
from autoexp_tui.planning.ports import CannotCompose
from tests.config.config_trees import write_tree

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


def errors_of(sweep: str, place: Path, most: int = 1000) -> tuple[Problem, ...]:
    """What planning says of a config with this sweep; how much it may compose."""
    backend = "{class_name: 'Null', load: null}"
    config = HEAD + indent(sweep, "  ")
    write_tree(place, backend__train=backend, backend__eval=backend, exp=config)
    with closing(HydraComposer("exp", place, environ={}, cwd="/cwd")) as composer:
        parser = HouseParser("/cwd")
        try:
            return build_plan_outcome(composer=composer, parser=parser).errors
        except CannotCompose as refused:
            return refused.problems
        finally:
            assert composer.composed < most


@pytest.mark.parametrize("row", [pytest.param(r, id=r["mistake"]) for r in MISTAKES])
def test_a_mistake_is_told_word_for_word(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = "\n".join(map(str, errors_of(row["sweep"], tmp_path)))
    assert found.replace("\n    ", "\n  ") + "\n" == row["said"]


@pytest.mark.parametrize(("sweep", "said"), [
    ("params: {+lr: VALUES}", "`+` adds, but it is there already"),
    ("{params: {lr: VALUES}, defaults: {~steps.x: null}}", "Could not delete"),
    ("{params: {lr: VALUES}, defaults: {steps: '${no.where}'}}", "${no.where}"),
])  # fmt: skip
def test_what_is_refused_in_all_jobs_is_composed_for_the_first_twenty(
    sweep: str, said: str, tmp_path: Path
) -> None:
    text = sweep.replace("VALUES", str(list(range(200))))
    error, others = errors_of(text, tmp_path, most=60)
    assert error.message.startswith(said)
    assert error.message.endswith("(and for 19 more jobs)")
    assert others.message == (
        "is not looked at: too many jobs before it cannot be made "
        "(and for 179 more jobs)"
    )


def test_of_jobs_with_other_keys_each_is_told_what_is_refused(tmp_path: Path) -> None:
    sweep = "configs: [{+lr: 1}, {+newer: 1}, {+steps: 3}]"
    said = "`+` adds, but it is there already"
    found = [(one.where, one.message) for one in errors_of(sweep, tmp_path)]
    assert found == [("override +lr", said), ("override +steps", said)]
