"""What sbatch refuses, in plain words: which option, why, and the next step.

A table of patterns over sbatch's own messages, which stay beside the plain words: what
is not in the table is told as Slurm told it. `check_cluster` asks a cluster whether it
would take a plan's jobs.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from autoexp_tui.executors.slurm.commands import Commands, Ran
from autoexp_tui.executors.slurm.script import (
    build_sbatch_arguments,
    build_values,
    read_template,
    render,
)
from autoexp_tui.executors.slurm.text import (
    ClusterFacts,
    extract_complaint,
    parse_config,
)
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.specs import JobSpec, Plan, Scalar
from autoexp_tui.text.sanitize import clean

_PREFIXES: Final = re.compile(
    r"(?:sbatch: )?(?:error: |fatal: )?"
    r"(?:Batch job submission failed|allocation failure|Unable to allocate resources)"
    r": *",
    re.IGNORECASE,
)
_SIZES: Final = (
    "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem", "mem-per-cpu",
    "mem-per-gpu", "gpus", "gpus-per-node", "gpus-per-task", "gres", "tmp",
    "exclusive", "constraint", "nodelist", "exclude",
)  # fmt: skip
"""Options that say how much of which nodes a job needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why sbatch refused a job, in plain words and in Slurm's."""

    reason: str
    said: str
    option: str = ""
    """The option that it is about, as in `slurm.sbatch`; empty: none, or several."""
    hint: str = ""

    @property
    def where(self) -> str:
        return f"slurm.sbatch.{self.option.replace('-', '_')}" if self.option else ""

    @property
    def line(self) -> str:
        where = f" ({self.where})" if self.where else ""
        message = "" if self.said == self.reason else f". Slurm said: {self.said}"
        hint = f". {self.hint}" if self.hint else ""
        return f"{self.reason}{where}{message}{hint}".rstrip(".")


_TABLE: Final[Sequence[tuple[str, str, tuple[str, ...], str]]] = (
    (
        r"configuration source|DNS SRV|slurm\.conf",
        "no cluster is set up on this machine",
        (),
        "Start on a login node, load its module, or set SLURM_CONF; slurm=local "
        "runs the jobs here.",
    ),
    (
        r"munge|authentication|credential",
        "the cluster does not accept who you are",
        (),
        "`munge -n | unmunge` must say Success; else ask the site.",
    ),
    (
        r"invalid partition|partition name|partition .*(?:not valid|unknown)",
        "there is no partition `{value}`",
        ("partition",),
        "`sinfo -o %R` lists them.",
    ),
    (
        r"unrecognized option '--(?P<found>[\w-]+)",
        "sbatch here knows no option `{found}`",
        (),
        "null leaves it out; `sbatch --help` lists those there are.",
    ),
    (
        r"invalid --(?P<found>[\w-]+) specification",
        "sbatch cannot read the value of `{found}`",
        (),
        "`man sbatch` has the forms; times stand between quotes.",
    ),
    (
        r"violates accounting|policy",
        "a limit of your account or quality of service forbids it",
        ("qos", "account", "partition"),
        "`sacctmgr show assoc user=$USER` and `sacctmgr show qos` list limits.",
    ),
    (
        r"time limit",
        "{partition} gives no job a time of {value}",
        ("time",),
        "`sinfo -o '%R %l'` shows the limits.",
    ),
    (
        r"node configuration is not available|more processors|processor count|memory",
        "no nodes of {partition} have all of that: {sizes}",
        (),
        "`sinfo -o '%R %D nodes: %c CPUs %m MB %G'` shows what there is.",
    ),
    (
        r"(?<!-)(?:gres|gpu)",
        "the cluster has no such devices: {sizes}",
        ("gres", "gpus", "gpus-per-node", "gpus-per-task"),
        "`sinfo -o '%R %G'` lists them.",
    ),
    (
        r"not permitted|access/permission denied|invalid account|account/partition"
        r"|(?<!-)\bqos\b",
        "you may not use {partition} with that account or quality of service",
        ("account", "qos", "partition"),
        "`sacctmgr show assoc user=$USER format=account,partition,qos` lists yours.",
    ),
)
"""Of messages that we know: a pattern, the reason with the values that it names, the
options of which the first that the job has is the one it is about, and the hint."""

_USAGE: Final = re.compile(
    r"unable to open file|batch script is empty|invalid job array|invalid .*specif"
    r"|(?:unrecognized|invalid|ambiguous) (?:option|argument|value|numeric)"
    r"|invalid (?:job|user|group|wckey|cluster|license|trackable|burst|tres|dependency)"
    r"|requested .* not available|exceeds? .*limit|must (?:be|specify|request|set)"
    r"|user'?s group|not allowed|no such file|multi-?cluster|try \"sbatch --help"
    r"|dependency|licen[sc]e|DOS line breaks|does not look like a batch script"
    r"|first line must start|node count|reservation"
    r"|option '--\S+' (?:requires|doesn't allow)",
    re.IGNORECASE,
)
"""What is wrong with the order itself, in words that need no plainer ones."""


