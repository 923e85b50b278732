"""Asks a cluster whether it would take a plan's jobs: `sbatch --test-only`.

One question for each different set of resources, whatever the number of jobs. Nothing
is submitted and nothing of the session is written. What sbatch cannot know beforehand
(a full disk on a node, a limit on jobs in the queue) it does not tell here either.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
"""How long sbatch and scontrol may take."""
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
        """Whether a job would be refused for good."""
        return any(one.verdict == "refused" for one in self.checks)


def check_cluster(
    plan: Plan, commands: Commands, seconds: float = ASK_SECONDS
) -> ClusterCheck:
    """Ask about every different set of resources in `plan`; blocks.

    Raises:
        EnvironmentFailed: there is no cluster here, or it does not answer.
        UsageError: the template cannot be read, or starts nothing.
    """
    ran = commands.run(("scontrol", "show", "config"), seconds)
    if not ran.ok:
        raise _explain_silence(ran, seconds)
    template = read_template(str(plan.executor.settings.get("template_path") or ""))
    with tempfile.TemporaryDirectory(prefix="autoexp-check-") as place:
        script = Path(place, "job.sh")
        checks = [
            _check_group(jobs, template, script, commands, seconds)
            for jobs in _collect_alike(plan.jobs)
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


def _collect_alike(jobs: Sequence[JobSpec]) -> list[list[JobSpec]]:
    """The jobs by what they ask for, in plan order."""
    groups: dict[tuple[tuple[str, Scalar], ...], list[JobSpec]] = {}
    for job in jobs:
        groups.setdefault(tuple(sorted(_collect_options(job).items())), []).append(job)
    return list(groups.values())


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
    first = jobs[0]
    options = _collect_options(first)
    script.write_text(render(template, build_values(first, "true")), "utf-8")
    words = build_sbatch_arguments(
        name=first.name, output="/dev/null", script=str(script), options=options
    )
    ran = commands.run(("sbatch", "--test-only", *words[1:]), seconds)
    verdict = _get_verdict(ran, seconds)
    said = extract_complaint(ran.stderr or ran.stdout)
    found = _WOULD_START.search(said) if verdict == "taken" else None
    refused = parse_refusal(said, options) if verdict == "refused" else None
    return Checked(
        jobs=tuple(job.name for job in jobs),
        options=options,
        verdict=verdict,
        sent=ran.sent.replace(str(script), "job.sh"),
        said=said,
        starts_at=_parse_local_time(found["at"]) if found else None,
        nodes=found["nodes"] if found else "",
        partition=(found["partition"] or "") if found else "",
        refused=refused,
    )


def _get_verdict(ran: Ran, seconds: float) -> Verdict:
    """What an answer means; one that says nothing of the job is no cluster's.

    Raises:
        EnvironmentFailed: the controller did not answer.
    """
    if ran.ok:
        return "taken"
    kind = detect_refusal(ran.stderr)
    if ran.status is None or kind in (Refusal.DOUBT, Refusal.UNREACHABLE):
        raise _explain_silence(ran, seconds)
    return "not now" if kind is Refusal.PASSING else "refused"


def _parse_local_time(text: str) -> float | None:
    """sbatch says local time, without a zone."""
    with suppress(ValueError, OverflowError):
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    return None
