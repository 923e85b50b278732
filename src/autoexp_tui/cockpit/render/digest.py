"""What happened while nobody looked: a sentence, and what stands behind its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.lists import render_cause
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.cockpit.state.reasons import find_wait_begin
from autoexp_tui.cockpit.state.session import count_looks
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.events.events import EvidenceCaptured
from autoexp_tui.model.states import Result
from autoexp_tui.model.wording import sentence
from autoexp_tui.text.spelling import clock_time, duration, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.causes import CauseGroup
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.state import Warned

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
    pause = outside(sentence(paused, now), 2000) if paused is not None else ""
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
    counts = count_looks(fresh)
    for looks, word in _NEWS:
        if number := sum(counts.get(look, 0) for look in looks):
            yield f"{number} {word}"
    if asks := counts.get(Look.ASKS, 0):
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
        if any(job.name in names for job in one.jobs) or _list_warnings(one, since)
    ]
    lines: list[Line] = [render_cause(one, _CELLS) for one in new[:_MOST_CAUSES]]
    if len(new) > _MOST_CAUSES:
        lines.append((Span(f"and {len(new) - _MOST_CAUSES} more causes", "muted"),))
    return ((), *lines) if lines else ()
