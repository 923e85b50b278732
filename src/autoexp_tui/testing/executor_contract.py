"""What every executor promises, as tests that any of them can be put through.

An executor's test module makes a class from `ExecutorContract` and a `world` fixture
that builds an `ExecutorWorld`: how tasks are described to it and how time passes. The
suite talks about behaviour alone and never about files or commands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from autoexp_tui.engine.executor_port import (
    Accepted,
    Executor,
    Submission,
    SubmitAnswer,
    Task,
    TaskPhase,
    TaskReport,
)
from autoexp_tui.model.ids import build_submission_token

LONG = 300.0
"""Seconds that no test waits for."""

HOSTILE_NAMES = (
    "../../outside",
    "/absolute",
    "two words",
    "new\nline",
    "tab\tand\x1b]52;c;eA==\x07",
    "-rf",
    "--help",
    "$(touch pwned)",
    "`id`; rm -rf .",
    "quote'and\"quote",
    "%j-%A_%a",
    "ünï¢ødé-名前",
    "lr=0.001,layers=[1,2]",
    "x" * 200,
    ".",
    "..",
    "a\\b*?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Does:
    """What a task's command does, in words that every executor can be told."""

    prints: str = ""
    """First of all, as one line."""
    seconds: float = 0.0
    exit_code: int = 0
    dies_of: int | None = None
    """A signal that it sends itself at the end."""
    ignores_term: bool = False
    leaves_behind: int = 0
    """Processes that it starts and does not wait for."""


class ExecutorWorld(Protocol):
    """An executor, and the means to use and observe it."""

    executor: Executor

    def task(self, job: str, does: Does, *, attempt: int = 1) -> Task:
        """A task whose command does that."""

    def until(self, holds: Callable[[], bool]) -> bool:
        """Let time pass until `holds()`; False when it does not in good time."""

    def begun(self, task: Task) -> int:
        """How often the task's command was really started."""

    def living(self, task: Task) -> int:
        """Processes of the task's command that live now."""

    def current_log(self, task: Task) -> str:
        """The text behind the job's stable log path."""

    def kill_supervisor(self, task: Task) -> None:
        """SIGKILL to whatever stands between the executor and the command."""

    def new_engine(self) -> None:
        """Forget `executor` and build another, as the next engine would."""


