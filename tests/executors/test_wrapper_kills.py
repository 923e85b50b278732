"""SIGKILL to the wrapper's processes at every step: nothing is lost or run twice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.executors.wrapper_runs import PATIENCE, Attempt, can_lock, until

SCRIPT = "echo ran >> ran; sleep 0.02; echo done >> ran; exit 0"
AT_A_TIME = 6


class Killed(Attempt):
    """An attempt of which one process was killed at one place."""

    def __init__(self, root: Path, role: str, place: int) -> None:
        root.mkdir()
        super().__init__(root)
        self.role = role
        self.process = self.start_to_die(self.task(SCRIPT), role, place)

    def is_quiet(self) -> bool:
        """Whether every process is gone: guard and supervisor hold the claim's lock."""
        claim = self.dir / "claim"
        return not self.living() and (not claim.exists() or can_lock(claim))

    def check_records(self) -> None:
        for path in self.dir.glob("*.json"):
            json.loads(path.read_text())
        assert self.has("exit.0.json") == self.has("begin.0.json")
        assert self.has("begin.0.json") or not self.out("ran")
        if self.has("exit.0.json") and self.ended["exit_code"] is None:
            assert self.ended["signal"] == signal.SIGKILL
        elif self.has("exit.0.json"):
            assert (self.ended["exit_code"], self.out("ran")) == (0, "ran\ndone\n")

    def check_second_start(self) -> None:
        """A further start does the work exactly if nobody had the right to it."""
        before, claimed = self.out("ran"), self.has("claim")
        assert self.run(SCRIPT, nonce="n2") == 0
        assert self.has("duplicate.n2.json") == claimed
        assert self.out("ran") == (before if claimed else "ran\ndone\n")

    def was_killed(self) -> bool:
        if self.role == "supervisor":
            return self.process.returncode == -signal.SIGKILL
        ended = self.dir / "exit.0.json"
        return not ended.exists() or "guard died" in ended.read_text()


def kill_and_check(root: Path, role: str, places: range) -> list[bool]:
    batch = [Killed(root / f"{place}", role, place) for place in places]
    try:
        for killed in batch:
            killed.process.communicate(timeout=PATIENCE)
            assert until(killed.is_quiet), "something of it lives on"
            killed.check_records()
            killed.check_second_start()
    finally:
        for killed in batch:
            killed.close()
    return [killed.was_killed() for killed in batch]


@pytest.mark.parametrize(
    ("role", "places", "least"), [("supervisor", 70, 30), ("guard", 30, 10)]
)
def test_a_process_of_the_wrapper_may_be_killed_before_any_of_its_calls(
    role: str, places: int, least: int, tmp_path: Path
) -> None:
    reached: list[bool] = []
    for first in range(1, places, AT_A_TIME):
        found = kill_and_check(tmp_path, role, range(first, first + AT_A_TIME))
        reached += found
        if not any(found):
            break
    assert sum(reached) >= least
    assert not reached[-1], "there are more places to die than the test tries"


FAMILY = "sleep 60 & setsid sleep 60 & (setsid sleep 60 &) ; sleep 60"


@pytest.mark.parametrize("role", ["process", "guard_pid", "command_pid"])
def test_killing_any_one_process_ends_all_of_them_and_leaves_a_record(
    role: str, attempt: Attempt
) -> None:
    attempt.begin(FAMILY)
    assert until(lambda: len(attempt.living()) == 5)
    victim = attempt.record("begin.0.json")[role]
    os.kill(victim["pid"] if role == "process" else victim, signal.SIGKILL)
    attempt.wait_for("exit.0.json")
    ended = attempt.ended
    assert (ended["exit_code"], ended["signal"]) == (None, signal.SIGKILL)
    assert attempt.living() == []


def test_when_supervisor_and_guard_are_killed_the_command_dies(
    attempt: Attempt,
) -> None:
    attempt.begin("exec sleep 60")
    assert until(attempt.living)
    begun = attempt.record("begin.0.json")
    pids = (begun["guard_pid"], begun["process"]["pid"])
    for number in (signal.SIGSTOP, signal.SIGKILL):  # neither sees the other die
        for pid in pids:
            os.kill(pid, number)
    assert until(lambda: not attempt.living())
    assert not attempt.has("exit.0.json")
