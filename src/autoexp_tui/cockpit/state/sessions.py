"""The list of sessions that a person chooses from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from autoexp_tui.cockpit.render.spans import (
    Line,
    Role,
    Span,
    fit,
    fit_right,
    line,
    outside,
)
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import STATES, duration, plural


class SessionLike(Protocol):
    """What a session says of itself before it is opened."""

    @property
    def id(self) -> str:
        """Its short id."""
        ...

    @property
    def name(self) -> str:
        """The plan's name."""
        ...

    @property
    def counts(self) -> Mapping[JobState, int]:
        """How many jobs are in which state."""
        ...

    @property
    def last_event_at(self) -> float:
        """UTC of its newest event."""
        ...

    @property
    def owner(self) -> str:
        """Whether an engine runs it: `yes`, `no`, `unknown`."""
        ...

    @property
    def host(self) -> str:
        """Where that engine runs, or ran."""
        ...

    @property
    def halted_pid(self) -> int:
        """That engine's process on this host while it is stopped; else 0."""
        ...

    @property
    def user(self) -> str:
        """The other user whose it is; empty: one's own."""
        ...

    @property
    def problem(self) -> str:
        """Why it cannot be read; usually empty."""
        ...

    @property
    def open(self) -> bool:
        """Whether work is left."""
        ...


_TOLD = (
    (JobState.COMPLETED, "✓", "done"),
    (JobState.RUNNING, "▸", "running"),
    (JobState.SUSPENDED, "□", "queued"),
    (JobState.QUEUED, "⧗", "queued"),
    (JobState.WAITING, "◌", "waiting"),
    (JobState.HELD, "‗", "skipped"),
    (JobState.FAILED, "✗", "failed"),
    (JobState.LOST, "∅", "failed"),
    (JobState.CANCELLED, "×", "skipped"),
    (JobState.SKIPPED, "–", "skipped"),
)


def session_titles() -> Line:
    """The line of column titles."""
    text = f"{'ID':<7} {'NAME':<22} {'ENGINE':<20} {'LAST EVENT':>12}  JOBS"
    return (Span(text, "muted"),)


def session_line(session: SessionLike, now: float) -> Line:
    """One session in a line."""
    name = Span(f"{fit(outside(session.name) or '-', 22)} ")
    head = Span(f"{fit(outside(session.id), 7)} ", "strong")
    if session.problem:
        problem = f"cannot be read: {outside(session.problem)}"
        return line(head, name, Span(problem, "failed"))
    engine, role = _engine(session)
    engine = f"{outside(session.user)}: {engine}" if session.user else engine
    ago = f"{duration(now - session.last_event_at)} ago"
    return line(
        head,
        name,
        Span(f"{fit(engine, 20)} ", role),
        Span(f"{fit_right(ago, 12)}  ", "muted"),
        *_counts(session),
    )


def _engine(session: SessionLike) -> tuple[str, Role]:
    where = f" on {outside(session.host)}" if session.host else ""
    if session.halted_pid:
        return f"stopped, pid {session.halted_pid}", "failed"
    match str(session.owner):
        case "yes":
            return f"runs{where}", "running"
        case "unknown":
            return f"may run{where}", "warning"
    return ("none", "warning") if session.open else ("all ended", "muted")


def _counts(session: SessionLike) -> Line:
    spans: list[Span] = []
    for state, glyph, role in _TOLD:
        if session.counts.get(state):
            spans.append(Span(f"{glyph}{session.counts[state]} ", role))  # type: ignore[arg-type]
    rest = sum(
        number
        for state, number in session.counts.items()
        if state not in {told for told, _, _ in _TOLD}
    )
    if rest:
        spans.append(Span(f"·{rest}", "waiting"))
    return tuple(spans)


def session_detail(session: SessionLike) -> Line:
    """All counts in words."""
    counts = (
        f"{number} {STATES[state]}"
        for state, number in session.counts.items()
        if number
    )
    total = plural(sum(session.counts.values()), "job")
    of = f"; of {outside(session.user)}, opens read-only" if session.user else ""
    return (Span(f" {total}: {', '.join(counts) or 'nothing yet'}{of}", "muted"),)
