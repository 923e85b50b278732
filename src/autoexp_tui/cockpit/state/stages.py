"""The rails beside a list of stages: lines that lead from each to what follows it.

A stage that others wait for keeps a lane, one cell wide, until the last of them is
listed. A stage stands right of all lanes; a line runs to it from every lane that it
follows from. A line that passes over a lane does not join it.

    ▾ stable
    ├▾ cooldown
    │├▾ evaluate     of cooldown
    │└─▾ average     of cooldown
    └──┴▾ report     of stable and average
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.spans import (
    Span,
    outside,
)
from autoexp_tui.cockpit.state.parameters import Parameter, describe_family
from autoexp_tui.cockpit.state.reasons import describe_condition
from autoexp_tui.cockpit.state.session import JobView, SessionView
from autoexp_tui.cockpit.state.status import FACES, Look, tally
from autoexp_tui.model.states import Result

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.forecast import Ends
    from autoexp_tui.model.condition import Condition
    from autoexp_tui.model.specs import JobSpec


BELOW: Final = "│"


@dataclass(frozen=True, slots=True)
class Rails:
    """What stands left of a stage: before its first line, and before further ones."""

    first: str = ""
    below: str = ""


NO_RAILS: Final = Rails()
"""Of a stage that stands alone."""


def draw_rails(parents: Mapping[str, Sequence[str]]) -> Mapping[str, Rails]:
    """The rails of stages.

    `parents`: by stage, in the order of the list, those that it follows from; one that
    is not listed before it has no lane, and no line.
    """
    drawing = _Drawing(parents)
    return {stage: drawing.place(stage, parents[stage]) for stage in parents}


class _Drawing:
    def __init__(self, parents: Mapping[str, Sequence[str]]) -> None:
        self._open: dict[str, int] = {}
        """How many stages that follow from one are still to come."""
        self._lanes: list[str | None] = []
        """The stage that has each lane, "" for jobs without one; None: nobody."""
        seen: set[str] = set()
        for stage, others in parents.items():
            for other in set(others) & seen:
                self._open[other] = self._open.get(other, 0) + 1
            seen.add(stage)

    def place(self, stage: str, parents: Sequence[str]) -> Rails:
        """The rails of the next stage."""
        wanted = set(parents)
        joined = [lane for lane, one in enumerate(self._lanes) if one in wanted]
        column = len(self._lanes)
        ended = self._leave(joined)
        first = "".join(
            self._cell(lane, joined, ended=lane in ended) for lane in range(column)
        )
        for lane in ended:
            self._lanes[lane] = None
        if self._open.get(stage):
            self._lanes.append(stage)
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()
        below = "".join(self._passing(lane) for lane in range(len(self._lanes)))
        return Rails(first, below)

    def _leave(self, joined: Sequence[int]) -> set[int]:
        """Count a stage off the lanes that lead to it; those that end with it."""
        ended = set()
        for lane in joined:
            owner = self._lanes[lane] or ""
            self._open[owner] -= 1
            if not self._open[owner]:
                ended.add(lane)
        return ended

    def _cell(self, lane: int, joined: Sequence[int], *, ended: bool) -> str:
        if not joined or lane < joined[0]:
            return self._passing(lane)
        if lane not in joined:
            return "─"
        if lane == joined[0]:
            return "└" if ended else "├"
        return "┴" if ended else "┼"

    def _passing(self, lane: int) -> str:
        return " " if self._lanes[lane] is None else BELOW


_WAITING = (Look.WAITING, Look.DOOMED, Look.PLANNED, Look.HELD, Look.ASKS)


UNSTAGED = "jobs"
"""What the stage of a plan without stages is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """One stage: its jobs, how they look, what they wait for."""

    name: str
    jobs: tuple[JobView, ...]
    counts: Mapping[Look, int]
    ends_at: float | None
    waits: str
    """What its first waiting job waits for, said for the whole stage; may be empty."""
    after: tuple[str, ...] = ()
    """The stages that it follows from."""
    rails: Rails = NO_RAILS
    """The lines that lead to it from those."""

    @property
    def total(self) -> int:
        """How many jobs it has."""
        return len(self.jobs)

    @property
    def done(self) -> float:
        """The part that completed, 0 to 1."""
        return self.counts.get(Look.DONE, 0) / max(1, self.total)

    def tallies(self, *, apart: bool = False) -> tuple[Span, ...]:
        """`✓28 ▸4 ‖2 ✗4`: every look that is there."""
        return tuple(
            tally(look, self.counts[look], apart=apart)
            for look in FACES
            if look in self.counts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyView:
    """The jobs at the same coordinates, one a stage."""

    name: str
    label: str
    jobs: tuple[JobView, ...]


def build_stages(session: SessionView, ends: Ends) -> tuple[StageView, ...]:
    """The plan's stages, each after those that it follows from."""
    links = session.links
    rails = draw_rails(links.stages)
    grouped: dict[str, list[JobView]] = {stage: [] for stage in links.stages}
    for job in session.jobs:
        grouped.setdefault(job.stage, []).append(job)
    return tuple(
        StageView(
            name=outside(name) or UNSTAGED,
            jobs=tuple(jobs),
            counts=_counts(jobs),
            ends_at=ends.stages.get(name) if _goes_on(jobs) else None,
            waits=_waits(jobs, session),
            after=tuple(outside(one) or UNSTAGED for one in links.stages.get(name, ())),
            rails=rails.get(name, NO_RAILS),
        )
        for name, jobs in grouped.items()
        if jobs
    )


def _goes_on(jobs: Sequence[JobView]) -> bool:
    return any(not job.record.ended for job in jobs)


def _counts(jobs: Sequence[JobView]) -> Mapping[Look, int]:
    counts: dict[Look, int] = {}
    for job in jobs:
        counts[job.look] = counts.get(job.look, 0) + 1
    return counts


def _waits(jobs: Sequence[JobView], session: SessionView) -> str:
    """What the first job that still waits has not got; of a plan, all of it."""
    job = next((job for job in jobs if job.look in _WAITING), jobs[0])
    words = [describe_condition(spec, session) for spec in _open(job)]
    words = [word for word in words if word]
    more = f" +{len(words) - 1}" if len(words) > 1 else ""
    return f"{words[0]}{more}" if words else ""


def _open(job: JobView) -> Iterator[Condition]:
    """The job's conditions that hold it back and have not passed."""
    for index, spec in enumerate(job.record.spec.start_conditions):
        status = job.status(index)
        passed = status and (status.waived or status.result is Result.PASS)
        if spec.blocking and not passed:
            yield spec


def build_families(
    stage: StageView, session: SessionView, parameters: Sequence[Parameter]
) -> tuple[FamilyView, ...]:
    """The families that have a job in `stage`, with their jobs of every stage."""
    members: dict[str, list[JobView]] = {}
    for job in session.jobs:
        if job.record.spec.family:
            members.setdefault(job.record.spec.family, []).append(job)
    return tuple(
        FamilyView(
            name=name,
            label=describe_family(_specs(members[name]), parameters) or outside(name),
            jobs=tuple(members[name]),
        )
        for name in dict.fromkeys(job.record.spec.family for job in stage.jobs)
        if name
    )


def _specs(jobs: Sequence[JobView]) -> Sequence[JobSpec]:
    return [job.record.spec for job in jobs]
