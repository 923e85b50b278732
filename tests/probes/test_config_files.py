"""Where configs are found: a directory of one's own, and the shipped one beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import autoexp_tui
from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.probes.config_files import (
    config_roots,
    find_config,
    find_config_dir,
    find_shipped,
    find_state_dir,
)
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


def test_a_wheels_own_data_comes_before_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "autoexp_tui"
    for place in (package / "_data" / "config", package.parent.parent / "config"):
        place.mkdir(parents=True)
    monkeypatch.setattr(autoexp_tui, "__file__", str(package / "__init__.py"))

    assert find_shipped("config") == package / "_data" / "config"


def test_a_package_without_its_data_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "a" / "b" / "autoexp_tui"
    monkeypatch.setattr(autoexp_tui, "__file__", str(package / "__init__.py"))
    with pytest.raises(EnvironmentFailed, match="has no config/ directory"):
        find_shipped("config")


def test_the_config_directory_is_the_chosen_the_own_or_the_shipped_one(
    tmp_path: Path,
) -> None:
    assert find_config_dir(None, tmp_path) == find_shipped("config")
    for name, chosen in (("config", None), ("conf", "conf")):
        (tmp_path / name).mkdir()
        assert find_config_dir(chosen, tmp_path) == tmp_path / name


@pytest.mark.parametrize(
    ("chosen", "message"),
    [("nowhere", "is not there"), ("file", "is a file, not a directory")],
)
def test_a_chosen_directory_that_is_none_says_so(
    tmp_path: Path, chosen: str, message: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=message):
        find_config_dir(chosen, tmp_path)


def test_flag_then_variable_then_config_then_default_name_the_state_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = find_state_dir(None, None, tmp_path)
    configured = find_state_dir(None, "c", tmp_path)
    monkeypatch.setenv("AUTOEXP_STATE_DIR", "v")
    by_variable = find_state_dir(None, "c", tmp_path)
    by_flag = find_state_dir("f", "c", tmp_path)

    assert [default, configured, by_variable, by_flag] == [
        tmp_path / "outputs" / ".autoexp",
        tmp_path / "c",
        tmp_path / "v",
        tmp_path / "f",
    ]


def test_the_shipped_root_comes_last_and_only_once(tmp_path: Path) -> None:
    last = find_shipped("config")

    assert config_roots(tmp_path) == (tmp_path, last)
    assert config_roots(last) == (last,)


def test_a_stage_may_choose_a_group_that_the_defaults_do_not_name(
    tmp_path: Path,
) -> None:
    composer = compose(write_tree(tmp_path, own=BARE))
    job = composer.compose(["backend=python", "backend.script=a.py"], {})

    assert job.select("backend.class_name") == "Python"


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


def test_a_group_of_the_users_own_is_added_with_a_plus_as_ever(tmp_path: Path) -> None:
    write_tree(tmp_path, own=BARE, optim__adam="lr: 1")

    with pytest.raises(CannotCompose, match="is not in the defaults list"):
        compose(tmp_path, "optim=adam")


@pytest.mark.parametrize("below", ["", "more"])
def test_an_own_choice_wins_over_the_shipped_one(tmp_path: Path, below: str) -> None:
    (tmp_path / "more").mkdir()
    write_tree(tmp_path / below, slurm__generic="mine: true")
    write_tree(tmp_path, own=f"hydra: {{searchpath: [{tmp_path}/more]}}\n{OWN}")

    assert compose(tmp_path, "slurm=generic").base().select("slurm.mine") is True


def test_the_shipped_experiment_is_there_beside_an_own_directory(
    tmp_path: Path,
) -> None:
    composer = compose(write_tree(tmp_path, own=OWN), ref="exp")

    assert composer.base().select("train_iters") == 10000
    assert (
        find_config("exp", config_roots(tmp_path))
        == find_shipped("config") / "exp.yaml"
    )


def test_an_environment_that_is_not_there_is_no_plain_key(tmp_path: Path) -> None:
    write_tree(tmp_path, own=OWN)

    with pytest.raises(CannotCompose) as caught:
        compose(tmp_path, "+environment=apptaine")

    (found,) = caught.value.problems
    assert found.message == "`environment` has no choice `apptaine`"
    assert "apptainer" in found.hint
