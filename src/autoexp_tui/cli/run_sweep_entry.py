"""autoexp-run-sweep-entry: runs one job of a manifest here, in the foreground.

For arrays of one's own: without --index and --job it is the entry whose index
SLURM_ARRAY_TASK_ID has. Its exit status is the job's.
"""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from autoexp_tui.cli.diagnostics import ExitCode, exit_with, print_json, say
from autoexp_tui.cli.entry_conditions import list_unmet
from autoexp_tui.cli.entry_run import Entry, run_entry
from autoexp_tui.cli.executors import find_launcher, is_for_slurm, read_numbers
from autoexp_tui.cli.options import STATE_DIR_VARIABLE, VERSION, build_parser, option
from autoexp_tui.model.errors import NotConfirmed, UsageError
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.storage.done_file import read_done
from autoexp_tui.storage.manifests import read_manifest
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.sanitize import clean

ARRAY_INDEX = "SLURM_ARRAY_TASK_ID"
_MOST_LISTED = 12


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
    found = _build_entry(plan, _choose_job(plan, args), args.state_dir)
    if args.print:
        _print_entry(found, as_json=args.json)
        return ExitCode.OK
    if not args.force and _is_done(found):
        say(f"{found.job.name} is done already; --force runs it again")
        return ExitCode.OK
    if not args.force:
        _require_may_start(found)
    # Under Slurm stdout is a file beside the log: it need not hold all of it again.
    return run_entry(found, say, mirror=not os.environ.get("SLURM_JOB_ID"))


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


def _build_entry(plan: Plan, job: JobSpec, state_dir: str) -> Entry:
    place = state_dir or os.environ.get(STATE_DIR_VARIABLE, "") or plan.state_dir
    return Entry(
        plan=plan,
        job=job,
        state_dir=Path(place).absolute(),
        launcher=find_launcher(plan) if is_for_slurm(plan) else (),
        **read_numbers(plan, "grace_seconds"),
    )


def _is_done(entry: Entry) -> bool:
    job = entry.job
    work = read_done(Path(job.output_dir), entry.plan.share)
    if work is None or not job.fingerprint:
        return False
    return (work.job, work.fingerprint) == (job.name, job.fingerprint)


def _require_may_start(entry: Entry) -> None:
    """Refuse what a session would not start yet."""
    reasons = [f"  - {one}" for one in list_unmet(entry.job, entry.plan, time.time())]
    if reasons:
        raise NotConfirmed(
            "\n".join(["its start conditions are not met", *reasons]),
            entry.job.name,
            "--force runs it all the same; a session waits for them: autoexp-run "
            "--manifest FILE",
        )


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


entry = partial(exit_with, main)

if __name__ == "__main__":
    entry()
