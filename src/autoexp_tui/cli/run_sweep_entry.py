"""autoexp-run-sweep-entry: runs one job of a manifest here, in the foreground.

For arrays of one's own: without --index and --job it is the entry whose index
SLURM_ARRAY_TASK_ID has. Its exit status is the job's.
"""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import get_args

from autoexp_tui.cli.diagnostics import ExitCode, exit_with, print_json, say
from autoexp_tui.cli.entry_run import Entry, run_entry
from autoexp_tui.cli.executors import find_launcher, is_for_slurm, read_numbers
from autoexp_tui.cli.options import STATE_DIR_VARIABLE, VERSION, build_parser, option
from autoexp_tui.conditions.bindings import Lacking, RefusedValue, bind
from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    describe,
    evaluate,
    needs,
)
from autoexp_tui.model.errors import NotConfirmed, UsageError
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
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import JobState, Result, Verdict
from autoexp_tui.model.wording import sentence
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.storage.done_file import find_done, read_done
from autoexp_tui.storage.manifests import read_manifest
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.sanitize import clean

ARRAY_INDEX = "SLURM_ARRAY_TASK_ID"
_MOST_LISTED = 12
_OUTSIDE = get_args(OutsideKey)
_ASKS = frozenset({"asks_you", "asks_later"})
"""Codes of an approval that nobody has given."""


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
    place = args.state_dir or os.environ.get(STATE_DIR_VARIABLE, "") or plan.state_dir
    found = Entry(
        plan=plan,
        job=job,
        state_dir=Path(place).absolute(),
        launcher=find_launcher(plan) if is_for_slurm(plan) else (),
        **read_numbers(plan, "grace_seconds"),
    )
    if args.print:
        _print_entry(found, as_json=args.json)
        return ExitCode.OK
    if not args.force and _is_done(found):
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


def _is_done(entry: Entry) -> bool:
    job = entry.job
    work = read_done(Path(job.output_dir), entry.plan.share)
    if work is None or not job.fingerprint:
        return False
    return (work.job, work.fingerprint) == (job.name, job.fingerprint)


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


@dataclass
class FileFacts:
    """`model.facts.Facts` without a session, each looked at once: what other jobs did
    is known from the word that completed ones leave in their output directories."""

    plan: Plan
    now: Moment
    """All of it UTC: nothing lived, and nothing was away."""
    source: OutsideFacts = field(default_factory=lambda: OutsideFacts(SystemClock()))
    _known: dict[FactKey, Fact] = field(default_factory=dict)

    @cached_property
    def done(self) -> Mapping[str, DoneWork]:
        """Jobs of the plan that completed, doing the work that they would do now."""
        found = find_done(self.plan.jobs, self.plan.share)
        same = {(job.name, job.fingerprint) for job in self.plan.jobs}
        return {n: work for n, work in found.items() if (n, work.fingerprint) in same}

    def get(self, key: FactKey) -> Fact | None:
        """The fact for `key`; what only a session could know has no value."""
        if key not in self._known:
            if isinstance(key, _OUTSIDE):
                seen = self.source.observe(key)
                self._known[key] = replace(seen, observed_at=self.now.lived)
            else:
                self._known[key] = Fact(self._find_value(key), self.now.lived)
        return self._known[key]

    def _find_value(self, key: FactKey) -> FactValue:
        match key:
            case JobKey():
                work = self.done.get(key.job)
                if work is None:
                    # Held jobs and `S` are a session's; here it only has not ended.
                    return JobFact(JobState.WAITING)
                return JobFact(JobState.COMPLETED, ended_lived=work.at, step=work.step)
            case MetadataKey():
                return self.read_metadata(key.job, key.key)
            case MetricKey():
                work = self.done.get(key.job)
                value = work.values.get(key.name) if work else None
                if work is not None and isinstance(value, float | int):
                    return MetricFact(float(value), work.step or 0)
            case ApprovalKey():
                return ApprovalFact(approved=None)
        return None

    def read_metadata(self, job: str, key: str) -> str | None:
        """What a completed job's log told."""
        work = self.done.get(job)
        return work.metadata.get(key) if work is not None else None

    def bind(self, condition: Condition) -> tuple[Condition | None, Sequence[Lacking]]:
        """The condition with the values that logs told, and what is not known."""
        names = frozenset(job.name for job in self.plan.jobs)
        return bind(condition, self.read_metadata, names)

    def evaluate(self, condition: Condition, job: JobSpec) -> Verdict:
        """The verdict of a condition that was bound."""
        context = EvalContext(job=job.name, waiting_lived=self.now.lived)
        return evaluate(condition, self, self.now, context)


def list_unmet(job: JobSpec, plan: Plan, now: float) -> Iterator[str]:
    """Why a job may not start now, in words; nothing: it may."""
    facts = FileFacts(plan, Moment(t=now, utc=now, lived=now))
    for condition in job.start_conditions:
        if condition.blocking and (reason := _explain_wait(condition, job, facts)):
            what = describe(condition)
            yield reason if what in reason else f"{what}: {reason}"
    for condition in job.cancel_conditions:
        bound, _ = facts.bind(condition)
        asks = bound and any(isinstance(k, ApprovalKey) for k in needs(bound, job.name))
        if bound and not asks and facts.evaluate(bound, job).result is Result.PASS:
            yield f"its cancel condition holds: {describe(condition)}"


def _explain_wait(condition: Condition, job: JobSpec, facts: FileFacts) -> str:
    """Why a condition does not pass; empty when it does."""
    bound, missing = facts.bind(condition)
    if bound is None:
        for one in missing:
            if isinstance(one, RefusedValue):
                return f"{one.key} of {one.job}: {one.problem}"
        unknown = ", ".join(f"{one.key} of {one.job}" for one in missing)
        return f"{unknown} is not known"
    verdict = facts.evaluate(bound, job)
    if verdict.result is Result.PASS:
        return ""
    text = sentence(verdict.why, facts.now.t, keys=False)
    asks = verdict.why.code in _ASKS
    return f"{text} (a session asks; --force goes on as if approved)" if asks else text


entry = partial(exit_with, main)

if __name__ == "__main__":
    entry()
