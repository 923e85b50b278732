"""The commands over a search's directory, on a real repository: the branch of the best,
the comparison, the summary anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli import tree as tree_command
from autoexp_tui.cli import tree_finalize, tree_score
from autoexp_tui.cli.diagnostics import run_guarded
from autoexp_tui.evaluation.requests import Request, write_record
from autoexp_tui.tree.results_csv import parse_results
from autoexp_tui.tree.views import (
    find_best,
    list_search,
    render_summary,
    write_manifest,
)
from autoexp_tui.worktrees.checkouts import add_worktree
from autoexp_tui.worktrees.readiness import open_repository
from autoexp_tui.worktrees.tree_repository import Git, Place, TreeRepository
from tests.tree.fake_trees import FakeTrees
from tests.tree.test_decide import decide_all, find, propose, search
from tests.worktrees.conftest import (
    FILES,
    call_git,
    commit_files,
    describe_users_part,
    write_files,
)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    write_files(made, FILES)
    call_git(made, "init", "-q", "-b", "main")
    call_git(made, "add", "-A")
    call_git(made, "commit", "-q", "-m", "first")
    return made


@pytest.fixture
def found() -> dict[str, Any]:
    bench = search(FakeTrees(propose))
    decide_all(bench)
    return list_search(find(bench), find(bench).options)


def commit_nodes(tree: TreeRepository, found: dict[str, Any]) -> None:
    """Each node has a commit of its own on that of its parent."""
    for node in found["nodes"].values():
        if node["parent_node_id"] is None:
            node["commit"] = found["root"]["commit"] = Git(tree).resolve("HEAD")
            continue
        parent = found["nodes"][node["parent_node_id"]]["commit"]
        place = Place("cand", node["node_id"][1:])
        where = add_worktree(Git(tree), place, parent)
        write_files(where, {"solver.py": f"step = '{node['node_id']}'\n"})
        node["commit"] = commit_files(tree, parent, place).commit


@pytest.fixture
def directory(tmp_path: Path, top: Path, found: dict[str, Any]) -> Path:
    made = tmp_path / "session" / "tree"
    tree = open_repository(top, "r", made)
    commit_nodes(tree, found)
    request = Request(
        directory=str(made),
        git_dir=str(tree.git_dir),
        top=str(top),
        worktree_root=str(made),
        run="r",
        root_commit=found["root"]["commit"],
        node="n0",
        commit=found["root"]["commit"],
    )
    write_record(made / "calls" / "n0_ideas" / "ideas.json", request)
    (made / "manifest.json").write_text(write_manifest(found, {"directory": str(made)}))
    (made / "TREE_SUMMARY.md").write_text(render_summary(found))
    return made


def test_the_final_branch_tells_of_each_idea_and_ends_in_the_best_nodes_files(
    directory: Path, top: Path, found: dict[str, Any]
) -> None:
    before = describe_users_part(top)
    for _ in range(2):  # done again it is the same
        assert run_guarded(tree_finalize.main, [str(directory)]) == 0
    subjects = call_git(top, "log", "--reverse", "--format=%s", "main..tree-r")
    assert subjects.splitlines() == ["0.05 of n0", f"{0.1 * 3} of n2"]
    message = call_git(top, "show", "-s", "--format=%B", "tree-r")
    best = find_best(found)
    assert f"evaluation {found['nodes'][best]['eval_id']}, node {best}" in message
    assert "Against the root: score 0.35000, strong, worth exploring" in message
    assert "primary delta 0.35000" in message
    assert "Rows: 1 ok of 1" in message
    assert call_git(top, "diff", found["nodes"][best]["commit"], "tree-r") == ""
    call_git(top, "branch", "-D", "tree-r")
    assert describe_users_part(top) == before


def test_what_cannot_be_finalized_says_why(
    directory: Path, top: Path, found: dict[str, Any], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def refuse(*words: str) -> str:
        assert run_guarded(tree_finalize.main, words) in (2, 5)
        return capsys.readouterr().err

    call_git(top, "branch", "taken")
    assert "there is a branch taken already" in refuse(
        str(directory), "--branch", "taken"
    )
    state = str(tmp_path)
    assert "nothing" in refuse("nothing", "--state-dir", state)
    found["nodes"] = {"n0": found["nodes"]["n0"]}
    (directory / "manifest.json").write_text(write_manifest(found, {}))
    assert "no node is better" in refuse(str(directory))


def test_a_copy_of_the_directory_is_enough_for_the_same_summary(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "manifest.json").write_bytes((directory / "manifest.json").read_bytes())
    assert run_guarded(tree_command.main, ["--report-only", str(copy)]) == 0
    made = (copy / "TREE_SUMMARY.md").read_bytes()
    assert made == (directory / "TREE_SUMMARY.md").read_bytes()
    assert run_guarded(tree_command.main, ["--validate-only", str(copy)]) == 1
    told = capsys.readouterr().err
    assert "nodes.n1.baseline_results_csv: artifacts/e1.csv is missing" in told
    assert "artifacts/e1.csv" in (copy / "VALIDATION_REPORT.md").read_text()


@pytest.mark.parametrize(("text", "problem"), [
    ('{"manifest_version": 2, "search": {}}', "its version is 2, not 1"),
    ('{"manifest_version": 1}', "no manifest of a search"),
    ("half", "no manifest of a search"),
    (None, "No such file"),
])  # fmt: skip
def test_a_manifest_that_cannot_be_read_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, problem: str
) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    for flag in ("--report-only", "--validate-only"):
        assert run_guarded(tree_command.main, [flag, str(tmp_path)]) in (2, 5)
        assert problem in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} <= {"manifest.json"}


def test_two_results_are_compared_by_the_defaults_or_by_those_of_a_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {
        "": "mean_topN_avg_return_per_trade_pct_oos",
        "experiments/tree": "ratio,evenness",
    }
    for config, metrics in names.items():
        files = []
        for name, value in (("a", 0.5), ("b", 0.55)):
            row = ",".join([str(value)] * len(metrics.split(",")))
            path = tmp_path / f"{name}.csv"
            path.write_text(f"config_id,status,{metrics}\n0,ok,{row}\n")
            parse_results(path.read_bytes(), metrics.split(","), name)
            files.append(str(path))
        words = [*files, "--json", *(["--config-ref", config] if config else [])]
        assert run_guarded(tree_score.main, words) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["recommendation_summary"] == {
            "should_explore": True,
            "grade": "strong",
            "score": pytest.approx(0.1),
            "reasons": ["primary_metric_improved", "score_reached"]
            + ["more_gains_than_losses"] * bool(config),
        }
        assert told["primary_delta"] == pytest.approx(0.05)
        assert (told["ok_count"], told["candidate_rows_used"]) == (1, 1)
