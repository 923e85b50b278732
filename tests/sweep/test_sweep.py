"""Points of a sweep: products, lists, zips, nesting, defaults, derived jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.specs import Hole
from autoexp_tui.sweep.expand import MOST_HOLES, expand, expand_sweep, list_holes
from autoexp_tui.sweep.points import (
    SweepFilter,
    SweepRefused,
    find_fault_of_name,
    format_in_name,
)

Sweep = Mapping[str, Any]
TABLE = yaml.safe_load(Path(__file__).with_name("sweeps.yaml").read_text("utf-8"))


def parameters(sweep: Sweep | None) -> list[Mapping[str, object]]:
    return [point.parameters for point in expand_sweep(sweep)]


def stages(sweep: Sweep) -> list[str]:
    return [point.stage for point in expand_sweep(sweep)]


def refusal(sweep: Any) -> str:
    with pytest.raises(SweepRefused) as caught:
        expand_sweep(sweep)
    return str(caught.value)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: str(row["sweep"])[:80])
def test_a_sweep_makes_these_points_or_is_refused(row: dict[str, Any]) -> None:
    if "refused" in row:
        assert row["refused"] in refusal(row["sweep"])
    else:
        assert parameters(row["sweep"]) == row["points"]


SPELLED: list[Any] = [
    {"stage": "x"}, {"_stage": "x"}, {"_meta.stage": "x"}, {"_meta": {"stage": "x"}},
]  # fmt: skip


@pytest.mark.parametrize("said", SPELLED)
def test_the_later_group_says_the_stage(said: Sweep) -> None:
    again = {key: {"stage": "y"} if key == "_meta" else "y" for key in said}
    for earlier in SPELLED:
        nodes = [{"configs": [{**earlier, "a": 1}]}, {"configs": [{**again, "b": 2}]}]
        assert stages({"groups": nodes}) == ["y"]
    notes = [{"_meta": {"stage": "y", "why": "z"}}]
    assert stages({"defaults": said, "configs": notes}) == ["y"]
    derived = [{"name": "d", "parameter_overrides": said}]
    assert stages({"params": {"a": [1]}, "derived_jobs": derived}) == ["", "x"]
    assert stages({"configs": [{"stage": "x", "_meta": {"stage": "x"}}]}) == ["x"]


STAGES = {"configs": [{"stage": "stable"}, {"stage": "cooldown"}]}


def test_a_group_filter_prunes_its_group() -> None:
    node = {"params": {"a": [1, 2, 3, 4], "b": [10, 20, 30]}, "filter": "a*b <= 60"}
    found = parameters({"groups": [node, STAGES]})
    assert len(found) == 2 * len({(row["a"], row["b"]) for row in found}) == 18
    node = {"params": {"a": [1, 2]}, "filter": "${b} > a"}
    points = expand_sweep({"groups": [node, STAGES]})
    marks = [(mark.text, mark.where) for point in points for mark in point.deferred]
    assert marks == [("${b} > a", "sweep.groups.0.filter")] * 4


THOUSANDS = {key: list(range(1000)) for key in "abc"}
WIDE = {"a": list(range(1000)), "b": list(range(900))}
MILLIARD = "makes 1,000,000,000 points; the bound is 1,000,000"


@pytest.mark.parametrize(("sweep", "said"), [
    ({"groups": [{"params": THOUSANDS}, {"configs": []}]}, MILLIARD),
    ({"configs": [{"groups": [{"params": THOUSANDS}], "filter": "a == b"}]}, MILLIARD),
    ({"params": {f"k{at}": list(range(10)) for at in range(5000)}},
     "makes more than 10^30 points; the bound is 1,000,000"),
    ({"params": WIDE, "derived_jobs": [{"name": f"d{at}"} for at in range(1000)]},
     "makes 900,900,000 points; the bound is 1,000,000"),
], ids=["empty", "filtered", "digits", "derived"])  # fmt: skip
def test_nothing_that_runs_away_is_begun(sweep: Sweep, said: str) -> None:
    begun = time.process_time()
    assert f"sweep: {said}" in refusal(sweep)
    assert time.process_time() - begun < 2.0


def test_all_findings_come_at_once() -> None:
    said = refusal({"groups": [{"params": 1}, {"configs": 2}, {}], "max_points": -1})
    assert len([line for line in said.splitlines() if line.startswith("sweep")]) == 4
    long = {"params": {"a": [1]}, "filter": "a == " + "9" * 5000}
    assert "...`: is longer than 4096 characters" in refusal(long)
    ring: dict[str, Any] = {}
    ring["groups"] = [ring, ring]
    assert "sweep: is nested too deeply, or holds itself" in refusal(ring)


KEYS = st.sampled_from(["a", "b", "c", "d"])
PARAMS = st.dictionaries(KEYS, st.lists(st.integers(0, 9), max_size=3), max_size=3)
ENTRIES = st.lists(st.dictionaries(KEYS, st.integers(0, 9), max_size=2), max_size=3)
KINDS = st.sampled_from(["product", "list"])
NODES: st.SearchStrategy[Any] = st.recursive(
    st.fixed_dictionaries({"params": PARAMS})
    | st.fixed_dictionaries({"configs": ENTRIES}),
    lambda of: st.fixed_dictionaries(
        {"type": KINDS, "groups": st.lists(of, max_size=3)}
    ),
    max_leaves=5,
)


def expand_naively(node: Sweep) -> list[dict[str, object]]:
    """What a node means, as plainly as can be."""
    if "configs" in node:
        return [dict(entry) for entry in node["configs"]]
    parts: Sequence[list[dict[str, object]]]
    if "params" in node:
        parts = [[{key: one} for one in of] for key, of in node["params"].items()]
    else:
        parts = [expand_naively(inner) for inner in node["groups"]]
    if node.get("type") == "list" and parts:
        return [row for part in parts for row in part]
    rows: list[dict[str, object]] = [{}]
    for part in parts:
        rows = [{**row, **other} for row in rows for other in part]
    return rows


@given(NODES)
def test_expansion_means_what_is_written(node: Sweep) -> None:
    points = expand_sweep(node)
    assert [point.parameters for point in points] == expand_naively(node)
    places = {repr(point.coordinates) for point in points}
    assert len(places) == len(points)  # no two points lie in the same place
    defaults = {"a": 1, "z": 0}
    every: Any = parameters({**node, "defaults": defaults})
    kept = parameters({**node, "defaults": defaults, "filter": "a >= 5"})
    assert kept == [row for row in every if row["a"] >= 5]


def holes(sweep: Any, dropped: Any = None) -> tuple[tuple[Hole, ...], int]:
    return list_holes(expand(sweep), dropped or {})


def test_a_hole_keeps_its_values_its_stage_and_its_filter() -> None:
    text = 'not (optim.lr > 0.2 and stage == "b")'
    params = {"optim.lr": [0.1, 0.5], "stage": ["a", "b"]}
    where = "sweep.filter"
    hole = Hole(parameters={"optim.lr": 0.5}, stage="b", filter=text, where=where)
    assert holes({"params": params, "filter": text}) == ((hole,), 0)
    config = {"lr": 1, "start_conditions": [], "_meta": {"note": "x"}}
    found, _ = holes({"configs": [config], "filter": "lr > 1"})
    assert dict(found[0].parameters) == {"lr": 1}
    mark = SweepFilter("${x} > 1", "sweep.filter")
    found, _ = holes({"params": {"lr": [1, 2]}}, {1: mark})
    assert [(one.parameters, one.filter) for one in found] == [({"lr": 2}, "${x} > 1")]
    for count in (MOST_HOLES + 5, 10_050):  # no more than fit a plan
        found, more = holes({"params": {"a": list(range(count))}, "filter": "a < 0"})
        assert (len(found), more) == (MOST_HOLES, count - MOST_HOLES)


@pytest.mark.parametrize(("value", "text"), [
    (1e-4, "1e-4"), (2.5e-4, "2.5e-4"), (0.01, "0.01"), (50.0, "50"), (64, "64"),
    ("adam", "adam"), (True, "True"), (None, "None"), ([1e-4, "a"], "[1e-4, a]"),
    ({"a": 0.5}, "{a: 0.5}"),
])  # fmt: skip
def test_values_are_spelled_short(value: object, text: str) -> None:
    assert format_in_name(value) == text


@pytest.mark.parametrize(("name", "fault"), [
    ("", "is empty"), ("a/.autoexp", "where we keep our own files"),
    ("provenance/a", "where we keep our own files"), (" ", "is empty"),
    ("a\0b", "control character"), ("a\nb", "control character"),
    ("a{b", "holds braces"), ("a}b", "holds braces"), ("/a", "a path from the root"),
    ("~a", "a path from the root"), ("..", "holds `..`"), ("a/../b", "holds `..`"),
    ("a//b", "an empty part"), ("a/", "an empty part"), ("./a", "an empty part"),
    ("ü" * 128, "longer than 255 bytes"),
])  # fmt: skip
def test_a_name_may_not_lead_elsewhere(name: str, fault: str) -> None:
    assert fault in find_fault_of_name(name)
    for fine in ("lr1e-4_stable", "a/b", "ünï", "a b", "..a", "[x]"):
        assert find_fault_of_name(fine) == ""


LONG = "9" * 4000


@pytest.mark.parametrize("sweep", [
    {"groups": [], "type": LONG}, {"params": {"a": [1]}, "filter": f"a{LONG} == 1"},
    {"params": {"a": [1]}, "filter": f"'{LONG}'"},
])  # fmt: skip
def test_a_long_text_is_cut_where_it_is_refused(sweep: Sweep) -> None:
    assert len(refusal(sweep)) < 500
