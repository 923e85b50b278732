"""Starts supervisors on this machine and hears what came of it.

A supervisor leaves our process tree at once and says one line when it has claimed its
attempt, so "started" is certain knowledge. Whether one lives later is not asked here.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TypeAlias

from autoexp_tui.engine.executor_port import Submission, Task
from autoexp_tui.executors.wrapper_copy import compiled
from autoexp_tui.model.states import Cause
from autoexp_tui.storage.atomic import PASSING, PRIVATE, Modes, make_private, remedy_of
from autoexp_tui.storage.attempt_records import Claim, read_attempt
from autoexp_tui.storage.trust import open_session_file

TASK_PREFIX = "task."


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """What this machine offers, and how tasks are run on it."""

    wrapper: Path
    """The session's own copy of the wrapper."""
    python: str
    """The interpreter that runs it."""
    slots: int
    """Tasks at a time, over all engines and sessions of this user."""
    slots_dir: Path
    """On this host, not shared; made, and used only if nobody else can enter it."""
    gpus: tuple[str, ...] = ()
    """Ids as CUDA_VISIBLE_DEVICES takes them."""
    grace_seconds: float = 10.0
    """From SIGTERM to SIGKILL."""
    start_seconds: float = 30.0
    """How long a start may take before its outcome counts as unknown."""
    settle_seconds: float = 2.0
    """How long a lost start is looked for before it counts as never made."""
    cancel_poll_seconds: float = 2.0
    gpu_seconds: float = 30.0
    """Between two samples of the GPUs."""
    modes: Modes = PRIVATE
    """Of logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """The attempt is claimed by this submission."""

    executor_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Nothing was started."""

    message: str
    cause: Cause = Cause.SUBMIT_ERROR
    passing: bool = False
    """Worth another try later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """It may still start."""

    message: str


Outcome: TypeAlias = Took | Failed | Silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A start that has not answered yet."""

    task: Task
    token: str
    executor_id: str
    process: subprocess.Popen[bytes]


def executor_id(token: str, index: int) -> str:
    """How the executor calls a task of a submission."""
    return f"{token[:8]}.{index}"


