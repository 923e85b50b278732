"""The lines of lists: stages, causes, what waits, sessions, what happened meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from autoexp_tui.cockpit.spans import (
    Line,
    Span,
    cut,
    fit,
    join,
    line,
    outside,
    render_bar,
    shorten,
    spread,
    width,
)
from autoexp_tui.cockpit.state.forecast import format_end
from autoexp_tui.cockpit.state.parameters import Parameter, describe_job
from autoexp_tui.cockpit.state.reasons import (
    ALIKE,
    CauseGroup,
    WaitGroup,
    find_common_reason,
    find_reason,
    find_wait_begin,
)
from autoexp_tui.cockpit.state.session import (
    JobView,
    Look,
    SessionView,
    count_looks,
    render_tallies,
    render_tally,
)
from autoexp_tui.model.states import Result
from autoexp_tui.model.wording import sentence
from autoexp_tui.text.spelling import clock_time, duration, format_elapsed, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.stages import FamilyView, StageView
    from autoexp_tui.model.state import Warned

_ROOMY: Final = 60
"""Cells beyond which there is room for words beside the lines."""


def render_stage(stage: StageView, cells: int, label_cells: int, mark: str) -> Line:
    """`├▾ stable    40 ████░░░`, in at most `cells`; `label_cells`: of its lines and
    its name together."""
    drawn = _find_rails(stage, cells)
    name = fit(stage.name, label_cells - len(drawn))
    head = f"{mark} {name} {stage.total:>4} "
    bar = render_bar(stage.done, max(4, cells - len(drawn) - len(head) - 1))
    return cut(line(Span(drawn, "rule"), Span(head, "strong"), *bar), cells)


def _find_rails(stage: StageView, cells: int) -> str:
    """What stands left of its first line, where there is room for it."""
    return stage.rails.first if _has_room(stage, cells) else ""


def _has_room(stage: StageView, cells: int) -> bool:
    """Whether its lines leave room for itself; else words say what it follows."""
    return max(len(stage.rails.first), len(stage.rails.below)) <= cells // 4


def list_stage_notes(
    stage: StageView, cells: int, now: float, *, apart: bool
) -> Iterator[Line]:
    """The lines below a stage: counts, what it follows, what it waits for."""
    below, room = stage.rails.below, cells - 1
    lanes = below if _has_room(stage, room) else ""
    notes = [render_counts(stage, room - len(below), now, apart=apart)]
    several = len(stage.after) > 1 or cells > _ROOMY
    if stage.after and (several or not _has_room(stage, cells)):
        text = f"  after {', '.join(stage.after)}"
        notes.append((Span(shorten(text, max(1, room - len(below))), "muted"),))
    if stage.is_waiting:
        text = shorten(f"  waits: {stage.waits}", room - len(below))
        notes.append((Span(text, "muted"),))
    for note in notes:
        yield cut(line(Span(lanes, "rule"), *note), room)


def render_counts(
    stage: StageView, cells: int, now: float, *, apart: bool = False
) -> Line:
    """The tallies, indented as far as they fit: the last ones need you, and stay; at
    the right, where it fits, when the stage ends."""
    found = render_tallies(stage.counts, apart=apart)
    shown = (Span("    "), *join(found, " "))
    if width(shown) > cells:
        shown = (Span("  "), *join(found, " "))
    while width(shown) > cells and len(found) > 1:
        del found[0]
        shown = (Span("  … ", "muted"), *join(found, " "))
    if stage.end is not None:
        told = format_end(stage.end, now)
        left = f"+{format_elapsed(stage.end.at - now)}"
        if stage.end.guessed:
            left = told.replace(", guessed", "?")
        for ends in (told, left):
            if width(shown) + len(ends) < cells:
                return spread(shown, (Span(ends, "muted"),), cells)
    return cut(shown, cells)


def render_compact(
    stage: StageView, cells: int, label_cells: int, *, apart: bool = False
) -> Line:
    """The stage in one line: its lines and name, total, bar, tallies."""
    drawn = _find_rails(stage, cells)
    head = f"{fit(stage.name, label_cells - len(drawn))} {stage.total:>4} "
    tallies = join(render_tallies(stage.counts, apart=apart), " ")
    room = cells - len(drawn) - len(head) - width(tallies) - 1
    bar = (*render_bar(stage.done, max(6, min(20, room))), Span(" ", "track"))
    return cut(line(Span(drawn, "rule"), Span(head, "strong"), *bar, *tallies), cells)


def render_family(family: FamilyView, cells: int) -> Line:
    """A family: a glyph for each of its stages, and what tells it apart."""
    glyphs = (Span(job.look.glyph, job.look.role) for job in family.jobs)
    return cut(line(Span("      "), *glyphs, Span(f" {family.label}", "muted")), cells)


def measure_labels(entries: Sequence[StageView], cells: int, most: int) -> int:
    """Cells for lines and name together, so that bars stand in line; `cells`: of the
    list, `most`: of a name."""
    labels = (
        len(_find_rails(stage, cells)) + min(cell_len(stage.name), most)
        for stage in entries
    )
    return max(labels, default=4)


def render_cause(group: CauseGroup, cells: int, *, apart: bool = False) -> Line:
    """`✗4 out of memory      bsz=1024` in exactly `cells`."""
    tally = Span(f"!{' ' if apart else ''}{group.size}", "warning")
    if group.look is not None:
        tally = render_tally(group.look, group.size, apart=apart)
    mark = Span(fit(tally.text, 5 if apart else 4), tally.role)
    room = max(1, cells - len(mark.text))
    least = room * 3 // 5
    if cell_len(group.common) > least:  # all of a single job's, as a rule
        least = room * 2 // 5
    common = shorten(group.common, max(least, room - cell_len(group.title) - 1))
    title_cells = room - len(common) - 1 if common else room
    tail = (Span(" "), Span(common, "muted")) if common else ()
    return (mark, Span(fit(group.title, title_cells)), *tail)


def render_evidence(group: CauseGroup) -> Iterator[Line]:
    """What was seen, each different last word once, and whose it is."""
    seen: dict[str, list[str]] = {}
    for job in group.jobs:
        words = group.seen.get(job.name, "")
        words = words or (job.attempt.evidence if job.attempt else "")
        words = words or next((entry.evidence for entry in job.warned), "")
        if words:
            seen.setdefault(outside(words), []).append(job.name)
    for entry in group.warnings if not group.jobs else ():
        if entry.evidence:
            seen.setdefault(outside(entry.evidence), []).append(entry.job)
    for ask in group.asks.values():
        seen |= {f"{at:>2} {outside(one)}": [""] for at, one in enumerate(ask.lines, 1)}
    for words, names in seen.items():
        whose = outside(names[0]) if len(names) == 1 else f"{len(names)} of them"
        yield (Span(words), Span(f"  {whose}" if names[0] else "", "muted"))


def render_wait_group(
    group: WaitGroup, session: SessionView, cells: int, *, mark: str, apart: bool
) -> Line:
    """`▹ ◌812  cooldown  waits for iter_48000/done.txt   03-07 08:41, 3 d 4 h`."""
    tally = render_tally(group.look, len(group.jobs), apart=apart)
    since = _format_since(group.oldest, session.now, cells)
    head = line(
        Span(f"{mark} ", "muted"),
        Span(fit(tally.text, 7), tally.role),
        Span(fit(outside(group.jobs[0].stage) or "-", 10 if cells < 90 else 14)),
        Span(" "),
    )
    room = max(1, cells - width(head) - len(since) - 1)
    words = fit(find_common_reason(group.jobs[:ALIKE], session), room)
    return (*head, Span(words, group.look.role), Span(f" {since}", "muted"))


def render_waiting_job(
    job: JobView, session: SessionView, parameters: Sequence[Parameter], cells: int
) -> Line:
    """A waiting job under its group: what tells it apart, reason, since when."""
    label = describe_job(job.record.spec, parameters) or outside(job.name)
    since = _format_since(find_wait_begin(job), session.now, cells)
    name_cells = max(12, min(44, cells * 2 // 5))
    room = max(1, cells - name_cells - len(since) - 9)
    return (
        Span(f"    {job.look.glyph} ", job.look.role),
        Span(fit(label, name_cells, middle=True)),
        Span("  "),
        Span(fit(find_reason(job, session), room), "muted"),
        Span(f" {since}", "muted"),
    )


def _format_since(t: float, now: float, cells: int) -> str:
    """`03-07 08:41, 3 d 4 h`; on narrow screens the span alone."""
    if not t:
        return ""
    if cells < 100:
        return duration(now - t).rjust(8)
    clock = clock_time(t, now)
    return f"{clock[5:] if ' ' in clock else clock}, {duration(now - t)}".rjust(22)


_CELLS: Final = 72
"""Of a line about a cause."""
_MOST_CAUSES: Final = 12
_NEWS: Final = (
    ((Look.DONE,), "done"),
    ((Look.FAILED, Look.LOST), "failed"),
    ((Look.STALLED,), "stalled"),
    ((Look.DOOMED,), "can never start"),
    ((Look.SKIPPED,), "skipped"),
    ((Look.CANCELLED,), "cancelled"),
)


def write_digest(
    session: SessionView,
    groups: tuple[CauseGroup, ...],
    since: float,
    now: float,
    *,
    lead: str = "",
) -> tuple[Line, ...]:
    """What is new since `since` (UTC), a sentence first; empty when nothing is.

    `groups`: what needs a person now; `lead` begins the sentence, before the time;
    empty: it tells of leaving, and of the key that leads on.
    """
    fresh = [job for job in session.jobs if _find_change(job) > since]
    parts = list(_count_news(fresh, session, groups, since))
    gaps = tuple(_describe_gaps(session, since, now))
    if not parts and not gaps:
        return ()
    at, news = clock_time(since, now), ", ".join(parts) or "nothing else"
    text = f"{lead} {at}: {news}."
    if not lead:
        went_on = "" if gaps else "; the engine went on"
        walk = " ! walks through them." if groups and parts else ""
        text = f"You left at {at}{went_on}. Since then: {news}.{walk}"
    paused = session.snapshot.paused
    words = sentence(paused, now, keys=not lead) if paused is not None else ""
    pause = outside(words, 2000)
    details = (*gaps, line(Span(pause, "warning"))) if pause else gaps
    return ((Span(text),), *details, *_describe_causes(fresh, groups, since))


def _find_change(job: JobView) -> float:
    """Since when a job looks as it does; UTC."""
    record = job.record
    if job.look is Look.STALLED:  # found to stand, or made its last step
        moved = job.live.last_step_at or 0.0
        return max([moved, *(entry.raised_at for entry in job.warned)])
    if job.look is Look.DOOMED:
        statuses = [one for one in record.start if one is not None]
        failed = [one.since for one in statuses if one.result is Result.FAIL]
        return max(failed, default=0.0)
    return find_wait_begin(job)


def _count_news(
    fresh: Sequence[JobView],
    session: SessionView,
    groups: Sequence[CauseGroup],
    since: float,
) -> Iterator[str]:
    """Looks; warnings of what looks well otherwise, restarts, kept evidence."""
    from autoexp_tui.events.events import EvidenceCaptured  # a first paint needs none

    counts = count_looks(fresh)
    for looks, word in _NEWS:
        if number := sum(counts.get(look, 0) for look in looks):
            yield f"{number} {word}"
    questions = sum(ask.asked_at > since for ask in session.asks.values())
    if asks := counts.get(Look.ASKS, 0) + questions:
        yield f"{asks} ask{'s' if asks == 1 else ''} you"
    well = (group for group in groups if group.look is None)
    if warnings := sum(len(_list_warnings(group, since)) for group in well):
        yield plural(warnings, "warning")
    attempts = (one for job in session.jobs for one in job.record.attempts)
    if restarts := sum(one.number > 1 and one.ordered_at > since for one in attempts):
        yield plural(restarts, "restart")
    happened = (record.event for record in session.snapshot.events if record.t > since)
    if kept := sum(isinstance(event, EvidenceCaptured) for event in happened):
        yield f"evidence kept of {plural(kept, 'run')}"


def _list_warnings(group: CauseGroup, since: float) -> Sequence[Warned]:
    return [entry for entry in group.warnings if entry.raised_at > since]


def _describe_gaps(session: SessionView, since: float, now: float) -> Iterator[Line]:
    """Times without an engine in which not every job had ended for good."""
    for begin, until in session.snapshot.gaps[-3:]:
        work = (
            not one.record.ended or one.record.since > begin for one in session.jobs
        )
        if until > since and any(work):
            away = f"{clock_time(begin, now)} to {clock_time(until, now)}"
            text = (
                f"The engine was not running from {away} ({duration(until - begin)})."
            )
            yield (Span(text, "warning"),)


def _describe_causes(
    fresh: Sequence[JobView], groups: Sequence[CauseGroup], since: float
) -> tuple[Line, ...]:
    """A line for each cause that has something new; a blank one before them."""
    names = {job.name for job in fresh}
    new = [
        one
        for one in groups
        if any(job.name in names for job in one.jobs)
        or any(ask.asked_at > since for ask in one.asks.values())
        or _list_warnings(one, since)
    ]
    lines: list[Line] = [render_cause(one, _CELLS) for one in new[:_MOST_CAUSES]]
    if len(new) > _MOST_CAUSES:
        lines.append((Span(f"and {len(new) - _MOST_CAUSES} more causes", "muted"),))
    return ((), *lines) if lines else ()
