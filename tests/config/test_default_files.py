"""Which files a config is made of, and where their keys go: as Hydra says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.key_places import KeyPlaces
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.config.planning_messages import PlanningRequest
from tests.config.config_trees import write_tree

TREE = {
    "exp": "defaults: [optim: adam, /data/mix@data: web, base, _self_]",
    "base": "defaults:\n  - _self_\n  - model/size@net: small\nown: 1",
    "optim__adam": "defaults:\n  - schedule: cosine\n  - common\nlr: 1",
    "optim__common": "eps: 1",
    "optim__sgd": "lr: 2",
    "optim__schedule__cosine": "steps: 1",
    "data__mix__web": "share: 1",
    "model__size__small": "# @package _global_\nwidth: 1",
    "model__size__deep": "# @package net.deep\nwidth: 1",
    "more": "# @package _global_\ndefaults:\n  - exp\n  - override optim: sgd",
    "broken": "defaults: [optim: lost, _self_]\nlr: 1",
}


@pytest.fixture(autouse=True)
def own_hydra() -> Iterator[None]:
    yield
    GlobalHydra.instance().clear()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_tree(tmp_path, **TREE)
    return tmp_path


def list_files(root: Path, primary: str, *overrides: str) -> dict[str, str]:
    """Of each file, the key that its own lie below."""
    files = HydraComposer(primary, root, overrides).list_files()
    return {str(path.relative_to(root)): ".".join(package) for path, package in files}


def test_files_are_those_that_hydra_takes(root: Path) -> None:
    assert list_files(root, "exp") == {
        "exp.yaml": "",
        "base.yaml": "",
        "optim/adam.yaml": "optim",
        "optim/common.yaml": "optim",
        "optim/schedule/cosine.yaml": "optim.schedule",
        "data/mix/web.yaml": "data",
        "model/size/small.yaml": "net",
    }


@pytest.mark.parametrize(
    ("primary", "override", "expected"),
    [
        ("exp", "optim=sgd", ("optim/sgd.yaml", "optim")),
        ("exp", "model/size@net=deep", ("model/size/deep.yaml", "net")),
        ("more", "a=1", ("optim/sgd.yaml", "optim")),
    ],
)
def test_what_is_chosen_elsewhere_counts(
    root: Path, primary: str, override: str, expected: tuple[str, str]
) -> None:
    files = list_files(root, primary, override)
    assert expected in files.items()
    assert "optim/adam.yaml" not in files or "optim" not in override


def test_a_config_that_does_not_compose_has_its_primary_file(root: Path) -> None:
    assert list_files(root, "broken") == {"broken.yaml": ""}


def test_directories_of_the_search_path_are_looked_through(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    write_tree(other, optim__lion="of_lion: 1")
    write_tree(
        root,
        wide=f"""
        hydra: {{searchpath: ['file://{other}']}}
        defaults: [optim: lion, _self_]
        """,
    )
    files = [path for path, _ in HydraComposer("wide", root).list_files()]
    assert files == [root / "wide.yaml", other / "optim/lion.yaml"]


# ------------------------------------------------------------- Hydra's own settings
def test_sweeper_and_launcher_are_refused_wherever_a_file_sets_them(
    tmp_path: Path,
) -> None:
    write_tree(
        tmp_path,
        exp="""
        defaults: [{backend: one}, {override hydra/launcher: submitit_slurm}, _self_]
        hydra: {sweeper: {params: {lr: "1,2"}}, searchpath: [/x]}
        hydrate: {a: 1}
        """,
        backend__one="# @package _global_\nhydra: {run: {dir: x}}",
    )
    files = [(tmp_path / "exp.yaml", ()), (tmp_path / "backend/one.yaml", ())]

    found = [*KeyPlaces(files).list_hydra_keys()]

    assert found == ["hydra.sweeper", "hydra.searchpath", "hydra/launcher", "hydra.run"]


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("m: hydra/tiny", []),
        ("override hydra/launcher@x: y", ["hydra/launcher"]),
        ("hydra/launcher/basic", ["hydra/launcher"]),
        ("/hydra/launcher/basic@x", ["hydra/launcher"]),
        ("hydra/x", ["hydra"]),
        ("m: [hydra/tiny, a]", []),
        ("''", []),
    ],
)
def test_an_entry_is_told_by_its_group(
    entry: str, found: list[str], tmp_path: Path
) -> None:
    write_tree(tmp_path, exp=f"defaults:\n  - {entry}\n  - _self_")
    assert [*KeyPlaces([(tmp_path / "exp.yaml", ())]).list_hydra_keys()] == found


def test_a_choice_of_an_own_group_is_no_setting_of_hydra(tmp_path: Path) -> None:
    write_tree(
        tmp_path / "config",
        exp="""
        defaults: [{m: hydra/tiny}, hydra/x, _self_]
        backend: {class_name: 'Null'}
        project: {name: x}
        """,
        m__hydra__tiny="a: 1",
        hydra__x="# @package _global_\nb: 1",
    )
    answer = answer_request(PlanningRequest(cwd=str(tmp_path)))
    assert not [one for one in answer.warnings if "hydra" in one.where], answer


@pytest.mark.parametrize(
    ("override", "is_error"),
    [
        ("+hydra.sweeper.size=3", True),
        ("hydra/launcher=joblib", True),
        ("+hydra.launcher.n_jobs=3", True),
        ("hydra.job.chdir=true", False),
        ("hydra.run.dir=x", False),
    ],
)
def test_the_command_line_is_looked_at_too(
    tmp_path: Path, override: str, is_error: bool
) -> None:
    text = "backend: {class_name: 'Null'}\nproject: {name: x}"
    write_tree(tmp_path / "config", exp=text)
    answer = answer_request(PlanningRequest(cwd=str(tmp_path), overrides=(override,)))
    key = override.partition("=")[0].lstrip("+")
    found = answer.errors if is_error else answer.warnings

    assert any(key in one.where for one in found), answer
