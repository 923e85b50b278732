"""The local executor: starts, kills, doubts; beyond what every executor promises."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.engine.executor_port import (
    Accepted,
    Busy,
    Rejected,
    Submission,
    Task,
    TaskPhase,
    TaskReport,
    Uncertain,
)
from autoexp_tui.engine.ports import Clock
from autoexp_tui.executors import supervisors
from autoexp_tui.executors.local import executor as local
from autoexp_tui.executors.local.executor import (
    LocalExecutor,
    build_local_settings,
    list_gpus,
)
from autoexp_tui.executors.local.start import LONGEST, format_command
from autoexp_tui.executors.supervisors import kill_left_behind, send_term
from autoexp_tui.model.specs import Resources
from autoexp_tui.model.states import Cause
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.processes import Identity, read_start
from autoexp_tui.testing.clock import ManualClock
from tests.contract.test_local_executor import LocalWorld
from tests.executors.wrapper_runs import all_pids, environment_of, until

TOKEN = "0123456789ab"
QUEUED, RUNNING, ENDED = TaskPhase.QUEUED, TaskPhase.RUNNING, TaskPhase.ENDED


class Machine(LocalWorld):
    """The contract's machine, with tasks of any script and engines of any settings."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.settings = replace(self.settings, settle_seconds=2.0)

    def made(self, clock: Clock | None = None, **more: object) -> LocalExecutor:
        settings = replace(self.settings, **more)  # type: ignore[arg-type]
        return LocalExecutor(settings, clock or SystemClock())

    def script(self, script: str, job: str = "job", **more: object) -> Task:
        task = self.command(job, ("sh", "-c", script))
        self.tasks[-1] = replace(task, **more)  # type: ignore[arg-type]
        return self.tasks[-1]

    def started(self, script: str, **more: Any) -> tuple[LocalExecutor, Task]:
        executor = self.made(more.pop("clock", None))
        task = self.script(script, **more)
        assert isinstance(executor.submit(one(task)), Accepted)
        return executor, task

    def begun_run(self, script: str, **more: Any) -> tuple[LocalExecutor, Task]:
        executor, task = self.started(script, **more)
        wait_for(Path(task.attempt_dir, "begin.0.json"))
        return executor, task

    def ran(self) -> list[str]:
        """What commands have written into `ran`."""
        texts = (path.read_text() for path in (self.root / "out").glob("*/ran"))
        return sorted("".join(texts).split())


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def one(task: Task, *more: Task, token: str = TOKEN) -> Submission:
    return Submission(token=token, session="k7f2", tasks=(task, *more))


def look(executor: LocalExecutor, task: Task) -> TaskReport:
    return executor.poll([task]).reports[0]


def ended(executor: LocalExecutor, task: Task) -> TaskReport:
    assert until(lambda: look(executor, task).phase is ENDED)
    return look(executor, task)


def exit_code(executor: LocalExecutor, task: Task) -> int | None:
    """How it ended by its own record."""
    exited = ended(executor, task).exited
    assert exited is not None
    return exited.exit_code


def record(task: Task, name: str) -> dict[str, Any]:
    found = json.loads(Path(task.attempt_dir, name).read_text())
    assert isinstance(found, dict)
    return found


def supervisor_of(task: Task) -> int:
    return int(record(task, "claim")["process"]["pid"])


def wait_for(path: Path) -> None:
    assert until(path.exists), f"{path} did not come"


def fields_of(pid: int) -> list[str]:
    """State, parent and what follows of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def modes(*paths: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in paths}


# ------------------------------------------------------------------------------ starts
def test_a_started_task_is_claimed_and_neither_ours_nor_our_child(
    machine: Machine,
) -> None:
    task = machine.script("sleep 30")
    answer = machine.made().submit(one(task))
    assert isinstance(answer, Accepted)
    assert answer.executor_ids == ("01234567.0",)
    assert answer.sent.startswith(f"cd {task.cwd} && sh -c 'sleep 30'  # on ")
    pid = supervisor_of(task)
    assert os.getsid(pid) != os.getsid(0)
    assert os.getpgid(pid) != os.getpgid(0)
    assert int(fields_of(pid)[1]) != os.getpid()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    (file,) = Path(task.attempt_dir).glob("task.*.json")
    assert "record_patience" not in json.loads(file.read_text())  # it has no end


def test_the_wrapper_starts_only_as_it_was_compiled_by_us_or_not_at_all(
    machine: Machine,
) -> None:
    compiled = Path(f"{machine.settings.wrapper}c")
    compiled.write_bytes(b"planted")
    executor, _ = machine.started("true")
    compiled.unlink()
    second = one(machine.script("true", "second"), token=TOKEN[::-1])
    assert isinstance(executor.submit(second), Accepted)
    compiled.mkdir()
    third = one(machine.script("true", "third"), token=TOKEN[1:] + "0")
    assert isinstance(machine.made().submit(third), Accepted)


_ENGINE = """
import functools, os, pickle, signal, subprocess, sys
from autoexp_tui.executors.local import start as local_start
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.executors.local.executor import LocalExecutor