class ExecutorContract:
    """The promises. Subclasses provide the fixture `world`, with two slots."""

    def test_a_task_is_queued_or_running_until_it_has_ended_with_exit_code_0(
        self, world: ExecutorWorld
    ) -> None:
        task = world.task("living", Does(seconds=0.3))
        submit(world, task)
        seen = [look(world, task).phase]

        def has_ended() -> bool:
            seen.append(look(world, task).phase)
            return seen[-1] is TaskPhase.ENDED

        assert world.until(has_ended)
        order = [*TaskPhase][: [*TaskPhase].index(TaskPhase.UNKNOWN)]
        assert set(seen) <= set(order)
        assert seen == sorted(seen, key=order.index)
        report = look(world, task)
        assert find_end(report) == (0, None)
        assert report.began is not None
        assert report.exited is not None
        assert (report.began.run, report.exited.run) == (0, 0)
        assert report.began.began_at <= report.exited.ended_at
        assert report.cause is None

    def test_a_running_task_names_its_run_executor_id_and_log_to_the_next_engine_too(
        self, world: ExecutorWorld
    ) -> None:
        task = world.task("named", Does(seconds=LONG))
        ids = submit(world, task)
        report = wait_until_running(world, task)
        assert report.executor_id == ids[0]
        assert report.began is not None
        assert report.began.log_path.startswith(task.log_dir)
        assert report.exited is None
        world.new_engine()
        after = wait_until_running(world, task)
        assert (after.began, after.executor_id) == (report.began, report.executor_id)
        world.executor.cancel([task])
        wait_for_end(world, task)

    def test_a_death_by_signal_is_told_from_an_exit_code(
        self, world: ExecutorWorld
    ) -> None:
        assert find_end(run(world, world.task("c", Does(exit_code=37)))) == (37, None)
        assert find_end(run(world, world.task("s", Does(dies_of=11)))) == (None, 11)

    def test_what_the_command_prints_is_in_the_current_log_of_its_attempt(
        self, world: ExecutorWorld
    ) -> None:
        for attempt, text in ((1, "one"), (2, "two")):
            does = Does(prints=text, exit_code=2 - attempt)
            task = world.task("again", does, attempt=attempt)
            run(world, task)
            assert world.current_log(task) == f"{text}\n"

    def test_what_the_command_leaves_behind_is_ended_with_it(
        self, world: ExecutorWorld
    ) -> None:
        task = world.task("messy", Does(leaves_behind=3))
        assert find_end(run(world, task)) == (0, None)
        assert world.living(task) == 0

    def test_no_more_tasks_run_at_a_time_than_there_are_slots(
        self, world: ExecutorWorld
    ) -> None:
        tasks = [world.task(f"slot{n}", Does(seconds=0.15)) for n in range(5)]
        submit(world, *tasks)
        most = 0

        def all_ended() -> bool:
            nonlocal most
            phases = [report.phase for report in poll(world, tasks)]
            most = max(most, phases.count(TaskPhase.RUNNING))
            return all(phase is TaskPhase.ENDED for phase in phases)

        assert world.until(all_ended)
        assert 1 <= most <= 2

    def test_a_task_that_ignores_the_signal_is_killed_after_the_grace(
        self, world: ExecutorWorld
    ) -> None:
        task = world.task("stubborn", Does(seconds=LONG, ignores_term=True))
        submit(world, task)
        assert world.until(lambda: world.begun(task) == 1)
        world.executor.cancel([task])
        assert find_end(wait_for_end(world, task)) == (None, 9)
        assert world.living(task) == 0

    def test_a_cancel_ends_the_whole_process_tree_by_the_signal(
        self, world: ExecutorWorld
    ) -> None:
        task = world.task("family", Does(seconds=LONG, leaves_behind=3))
        submit(world, task)
        wait_until_running(world, task)
        assert world.until(lambda: world.living(task) >= 4)
        assert world.executor.cancel([task]).ok
        assert find_end(wait_for_end(world, task)) == (None, 15)
        assert world.living(task) == 0

    def test_a_task_that_is_cancelled_before_it_is_sent_or_while_it_waits_never_begins(
        self, world: ExecutorWorld
    ) -> None:
        fenced = world.task("fenced", Does())
        assert world.executor.cancel([fenced]).ok
        submit(world, fenced)
        assert wait_for_end(world, fenced).began is None
        assert world.begun(fenced) == 0
        busy = [world.task(f"busy{n}", Does(seconds=LONG)) for n in range(2)]
        submit(world, *busy)
        for task in busy:
            wait_until_running(world, task)
        waiting = world.task("waiting", Does())
        submit(world, waiting)
        assert look(world, waiting).phase is TaskPhase.QUEUED
        world.executor.cancel([waiting])
        assert wait_for_end(world, waiting).began is None
        world.executor.cancel(busy)
        for task in busy:
            wait_for_end(world, task)
        assert world.begun(waiting) == 0

    def test_every_task_of_a_submission_has_its_own_id_and_runs(
        self, world: ExecutorWorld
    ) -> None:
        tasks = [world.task(f"many{n}", Does(exit_code=n)) for n in range(12)]
        ids = submit(world, *tasks)
        assert len(set(ids)) == 12
        reports = [wait_for_end(world, task) for task in tasks]
        assert [r.exited.exit_code for r in reports if r.exited] == list(range(12))
        assert [r.executor_id for r in reports] == list(ids)

    def test_a_submission_that_is_sent_again_begins_once(
        self, world: ExecutorWorld
    ) -> None:
        task = world.task("twice", Does(seconds=0.2))
        world.executor.submit(submission(task))
        for _ in ("while it lives", "after its end"):
            world.executor.submit(submission(task))
            assert find_end(wait_for_end(world, task)) == (0, None)
            assert world.begun(task) == 1

    def test_hostile_names_are_only_names(self, world: ExecutorWorld) -> None:
        tasks = [world.task(name, Does(prints="ran")) for name in HOSTILE_NAMES]
        submit(world, *tasks)
        for task in tasks:
            report = wait_for_end(world, task)
            assert (report.job, *find_end(report)) == (task.job, 0, None)
            assert world.current_log(task) == "ran\n", task.job

    def test_a_task_that_nobody_submitted_is_not_said_to_live_and_is_gone_ever_longer(
        self, world: ExecutorWorld
    ) -> None:
        assert world.executor.poll([]).reports == ()
        task = world.task("unknown", Does())
        answer = world.executor.poll([task])
        assert answer.error == ""
        living = {TaskPhase.QUEUED, TaskPhase.RUNNING}
        assert not any(report.phase in living for report in answer.reports)
        assert not any(report.exited or report.began for report in answer.reports)
        first = look(world, task).gone_for
        assert world.until(lambda: look(world, task).gone_for > first)

    def test_a_living_submission_is_found_by_its_token(
        self, world: ExecutorWorld
    ) -> None:
        tasks = [world.task(f"found{n}", Does(seconds=LONG)) for n in range(2)]
        ids = submit(world, *tasks)
        world.new_engine()
        answer = world.executor.adopt(split(world, tasks))
        assert tuple(i for found in answer.found for i in found.executor_ids) == ids
        assert answer.absent == ()
        world.executor.cancel(tasks)

    def test_what_has_ended_is_found_with_its_end_whoever_cancels_it_or_comes(
        self, world: ExecutorWorld
    ) -> None:
        task = world.task("over", Does(exit_code=9))
        ids = submit(world, task)
        before = wait_for_end(world, task)
        assert world.executor.cancel([task]).ok
        after = wait_for_end(world, task)
        assert (after.exited, after.cause) == (before.exited, before.cause)
        world.new_engine()
        answer = world.executor.adopt([submission(task)])
        assert [found.executor_ids for found in answer.found] == [ids]
        assert wait_for_end(world, task).exited == before.exited

    def test_what_was_never_made_is_absent_after_a_while_and_can_be_submitted(
        self, world: ExecutorWorld
    ) -> None:
        task = world.task("never", Does())
        made = submission(task)
        first = world.executor.adopt([made])
        assert (first.found, first.absent) == ((), ())
        assert world.until(lambda: world.executor.adopt([made]).absent == (made.token,))
        assert run(world, task).exited is not None
        assert world.begun(task) == 1

    def test_a_killed_supervisor_takes_all_its_processes_with_it_for_good(
        self, world: ExecutorWorld
    ) -> None:
        task = world.task("victim", Does(seconds=LONG, leaves_behind=2))
        submit(world, task)
        assert world.until(lambda: world.living(task) >= 3)
        world.kill_supervisor(task)
        report = wait_for_end(world, task)
        assert report.began is not None
        assert report.exited is None or report.exited.signal == 9
        assert world.until(lambda: world.living(task) == 0)
        world.executor.submit(submission(task))
        wait_for_end(world, task)
        assert world.begun(task) == 1