def parse_refusal(message: str, options: Mapping[str, Scalar]) -> Refused:
    """sbatch's message about a job, in plain words.

    `message`: without `sbatch: error:`, its lines joined by `; `.
    """
    parts = (_PREFIXES.sub("", part).strip() for part in message.split("; "))
    kept = (part for part in parts if part and not part.startswith("Try "))
    complaint = clean("; ".join(dict.fromkeys(kept)), limit=300)
    row = next(
        (row for row in _TABLE if re.search(row[0], complaint, re.IGNORECASE)), None
    )
    if row is None:
        return Refused(reason=complaint or "Slurm gave no reason", said=complaint)
    pattern, reason, about, hint = row
    found = re.search(pattern, complaint, re.IGNORECASE)
    named = found.groupdict().get("found", "") if found else ""
    option = named or next((name for name in about if name in options), "")
    partition = options.get("partition")
    text = reason.format(
        found=named,
        value=options.get(option, "its default"),
        partition=f"partition {partition}" if partition else "the default partition",
        sizes=format_sizes(options) or "what it asks for",
    )
    return Refused(reason=text, said=complaint, option=option, hint=hint)


def format_sizes(options: Mapping[str, Scalar]) -> str:
    """`nodes 2, mem 16G`: what a job asks for, of the options that say how much."""
    asked = ((name, options.get(name)) for name in _SIZES)
    return ", ".join(
        name if value is True else f"{name} {value}"
        for name, value in asked
        if value not in (None, False)
    )


class Refusal(StrEnum):
    """What sbatch's failure means for the submission."""

    LASTING = "lasting"
    """No retry mends it."""
    PASSING = "passing"
    """A limit, or a state of the cluster: later it may go."""
    UNREACHABLE = "unreachable"
    """Nobody was there: nothing was sent."""
    DOUBT = "doubt"
    """The controller may have taken it."""
    UNKNOWN = "unknown"
    """Refused in words that are not known here: it may pass or not."""


_COUNTS: Final = (
    r"maximum number of jobs|too many jobs|MaxJobCount|Submit(?:Job|Limit)"
    r"|(?:Max|Grp)Jobs"
)
_PASSING: Final = re.compile(
    rf"{_COUNTS}|temporarily (?:unable to accept|disabled)"
    r"|Resource temporarily unavailable|Slurm temporarily|system (?:is )?busy"
    r"|rate limit|backing off"
    r"|standby mode|partition not available|inactive or drain"
    r"|partition.*(?:is|are) (?:down|drained|draining|inactive|unavailable)"
    r"|node not available|nodes? .*(?:busy|down|drained|draining|reserved)"
    r"|I/O error|writing (?:script|to file)|no space left|disk full|read-only file"
    r"|job script.* (?:not|un)able|slurmctld is (?:starting|shutting|in recovery)",
    re.IGNORECASE,
)
"""What is over when other jobs end, or when the cluster is well again."""
_HOW_MANY: Final = re.compile(
    rf"{_COUNTS}|unable to accept job|accounting/QOS policy", re.IGNORECASE
)
_TOO_MUCH: Final = re.compile(
    r"(?:Assoc|QOS|Partition)\w*(?:Wall|Time|Cpu|Node|Mem|TRES|GRES|Billing)\w*",
    re.IGNORECASE,
)
"""Limits on what one job may ask for; they stand in a line of their own."""
_POLICY: Final = re.compile(r"accounting/QOS policy", re.IGNORECASE)
"""Either of the two; the line before says which, where the site shows it."""
_UNREACHABLE: Final = re.compile(
    r"connect failure|connection refused|munge encode failed", re.IGNORECASE
)
"""Without a connection, or a credential for one, nothing is sent."""
_AWAY: Final = re.compile(
    r"unable to contact slurm controller|socket timed out|timed out on send/recv"
    r"|connection (?:reset|timed out)|zero bytes were transmitted"
    r"|unexpected message received|transport endpoint|communication connection"
    r"|Header lengths are longer|munge|authentication error",
    re.IGNORECASE,
)


def detect_refusal(stderr: str) -> Refusal:
    """What a failed sbatch's last words mean; words about the line are no answer."""
    if _UNREACHABLE.search(stderr):
        return Refusal.UNREACHABLE
    if _AWAY.search(stderr):
        return Refusal.DOUBT
    how_many = _POLICY.search(stderr) and not _TOO_MUCH.search(stderr)
    if _PASSING.search(stderr) or how_many:
        return Refusal.PASSING
    known = any(re.search(row[0], stderr, re.IGNORECASE) for row in _TABLE)
    return Refusal.LASTING if known or _USAGE.search(stderr) else Refusal.UNKNOWN


