"""The stages of a plan as a graph: which follow from which, and in what order."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from autoexp_tui.model.specs import JobSpec, Plan

UNSTAGED: Final = "jobs"
"""What the stage of a plan without stages is called."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Links:
    """Who comes before whom among jobs: what each waits for, and only reads."""

    waits: Mapping[str, Sequence[str]]
    reads: Mapping[str, Sequence[str]]


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

    @property
    def follows(self) -> tuple[str, ...]:
        """The stages that it waits for or reads from."""
        return (*self.waits, *self.reads)


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
    for name, before in reads.items():
        for other in waits.get(name, ()):
            before.pop(other, None)
    return Links(
        {name: tuple(before) for name, before in waits.items()},
        {name: tuple(before) for name, before in reads.items()},
    )


def stages_of(plan: Plan, links: Links) -> tuple[Stage, ...]:
    """The plan's stages, each after those that it follows from.

    Ties go by first appearance; stages in a ring come in that order too.
    """
    grouped: dict[str, list[JobSpec]] = {}
    for job in plan.jobs:
        grouped.setdefault(job.stage, []).append(job)
    home = {job.name: job.stage for job in plan.jobs}
    made = {
        name: _stage(name, tuple(jobs), links, home) for name, jobs in grouped.items()
    }
    before = {name: one.follows for name, one in made.items()}
    return tuple(made[name] for name in in_order(before))


def _stage(
    name: str, jobs: tuple[JobSpec, ...], links: Links, home: Mapping[str, str]
) -> Stage:
    waits = _homes((b for job in jobs for b in links.waits[job.name]), home)
    reads = _homes((b for job in jobs for b in links.reads[job.name]), home)
    return Stage(
        name,
        jobs,
        waits=tuple(other for other in waits if other != name),
        reads=tuple(other for other in reads if other != name and other not in waits),
    )


def _homes(names: Iterable[str], home: Mapping[str, str]) -> Sequence[str]:
    return tuple(dict.fromkeys(home[name] for name in names if name in home))


def stage_parents(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    """The stages that each stage waits for or reads from, in order of appearance."""
    home = {job.name: job.stage for job in plan.jobs}
    found: dict[str, dict[str, None]] = {job.stage: {} for job in plan.jobs}
    for edge in plan.edges:
        before, after = home.get(edge.before), home.get(edge.after)
        if before is not None and after is not None and before != after:
            found[after][before] = None
    for job in plan.jobs:
        own = found[job.stage]
        for name in job.depends_on:
            if home.get(name, job.stage) != job.stage:
                own[home[name]] = None
    return {stage: tuple(others) for stage, others in found.items()}


# ----------------------------------------------------------------------- ordering
def in_order(before: Mapping[Key, Iterable[Key]]) -> list[Key]:
    """The keys, each after those before it; ties, and rings, by their own order."""
    place = {key: at for at, key in enumerate(before)}
    keys = list(before)
    left = {key: _known(key, before[key], place) for key in keys}
    after = _turned(left)
    ready = [place[key] for key in keys if not left[key]]
    waiting = dict.fromkeys(key for key in keys if left[key])
    ordered: list[Key] = []
    while ready or waiting:
        if not ready:  # a ring: its first one goes on as if nothing held it
            ready.append(place[next(iter(waiting))])
        key = keys[heapq.heappop(ready)]
        waiting.pop(key, None)
        ordered.append(key)
        for other in after.get(key, ()):
            left[other].discard(key)
            if not left[other] and other in waiting:
                del waiting[other]
                heapq.heappush(ready, place[other])
    return ordered


def in_a_ring(before: Mapping[Key, Iterable[Key]]) -> bool:
    """Whether some key comes, by however many steps, before itself."""
    if any(key in set(others) for key, others in before.items()):
        return True
    place = {key: at for at, key in enumerate(in_order(before))}
    return any(
        place.get(other, -1) > place[key]
        for key, others in before.items()
        for other in others
    )


def _known(key: Key, others: Iterable[Key], place: Mapping[Key, int]) -> set[Key]:
    return {other for other in others if other in place and other != key}


def _turned(before: Mapping[Key, Iterable[Key]]) -> Mapping[Key, Sequence[Key]]:
    after: dict[Key, list[Key]] = {}
    for key, others in before.items():
        for other in others:
            after.setdefault(other, []).append(key)
    return after