def die_and_stop_the_start():
    (settings.slots_dir.parent / "stopped").write_text(str(os.getpid()))
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGSTOP)

settings, submission = pickle.load(sys.stdin.buffer)
popen = functools.partial(subprocess.Popen, preexec_fn=die_and_stop_the_start)
local_start.subprocess.Popen = popen
LocalExecutor(settings, SystemClock()).submit(submission)
"""
"""An engine that submits, and dies between fork and exec."""


def test_files_of_an_attempt_are_for_its_owner_alone(machine: Machine) -> None:
    executor, task = machine.started("exit 0", env={"SECRET": "x"})
    ended(executor, task)
    directory = Path(task.attempt_dir)
    assert modes(directory, directory.parent, directory.parent.parent) == {0o700}
    assert {mode & 0o077 for mode in modes(*directory.iterdir())} == {0}
    home = machine.root / "new"  # of one that never came
    executor.cancel([machine.script("exit 0", attempt_dir=str(home / "a" / "1"))])
    assert modes(home, home / "a", home / "a" / "1") == {0o700}


def test_what_no_retry_starts_is_a_rejection(machine: Machine) -> None:
    error, gpus = Cause.SUBMIT_ERROR, {"resources": Resources(gpus=3)}
    no_gpu = "wants 3 GPUs; this machine has 2"
    rows: list[tuple[Any, Any, Cause, str]] = [
        ({"python": "/no/python"}, {}, error, "/no/python"),
        ({"wrapper": Path("/none.py")}, {}, error, "none.py"),
        ({}, {"attempt_dir": "/dev/null/1"}, error, "Not a directory"),
        ({"gpus": ("0", "1")}, gpus, Cause.REJECTED, no_gpu),
    ]
    for settings, task, cause, said in rows:
        answer = machine.made(**settings).submit(one(machine.script("exit 0", **task)))
        machine.tasks.clear()
        assert isinstance(answer, Rejected)
        assert (answer.cause, said in answer.message) == (cause, True)


def test_a_want_of_room_is_no_rejection(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (errno.ENOSPC, errno.EAGAIN, errno.EMFILE):

        def fail(*_: object, number: int = number, **__: object) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "Popen", fail)
            answer = machine.made().submit(one(machine.script("exit 0")))
        assert isinstance(answer, Busy)


def _children() -> set[int]:
    """Our child processes, zombies too; a worker of the test run may have others."""
    found = set()
    for pid in all_pids():
        with suppress(OSError):
            found |= {pid} if int(fields_of(pid)[1]) == os.getpid() else set()
    return found


def test_a_start_without_a_word_is_in_doubt_as_long_as_it_lives(
    machine: Machine,
) -> None:
    mute = machine.root / "mute.py"
    mute.write_text("import time\ntime.sleep(60)\n")
    executor, before = machine.made(wrapper=mute, start_seconds=0.3), _children()
    task = machine.script("exit 0")
    assert isinstance(executor.submit(one(task)), Uncertain)
    next_engine = machine.made(settle_seconds=0.0)
    assert next_engine.adopt([one(task)]).absent == ()
    assert look(next_engine, task).phase is QUEUED
    for pid in all_pids():
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"--detach" in words and os.fsencode(task.attempt_dir) in words:
                os.kill(pid, signal.SIGKILL)
    assert until(lambda: executor.poll([]) and _children() == before)
    assert next_engine.adopt([one(task)]).absent == (TOKEN,)
    assert look(next_engine, task).phase is ENDED


def test_a_supervisor_that_dies_before_its_claim_took_nothing(machine: Machine) -> None:
    dying = machine.root / "dying"
    dying.write_text("#!/bin/sh\nkill -KILL $$\n")
    dying.chmod(0o755)
    task = machine.script("echo ran >> ran")
    assert isinstance(machine.made(python=str(dying)).submit(one(task)), Busy)
    executor = machine.made()
    assert isinstance(executor.submit(one(task)), Accepted)
    ended(executor, task)
    assert machine.ran() == ["ran"]


def test_tasks_that_come_together_are_to_be_sent_apart(machine: Machine) -> None:
    both = [machine.script("exit 0", name) for name in "ab"]
    machine.tasks.clear()
    answer = machine.made().submit(one(*both))
    assert isinstance(answer, Rejected)
    assert answer.cause is Cause.SUBMIT_ERROR


def test_two_engines_that_send_the_same_submission_at_once_start_it_once(
    machine: Machine,
) -> None:
    """Another submission of the attempt is a duplicate."""
    task = machine.script("echo ran >> ran; sleep 0.2")
    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(machine.made().submit, one(task)) for _ in range(4)]
        answers = [answer.result() for answer in sent]
    assert [type(answer) for answer in answers] == [Accepted] * 4
    answer = machine.made().submit(one(task, token="another"))
    assert isinstance(answer, Rejected)
    assert (answer.cause, "01234567.0" in answer.message) == (Cause.DUPLICATE, True)
    ended(machine.made(), task)
    assert machine.ran() == ["ran"]


# ----------------------------------------------------------------------- what is told
def test_a_time_limit_is_the_cause(machine: Machine) -> None:
    limit = Resources(time_limit_seconds=0.2)
    report = ended(*machine.started("sleep 30", resources=limit))
    assert (report.cause, report.exited is None) == (Cause.TIMEOUT, False)


@pytest.mark.parametrize(
    ("number", "cause"),
    [(signal.SIGSTOP, Cause.USER), (signal.SIGTERM, None)],
    ids=["stopped, and cancelled", "ended by hand"],
)
def test_a_supervisor_hears_a_cancel_though_stopped_and_a_signal_alone_is_none(
    number: int, cause: Cause | None, machine: Machine
) -> None:
    executor, task = machine.begun_run("exec sleep 60")
    os.kill(supervisor_of(task), number)
    if cause:
        executor.cancel([task])
    report = ended(executor, task)
    assert (report.cause, report.exited is not None) == (cause, True)


def test_a_task_that_waits_for_a_slot_says_so(machine: Machine) -> None:
    machine.settings = replace(machine.settings, slots=1)
    executor, _ = machine.begun_run("sleep 30", job="first")
    second = machine.script("exit 0", "second")
    executor.submit(one(second, token="other"))
    report = look(executor, second)
    taken = "waits for a slot: the one of this machine is taken, by session k7f2"
    assert (report.phase, report.reason) == (QUEUED, taken)


def looks(executor: LocalExecutor, task: Task, clock: ManualClock) -> list[TaskReport]:
    found = []
    for _ in range(60):
        clock.advance(10.0)
        found.append(look(executor, task))
    return found


def is_lost(reports: list[TaskReport]) -> bool:
    """Whether the engine would have called it lost at any of these looks."""
    long = LocalExecutor.lost_after_seconds
    return any(one.phase is ENDED and one.gone_for >= long for one in reports)


def test_a_task_without_traces_is_gone_for_as_long_as_somebody_looked(
    machine: Machine, clock: ManualClock
) -> None:
    executor, task = machine.made(clock), machine.script("exit 0")
    assert look(executor, task).gone_for == 0.0
    for _ in range(4):
        clock.advance(1.0)
        clock.set_utc(0.0)
        report = look(executor, task)
    assert report.gone_for == 4.0
    clock.advance(600.0)
    assert look(executor, task).gone_for < 4.0 + executor.lost_after_seconds
    assert is_lost(looks(executor, task, clock))
    elsewhere = replace(task, attempt_dir="/proc/nowhere/attempts/job/1")
    assert not is_lost(looks(executor, elsewhere, clock))  # it takes no records


def forge(task: Task, **process: object) -> None:
    """A claim and a begun run of a supervisor that is not on this machine any more."""
    directory = Path(task.attempt_dir)
    directory.mkdir(parents=True, exist_ok=True)
    claim = {
        "token": TOKEN,
        "executor_id": "01234567.0",
        "nonce": "n",
        "claimed_at": 5.0,
        "process": {**asdict(Identity.get_own()), **process},
    }
    begin = {**claim, "run": 0, "began_at": 6.0, "log_path": "/log"}
    (directory / "claim").write_text(json.dumps(claim))
    (directory / "begin.0.json").write_text(json.dumps(begin))


def test_a_pid_that_was_given_to_another_process_is_not_the_supervisor(
    machine: Machine, clock: ManualClock
) -> None:
    for earlier in ({"started": "1"}, {"boot": "an earlier one"}):
        task, executor = machine.script("exit 0", *earlier), machine.made(clock)
        forge(task, **earlier)  # our own pid, of another time
        assert look(executor, task).phase is ENDED
        assert executor.cancel([task]).ok  # and it did not end us
    me = Identity.get_own()
    assert not send_term(replace(me, started="1"))
    assert not send_term(replace(me, pid=2**22 - 1))


def test_a_claim_that_comes_while_a_poll_looks_is_not_a_dead_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = machine.script("exit 0")
    Path(task.attempt_dir).mkdir(parents=True)
    (Path(task.attempt_dir) / "task.n1.json").write_text("{}")
    monkeypatch.setattr(local, "is_start_alive", lambda _: bool(forge(task)))  # type: ignore[func-returns-value]
    assert look(machine.made(), task).phase is RUNNING


def test_a_supervisor_that_cannot_be_seen_is_never_said_to_be_gone(
    machine: Machine, clock: ManualClock
) -> None:
    task, executor = machine.script("exit 0"), machine.made(clock)
    forge(task, host="elsewhere", machine="other", boot="other", pid=1)
    for _ in range(3):
        report = look(executor, task)
        assert report.phase is RUNNING
        assert "elsewhere, whose processes cannot be seen" in report.reason
        clock.advance(10_000)
    contained = machine.script("exit 0", "contained")
    forge(contained, namespace="pid:[1]", pid=1)
    with Path(contained.attempt_dir, "claim").open("rb") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        assert look(executor, contained).phase is RUNNING
    assert look(executor, contained).phase is ENDED


def test_beside_what_another_host_let_go_of_is_lost_only_after_long(
    machine: Machine, clock: ManualClock
) -> None:
    """As an engine does that took a session over from there."""
    task = machine.script("exit 0")
    executor = machine.made(clock, slots=0, foreign_lost_seconds=300.0)
    forge(task, host="elsewhere", machine="other", boot="other", pid=1)

    def look_on(seconds: float) -> TaskReport:
        for _ in range(int(seconds / 2)):
            look(executor, task)
            clock.advance(2.0)
        return look(executor, task)

    with Path(task.attempt_dir, "claim").open("rb") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        assert look_on(1000.0).phase is RUNNING
    before, after = look_on(290.0), look_on(20.0)
    assert (before.phase, "of elsewhere" in before.reason) == (ENDED, True)
    assert before.gone_for < executor.lost_after_seconds <= after.gone_for
    record = {"run": 0, "ended_at": 9.0, "exit_code": 3}
    begun = json.loads(Path(task.attempt_dir, "begin.0.json").read_text())
    Path(task.attempt_dir, "exit.0.json").write_text(json.dumps({**begun, **record}))
    assert exit_code(executor, task) == 3
    started = machine.script("exit 0", "started")
    Path(started.attempt_dir).mkdir(parents=True)
    file = Path(started.attempt_dir) / "task.n1.json"
    file.write_text(json.dumps({"submitter": "elsewhere"}))
    answers = []
    for seconds in (0.0, 290.0, 20.0):
        clock.advance(seconds)
        answers.append(executor.adopt([one(started)]).absent)
    assert answers == [(), (), (TOKEN,)]


# ------------------------------------------------------------------ what is left behind
def kill_both(task: Task) -> None:
    """Kill supervisor and guard so that neither sees the other die."""
    pids = (record(task, "begin.0.json")["guard_pid"], supervisor_of(task))
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


def test_what_both_killed_supervisors_left_is_ended_by_the_next_look(
    machine: Machine,
) -> None:
    """What has no environment is known by the command's session."""
    families = (
        "setsid sleep 60 & (setsid sleep 60 &) ; env -i sleep 60 & echo $! > left"
    )
    executor, task = machine.begun_run(f"{families}; exec sleep 60")
    path = Path(task.output_dir, "left")
    assert until(lambda: path.exists() and path.read_text())
    left = int(path.read_text())
    assert until(lambda: environment_of(left) == [b""] and machine.living(task) == 3)
    kill_both(task)
    assert ended(executor, task).exited is None
    assert until(lambda: not machine.living(task) and read_start(left) is None)


