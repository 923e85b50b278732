"""The fake cluster: scripts, faults, and what it never does however faulty it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.engine.executor_port import (
    Submission,
    Task,
    TaskPhase,
    TaskReport,
)
from autoexp_tui.testing.clock import ManualClock
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import (
    FAULTS,
    Fault,
    PlannedFaults,
    RunScript,
    SeededFaults,
    Write,
    by_job,
)


class World:
    """A fake executor, its clock and its planned faults."""

    def __init__(
        self,
        scripts: dict[str, Sequence[Sequence[RunScript]]] | None = None,
        **more: object,
    ) -> None:
        self.clock = ManualClock()
        self.faults = PlannedFaults()
        self.executor = FakeExecutor(
            self.clock,
            by_job(scripts or {}),
            faults=self.faults,
            **more,  # type: ignore[arg-type]
        )

    def submit(self, *tasks: Task, token: str = "tok") -> object:
        return self.executor.submit(one(*tasks, token=token))

    def look(self, task: Task) -> TaskReport:
        return self.executor.poll([task]).reports[0]

    def after(self, seconds: float, task: Task) -> TaskReport:
        self.clock.advance(seconds)
        return self.look(task)


def task(job: str = "a", attempt: int = 1, **more: object) -> Task:
    made = Task(
        job=job,
        attempt=attempt,
        command=("true",),
        output_dir=f"/out/{job}",
        log_dir=f"/log/{job}",
        attempt_dir=f"/attempts/{job}/{attempt}",
    )
    return replace(made, **more)  # type: ignore[arg-type]


def one(*tasks: Task, token: str = "tok") -> Submission:
    return Submission(token=token, session="s", tasks=tasks)


def test_what_a_run_writes_appears_when_it_says() -> None:
    writes = (
        Write(at=1, data=b"one\n"),
        Write(at=2, data=b"two\n"),
        Write(at=2, data=b"x", path="/done"),
    )
    world = World({"a": [[RunScript(seconds=5, writes=writes)]]})
    world.submit(task())
    began = world.after(1, task()).began
    assert began is not None
    assert world.executor.files == {began.log_path: b"one\n"}
    world.after(1, task())
    assert world.executor.files == {began.log_path: b"one\ntwo\n", "/done": b"x"}


def test_a_late_exit_record_is_a_gone_task_first() -> None:
    world = World({"a": [[RunScript(seconds=1, record_lag=3)]]})
    world.submit(task())
    report = world.after(1, task())
    assert (report.phase, report.exited) == (TaskPhase.ENDED, None)
    assert world.after(2, task()).gone_for == 2
    assert world.after(1, task()).exited is not None


def test_a_requeued_run_waits_again_and_runs_again() -> None:
    runs = [RunScript(seconds=2, ends="requeue"), RunScript(begin_delay=3, seconds=1)]
    world = World({"a": [runs]})
    world.submit(task())
    report = world.after(2, task())
    assert (report.phase, report.requeued) == (TaskPhase.QUEUED, True)
    assert report.exited is None
    report = world.after(3, task())
    assert report.phase is TaskPhase.RUNNING
    assert report.began is not None
    assert report.began.run == 1
    exited = world.after(1, task()).exited
    assert exited is not None
    assert exited.run == 1
    assert world.executor.problems() == ()


def test_polls_may_fail_be_empty_or_lack_some() -> None:
    tasks = [task(f"j{n}") for n in range(3)]
    world = World()
    world.submit(*tasks)
    world.faults.add(Fault.POLL_FAILED, Fault.POLL_EMPTY, Fault.POLL_PARTIAL)
    answers = [world.executor.poll(tasks) for _ in range(4)]
    assert answers[0].error != ""
    assert [len(answer.reports) for answer in answers] == [0, 0, 2, 3]


def test_a_stale_answer_is_the_one_before() -> None:
    world = World()
    world.submit(task())
    assert world.look(task()).phase is TaskPhase.RUNNING
    world.faults.add(Fault.POLL_STALE)
    assert world.after(5, task()).phase is TaskPhase.RUNNING
    assert world.look(task()).phase is TaskPhase.ENDED


def test_with_a_lag_the_world_is_seen_as_it_was() -> None:
    world = World(lag_seconds=3)
    world.clock.advance(10)
    world.submit(task())
    assert world.look(task()).phase is TaskPhase.ENDED
    assert world.after(3, task()).phase is TaskPhase.RUNNING
    assert world.after(1, task()).phase is TaskPhase.ENDED


ALL_FAULTS = [fault for faults in FAULTS.values() for fault in faults]


def story(seed: int) -> tuple[FakeExecutor, list[str]]:
    """An impatient client of a faulty cluster; all that it was told."""
    clock = ManualClock()
    faults = SeededFaults(seed, dict.fromkeys(ALL_FAULTS, 0.2))
    runs = (RunScript(begin_delay=1, seconds=3, ends="requeue"), RunScript(seconds=2))
    executor = FakeExecutor(clock, lambda _: runs, slots=2, faults=faults)
    tasks = [task(f"j{n}") for n in range(3)]
    heard: list[str] = []
    for step in range(40):
        chosen = tasks[step % 3]
        heard.append(repr(executor.submit(one(chosen, token=f"t{step % 5}"))))
        heard.append(repr(executor.poll(tasks)))
        if step == 30:
            heard.append(repr(executor.cancel(tasks[:1])))
        heard.append(repr(executor.adopt([one(chosen, token=f"t{step % 5}")])))
        clock.advance(0.7)
    faults.enough = True
    clock.advance(1000)
    executor.settle()
    return executor, heard


@given(seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_no_attempt_is_begun_by_two_whatever_goes_wrong(seed: int) -> None:
    executor, _ = story(seed)
    assert executor.problems() == ()
    assert executor.living() == ()
    assert all(copy.over_at is not None for copy in executor.copies)


def test_an_attempt_begun_by_two_would_be_noticed() -> None:
    executor, _ = story(1)
    executor.begun.append(replace(executor.begun[0], executor_id="another"))
    assert len(executor.problems()) == 2
