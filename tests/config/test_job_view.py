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


def planned(view: ConfigView) -> Iterator[object]:
    """What a plan asks of a config."""
    yield told(view.to_dict)
    for path in (*view.leaf_paths(), "model"):
        yield path, told(partial(view.select, path))
    for value in ("${bad}", {"a": "${lr}", "b": ["${nowhere}"]}, "${size}"):
        yield value, told(partial(view.interpolate, value, "start.path"))


def all_of(view: ConfigView) -> Iterator[object]:
    yield from planned(view)
    for path in ("bad.1", "bad.a", "inner", "load.0"):
        yield path, told(partial(view.select, path))


def assert_alike(made: HydraComposer, *texts: str) -> None:
    anew = list(all_of(made.compose_by_hydra(texts, {"index": 0})))
    assert list(all_of(made.compose(texts, {"index": 0}))) == anew


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_mistake_of_the_config_is_told_to_each_job(
    fault: str, tmp_path: Path
) -> None:
    made = tree_with(tmp_path, fault)
    for lr in range(2):
        assert_alike(made, f"lr={lr}")


def test_what_fails_for_some_values_of_a_job_alone_is_told_of_those(
    tmp_path: Path,
) -> None:
    made = tree_with(tmp_path, "bad: ${table.${size}}")
    for size, lr in itertools.product(("small", "huge", "vast", "large"), (1, 2)):
        assert_alike(made, f"size={size}", f"lr={lr}")


def test_a_job_that_breaks_the_ring_of_another_is_whole(tmp_path: Path) -> None:
    made = tree_with(tmp_path, "")
    for load, other in (
        ("${lr}", "${size}"),
        ("${other}", "${load}"),
        ("${other}", "x${load}"),
        ("${other}", "y"),
        ("z", "${load}"),
    ):
        assert_alike(
            made, format_override("load", load), format_override("other", other)
        )


def test_what_is_put_into_the_job_that_was_asked_is_not_told_to_others(
    tmp_path: Path,
) -> None:
    made = tree_with(tmp_path, 'bad: "${table.${size}}"')
    texts = [["size=huge", f"lr={n}"] for n in range(4)]
    views = [made.compose(one, {}) for one in texts]
    wanted = told(made.compose_by_hydra(texts[0], {}).to_dict)
    assert told(views[1].to_dict) == wanted
    views[1].put("size", "vast")
    assert told(views[1].to_dict) != wanted
    assert told(views[2].to_dict) == wanted
    views[3].put("size", "small")
    assert views[3].select("bad") == 1


def test_a_job_into_which_something_was_put_answers_for_itself(tmp_path: Path) -> None:
    made = tree_with(tmp_path, 'bad: "${nowhere}"')
    views = [made.compose([f"lr={n}"], {}) for n in range(4)]
    for view in views[:3]:
        assert told(view.to_dict) == told(made.compose_by_hydra(["lr=1"], {}).to_dict)
    views[3].put("nowhere", 7)
    assert views[3].select("bad") == 7
    views[2].put("bad", "mended")
    assert views[2].to_dict()["bad"] == "mended"
