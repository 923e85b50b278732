"""What becomes of results and candidates, over a real repository."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from autoexp_tui.cli.tree_score import compare_files
from autoexp_tui.evaluation.requests import Request
from autoexp_tui.evaluation.sweep import build_environment
from autoexp_tui.tree.effects import WriteViews
from autoexp_tui.tree.ports import GitWork
from autoexp_tui.tree.views import list_comparison, list_search
from autoexp_tui.worktrees.tree_repository import Git, list_refs
from tests.evaluation.one_evaluation import (
    GAIN,
    OneEvaluation,
    list_codes,
    write_solver,
)
from tests.tree.fake_trees import FakeTrees
from tests.tree.test_decide import decide_all, find, propose, search


@pytest.mark.parametrize("policy", ["copy_to_run_root", "external_paths"])
def test_results_are_copied_or_stay_and_are_known_by_their_checksum(
    tmp_path: Path, policy: str
) -> None:
    one = OneEvaluation(
        tmp_path, write_solver(GAIN), options={"artifact_policy": policy}
    )
    judged = one.evaluate(one.begin())
    kept = judged.artifact
    assert kept is not None
    source = one.home / "output" / "meta_config_sweep_results.csv"
    assert kept.source == str(source)
    assert kept.sha256 == sha256(source.read_bytes()).hexdigest()
    is_copied = policy == "copy_to_run_root"
    assert kept.path == ("artifacts/e1.csv" if is_copied else str(source))
    assert (one.directory / kept.path).read_bytes() == source.read_bytes()
    assert list_codes(judged) == ["gate_passed"]


@pytest.mark.parametrize("keeps", [False, True])
def test_a_rejected_candidate_loses_its_worktree_and_ref_unless_they_are_kept(
    tmp_path: Path, keeps: bool
) -> None:
    one = OneEvaluation(
        tmp_path, write_solver(GAIN), options={"keep_rejected_worktrees": keeps}
    )
    one.evaluate(one.begin())
    assert one.trees.work(GitWork(rejected=("e1",))) == []
    assert (one.directory / "cand" / "1").exists() is keeps
    refs = list_refs(Git(one.trees.repository))
    assert ("refs/tree/r/e1" in refs) is keeps
    assert (one.home / "candidate.patch").read_text()


def test_a_comparison_by_hand_gives_the_stored_numbers(tmp_path: Path) -> None:
    one = OneEvaluation(
        tmp_path, write_solver(f"{GAIN}; text = text[:-9] + '7,ok,9.5'")
    )
    judged = one.evaluate(one.begin())
    files = [one.directory / "artifacts" / f"{name}.csv" for name in ("n0", "e1")]
    told, stored = compare_files(files[0], files[1], one.made), judged.parent
    assert list_comparison(stored) == {
        key: told[key] for key in list_comparison(stored) or {}
    }
    assert judged.counts is not None
    assert (told["ok_count"], told["expected_count"]) == (2, 3)
    assert judged.counts.ok_count == 2


def test_a_sweep_is_told_its_places_and_its_limit() -> None:
    request = Request(
        directory="/s", git_dir="/g", top="/t", worktree_root="/s", run="r",
        root_commit="c", node="n0", commit="c", evaluation="e7",
        tree={"sweep_config_limit": 8},
    )  # fmt: skip
    assert build_environment(request) == {
        "AGENTIC_OUTPUT_DIR": "/s/eval/e7/output",
        "AGENTIC_RESULTS_CSV": "/s/eval/e7/output/meta_config_sweep_results.csv",
        "AGENTIC_SWEEP_CONFIG_LIMIT": "8",
    }


def test_the_manifest_says_who_searched_and_with_which_agents(tmp_path: Path) -> None:
    bench = search(FakeTrees(propose), implement={"agent": ["a"]})
    decide_all(bench)
    one = OneEvaluation(tmp_path, agent="secret words")
    one.directory.mkdir(parents=True)
    engine = {"as_of_seq": 7, "host": "h", "take_overs": 2}
    one.trees.write_views(find(bench), engine)
    manifest = json.loads((one.directory / "manifest.json").read_text())
    assert manifest["run"]["engine"] == engine
    assert manifest["run"]["agents"]["a"]["backend"] == "command"
    assert manifest["search"] == json.loads(
        json.dumps(list_search(find(bench), find(bench).options))
    )
    (effect,) = bench.ordered(WriteViews)[-1:]
    assert effect.stamp == find(bench).shown
