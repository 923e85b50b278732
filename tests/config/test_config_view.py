"""Values of configs over plain trees: what OmegaConf and Hydra give, in their words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.job_template import Absent, Doubtful, Place, Values
from autoexp_tui.config.resolvers import Environment, register_resolvers
from autoexp_tui.planning.ports import CannotCompose, ConfigView
from tests.config.config_trees import write_tree

TREE: dict[str, Any] = {
    "size": "small", "table": {"small": 1, "large": 4}, "n": 3, "x": 0.5, "flag": True,
    "none": None, "words": ["a", "${size}"],
    "model": {"width": 8, "ffn": "${oc.eval:'4*_0',${.width}}", "up": "${..n}"},
    "alias": "${model}", "far": "${alias.width}", "missing": "???", "ring": "${gnir}",
    "gnir": "${ring}", "broken": "${no.where}", "own": {"b": "${own}"},
}  # fmt: skip
SURE = (
    "${n}", "${x}", "${flag}", "${none}", "${size}", "${table.${size}}",
    "pre-${n}-${x}-${flag}-${none}", "${model.ffn}", "${model.up}", "${far}",
    "${alias.ffn}", "${words.0}", "${words[1]}", "${oc.eval:'_0*2',${n}}",
    "${oc.eval:'_0+_1',${n},${x}}", "${oc.env:AUTOEXP_HERE}",
    "${oc.env:NOWHERE,${size}}", "${oc.select:n}", "${oc.select:no.where,7}",
    "a: ${n}, 'quoted' \"${size}\" $5",
)  # fmt: skip
UNSURE = (
    "${missing}", "${no.where}", "${ring}", "${model} in a text",
    "${oc.select:no.where}", "${unknown:1}", "${oc.create:{a: 1}}", "${own.b}",
    "${oc.eval:'_0/0',${n}}", "${n", r"\${n}", r"\${n} and ${n}", "${..n}",
    "${oc.select:broken,7}",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _resolvers() -> None:
    register_resolvers(Environment({"AUTOEXP_HERE": "here"}), 0.0)


def by_omegaconf(text: str) -> object:
    return OmegaConf.create({**TREE, "asked": text}).asked


@pytest.mark.parametrize("text", SURE)
def test_a_value_is_omegaconf_s_with_its_type(text: str) -> None:
    found, wanted = Values(TREE).evaluate(text), by_omegaconf(text)
    assert (type(found), found) == (type(wanted), wanted)


@pytest.mark.parametrize("text", UNSURE)
def test_what_is_not_certain_is_left_to_omegaconf_and_not_called_absent(
    text: str,
) -> None:
    with pytest.raises(Doubtful) as raised:
        Values(TREE).evaluate(text)
    assert not isinstance(raised.value, Absent)
    with pytest.raises(Absent):
        Values(TREE).get_value(("no", "where"))
    assert Values(TREE).evaluate("${alias}") == Place(("model",))  # not copied


EXP = """
    project: {name: run, base_output_dir: out}
    lr: 1
    size: small
    table: {small: 1, large: 2}
    model: {layers: 3, kind: "${size}"}
    load: null
    other: null
    items: [1, "${lr}"]
"""
FAULTS = {
    "no such key": 'bad: "${nowhere}"',
    "no such key behind one that a job sets": 'bad: "x${lr}-${nowhere.at.all}"',
    "no value": "bad: ???",
    "reads one without a value": 'empty: ???\nbad: "${empty}"',
    "a resolver that fails": "bad: \"${oc.eval:'_0/0',${model.layers}}\"",
    "itself, by a resolver": 'bad: "${oc.select:bad,3}"',
    "a ring": 'bad: "${worse}"\nworse: "${bad}"',
    "by way of another": 'bad: "${worse}"\nworse: "${nowhere}"',
    "in a mapping that is read whole": 'inner: {a: "${nowhere}"}\nbad: "${inner}"',
    "two at once": 'bad: "${nowhere}"\nworse: "${oc.env:AUTOEXP_NOBODY}"',
    "some values of a job alone": "bad: ${table.${size}}",
}


def tree_with(place: Path, fault: str) -> HydraComposer:
    lines = "".join(f"\n    {line}" for line in fault.splitlines())
    return HydraComposer("exp", write_tree(place, exp=EXP.rstrip() + lines), cwd="/cwd")


def told(ask: Callable[[], object]) -> object:
    """What was found, or why nothing: the words, and where."""
    try:
        return ask()
    except KeyError:
        return "absent"
    except CannotCompose as error:
        return error.problems


def list_answers(view: ConfigView) -> Iterator[object]:
    """All that a plan asks of a config."""
    yield told(view.to_dict)
    paths = ("model", "bad.1", "bad.a", "inner", "load.0", "a..b", "")
    for path in (*view.leaf_paths(), *paths):
        yield path, view.has(path), told(partial(view.select, path))
        yield path, told(partial(view.raw, path))
    for value in ("${bad}", {"a": "${lr}", "b": ["${nowhere}"]}, "${size}"):
        yield value, told(partial(view.interpolate, value, "start.path"))


def assert_alike(made: HydraComposer, *texts: str) -> None:
    anew = list(list_answers(made.compose_by_hydra(texts, {"index": 0})))
    assert list(list_answers(made.compose(texts, {"index": 0}))) == anew


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_mistake_of_the_config_is_told_to_each_job_in_hydra_s_words(
    fault: str, tmp_path: Path
) -> None:
    made = tree_with(tmp_path, fault)
    for lr, size in itertools.product(range(2), ("huge", "large")):
        assert_alike(made, f"lr={lr}", f"size={size}")


def test_what_is_put_into_a_job_is_there_and_seen_by_it_alone(tmp_path: Path) -> None:
    made = tree_with(tmp_path, 'bad: "${table.${size}}"\nworse: "${nowhere}"')
    views = [made.compose(["size=huge", f"lr={n}"], {}) for n in range(3)]
    wanted = told(made.compose_by_hydra(["size=huge", "lr=0"], {}).to_dict)
    views[1].put("size", "vast")
    views[2].put("size", "small")
    assert told(views[0].to_dict) == wanted != told(views[1].to_dict)
    assert views[2].select("bad") == 1
    for path, value in (("lr.below", 7), ("items[0]", 7), ("fresh.key", 7)):
        view = made.compose(["lr=2", "size=small"], {})
        for key, put in ((path, value), ("nowhere", 8), ("model.kind", "mended")):
            view.put(key, put)
        assert (view.select(path), view.select("worse")) == (7, 8)
        assert view.to_dict()["model"] == {"layers": 3, "kind": "mended"}
