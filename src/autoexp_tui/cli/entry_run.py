"""Runs one job of a plan here and now, without a session, as executors would run it.

The wrapper does it: records, `current.log`, environment and the end of all that the
command leaves behind are the same. Records lie in `entries/` of the state dir, one
directory an attempt; a job that completed leaves word of it, as one of a session does.
Signals go to the wrapper, which passes them on; whoever kills this process outright
ends the job as well.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Final

from autoexp_tui.cli.diagnostics import handle_signals
from autoexp_tui.engine.executor_port import task_of
from autoexp_tui.executors import wrapper
from autoexp_tui.executors.local.start import build_task_fields
from autoexp_tui.executors.slurm.script import with_grace
from autoexp_tui.model.errors import SessionOwned
from autoexp_tui.model.ids import digest
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.storage.atomic import MODES, explaining, link_new, make_directory
from autoexp_tui.storage.done_file import (
    find_done,
    forget_done,
    get_done_path,
    write_done,
)
from autoexp_tui.storage.manifests import get_entry_dir, make_state_dir
from autoexp_tui.storage.output_dir_lock import Living, require_free
from autoexp_tui.storage.provenance import record_of, write_provenance
from autoexp_tui.storage.session_dir import require_ground

_FORWARDED: Final = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
_LOOK_SECONDS: Final = 0.1
_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One job that is to run, and how."""

    plan: Plan
    job: JobSpec
    state_dir: Path
    launcher: Sequence[str] = ()
    """Words in front of the command."""
    grace_seconds: float = 10.0
    """Between asking the command to end and killing it."""

    @property
    def home(self) -> Path:
        """Holds a directory an attempt."""
        return get_entry_dir(self.state_dir, self.plan.plan_id, self.job.name)

    @property
    def command(self) -> tuple[str, ...]:
        """All the words that run."""
        return (*self.launcher, *self.job.command)

    def name_results(self) -> str:
        """Names these results, as sessions name theirs."""
        return f"plan_{self.plan.plan_id}"


def run_entry(entry: Entry, say: Callable[[str], None], *, mirror: bool) -> int:
    """Run the job to its end; its exit status, 128 and the signal's number if killed.

    `say` takes lines for the person; `mirror`: the log is shown on stdout while it
    grows. Raises SessionOwned where a living session, or another start, runs the job.
    """
    make_state_dir(entry.state_dir, entry.plan.share)
    share = entry.plan.share
    modes = MODES[share]
    require_ground(entry.job, entry.plan.base_output_dir, share)
    require_free(Path(entry.job.output_dir), Living(), share)
    with _lock(entry):
        with explaining(entry.home, "make the attempt's directory"):
            numbers = [int(n.name) for n in entry.home.iterdir() if n.name.isdecimal()]
            attempt = max(numbers, default=0) + 1
            place = entry.home / str(attempt)
            place.mkdir(0o700)
        word = get_done_path(Path(entry.job.output_dir))
        make_directory(word.parent, modes.directory, place="output")
        forget_done(Path(entry.job.output_dir))
        record = record_of(entry.plan, entry.state_dir)
        write_provenance(entry.plan, entry.job, record)
        fields = _build_fields(entry, attempt, place)
        task_file = place / "task.json"
        link_new(task_file, json.dumps(fields).encode())  # the claim needs links too
        log = wrapper.Task(dict(fields)).log_path
        say(f"{entry.job.name}: attempt {attempt}, log {log}")
        status = _supervise(task_file, Path(log), mirror=mirror)
        if status == 0:
            write_done(
                Path(entry.job.output_dir), _build_work(entry, attempt), modes.file
            )
        return status


def _build_fields(entry: Entry, attempt: int, place: Path) -> dict[str, object]:
    """The task file: what the wrapper is to do."""
    job = entry.job
    token = digest(entry.plan.plan_id, job.name, attempt)
    in_slurm = bool(wrapper.get_slurm_id())
    made = task_of(job, attempt, str(place), resume=attempt > 1)
    task = replace(made, command=with_grace(entry.command))
    return {
        **build_task_fields(task),
        "v": 1,
        "token": token,
        "nonce": token,
        "index": job.index,
        "session": "",
        "submitter": os.uname().nodename,
        "grace_seconds": entry.grace_seconds,
        "log_mode": MODES[entry.plan.share].file,
        "executor_id": wrapper.get_slurm_id() or f"entry-{token}",
        # Slurm keeps its own time, and its signals tell how a job ended.
        "time_limit_seconds": None if in_slurm else job.resources.time_limit_seconds,
    }


@contextmanager
def _lock(entry: Entry) -> Iterator[None]:
    """Keep others from starting the same entry meanwhile."""
    make_directory(entry.home)
    path = entry.home / "running"
    with explaining(path, "take the lock of the entry"), path.open("a+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SessionOwned(
                f"{entry.job.name} is being run by another process",
                str(path),
                "Wait until it has ended, or end it.",
            ) from None
        yield


def _build_work(entry: Entry, attempt: int) -> DoneWork:
    """What the completed job leaves for plans to come."""
    job = entry.job
    before = [one for one in entry.plan.jobs if one.name in job.depends_on]
    return DoneWork(
        job=job.name,
        session=entry.name_results(),
        mark=entry.name_results(),
        fingerprint=job.fingerprint,
        at=time.time(),
        attempts=attempt,
        upstream={
            name: work.mark
            for name, work in find_done(before, entry.plan.share).items()
        },
    )


def _supervise(task_file: Path, log: Path, *, mirror: bool) -> int:
    """Run the wrapper, pass signals on, and show what the log gains."""
    shown = log.stat().st_size if log.exists() else 0
    arguments = [sys.executable, "-I", "-S", wrapper.__file__, str(task_file)]
    waiting: list[int] = []
    children: list[subprocess.Popen[bytes]] = []

    def pass_on() -> None:
        with suppress(ProcessLookupError, IndexError):
            while children:
                children[0].send_signal(waiting.pop(0))

    def take(number: int, _frame: FrameType | None) -> None:
        waiting.append(number)
        pass_on()

    me = os.getpid()

    def end_with_us() -> None:
        """In the wrapper, before it begins: to be asked to end when we die."""
        if wrapper.PRCTL is not None:
            wrapper.PRCTL(_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != me:
            os.kill(os.getpid(), signal.SIGTERM)

    with handle_signals(dict.fromkeys(_FORWARDED, take)):
        children.append(
            subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=end_with_us,
            )
        )
        pass_on()
        status = None
        while status is None:
            with suppress(subprocess.TimeoutExpired):
                status = children[0].wait(_LOOK_SECONDS)
            if mirror:
                shown = _print_new(log, shown)
        return status if status >= 0 else 128 - status


def _print_new(log: Path, shown: int) -> int:
    """Copy what is new in the log to stdout; how much was shown then."""
    try:
        with log.open("rb") as file:
            file.seek(shown)
            data = file.read()
    except OSError:
        return shown
    if data:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return shown + len(data)
