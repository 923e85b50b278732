"""What logs and files say of metrics and of pace, by whose rules, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from autoexp_tui.actions.kinds import Restart
from autoexp_tui.engine.observations import LogRead
from autoexp_tui.engine.ports import LOG, LOG_CHUNK, SEARCH, FoundFile, LogChunk
from autoexp_tui.engine.telemetry import MOST_METRICS, Telemetry, count_points
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import rules_of
from autoexp_tui.model.facts import MetricFact, MetricKey
from autoexp_tui.model.rules import (
    Anomalies,
    MetricFile,
    MetricPattern,
    Monitoring,
    Progress,
    ResultSpec,
)
from autoexp_tui.model.snapshot import Live
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.scheduling.circuit_breaker import end_attempt
from autoexp_tui.text.patterns import MAX_LINE
from tests.engine.bench import decide
from tests.engine.parts import finds, on_end
from tests.model.builders import ended, job, plan, run, started

Emitted = TypeVar("Emitted")
ROWS = "/out/a/m.jsonl"
NONE = Monitoring()


class Reader:
    """Running jobs, `a` if none is given; their logs are read by one telemetry."""

    def __init__(self, rules: Monitoring = NONE, *jobs: JobSpec, **plans: Any) -> None:
        self.state = started(plan(*(jobs or [job("a")]), monitoring=rules, **plans))
        for name in self.state.jobs:
            run(self.state, name)
        self.telemetry = Telemetry(self.state)
        self.t = 300.0
        self.go_on(0.0)

    def go_on(self, seconds: float) -> None:
        """A commit so much later."""
        self.t += seconds
        self.context = decide(self.state, self.t, self.telemetry)

    def read(
        self,
        text: str,
        name: str = "a",
        *,
        of: str = LOG,
        left: int = 0,
        reset: bool = False,
        midline: bool = False,
    ) -> None:
        """A look finds this text, and `left` bytes behind it."""
        at = self.telemetry.make_cursor(self.context.job(name), of, final=False)
        offset, data = 0 if reset else at.offset, text.encode()
        size = offset + len(data) + left
        chunk = LogChunk(
            offset=offset, data=data, size=size, reset=reset, midline=midline
        )
        self.telemetry.read(self.context, LogRead(at=at, chunk=chunk if data else None))

    def find(self, *files: FoundFile) -> None:
        """A search finds files of metrics."""
        at = self.telemetry.make_cursor(self.context.job("a"), SEARCH, final=False)
        self.telemetry.read(self.context, LogRead(at=at, chunk=None, found=files))

    def live(self, name: str = "a") -> Live:
        return self.telemetry.build_live(name)

    def fact(self, name: str) -> object:
        fact = self.context.get(MetricKey("a", name))
        return fact and fact.value

    def emitted(self, kind: type[Emitted]) -> list[Emitted]:
        found = (record.event for record in self.context.draft.records)
        return [event for event in found if isinstance(event, kind)]

    def matched(self) -> list[str]:
        return [one.rule for one in self.emitted(events.LogMatched)]


def test_a_backlog_is_noted_once_it_is_read_and_its_first_step_is_known() -> None:
    reader = Reader()
    reader.go_on(864_000.0)
    for step, left in ((1, 2 * LOG_CHUNK), (2, 2 * LOG_CHUNK), (3, 0)):
        reader.read(f"step: {step} loss: 2.0\n", left=left)
    assert [one.step for one in reader.emitted(events.MetricsNoted)] == [1, 3]
    assert (reader.live().first_step, reader.live().step) == (1, 3)


def test_a_long_run_notes_its_metrics_less_often() -> None:
    reader, notes = Reader(), []
    for minute in range(10, 610):
        reader.go_on(60.0)
        reader.read(f"step: {minute} loss: 2.0\n")
        notes += [minute] * len(reader.emitted(events.MetricsNoted))
    assert notes[:50] == list(range(10, 60))
    assert 200 < len(notes) < 300
    assert max(b - a for a, b in pairwise(notes)) <= 7


@pytest.mark.parametrize(("metrics", "notes"), [(1, 4), (8, 4), (16, 2), (32, 1)])
def test_of_more_metrics_a_run_notes_less_often(metrics: int, notes: int) -> None:
    reader, found = Reader(), 0
    for step in range(1, 5):
        told = " ".join(f"| m{at}: {step}.5 " for at in range(metrics - 1))
        reader.read(f"step {step} loss: 2.5 {told}\n")
        found += len(reader.emitted(events.MetricsNoted))
        reader.go_on(15.0)
    assert found == notes


def test_the_far_end_of_a_line_too_long_for_one_read_is_no_line() -> None:
    reader = Reader(Monitoring(log_events=(finds("fatal", "FATAL"),)))
    reader.read("x" * 100)
    reader.read("2 loss: 9 FATAL\nstep: 40 loss: 2.0\n", midline=True)
    assert reader.fact("loss") == MetricFact(2.0, 40)
    assert reader.matched() == []
    reader.read("step: 41 loss: 3.0 FATAL\n")
    (matched,) = reader.emitted(events.LogMatched)
    assert matched.offset == 100 + len("2 loss: 9 FATAL\nstep: 40 loss: 2.0\n")


def test_what_is_kept_of_a_job_is_bounded() -> None:
    """At ten thousand jobs of five metrics: a quarter of a gigabyte in all."""
    assert [count_points(jobs) for jobs in (10, 2_000, 10_000)] == [512, 200, 40]


@pytest.mark.parametrize(("line", "url"), [
    ("wandb: 🚀 View run at \x1b[34mhttps://wandb.ai/me/p/runs/i31zyslt\x1b[0m",
     "https://wandb.ai/me/p/runs/i31zyslt"),
    ("wandb: 🚀 View run happy-disco-4 at: https://wandb.ai/me/p/runs/m9", None),
    ("wandb: Syncing run saturday: https://app.wandb.ai/me/T+x/runs/j",
     "https://app.wandb.ai/me/T+x/runs/j"),
    ("🏃 View run loud at: http://host:5000/#/experiments/0/runs/ab1",
     "http://host:5000/#/experiments/0/runs/ab1"),
    ("TensorBoard 2.17.1 at http://localhost:6006/ (Press CTRL+C to quit)",
     "http://localhost:6006/"),
    ("wandb: ⭐️ View project at https://wandb.ai/me/p", ""),
    ("View run at ftp://x/y, see TensorBoard at http://x", ""),
])  # fmt: skip
def test_the_page_of_a_run_is_found_in_its_log(line: str, url: str | None) -> None:
    reader = Reader()
    reader.read(f"text\n{line}\nView run at https://second.one/\n")
    wanted = url or line.rpartition(" ")[2] if url != "" else "https://second.one/"
    assert reader.context.job("a").metadata == {"run_url": wanted}


def test_metrics_over_the_bound_are_left_out_and_told_of_but_never_the_loss() -> None:
    reader = Reader()
    reader.read("step 1 " + " ".join(f"m{n}=1 acc=2" for n in range(70)) + "\n")
    reader.read("step 2 loss: 3 m69=1\n")
    assert len(reader.live().metrics) == MOST_METRICS + 1
    assert reader.fact("loss") == MetricFact(3.0, 2)
    (warned,) = reader.emitted(events.WarningRaised)
    assert (warned.why.code, dict(warned.why.args)["most"]) == ("metrics_left_out", 64)


STORED = Monitoring(
    log_events=(
        finds("old", "a(?=b)"),
        replace(finds("still", r"(a)\1"), pattern_type="inactivity"),
        finds("good", "ab"),
    ),
    metrics=(
        MetricPattern(name="odd", pattern=r"odd (\d+)\Z"),
        MetricPattern(name="even", pattern=r"even (\d+)"),
    ),
)


def test_stored_patterns_that_re2_lacks_are_off_and_told_of_once_for_good() -> None:
    reader = Reader(STORED)
    for _ in range(2):
        reader.read("ab\nodd 1\neven 2\n")
        reader.telemetry.watch_stalls(reader.context)
    assert reader.matched() == ["good", "good"]
    assert reader.fact("odd") is None
    assert reader.live().metrics == {"even": 2.0}
    raised = reader.emitted(events.WarningRaised)
    problems = [str(event.why.arg("problem")) for event in raised]
    refused = [one.split(":")[0] for one in problems]
    assert refused == ["rule old", "rule still", "metric odd"]
    assert "put what counts into a group" in problems[0]


def test_a_log_is_read_in_smaller_pieces_where_its_patterns_are_large() -> None:
    def limit(pattern: str) -> int:
        reader = Reader(Monitoring(log_events=(finds("r", pattern),)))
        return reader.telemetry.make_cursor(reader.context.job("a"), final=False).limit

    assert limit("error") == LOG_CHUNK
    assert MAX_LINE <= limit("[a-z]{0,900}#") < LOG_CHUNK // 2


HELD_OUT = "held-out loss: 1.57 | bits per byte: 2.2\nbaseline loss: 1.62 | bits: 2.3\n"
ACC = "step: 1 acc_loss: 3\nstep: 2 acc_loss: 1\nstep: 3 acc_loss: 2\n"


@pytest.mark.parametrize(
    ("spec", "text", "result"),
    [
        (ResultSpec(metric="Held-out loss"), HELD_OUT, 1.57),
        (ResultSpec(metric="acc_loss", mode="min"), ACC, 1.0),
        (ResultSpec(metric="acc_loss", mode="max"), ACC, 3.0),
        (ResultSpec(metric="acc_loss", mode="last"), ACC, 2.0),
        (ResultSpec(), "step: 1 loss: 3\nstep: 2 loss: 2 | aux loss: 9\n", 2.0),
        (ResultSpec(metric="accuracy"), "step: 1 loss: 3\n", None),
    ],
)
def test_a_result_is_the_named_metric_or_the_newest_loss(
    spec: ResultSpec, text: str, result: float | None
) -> None:
    # Where the stage's own metric is not told the loss counts.
    for rules in (NONE, Monitoring(loss="perplexity")):
        reader = Reader(replace(rules, result=spec))
        reader.read(text)
        reader.telemetry.finish_run(reader.context, "a")
        noted = reader.emitted(events.MetricsNoted)[-1]
        assert noted.result == reader.live().result == result


def test_the_end_of_a_run_notes_the_lowest_and_highest_values_with_their_steps() -> (
    None
):
    reader = Reader()
    reader.read("step: 1 loss: 3\nstep: 2 loss: 1\nstep: 3 loss: nan\n")
    reader.read("step: 2 loss: 1.5\nstep: 4 loss: 1\n")  # it went back a step
    assert reader.live().lows == {"loss": (1.0, 2)}
    reader.telemetry.finish_run(reader.context, "a")
    *before, noted = reader.emitted(events.MetricsNoted)
    assert (noted.lows, noted.highs) == ({"loss": (1.0, 2)}, {"loss": (3.0, 1)})
    assert all(one.lows == {} for one in before)  # a run that goes on is read anew


Look = tuple[float, tuple[int, ...], int]
FOLLOWED: Look = (0.0, (), 0)


LAY_THERE: Look = (0.0, (100, 46_000), 0)
PACES: dict[str, tuple[list[Look], float | None]] = {
    "a log that lay there whole": ([LAY_THERE, (1, (46_010,), 0)], None),
    "what comes after it":
        ([LAY_THERE, *((5, (n,), 0) for n in range(46_010, 46_060, 10))], 2.0),
    "a backlog of several reads": (
        [(0, (100, 20_000), 2 * LOG_CHUNK), (1, (20_010, 40_000), LOG_CHUNK),
         (1, (46_000,), 0), (1, (46_010,), 0)], None),
    "an engine that fell behind, from end to end": (
        [FOLLOWED, (1, (10,), 0), (1_000, (2_000,), 2 * LOG_CHUNK),
         (1, (8_000,), LOG_CHUNK), (1, (10_030,), 0)], 10.0),
    "followed from its beginning": ([FOLLOWED, (5, (10,), 0), (5, (20,), 0)], 2.0),
    "half a line at the end is no backlog":
        ([FOLLOWED, (5, (10,), 7), (5, (20,), 7)], 2.0),
}  # fmt: skip


@pytest.mark.parametrize("case", PACES)
@pytest.mark.parametrize("of", [LOG, ROWS])
def test_the_pace_is_that_of_what_was_read_as_it_was_written(
    of: str, case: str
) -> None:
    looks, rate = PACES[case]
    reader = Reader(Monitoring(metrics_files=(MetricFile(path=ROWS, format="jsonl"),)))
    reader.find(FoundFile(ROWS))
    row = "step {} loss 2.0\n" if of == LOG else '{{"step": {}, "loss": 2.0}}\n'
    for seconds, steps, left in looks:
        reader.go_on(seconds)
        reader.read("".join(map(row.format, steps)), of=of, left=left)
    assert reader.live().rate == (rate if rate is None else pytest.approx(rate))


OLD = '{"step": 9, "loss": 9.0}\n'


@pytest.mark.parametrize(("before", "left"), [(len(OLD), 0), (0, 2 * LOG_CHUNK)])
def test_a_value_of_a_run_before_or_of_a_backlog_is_none_of_the_newest(
    before: int, left: int
) -> None:
    reader = Reader(Monitoring(metrics_files=(MetricFile(path=ROWS, format="jsonl"),)))
    reader.find(FoundFile(ROWS, before=before))
    for text, rest, value in ((OLD, left, None), (OLD, 0, MetricFact(9.0, 9))):
        reader.read(text, of=ROWS, left=rest)
        live = reader.context.find_run("a")
        assert live is not None
        assert live.find_value("loss") == value
        assert bool(reader.context.read_points("a", "loss")) == (value is not None)


OWN = Monitoring(
    log_events=(finds("own", "shared"),),
    state_events=(on_end("crash", Restart()),),
    anomalies=Anomalies(nan="warn"),
    progress=Progress(metric="epoch"),
)
COMMON = Monitoring(log_events=(finds("common", "shared"),))


def both() -> Reader:
    """The second of two jobs has rules of its own."""
    return Reader(COMMON, job("a"), job("b", 1, rules="r"), rule_sets={"r": OWN})


def test_jobs_with_different_rules_are_read_by_one_reader_of_logs() -> None:
    reader = both()
    for name in "abab":
        reader.read("shared\n", name)
    assert reader.matched() == ["common", "own", "common", "own"]
    reader.read("step: 900 loss: 1.0\n", "b")
    live = reader.live("b")  # progress counts in epochs
    assert (live.step, live.metrics["loss"]) == (None, 1.0)


def test_a_nan_and_an_end_are_answered_by_the_rules_of_the_job() -> None:
    reader = both()
    for name, spared in (("a", False), ("b", True)):
        reader.read("step 1 loss: nan\n", name)
        attempt = reader.context.job(name).attempts[0]
        assert (attempt.cancel_cause is None) is spared
    reader = both()
    for name, state in (("a", "FAILED"), ("b", "RETRYING")):
        end_attempt(reader.context, ended(name))
        assert reader.context.job(name).state == state


def test_rules_are_those_of_the_plan_that_a_job_came_with() -> None:
    state = both().state
    assert rules_of(state, job("a", own_rules=OWN)) is OWN  # planned anew
    state.base = plan(job("c", 2))
    assert rules_of(state, state.jobs["b"].spec) is OWN
    assert rules_of(state, state.jobs["a"].spec) == NONE
