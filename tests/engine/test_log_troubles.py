"""Logs that cannot be read for a while, or at all."""

from __future__ import annotations

import pytest

from autoexp_tui.engine.ports import LogCursor
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.sim_world import Logs


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Jobs whose logs may not be read; change it at will."""
    names: set[str] = set()
    original = Logs.read

    def read(self: Logs, at: LogCursor) -> object:
        if at.job in names:
            raise PermissionError(13, "Permission denied", "/logs/x")
        return original(self, at)

    monkeypatch.setattr(Logs, "read", read)
    return names


def started(seconds: float = 1e6, exit_code: int = 0) -> Bench:
    writes = tuple(
        Write(at=float(n), data=b"step %d loss 2.5\n" % n) for n in range(1, 200)
    )
    script = RunScript(seconds=seconds, writes=writes, exit_code=exit_code)
    return Bench(plan(job("a")), {"a": [[script]]})


def warnings(one: Bench) -> list[str]:
    return one.warned()


def test_a_log_that_is_forbidden_for_a_while_is_read_on_without_a_word(
    forbidden: set[str],
) -> None:
    one = started()
    one.run(10)
    forbidden.add("a")
    one.run(30)
    assert warnings(one) == []
    forbidden.clear()
    one.run(20)
    live = one.live()
    assert (live.step or 0) >= 55
    assert len(live.curves["loss"].steps) == live.step


def test_one_that_is_forbidden_for_long_is_warned_of_until_it_can_be_read(
    forbidden: set[str],
) -> None:
    one = started()
    forbidden.add("a")
    one.run(100)
    assert warnings(one) == ["log_unreadable"]
    (warned,) = one.engine.state.warnings.values()
    log = one.job("a").attempts[-1].log_path
    assert warned.why.arg("error") == f"{log}: Permission denied"
    forbidden.clear()
    one.run(20)
    assert warnings(one) == []


def test_the_next_engine_takes_the_warning_back(forbidden: set[str]) -> None:
    one = started()
    forbidden.add("a")
    one.run(100)
    forbidden.clear()
    one.start()
    one.run(5)
    assert warnings(one) == []


def test_the_end_of_a_run_waits_for_its_log_and_then_goes_without(
    forbidden: set[str],
) -> None:
    one = started(seconds=20.0, exit_code=1)
    one.run(10)
    forbidden.add("a")
    one.run(25)
    assert one.job("a").state is JobState.RUNNING
    one.until(one.is_("a", JobState.FAILED), 60)
    assert "could not be read" in one.job("a").attempts[-1].evidence


def test_a_log_that_can_be_read_again_in_time_is_read_to_its_end(
    forbidden: set[str],
) -> None:
    one = started(seconds=20.0)
    one.run(10)
    forbidden.add("a")
    one.run(20)
    forbidden.clear()
    one.until(one.is_("a", JobState.COMPLETED), 60)
    noted = one.job("a").noted
    assert noted is not None
    assert noted.step >= 19


def test_waiting_for_a_log_costs_no_more_than_its_polls(forbidden: set[str]) -> None:
    one = started(seconds=20.0)
    forbidden.add("a")
    one.run(30)
    assert one.engine.next_wake() > 0
