"""What becomes of results and candidates, over a real repository."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from autoexp_tui.tree.ports import GitWork
from autoexp_tui.worktrees.refs import list_refs
from tests.evaluation.one_evaluation import (
    GAIN,
    OneEvaluation,
    list_codes,
    write_solver,
)


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
    where = str(one.directory)
    work = GitWork(directory=where, options=one.made, run="r", rejected=("e1",))
    assert one.trees.work(work) == []
    assert (one.directory / "cand" / "1").exists() is keeps
    refs = list_refs(one.trees._open_repository("r", one.made))
    assert ("refs/tree/r/e1" in refs) is keeps
    assert (one.home / "candidate.patch").read_text()
