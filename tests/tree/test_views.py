"""What manifest.json and TREE_SUMMARY.md hold of a search."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.tree import views
from autoexp_tui.tree.views import list_run, list_search, render_summary, write_manifest
from tests.support.fake_script import RunScript
from tests.tree.fake_trees import FakeTrees
from tests.tree.test_decide import decide_all, fails, find, propose, search

Tree = dict[str, Any]


@pytest.fixture(scope="module")
def manifest() -> Tree:
    trees = FakeTrees(lambda node: [*propose(node)[:2], "0.1 fails", "-0.5 worse"])
    scripts = {"e3_sweep": fails(), "e1_sweep": [[RunScript(seconds=3)]]}
    bench = search(trees, scripts, ideas_per_node=4)
    bench.run(5)
    bench.die(1)
    decide_all(bench)
    tree = find(bench)
    return {"search": list_search(tree, tree.options), "run": list_run(trees.views[-1])}


@pytest.mark.parametrize(("place", "keys"), [
    ("config", "tree_run_id ideas_per_node max_depth beam_width sweep_config_limit "
     "max_total_idea_evals artifact_policy ideas_context_strategy ideas implement"),
    ("root", "commit baseline_csv"),
    ("nodes.n1", "node_id parent_node_id depth commit ref_name worktree_path "
     "baseline_results_csv idea_chain eval_id status context"),
    ("evaluations.e1", "eval_id parent_node_id depth idea_path experiment_dir status "
     "candidate_commit candidate_results_csv candidate_ref_name ok_count error "
     "error_count expected_count eval_output_root results_csv summary_json_path"),
    ("evaluations.e1.parent_relative", "recommendation_summary primary_delta "
     "baseline_rows_used candidate_rows_used"),
    ("evaluations.e1.root_relative.recommendation_summary",
     "should_explore grade score reasons"),
    ("evaluations.e1.decision", "gate_basis rank_basis passed_gate rank_score "
     "promotion_reason primary_regressed"),
    ("state", "current_depth frontier_node_ids expanded_node_ids_by_depth "
     "completed_depths next_node_id next_eval_id stop_reason"),
    ("dedupe", "policy skipped"),
])  # fmt: skip
def test_what_was_decided_is_there_by_its_name(
    manifest: Tree, place: str, keys: str
) -> None:
    found = manifest["search"]
    for name in place.split("."):
        found = found[name]
    assert {*keys.split()} <= found.keys()


def test_a_decision_can_be_followed_from_the_results_to_the_frontier(
    manifest: Tree,
) -> None:
    found = manifest["search"]
    one, node = found["evaluations"]["e1"], found["nodes"]["n1"]
    assert one["decision"]["rank_score"] == pytest.approx(0.1)
    assert one["root_relative"]["primary_delta"] == pytest.approx(0.1)
    assert node["baseline_results_csv"] == one["candidate_results_csv"]
    assert (node["idea_chain"], node["ref_name"]) == (["n0/0.md"], "tree/r/n1")
    assert node["worktree_path"] == "wt/1"
    failed = found["evaluations"]["e3"]
    assert (failed["status"], failed["error_code"]) == ("failed", "step_failed")
    worse = found["evaluations"]["e4"]["decision"]
    assert (worse["passed_gate"], worse["gate_reason"]) == (False, "primary_regressed")
    assert worse["primary_regressed"]
    state = found["state"]
    assert state["expanded_node_ids_by_depth"] == {"0": ["n0"], "1": ["n1", "n2"]}
    assert (state["next_node_id"], state["next_eval_id"]) == ("n5", "e9")


def test_how_it_came_about_is_apart_from_what_was_decided(manifest: Tree) -> None:
    run = manifest["run"]
    assert run["options"]["max_parallel_evals"] == 2
    assert run["nodes"]["n1"]["worktree"] == "/tree/wt/1"
    assert run["nodes"]["n1"]["created_at"] > run["evaluations"]["e1"]["opened_at"]
    assert run["sources"] == dict.fromkeys(run["sources"], "")
    assert "artifacts/e1.csv" in run["sources"]


def test_the_summary_has_a_row_an_evaluation_and_the_best_path(manifest: Tree) -> None:
    text = render_summary(manifest["search"])
    (row,) = [line for line in text.splitlines() if line.startswith("| 1 | e1 |")]
    assert row == (
        "| 1 | e1 | tree/r/n1 | n0 | commit e1 | 0.1 of n0 | 0.10000 | 0.10000 "
        "| strong | true | gate_passed | 1/1 | 1 | artifacts/root.csv "
        "| artifacts/e1.csv | eval/e1/experiment "
        "| promoted: rank 1, and the best 2 become nodes |"
    )
    path = text.partition("## Best path")[2].partition("## Depth")[0]
    rows = [line.split(" | ")[0] for line in path.splitlines() if line[:3] == "| n"]
    assert rows == ["| node", "| n0", "| n2", "| n3"]
    assert write_manifest({}, {}).startswith('{\n "manifest_version": 1')


def test_a_title_is_no_markup_of_the_summary() -> None:
    assert views._cell(r"<img src=x> a|b \ c") == r"\<img src=x> a\|b \\ c"
