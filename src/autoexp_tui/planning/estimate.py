"""What running a plan may cost: GPU, node and CPU hours, and jobs, stage by stage.

Upper bounds of one attempt each, from time limits and what is asked for; what restarts
add nobody knows before. The one calculation behind `autoexp-plan`, the submit dialog
and the confirmation above a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import JobSpec, Plan, count_cpus, count_nodes
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import HOUR, join_some, plural

GPU_HOURS: Final = 1000.0
JOBS: Final = 1000
"""Above these a submission is confirmed, unless the config says otherwise."""
CONFIRM_GPU_HOURS: Final = "confirm_gpu_hours"
CONFIRM_JOBS: Final = "confirm_jobs"
"""Keys among the executor's settings; None: no bound."""
_MOST_NAMES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    jobs: int = 0
    gpu_hours: float = 0.0
    """The most of the jobs that have a time limit; so are the hours below."""
    node_hours: float = 0.0
    cpu_hours: float = 0.0
    without_limit: tuple[str, ...] = ()
    """Jobs without a time limit, by name: nothing of theirs is in the hours."""
    gpus: bool = False
    unbounded: bool = False
    stages: Mapping[str, Estimate] = field(default_factory=dict)


def estimate(jobs: Iterable[JobSpec]) -> Estimate:
    everything = list(jobs)
    stages: dict[str, list[JobSpec]] = {}
    for job in everything:
        stages.setdefault(job.stage, []).append(job)
    each = {name: _estimate_jobs(own) for name, own in stages.items()}
    return replace(_estimate_jobs(everything), stages=each)


def _estimate_jobs(jobs: Sequence[JobSpec]) -> Estimate:
    asked = [job.resources for job in jobs]
    hours = [(one, (one.time_limit_seconds or 0.0) / HOUR) for one in asked]
    return Estimate(
        jobs=len(jobs),
        gpu_hours=sum(one.gpus * spent for one, spent in hours),
        node_hours=sum(count_nodes(one.options) * spent for one, spent in hours),
        cpu_hours=sum(count_cpus(one.options) * spent for one, spent in hours),
        without_limit=tuple(
            job.name for job in jobs if job.resources.time_limit_seconds is None
        ),
        gpus=any(one.gpus for one in asked),
        unbounded=any(one.gpus and one.time_limit_seconds is None for one in asked),
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """Above what a submission is confirmed; None: never for that."""

    gpu_hours: float | None = GPU_HOURS
    jobs: int | None = JOBS

    def find_excess(self, found: Estimate) -> Mapping[str, str]:
        """Key of a bound -> what is above it; nothing: no confirmation is needed."""
        above: dict[str, str] = {}
        if self.gpu_hours is not None and found.gpu_hours > self.gpu_hours:
            asked, most = format_hours(found.gpu_hours), format_hours(self.gpu_hours)
            words = f"{asked} GPU h, above the bound of {most}"
            above["slurm.confirm.gpu_hours"] = words
        if self.jobs is not None and found.jobs > self.jobs:
            words = f"{plural(found.jobs, 'job')}, above the bound of {self.jobs}"
            above["slurm.confirm.jobs"] = words
        return above

    def describe(self, found: Estimate) -> list[str]:
        """The same in words, each with its key."""
        return [f"{words} ({key})" for key, words in self.find_excess(found).items()]


def read_bounds(plan: Plan) -> Bounds:
    settings = plan.executor.settings
    gpu_hours = settings.get(CONFIRM_GPU_HOURS, GPU_HOURS)
    jobs = settings.get(CONFIRM_JOBS, JOBS)
    return Bounds(
        float(gpu_hours) if isinstance(gpu_hours, int | float) else None,
        int(jobs) if isinstance(jobs, int | float) else None,
    )


def check_bounds(plan: Plan) -> Iterator[Problem]:
    """Warnings: what will be asked before the plan is submitted."""
    has_gpus = any(job.resources.gpus for job in plan.jobs)
    found = estimate(plan.jobs) if has_gpus else Estimate(jobs=len(plan.jobs))
    for key, words in read_bounds(plan).find_excess(found).items():
        verb = "has" if key.endswith("jobs") else "may take"
        yield Problem(
            f"{verb} {words}",
            where=key,
            hint="submitting it needs a yes, or --yes; null here asks for none",
        )


def format_hours(number: float) -> str:
    """`0.5`, `12`, `1,234`: hours, no digit more than counts."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def format_gpu_hours(found: Estimate) -> str:
    """`at most 12 GPU h`, `no GPUs`; where a time limit is missing, `at least 12`."""
    if not found.gpus:
        return "no GPUs"
    if not found.unbounded:
        return f"at most {format_hours(found.gpu_hours)} GPU h"
    if not found.gpu_hours:
        return "GPU hours without a bound: no time limit"
    return f"at least {format_hours(found.gpu_hours)} GPU h"


def describe_estimate(found: Estimate, *, cluster: bool) -> tuple[str, ...]:
    """The estimate in lines; `cluster`: whole nodes are held, so node hours count."""
    parts = [format_gpu_hours(found)]
    if found.node_hours and cluster:
        parts.append(f"{format_hours(found.node_hours)} node h")
    if found.cpu_hours:
        parts.append(f"{format_hours(found.cpu_hours)} CPU h")
    each = " an attempt each" if found.jobs > 1 and found.cpu_hours else ""
    lines = [f"{plural(found.jobs, 'job')}: {', '.join(parts)}{each}"]
    names = list(map(clean, found.without_limit))
    # Nobody counts hours that nothing bounds and no GPU is held in.
    if names and (found.gpus or len(names) < found.jobs):
        has = "has" if len(names) == 1 else "have"
        shown = join_some(names, _MOST_NAMES)
        lines.append(f"{plural(len(names), 'job')} {has} no time limit: {shown}")
    stages = []
    for name, of in found.stages.items():
        spent = f", {format_hours(of.gpu_hours)} GPU h" if of.gpu_hours else ""
        stages.append(f"{clean(name) or 'no stage'} {plural(of.jobs, 'job')}{spent}")
    if len(stages) > 1:
        lines.append("; ".join(stages))
    return tuple(lines)


def estimate_to_json(found: Estimate, bounds: Bounds) -> dict[str, object]:
    """The estimate for scripts; hours are of the jobs that have a time limit."""
    return {
        **_numbers_to_json(found),
        "without_time_limit": [clean(name) for name in found.without_limit],
        "stages": [
            {
                "stage": clean(name),
                **_numbers_to_json(stage),
                "without_time_limit": len(stage.without_limit),
            }
            for name, stage in found.stages.items()
        ],
        "bounds": {"gpu_hours": bounds.gpu_hours, "jobs": bounds.jobs},
        "confirm": bounds.describe(found),
    }


def _numbers_to_json(of: Estimate) -> dict[str, object]:
    return {
        "jobs": of.jobs,
        "gpu_hours": round(of.gpu_hours, 6),
        "node_hours": round(of.node_hours, 6),
        "cpu_hours": round(of.cpu_hours, 6),
    }
