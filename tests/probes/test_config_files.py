"""Where configs are found: a directory of one's own, and the shipped one beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import autoexp_tui
from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.probes import config_files as places
from tests.config.config_trees import write_tree

BARE = """
project: {name: own, base_output_dir: out}
backend: {class_name: Command, command: [echo]}
slurm: {client: {class_name: LocalClient}}
"""


def compose(root: Path, *overrides: str, ref: str = "own") -> HydraComposer:
    composer = HydraComposer(ref, root, overrides)
    composer.base()
    return composer


def test_own_data_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "autoexp_tui"
    monkeypatch.setattr(autoexp_tui, "__file__", str(package / "__init__.py"))
    with pytest.raises(EnvironmentFailed, match="has no config/ directory"):
        places.find_shipped("config")
    for place in (package / "_data" / "config", tmp_path / "config"):
        place.mkdir(parents=True)
    assert places.find_shipped("config") == package / "_data" / "config"


def test_the_config_directory_is_chosen_own_or_shipped(tmp_path: Path) -> None:
    shipped = places.find_shipped("config")
    assert places.find_config_dir(None, tmp_path) == shipped
    for name, chosen in (("config", None), ("conf", "conf")):
        (tmp_path / name).mkdir()
        assert places.find_config_dir(chosen, tmp_path) == tmp_path / name
    (tmp_path / "file").touch()
    for chosen, said in (("nowhere", "is not there"), ("file", "is a file, not a dir")):
        with pytest.raises(UsageError, match=said):
            places.find_config_dir(chosen, tmp_path)
    assert places.config_roots(tmp_path) == (tmp_path, shipped)
    assert places.config_roots(shipped) == (shipped,)
    found = places.find_config("exp", places.config_roots(tmp_path))
    assert found == shipped / "exp.yaml"


def test_flag_then_variable_then_config_then_default_name_the_state_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = places.find_state_dir(None, None, tmp_path)
    assert default == tmp_path / "outputs" / ".autoexp"
    assert places.find_state_dir(None, "c", tmp_path) == tmp_path / "c"
    monkeypatch.setenv("AUTOEXP_STATE_DIR", "v")
    assert places.find_state_dir(None, "c", tmp_path) == tmp_path / "v"
    assert places.find_state_dir("f", "c", tmp_path) == tmp_path / "f"


def test_a_choice_of_ours_needs_no_entry_in_the_defaults(tmp_path: Path) -> None:
    choices = ("slurm=generic", "environment=venv", "backend.venv=/e")
    base = compose(write_tree(tmp_path, own=BARE), *choices).base()
    assert base.select("slurm.client.class_name") == "SlurmClient"
    assert base.select("backend.venv") == "/e"


@pytest.mark.parametrize("below", ["", "more"])
def test_an_own_choice_wins_over_the_shipped_one(tmp_path: Path, below: str) -> None:
    (tmp_path / "more").mkdir()
    write_tree(tmp_path / below, slurm__generic="mine: true")
    write_tree(tmp_path, own=f"hydra: {{searchpath: [{tmp_path}/more]}}\n{BARE}")
    assert compose(tmp_path, "slurm=generic").base().select("slurm.mine") is True
    assert compose(tmp_path, ref="exp").base().select("train_iters") == 10000
