"""The stages of a plan: counts, when they should end, what they wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.state.parameters import Parameter, describe_job
from autoexp_tui.cockpit.state.reasons import describe_condition
from autoexp_tui.cockpit.state.session import JobView, SessionView, count_looks
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.states import Result

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.forecast import Ends

_WAITING: Final = (Look.WAITING, Look.DOOMED, Look.PLANNED, Look.HELD, Look.ASKS)
_DEEPEST: Final = 8
"""Blanks before a stage at most."""
UNSTAGED: Final = "jobs"
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
    after: tuple[str, ...]
    """The stages that it follows from."""
    indent: str
    """A blank for each stage on the longest way to it."""

    @property
    def total(self) -> int:
        """How many jobs it has."""
        return len(self.jobs)

    @property
    def done(self) -> float:
        """The part that completed, 0 to 1."""
        return self.counts.get(Look.DONE, 0) / max(1, self.total)

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
    indents: dict[str, str] = {}
    for name, before in parents.items():
        deepest = max((indents[one] for one in before if one in indents), default=None)
        indents[name] = "" if deepest is None else f"{deepest} "[:_DEEPEST]
    grouped: dict[str, list[JobView]] = {stage: [] for stage in parents}
    for job in session.jobs:
        grouped.setdefault(job.stage, []).append(job)
    return tuple(
        StageView(
            name=name_stage(name),
            jobs=tuple(jobs),
            counts=count_looks(jobs),
            ends_at=None
            if all(job.record.ended for job in jobs)
            else ends.stages.get(name),
            waits=_describe_waits(jobs, session),
            after=tuple(map(name_stage, parents.get(name, ()))),
            indent=indents.get(name, ""),
        )
        for name, jobs in grouped.items()
        if jobs
    )


def name_stage(stage: str) -> str:
    """A stage's name for people."""
    return outside(stage) or UNSTAGED


def _describe_waits(jobs: Sequence[JobView], session: SessionView) -> str:
    """What the first job that still waits has not got; of a plan, all of it."""
    job = next((job for job in jobs if job.look in _WAITING), jobs[0])
    words = []
    for index, spec in enumerate(job.record.spec.start_conditions):
        status = job.status(index)
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
