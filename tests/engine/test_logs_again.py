"""Logs that are read again, or begin anew: nothing is told twice, nothing is missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.actions.notify import Log
from autoexp_tui.actions.restart import Restart
from autoexp_tui.engine.ports import LogChunk, LogCursor
from autoexp_tui.events import events
from autoexp_tui.model.rules import Anomalies, LogEvent, Monitoring, StateEvent
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.sim_world import Logs

QUICK = Anomalies(min_points=2, flat_share=0.05, divergence="off", nan="warn")


def says(at: float, *lines: str) -> Write:
    return Write(at=at, data="".join(f"{line}\n" for line in lines).encode())


def steps(first: int, count: int, loss: float, slope: float = 0.0) -> list[str]:
    return [f"step: {first + n} loss: {loss - slope * n:.4f}" for n in range(count)]


def running(*writes: Write, rules: Monitoring) -> Bench:
    script = RunScript(seconds=1e6, writes=writes)
    return Bench(
        plan(job("a", progress_total=100), monitoring=rules), {"a": [[script]]}
    )


def told(bench: Bench) -> list[str]:
    """Warnings raised and cleared, oldest first."""
    return [
        type(record.event).__name__
        for record in bench.world.session.records
        if isinstance(record.event, events.WarningRaised | events.WarningCleared)
    ]


def test_an_episode_that_passed_is_not_told_again_by_the_next_engine() -> None:
    flat, falls = steps(1, 10, 2.0), steps(11, 10, 1.9, 0.1)
    bench = running(
        says(1.0, *flat), says(5.0, *falls), rules=Monitoring(anomalies=QUICK)
    )
    bench.run(20)
    assert told(bench) == ["WarningRaised", "WarningCleared"]
    for _ in range(3):
        bench.start()
        bench.run(5)
    assert told(bench) == ["WarningRaised", "WarningCleared"]


def test_an_episode_that_lasts_is_cleared_by_the_next_engine() -> None:
    bench = running(
        says(1.0, *steps(1, 10, 2.0)),
        says(50.0, *steps(11, 10, 1.9, 0.1)),
        rules=Monitoring(anomalies=QUICK),
    )
    bench.run(20)
    bench.start()
    bench.run(10)
    assert told(bench) == ["WarningRaised"]
    bench.run(40)
    assert told(bench) == ["WarningRaised", "WarningCleared"]


def test_what_came_while_no_engine_lived_is_told() -> None:
    bench = running(
        says(1.0, *steps(1, 3, 2.0)),
        says(50.0, "step: 4 loss: nan"),
        rules=Monitoring(anomalies=QUICK),
    )
    bench.run(20)
    bench.clock.advance(60.0)
    bench.executor.settle()
    bench.start()
    bench.run(5)
    assert told(bench) == ["WarningRaised"]


def test_a_nan_kills_once_however_often_its_log_is_read() -> None:
    bench = running(says(1.0, "step: 4 loss: nan"), rules=Monitoring())
    bench.until(bench.is_("a", JobState.FAILED))
    bench.start()
    bench.run(20)
    assert len(told(bench)) == 1


# ------------------------------------------------------------------ logs begun anew
class Swap:
    """A log whose text is replaced, as a copied and truncated one's is."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reset = False
        original = Logs.read

        def read(logs: Logs, at: LogCursor) -> LogChunk | None:
            if self.reset:
                self.reset = False
                chunk = original(logs, replace(at, offset=0))
                assert chunk is not None
                return replace(chunk, reset=True)
            return original(logs, at)

        monkeypatch.setattr(Logs, "read", read)
        self.bench = bench

    def by(self, *lines: str) -> None:
        path = self.bench.job("a").attempts[-1].log_path
        self.bench.files.data[path] = says(0.0, *lines).data
        self.reset = True
        self.bench.files.watcher((path,))


NOTE = (Log(message="{line}"),)


def matched(bench: Bench) -> list[str]:
    return [event.line for event in bench.happened(events.LogMatched)]


def test_a_log_begun_anew_is_judged_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = running(
        says(1.0, *steps(1, 30, 2.0, 0.01)), rules=Monitoring(anomalies=QUICK)
    )
    bench.run(30)
    Swap(bench, monkeypatch).by("step: 31 loss: nan")
    bench.run(5)
    bench.start()
    bench.run(5)
    assert told(bench) == ["WarningRaised"]


# -------------------------------------------------------------- what is kept of them
EVERY = LogEvent(name="every", pattern="E", actions=NOTE)
ONCE = LogEvent(name="once", pattern="E", match_once=True, actions=NOTE)
BOTH = Monitoring(log_events=(EVERY, ONCE))


def again(bench: Bench) -> list[str]:
    """The lines that were matched, after two further engines read the log anew."""
    for _ in range(2):
        bench.start()
        bench.run(5)
    return matched(bench)


def test_a_log_with_many_matches_is_read_again_and_none_is_told_twice() -> None:
    lines = [f"E {n}" for n in range(200)]
    bench = running(says(1.0, *lines), rules=BOTH)
    bench.run(5)
    (kept,) = bench.engine.state.matches.values()
    assert set(kept.marks) == {"every", "once"}
    again(bench)
    matches = bench.happened(events.LogMatched)
    assert sum(match.count for match in matches) == 200 + 1


def test_lines_that_come_after_a_resume_are_matched() -> None:
    bench = running(says(1.0, "E one"), says(60.0, "E two"), rules=BOTH)
    bench.run(5)
    again(bench)
    bench.run(60)
    assert matched(bench) == ["E one", "E one", "E two"]


def test_a_rule_that_matches_once_stays_quiet_in_the_text_that_came_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = running(says(1.0, "E one"), rules=BOTH)
    bench.run(5)
    Swap(bench, monkeypatch).by("E two", "E three")
    bench.run(5)
    assert again(bench) == ["E one", "E one", "E two", "E three"]


def test_of_an_attempt_that_ended_no_match_is_kept() -> None:
    script = RunScript(seconds=3.0, writes=(says(1.0, "E one"),))
    bench = Bench(
        plan(job("a", progress_total=100), monitoring=BOTH), {"a": [[script]]}
    )
    bench.until(bench.is_("a", JobState.COMPLETED))
    assert bench.engine.state.matches == {}
    assert again(bench) == ["E one", "E one"]


def test_each_attempt_is_matched_for_itself_and_once() -> None:
    crash = RunScript(seconds=3.0, exit_code=1, writes=(says(1.0, "E one"),))
    rule = StateEvent(name="c", state="crash", actions=(Restart(),))
    rules = Monitoring(log_events=(EVERY,), state_events=(rule,))
    goes_on = replace(crash, seconds=1e6)
    bench = Bench(
        plan(job("a", progress_total=100), monitoring=rules),
        {"a": [[crash], [goes_on]]},
    )
    bench.until(lambda: len(matched(bench)) == 2)
    assert again(bench) == ["E one", "E one"]
