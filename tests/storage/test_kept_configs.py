"""Configs that are kept by what differs come back as they were."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.planning.build import build_plan_outcome
from autoexp_tui.storage.kept_configs import ConfigKeeper, Shared, unpack_configs
from autoexp_tui.text.plain_tree import Path, unpatched, with_values

ORIGIN: dict[str, Any] = {
    "lr": 0.1,
    "model": {"width": 8, "part": {"a": None, "b": [1, 2]}},
    "words": ["x", {"y": 1}],
}
WRITTEN: dict[str, Any] = {"lr": "${model.width}", "model": {"width": 8}}
VALUES = (
    st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.none()
    | st.lists(st.booleans(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)
CHANGES = st.dictionaries(
    st.sampled_from(
        [
            ("lr",),
            ("new",),
            ("model", "width"),
            ("model", "part", "b"),
            ("model", "part", "new"),
            ("other", "new"),
            ("words", 1, "y"),
        ]
    ),
    VALUES,
    min_size=1,
)


def read_back(resolved: Any, unresolved: Any) -> tuple[Any, Any]:
    keeper = ConfigKeeper()
    kept = keeper.kept(resolved, unresolved)
    found = unpack_configs(kept, keeper.shared)
    return yaml.safe_load(found.resolved), yaml.safe_load(found.unresolved)


@given(CHANGES)
def test_a_config_that_differs_in_a_few_keys_comes_back(
    changes: dict[Path, object],
) -> None:
    tree = with_values(ORIGIN, changes)
    written = with_values(WRITTEN, {("lr",): "${x}"})
    assert repr(read_back(tree, written)) == repr((unpatched(tree), unpatched(written)))


def test_a_config_that_was_made_alone_comes_back() -> None:
    tree = {1: "a", "b": [1.5, None]}
    assert read_back(tree, WRITTEN) == (tree, WRITTEN)


def test_changes_on_changes_come_back() -> None:
    tree = with_values(ORIGIN, {("model", "width"): 1, ("lr",): 2})
    tree = with_values(tree, {("model", "part", "a"): 3, ("lr",): 4})
    found, _ = read_back(tree, with_values(WRITTEN, {("lr",): 1}))
    assert found == unpatched(tree)
    assert found["model"] == {"width": 1, "part": {"a": 3, "b": [1, 2]}}


def test_many_jobs_of_one_origin_hold_it_once() -> None:
    keeper = ConfigKeeper()
    for n in range(100):
        kept = keeper.kept(
            with_values(ORIGIN, {("lr",): n}), with_values(WRITTEN, {("lr",): n})
        )
        assert len(kept) < 60
    assert len(keeper.shared.wholes) == 2


@pytest.mark.parametrize("kept", ["no base 85 \\", "[1]", "[9,[],9,[]]", "[", "[[]]"])
def test_damage_is_told(kept: str) -> None:
    with pytest.raises(EnvironmentFailed, match="a config is damaged"):
        unpack_configs(kept, Shared())


def test_a_damaged_whole_is_told() -> None:
    keeper = ConfigKeeper()
    tree = with_values(ORIGIN, {("lr",): 1})
    kept = keeper.kept(tree, tree)
    with pytest.raises(EnvironmentFailed, match="a config is damaged"):
        unpack_configs(kept, Shared(wholes=["0" * 20]))


NUMBERED = """
project: {name: "j${index}", base_output_dir: out}
backend: {class_name: "Null"}
lr: 1.0
table: {1: x, 7: [{2.5: "1"}]}
copy: null
sweep:
  groups:
    - params: {lr: [1.0, 2.0, 3.0]}
    - configs: [{stage: a, "++own": {3: y}}, {stage: b, copy: "{sibling.a.own}"}]
"""


def test_keys_of_a_plans_configs_that_are_no_texts_come_back_as_they_were(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "exp.yaml").write_text(NUMBERED)
    keeper, kept = ConfigKeeper(), dict[int, str]()
    outcome = build_plan_outcome(
        composer=HydraComposer("exp", tmp_path, environ={}, cwd="/cwd"),
        parser=HouseParser("/cwd"),
        record=lambda index, view, resolved: kept.update(
            {index: keeper.kept(resolved, view.written_dict())}
        ),
    )
    assert outcome.errors == ()
    for index, one in kept.items():
        tree = yaml.safe_load(unpack_configs(one, keeper.shared).resolved)
        assert tree["table"] == {1: "x", 7: [{2.5: "1"}]}
        assert tree["own" if index % 2 == 0 else "copy"] == {3: "y"}
