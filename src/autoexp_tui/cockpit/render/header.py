"""The top of the screen: what this is, how old the data is, who is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.numbers import elapsed, moment
from autoexp_tui.cockpit.render.spans import (
    Line,
    Span,
    cut,
    join,
    line,
    outside,
    spread,
    width,
)
from autoexp_tui.cockpit.render.status_style import FACES, Look, tally
from autoexp_tui.cockpit.state.causes import CauseGroup, headline, needing
from autoexp_tui.cockpit.state.eta import Ends
from autoexp_tui.model.moment import wall_time
from autoexp_tui.model.wording import clock_time, count, plural, short

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import SessionView
    from autoexp_tui.model.snapshot import EngineView
    from autoexp_tui.model.verdicts import Why

LATE_AFTER = 60.0
"""Seconds without a word after which data counts as late, while something runs."""
_EXECUTOR_LATE_AFTER = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the header needs besides the session."""

    now: float
    """UTC at the screen."""
    groups: tuple[CauseGroup, ...] = ()
    ends: Ends = field(default_factory=Ends)
    gpu_hours: float = 0.0
    read_only: bool = False
    failed: bool = False
    """Whether what the engine is doing has come to nothing."""


def is_late(session: SessionView, now: float) -> bool:
    """Whether something runs and the engine has been silent too long."""
    return session.active and now - session.now > LATE_AFTER


def header_line(session: SessionView, facts: Facts, cells: int) -> Line:
    """The first line, in exactly `cells` cells."""
    right = _right(session, facts, cells)
    room = cells - width(right) - 2
    parts = _left(session, facts, compact=cells < 100)
    while len(parts) > 2 and width(join(parts, "   ")) > room:
        parts.pop()
    gap = "   " if width(join(parts, "   ")) <= room else "  "
    return spread(cut((Span(" "), *join(parts, gap)), room), right, cells)


def _left(session: SessionView, facts: Facts, *, compact: bool) -> list[Line]:
    """The parts from the left, the least important last."""
    snapshot = session.snapshot
    identity = "" if compact or not snapshot.session else "session "
    parts = [
        line(
            Span(outside(snapshot.name), "title"),
            Span(f" {identity}{outside(snapshot.session)}".rstrip(), "muted"),
        ),
        _role(snapshot.engine, read_only=facts.read_only),
        *_state(session, facts),
        _executor_trouble(session, facts),
        _engine_age(session, facts),
        _executor_age(session, facts),
        _ends(session, facts),
        _hours(facts),
    ]
    return [part for part in parts if part]


def _role(engine: EngineView, *, read_only: bool) -> Line:
    if engine.user:
        how = "replay" if engine.role == "replay" else "read only"
        return (Span(f"session of {outside(engine.user)}, {how}", "accent"),)
    if engine.role == "replay":
        if engine.owner_alive:
            return (Span("replay", "accent"),)
        return line(Span("replay", "accent"), Span(", no engine lived", "warning"))
    if engine.role == "viewer" and engine.halted_pid:
        told = f"engine stopped: fg, or kill -CONT {engine.halted_pid}"
        return (Span(told, "failed"),)
    if engine.role == "viewer":
        owner = "watching" if engine.owner_alive else "watching, its engine is gone"
        return (Span(owner, "accent" if engine.owner_alive else "warning"),)
    return (Span("read only", "accent"),) if read_only else ()


def _state(session: SessionView, facts: Facts) -> list[Line]:
    engine = session.snapshot.engine
    parts: list[Line] = []
    if engine.holding:
        parts.append((Span(f"HOLDING: {outside(engine.holding)}", "failed"),))
    if session.snapshot.paused is not None:
        parts.append(_paused(session.snapshot.paused))
    return parts


def _paused(reason: Why) -> Line:
    if reason.code == "storm":
        return (Span(f"STORM, {short(reason)}, P resumes", "failed"),)
    return (Span("submission paused, P resumes", "warning"),)


def _engine_age(session: SessionView, facts: Facts) -> Line:
    engine = session.snapshot.engine
    if engine.doing:
        # The title says what: `exp   planning`, and not `exp   planning exp`.
        doing = engine.doing.removesuffix(f" {session.snapshot.name}")
        if facts.failed:
            return (Span(f"{outside(doing)} failed", "failed"),)
        return (Span(outside(doing), "accent"),)
    if engine.role == "replay":
        return ()
    if engine.role == "plan":
        return (Span("not submitted", "muted"),)
    if not session.snapshot.open:
        return (Span("all ended", "muted"),)
    if not session.active:
        return (Span("engine idle", "muted"),)
    if engine.user and not engine.owner_alive:
        return (Span("no engine", "warning"),)
    age = facts.now - session.now
    if is_late(session, facts.now):
        return (Span(f"engine silent {_age(age)}", "warning"),)
    return (Span(f"engine {_age(age) or 'ok'}", "muted"),)