def is_count_limit(stderr: str) -> bool:
    """Whether a busy sbatch met a limit of how many tasks: a smaller array may fit."""
    return _HOW_MANY.search(stderr) is not None


ASK_SECONDS: Final = 30.0
_WOULD_START: Final = re.compile(
    r"to start at (?P<at>\S+) using (?P<cpus>\d+) processors on (?:nodes? )?"
    r"(?P<nodes>\S+)(?: in partition (?P<partition>\S+))?"
)
Verdict = Literal["taken", "not now", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What sbatch said of the jobs that ask for the same."""

    jobs: tuple[str, ...]
    options: Mapping[str, Scalar]
    verdict: Verdict
    sent: str
    said: str
    starts_at: float | None = None
    """UTC at which it would start, as of now; None: not told."""
    nodes: str = ""
    partition: str = ""
    refused: Refused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCheck:
    """Which cluster was asked, and its answers in plan order."""

    facts: ClusterFacts
    checks: tuple[Checked, ...]


def check_cluster(plan: Plan, commands: Commands) -> ClusterCheck:
    """Ask `sbatch --test-only` about every different set of resources; blocks.

    Raises EnvironmentFailed: no cluster answers; UsageError: the template is no use.
    """
    facts = read_facts(commands, ASK_SECONDS)
    template = read_template(str(plan.executor.settings.get("template_path") or ""))
    groups: dict[tuple[tuple[str, Scalar], ...], list[JobSpec]] = {}
    for job in plan.jobs:
        groups.setdefault(tuple(sorted(_collect_options(job).items())), []).append(job)
    with tempfile.TemporaryDirectory(prefix="autoexp-check-") as place:
        script = Path(place, "job.sh")
        checks = [
            _check_group(jobs, template, script, commands) for jobs in groups.values()
        ]
    return ClusterCheck(facts=facts, checks=tuple(checks))


def read_facts(commands: Commands, seconds: float) -> ClusterFacts:
    """What the controller says of its cluster; raises EnvironmentFailed: none answers
    within so many seconds."""
    ran = commands.run(("scontrol", "show", "config"), seconds)
    if not ran.ok:
        raise _explain_silence(ran, seconds)
    return parse_config(ran.stdout)


def _explain_silence(ran: Ran, seconds: float) -> EnvironmentFailed:
    if ran.missing:
        problem, _, hint = ran.missing.partition(": ")
        return EnvironmentFailed(problem, hint=f"{hint[:1].upper()}{hint[1:]}.")
    ping = "`scontrol ping` says whether the controller is up"
    if ran.timed_out:
        return EnvironmentFailed(ran.explain(seconds), hint=f"{ping}; try again later.")
    refusal = parse_refusal(extract_complaint(ran.stderr), {})
    hint = refusal.hint or f"{ping}."
    return EnvironmentFailed(f"no cluster answers: {refusal.reason}", hint=hint)


def _collect_options(job: JobSpec) -> dict[str, Scalar]:
    options = job.resources.options.items()
    return {name: value for name, value in options if value not in (None, False)}


def _check_group(
    jobs: Sequence[JobSpec], template: str, script: Path, commands: Commands
) -> Checked:
    """What sbatch says of alike jobs; raises EnvironmentFailed if nobody answers."""
    first = jobs[0]
    options = _collect_options(first)
    script.write_text(render(template, build_values(first, "true")), "utf-8")
    words = build_sbatch_arguments(
        name=first.name, output="/dev/null", script=str(script), options=options
    )
    ran = commands.run(("sbatch", "--test-only", *words[1:]), ASK_SECONDS)
    message = extract_complaint(ran.stderr or ran.stdout)
    checked = Checked(
        jobs=tuple(job.name for job in jobs),
        options=options,
        verdict="taken",
        sent=ran.sent.replace(str(script), "job.sh"),
        said=message,
    )
    if not ran.ok:
        kind = detect_refusal(ran.stderr)
        if ran.status is None or kind in (Refusal.DOUBT, Refusal.UNREACHABLE):
            raise _explain_silence(ran, ASK_SECONDS)
        if kind is Refusal.PASSING:
            return replace(checked, verdict="not now")
        return replace(
            checked, verdict="refused", refused=parse_refusal(message, options)
        )
    if (found := _WOULD_START.search(message)) is None:
        return checked
    starts_at = None
    with suppress(ValueError, OverflowError):  # local time, without a zone
        starts_at = time.mktime(time.strptime(found["at"], "%Y-%m-%dT%H:%M:%S"))
    partition = found["partition"] or ""
    return replace(
        checked, starts_at=starts_at, nodes=found["nodes"], partition=partition
    )
