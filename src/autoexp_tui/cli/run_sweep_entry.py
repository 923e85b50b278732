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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import FrameType
from typing import Final, get_args

from autoexp_tui.cli.diagnostics import (
    ExitCode,
    exit_with,
    handle_signals,
    print_json,
    say,
)
from autoexp_tui.cli.executors import find_launcher, is_for_slurm, read_numbers
from autoexp_tui.cli.options import STATE_DIR_VARIABLE, VERSION, build_parser, option
from autoexp_tui.conditions.bindings import bind
from autoexp_tui.engine.executor_port import task_of
from autoexp_tui.executors import wrapper
from autoexp_tui.executors.local.start import build_task_fields
from autoexp_tui.executors.slurm.script import with_grace
from autoexp_tui.model.condition import (
    EvalContext,
    describe,
    evaluate,
    needs,
)
from autoexp_tui.model.errors import NotConfirmed, SessionOwned, UsageError
from autoexp_tui.model.facts import (
    ApprovalFact,
    ApprovalKey,
    Fact,
    FactKey,
    FactValue,
    JobFact,
    JobKey,
    MetadataKey,
    MetricFact,
    MetricKey,
    Moment,
    OutsideKey,
)
from autoexp_tui.model.ids import digest
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import JobState, Result
from autoexp_tui.model.wording import sentence
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.probes.fact_source import OutsideFacts
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
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.sanitize import clean

ARRAY_INDEX = "SLURM_ARRAY_TASK_ID"
_MOST_LISTED = 12
_OUTSIDE = get_args(OutsideKey)
_ASKS = frozenset({"asks_you", "asks_later"})
"""Codes of an approval that nobody has given."""
_FORWARDED: Final = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
_LOOK_SECONDS: Final = 0.1
_PDEATHSIG: Final = 1
_GRACE_SECONDS: Final = 10.0


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


@dataclass(frozen=True, slots=True)
class Entry:
    """One job that is to run, and how."""

    plan: Plan
    job: JobSpec
    state_dir: Path
    command: Sequence[str]
    """All the words that run."""


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
    place = args.state_dir or os.environ.get(STATE_DIR_VARIABLE, "") or plan.state_dir
    launcher = find_launcher(plan) if is_for_slurm(plan) else ()
    entry = Entry(plan, job, Path(place).absolute(), (*launcher, *job.command))
    if args.print:
        _print_entry(entry, as_json=args.json)
        return ExitCode.OK
    work = None if args.force else read_done(Path(job.output_dir), plan.share)
    same = work and (work.job, work.fingerprint) == (job.name, job.fingerprint)
    if same and job.fingerprint:
        say(f"{job.name} is done already; --force runs it again")
        return ExitCode.OK
    unmet = () if args.force else list_unmet(job, plan, time.time())
    if reasons := [f"  - {one}" for one in unmet]:
        raise NotConfirmed(
            "\n".join(["its start conditions are not met", *reasons]),
            job.name,
            "--force runs it all the same; a session waits for them: autoexp-run "
            "--manifest FILE",
        )
    return _run_entry(entry)


def _choose_job(plan: Plan, args: argparse.Namespace) -> JobSpec:
    """The job that the command line, or the array, means."""
    if args.index is not None and args.job:
        raise UsageError("--index and --job name the entry twice", hint="Leave one.")
    by_name = {job.name: job for job in plan.jobs}
    if args.job:
        if args.job in by_name:
            return by_name[args.job]
        hint = did_you_mean(args.job, list(by_name), "jobs")
        raise UsageError(f"the plan has no job {args.job!r}", "--job", hint)
    given, text = "--index", str(args.index)
    if args.index is None:
        given, text = ARRAY_INDEX, os.environ.get(ARRAY_INDEX, "")
    if not text.removeprefix("-").isdecimal():
        value = f" ({ARRAY_INDEX} is {text!r})" if text else ""
        raise UsageError(
            f"which entry?{value}",
            hint=f"--index N, --job NAME, or {ARRAY_INDEX}. {_list_entries(plan)}",
        )
    for job in plan.jobs:
        if job.index == int(text):
            return job
    raise UsageError(f"the plan has no entry {int(text)}", given, _list_entries(plan))


def _list_entries(plan: Plan) -> str:
    """`entries: 0 lr1_stable, 1 lr1_cooldown and 10 more (to 11)`."""
    shown = [f"{job.index} {clean(job.name)}" for job in plan.jobs[:_MOST_LISTED]]
    rest = len(plan.jobs) - len(shown)
    last = max((job.index for job in plan.jobs), default=0)
    more = f" and {rest} more, to {last}" if rest > 0 else ""
    return f"entries: {', '.join(shown)}{more}" if shown else "it has no entries"


def _print_entry(entry: Entry, *, as_json: bool) -> None:
    """What would run, where, and with which environment of its own."""
    job, cwd = entry.job, os.path.abspath(entry.job.cwd or os.curdir)
    if as_json:
        print_json(
            {
                "index": job.index,
                "name": job.name,
                "command": list(entry.command),
                "cwd": cwd,
                "env": dict(job.env),
                "output_dir": job.output_dir,
                "log_path_current": job.log_path_current,
                "start_conditions": len(job.start_conditions),
            }
        )
        return
    print(f"# {job.index} {job.name}".encode("ascii", "backslashreplace").decode())
    print(f"cd {shlex.quote(cwd)}")
    words = [f"{name}={value}" for name, value in job.env.items()]
    before = f"env {shlex.join(words)} " if words else ""
    print(f"{before}{shlex.join(entry.command)}")


