"""autoexp-run-sweep-entry: runs one job of a manifest here, in the foreground.

For arrays of one's own: without --index and --job it is the entry whose index
SLURM_ARRAY_TASK_ID has. Its exit status is the job's.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui import __version__
from autoexp_tui.cli.diagnostics import ExitCode, exit_with, say
from autoexp_tui.cli.options import bare_parser, parse
from autoexp_tui.model.errors import NotConfirmed, UsageError

if TYPE_CHECKING:
    from autoexp_tui.cli.entry_run import Entry
    from autoexp_tui.model.specs import JobSpec, Plan

ARRAY_INDEX = "SLURM_ARRAY_TASK_ID"
_MOST_LISTED = 12


def main(argv: Sequence[str]) -> int:
    """Run one entry: the job's exit status, or why it does not run."""
    args = parse(_parser(), argv)
    if not args.manifest:
        raise UsageError(
            "which plan?",
            hint="--manifest FILE: autoexp-plan writes one, and prints its path.",
        )
    from autoexp_tui.storage.session_dir import read_manifest

    plan = read_manifest(Path(args.manifest), run=not args.print)
    entry = _entry(plan, _chosen(plan, args), args.state_dir)
    if args.print:
        _show(entry, as_json=args.json)
        return ExitCode.OK
    if not args.force and _is_done(entry):
        say(f"{entry.job.name} is done already; --force runs it again")
        return ExitCode.OK
    if not args.force:
        _require_may_start(entry)
    from autoexp_tui.cli.entry_run import run_entry

    # Under Slurm stdout is a file beside the log: it need not hold all of it again.
    return run_entry(entry, say, mirror=not os.environ.get("SLURM_JOB_ID"))


def _parser() -> argparse.ArgumentParser:
    made = bare_parser("autoexp-run-sweep-entry", __doc__ or "")
    add = made.add_argument
    add("--manifest", metavar="FILE", default="", help="the plan")
    add("--index", metavar="N", type=int, default=None, help="the entry, by its index")
    add("--job", metavar="NAME", default="", help="the entry, by the job's name")
    add(
        "--state-dir",
        metavar="DIR",
        default="",
        help="where records go (or AUTOEXP_STATE_DIR, or as the plan says)",
    )
    add(
        "--force",
        action="store_true",
        help="run it though it is done, or its start conditions are not met",
    )
    add("--print", action="store_true", help="show what would run, and run nothing")
    add("--json", action="store_true", help="with --print: one line of JSON")
    add("--version", action="version", version=f"autoexp-tui {__version__}")
    return made


# --------------------------------------------------------------------------- choosing
def _chosen(plan: Plan, args: argparse.Namespace) -> JobSpec:
    """The job that the command line, or the array, means.

    Raises:
        UsageError: none or two are named, or it is not in the plan.
    """
    if args.index is not None and args.job:
        raise UsageError("--index and --job name the entry twice", hint="Leave one.")
    if args.job:
        return _by_name(plan, args.job)
    if args.index is not None:
        return _by_index(plan, args.index, "--index")
    text = os.environ.get(ARRAY_INDEX, "")
    if not text.isdecimal():
        said = f" ({ARRAY_INDEX} is {text!r})" if text else ""
        raise UsageError(
            f"which entry?{said}",
            hint=f"--index N, --job NAME, or {ARRAY_INDEX}. {_listed(plan)}",
        )
    return _by_index(plan, int(text), ARRAY_INDEX)


def _by_name(plan: Plan, name: str) -> JobSpec:
    from autoexp_tui.text.did_you_mean import did_you_mean

    for job in plan.jobs:
        if job.name == name:
            return job
    hint = did_you_mean(name, [job.name for job in plan.jobs], "jobs")
    raise UsageError(f"the plan has no job {name!r}", "--job", hint)


def _by_index(plan: Plan, index: int, given: str) -> JobSpec:
    for job in plan.jobs:
        if job.index == index:
            return job
    raise UsageError(f"the plan has no entry {index}", given, _listed(plan))


def _listed(plan: Plan) -> str:
    """`entries: 0 lr1_stable, 1 lr1_cooldown and 10 more (to 11)`."""
    from autoexp_tui.text.sanitize import clean

    shown = [f"{job.index} {clean(job.name)}" for job in plan.jobs[:_MOST_LISTED]]
    rest = len(plan.jobs) - len(shown)
    last = max((job.index for job in plan.jobs), default=0)
    more = f" and {rest} more, to {last}" if rest > 0 else ""
    return f"entries: {', '.join(shown)}{more}" if shown else "it has no entries"


# ---------------------------------------------------------------------------- running
def _entry(plan: Plan, job: JobSpec, state_dir: str) -> Entry:
    from autoexp_tui.cli.entry_run import Entry
    from autoexp_tui.cli.executors import is_for_slurm, launcher_words

    settings = plan.executor.settings
    place = state_dir or os.environ.get("AUTOEXP_STATE_DIR", "") or plan.state_dir
    launcher = launcher_words(
        str(settings.get("launcher_cmd") or ""), str(settings.get("srun_opts") or "")
    )
    grace = settings.get("grace_seconds")
    return Entry(
        plan=plan,
        job=job,
        state_dir=Path(place).absolute(),
        launcher=launcher if is_for_slurm(plan) else (),
        grace_seconds=float(grace) if isinstance(grace, int | float) else 10.0,
    )


def _is_done(entry: Entry) -> bool:
    from autoexp_tui.storage.done_file import read_done

    job = entry.job
    work = read_done(Path(job.output_dir), entry.plan.share)
    return (
        bool(job.fingerprint)
        and work is not None
        and ((work.job, work.fingerprint) == (job.name, job.fingerprint))
    )


def _require_may_start(entry: Entry) -> None:
    """Refuse what a session would not start yet.

    Raises:
        NotConfirmed: with every condition that is not met.
    """
    from autoexp_tui.cli.entry_conditions import unmet

    reasons = [f"  - {one}" for one in unmet(entry.job, entry.plan, time.time())]
    if reasons:
        raise NotConfirmed(
            "\n".join(["its start conditions are not met", *reasons]),
            entry.job.name,
            "--force runs it all the same; a session waits for them: autoexp-run "
            "--manifest FILE",
        )


def _show(entry: Entry, *, as_json: bool) -> None:
    """What would run, where, and with which environment of its own."""
    import shlex

    from autoexp_tui.planning.as_json import json_safe

    job = entry.job
    tree = {
        "index": job.index,
        "name": job.name,
        "command": list(entry.command),
        "cwd": os.path.abspath(job.cwd or os.curdir),
        "env": dict(job.env),
        "output_dir": job.output_dir,
        "log_path_current": job.log_path_current,
        "start_conditions": len(job.start_conditions),
    }
    if as_json:
        print(json.dumps(json_safe(tree)))
        return
    print(f"# {job.index} {job.name}".encode("ascii", "backslashreplace").decode())
    print(f"cd {shlex.quote(str(tree['cwd']))}")
    words = [f"{name}={value}" for name, value in job.env.items()]
    before = f"env {shlex.join(words)} " if words else ""
    print(f"{before}{shlex.join(entry.command)}")
    sys.stdout.flush()


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
