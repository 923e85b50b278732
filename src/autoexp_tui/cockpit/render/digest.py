"""What happened while nobody looked: a sentence, and what stands behind its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.lists import render_cause
from autoexp_tui.cockpit.spans import Line, Span, outside
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.events.events import EvidenceCaptured
from autoexp_tui.model.states import Result
from autoexp_tui.model.wording import clock_time, duration, plural, sentence

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.causes import CauseGroup
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.state import Warned


_CELLS: Final = 72
"""Of a line about a cause."""


_MOST_CAUSES: Final = 12


def write_digest(
    session: SessionView,
    groups: tuple[CauseGroup, ...],
    since: float,
    now: float,
    *,
    lead: str = "",
) -> tuple[Line, ...]:
    """What is new since `since` (UTC), a sentence first; empty when nothing is.

    Args:
        session: as it is now.
        groups: what needs a person now.
        since: UTC at which the person left.
        now: UTC.
        lead: begins the sentence, before the time; empty: it tells of leaving, and
            of the key that leads on.
    """
    fresh = [job for job in session.jobs if _is_fresh(job, since)]
    parts = [
        *_count_looks(fresh),
        *_count_warnings(groups, since),
        *_count_events(session, since),
    ]
    gaps = tuple(_describe_gaps(session, since, now))
    if not parts and not gaps:
        return ()
    at, news = clock_time(since, now), ", ".join(parts) or "nothing else"
    if lead:
        told = f"{lead} {at}: {news}."
    else:
        went_on = "" if gaps else "; the engine went on"
        walk = " ! walks through them." if groups and parts else ""
        told = f"You left at {at}{went_on}. Since then: {news}.{walk}"
    details = (*gaps, *_describe_pause(session, now))
    return ((Span(told),), *details, *_describe_causes(fresh, groups, since))


# ------------------------------------------------------------------------- what is new
def _is_fresh(job: JobView, since: float) -> bool:
    """Whether a job came to look as it does after `since`."""
    match job.look:
        case Look.STALLED:
            return _stalled_since(job) > since
        case Look.DOOMED:
            return any(
                status is not None
                and status.result is Result.FAIL
                and status.since > since
                for status in job.record.start
            )
        case Look.ASKS:
            return job.record.ask is not None and job.record.ask.asked_at > since
    return job.record.since > since


def _stalled_since(job: JobView) -> float:
    """When a stalled job was found to stand, or made its last step."""
    warned = [entry.raised_at for entry in job.warned]
    moved = job.live.last_step_at if job.live is not None else None
    return max([*warned, moved or 0.0])


_NEWS: Final = (
    (frozenset({Look.DONE}), "done"),
    (frozenset({Look.FAILED, Look.LOST}), "failed"),
    (frozenset({Look.STALLED}), "stalled"),
    (frozenset({Look.DOOMED}), "can never start"),
    (frozenset({Look.SKIPPED}), "skipped"),
    (frozenset({Look.CANCELLED}), "cancelled"),
)


def _count_looks(fresh: Sequence[JobView]) -> Iterator[str]:
    for looks, word in _NEWS:
        if number := sum(job.look in looks for job in fresh):
            yield f"{number} {word}"
    if asks := sum(job.look is Look.ASKS for job in fresh):
        yield f"{asks} ask{'s' if asks == 1 else ''} you"


def _count_warnings(groups: Sequence[CauseGroup], since: float) -> Iterator[str]:
    """Warnings of what looks well otherwise."""
    number = sum(
        1 for group in groups if group.look is None for _ in _new_warnings(group, since)
    )
    if number:
        yield plural(number, "warning")


def _new_warnings(group: CauseGroup, since: float) -> Sequence[Warned]:
    return [entry for entry in group.warnings if entry.raised_at > since]


def _count_events(session: SessionView, since: float) -> Iterator[str]:
    """Restarts, and runs of which evidence was kept."""
    restarts = sum(
        1
        for job in session.jobs
        for attempt in job.record.attempts
        if attempt.number > 1 and attempt.ordered_at > since
    )
    if restarts:
        yield plural(restarts, "restart")
    kept = sum(
        1
        for record in session.snapshot.events
        if record.t > since and isinstance(record.event, EvidenceCaptured)
    )
    if kept:
        yield f"evidence kept of {plural(kept, 'run')}"


# ------------------------------------------------------------------ what stands behind
def _describe_gaps(session: SessionView, since: float, now: float) -> Iterator[Line]:
    """Times without an engine, of those in which one was needed."""
    for begin, until in session.snapshot.gaps[-3:]:
        if until > since and _had_work(session, begin):
            away = f"{clock_time(begin, now)} to {clock_time(until, now)}"
            text = f"No engine lived from {away} ({duration(until - begin)})."
            yield (Span(text, "warning"),)


def _had_work(session: SessionView, at: float) -> bool:
    """Whether at `at` not every job had ended for good."""
    return any(not job.record.ended or job.record.since > at for job in session.jobs)


def _describe_pause(session: SessionView, now: float) -> Iterator[Line]:
    paused = session.snapshot.paused
    if paused is not None:
        yield (Span(outside(sentence(paused, now), 2000), "warning"),)


def _describe_causes(
    fresh: Sequence[JobView], groups: Sequence[CauseGroup], since: float
) -> tuple[Line, ...]:
    """A line for each cause that has something new; a blank one before them."""
    names = {job.name for job in fresh}
    new = [
        one
        for one in groups
        if any(job.name in names for job in one.jobs) or _new_warnings(one, since)
    ]
    lines: list[Line] = [render_cause(one, _CELLS) for one in new[:_MOST_CAUSES]]
    if len(new) > _MOST_CAUSES:
        lines.append((Span(f"and {len(new) - _MOST_CAUSES} more causes", "muted"),))
    return ((), *lines) if lines else ()
