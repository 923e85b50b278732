"""The Slurm executor through what goes wrong with a cluster, on a made-up one."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.engine.executor_port import (
    AdoptAnswer,
    BeginRecord,
    Submission,
    Task,
    TaskPhase,
    TaskReport,
)
from autoexp_tui.executors.slurm.executor import SlurmExecutor
from autoexp_tui.executors.slurm.watch import Rhythm
from autoexp_tui.model.states import Cause
from autoexp_tui.testing.executor_contract import (
    submission,
    submit,
    wait_for_end,
    wait_until_running,
)
from tests.contract.fake_slurm_world import FakeSlurmWorld
from tests.support.fake_script import RunScript
from tests.support.fake_slurm_faults import PlannedSlurmFaults, SlurmFault
from tests.support.fake_slurm_jobs import ClusterSettings, Job

RUNS_LONG = RunScript(seconds=1e6)
ONE_NODE = {"nodes": 1, "exclusive": True}
FULL = 4
"""Jobs that fill the cluster: one a node."""


class World(FakeSlurmWorld):
    """The contract's world, with the faults at hand and the waits of real use."""

    def __init__(self, root: Path, *, calm: bool = False, **cluster: Any) -> None:
        super().__init__(
            root, ClusterSettings(**(cluster or {"min_job_age": 60})), ONE_NODE
        )
        self.faults = PlannedSlurmFaults()
        self.slurm.faults = self.faults
        if calm:
            self.watch_calmly()

    def watch_calmly(self) -> None:
        settings = replace(self.settings, rhythm=Rhythm(), lost_seconds=300.0)
        self.slurm_executor = SlurmExecutor(settings, self.slurm, self.clock)
        self.executor.inner = self.slurm_executor  # type: ignore[attr-defined]

    def sent(self, *runs: RunScript, job: str = "a") -> Task:
        task = self.runs_as(job, *(runs or (RUNS_LONG,)))
        submit(self, task)
        return task

    def running(self, *runs: RunScript, job: str = "a") -> Task:
        task = self.sent(*runs, job=job)
        wait_until_running(self, task)
        return task

    def fill(self, *runs: RunScript) -> list[Task]:
        return [self.running(*runs, job=f"other{n}") for n in range(FULL)]

    def job(self, task: Task) -> Job:
        executor_id = self.known[task.id].executor_id
        (job,) = [job for job in self.cluster.jobs if job.id == executor_id]
        return job

    def report(self, task: Task) -> TaskReport:
        return self.executor.poll([task]).reports[0]

    def polls(self, seconds: float, *tasks: Task) -> int:
        """Poll the tasks every two seconds; how many commands that was."""
        before = sum(self.slurm.calls.values())
        for _ in range(int(seconds / 2)):
            self.executor.poll(tasks)
            self.clock.advance(2.0)
        return sum(self.slurm.calls.values()) - before

    def adopted(self, made: Submission) -> AdoptAnswer:
        answers: list[AdoptAnswer] = []

        def sure() -> bool:
            answers.append(self.executor.adopt([made]))
            return bool(answers[-1].found or answers[-1].absent)

        assert self.until(sure)
        return answers[-1]

    def has_begun(self, number: int) -> bool:
        self.cluster.settle()
        return len(self.cluster.begun) == number


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("fault", [SlurmFault.ANSWER_LOST, SlurmFault.TOLD_FAILED])
def test_what_was_taken_without_an_answer_is_found_and_runs_once(
    world: World, fault: SlurmFault
) -> None:
    for number in range(20):
        world.faults.add("sbatch", fault)
        made = submission(world.runs_as(f"a{number}", RunScript(seconds=1)))
        world.executor.submit(made)
        assert world.adopted(made).found[0].executor_ids == (str(number + 1),)
    assert world.until(lambda: world.has_begun(20))
    assert world.cluster.problems() == ()


