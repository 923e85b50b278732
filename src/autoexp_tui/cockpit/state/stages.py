"""The stages of a plan: counts, when they should end, waits, and the lines that lead
to each from those that it follows from.

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

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.state.parameters import Parameter, describe_job
from autoexp_tui.cockpit.state.reasons import describe_condition
from autoexp_tui.cockpit.state.session import (
    BEGUN_LOOKS,
    JobView,
    Look,
    SessionView,
    count_looks,
)
from autoexp_tui.model.states import Result

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.forecast import End, Ends

_WAITING: Final = (Look.WAITING, Look.DOOMED, Look.PLANNED, Look.HELD, Look.ASKS)
_MOST_SHARE: Final = 0.99
"""Of a job that runs: only when all are done is a bar full."""
UNSTAGED: Final = "jobs"
"""What the stage of a plan without stages is called."""


class Rails(NamedTuple):
    """What stands left of a stage: before its first line, and before further ones."""

    first: str = ""
    below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """One stage: its jobs, how they look, what they wait for."""

    name: str
    jobs: tuple[JobView, ...]
    counts: Mapping[Look, int]
    done: float
    """The part that is done, 0 to 1; of what runs, by its steps."""
    end: End | None
    waits: str
    """What its first waiting job waits for, said for the whole stage; may be empty."""
    after: tuple[str, ...]
    """The stages that it follows from."""
    rails: Rails
    """The lines that lead to it from those."""

    @property
    def total(self) -> int:
        return len(self.jobs)

    @property
    def is_waiting(self) -> bool:
        """Whether what the stage waits for is still of interest."""
        return bool(self.waits) and any(look in self.counts for look in _WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyView:
    """The jobs at the same coordinates, one a stage."""

    name: str
    label: str
    jobs: tuple[JobView, ...]


def build_stages(session: SessionView, ends: Ends) -> tuple[StageView, ...]:
    """The plan's stages, each after those that it follows from."""
    parents = session.links.stages
    rails = build_rails(parents)
    grouped: dict[str, list[JobView]] = {stage: [] for stage in parents}
    for job in session.jobs:
        grouped.setdefault(job.stage, []).append(job)
    return tuple(
        StageView(
            name=name_stage(name),
            jobs=tuple(jobs),
            counts=count_looks(jobs),
            done=_measure_done(jobs),
            end=None
            if all(job.record.ended for job in jobs)
            else ends.stages.get(name),
            waits=_describe_waits(jobs, session),
            after=tuple(map(name_stage, parents.get(name, ()))),
            rails=rails.get(name, Rails()),
        )
        for name, jobs in grouped.items()
        if jobs
    )


def _measure_done(jobs: Sequence[JobView]) -> float:
    """The part of jobs that is done: all of some, of what runs that of its steps."""
    shares = (
        min(job.step / job.total, _MOST_SHARE)
        for job in jobs
        if job.look in BEGUN_LOOKS and job.step and job.total
    )
    done = sum(job.look is Look.DONE for job in jobs)
    return (done + sum(shares)) / len(jobs)


def name_stage(stage: str) -> str:
    """A stage's name for people."""
    return outside(stage) or UNSTAGED


def _describe_waits(jobs: Sequence[JobView], session: SessionView) -> str:
    """What the first job that still waits has not got; of a plan, all of it."""
    job = next((job for job in jobs if job.look in _WAITING), jobs[0])
    words = []
    for index, spec in enumerate(job.record.spec.start_conditions):
        status = job.find_status(index)
        passed = status and (status.waived or status.result is Result.PASS)
        if spec.blocking and not passed:
            words.append(describe_condition(spec, session))
    words = [word for word in words if word]
    more = f" +{len(words) - 1}" if len(words) > 1 else ""
    return f"{words[0]}{more}" if words else ""


def build_families(
    stage: StageView, session: SessionView, parameters: Sequence[Parameter]
) -> tuple[FamilyView, ...]:
    """The families that have a job in `stage`, with their jobs of every stage."""
    members: dict[str, list[JobView]] = {}
    for job in session.jobs:
        members.setdefault(job.record.spec.family, []).append(job)
    found = []
    for name in dict.fromkeys(job.record.spec.family for job in stage.jobs):
        first, *others = [job.record.spec for job in members[name]]
        label = describe_job(first, parameters, others) or outside(name)
        if name:
            jobs = tuple(members[name])
            found.append(FamilyView(name=name, label=label, jobs=jobs))
    return tuple(found)


def build_rails(parents: Mapping[str, Sequence[str]]) -> Mapping[str, Rails]:
    """The rails of stages; `parents`: by stage, in the order of the list, those that it
    follows from. One that is not listed before it has no lane, and no line."""
    left: Counter[str] = Counter()
    """How many stages that follow from one are still to come."""
    seen: set[str] = set()
    for stage, others in parents.items():
        left.update(set(others) & seen)
        seen.add(stage)
    lanes: list[str | None] = []
    """The stage that has each lane, "" for jobs without one; None: nobody."""
    found = {}
    for stage, others in parents.items():
        joined = [
            at for at, one in enumerate(lanes) if one is not None and one in others
        ]
        left.subtract(lanes[at] or "" for at in joined)
        ended = {at for at in joined if not left[lanes[at] or ""]}
        parts = (_build_rail(lanes, at, joined, ended) for at in range(len(lanes)))
        first = "".join(parts)
        lanes = [None if at in ended else one for at, one in enumerate(lanes)]
        if left[stage]:
            lanes.append(stage)
        while lanes and lanes[-1] is None:
            lanes.pop()
        below = "".join(" " if one is None else "│" for one in lanes)
        found[stage] = Rails(first, below)
    return found


def _build_rail(
    lanes: Sequence[str | None], lane: int, joined: Sequence[int], ended: set[int]
) -> str:
    """What stands in a lane on the first line of a stage that joins some lanes."""
    if not joined or lane < joined[0]:
        return " " if lanes[lane] is None else "│"
    if lane not in joined:
        return "─"
    if lane == joined[0]:
        return "└" if lane in ended else "├"
    return "┴" if lane in ended else "┼"
