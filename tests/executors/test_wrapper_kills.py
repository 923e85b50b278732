"""SIGKILL to the wrapper's processes at every step: nothing is lost or run twice."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from pathlib import Path

import pytest

from tests.executors.wrapper_runs import PATIENCE, Attempt, until

SCRIPT = "echo ran >> ran; sleep 0.02; echo done >> ran; exit 0"
AT_A_TIME = 6


class Killed:
    """An attempt of which one process was killed at one place."""

    def __init__(self, root: Path, role: str, place: int) -> None:
        root.mkdir()
        self.attempt = Attempt(root)
        task = self.attempt.task(SCRIPT)
        self.process = self.attempt.start_to_die(task, role, place)

    def finish(self) -> None:
        self.process.communicate(timeout=PATIENCE)
        assert until(self._is_quiet), "something of it lives on"

    def _is_quiet(self) -> bool:
        """Whether every process is gone: guard and supervisor hold the claim's lock."""
        claim = self.attempt.dir / "claim"
        if self.attempt.living():
            return False
        if not claim.exists():
            return True
        with claim.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    @property
    def ran(self) -> list[str]:
        path = self.attempt.root / "out" / "ran"
        return path.read_text().split() if path.exists() else []

    def check_records(self) -> None:
        for path in self.attempt.dir.glob("*.json"):
            json.loads(path.read_text())
        assert self.attempt.has("exit.0.json") == self.attempt.has("begin.0.json")
        if self.ran:
            assert self.attempt.has("begin.0.json")
        if self.attempt.has("exit.0.json"):
            self.check_end()

    def check_end(self) -> None:
        ended = self.attempt.record("exit.0.json")
        if ended["exit_code"] is None:
            assert ended["signal"] == signal.SIGKILL
        else:
            assert ended["exit_code"] == 0
            assert self.ran == ["ran", "done"]

    def check_second_start(self) -> None:
        """A further start does the work exactly if nobody had the right to it."""
        before = self.ran
        claimed = self.attempt.has("claim")
        assert self.attempt.run(SCRIPT, nonce="n2") == 0
        assert self.attempt.has("duplicate.n2.json") == claimed
        assert self.ran == (before if claimed else ["ran", "done"])


def swept(root: Path, role: str, places: int) -> list[bool]:
    """Kill at each place, check, and tell which were reached; ends when none were."""
    reached: list[bool] = []
    for first in range(1, places, AT_A_TIME):
        found = kill_and_check(root, role, range(first, first + AT_A_TIME))
        reached += found
        if not any(found):
            break
    return reached


def kill_and_check(root: Path, role: str, places: range) -> list[bool]:
    batch = [Killed(root / f"{place}", role, place) for place in places]
    try:
        for killed in batch:
            killed.finish()
            killed.check_records()
            killed.check_second_start()
    finally:
        for killed in batch:
            killed.attempt.close()
    return [was_killed(killed, role) for killed in batch]


def was_killed(killed: Killed, role: str) -> bool:
    if role == "supervisor":
        return killed.process.returncode == -signal.SIGKILL
    ended = killed.attempt.dir / "exit.0.json"
    return not ended.exists() or "guard died" in ended.read_text()


def test_the_supervisor_may_be_killed_before_any_of_its_calls(tmp_path: Path) -> None:
    reached = swept(tmp_path, "supervisor", 70)
    assert sum(reached) >= 30
    assert not reached[-1], "there are more places to die than the test tries"


def test_the_guard_may_be_killed_before_any_of_its_calls(tmp_path: Path) -> None:
    reached = swept(tmp_path, "guard", 30)
    assert sum(reached) >= 10
    assert not reached[-1], "there are more places to die than the test tries"


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt(tmp_path)


FAMILY = "sleep 60 & setsid sleep 60 & (setsid sleep 60 &) ; echo up > up; sleep 60"


def start_family(attempt: Attempt) -> None:
    attempt.start(attempt.task(FAMILY))
    attempt.wait_for("begin.0.json")
    assert until(lambda: (attempt.root / "out" / "up").exists())
    assert until(lambda: len(attempt.living()) == 5)


@pytest.mark.parametrize("role", ["process", "guard_pid", "command_pid"])
def test_killing_any_one_process_ends_all_of_them_and_leaves_a_record(
    role: str, attempt: Attempt
) -> None:
    start_family(attempt)
    begun = attempt.record("begin.0.json")
    victim = begun[role]
    pid = victim["pid"] if isinstance(victim, dict) else victim
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    attempt.wait_for("exit.0.json")
    ended = attempt.record("exit.0.json")
    assert (ended["exit_code"], ended["signal"]) == (None, signal.SIGKILL)
    assert attempt.living() == []
    attempt.close()


def test_even_when_supervisor_and_guard_are_killed_the_command_dies(
    attempt: Attempt,
) -> None:
    attempt.start(attempt.task("exec sleep 60"))
    attempt.wait_for("begin.0.json")
    assert until(attempt.living)
    begun = attempt.record("begin.0.json")
    process, guard = begun["process"], begun["guard_pid"]
    assert isinstance(process, dict)
    assert isinstance(guard, int)
    for pid in (process["pid"], guard):
        os.kill(pid, signal.SIGSTOP)  # neither sees the other die
    for pid in (guard, process["pid"]):
        os.kill(pid, signal.SIGKILL)
    assert until(lambda: not attempt.living())
    assert not attempt.has("exit.0.json")
    attempt.close()