def test_what_arrives_late_and_was_sent_again_is_begun_once(world: World) -> None:
    world.faults.add("sbatch", SlurmFault.ARRIVES_LATE)
    task = world.runs_as("a", RunScript(seconds=1))
    world.executor.submit(submission(task))
    submit(world, task)
    wait_for_end(world, task)
    assert (world.begun(task), world.cluster.problems()) == (1, ())


def test_what_another_submission_has_claimed_is_not_taken_for_this_one(
    world: World,
) -> None:
    other = replace(submission(world.running()), token="another")
    assert world.adopted(other).absent == ("another",)


def test_a_job_under_a_reused_id_is_not_taken_for_ours(world: World) -> None:
    world.cluster.settings = ClusterSettings(schedule_seconds=1.0)
    lost = world.runs_as("lost", RUNS_LONG)
    assert submit(world, lost) == ("1",)
    world.cluster.crash()
    other = world.runs_as("other", RUNS_LONG)
    assert submit(world, other) == ("1",)
    wait_until_running(world, other)
    assert wait_for_end(world, lost).unclaimed


@pytest.mark.parametrize(
    "fault", [SlurmFault.AWAY, SlurmFault.REQUEST_LOST, SlurmFault.MISSING]
)
def test_a_running_task_never_ends_because_an_answer_failed(
    world: World, fault: SlurmFault
) -> None:
    task = world.running()
    world.faults.add("squeue", *[fault] * 10_000)
    for _ in range(50):
        answer = world.executor.poll([task])
        assert answer.reports[0].phase is TaskPhase.RUNNING
        world.clock.advance(5)
    assert answer.error
    assert answer.age > 200


@pytest.mark.parametrize("fault", [SlurmFault.STALE, SlurmFault.EMPTY])
def test_a_single_wrong_answer_makes_nothing_lost(
    world: World, fault: SlurmFault
) -> None:
    task = world.running(RunScript(seconds=20))
    world.faults.add("squeue", fault)

    def is_over() -> bool:
        report = world.report(task)
        assert report.exited or report.gone_for < 1.0
        return report.exited is not None

    assert world.until(is_over)


KILLED = RunScript(seconds=400, signal=9, cause=Cause.OUT_OF_MEMORY)
TRAILS = {"min_job_age": 1, "account_lag": 40.0}
SOON = {"min_job_age": 300}


@pytest.mark.parametrize(
    ("script", "cluster", "stale", "most"),
    [
        (KILLED, SOON, 0, 4.0),
        (KILLED, SOON, 2, 12.0),
        (KILLED, TRAILS, 0, 60.0),
        (RunScript(seconds=400, exit_code=3), SOON, 0, 4.0),
    ],
    ids=["by the queue", "after stale answers", "by late accounting", "by its code"],
)
def test_the_cause_of_an_end_is_told_soon_although_questions_are_seldom(
    tmp_path: Path, script: RunScript, cluster: Any, stale: int, most: float
) -> None:
    world = World(tmp_path, calm=True, **cluster)
    task = world.sent(script)
    while not world.has_begun(1) or world.cluster.living():
        world.polls(2, task)  # nobody has looked at its end yet
    world.faults.add("squeue", *[SlurmFault.STALE] * stale)
    began = world.clock.monotonic()
    while (report := world.report(task)).exited is None:
        world.clock.advance(2.0)
    assert report.cause == script.cause
    assert world.clock.monotonic() - began <= most


def test_many_kills_hurry_the_same_few_questions(tmp_path: Path) -> None:
    world = World(tmp_path, calm=True, nodes=25, **TRAILS)
    tasks = [world.sent(KILLED, job=f"a{n:02}") for n in range(20)]
    while not world.has_begun(20) or world.cluster.living():
        world.polls(2, *tasks)
    assert world.polls(60, *tasks) <= 20


def test_an_array_of_200_is_a_handful_of_calls(tmp_path: Path) -> None:
    world = World(tmp_path, calm=True, nodes=25)
    world.options = {**ONE_NODE, "time": 60}
    tasks = [world.runs_as(f"a{n:03}", RunScript(seconds=3)) for n in range(200)]
    submit(world, *tasks)
    while not world.has_begun(200):
        world.polls(2, *tasks)
    assert world.slurm.calls["sbatch"] == 1
    assert world.slurm.calls["squeue"] <= 12
    assert world.cluster.problems() == ()


