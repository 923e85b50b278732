"""What the executor says of a queued job reaches the screen, and leaves it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from autoexp_tui.engine.executor_port import PollAnswer, Task, TaskPhase
from autoexp_tui.model.snapshot import InQueue
from autoexp_tui.model.states import JobState
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

WAITING = InQueue("lower priority", 1e9, "gpu")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """One job; its queue says more than the fake's own."""
    made = Bench(plan(job("a")), {"a": [[RunScript(begin_delay=30, seconds=30)]]})
    ask = made.executor.poll

    def told(tasks: Sequence[Task]) -> PollAnswer:
        answer = ask(tasks)
        reports = tuple(
            replace(
                report,
                reason=WAITING.reason,
                expected_at=WAITING.expected_at,
                partition=WAITING.partition,
            )
            if report.phase is TaskPhase.QUEUED
            else report
            for report in answer.reports
        )
        return replace(answer, reports=reports)

    monkeypatch.setattr(made.executor, "poll", told)
    return made


def in_queue(bench: Bench) -> InQueue | None:
    live = bench.snapshots[-1].live[0]
    return live.queue if live else None


def test_reason_expected_start_and_partition_are_shown_while_it_waits(
    bench: Bench,
) -> None:
    bench.until(lambda: in_queue(bench) == WAITING, 20)
    bench.until(bench.is_("a", JobState.RUNNING), 60)
    bench.run(2)
    assert in_queue(bench) is None
