"""Configs that were merged before are not merged again, and nobody can tell."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hydra._internal import config_loader_impl, defaults_list
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.defaults_list import DefaultsList
from hydra._internal.utils import create_config_search_path
from hydra.plugins.config_source import ConfigResult

from autoexp_tui.config import hydra_loader
from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.hydra_loader import LOADED, Key, ListingRepository
from autoexp_tui.config.hydra_source import AutoexpSource
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.probes.yaml_files import SCHEME
from tests.config.config_trees import write_tree

FILES = {
    "exp": """
        defaults: [model: small, _self_]
        project: {name: run, base_output_dir: out}
        size: ${model.size}
    """,
    "model__small": "{size: 1, layers: [1, 2]}",
    "model__large": "{size: 2, layers: [3]}",
    "logger__file": "path: log",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "config", **FILES)


@pytest.fixture
def made(tree: Path) -> Iterator[HydraComposer]:
    composer = HydraComposer("exp", tree, cwd="/cwd")
    composer.base()
    yield composer
    composer.close()


def merges(composer: HydraComposer, *overrides: str) -> int:
    """How many merges a job takes."""
    before = composer.merges
    composer.compose(overrides, {}).to_dict()
    return composer.merges - before


def test_jobs_of_other_structures_with_the_same_choices_share_a_merge(
    made: HydraComposer,
) -> None:
    assert merges(made, "++a=1") == 0
    assert merges(made, "model=large") == 1
    assert merges(made, "model=large", "++a=1") == 0
    assert merges(made, "++b=1", "model=large") == 0


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The lists of defaults that were made, of what was given for each."""
    made: list[object] = []
    create = defaults_list.create_defaults_list

    def counted(**given: Any) -> DefaultsList:
        made.append(given)
        return create(**given)

    monkeypatch.setattr(hydra_loader, "create_defaults_list", counted)
    return made


def test_jobs_of_other_structures_with_the_same_choices_share_a_list(
    made: HydraComposer, lists: list[object]
) -> None:
    made.compose(["model=large"], {})
    assert len(lists) == 1
    made.compose(["++a=1", "model=large", "~size"], {})
    assert len(lists) == 1


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("+logger=file", "+logger@other=file"),
        ("model=large", "model=[large]"),
        ("~model=small", "~model"),
        ("model=small", "model=large"),
    ],
)
def test_other_choices_make_another_list(
    made: HydraComposer, lists: list[object], first: str, then: str
) -> None:
    made.compose([first, "++a=1"], {})
    assert len(lists) == 1
    made.compose([then, "++a=1"], {})
    assert len(lists) == 2


def test_a_job_with_known_choices_has_its_own_values(made: HydraComposer) -> None:
    made.compose(["model=large", "++a=1"], {})
    found = made.compose(["++b=2", "model=large", "project.name=mine"], {}).to_dict()
    assert (found.get("a"), found["b"], found["size"]) == (None, 2, 2)
    assert found["project"] == {"name": "mine", "base_output_dir": "/cwd/out"}


def test_a_choice_of_what_is_no_group_is_refused_each_time(
    made: HydraComposer,
) -> None:
    for _ in range(2):
        with pytest.raises(CannotCompose):
            made.compose(["nowhere@here=large"], {})


SWEPT = """
        defaults: [model: small, _self_]
        size: 1
        sweep: {params: {size: [1, 2, 3]}}
        last: 1
    """


@pytest.fixture
def swept(tmp_path: Path) -> Iterator[HydraComposer]:
    composer = HydraComposer("exp", write_tree(tmp_path, **FILES | {"exp": SWEPT}))
    yield composer
    composer.close()