def _executor_trouble(session: SessionView, facts: Facts) -> Line:
    """What is wrong with the executor's answers, and for how long."""
    engine = session.snapshot.engine
    name, answered = outside(engine.executor), engine.executor_answered_at
    age = facts.now - answered if answered is not None else 0.0
    silent = _age(age)
    if engine.executor_error:
        since = f" silent {silent}" if age >= LATE_AFTER else ""
        words = outside(engine.executor_error, 60)
        return (Span(f"{name}{since}: {words}", "warning"),)
    if session.active and _is_executor_late(session, facts.now):
        return (Span(f"{name} silent {silent}", "warning"),)
    return ()


def _is_executor_late(session: SessionView, now: float) -> bool:
    answered = session.snapshot.engine.executor_answered_at
    return answered is not None and now - answered > _EXECUTOR_LATE_AFTER


def _executor_age(session: SessionView, facts: Facts) -> Line:
    """`slurm 14 s`: how old its newest answer is."""
    engine = session.snapshot.engine
    name, answered = outside(engine.executor), engine.executor_answered_at
    if not name or answered is None or not session.active:
        return ()
    if engine.executor_error or _is_executor_late(session, facts.now):
        return ()
    return (Span(f"{name} {_age(facts.now - answered)}".rstrip(), "muted"),)


def _age(seconds: float) -> str:
    """Nothing while it is young, then coarse: ages are no reason to repaint."""
    whole = max(0, int(seconds))
    if whole < 5:
        return ""
    if whole < 60:
        return f"{whole // 5 * 5} s"
    return f"{whole // 60} min" if whole < 7200 else elapsed(seconds)


def _ends(session: SessionView, facts: Facts) -> Line:
    if facts.ends.session is None or not session.active:
        return ()
    text = f"ends {moment(facts.ends.session, facts.now)}"
    if is_late(session, facts.now):
        return (Span(f"{text}, as of {clock_time(session.now, facts.now)}", "warning"),)
    return (Span(text, "text"),)


def _hours(facts: Facts) -> Line:
    if facts.gpu_hours <= 0:
        return ()
    return (Span(f"{count(facts.gpu_hours)} GPU h", "muted"),)


def _right(session: SessionView, facts: Facts, cells: int) -> Line:
    clock = Span(f"{clock_time(wall_time(facts.now, facts.now))} ", "muted")
    words = headline(facts.groups)
    if not words:
        return (clock,)
    if cells < 100:
        words = words.split(",", 1)[0]
    return (Span(f"! {words}", "asks"), Span("  "), clock)


_TELLING = (
    Look.DONE,
    Look.RUNNING,
    Look.STALLED,
    Look.SUSPENDED,
    Look.ENDING,
    Look.SENDING,
    Look.IN_DOUBT,
    Look.QUEUED,
    Look.RETRYING,
    Look.WAITING,
    Look.ASKS,
    Look.DOOMED,
    Look.HELD,
    Look.PLANNED,
    Look.FAILED,
    Look.LOST,
    Look.CANCELLED,
    Look.SKIPPED,
)


def counts_line(session: SessionView, cells: int, *, apart: bool = False) -> Line:
    """` 120 jobs   ✓61 done   ▸12 running ...`: every look that is there."""
    total = len(session.jobs)
    parts: list[Line] = [
        (
            Span(
                f"{tally(look, session.counts[look], apart=apart).text} {look.value}",
                FACES[look].role,
            ),
        )
        for look in _TELLING
        if look in session.counts
    ]
    head: Line = (Span(f" {plural(total, 'job')}", "strong"),)
    for gap in ("   ", "  "):
        if width(join([head, *parts], gap)) <= cells:
            return join([head, *parts], gap)
    short = [(Span(part[0].text.rsplit(" ", 1)[0], part[0].role),) for part in parts]
    return cut(join([head, *short], "  "), cells)


def terminal_title(session: SessionView, groups: tuple[CauseGroup, ...]) -> str:
    """`61/120 !16`, for the terminal's title."""
    done = session.count(Look.DONE)
    number = needing(groups)
    name = outside(session.snapshot.name, 40)
    return f"{done}/{len(session.jobs)}{f' !{number}' if number else ''} {name}"
