"""Every mistake that a sweep can hold, and what is said of it, word for word."""

from __future__ import annotations

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
        return build_plan_outcome(composer=composer, parser=HouseParser("/cwd")).errors
    except CannotCompose as refused:
        return refused.problems
    finally:
        composer.close()


@pytest.mark.parametrize("row", [pytest.param(r, id=r["mistake"]) for r in MISTAKES])
def test_a_mistake_is_told_word_for_word(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = "\n".join(map(str, errors_of(row["sweep"], tmp_path)))
    assert found.replace("\n    ", "\n  ") + "\n" == row["said"]


@pytest.mark.parametrize(("sweep", "said"), [
    ("params: {+lr: VALUES}", "`+` adds, but it is there already"),
    ("{params: {lr: VALUES}, defaults: {~steps.x: null}}", "`~` removes, but"),
    ("{params: {lr: VALUES}, defaults: {steps: '${no.where}'}}", "${no.where}"),
])  # fmt: skip
def test_what_is_refused_in_all_jobs_is_composed_for_the_first_twenty(
    sweep: str, said: str, tmp_path: Path
) -> None:
    values = str(list(range(200)))
    (tmp_path / "backend").mkdir()
    (tmp_path / "backend" / "train.yaml").write_text("{class_name: 'Null'}")
    text = HEAD + indent(sweep.replace("VALUES", values), "  ")
    (tmp_path / "exp.yaml").write_text(text)
    composer = HydraComposer("exp", tmp_path, environ={}, cwd="/cwd")
    error, others = build_plan_outcome(
        composer=composer, parser=HouseParser("/cwd")
    ).errors
    composed = composer.composed
    composer.close()
    assert error.message.startswith(said)
    assert error.message.endswith("(and for 19 more jobs)")
    assert others.message == (
        "is not looked at: too many jobs before it cannot be made "
        "(and for 179 more jobs)"
    )
    assert composed < 60


def test_of_jobs_with_other_keys_each_is_told_what_is_refused(tmp_path: Path) -> None:
    sweep = "configs: [{+lr: 1}, {+newer: 1}, {+steps: 3}]"
    found = errors_of(sweep, tmp_path)
    told = [f"{one.where}: {one.message}" for one in found]
    assert told == [
        "override +lr: `+` adds, but it is there already",
        "override +steps: `+` adds, but it is there already",
    ]