def test_a_session_that_was_given_the_number_since_is_left_alone() -> None:
    words = ["sleep", "60"]
    with subprocess.Popen(words, env={}, start_new_session=True) as other:
        started = read_start(other.pid)
        assert started
        for since in (str(int(started) - 1), "", str(int(started) + 1)):
            assert kill_left_behind("/nowhere", (other.pid, since)) == 0
        assert kill_left_behind("/nowhere", (other.pid, started)) == 1


# ---------------------------------------------------- records that cannot be written
def refuse_exit(task: Task, pid: int) -> Path:
    """Something in the way of a process's exit record; the rest may be written."""
    path = Path(task.attempt_dir, f".exit.0.json.{os.uname().nodename}.{pid}.tmp")
    path.mkdir()
    return path


def refused(machine: Machine, clock: ManualClock) -> tuple[LocalExecutor, Task, Path]:
    """A job that has ended with 0 and cannot say so; what is in its way."""
    script = "touch up; while [ ! -e go ]; do sleep 0.01; done; touch over"
    executor, task = machine.started(script, clock=clock)
    out = Path(task.output_dir)
    wait_for(out / "up")
    in_the_way = refuse_exit(task, supervisor_of(task))
    (out / "go").touch()
    wait_for(out / "over")
    command = record(task, "begin.0.json")["command_pid"]
    assert until(lambda: read_start(command) is None)
    return executor, task, in_the_way


