"""What running a plan may cost: GPU, node and CPU hours, and jobs, stage by stage.

Upper bounds of one attempt each, from time limits and what is asked for; what restarts
add nobody knows before. The one calculation behind `autoexp-plan`, the submit dialog
and the confirmation above a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.resource_totals import cpus_of, nodes_of
from autoexp_tui.model.scalars import Scalar
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import HOUR, plural

GPU_HOURS: Final = 1000.0
JOBS: Final = 1000
"""Above these a submission is confirmed, unless the config says otherwise."""
CONFIRM_GPU_HOURS: Final = "confirm_gpu_hours"
CONFIRM_JOBS: Final = "confirm_jobs"
"""Keys among the executor's settings; None: no bound."""
_MOST_NAMES: Final = 3
_MOST_STAGES: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEstimate:
    """The jobs of one stage."""

    stage: str
    jobs: int = 0
    gpu_hours: float = 0.0
    node_hours: float = 0.0
    cpu_hours: float = 0.0
    without_limit: tuple[str, ...] = ()
    """Jobs without a time limit: nothing of theirs is in the hours."""
    gpus_without_limit: bool = False
    """Whether one of those asks for GPUs."""
    gpus: bool = False
    """Whether any job asks for GPUs."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an attempt of each job may use."""

    stages: tuple[StageEstimate, ...]

    @property
    def jobs(self) -> int:
        """How many there are."""
        return sum(stage.jobs for stage in self.stages)

    @property
    def gpu_hours(self) -> float:
        """The most GPU hours of the jobs that have a time limit."""
        return sum(stage.gpu_hours for stage in self.stages)

    @property
    def node_hours(self) -> float:
        """The same of nodes."""
        return sum(stage.node_hours for stage in self.stages)

    @property
    def cpu_hours(self) -> float:
        """The same of CPUs."""
        return sum(stage.cpu_hours for stage in self.stages)

    @property
    def without_limit(self) -> tuple[str, ...]:
        """Jobs without a time limit, by name."""
        return tuple(name for stage in self.stages for name in stage.without_limit)

    @property
    def gpus(self) -> bool:
        """Whether any job asks for GPUs."""
        return any(stage.gpus for stage in self.stages)

    @property
    def unbounded(self) -> bool:
        """Whether a job that asks for GPUs has no time limit."""
        return any(stage.gpus_without_limit for stage in self.stages)


def estimate(jobs: Iterable[JobSpec]) -> Estimate:
    """What an attempt of each of these jobs may use."""
    stages: dict[str, list[JobSpec]] = {}
    for job in jobs:
        stages.setdefault(job.stage, []).append(job)
    return Estimate(tuple(_of_stage(name, own) for name, own in stages.items()))


def _of_stage(stage: str, jobs: Sequence[JobSpec]) -> StageEstimate:
    limited = [job for job in jobs if job.resources.time_limit_seconds is not None]
    endless = [job for job in jobs if job.resources.time_limit_seconds is None]
    hours = [(job, (job.resources.time_limit_seconds or 0.0) / HOUR) for job in limited]
    return StageEstimate(
        stage=stage,
        jobs=len(jobs),
        gpu_hours=sum(job.resources.gpus * spent for job, spent in hours),
        node_hours=sum(nodes_of(job.resources.options) * spent for job, spent in hours),
        cpu_hours=sum(cpus_of(job.resources.options) * spent for job, spent in hours),
        without_limit=tuple(job.name for job in endless),
        gpus_without_limit=any(job.resources.gpus for job in endless),
        gpus=any(job.resources.gpus for job in jobs),
    )


# --------------------------------------------------------------------------- bounds
@dataclass(frozen=True, slots=True)
class Bounds:
    """Above what a submission is confirmed; None: never for that."""

    gpu_hours: float | None = GPU_HOURS
    jobs: int | None = JOBS

    def exceeded(self, found: Estimate) -> Sequence[Exceeded]:
        """What is above its bound; nothing: no confirmation is needed."""
        return tuple(_exceeded(self, found))


class Bounded(Enum):
    """What a submission may have too much of."""

    GPU_HOURS = "gpu_hours"
    JOBS = "jobs"


@dataclass(frozen=True, slots=True)
class Exceeded:
    """Something that is above its bound."""

    what: Bounded
    words: str

    @property
    def key(self) -> str:
        """Where the bound is set."""
        return f"slurm.confirm.{self.what.value}"


def _exceeded(bounds: Bounds, found: Estimate) -> Iterator[Exceeded]:
    if bounds.gpu_hours is not None and found.gpu_hours > bounds.gpu_hours:
        words = f"{hours(found.gpu_hours)} GPU h"
        yield Exceeded(
            Bounded.GPU_HOURS, f"{words}, above the bound of {hours(bounds.gpu_hours)}"
        )
    if bounds.jobs is not None and found.jobs > bounds.jobs:
        words = plural(found.jobs, "job")
        yield Exceeded(Bounded.JOBS, f"{words}, above the bound of {bounds.jobs}")