class FileFacts:
    """`model.facts.Facts` without a session, each looked at once: what other jobs did
    is known from the word that completed ones leave in their output directories."""

    def __init__(self, plan: Plan, now: float) -> None:
        self._plan = plan
        # All of it UTC: nothing lived, and nothing was away.
        self.now = Moment(t=now, utc=now, lived=now)
        self._source = OutsideFacts(SystemClock())
        self._known: dict[FactKey, Fact] = {}

    @cached_property
    def _done(self) -> Mapping[str, DoneWork]:
        """Jobs of the plan that completed, doing the work that they would do now."""
        found = find_done(self._plan.jobs, self._plan.share)
        same = {(job.name, job.fingerprint) for job in self._plan.jobs}
        return {n: work for n, work in found.items() if (n, work.fingerprint) in same}

    def get(self, key: FactKey) -> Fact | None:
        """The fact for `key`; what only a session could know has no value."""
        if isinstance(key, _OUTSIDE):
            if key not in self._known:
                seen = self._source.observe(key)
                self._known[key] = replace(seen, observed_at=self.now.lived)
            return self._known[key]
        return Fact(self._find_value(key), self.now.lived)

    def _find_value(self, key: FactKey) -> FactValue:
        match key:
            case JobKey():
                work = self._done.get(key.job)
                if work is None:
                    # Held jobs and `S` are a session's; here it only has not ended.
                    return JobFact(JobState.WAITING)
                return JobFact(JobState.COMPLETED, ended_lived=work.at, step=work.step)
            case MetadataKey():
                return self.read_metadata(key.job, key.key)
            case MetricKey():
                work = self._done.get(key.job)
                value = work.values.get(key.name) if work else None
                if work is not None and isinstance(value, float | int):
                    return MetricFact(float(value), work.step or 0)
            case ApprovalKey():
                return ApprovalFact(approved=None)
        return None

    def read_metadata(self, job: str, key: str) -> str | None:
        """What a completed job's log told."""
        work = self._done.get(job)
        return work.metadata.get(key) if work is not None else None


def list_unmet(job: JobSpec, plan: Plan, now: float) -> Iterator[str]:
    """Why a job may not start now, in words; nothing: it may."""
    facts = FileFacts(plan, now)
    names = frozenset(job.name for job in plan.jobs)
    context = EvalContext(job=job.name, waiting_lived=now)
    for condition in job.start_conditions:
        if not condition.blocking:
            continue
        bound, missing = bind(condition, facts.read_metadata, names)
        reason = ", ".join(f"{one.key} of {one.job}" for one in missing)
        reason += " is not known"
        if bound is not None:
            verdict = evaluate(bound, facts, facts.now, context)
            if verdict.result is Result.PASS:
                continue
            reason = sentence(verdict.why, now, keys=False)
            if verdict.why.code in _ASKS:
                reason += " (a session asks; --force goes on as if approved)"
        elif refused := [one for one in missing if one.problem]:
            one = refused[0]
            reason = f"{one.key} of {one.job}: {one.problem}"
        what = describe(condition)
        yield reason if what in reason else f"{what}: {reason}"
    for condition in job.cancel_conditions:
        bound, _ = bind(condition, facts.read_metadata, names)
        if bound is None:
            continue
        if any(isinstance(key, ApprovalKey) for key in needs(bound, job.name)):
            continue
        if evaluate(bound, facts, facts.now, context).result is Result.PASS:
            yield f"its cancel condition holds: {describe(condition)}"


def _run_entry(entry: Entry) -> int:
    """Run the job to its end; its exit status, 128 and the signal's number if killed.

    Raises SessionOwned where a living session, or another start, runs the job.
    """
    plan, job = entry.plan, entry.job
    make_state_dir(entry.state_dir, plan.share)
    require_ground(job, plan.base_output_dir, plan.share)
    output = Path(job.output_dir)
    require_free(output, Living(), plan.share)
    home = get_entry_dir(entry.state_dir, plan.plan_id, job.name)
    with _lock(home, job.name):
        with explaining(home, "make the attempt's directory"):
            numbers = [int(n.name) for n in home.iterdir() if n.name.isdecimal()]
            attempt = max(numbers, default=0) + 1
            place = home / str(attempt)
            place.mkdir(0o700)
        modes = MODES[plan.share]
        make_directory(get_done_path(output).parent, modes.directory, place="output")
        forget_done(output)
        write_provenance(plan, job, record_of(plan, entry.state_dir))
        fields = _build_fields(entry, attempt, place)
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


def _build_fields(entry: Entry, attempt: int, place: Path) -> dict[str, object]:
    """The task file: what the wrapper is to do."""
    plan, job = entry.plan, entry.job
    token = digest(plan.plan_id, job.name, attempt)
    in_slurm = bool(wrapper.get_slurm_id())
    made = task_of(job, attempt, str(place), resume=attempt > 1)
    task = replace(made, command=with_grace(entry.command))
    numbers = read_numbers(plan, "grace_seconds")
    return {
        **build_task_fields(task),
        "v": 1,
        "token": token,
        "nonce": token,
        "index": job.index,
        "session": "",
        "submitter": os.uname().nodename,
        "grace_seconds": numbers.get("grace_seconds", _GRACE_SECONDS),
        "log_mode": MODES[plan.share].file,
        "executor_id": wrapper.get_slurm_id() or f"entry-{token}",
        # Slurm keeps its own time, and its signals tell how a job ended.
        "time_limit_seconds": None if in_slurm else job.resources.time_limit_seconds,
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


entry = partial(exit_with, main)

if __name__ == "__main__":
    entry()