def test_while_the_guard_tries_for_a_dead_supervisor_nothing_is_lost(
    machine: Machine, clock: ManualClock
) -> None:
    """Nor while the supervisor itself tries."""
    executor, task, _ = refused(machine, clock)
    assert {one.phase for one in looks(executor, task, clock)} == {RUNNING}
    in_the_way = refuse_exit(task, record(task, "begin.0.json")["guard_pid"])
    os.kill(supervisor_of(task), signal.SIGKILL)
    assert until(lambda: read_start(supervisor_of(task)) is None)
    assert {one.phase for one in looks(executor, task, clock)} == {RUNNING}
    in_the_way.rmdir()
    assert exit_code(executor, task) == 0


@pytest.mark.parametrize("both_gone", [False, True])
def test_a_copy_of_the_end_counts_whoever_still_tries(
    machine: Machine, both_gone: bool, clock: ManualClock
) -> None:
    executor, task, _ = refused(machine, clock)
    if both_gone:
        kill_both(task)
    look(executor, task)
    begin = record(task, "begin.0.json")
    ends = {"v": 1, "run": 0, "ended_at": 9.0, "exit_code": 0, "signal": None}
    copy = Path(begin["exit_copy"])
    copy.parent.mkdir(exist_ok=True)
    copy.write_text(json.dumps({**ends, "nonce": begin["nonce"]}))
    assert exit_code(executor, task) == 0


