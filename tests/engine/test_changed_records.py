"""Records that somebody changed, and causes that come late, are warned of once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from autoexp_tui.engine.executor_port import PollAnswer, Task, TaskReport
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.model.wording import sentence
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript

CHANGED = "begin.0.json was removed, changed or forged while it ran"


def bench_of(monkeypatch: pytest.MonkeyPatch, *, late: bool) -> Bench:
    """Job a ends at once; what is told of its end comes with it, or late."""
    scripts = {"a": [[RunScript(seconds=1)]], "b": [[RunScript(seconds=30)]]}
    made = Bench(plan(job("a"), job("b")), scripts)
    ask, ends = made.executor.poll, list[TaskReport]()

    def told(tasks: Sequence[Task]) -> PollAnswer:
        answer = ask(tasks)
        of_a = [one for one in answer.reports if one.job == "a" and one.exited]
        ends.extend(of_a)
        if late:
            again = [replace(one, late_cause=Cause.OUT_OF_MEMORY) for one in ends[:1]]
            return replace(answer, late=() if of_a else tuple(again))
        reports = [
            replace(one, tampering=CHANGED) if one in of_a else one
            for one in answer.reports
        ]
        return replace(answer, reports=tuple(reports))

    monkeypatch.setattr(made.executor, "poll", told)
    return made


def warnings_of(bench: Bench) -> list[str]:
    warned = bench.engine.state.warnings.values()
    return [sentence(one.why, 0.0) for one in warned if one.job == "a"]


def test_changed_records_of_a_completed_job_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = bench_of(monkeypatch, late=False)
    bench.until(bench.is_("a", JobState.COMPLETED), 60)
    [warning] = warnings_of(bench)
    assert warning == f"{CHANGED}. The job itself, or another program, did that."


def test_a_late_cause_is_a_warning_and_no_longer_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = bench_of(monkeypatch, late=True)
    bench.until(lambda: bool(warnings_of(bench)), 60)
    bench.run(5)
    [warning] = warnings_of(bench)
    assert warning.startswith("it ended with exit 0 and counts as completed")
    assert "out of memory" in warning
    assert bench.engine.state.jobs["a"].state is JobState.COMPLETED
