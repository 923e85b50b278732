"""A dry run of a search, over real processes and git."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cli.diagnostics import wait_until
from autoexp_tui.evaluation.disk_trees import BUSY
from autoexp_tui.evaluation.read_back import read_search, validate_directory

ENTRY = "from autoexp_tui.cli.tree import entry; entry()"
DYING = f"""
import os
from autoexp_tui.worktrees import promotion
promotion.add_worktree = lambda *_: os.kill(os.getpid(), 9)
{ENTRY}
"""
"""Its engine dies when a promoted node has its ref, and no worktree yet."""


def start(
    state_dir: Path, *words: str, seed: int = 1, code: str = ENTRY
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        (sys.executable, "-c", code, "--quiet", *words, "--state-dir", str(state_dir)),
        env=os.environ | {"PYTHONHASHSEED": str(seed)},
        stdout=subprocess.DEVNULL,
        cwd=state_dir.parent,
    )


def find_search(state_dir: Path) -> Path:
    (found,) = state_dir.glob("[a-z]*[0-9]*/tree")
    return found


def read_decisions(directory: Path) -> tuple[bytes, str]:
    search = read_search(directory)
    return (directory / "TREE_SUMMARY.md").read_bytes(), json.dumps(search)


def list_codes(search: dict[str, Any]) -> dict[str, str]:
    """Why each evaluation is where it is, by its id."""
    found = search["evaluations"].items()
    return {name: one["decision"]["promotion_code"] for name, one in found}


@pytest.mark.slow
def test_a_dry_run_has_each_end_and_is_the_same_whatever_happens(
    tmp_path: Path,
) -> None:
    """With one worker; with four, killed amid a promotion, then amid a depth, and
    resumed."""
    alone = start(tmp_path / "a", "--dry-run", "--max-parallel-evals", "1")
    words = ("--dry-run", "--max-parallel-evals", "4")
    assert start(tmp_path / "b", *words, seed=2, code=DYING).wait() == -signal.SIGKILL
    wt = find_search(tmp_path / "b") / "wt"
    assert [one.name for one in wt.iterdir()] == ["0"]
    session = wt.parents[1].name
    killed = start(tmp_path / "b", "--session", session, seed=2)
    reached = "*/tree/eval/e9/implement.json"
    assert wait_until(lambda: [*(tmp_path / "b").glob(reached)], 200)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    resumed = start(tmp_path / "b", "--session", session, seed=3)
    assert (alone.wait(), resumed.wait()) == (0, 0)
    one, other = (find_search(tmp_path / name) for name in "ab")
    assert read_decisions(one) == read_decisions(other)
    search = read_search(one)
    codes = list_codes(search)
    wanted = {
        "e2": "promoted",
        "e4": "beyond_beam",  # a tie, which the id decides
        "e3": "primary_regressed",
        "e5": "incomplete_or_failed_rows",  # no number in any row: no score
        "e6": "candidate_rows_used_mismatch",
        "e9": "not_collected",
        "e10": "candidate_failed",
    }
    assert {name: codes[name] for name in wanted} == wanted
    assert [one["idea"] for one in search["dedupe"]["skipped"]] == ["n2/idea-02.md"]
    for directory in (one, other):
        assert validate_directory(directory) == []
        run = json.loads((directory / "manifest.json").read_text())["run"]
        assert run["deferred_cleanup"] == []
        assert all(Path(node["worktree"]).is_dir() for node in run["nodes"].values())
        journal = (directory.parent).glob("journal*.jsonl")
        assert any(BUSY in path.read_text() for path in journal if path.is_file())
