"""The stages of a plan as a graph: which follow from which, and in what order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.dag import topological

UNSTAGED: Final = "jobs"
"""What the stage of a plan without stages is called."""


@dataclass(frozen=True, slots=True)
class Links:
    """Who comes before whom among jobs: what each waits for, and only reads."""

    waits: Mapping[str, tuple[str, ...]]
    reads: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its jobs in index order, and the stages that it follows from."""

    name: str
    """Empty when its jobs have no stage."""
    jobs: tuple[JobSpec, ...]
    waits: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    """Stages that it reads from and does not wait for."""

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.name or UNSTAGED


def links_of(plan: Plan) -> Links:
    """The plan's edges by the job at their end; waits win over reads.

    A dependency that no edge explains counts as a wait.
    """
    waits: dict[str, dict[str, None]] = {job.name: {} for job in plan.jobs}
    reads: dict[str, dict[str, None]] = {job.name: {} for job in plan.jobs}
    for edge in plan.edges:
        side = waits if edge.mode == "waits" else reads
        side.setdefault(edge.after, {})[edge.before] = None
    for job in plan.jobs:
        own = reads[job.name]
        waits[job.name] |= dict.fromkeys(b for b in job.depends_on if b not in own)
    return Links(
        {name: tuple(before) for name, before in waits.items()},
        {
            name: tuple(one for one in before if one not in waits.get(name, ()))
            for name, before in reads.items()
        },
    )


def stages_of(plan: Plan, links: Links) -> tuple[Stage, ...]:
    """The plan's stages, each after those that it follows from.

    Ties go by first appearance; stages in a ring come last.
    """
    grouped: dict[str, list[JobSpec]] = {}
    for job in plan.jobs:
        grouped.setdefault(job.stage, []).append(job)
    home = {job.name: job.stage for job in plan.jobs}
    waits = {name: _homes(jobs, links.waits, home) for name, jobs in grouped.items()}
    reads = {name: _homes(jobs, links.reads, home) for name, jobs in grouped.items()}
    order = order_stages({name: (*waits[name], *reads[name]) for name in grouped})
    return tuple(
        Stage(
            name,
            tuple(grouped[name]),
            waits[name],
            tuple(one for one in reads[name] if one not in waits[name]),
        )
        for name in order
    )


def _homes(
    jobs: Iterable[JobSpec],
    side: Mapping[str, tuple[str, ...]],
    home: Mapping[str, str],
) -> tuple[str, ...]:
    """The other stages in which the jobs are that these jobs follow."""
    names = (home.get(before) for job in jobs for before in side[job.name])
    own = {job.stage for job in jobs}
    return tuple(
        dict.fromkeys(one for one in names if one is not None and one not in own)
    )


def stage_parents(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    """The stages that each stage waits for or reads from, each after its own."""
    return {
        one.name: (*one.waits, *one.reads) for one in stages_of(plan, links_of(plan))
    }


def order_stages(before: Mapping[str, Iterable[str]]) -> list[str]:
    """The names, each after those before it; ties by their own order, rings last."""
    names = list(before)
    place = {name: at for at, name in enumerate(names)}
    pairs = (
        (place[other], place[name])
        for name, others in before.items()
        for other in others
        if other in place and other != name
    )
    ordered = [names[at] for at in topological(len(names), pairs)]
    return list(dict.fromkeys([*ordered, *names]))
