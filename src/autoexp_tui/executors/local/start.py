"""Starts supervisors on this machine and hears what came of it.

A supervisor leaves our process tree at once and says one line when it has claimed its
attempt, so "started" is certain knowledge. All attempts of a session run under its own
copy of the wrapper, whatever is installed meanwhile.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import py_compile
import re
import secrets
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Final, TypeAlias

from autoexp_tui.engine.executor_port import Busy, Rejected, Submission, Task, Uncertain
from autoexp_tui.executors import wrapper
from autoexp_tui.executors.wrapper import open_private
from autoexp_tui.model.states import Cause
from autoexp_tui.storage.atomic import (
    PASSING,
    PRIVATE,
    Modes,
    find_remedy,
    make_directory,
    make_private,
    write_atomic,
)
from autoexp_tui.storage.attempt_records import Claim, read_attempt
from autoexp_tui.storage.trust import MOST_BYTES, open_checked, read_checked
from autoexp_tui.text.sanitize import clean

TASK_PREFIX = "task."


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """What this machine offers, and how tasks are run on it."""

    wrapper: Path
    python: str
    slots: int = 0
    """Tasks at a time, over all engines and sessions of this user; 0: no limit."""
    slots_dir: Path = Path()
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
    foreign_lost_seconds: float | None = None
    """After which what another host started is lost, when nobody holds its claim's lock
    any more; None: never, for a file system may not tell of locks elsewhere."""
    modes: Modes = PRIVATE


Outcome: TypeAlias = Rejected | Busy | Uncertain | None
"""Of a start; None: the attempt is claimed by the submission."""


def format_executor_id(token: str) -> str:
    return f"{token[:8]}.0"


class Starter:
    """Starts supervisors. One call at a time."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._unreaped: list[subprocess.Popen[bytes]] = []

    def start(self, submission: Submission) -> Outcome:
        """Start the supervisor of its one task, and hear what it says."""
        try:
            return self._start(submission, submission.tasks[0])
        except (OSError, ValueError) as error:
            return _build_failure(error, submission.tasks[0])

    def collect(self) -> None:
        """Collect starters that answered too late, so that none stays a zombie."""
        self._unreaped = [p for p in self._unreaped if p.poll() is None]

    def _start(self, submission: Submission, task: Task) -> Outcome:
        own = self._settings
        if task.resources.gpus > len(own.gpus):
            wanted = task.resources.gpus
            there = f"this machine has {len(own.gpus)}"
            there = there if own.slots else "beside the session's jobs it gets none"
            return Rejected(message=f"wants {wanted} GPUs; {there}")
        make_private(Path(task.attempt_dir))
        claim = read_attempt(task.attempt_dir).claim
        if claim is not None:
            return _resolve_claim(claim, submission.token)
        fields = self._build_fields(submission, task)
        name = f"{TASK_PREFIX}{fields['nonce']}.json"
        task_file = os.path.join(task.attempt_dir, name)
        log_file = os.path.join(task.attempt_dir, "supervisor.log")
        script = self._script if os.path.exists(self._script) else str(own.wrapper)
        with (
            _create_locked(task_file, fields) as held,
            open(log_file, "ab", buffering=0, opener=open_private) as log,
        ):
            process = subprocess.Popen(
                [own.python, "-I", "-S", script, "--detach", task_file],
                stdin=held,  # the supervisor keeps the locked task file
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        try:
            line, _ = process.communicate(timeout=own.start_seconds)
        except subprocess.TimeoutExpired:
            self._unreaped.append(process)
            if process.stdout is not None:
                process.stdout.close()
            message = f"no word of the start after {own.start_seconds:g} s"
            return Uncertain(message=message)
        return _resolve_answer(line, process.returncode, task, submission.token)

    @cached_property
    def _script(self) -> str:
        """The wrapper compiled anew, for one that lies there may be planted: a start is
        spared a third of its time."""
        script = str(self._settings.wrapper)
        with suppress(OSError, py_compile.PyCompileError):  # the source starts as well
            return py_compile.compile(script, f"{script}c", doraise=True) or script
        return script

    def _build_fields(self, submission: Submission, task: Task) -> dict[str, object]:
        own = self._settings
        return {
            "v": 1,
            "token": submission.token,
            "index": 0,
            "nonce": secrets.token_hex(6),
            "executor_id": format_executor_id(submission.token),
            "session": submission.session,
            "submitter": os.uname().nodename,
            "slots": own.slots
            and {
                "dir": str(own.slots_dir),
                "count": own.slots,
                "gpus": task.resources.gpus,
                "gpu_ids": list(own.gpus),
            },
            "grace_seconds": own.grace_seconds,
            "cancel_poll_seconds": own.cancel_poll_seconds,
            "gpu_seconds": own.gpu_seconds,
            "log_mode": own.modes.file,
            "time_limit_seconds": task.resources.time_limit_seconds,
            **build_task_fields(task),
        }


def build_task_fields(task: Task) -> dict[str, object]:
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


def _resolve_answer(line: bytes, status: int, task: Task, token: str) -> Outcome:
    """What a start's word means; `status`: its starter's."""
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        answer = {}
    if answer.get("state") == "claimed":
        return None
    if answer.get("state") == "failed":
        number = answer.get("errno")
        message = str(answer.get("message"))
        error = OSError(number if isinstance(number, int) else 0, message)
        return _build_failure(error, task)
    try:
        claim = read_attempt(task.attempt_dir).claim
    except OSError as error:
        return Uncertain(message=f"the start cannot be looked at: {error}")
    if claim is not None:
        return _resolve_claim(claim, token)
    last = _read_last_line(task.attempt_dir)
    if status <= 0:  # killed, or its child was
        return Busy(message=f"the supervisor died: {last}")
    message = f"the supervisor does not start: {last}"
    return Rejected(message=message, cause=Cause.SUBMIT_ERROR)


def _resolve_claim(claim: Claim, token: str) -> Outcome:
    if claim.token == token:
        return None
    where = f"{claim.executor_id} on {claim.process.host}"
    return Rejected(
        message=f"the attempt is already claimed by {where}", cause=Cause.DUPLICATE
    )


def _build_failure(error: OSError | ValueError, task: Task) -> Rejected | Busy:
    message = f"cannot start {task.job}: {error}"
    if isinstance(error, OSError):
        if remedy := find_remedy(error, "state"):
            message += f". {remedy.rstrip('.')}"
        if error.errno in PASSING:
            return Busy(message=message)
    return Rejected(message=message, cause=Cause.SUBMIT_ERROR)


def _create_locked(path: str, fields: Mapping[str, object]) -> IO[bytes]:
    """A new task file, locked for as long as somebody who inherits it lives: a start is
    on its way (`supervisors.is_start_alive`)."""
    file = open(path, "x+b", opener=open_private)  # noqa: SIM115 - the caller closes
    try:
        with suppress(OSError):  # a file system without locks: its holder is sought
            fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(fields).encode())
        file.flush()
    except BaseException:
        file.close()
        raise
    return file


