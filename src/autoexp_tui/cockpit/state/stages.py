"""The stages of a plan: their counts, when they should end, what they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from autoexp_tui.cockpit.render.dag_gutter import NO_RAILS, Rails
from autoexp_tui.cockpit.render.numbers import bar, elapsed, moment
from autoexp_tui.cockpit.render.spans import (
    Line,
    Span,
    cut,
    fit,
    line,
    outside,
    shorten,
    spread,
    width,
)
from autoexp_tui.cockpit.render.status_style import FACES, Look, glyph, tally
from autoexp_tui.cockpit.state.parameters import Parameter, described_together
from autoexp_tui.cockpit.state.session import JobView, SessionView
from autoexp_tui.cockpit.state.subjects import condition_subject
from autoexp_tui.model.verdicts import Result

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.eta import Ends
    from autoexp_tui.conditions.kinds import Condition
    from autoexp_tui.model.specs import JobSpec

_WAITING = (Look.WAITING, Look.DOOMED, Look.PLANNED, Look.HELD, Look.ASKS)

_ROOMY = 60
"""Cells beyond which there is room for words beside the lines."""
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


def stages(session: SessionView, ends: Ends) -> tuple[StageView, ...]:
    """The plan's stages, each after those that it follows from."""
    links = session.links
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
            rails=links.rails.get(name, NO_RAILS),
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
    words = [condition_subject(spec, session) for spec in _open(job)]
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


def families(
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
            label=described_together(_specs(members[name]), parameters)
            or outside(name),
            jobs=tuple(members[name]),
        )
        for name in dict.fromkeys(job.record.spec.family for job in stage.jobs)
        if name
    )


def _specs(jobs: Sequence[JobView]) -> Sequence[JobSpec]:
    return [job.record.spec for job in jobs]


# -------------------------------------------------------------------------- lines
def stage_line(stage: StageView, cells: int, label_cells: int, mark: str) -> Line:
    """`├▾ stable    40 ████░░░`, in at most `cells`.

    `label_cells`: those of its lines and its name together.
    """
    drawn = first_rails(stage, cells)
    name = fit(stage.name, label_cells - len(drawn))
    head = f"{mark} {name} {stage.total:>4} "
    filled, empty = bar(stage.done, max(4, cells - len(drawn) - len(head) - 1))
    return cut(
        line(
            Span(drawn, "rule"),
            Span(head, "strong"),
            Span(filled, "bar"),
            Span(empty, "track"),
        ),
        cells,
    )


def first_rails(stage: StageView, cells: int) -> str:
    """What stands left of its first line, where there is room for it."""
    return stage.rails.first if fits_rails(stage, cells) else ""


def fits_rails(stage: StageView, cells: int) -> bool:
    """Whether its lines leave room for itself; else words say what it follows."""
    return max(len(stage.rails.first), len(stage.rails.below)) <= cells // 4


def below(stage: StageView, content: Line, cells: int) -> Line:
    """A further line of a stage, its lanes beside it."""
    drawn = stage.rails.below if fits_rails(stage, cells) else ""
    return cut(line(Span(drawn, "rule"), *content), cells)


def stage_after(stage: StageView, cells: int) -> Line:
    """`after cooldown, average`."""
    text = f"  after {', '.join(stage.after)}"
    return (Span(shorten(text, max(1, cells)), "muted"),)


def says_after(stage: StageView, cells: int) -> bool:
    """Whether words say what it follows: of several, and where the lines do not."""
    return bool(stage.after) and (
        len(stage.after) > 1 or cells > _ROOMY or not fits_rails(stage, cells)
    )


def stage_counts(
    stage: StageView, cells: int, now: float, *, apart: bool = False
) -> Line:
    """The tallies; at the right, where it fits beside them, when the stage ends."""
    tallies = _fitting(stage.tallies(apart=apart), cells)
    for ends in _ends(stage, now):
        if width(tallies) + len(ends) < cells:
            return spread(tallies, (Span(ends, "muted"),), cells)
    return cut(tallies, cells)


def _ends(stage: StageView, now: float) -> Iterator[str]:
    """When it should end, and shorter: `in ~21 h 43`, `+21h43`."""
    if stage.ends_at is not None:
        yield moment(stage.ends_at, now)
        yield f"+{elapsed(stage.ends_at - now)}"


def _fitting(tallies: Sequence[Span], cells: int) -> Line:
    """The tallies, indented as far as they fit; the last ones need you, and stay."""
    found, shown = list(tallies), (Span("    "), *spaced(tallies))
    if width(shown) > cells:
        shown = (Span("  "), *spaced(found))
    while width(shown) > cells and len(found) > 1:
        del found[0]
        shown = (Span("  … ", "muted"), *spaced(found))
    return shown


def stage_waits(stage: StageView, cells: int) -> Line:
    """`waits: checkpoint at 80 %`, while some of its jobs do."""
    return (Span(shorten(f"  waits: {stage.waits}", cells), "muted"),)


def still_waits(stage: StageView) -> bool:
    """Whether what the stage waits for is still of interest."""
    return bool(stage.waits) and any(look in stage.counts for look in _WAITING)


def compact_line(
    stage: StageView, cells: int, label_cells: int, *, apart: bool = False
) -> Line:
    """The stage in one line: its lines and name, total, bar, tallies."""
    drawn = first_rails(stage, cells)
    head = f"{fit(stage.name, label_cells - len(drawn))} {stage.total:>4} "
    tallies = tuple(spaced(stage.tallies(apart=apart)))
    room = cells - len(drawn) - len(head) - width(tallies) - 1
    filled, empty = bar(stage.done, max(6, min(20, room)))
    parts = line(
        Span(drawn, "rule"),
        Span(head, "strong"),
        Span(filled, "bar"),
        Span(f"{empty} ", "track"),
        *tallies,
    )
    return cut(parts, cells)


def family_line(family: FamilyView, cells: int) -> Line:
    """A family: a glyph for each of its stages, and what tells it apart."""
    glyphs = tuple(glyph(job.look) for job in family.jobs)
    return cut(line(Span("      "), *glyphs, Span(f" {family.label}", "muted")), cells)


def spaced(spans: Iterable[Span]) -> Iterable[Span]:
    """The spans, a blank between two."""
    for place, span in enumerate(spans):
        if place:
            yield Span(" ")
        yield span


def label_width(entries: Sequence[StageView], cells: int, most: int) -> int:
    """Cells for lines and name together: the same for all, so that bars stand in line.

    `cells`: of the list; `most`: of a name.
    """
    return max(
        (
            len(first_rails(stage, cells)) + min(cell_len(stage.name), most)
            for stage in entries
        ),
        default=4,
    )
