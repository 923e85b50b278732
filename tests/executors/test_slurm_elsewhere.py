"""What others do to our jobs on a made-up cluster: it stays done, and it is told."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import (
    Task,
    TaskPhase,
    TaskReport,
)
from autoexp_tui.executors import supervisors
from autoexp_tui.executors.slurm.task_memory import RELEASE_WAITS
from autoexp_tui.model.states import Cause
from autoexp_tui.storage import trust
from autoexp_tui.storage.processes import Identity
from autoexp_tui.testing.executor_contract import (
    look,
    submit,
    wait_until_running,
)
from tests.executors.test_slurm_executor import ONE_NODE, World
from tests.support.fake_script import RunScript
from tests.support.fake_slurm_jobs import ClusterSettings, Job

RUNS = RunScript(seconds=1e6)
FULL = 4
"""Jobs that fill the cluster: one a node."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def crowd(world: World) -> None:
    """Somebody's jobs take all nodes."""
    for number in range(FULL):
        submit(world, world.runs_as(f"other{number}", RUNS))


def array(world: World, count: int = 3) -> list[Task]:
    """Tasks that were sent as one array, and wait."""
    tasks = [world.runs_as(f"a{n}", RUNS) for n in range(count)]
    submit(world, *tasks)
    return tasks


def jobs(world: World, *tasks: Task) -> list[Job]:
    """Slurm's side of tasks."""
    ids = {world.known[task.id].executor_id for task in tasks}
    return [job for job in world.cluster.jobs if job.id in ids]


def told(world: World, task: Task) -> TaskReport:
    """The report that ends the task's attempt."""
    found: list[TaskReport] = []

    def wait_for_end() -> bool:
        found.append(look(world, task))
        lost_after = world.executor.lost_after_seconds
        report = found[-1]
        return report.phase is TaskPhase.ENDED and report.gone_for >= lost_after

    assert world.until(wait_for_end)
    return found[-1]


def test_a_waiting_task_that_others_cancel_is_cancelled_and_not_forgotten(
    world: World,
) -> None:
    crowd(world)
    first, *others = array(world)
    look(world, first)
    began = world.clock.monotonic()
    for job in jobs(world, others[0]):
        world.cluster.cancel_by_others(job)
    report = told(world, others[0])
    assert (report.cause, report.unclaimed) == (Cause.USER, False)
    assert world.clock.monotonic() - began < 30.0
    assert look(world, first).phase is TaskPhase.QUEUED
    for job in jobs(world, first, others[1]):
        world.cluster.cancel_by_others(job)
    assert {told(world, task).cause for task in (first, others[1])} == {Cause.USER}


def test_the_controller_s_age_is_asked_once_and_only_when_a_task_has_vanished(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, ClusterSettings(min_job_age=60, accounting=False))
    task = world.runs_as("a", RUNS)
    crowd(world)
    submit(world, task)
    world.slurm_executor.learn()
    asked = world.slurm.calls["scontrol"]
    for _ in range(20):
        world.clock.advance(2.0)
        look(world, task)
    assert world.slurm.calls["scontrol"] == asked
    [job] = jobs(world, task)
    world.cluster.jobs.remove(job)  # cancelled, and its age is over
    for _ in range(20):
        world.clock.advance(2.0)
        look(world, task)
    assert world.slurm.calls["scontrol"] == asked + 1


def test_a_vanished_job_of_a_controller_that_was_not_restarted_was_cancelled(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, ClusterSettings(min_job_age=60, accounting=False))
    crowd(world)
    task = world.runs_as("a", RUNS)
    world.clock.advance(30.0)
    submit(world, task)
    ordered_at = world.clock.utc()
    world.known[task.id] = replace(world.known[task.id], ordered_at=ordered_at)
    look(world, task)
    [job] = jobs(world, task)
    world.cluster.jobs.remove(job)
    report = told(world, task)
    assert (report.cause, report.unclaimed) == (Cause.USER, False)


