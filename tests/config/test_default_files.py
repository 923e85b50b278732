"""Which files a config is made of, and where their keys go: as Hydra says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from autoexp_tui.config.default_files import (
    Choices,
    check_hydra_settings,
    list_config_files,
)
from tests.config.config_trees import write_tree

TREE = {
    "exp": "defaults: [optim: adam, /data/mix@data: web, base, _self_]\n",
    "base": "defaults:\n  - _self_\n  - model/size@net: small\nown: 1\n",
    "optim/adam": "defaults:\n  - schedule: cosine\n  - common\nlr: 1\n",
    "optim/common": "eps: 1\n",
    "optim/sgd": "lr: 2\n",
    "optim/schedule/cosine": "steps: 1\n",
    "data/mix/web": "share: 1\n",
    "model/size/small": "# @package _global_\nwidth: 1\n",
    "model/size/deep": "# @package net.deep\nwidth: 1\n",
    "more": "# @package _global_\ndefaults:\n  - exp\n  - override optim: sgd\n",
    "runs/one": "defaults: [/more, /optim@second: sgd, part: x, _self_]\nz: 1\n",
    "runs/part/x": "defaults:\n  - /model/size: deep\ny: 1\n",
    "twice": "defaults:\n  - optim: [adam, sgd]\n  - optional gone: x\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def leaves_by_files(root: Path, primary: str, choices: Choices) -> set[str]:
    found = set()
    for file in list_config_files([root], primary, choices):
        for key, _ in file.root.value:
            if key.value != "defaults":
                found.add(".".join((*file.package, key.value)))
    return found


def leaves_by_hydra(root: Path, primary: str, choices: Choices) -> set[str]:
    overrides = [f"{group}={name}" for group, name in choices.items()]
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(root), version_base="1.3"):
        config = compose(primary, overrides)
    found: set[str] = set()

    def walk(value: object, path: tuple[str, ...]) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, (*path, key))
        else:
            found.add(".".join(path))

    walk(OmegaConf.to_container(config), ())
    return found


@pytest.mark.parametrize(
    ("primary", "choices"),
    [
        ("exp", {}),
        ("exp", {"optim": "sgd"}),
        ("exp", {"model/size@net": "deep"}),
        ("base", {}),
        ("more", {}),
        ("runs/one", {}),
        ("twice", {}),
    ],
    ids=str,
)
def test_every_key_lies_where_hydra_puts_it(
    primary: str, choices: Choices, root: Path
) -> None:
    expected = leaves_by_hydra(root, primary, choices)
    assert leaves_by_files(root, primary, choices) == expected


def test_files_that_choose_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("defaults: [b]\n")
    (tmp_path / "b.yaml").write_text("defaults: [a]\n")
    names = [file.path.stem for file in list_config_files([tmp_path], "a", {})]
    assert names == ["a", "b"]


def test_a_choice_that_is_interpolated_is_not_guessed(root: Path) -> None:
    (root / "both.yaml").write_text("defaults: [{optim: '${which}'}]\n")
    assert leaves_by_files(root, "both", {}) == set()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_directories_of_the_search_path_are_followed_behind_the_configs_own(
    root: Path, tmp_path_factory: pytest.TempPathFactory, scheme: str
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "optim").mkdir()
    (other / "optim/adam.yaml").write_text("never: 1\n")
    (other / "optim/lion.yaml").write_text("of_lion: 1\n")
    (root / "wide.yaml").write_text(
        f"hydra: {{searchpath: ['{scheme}{other}']}}\n"
        "defaults: [{optim: lion}, {optim@two: adam}, _self_]\n"
    )
    found = {one for one in leaves_by_files(root, "wide", {}) if one != "hydra"}
    assert "optim.of_lion" in found
    assert found == leaves_by_hydra(root, "wide", {})


def test_a_file_of_the_working_directory_is_none_of_the_configs(
    root: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = tmp_path_factory.mktemp("here")
    (here / "lions.yaml").write_text("x: 1\n")
    (root / "wide.yaml").write_text("defaults: [lions, _self_]\ny: 1\n")
    monkeypatch.chdir(here)
    assert leaves_by_files(root, "wide", {}) == {"y"}


def test_what_lies_behind_a_place_that_is_no_directory_is_not_guessed(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "lions.yaml").write_text("x: 1\n")
    (root / "wide.yaml").write_text(
        f"hydra: {{searchpath: ['pkg://some.where', '{other}']}}\n"
        "defaults: [lions, _self_]\n"
    )
    assert leaves_by_files(root, "wide", {}) == {"hydra"}


# ------------------------------------------------------------- Hydra's own settings
def check(root: Path, *overrides: str) -> dict[str, bool]:
    """Where each finding is -> whether it is an error."""
    files = list_config_files([root], "exp", {})
    return {
        problem.where: is_error
        for problem, is_error in check_hydra_settings(files, overrides)
    }


def test_sweeper_and_launcher_are_refused_wherever_a_file_sets_them(
    tmp_path: Path,
) -> None:
    write_tree(
        tmp_path,
        exp="""
        defaults: [{backend: one}, {override hydra/launcher: submitit_slurm}, _self_]
        hydra: {sweeper: {params: {lr: "1,2"}}}
        """,
        backend__one="# @package _global_\nhydra: {run: {dir: x}}",
    )

    assert check(tmp_path) == {
        "hydra.sweeper": True,
        "hydra/launcher": True,
        "hydra.run": False,
    }


@pytest.mark.parametrize(
    ("override", "is_error"),
    [
        ("hydra.sweeper.params.lr='1,2'", True),
        ("hydra/sweeper=optuna", True),
        ("+hydra.launcher.n_jobs=3", True),
        ("hydra.job.chdir=true", False),
        ("hydra.run.dir=x", False),
    ],
)
def test_the_command_line_is_looked_at_too(
    tmp_path: Path, override: str, is_error: bool
) -> None:
    write_tree(tmp_path, exp="a: 1")

    assert list(check(tmp_path, override).values()) == [is_error]


def test_search_paths_and_own_keys_are_no_finding(tmp_path: Path) -> None:
    write_tree(tmp_path, exp="hydra: {searchpath: [/x]}\nhydrate: {a: 1}")

    assert check(tmp_path, "hydra.searchpath=[/y]", "hydrate.a=2") == {}
