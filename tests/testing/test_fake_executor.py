"""The fake cluster: scripts, faults, and what it never does however faulty it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.engine.executor_port import Submission, Task, TaskPhase, TaskReport
from autoexp_tui.testing.clock import ManualClock
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import (
    Fault,
    PlannedFaults,
    RunScript,
    SeededFaults,
    Write,
)

QUEUED, RUNNING, ENDED = TaskPhase.QUEUED, TaskPhase.RUNNING, TaskPhase.ENDED


class World:
    """A fake executor with tasks that run so, its clock and its planned faults."""

    def __init__(self, *runs: RunScript, tasks: int = 1, lag: float = 0.0) -> None:
        self.clock = ManualClock(monotonic=10.0)
        self.faults = PlannedFaults()
        self.tasks = [task(f"j{n}") for n in range(tasks)]
        self.executor = FakeExecutor(
            self.clock,
            lambda _: runs or (RunScript(),),
            faults=self.faults,
            lag_seconds=lag,
        )
        self.executor.submit(one(*self.tasks))

    def after(self, seconds: float) -> TaskReport:
        self.clock.advance(seconds)
        return self.executor.poll(self.tasks).reports[0]


def task(job: str) -> Task:
    places = {f"{name}_dir": f"/{name}/{job}" for name in ("output", "log", "attempt")}
    return Task(job=job, attempt=1, command=("true",), **places)  # type: ignore[arg-type]


def one(*tasks: Task, token: str = "tok") -> Submission:
    return Submission(token=token, session="s", tasks=tasks)


def test_what_a_run_writes_appears_when_it_says() -> None:
    lines = Write(at=1, data=b"one\n"), Write(at=2, data=b"two\n")
    done = Write(at=2, data=b"x", path="/done")
    world = World(RunScript(seconds=5, writes=(*lines, done)))
    began = world.after(1).began
    assert began is not None
    assert world.executor.files == {began.log_path: b"one\n"}
    world.after(1)
    assert world.executor.files == {began.log_path: b"one\ntwo\n", "/done": b"x"}


def test_a_late_exit_record_is_a_gone_task_first() -> None:
    world = World(RunScript(seconds=1, record_lag=3))
    report = world.after(1)
    assert (report.phase, report.exited) == (ENDED, None)
    assert world.after(2).gone_for == 2
    assert world.after(1).exited is not None


def test_a_requeued_run_waits_again_and_runs_again() -> None:
    again = RunScript(begin_delay=3, seconds=1)
    world = World(RunScript(seconds=2, ends="requeue"), again)
    report = world.after(2)
    assert (report.phase, report.requeued, report.exited) == (QUEUED, True, None)
    report = world.after(3)
    assert (report.phase, report.began and report.began.run) == (RUNNING, 1)
    exited = world.after(1).exited
    assert exited is not None
    assert exited.run == 1
    assert world.executor.problems() == ()


def test_polls_may_fail_be_empty_or_lack_some() -> None:
    world = World(tasks=3)
    world.faults.add(Fault.POLL_FAILED, Fault.POLL_EMPTY, Fault.POLL_PARTIAL)
    answers = [world.executor.poll(world.tasks) for _ in range(4)]
    assert answers[0].error != ""
    assert [len(answer.reports) for answer in answers] == [0, 0, 2, 3]


def test_a_stale_answer_is_the_one_before_and_a_lagging_one_the_world_as_it_was() -> (
    None
):
    world = World()
    assert world.after(0).phase is RUNNING
    world.faults.add(Fault.POLL_STALE)
    assert [world.after(5).phase, world.after(0).phase] == [RUNNING, ENDED]
    late = World(lag=3)
    assert [late.after(t).phase for t in (0, 3, 1)] == [ENDED, RUNNING, ENDED]


def story(seed: int) -> FakeExecutor:
    """An impatient client of a faulty cluster."""
    clock = ManualClock()
    faults = SeededFaults(seed, dict.fromkeys(Fault, 0.2))
    runs = (RunScript(begin_delay=1, seconds=3, ends="requeue"), RunScript(seconds=2))
    executor = FakeExecutor(clock, lambda _: runs, slots=2, faults=faults)
    tasks: Sequence[Task] = [task(f"j{n}") for n in range(3)]
    for step in range(40):
        sent = one(tasks[step % 3], token=f"t{step % 5}")
        executor.submit(sent)
        executor.poll(tasks)
        if step == 30:
            executor.cancel(tasks[:1])
        executor.adopt([sent])
        clock.advance(0.7)
    faults.enough = True
    clock.advance(1000)
    return executor


@given(seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_no_attempt_is_begun_by_two_whatever_goes_wrong(seed: int) -> None:
    executor = story(seed)
    assert executor.problems() == ()
    assert executor.living() == ()
    assert all(copy.over_at is not None for copy in executor.copies)


def test_an_attempt_begun_by_two_would_be_noticed() -> None:
    executor = story(1)
    executor.begun.append(replace(executor.begun[0], executor_id="another"))
    assert len(executor.problems()) == 2