def bounds_of(plan: Plan) -> Bounds:
    """The bounds that a plan's config sets, or the usual ones."""
    settings = plan.executor.settings
    gpu_hours = _number(settings, CONFIRM_GPU_HOURS, GPU_HOURS)
    jobs = _number(settings, CONFIRM_JOBS, JOBS)
    return Bounds(gpu_hours, None if jobs is None else int(jobs))


def _number(settings: Mapping[str, Scalar], key: str, default: float) -> float | None:
    value = settings.get(key, default)
    return float(value) if isinstance(value, int | float) else None


_VERBS: Final[Mapping[Bounded, str]] = {
    Bounded.GPU_HOURS: "may take",
    Bounded.JOBS: "has",
}


def above_bounds(plan: Plan) -> Iterator[Problem]:
    """Warnings: what will be asked before the plan is submitted."""
    for one in bounds_of(plan).exceeded(estimate(plan.jobs)):
        yield Problem(
            f"{_VERBS[one.what]} {one.words}",
            where=one.key,
            hint="submitting it needs a yes, or --yes; null here asks for none",
        )


# ---------------------------------------------------------------------------- words
def hours(number: float) -> str:
    """`0.5`, `12`, `1,234`: hours, no digit more than counts."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def gpu_words(found: Estimate) -> str:
    """`at most 12 GPU h`, `no GPUs`; where a time limit is missing, `at least 12`."""
    if not found.gpus:
        return "no GPUs"
    if not found.unbounded:
        return f"at most {hours(found.gpu_hours)} GPU h"
    if not found.gpu_hours:
        return "GPU hours without a bound: no time limit"
    return f"at least {hours(found.gpu_hours)} GPU h"


def told(found: Estimate, *, cluster: bool) -> tuple[str, ...]:
    """The estimate in lines: all of it, who has no time limit, each stage.

    `cluster`: whether whole nodes are held, so that their hours say something.
    """
    parts = [gpu_words(found)]
    if found.node_hours and cluster:
        parts.append(f"{hours(found.node_hours)} node h")
    if found.cpu_hours:
        parts.append(f"{hours(found.cpu_hours)} CPU h")
    each = " an attempt each" if found.jobs > 1 and found.cpu_hours else ""
    lines = [f"{plural(found.jobs, 'job')}: {', '.join(parts)}{each}"]
    lines += _endless(found)
    if len(found.stages) > 1:
        shown = [_stage(stage) for stage in found.stages[:_MOST_STAGES]]
        rest = len(found.stages) - len(shown)
        more = [f"{plural(rest, 'more stage')}"] if rest else []
        lines.append("; ".join([*shown, *more]))
    return tuple(lines)


def _endless(found: Estimate) -> Iterator[str]:
    names = found.without_limit
    if not names or (len(names) == found.jobs and not found.gpus):
        return  # nobody counts hours that nothing bounds and no GPU is held in
    shown = ", ".join(clean(name) for name in names[:_MOST_NAMES])
    rest = len(names) - _MOST_NAMES
    more = f" and {rest} more" if rest > 0 else ""
    has = "has" if len(names) == 1 else "have"
    yield f"{plural(len(names), 'job')} {has} no time limit: {shown}{more}"


def _stage(stage: StageEstimate) -> str:
    name = clean(stage.stage) or "no stage"
    spent = f", {hours(stage.gpu_hours)} GPU h" if stage.gpu_hours else ""
    return f"{name} {plural(stage.jobs, 'job')}{spent}"


# ----------------------------------------------------------------------------- JSON
def estimate_to_json(found: Estimate, bounds: Bounds) -> dict[str, object]:
    """The estimate for scripts; hours are of the jobs that have a time limit."""
    return {
        "jobs": found.jobs,
        **_hours_json(found),
        "without_time_limit": [clean(name) for name in found.without_limit],
        "stages": [
            {
                "stage": clean(stage.stage),
                "jobs": stage.jobs,
                **_hours_json(stage),
                "without_time_limit": len(stage.without_limit),
            }
            for stage in found.stages
        ],
        "bounds": {"gpu_hours": bounds.gpu_hours, "jobs": bounds.jobs},
        "confirm": [f"{one.words} ({one.key})" for one in bounds.exceeded(found)],
    }


def _hours_json(of: Estimate | StageEstimate) -> dict[str, object]:
    return {
        "gpu_hours": round(of.gpu_hours, 6),
        "node_hours": round(of.node_hours, 6),
        "cpu_hours": round(of.cpu_hours, 6),
    }
