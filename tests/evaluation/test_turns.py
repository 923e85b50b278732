"""How many calls of agents a search begins in a minute."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from autoexp_tui.evaluation.implement import wait_for_turn


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time (s), which sleeping moves."""
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    return now


def test_a_call_waits_until_fewer_than_the_limit_began_in_the_last_minute(
    tmp_path: Path, clock: list[float]
) -> None:
    began = []
    for _ in range(5):
        wait_for_turn(tmp_path / "calls/turns.json", 2, 1e9)
        began.append(clock[0])
        clock[0] += 1
    assert began == [1000, 1001, 1060, 1061, 1120]


def test_a_file_cut_off_by_a_kill_or_a_limit_of_time_holds_nobody_up(
    tmp_path: Path, clock: list[float]
) -> None:
    path = tmp_path / "turns.json"
    path.write_text("[99")
    wait_for_turn(path, 1, 1e9)
    wait_for_turn(path, 1, clock[0] + 3)
    assert clock[0] == 1003
    assert len(json.loads(path.read_text())) == 1
