"""What logs say of metrics, and what is kept of it."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import pytest

from autoexp_tui.engine.observations import LogRead
from autoexp_tui.engine.ports import LOG_CHUNK, LogChunk
from autoexp_tui.engine.telemetry import Telemetry, count_points
from autoexp_tui.events import events
from autoexp_tui.model.facts import MetricFact, MetricKey
from autoexp_tui.model.rules import (
    Anomalies,
    LogEvent,
    MetricPattern,
    Monitoring,
    Progress,
    ResultSpec,
)
from autoexp_tui.text.patterns import MAX_LINE
from tests.engine.bench import decide
from tests.model.builders import job, plan, run, started

Emitted = TypeVar("Emitted")
EPOCHS = Monitoring(progress=Progress(metric="epoch"))


@dataclass
class Reader:
    """One running job `a`, its log read by a telemetry."""

    monitoring: Monitoring = field(default_factory=Monitoring)

    def __post_init__(self) -> None:
        self.state = started(plan(job("a"), monitoring=self.monitoring))
        run(self.state, "a")
        self.telemetry = Telemetry(self.state)
        self.go_on(300.0)

    def go_on(self, t: float) -> None:
        """A commit at `t`."""
        self.context = decide(self.state, t, self.telemetry)

    def read(
        self, text: str, *, reset: bool = False, midline: bool = False, left: int = 0
    ) -> None:
        data = text.encode()
        cursor = self.telemetry.make_cursor(self.context.job("a"), final=False)
        offset = 0 if reset else cursor.offset
        chunk = LogChunk(
            job="a",
            attempt=1,
            run=0,
            offset=offset,
            data=data,
            size=len(data) if reset or not left else offset + len(data) + left,
            reset=reset,
            midline=midline,
        )
        read = LogRead(job="a", attempt=1, run=0, chunk=chunk)
        self.telemetry.read(self.context, read)

    def fact(self, name: str) -> object:
        fact = self.context.get(MetricKey("a", name))
        return None if fact is None else fact.value

    def emitted(self, kind: type[Emitted]) -> list[Emitted]:
        found = (record.event for record in self.context.draft.records)
        return [event for event in found if isinstance(event, kind)]


def test_a_metric_is_known_before_the_counter_that_the_config_names() -> None:
    reader = Reader(EPOCHS)
    reader.read("step: 40 loss: 2.0\n")
    assert reader.fact("loss") == MetricFact(2.0, 40)
    reader.telemetry.finish_run(reader.context, "a")
    (noted,) = reader.emitted(events.MetricsNoted)
    assert (noted.step, noted.values) == (40, {"loss": 2.0})


@pytest.mark.parametrize(
    ("reads", "last"),
    [
        (
            ["step: 40 loss: 2.0\n", "eval_loss: 1.5\n"],
            [(40, {"loss": 2.0, "eval_loss": 1.5})],
        ),
        ([f"iteration {step}/10\n" for step in range(1, 4)], [(3, {})]),
        (["hello\n"], []),
    ],
    ids=["a last value at a step that was noted", "steps alone", "no progress"],
)
def test_the_last_word_of_a_run_is_noted(
    reads: list[str], last: list[tuple[int, dict[str, float]]]
) -> None:
    reader = Reader()
    for text in reads:
        reader.read(text)
    reader.telemetry.finish_run(reader.context, "a")
    noted = reader.emitted(events.MetricsNoted)[-1:]
    assert [(one.step, one.values) for one in noted] == last


def test_what_was_noted_is_not_noted_again() -> None:
    reader = Reader()
    reader.read("step: 40 loss: 2.0\n")
    reader.telemetry.finish_run(reader.context, "a")
    assert len(reader.emitted(events.MetricsNoted)) == 1


def test_a_backlog_is_noted_once_it_is_read() -> None:
    reader = Reader()
    for step, left in ((1, 2 * LOG_CHUNK), (2, 2 * LOG_CHUNK), (3, 0)):
        reader.go_on(864_000.0)
        reader.read(f"step: {step} loss: 2.0\n", left=left)
    (noted,) = reader.emitted(events.MetricsNoted)
    assert noted.step == 3


def test_a_long_run_notes_its_metrics_less_often() -> None:
    reader, notes = Reader(), []
    for minute in range(10, 610):
        reader.go_on(60.0 * minute)
        reader.read(f"step: {minute} loss: 2.0\n")
        notes += [minute] * len(reader.emitted(events.MetricsNoted))
    assert notes[:50] == list(range(10, 60))
    assert 200 < len(notes) < 300
    assert max(b - a for a, b in pairwise(notes)) <= 7


def test_a_log_that_begins_anew_takes_its_worries_back() -> None:
    quick = Anomalies(min_points=2, flat_share=0.05)
    reader = Reader(Monitoring(anomalies=quick))
    flat = "".join(f"step: {at}/100 loss: 2.0\n" for at in range(1, 9))
    reader.read(flat)
    assert len(reader.context.state.warnings) == 1
    reader.read("step: 1 loss: 2.0\n", reset=True)
    assert reader.context.state.warnings == {}


def test_the_far_end_of_a_line_too_long_for_one_read_is_no_line() -> None:
    rule = LogEvent(name="fatal", pattern="FATAL")
    reader = Reader(Monitoring(log_events=(rule,)))
    reader.read("x" * 100)
    reader.read("2 loss: 9 FATAL\nstep: 40 loss: 2.0\n", midline=True)
    assert reader.fact("loss") == MetricFact(2.0, 40)
    assert reader.emitted(events.LogMatched) == []
    reader.read("step: 41 loss: 3.0 FATAL\n")
    (matched,) = reader.emitted(events.LogMatched)
    assert matched.offset == 100 + len("2 loss: 9 FATAL\nstep: 40 loss: 2.0\n")


def test_large_sessions_keep_shorter_curves() -> None:
    assert (count_points(10), count_points(2_000), count_points(10_000)) == (
        512,
        200,
        40,
    )


def test_what_is_kept_of_a_job_is_bounded() -> None:
    """At ten thousand jobs of five metrics: a quarter of a gigabyte in all."""
    lines = "".join(
        f"step {n}/9999 | loss: {3 - n / 1e4:.4f} | lr: 1e-3 | grad norm: {n % 13 / 10}"
        f" | tokens/s: {4000 + n % 100} | val loss: 2.5\n"
        for n in range(1, 1500)
    )
    readers = [Reader() for _ in range(4)]
    for reader in readers:  # made once for all jobs alike: not theirs to count
        reader.telemetry.make_cursor(reader.context.job("a"), final=False)
    tracemalloc.start()
    for reader in readers:
        track = reader.telemetry.find_run(reader.context.job("a"))
        track.curve_points = count_points(10_000)
        reader.read(lines)
    views = [reader.telemetry.build_live("a") for reader in readers]
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert all(view is not None and len(view.metrics) == 5 for view in views)
    assert used / len(readers) < 60_000


# ------------------------------------------------------------------- stored patterns
STORED = Monitoring(
    log_events=(
        LogEvent(name="old", pattern="a(?=b)", pattern_type="regex"),
        LogEvent(name="still", pattern=r"(a)\1", pattern_type="inactivity"),
        LogEvent(name="good", pattern="ab", pattern_type="regex"),
    ),
    metrics=(
        MetricPattern(name="odd", pattern=r"odd (\d+)\Z"),
        MetricPattern(name="even", pattern=r"even (\d+)"),
    ),
)


def test_stored_patterns_that_re2_lacks_are_off_and_the_others_go_on() -> None:
    reader = Reader(STORED)
    reader.read("ab\nodd 1\neven 2\n")
    matched = reader.emitted(events.LogMatched)
    assert [event.rule for event in matched] == ["good"]
    assert reader.fact("odd") is None
    even = reader.fact("even")
    assert isinstance(even, MetricFact)
    assert even.value == 2.0


def test_each_rule_that_is_off_is_warned_of_once_for_good() -> None:
    reader = Reader(STORED)
    for _ in range(2):
        reader.read("ab\n")
        reader.telemetry.watch_stalls(reader.context)
    raised = [
        event.why.arg("problem") for event in reader.emitted(events.WarningRaised)
    ]
    assert [str(problem).split(":")[0] for problem in raised] == [
        "rule old",
        "rule still",
        "metric odd",
    ]
    assert "put what counts into a group" in str(raised[0])


def test_a_log_is_read_in_smaller_pieces_where_its_patterns_are_large() -> None:
    def limit(pattern: str) -> int:
        rule = LogEvent(name="r", pattern=pattern, pattern_type="regex")
        reader = Reader(Monitoring(log_events=(rule,)))
        return reader.telemetry.make_cursor(reader.context.job("a"), final=False).limit

    assert limit("error") == LOG_CHUNK
    assert MAX_LINE <= limit("[a-z]{0,900}#") < LOG_CHUNK // 2


# ------------------------------------------------------------------------- results
EVALUATION = (
    "held-out loss: 1.576000 | bits per byte: 2.2737\n"
    "baseline loss: 1.621000 | bits per byte: 2.3386\n"
)


def result_of(text: str, *, metric: str = "", mode: str = "last") -> float | None:
    spec = ResultSpec(
        metric=metric,
        mode="min" if mode == "min" else "max" if mode == "max" else "last",
    )
    reader = Reader(Monitoring(result=spec))
    reader.read(text)
    reader.telemetry.finish_run(reader.context, "a")
    (noted,) = reader.emitted(events.MetricsNoted)
    live = reader.telemetry.build_live("a").result
    assert noted.result == live
    return live


def test_a_stage_names_its_result() -> None:
    assert result_of(EVALUATION, metric="Held-out loss") == 1.576


@pytest.mark.parametrize(
    ("mode", "result"), [("min", 1.0), ("max", 3.0), ("last", 2.0)]
)
def test_a_result_is_the_lowest_the_highest_or_the_last(
    mode: str, result: float
) -> None:
    text = "step: 1 acc_loss: 3\nstep: 2 acc_loss: 1\nstep: 3 acc_loss: 2\n"
    assert result_of(text, metric="acc_loss", mode=mode) == result


def test_without_a_name_the_result_is_the_newest_loss() -> None:
    assert result_of("step: 1 loss: 3\nstep: 2 loss: 2 | aux loss: 9\n") == 2.0


def test_where_the_stage_s_own_metric_is_not_told_the_result_is_the_loss() -> None:
    reader = Reader(Monitoring(loss="perplexity"))
    reader.read("step: 1 loss: 3\n")
    assert reader.telemetry.build_live("a").result == 3.0


def test_a_result_that_is_named_and_not_told_is_none() -> None:
    assert result_of("step: 1 loss: 3\n", metric="accuracy") is None


def test_a_flat_loss_is_no_warning_unless_it_is_asked_for() -> None:
    reader = Reader()
    reader.read("".join(f"step: {at}/1000 loss: 2.0\n" for at in range(1, 999)))
    assert reader.context.state.warnings == {}


def test_the_first_step_of_an_attempt_is_known() -> None:
    reader = Reader()
    reader.read("step: 8001/10000 loss: 2.0\nstep: 8500/10000 loss: 1.9\n")
    live = reader.telemetry.build_live("a")
    assert (live.first_step, live.step) == (8001, 8500)