def submission(*tasks: Task) -> Submission:
    """The tasks as one submission, its token as the engine makes it."""
    token = build_submission_token("k7f2", tuple(task.id for task in tasks))
    return Submission(token=token, session="k7f2", tasks=tasks)


def split(world: ExecutorWorld, tasks: Sequence[Task]) -> list[Submission]:
    """The tasks in submissions of as many as the executor takes at once."""
    most = world.executor.array_size
    firsts = range(0, len(tasks), most)
    return [submission(*tasks[first : first + most]) for first in firsts]


def submit(world: ExecutorWorld, *tasks: Task) -> tuple[str, ...]:
    """Submit tasks that must be accepted; their executor ids."""
    ids: list[str] = []
    for one in split(world, tasks):
        answer: SubmitAnswer = world.executor.submit(one)
        assert isinstance(answer, Accepted), answer
        assert len(answer.executor_ids) == len(one.tasks)
        ids += answer.executor_ids
    return tuple(ids)


def run(world: ExecutorWorld, task: Task) -> TaskReport:
    submit(world, task)
    return wait_for_end(world, task)


def find_end(report: TaskReport) -> tuple[int | None, int | None]:
    """The exit code or the signal of an end that was recorded."""
    assert report.exited is not None, report
    return report.exited.exit_code, report.exited.signal


def poll(world: ExecutorWorld, tasks: Sequence[Task]) -> Sequence[TaskReport]:
    """One look that must be answered in full."""
    answer = world.executor.poll(tasks)
    assert answer.error == ""
    assert [(r.job, r.attempt) for r in answer.reports] == [t.id for t in tasks]
    return answer.reports


def look(world: ExecutorWorld, task: Task) -> TaskReport:
    return poll(world, [task])[0]


def wait_until_running(world: ExecutorWorld, task: Task) -> TaskReport:
    return _wait_for(world, task, TaskPhase.RUNNING)


def wait_for_end(world: ExecutorWorld, task: Task) -> TaskReport:
    return _wait_for(world, task, TaskPhase.ENDED)


def _wait_for(world: ExecutorWorld, task: Task, phase: TaskPhase) -> TaskReport:
    seen: list[TaskReport] = []

    def has_phase() -> bool:
        seen.append(look(world, task))
        return seen[-1].phase is phase

    assert world.until(has_phase), f"not {phase}: {seen[-1]}"
    return seen[-1]
