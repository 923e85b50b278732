"""How fast a run goes: told by what was read as it was written, never by a backlog."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from autoexp_tui.engine.observations import LogRead
from autoexp_tui.engine.ports import LOG, LOG_CHUNK, FoundFile, LogChunk
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.model.decision_context import (
    DecisionContext,
)
from autoexp_tui.model.rules import MetricFile, Monitoring
from tests.engine.bench import decide
from tests.model.builders import job, plan, run, started

ROWS = "/out/a/m.jsonl"
RULES = Monitoring(metrics_files=(MetricFile(path=ROWS, format="jsonl"),))


@dataclass
class Reader:
    """Looks at the log and the file of one running job, at moments that are given."""

    t: float = 300.0
    ends: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = started(plan(job("a"), monitoring=RULES))
        run(self.state, "a")
        self.telemetry = Telemetry(self.state)

    @property
    def context(self) -> DecisionContext:
        return decide(self.state, self.t, self.telemetry)

    @property
    def rate(self) -> float | None:
        return self.telemetry.build_live("a").rate

    def look(self, seconds: float, *steps: int, left: int = 0, of: str = LOG) -> None:
        """After some seconds these steps are read, and so many bytes are left."""
        self.t += seconds
        row = "step {} loss 2.0\n" if of == LOG else '{{"step": {}, "loss": 2.0}}\n'
        data = "".join(row.format(step) for step in steps).encode()
        chunk = self._chunk(data, left, of) if steps else None
        read = LogRead(job="a", attempt=1, run=0, chunk=chunk, source=of)
        self.telemetry.read(self.context, read)

    def _chunk(self, data: bytes, left: int, of: str) -> LogChunk:
        at = self.ends.get(of, 0)
        end = self.ends[of] = at + len(data)
        return LogChunk(
            job="a", attempt=1, run=0, offset=at, data=data, size=end + left
        )

    def find_file(self) -> None:
        """The file of metrics is there."""
        found = (FoundFile(path=ROWS),)
        read = LogRead(job="a", attempt=1, run=0, chunk=None, source="?", found=found)
        self.telemetry.read(self.context, read)


def test_a_log_that_lay_there_whole_is_no_speed() -> None:
    reader = Reader()
    reader.look(0, 100, 46_000)
    reader.look(1, 46_010)
    assert reader.rate is None


def test_after_a_backlog_the_speed_is_that_of_what_comes() -> None:
    reader = Reader()
    reader.look(0, 100, 46_000)
    for step in range(46_010, 46_060, 10):
        reader.look(5, step)
    assert reader.rate == pytest.approx(2.0)


def test_a_backlog_of_several_reads_is_no_speed() -> None:
    reader = Reader()
    reader.look(0, 100, 20_000, left=2 * LOG_CHUNK)
    reader.look(1, 20_010, 40_000, left=LOG_CHUNK)
    reader.look(1, 46_000)
    reader.look(1, 46_010)
    assert reader.rate is None


def test_an_engine_that_fell_behind_measures_from_end_to_end() -> None:
    reader = Reader()
    reader.look(0)
    reader.look(1, 10)
    reader.look(1_000, 2_000, left=2 * LOG_CHUNK)
    reader.look(1, 8_000, left=LOG_CHUNK)
    reader.look(1, 10_030)
    assert reader.rate == pytest.approx(10.0)


def test_a_log_that_is_followed_from_its_beginning_tells_at_its_second_step() -> None:
    reader = Reader()
    reader.look(0)
    reader.look(5, 10)
    reader.look(5, 20)
    assert reader.rate == pytest.approx(2.0)


def test_half_a_line_at_the_end_is_no_backlog() -> None:
    reader = Reader()
    reader.look(0)
    reader.look(5, 10, left=7)
    reader.look(5, 20, left=7)
    assert reader.rate == pytest.approx(2.0)


def test_a_file_of_metrics_that_lay_there_whole_is_no_speed() -> None:
    reader = Reader()
    reader.find_file()
    reader.look(0, 100, 46_000, of=ROWS)
    reader.look(1, 46_010, of=ROWS)
    assert reader.rate is None