def test_a_vanished_job_of_a_controller_that_was_restarted_may_be_forgotten(
    world: World,
) -> None:
    crowd(world)
    task = world.runs_as("a", RUNS)
    submit(world, task)
    look(world, task)
    world.clock.advance(2.0)
    assert world.cluster.crash()
    report = told(world, task)
    assert (report.cause, report.unclaimed) == (None, True)


NOT_AGAIN = {"no-requeue": {"no-requeue": True}, "requeue": {"requeue": False}}


def forgotten(world: World, *, restarted: bool = True, option: str = "") -> Task:
    """A task whose run the controller lacks, and whose node has ended it."""
    task = world.runs_as("a", RUNS)
    if option:
        resources = replace(task.resources, options=NOT_AGAIN[option])
        task = replace(task, resources=resources)
    world.clock.advance(30.0)  # the controller's own start is no restart
    submit(world, task)
    wait_until_running(world, task)
    [job] = jobs(world, task)
    if restarted:
        world.cluster.crash()
    if job in world.cluster.jobs:
        world.cluster.forget(job)
    return task


def test_a_run_that_a_restarted_controller_forgot_is_to_run_again(world: World) -> None:
    """It is waited for like a lost one, and told to end if it lives yet."""
    task = forgotten(world)
    assert not Path(task.attempt_dir, "cancel").exists()
    began = world.clock.monotonic()
    report = told(world, task)
    assert world.clock.monotonic() - began >= world.executor.lost_after_seconds
    assert Path(task.attempt_dir, "cancel").exists()
    assert (report.cause, report.rerun, report.exited) == (Cause.NODE_FAIL, True, None)
    assert report.reason == "Slurm's controller was started again and does not know it"


@pytest.mark.parametrize("option", ["no-requeue", "requeue"])
def test_what_slurm_was_told_not_to_run_again_is_not(world: World, option: str) -> None:
    report = told(world, forgotten(world, option=option))
    assert (report.cause, report.rerun) == (Cause.NODE_FAIL, False)


def test_a_run_that_vanished_under_a_living_controller_is_lost(world: World) -> None:
    report = told(world, forgotten(world, restarted=False))
    assert (report.cause, report.rerun) == (None, False)


def lost(world: World, task: Task) -> bool:
    """Whether the task is told as ended, and gone for long enough."""
    report = look(world, task)
    lost_after = world.executor.lost_after_seconds
    return report.phase is TaskPhase.ENDED and report.gone_for >= lost_after


def refuses(*_: object) -> None:
    """As writing on a disk that takes no writes."""
    raise OSError(errno.EROFS, "Read-only file system")


def is_unwritable(report: TaskReport) -> bool:
    told = report.reason.endswith("cannot be written: Read-only file system")
    return told and report.phase is TaskPhase.UNKNOWN