def _read_last_line(attempt_dir: str) -> str:
    log = Path(attempt_dir, "supervisor.log")
    try:
        with open_checked(log, "session", MOST_BYTES) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4000))
            text = file.read(4000).decode("utf-8", "replace")
    except OSError:
        return "no reason is known"
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason is known"


LONGEST: Final = 2000


def format_command(task: Task, host: str) -> str:
    """A task's command as a shell would take it; no environment."""
    cwd = clean(shlex.quote(os.path.abspath(task.cwd or os.curdir)))
    command = clean(shlex.join(task.command), limit=LONGEST)
    return f"cd {cwd} && {command}  # on {clean(host)}"


_VERSION = re.compile(rb'^WRAPPER_VERSION = "([^"\n]{1,40})"$', re.MULTILINE)


def install_wrapper(session_dir: Path, recorded: str = "") -> Path:
    """The session's wrapper, put there if it has none or another than `recorded`."""
    place = get_wrapper(session_dir)
    if not place.exists() or find_wrapper_problem(session_dir, recorded):
        make_directory(place.parent)
        data = Path(wrapper.__file__).read_bytes()
        write_atomic(place, data, mode=0o700, durable=False)  # its digest is known
    return place


def get_wrapper(session_dir: Path) -> Path:
    return session_dir / "scripts" / "wrapper.py"


def find_wrapper_problem(session_dir: Path, recorded: str) -> str:
    """Why a session's wrapper, by its recorded digest, is not to be used; or empty."""
    place = get_wrapper(session_dir)
    try:
        digest = hash_wrapper(place)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    same = recorded in ("", digest)
    return "" if same else "somebody changed it since the session last used it"


def hash_wrapper(copy: Path) -> str:
    """The digest of a copy; raises OSError where others may have written it."""
    return hashlib.sha256(read_checked(copy, "own")).hexdigest()


def read_wrapper_version(copy: Path) -> str:
    """The version that a copy says it is, or empty; raises OSError."""
    found = _VERSION.search(copy.read_bytes())
    return found[1].decode() if found else ""
