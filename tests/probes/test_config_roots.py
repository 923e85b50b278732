"""The shipped configs are there beside a config directory of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.probes.config_files import config_roots, find_config, shipped
from tests.config.config_trees import write_tree

OWN = """
defaults: [{slurm: local}, _self_]
project: {name: own, base_output_dir: out}
backend: {class_name: Command, command: [echo]}
"""
BARE = """
project: {name: own, base_output_dir: out}
backend: {class_name: Command, command: [echo]}
slurm: {client: {class_name: LocalClient}}
"""


def compose(root: Path, *overrides: str, ref: str = "own") -> HydraComposer:
    composer = HydraComposer(ref, root, overrides)
    composer.base()
    return composer


def test_the_shipped_root_comes_last_and_only_once(tmp_path: Path) -> None:
    last = shipped("config")

    assert config_roots(tmp_path) == (tmp_path, last)
    assert config_roots(last) == (last,)


def test_a_shipped_choice_is_there_beside_an_own_directory(tmp_path: Path) -> None:
    composer = compose(write_tree(tmp_path, own=OWN), "slurm=generic")

    assert composer.base().select("slurm.client.class_name") == "SlurmClient"


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("slurm=generic", "slurm.client.class_name", "SlurmClient"),
        ("monitoring=restart", "monitoring.state_events.0.name", "crashed"),
        ("backend=python", "backend.class_name", "Python"),
        ("environment=venv backend.venv=/e", "backend.venv", "/e"),
    ],
)
def test_a_choice_of_ours_needs_no_entry_in_the_defaults(
    tmp_path: Path, override: str, key: str, value: str
) -> None:
    composer = compose(write_tree(tmp_path, own=BARE), *override.split())

    assert composer.base().select(key) == value


def test_a_stage_may_choose_a_group_that_the_defaults_do_not_name(
    tmp_path: Path,
) -> None:
    composer = compose(write_tree(tmp_path, own=BARE))
    job = composer.compose(["backend=python", "backend.script=a.py"], {})

    assert job.select("backend.class_name") == "Python"


def test_a_group_of_the_users_own_is_added_with_a_plus_as_ever(tmp_path: Path) -> None:
    write_tree(tmp_path, own=BARE, optim__adam="lr: 1")

    with pytest.raises(CannotCompose, match="is not in the defaults list"):
        compose(tmp_path, "optim=adam")


def test_an_own_choice_wins_over_the_shipped_one(tmp_path: Path) -> None:
    write_tree(tmp_path, own=OWN, slurm__generic="mine: true")

    assert compose(tmp_path, "slurm=generic").base().select("slurm.mine") is True


def test_a_place_of_hydra_searchpath_wins_over_the_shipped_one(tmp_path: Path) -> None:
    write_tree(tmp_path / "more", slurm__generic="mine: true")
    write_tree(tmp_path, own=f"hydra: {{searchpath: [{tmp_path}/more]}}\n{OWN}")

    assert compose(tmp_path, "slurm=generic").base().select("slurm.mine") is True


def test_the_shipped_experiment_is_there_beside_an_own_directory(
    tmp_path: Path,
) -> None:
    composer = compose(write_tree(tmp_path, own=OWN), ref="exp")

    assert composer.base().select("train_iters") == 10000
    assert find_config("exp", config_roots(tmp_path)) == shipped("config") / "exp.yaml"


def test_an_environment_that_is_not_there_is_no_plain_key(tmp_path: Path) -> None:
    write_tree(tmp_path, own=OWN)

    with pytest.raises(CannotCompose) as caught:
        compose(tmp_path, "+environment=apptaine")

    (found,) = caught.value.problems
    assert found.message == "`environment` has no choice `apptaine`"
    assert "apptainer" in found.hint