@pytest.mark.parametrize("restarted", [True, False])
def test_no_run_is_lost_while_its_directory_takes_no_writes(
    world: World, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    task = forgotten(world, restarted=restarted)
    with monkeypatch.context() as patched:
        patched.setattr(supervisors, "write_record", refuses)
        assert not world.until(lambda: lost(world, task))
        assert world.until(lambda: is_unwritable(look(world, task)))
    assert world.until(lambda: lost(world, task))


def test_no_run_is_lost_while_its_supervisor_lives_on_this_host(world: World) -> None:
    task = forgotten(world, restarted=False)
    begin = Path(task.attempt_dir, "begin.0.json")
    begun = json.loads(begin.read_text())
    begun["process"] = Identity.get_own().as_json()
    begin.write_text(json.dumps(begun))
    os.utime(task.attempt_dir)
    assert not world.until(lambda: lost(world, task))


def test_who_cancelled_is_told_by_accounting(world: World) -> None:
    task = world.runs_as("a", RUNS)
    submit(world, task)
    wait_until_running(world, task)
    [job] = jobs(world, task)
    world.cluster.cancel_by_others(job)
    report = told(world, task)
    assert (report.cause, report.by) == (Cause.USER, trust.format_person(0))


def test_an_end_without_accounting_does_not_wait_to_know_who(tmp_path: Path) -> None:
    world = World(tmp_path, ClusterSettings(min_job_age=60, accounting=False))
    crowd(world)
    task = world.runs_as("a", RUNS)
    submit(world, task)
    look(world, task)
    began = world.clock.monotonic()
    [job] = jobs(world, task)
    world.cluster.cancel_by_others(job)
    assert told(world, task).by == ""
    assert world.clock.monotonic() - began < 15.0


def test_a_person_is_a_name_and_a_number() -> None:
    assert trust.format_person(0) == "root (uid 0)"
    assert trust.format_person(3_999_999_999) == "uid 3999999999"


def test_our_jobs_are_asked_for_by_number_whatever_logname_says(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "somebody-else")
    world.new_engine()
    task = world.runs_as("a", RUNS)
    submit(world, task)
    wait_until_running(world, task)
    asked = [line for line in world.slurm.lines if line[0] == "squeue"]
    assert asked[-1][asked[-1].index("-u") + 1] == str(os.getuid())


def test_a_suspended_run_is_told_as_that_and_goes_on(world: World) -> None:
    task = world.runs_as("a", RunScript(seconds=20.0))
    submit(world, task)
    wait_until_running(world, task)
    [job] = jobs(world, task)
    world.cluster.suspend(job)
    world.clock.advance(60.0)
    report = look(world, task)
    assert (report.phase, report.reason) == (
        TaskPhase.SUSPENDED,
        "suspended by the cluster",
    )
    world.cluster.resume(job)
    assert world.until(lambda: look(world, task).phase is TaskPhase.RUNNING)
    exited = told(world, task).exited
    assert exited is not None
    assert exited.exit_code == 0


def test_a_suspended_run_that_is_to_end_is_cancelled_outright(world: World) -> None:
    task = world.runs_as("a", RUNS)
    submit(world, task)
    wait_until_running(world, task)
    [job] = jobs(world, task)
    world.cluster.suspend(job)
    assert world.until(lambda: look(world, task).phase is TaskPhase.SUSPENDED)
    assert world.executor.cancel([task]).ok
    assert world.slurm.lines[-1] == ("scancel", job.id)


def fails_to_launch(world: World, task: Task) -> Job:
    [job] = jobs(world, task)
    job.run = None
    world.cluster.fail_launch(job)
    return job


def test_a_job_that_could_not_be_launched_is_released_and_runs(world: World) -> None:
    task = world.runs_as("a", RUNS)
    submit(world, task)
    fails_to_launch(world, task)
    assert wait_until_running(world, task)
    assert ("scontrol", "release", "1") in world.slurm.lines


def test_a_job_that_is_never_launched_is_released_three_times_and_told(
    world: World,
) -> None:
    task = world.runs_as("a", RUNS)
    submit(world, task)
    releases: list[float] = []
    job = fails_to_launch(world, task)
    world.cluster.release = (  # type: ignore[method-assign]
        lambda job: releases.append(world.clock.monotonic())
    )
    assert not look(world, task).stuck
    assert world.until(lambda: look(world, task).stuck)
    world.clock.advance(1000.0)
    report = look(world, task)
    assert len(releases) == len(RELEASE_WAITS)
    assert releases[2] - releases[1] > releases[1] - releases[0] > 20.0
    assert report.reason == (
        f"Slurm could not launch it, and holds it: scontrol release {job.id}"
    )


def test_a_run_that_ended_well_is_not_released_to_run_again(world: World) -> None:
    task = world.runs_as("a", RunScript(seconds=5.0))
    submit(world, task)
    wait_until_running(world, task)
    [job] = jobs(world, task)
    world.cluster._end_run(job, job.run, exit_code=0)  # type: ignore[arg-type]
    job.run, job.word = None, "RUNNING"
    world.cluster.fail_launch(job)
    exited = told(world, task).exited
    assert exited is not None
    assert exited.exit_code == 0
    waiting = world.runs_as("waiting", RUNS)
    submit(world, waiting)
    for _ in range(10):
        world.clock.advance(2.0)
        look(world, waiting)
    assert job.word.startswith("CANCELLED")
    assert world.begun(task) == 1


def test_a_job_that_somebody_holds_is_not_released(world: World) -> None:
    task = world.runs_as("a", RUNS)
    world.options = {**ONE_NODE, "hold": True}
    task = world.runs_as("held", RUNS)
    submit(world, task)
    for _ in range(30):
        world.clock.advance(2.0)
        look(world, task)
    assert world.slurm.calls["scontrol"] <= 1  # its configuration


def refused_again(world: World) -> tuple[Task, Job]:
    """A run that a controller forgot and stopped, and whose next start was refused."""
    task = world.runs_as("a", RunScript(seconds=20.0))
    submit(world, task)
    wait_until_running(world, task)
    world.clock.advance(10.0)
    world.cluster.settle()
    [job] = jobs(world, task)
    world.cluster.refuse_second_launch(job)
    return task, job


def test_a_job_whose_second_launch_was_refused_is_requeued_and_runs_again(
    world: World,
) -> None:
    task, job = refused_again(world)
    report = told(world, task)
    assert ("scontrol", "requeue", job.id) in world.slurm.lines
    assert report.exited is not None
    assert (report.exited.run, report.exited.exit_code) == (1, 0)
    assert report.cause is None


def test_a_job_that_no_requeue_brings_back_has_lost_its_node(world: World) -> None:
    task, _ = refused_again(world)
    world.cluster.requeue = (  # type: ignore[method-assign]
        lambda job, reason="": None
    )
    report = told(world, task)
    assert (report.cause, report.exited) == (Cause.NODE_FAIL, None)
    assert "could not start it again" in report.reason


def test_a_run_that_is_over_is_not_said_to_run_but_what_is_waited_for(
    world: World,
) -> None:
    script = RunScript(seconds=5.0, ends="vanish", cause=Cause.PREEMPTED)
    task = world.runs_as("a", script)
    submit(world, task)
    assert world.until(lambda: look(world, task).phase is TaskPhase.LEAVING)
    assert world.cluster.living() == ()
    assert look(world, task).reason == (
        "over, Slurm says PREEMPTED; waits up to 90 s for Slurm to start it again"
    )


def test_an_end_by_slurm_s_word_is_as_late_as_slurm_says(tmp_path: Path) -> None:
    world = World(tmp_path, ClusterSettings(min_job_age=600, accounting=False))
    task = world.runs_as("a", RunScript(seconds=50.0, ends="vanish"))
    submit(world, task)
    began = wait_until_running(world, task).began
    [job] = jobs(world, task)
    world.clock.advance(60.0)
    world.cluster.settle()
    job.word, job.reason = "COMPLETED", "None"
    exited = told(world, task).exited
    assert began is not None
    assert exited is not None
    assert exited.ended_at - began.began_at == pytest.approx(50.0, abs=2.0)


def test_why_a_vanished_run_is_not_judged_is_said(world: World) -> None:
    task = world.runs_as("a", RUNS)
    submit(world, task)
    wait_until_running(world, task)
    [job] = jobs(world, task)
    world.cluster.forget(job)
    world.slurm.database_away = True
    for _ in range(20):
        world.clock.advance(5.0)
        [report] = world.executor.poll([world.known[task.id]]).reports
    assert report.gone_for == 0.0
    assert report.reason.startswith("squeue does not show it any more")
    assert "sacct: Problem talking to the database" in report.reason
