"""What is wrong in a job's config is told in Hydra's words, whatever it shares."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.planning.overrides import format_override
from autoexp_tui.planning.ports import CannotCompose, ConfigView
from tests.config.config_trees import write_tree

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
    "a key that is near": 'bad: "${model.layer}"',
    "below a value": 'bad: "${model.layers.first}"',
    "no value": "bad: ???",
    "reads one without a value": 'empty: ???\nbad: "${empty}"',
    "no such resolver": 'bad: "${nothing.like:${lr}}"',
    "a resolver that fails": "bad: \"${oc.eval:'_0/0',${model.layers}}\"",
    "itself, by a resolver": 'bad: "${oc.select:bad,3}"',
    "a ring": 'bad: "${worse}"\nworse: "${bad}"',
    "by way of another": 'bad: "${worse}"\nworse: "${nowhere}"',
    "in a list": 'bad: [1, "${lr}", "${nowhere}"]',
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
def test_a_mistake_of_the_config_is_told_to_each_job(
    fault: str, tmp_path: Path
) -> None:
    made = tree_with(tmp_path, fault)
    for lr, size in itertools.product(range(2), ("huge", "large")):
        assert_alike(made, f"lr={lr}", f"size={size}")


def test_a_job_that_breaks_the_ring_of_another_is_whole(tmp_path: Path) -> None:
    made = tree_with(tmp_path, "")
    for load, other in (
        ("${lr}", "${size}"),
        ("${other}", "${load}"),
        ("${other}", "x${load}"),
        ("${other}", "y"),
        ("z", "${load}"),
    ):
        texts = (format_override("load", load), format_override("other", other))
        assert_alike(made, *texts)


def test_what_is_put_into_a_job_is_seen_by_it_alone(tmp_path: Path) -> None:
    made = tree_with(tmp_path, 'bad: "${table.${size}}"')
    views = [made.compose(["size=huge", f"lr={n}"], {}) for n in range(3)]
    wanted = told(made.compose_by_hydra(["size=huge", "lr=0"], {}).to_dict)
    views[1].put("size", "vast")
    views[2].put("size", "small")
    assert told(views[0].to_dict) == wanted
    assert told(views[1].to_dict) != wanted
    assert views[2].select("bad") == 1


@pytest.mark.parametrize("path", ["lr.below", "items[0]", "fresh.key"])
def test_what_is_put_anywhere_is_there(path: str, tmp_path: Path) -> None:
    view = tree_with(tmp_path, 'bad: "${nowhere}"').compose(["lr=2"], {})
    view.put(path, 7)
    view.put("nowhere", 8)
    view.put("model.kind", "mended")
    assert view.select(path) == 7
    assert view.select("bad") == 8
    assert view.to_dict()["model"] == {"layers": 3, "kind": "mended"}