def test_the_sweep_is_no_part_of_what_jobs_are_composed_from(
    swept: HydraComposer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert swept.sweep() == {"params": {"size": [1, 2, 3]}}
    spy = Mock(wraps=pickle)
    monkeypatch.setattr(hydra_loader, "pickle", spy)
    for n in range(3):
        swept.compose([f"++new{n}=1"], {})
    taken = [set(pickle.loads(call.args[0])) for call in spy.loads.call_args_list]
    assert [keys & {"size", "sweep"} for keys in taken] == [{"size"}] * 3


def test_a_config_without_the_sweep_is_in_the_order_of_one_with_it(
    swept: HydraComposer,
) -> None:
    anew = list(swept.composed_anew(["size=2"], {}).to_dict())
    assert list(swept.compose(["size=2"], {}).to_dict()) == anew
    assert list(swept.base().to_dict()) == anew


@pytest.mark.parametrize(
    "text", ["~sweep", "sweep=null", "sweep={params:{size:[4]}}", "++sweep={}"]
)
def test_jobs_compose_under_a_command_line_that_sets_the_sweep(
    text: str, tmp_path: Path
) -> None:
    tree = write_tree(tmp_path, **FILES | {"exp": SWEPT})
    composer = HydraComposer("exp", tree, [text])
    composer.base()
    found = [composer.compose([f"++a{n}=1"], {}).to_dict() for n in range(2)]
    assert [list(one)[-1] for one in found] == ["a0", "a1"]
    composer.close()


@pytest.mark.parametrize("text", ["sweep.params.size=[4]", "~sweep", "++sweep.x=1"])
def test_a_job_that_sets_the_sweep_composes_as_from_scratch(
    swept: HydraComposer, text: str
) -> None:
    swept.base()
    anew = swept.composed_anew([text], {}).to_dict()
    assert swept.compose([text], {}).to_dict() == anew


def test_others_of_hydra_make_their_lists_themselves(made: HydraComposer) -> None:
    made.compose(["model=large"], {})
    module: Any = config_loader_impl
    assert module.create_defaults_list is defaults_list.create_defaults_list


def test_what_a_job_changes_is_not_in_the_next(made: HydraComposer) -> None:
    changed = made.compose(["~model.size", "model.layers=[9]", "size=0"], {}).to_dict()
    assert changed["model"] == {"layers": [9]}
    assert made.compose(["++a=1"], {}).to_dict()["model"] == {
        "size": 1,
        "layers": [1, 2],
    }


def test_what_is_composed_anew_is_merged_anew(made: HydraComposer) -> None:
    before = made.merges
    made.composed_anew(["++a=1"], {})
    assert made.merges == before + 1


def test_what_is_composed_anew_has_a_list_of_its_own(
    made: HydraComposer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[object] = []
    create = defaults_list.create_defaults_list

    def counted(**given: Any) -> DefaultsList:
        lists.append(given)
        return create(**given)

    monkeypatch.setattr(config_loader_impl, "create_defaults_list", counted)
    for _ in range(2):
        made.composed_anew(["model=large"], {})
    assert len(lists) == 2


def test_another_search_path_finds_other_configs(
    made: HydraComposer, tmp_path: Path
) -> None:
    for size in (3, 4):
        place = write_tree(tmp_path / str(size), model__huge=f"size: {size}")
        path = f"hydra.searchpath=[file://{place}]"
        assert made.compose([path, "model=huge"], {}).select("size") == size


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The configs that were loaded."""
    paths: list[str] = []
    load = AutoexpSource.load_config

    def counted(source: AutoexpSource, config_path: str) -> ConfigResult:
        paths.append(config_path)
        return load(source, config_path)

    monkeypatch.setattr(AutoexpSource, "load_config", counted)
    return paths


def test_hydras_own_configs_are_merged_once_for_all_choices(
    made: HydraComposer, loaded: list[str]
) -> None:
    made.compose(["hydra/env=default", "model=large"], {})  # what lists are made of
    loaded.clear()
    made.compose(["+logger=file", "model=large"], {})
    assert "logger/file" in loaded
    assert not [path for path in loaded if path.startswith("hydra/")]


@pytest.mark.parametrize(
    "choice", ["hydra/env=ours", "hydra/env=outside", "~hydra/env"]
)
def test_a_choice_within_hydra_composes_as_from_scratch(
    made: HydraComposer, tree: Path, choice: str
) -> None:
    write_tree(
        tree,
        hydra__env__ours="# @package hydra.job_logging\nours: 1",
        hydra__env__outside="# @package _global_\nsize: 9\nproject: {name: theirs}",
    )
    given = [choice, "model=large"]
    anew = made.composed_anew(given, {}).to_dict()
    found = made.compose(given, {}).to_dict()
    assert found == anew
    assert list(found) == list(anew)


def test_configs_of_earlier_lists_are_not_loaded_again(
    made: HydraComposer, loaded: list[str]
) -> None:
    made.compose(["model=large"], {})
    assert "model/large" in loaded
    loaded.clear()
    made.compose(["model=large", "++a=1"], {})
    assert loaded == []


def test_what_a_job_changes_is_not_in_what_is_merged_later(
    made: HydraComposer,
) -> None:
    made.compose(["model=large", "model.layers=[9]", "project.name=other"], {})
    later = made.compose(["model=large", "+logger=file"], {}).to_dict()
    assert later["model"] == {"size": 2, "layers": [3]}
    assert later["project"] == {"name": "run", "base_output_dir": "/cwd/out"}


def test_a_choice_that_appears_later_is_found(made: HydraComposer, tree: Path) -> None:
    with pytest.raises(CannotCompose):
        made.compose(["model=huge"], {})
    write_tree(tree, model__huge="size: 3")
    assert made.compose(["model=huge"], {}).select("size") == 3


def test_no_more_loaded_configs_are_held_than_a_few_hundred(
    made: HydraComposer, tree: Path
) -> None:
    count = 2 * LOADED
    write_tree(tree, **{f"model__m{n}": f"size: {n}" for n in range(count)})
    places = ConfigRepository(create_config_search_path(f"{SCHEME}://{tree}"))
    held: OrderedDict[Key, ConfigResult] = OrderedDict()
    repository = ListingRepository(places, held)
    for n in range(count):
        repository.load_config(f"model/m{n}")
    assert len(held) == LOADED