def test_nothing_is_lost_while_its_directory_refuses_a_record(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    executor, task = machine.begun_run("exec sleep 60", clock=clock)
    kill_both(task)
    assert until(lambda: read_start(supervisor_of(task)) is None)
    with monkeypatch.context() as patched:
        patched.setattr(supervisors, "write_record", refuse)
        reports = looks(executor, task, clock)
    assert not is_lost(reports)
    refusal = f"{task.attempt_dir} cannot be written: Read-only file system"
    assert refusal in {one.reason for one in reports}
    assert is_lost(looks(executor, task, clock))
    assert not [name for name in os.listdir(task.attempt_dir) if "probe" in name]


@pytest.mark.parametrize("above", ["", "/../.."], ids=["its own", "all attempts"])
def test_a_job_that_removes_its_records_is_not_lost_and_that_is_told(
    above: str, machine: Machine
) -> None:
    place = f"$(realpath $AUTOEXP_ATTEMPT_DIR{above})"
    executor, task = machine.started(f"rm -r {place}; sleep 0.5; exit 3")
    wait_for(Path(task.attempt_dir, "exit.0.json"))
    assert exit_code(executor, task) == 3
    tampering = look(executor, task).tampering
    assert "was removed, changed or forged while it ran" in tampering


# ----------------------------------------------------------------------------- in doubt
def test_what_was_sent_again_is_absent_only_after_another_look_for_it(
    machine: Machine, clock: ManualClock
) -> None:
    task, executor = machine.script("exit 0"), machine.made(clock, python="/no/python")
    for _ in range(2):
        assert executor.adopt([one(task)]).absent == ()
        clock.advance(3.0)
        assert executor.adopt([one(task)]).absent == (TOKEN,)
        assert isinstance(executor.submit(one(task)), Rejected)


def test_a_start_of_another_host_is_waited_for_longer(
    machine: Machine, clock: ManualClock
) -> None:
    task, executor, found = machine.script("exit 0"), machine.made(clock), []
    Path(task.attempt_dir).mkdir(parents=True)
    file = Path(task.attempt_dir) / "task.n1.json"
    file.write_text(json.dumps({"submitter": "elsewhere"}))
    for seconds in (0.0, 30.0, 31.0):
        clock.advance(seconds)
        found.append(executor.adopt([one(task)]).absent)
    assert found == [(), (), (TOKEN,)]


def test_records_that_cannot_be_looked_at_decide_nothing(
    machine: Machine, clock: ManualClock
) -> None:
    loop = machine.root / "loop"
    loop.symlink_to(loop)
    task, executor = (
        machine.script("exit 0", attempt_dir=str(loop)),
        machine.made(clock),
    )
    machine.tasks.clear()
    report = look(executor, task)
    assert (report.phase, "symbolic links" in report.reason) == ("unknown", True)
    for _ in range(2):
        answer = executor.adopt([one(task)])
        assert (answer.found, answer.absent) == ((), ())
        assert "symbolic links" in answer.error
        clock.advance(100.0)


def is_found(executor: LocalExecutor, task: Task) -> bool:
    answer = executor.adopt([one(task)])
    assert answer.absent == ()
    return bool(answer.found)


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_a_start_that_is_not_yet_the_wrapper_is_never_absent(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, locks: bool, clock: ManualClock
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if not locks:
        monkeypatch.setattr(fcntl, "flock", refuse)
    task = machine.script("echo ran >> ran")
    engine = subprocess.run(
        [sys.executable, "-c", _ENGINE],
        input=pickle.dumps((machine.settings, one(task))),
        start_new_session=True,
        check=False,
    )
    assert engine.returncode == -signal.SIGKILL
    start = int((machine.root / "stopped").read_text())
    assert until(lambda: fields_of(start)[0] == "T")
    executor = machine.made(clock, settle_seconds=0.0)
    for _ in range(3):
        assert executor.adopt([one(task)]).absent == ()
        assert look(executor, task).phase is QUEUED
        clock.advance(1000.0)
    os.kill(start, signal.SIGCONT)
    assert until(lambda: is_found(executor, task))
    ended(executor, task)
    assert machine.ran() == ["ran"]


# -------------------------------------------------------------------------- the machine
def test_the_machine_is_described_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,GPU-ab,-1")
    settings = build_local_settings(Path("/wrapper.py"))
    assert settings.slots == len(os.sched_getaffinity(0))
    assert settings.gpus == ("0", "GPU-ab")
    assert build_local_settings(Path("/wrapper.py"), slots=7).slots == 7
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    names = ["nvidia10", "nvidia2", "nvidiactl", "null"]
    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", lambda _: names)
        assert list_gpus() == ("2", "10")


def test_a_start_is_told_as_what_it_runs_and_where_cleaned_and_bounded(
    machine: Machine,
) -> None:
    words = ("python", "train.py", "--note=two words")
    task = machine.script("", command=words, cwd="/data/my runs", env={"TOKEN": "x"})
    told = "cd '/data/my runs' && python train.py '--note=two words'  # on node7"
    assert format_command(task, "node7") == told
    hostile = replace(task, command=("echo", "\x1b]52;c;eA==\x07" + "x" * 9000))
    told = format_command(hostile, "node7")
    assert "\x1b" not in told
    assert len(told) < LONGEST + 100
