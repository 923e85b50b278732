"""What the validator names of a search that is not as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pytest

from autoexp_tui.tree.validate import check_manifest
from autoexp_tui.tree.views import list_search, render_summary
from tests.tree.fake_trees import FakeTrees
from tests.tree.test_decide import decide_all, find, propose, search


@dataclass
class Disk:
    """Everything is there but what a test takes away."""

    hashes: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    refs: dict[str, str] = field(default_factory=dict)

    def hash_file(self, path: str) -> str | None:
        return None if path in self.gone else self.hashes[path]

    def exists(self, path: str) -> bool:
        return path not in self.gone

    def find_commit(self, ref: str) -> str | None:
        return self.refs.get(ref)


@pytest.fixture(scope="module")
def ended() -> dict[str, Any]:
    bench = search(FakeTrees(propose))
    decide_all(bench)
    tree = find(bench)
    return list_search(tree, tree.options)


@pytest.fixture
def whole(ended: dict[str, Any]) -> dict[str, Any]:
    return deepcopy(ended)


def lay_out(found: dict[str, Any]) -> Disk:
    """What lies there when the search has just ended."""
    nodes, evaluations = found["nodes"].values(), found["evaluations"].values()
    files = [
        *(one["baseline_results_csv"] for one in nodes),
        *(one["candidate_results_csv"] for one in evaluations),
    ]
    hashes = {one["path"]: one["sha256"] for one in files if one}
    hashes["TREE_SUMMARY.md"] = sha256(render_summary(found).encode()).hexdigest()
    return Disk(hashes, refs={one["ref_name"]: one["commit"] for one in nodes})


def check(found: dict[str, Any], disk: Disk) -> Sequence[str]:
    """Findings, but for the summary, which differs by whatever a test changed."""
    told = [f"{one.where}: {one.problem}" for one in check_manifest(found, disk)]
    return [line for line in told if "not what the manifest" not in line]


Change = Callable[[dict[str, Any], Disk], object]


def change_baseline(found: dict[str, Any], disk: Disk) -> None:
    disk.hashes["/elsewhere.csv"] = "x"
    found["nodes"]["n1"]["baseline_results_csv"] = {
        "path": "/elsewhere.csv",
        "sha256": "x",
    }


def decide_otherwise(found: dict[str, Any], _disk: Disk) -> None:
    """The score of one that was not promoted becomes the best."""
    one = next(
        one
        for one in found["evaluations"].values()
        if one["depth"] == 1 and one["decision"]["passed_gate"]
        and not one["decision"]["promoted"]
    )  # fmt: skip
    one["root_relative"]["recommendation_summary"]["score"] = 1.9


CHANGES: dict[str, tuple[Change, str]] = {
    "a changed artifact": (
        lambda _, disk: disk.hashes.update({"artifacts/e1.csv": "other"}),
        "candidate_results_csv: artifacts/e1.csv was changed: its sha256 is other",
    ),
    "a missing artifact": (
        lambda _, disk: disk.gone.add("artifacts/e1.csv"),
        "artifacts/e1.csv is missing",
    ),
    "a missing ref": (
        lambda _, disk: disk.refs.pop("tree/r/n1"),
        "nodes.n1.ref_name: there is no ref tree/r/n1",
    ),
    "a ref elsewhere": (
        lambda _, disk: disk.refs.update({"tree/r/n1": "other"}),
        "nodes.n1.ref_name: tree/r/n1 is at other",
    ),
    "a baseline outside artifacts": (
        change_baseline,
        "nodes.n1.baseline_results_csv: /elsewhere.csv does not lie in artifacts/",
    ),
    "a node that was not expanded": (
        lambda found, _: found["state"]["expanded_node_ids_by_depth"]["1"].remove("n2"),
        "state.expanded.1: n2 was promoted, and is not expanded",
    ),
    "a node that was expanded twice": (
        lambda found, _: found["state"]["expanded_node_ids_by_depth"]["1"].append("n0"),
        "state.expanded.1: n0 is expanded again",
    ),
    "an idea that was passed over": (
        lambda found, _: found["evaluations"].pop("e3"),
        "state.expanded.0: node_ideas/n0/2.md was not evaluated",
    ),
    "a missing idea": (
        lambda _, disk: disk.gone.add("node_ideas/n0/0.md"),
        "nodes.n0.ideas: node_ideas/n0/0.md is missing",
    ),
    "a missing context": (
        lambda _, disk: disk.gone.add("calls/n1_ideas/prompt_context.txt"),
        "nodes.n1.ideas: calls/n1_ideas/prompt_context.txt is missing",
    ),
    "a missing result": (
        lambda _, disk: disk.gone.add("eval/e2/eval_result.json"),
        "evaluations.e2: eval/e2/eval_result.json is missing",
    ),
    "a missing summary": (
        lambda _, disk: disk.gone.add("TREE_SUMMARY.md"),
        "TREE_SUMMARY.md: is missing",
    ),
    "a frontier that contradicts the ranking": (
        lambda found, _: found["state"]["frontier_node_ids"].reverse(),
        "state.frontier_node_ids: ['n4', 'n3'], the ranking says ['n3', 'n4']",
    ),
    "a ranking that contradicts the scores": (
        decide_otherwise,
        "ranked again: rank 1, promoted: True",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_validator_names_what_is_wrong(whole: dict[str, Any], name: str) -> None:
    change, told = CHANGES[name]
    disk = lay_out(whole)
    change(whole, disk)
    assert any(told in line for line in check(whole, disk)), check(whole, disk)


def test_a_search_as_it_ended_has_no_findings(whole: dict[str, Any]) -> None:
    assert check_manifest(whole, lay_out(whole)) == []


def test_a_summary_of_another_manifest_is_named(whole: dict[str, Any]) -> None:
    disk = lay_out(whole)
    disk.hashes["TREE_SUMMARY.md"] = "other"
    (found,) = check_manifest(whole, disk)
    assert found == ("TREE_SUMMARY.md", "is not what the manifest says")