def test_each_task_of_an_array_has_its_own_entry_log_and_end(world: World) -> None:
    tasks = [world.runs_as(f"a{n:03}", RunScript(seconds=3)) for n in range(12)]
    submit(world, *tasks)
    for task in (tasks[8], tasks[10]):
        assert world.executor.cancel([task]).ok
        report = wait_for_end(world, task)
        assert (report.cause, report.began) == (Cause.USER, None)
    wait_until_running(world, tasks[1])
    world.slurm.run(("scontrol", "requeue", "1_1"), 10)
    for index, task in enumerate(tasks):
        report = wait_for_end(world, task)
        if index in (8, 10):
            assert report.exited is None
            continue
        assert report.began is not None
        assert (report.executor_id, report.began.run) == (f"1_{index}", index == 1)
        assert Path(task.log_dir, "current.log").exists()
        assert Path(task.log_dir, f"slurm-1_{index}.out").is_symlink()


def test_a_quiet_hour_costs_at_most_a_question_a_minute(world: World) -> None:
    world.watch_calmly()
    tasks = world.fill(RunScript(seconds=7200))
    world.polls(120, *tasks)
    assert world.polls(3600, *tasks) <= 3 * 60


def test_an_array_is_never_larger_than_the_cluster_takes(tmp_path: Path) -> None:
    world = World(tmp_path, max_array_size=11)
    world.slurm_executor.learn()
    assert world.executor.array_size == 10


class SeededFaults:
    """One of the faults of looking, now and then; only what a cluster may do."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.enough = False

    def __call__(self, program: str) -> SlurmFault | None:
        faults = {
            "squeue": (SlurmFault.AWAY, SlurmFault.REQUEST_LOST, SlurmFault.STALE),
            "sacct": (SlurmFault.AWAY, SlurmFault.REQUEST_LOST),
            "scontrol": (SlurmFault.AWAY,),
            "scancel": (SlurmFault.AWAY, SlurmFault.ANSWER_LOST),
        }.get(program, ())
        if self.enough or not faults or self._random.random() > 0.4:
            return None
        return self._random.choice(faults)


def some_runs(random: random.Random) -> tuple[RunScript, ...]:
    first = RunScript(
        seconds=random.choice((0, 1, 5, 30)),
        exit_code=random.choice((0, 0, 3)),
        ends=random.choice(("exit", "exit", "exit", "requeue", "vanish")),
        record_lag=random.choice((0, 0, 4)),
    )
    return (first, RunScript(seconds=2))


def runs_of(word: tuple[object, ...]) -> range:
    """The runs up to the one that the word is about."""
    began = word[-1]
    assert isinstance(began, BeginRecord)
    return range(began.run + 1)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_goes_wrong_with_looking_each_task_gets_one_true_word(
    world: World, seed: int
) -> None:
    drawn = random.Random(seed)
    tasks = [world.runs_as(f"a{n}", *some_runs(drawn)) for n in range(12)]
    submit(world, *tasks)
    faults = SeededFaults(seed)
    world.slurm.faults = faults
    words: dict[str, tuple[object, ...]] = {}
    for turn in range(190):
        faults.enough = turn > 150
        for report in world.executor.poll(tasks).reports:
            final = bool(report.exited or report.cause)
            if report.phase is TaskPhase.ENDED and final:
                assert (report.job, report.attempt) not in world.cluster.living()
                word = (report.exited, report.cause, report.began)
                assert words.setdefault(report.job, word) == word
            elif report.phase is TaskPhase.ENDED:
                assert report.gone_for < world.executor.lost_after_seconds
        world.clock.advance(10.0 if faults.enough else 2.0)
    assert len(words) == 12
    begun = {(task[0], run) for task, run, _ in world.cluster.begun}
    assert begun == {(job, run) for job, word in words.items() for run in runs_of(word)}
    assert world.cluster.problems() == ()
