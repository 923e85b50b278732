"""autoexp-run-sweep-entry: runs one job of a manifest here, in the foreground.

For arrays of one's own: without --index and --job it is the entry whose index
SLURM_ARRAY_TASK_ID has. Its exit status is the job's.
"""

# The wrapper runs it as it does for executors: records, `current.log`, environment and
# the end of all that the command leaves behind are the same. Records lie in `entries/`
# of the state dir, one directory an attempt; a job that completed leaves word of it, as
# one of a session does. Signals go to the wrapper, which passes them on; whoever kills
# this process outright ends the job as well.

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from autoexp_tui.cli.diagnostics import (
    ExitCode,
    handle_signals,
    make_entry,
    print_json,
    say,
)
from autoexp_tui.cli.executors import find_launcher, is_for_slurm, read_numbers
from autoexp_tui.cli.options import VERSION, build_parser, option
from autoexp_tui.conditions.kinds import Approval
from autoexp_tui.engine.executor_port import task_of
from autoexp_tui.executors import wrapper
from autoexp_tui.executors.local.start import build_task_fields
from autoexp_tui.executors.slurm.script import with_grace
from autoexp_tui.model.condition import Condition, describe, walk
from autoexp_tui.model.errors import NotConfirmed, SessionOwned, UsageError
from autoexp_tui.model.ids import digest
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.probes.config_files import STATE_DIR_VARIABLE
from autoexp_tui.storage.atomic import MODES, explaining, link_new, make_directory
from autoexp_tui.storage.done_file import (
    find_done,
    forget_done,
    get_done_path,
    read_done,
    write_done,
)
from autoexp_tui.storage.manifests import get_entry_dir, make_state_dir, read_manifest
from autoexp_tui.storage.output_dir_lock import Living, require_free
from autoexp_tui.storage.provenance import record_of, write_provenance
from autoexp_tui.storage.session_dir import require_ground
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import join_some

ARRAY_INDEX = "SLURM_ARRAY_TASK_ID"
_MOST_LISTED = 12
_FORWARDED: Final = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
_LOOK_SECONDS: Final = 0.1
_PDEATHSIG: Final = 1

_FLAGS = (
    option("--manifest", "the plan", "FILE"),
    option("--index", "the entry, by its index", "N", type=int, default=None),
    option("--job", "the entry, by the job's name", "NAME"),
    option(
        "--state-dir",
        "where records go (or AUTOEXP_STATE_DIR, or as the plan says)",
        "DIR",
    ),
    option("--force", "run it though it is done, or its start conditions are not met"),
    option("--print", "show what would run, and run nothing"),
    option("--json", "with --print: one line of JSON"),
    VERSION,
)


def main(argv: Sequence[str]) -> int:
    """Run one entry: the job's exit status, or why it does not run."""
    made = build_parser("autoexp-run-sweep-entry", __doc__, _FLAGS)
    args = made.parse_intermixed_args(list(argv))
    if not args.manifest:
        raise UsageError(
            "which plan?",
            hint="--manifest FILE: autoexp-plan writes one, and prints its path.",
        )
    plan = read_manifest(Path(args.manifest), run=not args.print)
    job = _choose_job(plan, args)
    launcher = find_launcher(plan) if is_for_slurm(plan) else ()
    command = (*launcher, *job.command)
    if args.print:
        _print_entry(job, command, as_json=args.json)
        return ExitCode.OK
    if not args.force and job.fingerprint and _is_done(job, plan):
        say(f"{job.name} is done already; --force runs it again")
        return ExitCode.OK
    unmet = [] if args.force else list_unmet(job, plan)
    if unmet:
        raise NotConfirmed(
            "\n  - ".join(["its start conditions are not met", *unmet]),
            job.name,
            "--force runs it all the same; a session waits for them: autoexp-run "
            "--manifest FILE",
        )
    place = args.state_dir or os.environ.get(STATE_DIR_VARIABLE, "") or plan.state_dir
    return _run_entry(plan, job, command, Path(place).absolute())


def _choose_job(plan: Plan, args: argparse.Namespace) -> JobSpec:
    index, task = args.index, os.environ.get(ARRAY_INDEX, "")
    if index is None and not args.job and task.isdecimal():
        index = int(task)
    names = [f"{job.index} {clean(job.name)}" for job in plan.jobs]
    entries = f"entries: {join_some(names, _MOST_LISTED)}"
    if index is None and not args.job:
        hint = f"--index N, --job NAME, or {ARRAY_INDEX}. {entries}"
        raise UsageError("which entry?", hint=hint)
    for job in plan.jobs:
        if args.job in ("", job.name) and index in (None, job.index):
            return job
    raise UsageError(f"the plan has no entry {args.job or index}", hint=entries)


def _print_entry(job: JobSpec, command: Sequence[str], *, as_json: bool) -> None:
    cwd = os.path.abspath(job.cwd or os.curdir)
    if as_json:
        print_json(
            {
                "index": job.index,
                "name": job.name,
                "command": list(command),
                "cwd": cwd,
                "env": dict(job.env),
                "output_dir": job.output_dir,
                "log_path_current": job.log_path_current,
                "start_conditions": len(job.start_conditions),
            }
        )
        return
    words = [f"{name}={value}" for name, value in job.env.items()]
    before = f"env {shlex.join(words)} " if words else ""
    print(f"# {job.index} {clean(job.name)}\ncd {shlex.quote(cwd)}")
    print(f"{before}{shlex.join(command)}")


