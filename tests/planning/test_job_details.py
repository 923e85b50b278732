"""Who set each key of a job's config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from autoexp_tui.planning.job_details import list_config_entries
from tests.planning.plans import job

RESOLVED: Mapping[str, object] = {
    "optim": {"lr": "1e-3", "name": "adam"},
    "train": {"iters": "800"},
    "seed": "7",
    "stage": "stable",
}


def entry(key: str, *overrides: str, written: Any = RESOLVED) -> tuple[str, str]:
    """Who set a key of a job that sweeps the rate, and as what it is written."""
    me = job("a", parameters={"++optim.lr": 1e-3})
    made = list_config_entries(RESOLVED, written, me, overrides)
    return next((one.origin, one.written) for one in made if one.key == key)


@pytest.mark.parametrize(("origin", "key", "overrides"), [
    ("swept", "optim.lr", ()), ("swept", "optim.lr", ("optim.lr=2",)),
    ("file", "seed", ()), ("ours", "stage", ()),
    ("override", "train.iters", ("train.iters=800",)),
    ("override", "train.iters", ("+train.iters=800",)),
    ("override", "train.iters", ("train=short",)),
    ("override", "train.iters", ("train@train=short",)),
])  # fmt: skip
def test_who_set_it_is_told(origin: str, key: str, overrides: tuple[str, ...]) -> None:
    assert entry(key, *overrides)[0] == origin


def test_a_computed_key_shows_its_expression() -> None:
    written = {**RESOLVED, "train": {"iters": "${oc.eval:8*100}"}}
    assert entry("train.iters", written=written) == ("computed", "${oc.eval:8*100}")


def test_lists_stand_in_one_line_and_mappings_in_them_key_by_key() -> None:
    tree = {"plain": ["1", "2"], "rules": [{"name": "x"}, {"name": "y"}], "none": {}}
    made = list_config_entries(tree, tree, job("a"), ())
    assert [(one.key, one.value) for one in made] == [
        ("plain", "[1, 2]"),
        ("rules.0.name", "x"),
        ("rules.1.name", "y"),
        ("none", "{}"),
    ]
