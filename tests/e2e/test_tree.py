"""The example's search, for real: the same whatever the workers and whatever dies."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.campaign import run_command

SMALL = ("--max-depth", "2", "--ideas-per-node", "4", "--run", "r", "--quiet")
KILLS = 5


def find_tree(place: Path) -> Path:
    (found,) = (place / "outputs/.autoexp").glob("*/tree")
    return found


def read_decisions(place: Path) -> tuple[str, Mapping[str, Any]]:
    tree = find_tree(place)
    search = json.loads((tree / "manifest.json").read_text())["search"]
    return (tree / "TREE_SUMMARY.md").read_text(), search


def search(place: Path, *words: str, seed: str = "1") -> Mapping[str, Any]:
    place.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", seed)
        done = run_command(place, "tree", *SMALL, *words, "--json")
    assert done.returncode == 0, done.stderr
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_a_search_is_the_same_for_one_worker_and_for_four_and_when_its_engine_dies(
    tmp_path: Path,
) -> None:
    told = search(tmp_path / "one", "--max-parallel-evals", "1")
    assert told["best"]["primary"] > told["root"] + 0.1
    assert told["stopped"] == "max_depth_reached"
    whole = read_decisions(tmp_path / "one")
    search(tmp_path / "four", "--max-parallel-evals", "4", seed="2")
    assert read_decisions(tmp_path / "four") == whole
    kill_a_search(tmp_path / "killed")
    assert read_decisions(tmp_path / "killed") == whole
    codes = {
        one["decision"]["gate_reason"] or one["error_code"]
        for one in whole[1]["evaluations"].values()
    }
    assert {"gate_passed", "primary_regressed", "candidate_failed"} <= codes


def kill_a_search(place: Path) -> None:
    """Let engines die at random moments, then go on to the end: each evaluation was
    implemented and measured once."""
    place.mkdir()
    rng, words = random.Random(3), [*SMALL, "--max-parallel-evals", "4", "--yes"]
    for _ in range(KILLS):
        run = subprocess.Popen(
            [sys.executable, "-m", "autoexp_tui.cli.tree", *words],
            cwd=place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while not (found := [*(place / "outputs/.autoexp").glob("*/tree/calls")]):
            time.sleep(0.05)
        time.sleep(rng.uniform(0.5, 4.0))
        with suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGKILL)
        run.wait()
        words = ["--session", found[0].parents[1].name, "--quiet"]
    done = run_command(place, "tree", *words, "--json")
    assert done.returncode == 0, done.stderr
    shown = run_command(place, "sessions", "show", words[1], "--json")
    assert shown.returncode == 0, (words, shown.stderr)
    jobs = json.loads(shown.stdout)["jobs"]
    assert [job["name"] for job in jobs if job["attempts"] > 1] == []
