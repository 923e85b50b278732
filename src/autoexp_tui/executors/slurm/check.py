"""Asks a cluster whether it would take a plan's jobs: `sbatch --test-only`.

One question for each different set of resources, whatever the number of jobs; nothing
is submitted.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from autoexp_tui.executors.slurm.commands import Commands, Ran
from autoexp_tui.executors.slurm.refusals import (
    Refusal,
    Refused,
    detect_refusal,
    parse_refusal,
)
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

    @property
    def any_refused(self) -> bool:
        return any(one.verdict == "refused" for one in self.checks)


def check_cluster(
    plan: Plan, commands: Commands, seconds: float = ASK_SECONDS
) -> ClusterCheck:
    """Ask about every different set of resources in `plan`; blocks.

    Raises EnvironmentFailed: no cluster answers; UsageError: the template is no use.
    """
    ran = commands.run(("scontrol", "show", "config"), seconds)
    if not ran.ok:
        raise _explain_silence(ran, seconds)
    template = read_template(str(plan.executor.settings.get("template_path") or ""))
    groups: dict[tuple[tuple[str, Scalar], ...], list[JobSpec]] = {}
    for job in plan.jobs:
        groups.setdefault(tuple(sorted(_collect_options(job).items())), []).append(job)
    with tempfile.TemporaryDirectory(prefix="autoexp-check-") as place:
        script = Path(place, "job.sh")
        checks = [
            _check_group(jobs, template, script, commands, seconds)
            for jobs in groups.values()
        ]
    return ClusterCheck(facts=parse_config(ran.stdout), checks=tuple(checks))


def _explain_silence(ran: Ran, seconds: float) -> EnvironmentFailed:
    program = ran.arguments[0]
    if ran.missing:
        problem, _, hint = ran.missing.partition(": ")
        return EnvironmentFailed(problem, hint=f"{hint[:1].upper()}{hint[1:]}.")
    if ran.timed_out:
        return EnvironmentFailed(
            f"{program} did not answer within {seconds:g} s",
            hint="`scontrol ping` says whether the controller is up; try again later.",
        )
    told = parse_refusal(extract_complaint(ran.stderr), {})
    hint = told.hint or "`scontrol ping` says whether the controller is up."
    return EnvironmentFailed(f"no cluster answers: {told.reason}", hint=hint)


def _collect_options(job: JobSpec) -> dict[str, Scalar]:
    options = job.resources.options.items()
    return {name: value for name, value in options if value not in (None, False)}


def _check_group(
    jobs: Sequence[JobSpec],
    template: str,
    script: Path,
    commands: Commands,
    seconds: float,
) -> Checked:
    """What sbatch says of alike jobs; raises EnvironmentFailed if nobody answers."""
    first = jobs[0]
    options = _collect_options(first)
    script.write_text(render(template, build_values(first, "true")), "utf-8")
    words = build_sbatch_arguments(
        name=first.name, output="/dev/null", script=str(script), options=options
    )
    ran = commands.run(("sbatch", "--test-only", *words[1:]), seconds)
    said = extract_complaint(ran.stderr or ran.stdout)
    checked = Checked(
        jobs=tuple(job.name for job in jobs),
        options=options,
        verdict="taken",
        sent=ran.sent.replace(str(script), "job.sh"),
        said=said,
    )
    if not ran.ok:
        kind = detect_refusal(ran.stderr)
        if ran.status is None or kind in (Refusal.DOUBT, Refusal.UNREACHABLE):
            raise _explain_silence(ran, seconds)
        if kind is Refusal.PASSING:
            return replace(checked, verdict="not now")
        return replace(checked, verdict="refused", refused=parse_refusal(said, options))
    if (found := _WOULD_START.search(said)) is None:
        return checked
    starts_at = None
    with suppress(ValueError, OverflowError):  # local time, without a zone
        starts_at = time.mktime(time.strptime(found["at"], "%Y-%m-%dT%H:%M:%S"))
    partition = found["partition"] or ""
    return replace(
        checked, starts_at=starts_at, nodes=found["nodes"], partition=partition
    )