def list_unmet(job: JobSpec, plan: Plan) -> list[str]:
    """Why a job may not start now, in words; empty: it may.

    What it depends on counts when it left word that it is done; other conditions are a
    session's to look at.
    """
    waits_for = job.depends_on if job.start_conditions else ()
    before = [one for one in plan.jobs if one.name in waits_for]
    left = [f"{one.name} is not done" for one in before if not _is_done(one, plan)]
    looked_at: Sequence[Condition] = job.start_conditions
    if before:
        parts = [part for one in looked_at for part in walk(one)]
        looked_at = [part for part in parts if isinstance(part, Approval)]
    return [*left, *map(describe, looked_at)]


def _is_done(job: JobSpec, plan: Plan) -> bool:
    work = read_done(Path(job.output_dir), plan.share)
    planned = (job.name, job.fingerprint)
    return work is not None and (work.job, work.fingerprint) == planned


def _run_entry(
    plan: Plan, job: JobSpec, command: Sequence[str], state_dir: Path
) -> int:
    """Run the job to its end; its exit status, 128 and the signal's number if killed.

    Raises SessionOwned where a living session, or another start, runs the job.
    """
    make_state_dir(state_dir, plan.share)
    require_ground(job, plan.base_output_dir, plan.share)
    output = Path(job.output_dir)
    require_free(output, Living(), plan.share)
    home = get_entry_dir(state_dir, plan.plan_id, job.name)
    with _lock(home, job.name):
        with explaining(home, "make the attempt's directory"):
            numbers = [int(n.name) for n in home.iterdir() if n.name.isdecimal()]
            attempt = max(numbers, default=0) + 1
            place = home / str(attempt)
            place.mkdir(0o700)
        modes = MODES[plan.share]
        make_directory(get_done_path(output).parent, modes.directory, place="output")
        forget_done(output)
        write_provenance(plan, job, record_of(plan, state_dir))
        fields = _build_fields(plan, job, command, place)
        task_file = place / "task.json"
        link_new(task_file, json.dumps(fields).encode())  # the claim needs links too
        log = wrapper.Task(dict(fields)).log_path
        say(f"{job.name}: attempt {attempt}, log {log}")
        status = _supervise(task_file, Path(log))
        if status == 0:
            name = f"plan_{plan.plan_id}"  # of these results, as sessions name theirs
            before = [one for one in plan.jobs if one.name in job.depends_on]
            works = find_done(before, plan.share).items()
            done = DoneWork(
                job=job.name,
                session=name,
                mark=name,
                fingerprint=job.fingerprint,
                at=time.time(),
                attempts=attempt,
                upstream={name: work.mark for name, work in works},
            )
            write_done(output, done, modes.file)
        return status


def _build_fields(
    plan: Plan, job: JobSpec, command: Sequence[str], place: Path
) -> dict[str, object]:
    attempt = int(place.name)
    token, slurm_id = digest(plan.plan_id, job.name, attempt), wrapper.get_slurm_id()
    made = task_of(job, attempt, str(place), resume=attempt > 1)
    return {
        **build_task_fields(replace(made, command=with_grace(command))),
        "v": 1,
        "token": token,
        "nonce": token,
        "index": job.index,
        "session": "",
        "submitter": os.uname().nodename,
        "grace_seconds": 10.0,
        **read_numbers(plan, "grace_seconds"),
        "log_mode": MODES[plan.share].file,
        "executor_id": slurm_id or f"entry-{token}",
        # Slurm keeps its own time, and its signals tell how a job ended.
        "time_limit_seconds": None if slurm_id else job.resources.time_limit_seconds,
    }


@contextmanager
def _lock(home: Path, job: str) -> Iterator[None]:
    """Keep others from starting the same entry meanwhile."""
    make_directory(home)
    path = home / "running"
    with explaining(path, "take the lock of the entry"), path.open("a+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SessionOwned(
                f"{job} is being run by another process",
                str(path),
                "Wait until it has ended, or end it.",
            ) from None
        yield


def _supervise(task_file: Path, log: Path) -> int:
    """Run the wrapper, pass signals on, and show on stdout what the log gains."""
    # Under Slurm stdout is a file beside the log: it need not hold all of it again.
    mirror = not os.environ.get("SLURM_JOB_ID")
    shown = log.stat().st_size if log.exists() else 0
    arrived: list[int] = []
    me = os.getpid()

    def end_with_us() -> None:
        """In the wrapper, before it begins: to be asked to end when we die."""
        if wrapper.PRCTL is not None:
            wrapper.PRCTL(_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != me:
            os.kill(os.getpid(), signal.SIGTERM)

    with handle_signals(dict.fromkeys(_FORWARDED, lambda n, _: arrived.append(n))):
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", wrapper.__file__, str(task_file)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=end_with_us,
        )
        status = None
        while status is None:
            with suppress(subprocess.TimeoutExpired):
                status = child.wait(_LOOK_SECONDS)
            while arrived:
                child.send_signal(arrived.pop(0))
            if mirror:
                shown = _print_new(log, shown)
        return status if status >= 0 else 128 - status


def _print_new(log: Path, shown: int) -> int:
    data = b""
    with suppress(OSError), log.open("rb") as file:
        file.seek(shown)
        data = file.read()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return shown + len(data)


entry = make_entry(main, __name__)
