"""Who set each key of a job's config."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from autoexp_tui.planning.job_details import Entry, list_config_entries
from tests.planning.plans import job

RESOLVED: Mapping[str, object] = {
    "optim": {"lr": "1e-3", "name": "adam"},
    "train": {"iters": "800"},
    "seed": "7",
    "stage": "stable",
}


def entry(key: str, **fields: object) -> Entry:
    """The entry of one key, of a job that sweeps the rate."""
    given: dict[str, object] = {"written": RESOLVED, "overrides": (), **fields}
    made = list_config_entries(
        RESOLVED,
        given["written"],  # type: ignore[arg-type]
        job("a", parameters={"++optim.lr": 1e-3}),
        given["overrides"],  # type: ignore[arg-type]
    )
    return next(one for one in made if one.key == key)


def test_a_key_of_the_sweep_is_swept_however_it_is_added() -> None:
    assert entry("optim.lr").origin == "swept"


def test_a_key_that_nobody_set_is_of_a_file() -> None:
    assert entry("seed").origin == "file"


@pytest.mark.parametrize(
    "text", ["train.iters=800", "+train.iters=800", "train=short", "train@train=short"]
)
def test_a_key_of_the_command_line_is_an_override(text: str) -> None:
    assert entry("train.iters", overrides=(text,)).origin == "override"


def test_the_sweep_wins_over_the_command_line() -> None:
    assert entry("optim.lr", overrides=("optim.lr=2",)).origin == "swept"


def test_a_computed_key_shows_its_expression() -> None:
    written = {**RESOLVED, "train": {"iters": "${oc.eval:8*100}"}}
    found = entry("train.iters", written=written)
    assert (found.origin, found.written) == ("computed", "${oc.eval:8*100}")


def test_the_stage_is_planning_s_own() -> None:
    assert entry("stage").origin == "ours"


def test_lists_stand_in_one_line_and_mappings_in_them_key_by_key() -> None:
    tree = {"plain": ["1", "2"], "rules": [{"name": "x"}, {"name": "y"}], "none": {}}
    made = list_config_entries(tree, tree, job("a"), ())
    assert [(one.key, one.value) for one in made] == [
        ("plain", "[1, 2]"),
        ("rules.0.name", "x"),
        ("rules.1.name", "y"),
        ("none", "{}"),
    ]
