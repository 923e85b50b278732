"""The order of jobs that wait for one another, and of the stages of a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from autoexp_tui.model.resubmission import walk_links
from autoexp_tui.model.specs import JobSpec, Plan

UNSTAGED: Final = "jobs"


def find_first_family(plan: Plan, done: Collection[str] = ()) -> tuple[str, ...]:
    """The jobs of the first family, and all that they wait for, in plan order.

    A job without a family is one of its own. `done`: jobs that will not run; a family
    of nothing else would try nothing, and the first one that has more is taken.
    """
    if not plan.jobs:
        return ()
    first = next((job for job in plan.jobs if job.name not in done), plan.jobs[0])
    chosen = {
        job.name
        for job in plan.jobs
        if job is first or (first.family and job.family == first.family)
    }
    before = {job.name: job.depends_on for job in plan.jobs}
    chosen |= {*walk_links(chosen, before, before.__contains__)}
    return tuple(job.name for job in plan.jobs if job.name in chosen)


Side: TypeAlias = Mapping[str, tuple[str, ...]]
"""Jobs, or stages, by the one that follows them."""


@dataclass(frozen=True, slots=True)
class Links:
    """Who comes before whom among jobs: what each waits for, and only reads."""

    waits: Side
    reads: Side


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
        return self.name or UNSTAGED


def find_links(plan: Plan) -> Links:
    """The plan's edges by their later job; waits win, and are all `depends_on` else."""
    sides: dict[str, dict[str, dict[str, None]]] = {"waits": {}, "reads": {}}
    for edge in plan.edges:
        sides[edge.mode].setdefault(edge.after, {})[edge.before] = None
    waits, reads = sides["waits"], sides["reads"]
    for job in plan.jobs:
        own = reads.get(job.name, ())
        if others := dict.fromkeys(b for b in job.depends_on if b not in own):
            waits[job.name] = waits.get(job.name, {}) | others
    none = dict.fromkeys((job.name for job in plan.jobs), ())  # most follow nothing
    only_read = {
        name: tuple(b for b in befores if b not in waits.get(name, ()))
        for name, befores in reads.items()
    }
    return Links({**none, **{n: tuple(b) for n, b in waits.items()}}, none | only_read)


def list_stages(plan: Plan, links: Links) -> tuple[Stage, ...]:
    """The stages, each after those it follows from; those in a ring come last."""
    grouped: dict[str, list[JobSpec]] = {}
    for job in plan.jobs:
        grouped.setdefault(job.stage, []).append(job)
    home = {job.name: job.stage for job in plan.jobs}
    waits = {name: _find_homes(j, links.waits, home) for name, j in grouped.items()}
    reads = {
        name: tuple(
            one for one in _find_homes(j, links.reads, home) if one not in waits[name]
        )
        for name, j in grouped.items()
    }
    order = order_stages({name: (*waits[name], *reads[name]) for name in grouped})
    return tuple(
        Stage(name, tuple(grouped[name]), waits[name], reads[name]) for name in order
    )


def _find_homes(
    jobs: Sequence[JobSpec], side: Side, home: Mapping[str, str]
) -> tuple[str, ...]:
    names = (home.get(before) for job in jobs for before in side[job.name])
    others = (one for one in names if one is not None and one != jobs[0].stage)
    return tuple(dict.fromkeys(others))


def find_stage_parents(plan: Plan) -> Side:
    """The stages that each stage waits for or reads from, each after its own."""
    stages = list_stages(plan, find_links(plan))
    return {one.name: (*one.waits, *one.reads) for one in stages}


def order_stages(before: Mapping[str, Collection[str]]) -> list[str]:
    """The names, each after those before it; ties by their own order, rings last."""
    rest, left, ordered = list(before), set(before), list[str]()
    while rest:
        ready = (name for name in rest if not left.intersection(before[name]) - {name})
        if (first := next(ready, None)) is None:
            break
        ordered.append(first)
        rest.remove(first)
        left.remove(first)
    return [*ordered, *rest]
