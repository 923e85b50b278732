"""The example's search, for real: the same whatever the workers and whatever dies."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.e2e.tree_kills import Search, begin, call_through, kill_through

SMALL = ("--max-depth", "2", "--ideas-per-node", "4", "--run", "r")
KILLS = 5


def make_search(place: Path, workers: int) -> Search:
    return begin(place, *SMALL, "--max-parallel-evals", str(workers))


@pytest.mark.slow
def test_a_search_is_the_same_for_one_worker_and_for_four_and_when_its_engine_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    alone = make_search(tmp_path / "one", 1)
    told = alone.finish()
    assert told["best"]["primary"] > told["root"] + 0.1
    assert told["stopped"] == "max_depth_reached"
    whole = alone.read_decisions()
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    four = make_search(tmp_path / "four", 4)
    four.finish()
    assert four.read_decisions() == whole
    killed = make_search(tmp_path / "killed", 4)
    kill_through(killed, random.Random(3), KILLS)
    assert killed.list_repeats() == []
    assert killed.read_decisions() == whole
    codes = {
        one["decision"]["gate_reason"] or one["error_code"]
        for one in whole[1]["evaluations"].values()
    }
    assert {"gate_passed", "primary_regressed", "candidate_failed"} <= codes


@pytest.mark.slow
def test_a_call_under_way_when_the_engine_dies_is_adopted_and_not_repeated(
    tmp_path: Path,
) -> None:
    assert call_through(tmp_path, 6.0) == ["implement"]
