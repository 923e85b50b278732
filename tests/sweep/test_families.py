"""Families of a sweep, and how siblings are found by place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from autoexp_tui.sweep.expand import expand, expand_sweep
from autoexp_tui.sweep.families import (
    Families,
    SiblingNotFound,
    find_sibling,
    parse_pattern,
)
from autoexp_tui.sweep.points import SweepPoint

Sweep = Mapping[str, Any]

LATER = {"stage": "cooldown", "iters": 12, "load": "{sibling.stable.output_dir}"}
STAGES = {"type": "list", "configs": [{"stage": "stable", "iters": 10}, LATER]}
CROSSED = {"groups": [{"params": {"lr": [1, 2], "batch": [64, 128]}}, STAGES]}


def families(sweep: Sweep) -> Families:
    made = expand(sweep)
    return Families(made.points, made.removed)


def by_hand(*parameters: dict[str, Any]) -> list[SweepPoint]:
    return [SweepPoint(parameters=own) for own in parameters]


HAND = by_hand(*(
    {"megatron.lr": lr, "stage": stage}
    for lr, stage in ((1e-4, "stable"), (1e-4, "cooldown"), (5e-4, "stable"))
))  # fmt: skip


def test_points_made_by_hand_are_siblings_when_their_shared_keys_are_equal() -> None:
    assert find_sibling("stable", HAND, current_index=1) == (0, HAND[0])
    points = by_hand({"stage": "a", "x": 1}, {"stage": "b", "y": 1})
    assert find_sibling("a", points, 1)[0] == 0
    assert find_sibling("index=2", HAND, 0)[0] == 2
    swept = expand_sweep({"params": {"lr": [1, 2, 3, 4]}})[1:]
    assert find_sibling("index=3", swept, 0) == (2, swept[2])


def test_points_made_by_hand_of_other_families_are_no_siblings() -> None:
    for pattern, points, at in (("cooldown", HAND, 2), ("stable", HAND[1:2], 0)):
        said = f"^No sibling found matching pattern: {pattern}"
        with pytest.raises(ValueError, match=said):
            find_sibling(pattern, points, at)


def listed(*branches: object) -> Sweep:
    """Branches one after another; a name stands for a config of that stage."""
    nodes = [
        {"configs": [{"stage": one} for one in branch.split()]}
        if isinstance(branch, str)
        else branch
        for branch in branches
    ]
    return {"type": "list", "groups": nodes}


RATES = {"params": {"lr": [1, 2]}}
SCALED = [{"params": {"scale": [6, 12]}, "defaults": {"stage": stage}}
          for stage in ("cooldown", "evaluate")]  # fmt: skip
NESTED = {"groups": [RATES, {"configs": [{"stage": "stable"}, *SCALED]}]}
REPORT = listed({"groups": [RATES, STAGES]}, "report")
BY_LABEL = listed(*({**RATES, "defaults": {"stage": stage}} for stage in "ab"))
ALONE = listed(*({"groups": [{"params": {"lr": [lr]}}, STAGES]} for lr in (1, 7)))
SHARED = listed(*({"groups": [RATES, of]} for of in (listed("t"), STAGES, listed("f"))))
NUMBERS = [{"kind": one, "n": one} for one in (1, 2.5, "z")]
KINDS = listed({"configs": NUMBERS[:1]}, {"configs": NUMBERS[1:]})
ZIP = {"type": "zip", "params": {"stage": ["a", "b"], "steps": [10, 20]}}
DEEP = listed("a", listed("b c", {"configs": [listed("d"), {"stage": "e"}]}))
CROSSED_DEEP, TWICE_DEEP = {"groups": [RATES, DEEP]}, listed(DEEP, DEEP)
WHOLE = listed("stable2", "stable", "x")


@pytest.mark.parametrize(("sweep", "pattern", "found"), [
    (CROSSED, "cooldown", {at: at + 1 for at in range(0, 8, 2)}),
    (CROSSED, "stable", {at + 1: at for at in range(0, 8, 2)}),
    (CROSSED, "stage=stable", {3: 2}), (CROSSED, "_stage=stable", {3: 2}),
    (CROSSED, "[stage=stable]", {3: 2}), (CROSSED, "[lr=2]", {1: 5}),
    (CROSSED, "[stage=stable,lr=2]", {1: 4}), (CROSSED, "index=7", {0: 7}),
    (WHOLE, "stable", {2: 1}), (BY_LABEL, "a", {2: 0, 3: 1}),
    ({"params": {"optim.lr": [1e-4, 5e-4]}}, "lr=0.0005", {0: 1}),
    (ALONE, "stable", {1: 0, 3: 2}), (NESTED, "stable", {1: 0, 2: 0, 8: 5}),
    (NESTED, "cooldown", {3: 1, 4: 2, 8: 6, 9: 7}), (KINDS, "[kind=1.0]", {1: 0, 2: 0}),
    ({"groups": [STAGES, {"params": {"scale": [6, 12]}}]}, "stable", {2: 0, 3: 1}),
    ({"params": {"stage": ["a", "b"], "lr": [1, 2]}}, "a", {2: 0, 3: 1}),
    (listed("t", "f g"), "t", {1: 0, 2: 0}), (SHARED, "f", {0: 6, 1: 7, 2: 6, 5: 7}),
    (KINDS, "[kind=2.50]", {0: 1}), ({"groups": [RATES, ZIP]}, "a", {1: 0, 3: 2}),
    ({"type": "zip", "params": {"size": ["s", "l"], "lr": [1, 2]}}, "size=s", {1: 0}),
    *((deep, stage, {at: at // 5 * 5 + place for at in range(10) if at % 5 != place})
      for deep in (CROSSED_DEEP, TWICE_DEEP) for place, stage in enumerate("abcde")),
])  # fmt: skip
def test_a_sibling_lies_at_the_same_coordinates_but_for_what_is_named(
    sweep: Sweep, pattern: str, found: dict[int, int]
) -> None:
    made = families(sweep)
    assert {at: made.find(pattern, at) for at in found} == found


@pytest.mark.parametrize(("sweep", "numbers"), [
    (BY_LABEL, [0, 1, 0, 1]), (NESTED, [0] * 5 + [1] * 5), (REPORT, [0, 0, 1, 1, 2]),
    ({"groups": [STAGES, {"params": {"scale": [6, 12]}}]}, [0, 1, 0, 1]),
    ({"params": {"a": [1, 2]}}, [0, 1]), (listed("t", "f g"), [0, 0, 0]),
    (SHARED, [0, 1, 0, 0, 1, 1, 0, 1]), ({"groups": [RATES, ZIP]}, [0, 0, 1, 1]),
    ({"type": "zip", "params": {"stage": "a", "lr": [1, 2]}}, [0, 1]),
    (CROSSED_DEEP, [0] * 5 + [1] * 5), (TWICE_DEEP, [0] * 5 + [1] * 5),
])  # fmt: skip
def test_jobs_at_one_place_are_a_family(sweep: Sweep, numbers: list[int]) -> None:
    made = families(sweep)
    assert [made.family(at) for at in range(len(made.points))] == [
        f"f{number}" for number in numbers
    ]


SEEDS = {"params": {"seed": [1, 2]}, "defaults": {"stage": "t"}}


@pytest.mark.parametrize(("sweep", "pattern", "current", "said"), [
    (CROSSED, "index=8", 0, "indices go from 0 to 7"),
    (CROSSED, "index=1", 1, "is that job itself"),
    (CROSSED, "index=x", 0, "an index is a whole number"),
    (CROSSED, "[=1]", 0, "is no pattern"), (CROSSED, "cooldown", 1, "No sibling found"),
    (CROSSED, "[lrr=1]", 0, "did you mean `lr`?"),
    (CROSSED, "stabel", 1, "did you mean `stable`?"),
    (CROSSED, "[lr=9]", 0, "no job that fits lies beside it"),
    (REPORT, "cooldown", 4, "2 siblings match"),
    (listed("a b", {**listed("a b"), "filter": "stage != 'a'"}), "a", 2,
     "removed by the filter `stage != 'a'` at sweep.groups.1.filter"),
    (listed(SEEDS, "f g"), "t", 2,
     "they are job 0 (stage=t, seed=1); job 1 (stage=t, seed=2)"),
])  # fmt: skip
def test_what_finds_no_one_sibling_says_why(
    sweep: Sweep, pattern: str, current: int, said: str
) -> None:
    with pytest.raises(SiblingNotFound) as caught:
        families(sweep).find(pattern, current)
    assert said in str(caught.value)


DERIVED: Sweep = {
    "grids": [{"lr": [1, 2], "aux": {"k": 1}, "start_conditions": ["mine"]}],
    "derived_jobs": [
        {"name": "c", "aux": {"n": 0.2}, "start_conditions": ["theirs"],
         "parameter_overrides": {"load": "{base.output_dir}"}},
        {"name": "e"}, {"name": "report", "for_each_base_job": False},
    ],
}  # fmt: skip


def test_derived_jobs_follow_their_base_as_siblings_and_know_it() -> None:
    found = families(DERIVED)
    assert [point.stage for point in found.points] == ["", *"ce", "", *"ce", "report"]
    assert [point.base for point in found.points] == [None, 0, 0, None, 3, 3, None]
    assert found.points[4].parameters == {
        "lr": 2, "project.name": "{base.name}_c", "stage": "c",
        "load": "{base.output_dir}", "aux": {"k": 1, "n": 0.2},
        "start_conditions": ["theirs"],
    }  # fmt: skip
    assert [found.base(at) for at in (1, 2, 4, 5)] == [0, 0, 3, 3]
    assert found.find("c", 5) == 4
    assert [found.family(at) for at in range(6)] == ["f0"] * 3 + ["f1"] * 3
    made = families({**DERIVED, "filter": "not (stage is None and lr == 1)"})
    assert [point.base for point in made.points] == [None, None, None, 2, 2, None]
    with pytest.raises(SiblingNotFound, match="a filter removed it"):
        made.base(0)
    parent = {"_meta": {"stage": "c", "parent_stage": "a"}}
    assert families({"configs": [{"stage": "a"}, {"stage": "b"}, parent]}).base(2) == 0
    found = families(CROSSED)  # else it is the only job referred to
    assert found.base(1, lambda: [0, 0, 1]) == 0
    of_none_or_two: list[list[int]] = [[], [0, 2]]
    for referred in of_none_or_two:
        with pytest.raises(SiblingNotFound, match="has no base"):
            found.base(1, partial(list, referred))


@pytest.mark.parametrize(("value", "text", "same"), [
    (1e-4, "0.0001", True), (8000, "8e3", True), (1, "x", False), (True, "true", True),
    (True, "1", False), (None, "null", True), ("a", "a", True), ("a", "b", False),
])  # fmt: skip
def test_a_text_spells_a_value(value: object, text: str, *, same: bool) -> None:
    point = SweepPoint(parameters={"lr": value})
    assert parse_pattern(f"lr={text}").fits(point) is same
