"""What others do to our jobs on a made-up cluster: it stays done, and it is told."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from autoexp_tui.engine.executor_port import Task, TaskPhase, TaskReport
from autoexp_tui.executors import supervisors
from autoexp_tui.executors.slurm.judgement import RELEASE_WAITS
from autoexp_tui.model.states import Cause
from autoexp_tui.storage import trust
from autoexp_tui.storage.processes import Identity
from autoexp_tui.testing.executor_contract import look, submit
from tests.executors.test_slurm_executor import ONE_NODE, RUNS_LONG, World
from tests.support.fake_script import RunScript
from tests.support.fake_slurm_jobs import Job


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def is_final(world: World, report: TaskReport) -> bool:
    """Whether the attempt has ended, or is gone for long enough."""
    long = report.gone_for >= world.executor.lost_after_seconds
    return report.phase is TaskPhase.ENDED and long


def told(world: World, task: Task) -> TaskReport:
    found: list[TaskReport] = []

    def ends() -> bool:
        found.append(look(world, task))
        return is_final(world, found[-1])

    assert world.until(ends)
    return found[-1]


def told_after(world: World, task: Task) -> tuple[TaskReport, float]:
    began = world.clock.monotonic()
    return told(world, task), world.clock.monotonic() - began


def ended_well(report: TaskReport, run: int = 0) -> bool:
    exited = report.exited
    return bool(exited and (exited.run, exited.exit_code) == (run, 0))


def test_a_waiting_task_that_others_cancel_is_cancelled_and_not_forgotten(
    world: World,
) -> None:
    world.fill()
    tasks = [world.runs_as(f"a{n}", RUNS_LONG) for n in range(3)]
    submit(world, *tasks)
    first, *others = tasks
    look(world, first)
    world.cluster.cancel_by_others(world.job(others[0]))
    report, waited = told_after(world, others[0])
    assert (report.cause, report.unclaimed) == (Cause.USER, False)
    assert waited < 30.0
    assert look(world, first).phase is TaskPhase.QUEUED
    for task in (first, others[1]):
        world.cluster.cancel_by_others(world.job(task))
    assert {told(world, task).cause for task in (first, others[1])} == {Cause.USER}


def test_who_cancelled_is_told_by_accounting_and_not_waited_for_without_it(
    tmp_path: Path,
) -> None:
    for booked, by in ((True, trust.format_user(0)), (False, "")):
        world = World(tmp_path / f"{booked}", min_job_age=60, accounting=booked)
        world.fill()
        task = world.sent()
        look(world, task)
        world.cluster.cancel_by_others(world.job(task))
        report, waited = told_after(world, task)
        assert (report.cause, report.by) == (Cause.USER, by)
        assert booked or waited < 15.0
    assert trust.format_user(0) == "root"
    assert trust.format_user(3_999_999_999) == "user 3999999999"


@pytest.mark.parametrize(
    ("restarted", "cause"), [(False, Cause.USER), (True, None)], ids=["living", "new"]
)
def test_a_vanished_job_was_cancelled_or_a_new_controller_may_have_forgotten_it(
    tmp_path: Path, restarted: bool, cause: Cause | None
) -> None:
    world = World(tmp_path, min_job_age=60, accounting=False)
    world.fill()
    world.clock.advance(30.0)
    task = world.sent()
    ordered_at = world.clock.utc()
    world.known[task.id] = replace(world.known[task.id], ordered_at=ordered_at)
    look(world, task)
    if restarted:
        world.clock.advance(2.0)
        assert world.cluster.crash()
    else:
        world.cluster.jobs.remove(world.job(task))
    report = told(world, task)
    assert (report.cause, report.unclaimed) == (cause, restarted)


def forgotten(
    world: World, *, restarted: bool = True, options: dict[str, bool] | None = None
) -> Task:
    """A task whose run the controller lacks, and whose node has ended it."""
    world.options = {**ONE_NODE, **(options or {})}
    world.clock.advance(30.0)  # the controller's own start is no restart
    task = world.running()
    job = world.job(task)
    if restarted:
        world.cluster.crash()
    if job in world.cluster.jobs:
        world.cluster.forget(job)
    return task


@pytest.mark.parametrize(
    ("options", "again"),
    [({}, True), ({"no-requeue": True}, False), ({"requeue": False}, False)],
)
def test_a_run_that_a_restarted_controller_forgot_is_to_run_again_where_it_may(
    world: World, options: dict[str, bool], again: bool
) -> None:
    """It is waited for like a lost one, and told to end if it lives yet."""
    task = forgotten(world, options=options)
    assert not Path(task.attempt_dir, "cancel").exists()
    report, waited = told_after(world, task)
    assert waited >= world.executor.lost_after_seconds
    assert Path(task.attempt_dir, "cancel").exists()
    found = (report.cause, report.rerun, report.exited)
    assert found == (Cause.NODE_FAIL, again, None)
    assert report.reason == "Slurm's controller was started again and does not know it"


@pytest.mark.parametrize("restarted", [True, False])
def test_no_run_is_lost_while_its_directory_takes_no_writes(
    world: World, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    task = forgotten(world, restarted=restarted)
    with monkeypatch.context() as patched:
        patched.setattr(supervisors, "write_record", refuse)
        assert not world.until(lambda: is_final(world, look(world, task)))
        refusal = "cannot be written: Read-only file system"
        assert world.until(lambda: look(world, task).reason.endswith(refusal))
    report = told(world, task)
    cause = Cause.NODE_FAIL if restarted else None  # by a living one it is lost
    assert (report.cause, report.rerun) == (cause, restarted)


def test_no_run_is_lost_while_its_supervisor_lives_on_this_host(world: World) -> None:
    task = forgotten(world, restarted=False)
    begin = Path(task.attempt_dir, "begin.0.json")
    begun = json.loads(begin.read_text())
    begun["process"] = asdict(Identity.get_own())
    begin.write_text(json.dumps(begun))
    os.utime(task.attempt_dir)
    assert not world.until(lambda: is_final(world, look(world, task)))


def test_a_suspended_run_is_told_as_that_and_goes_on(world: World) -> None:
    task = world.running(RunScript(seconds=20.0))
    world.cluster.suspend(world.job(task))
    world.clock.advance(60.0)
    report = look(world, task)
    assert report.phase is TaskPhase.SUSPENDED
    assert report.reason == "suspended by the cluster"
    world.cluster.resume(world.job(task))
    assert world.until(lambda: look(world, task).phase is TaskPhase.RUNNING)
    assert ended_well(told(world, task))


def fails_to_launch(world: World, task: Task) -> Job:
    job = world.job(task)
    job.run = None
    world.cluster.fail_launch(job)
    return job


def test_a_job_that_is_never_launched_is_released_three_times_and_told(
    world: World,
) -> None:
    task = world.sent()
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
    task = world.running(RunScript(seconds=5.0))
    job = world.job(task)
    world.cluster._end_run(job, job.run, exit_code=0)  # type: ignore[arg-type]
    job.word = "RUNNING"
    fails_to_launch(world, task)
    assert ended_well(told(world, task))
    world.polls(20, world.sent(job="waiting"))
    assert job.word.startswith("CANCELLED")
    assert world.begun(task) == 1


def test_a_job_that_somebody_holds_is_not_released(world: World) -> None:
    world.options = {**ONE_NODE, "hold": True}
    world.polls(60, world.sent())
    assert world.slurm.calls["scontrol"] <= 1  # its configuration


def test_a_job_whose_second_launch_was_refused_is_requeued_and_runs_again(
    world: World,
) -> None:
    task = world.running(RunScript(seconds=20.0))
    world.clock.advance(10.0)
    world.cluster.settle()
    world.cluster.refuse_second_launch(world.job(task))
    job, report = world.job(task), told(world, task)
    assert ("scontrol", "requeue", job.id) in world.slurm.lines
    assert (ended_well(report, run=1), report.cause) == (True, None)