class Starter:
    """Starts supervisors. One call at a time; not for several threads at once."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._unreaped: list[subprocess.Popen[bytes]] = []

    def arguments(self, task_file: str) -> list[str]:
        """The command that starts a supervisor, as people may repeat it."""
        return self._command(self._settings.wrapper, task_file)

    def _command(self, script: Path, task_file: str) -> list[str]:
        python = self._settings.python
        return [python, "-I", "-S", str(script), "--detach", task_file]

    @cached_property
    def _script(self) -> Path:
        """The wrapper as our own interpreter reads it fastest."""
        wrapper = self._settings.wrapper
        return compiled(wrapper) if self._settings.python == sys.executable else wrapper

    def start(self, submission: Submission, index: int) -> Started | Outcome:
        """Start one task of a submission, unless it was started before."""
        task = submission.tasks[index]
        try:
            return self._start(submission, index, task)
        except (OSError, ValueError) as error:
            return _failed(error, f"cannot start {task.job}")

    def hear(self, started: Started) -> Outcome:
        """Wait for what the start says."""
        assert started.process.stdout is not None
        line = _line(started.process.stdout.fileno(), self._settings.start_seconds)
        started.process.stdout.close()
        if line is None:
            self._unreaped.append(started.process)
            seconds = self._settings.start_seconds
            return Silent(message=f"no word of the start after {seconds:g} s")
        return self._understand(started, line)

    def reap(self) -> None:
        """Collect starters that answered too late, so that none stays a zombie."""
        self._unreaped = [p for p in self._unreaped if p.poll() is None]

    # ......................................................................... inside
    def _start(
        self, submission: Submission, index: int, task: Task
    ) -> Started | Outcome:
        if task.resources.gpus > len(self._settings.gpus):
            return Failed(
                message=f"wants {task.resources.gpus} GPUs; "
                f"this machine has {len(self._settings.gpus)}",
                cause=Cause.REJECTED,
            )
        make_private(Path(task.attempt_dir))
        claim = read_attempt(task.attempt_dir).claim
        if claim is not None:
            return _of(claim, submission.token)
        nonce = secrets.token_hex(6)
        task_file = os.path.join(task.attempt_dir, f"{TASK_PREFIX}{nonce}.json")
        fields = self._fields(submission, index, task, nonce)
        with _locked_file(task_file, fields) as held:
            process = self._spawn(task_file, task.attempt_dir, held)
        return Started(
            task=task,
            token=submission.token,
            executor_id=executor_id(submission.token, index),
            process=process,
        )

    def _spawn(
        self, task_file: str, attempt_dir: str, held: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """The supervisor keeps `held`, the locked task file, as its input."""
        with _open_log(attempt_dir) as log:
            return subprocess.Popen(
                self._command(self._script, task_file),
                stdin=held,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )

    def _fields(
        self, submission: Submission, index: int, task: Task, nonce: str
    ) -> dict[str, object]:
        return {
            "v": 1,
            "token": submission.token,
            "index": index,
            "nonce": nonce,
            "executor_id": executor_id(submission.token, index),
            "session": submission.session,
            "submitter": os.uname().nodename,
            "slots": self._slots(task),
            "grace_seconds": self._settings.grace_seconds,
            "cancel_poll_seconds": self._settings.cancel_poll_seconds,
            "gpu_seconds": self._settings.gpu_seconds,
            "log_mode": self._settings.modes.file,
            "time_limit_seconds": task.resources.time_limit_seconds,
            **task_fields(task),
        }

    def _slots(self, task: Task) -> dict[str, object]:
        return {
            "dir": str(self._settings.slots_dir),
            "count": self._settings.slots,
            "gpus": task.resources.gpus,
            "gpu_ids": list(self._settings.gpus),
        }

    def _understand(self, started: Started, line: bytes) -> Outcome:
        said = _said(line)
        status = _reap(started.process, self._unreaped)
        if said.get("state") == "claimed":
            return Took(executor_id=started.executor_id)
        if said.get("state") == "failed":
            error = OSError(said.get("errno") or 0, str(said.get("message")))
            return _failed(error, f"cannot start {started.task.job}")
        try:
            claim = read_attempt(started.task.attempt_dir).claim
        except OSError as error:
            return Silent(message=f"the start cannot be looked at: {error}")
        return _died(started, status) if claim is None else _of(claim, started.token)


def task_fields(task: Task) -> dict[str, object]:
    """The part of a task file that does not depend on the executor."""
    return {
        "job": task.job,
        "attempt": task.attempt,
        "resume": task.resume,
        "command": list(task.command),
        "env": dict(task.env),
        "cwd": os.path.abspath(task.cwd or os.curdir),
        "output_dir": os.path.abspath(task.output_dir),
        "log_dir": os.path.abspath(task.log_dir),
        "attempt_dir": task.attempt_dir,
    }


def _of(claim: Claim, token: str) -> Outcome:
    if claim.token == token:
        return Took(executor_id=claim.executor_id)
    return Failed(
        message=f"the attempt is already claimed by {claim.executor_id} "
        f"on {claim.process.host}",
        cause=Cause.DUPLICATE,
    )


def _died(started: Started, status: int | None) -> Failed:
    """The start ended without a word: it claimed nothing and never will."""
    last = _last_line(started.task.attempt_dir)
    if status is None or status <= 0:  # killed, or its child was
        return Failed(message=f"the supervisor died: {last}", passing=True)
    return Failed(message=f"the supervisor does not start: {last}")


def _failed(error: OSError | ValueError, doing: str) -> Failed:
    number = error.errno if isinstance(error, OSError) else None
    message = f"{doing}: {error}"
    if isinstance(error, OSError) and (remedy := remedy_of(error, "state")):
        message += f". {remedy.rstrip('.')}"
    return Failed(message=message, passing=number in PASSING)


def _reap(
    process: subprocess.Popen[bytes], unreaped: list[subprocess.Popen[bytes]]
) -> int | None:
    try:
        return process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        unreaped.append(process)
        return None


def _said(line: bytes) -> Mapping[str, object]:
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _line(handle: int, seconds: float) -> bytes | None:
    """What a pipe says up to its first line end or its close; None: not in time."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    deadline = time.monotonic() + seconds
    data = b""
    while not data.endswith(b"\n"):
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        part = os.read(handle, 4096)
        if not part:
            break
        data += part
    return data


def _locked_file(path: str, fields: Mapping[str, object]) -> IO[bytes]:
    """A new task file, locked for as long as somebody who inherits it lives.

    The lock says that a start is on its way (`processes.start_lives`).
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    file = os.fdopen(handle, "r+b")
    try:
        with suppress(OSError):  # a file system without locks: its holder is sought
            fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(fields).encode())
        file.flush()
    except BaseException:
        file.close()
        raise
    return file


def _open_log(attempt_dir: str) -> IO[bytes]:
    path = os.path.join(attempt_dir, "supervisor.log")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.fdopen(os.open(path, flags, 0o600), "ab", buffering=0)


def _last_line(attempt_dir: str) -> str:
    """The supervisor's last words."""
    try:
        with open_session_file(Path(attempt_dir, "supervisor.log")) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4000))
            text = file.read(4000).decode("utf-8", "replace")
    except OSError:
        return "no reason is known"
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason is known"
