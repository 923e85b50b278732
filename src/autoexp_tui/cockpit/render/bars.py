"""The lines at the edges of the screen: header, footer, the bar of a replay."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import isinf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    join,
    line,
    outside,
    spread,
    width,
)
from autoexp_tui.cockpit.state.causes import CauseGroup, count_needs, describe_needs
from autoexp_tui.cockpit.state.forecast import Ends
from autoexp_tui.cockpit.state.status import FACES, Look, tally
from autoexp_tui.model.wording import clock_time, count, duration, plural, short
from autoexp_tui.text.spelling import format_elapsed, format_estimate, wall_time

if TYPE_CHECKING:
    from autoexp_tui.cockpit.commands import Command, Commands, Pane
    from autoexp_tui.cockpit.state.session import SessionView
    from autoexp_tui.model.snapshot import EngineView, Landmark, Playback
    from autoexp_tui.model.states import Why


LATE_AFTER = 60.0
"""Seconds without a word after which data counts as late, while something runs."""


_EXECUTOR_LATE_AFTER = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderFacts:
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


def render_header(session: SessionView, facts: HeaderFacts, cells: int) -> Line:
    """The first line, in exactly `cells` cells."""
    right = _right(session, facts, cells)
    room = cells - width(right) - 2
    parts = _left(session, facts, compact=cells < 100)
    while len(parts) > 2 and width(join(parts, "   ")) > room:
        parts.pop()
    gap = "   " if width(join(parts, "   ")) <= room else "  "
    return spread(cut((Span(" "), *join(parts, gap)), room), right, cells)


def _left(session: SessionView, facts: HeaderFacts, *, compact: bool) -> list[Line]:
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


def _state(session: SessionView, facts: HeaderFacts) -> list[Line]:
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


def _engine_age(session: SessionView, facts: HeaderFacts) -> Line:
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


def _executor_trouble(session: SessionView, facts: HeaderFacts) -> Line:
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


def _executor_age(session: SessionView, facts: HeaderFacts) -> Line:
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
    return f"{whole // 60} min" if whole < 7200 else format_elapsed(seconds)


def _ends(session: SessionView, facts: HeaderFacts) -> Line:
    if facts.ends.session is None or not session.active:
        return ()
    text = f"ends {format_estimate(facts.ends.session, facts.now)}"
    if is_late(session, facts.now):
        return (Span(f"{text}, as of {clock_time(session.now, facts.now)}", "warning"),)
    return (Span(text, "text"),)


def _hours(facts: HeaderFacts) -> Line:
    if facts.gpu_hours <= 0:
        return ()
    return (Span(f"{count(facts.gpu_hours)} GPU h", "muted"),)


def _right(session: SessionView, facts: HeaderFacts, cells: int) -> Line:
    clock = Span(f"{clock_time(wall_time(facts.now, facts.now))} ", "muted")
    words = describe_needs(facts.groups)
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


def render_counts(session: SessionView, cells: int, *, apart: bool = False) -> Line:
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


def format_title(session: SessionView, groups: tuple[CauseGroup, ...]) -> str:
    """`61/120 !16`, for the terminal's title."""
    done = session.count(Look.DONE)
    number = count_needs(groups)
    name = outside(session.snapshot.name, 40)
    return f"{done}/{len(session.jobs)}{f' !{number}' if number else ''} {name}"


_BORDER = "│"


_AS_EVER: Final[Mapping[str, str]] = MappingProxyType({})


def render_footer(
    commands: Commands,
    pane: Pane,
    useful: Collection[str],
    cells: int,
    *,
    replay: bool = False,
    labels: Mapping[str, str] = _AS_EVER,
) -> Line:
    """The footer for a pane, at most `cells` wide.

    `useful` holds the ids of acting commands that could do something now, `labels`, by
    id, the words of those that do something else than usual. Where the line is too
    long, what stands last in the table's order of importance goes first.
    """
    here = commands.at(pane, replay=replay)
    looks = [entry for entry in here if _looks(entry)]
    acts = [entry for entry in here if entry.acts and entry.foot]
    acts = [entry for entry in acts if entry.id in useful]
    looks = _own_first(looks)
    acts.sort(key=lambda entry: entry.foot)
    while True:
        content = _line(looks, acts, commands, labels)
        if width(content) <= cells or not (looks or acts):
            return content
        (looks if len(looks) > 2 or not acts else acts).pop()


def _looks(entry: Command) -> bool:
    return bool(entry.foot) and not entry.acts and entry.id != "app.leave"


def _own_first(entries: list[Command]) -> list[Command]:
    """A replay's, then by importance; a pane's own before those of everywhere."""
    return sorted(
        entries, key=lambda entry: (not entry.replay, entry.foot, len(entry.where))
    )


def _line(
    looks: list[Command],
    acts: list[Command],
    commands: Commands,
    labels: Mapping[str, str],
) -> Line:
    left = join((_hint(entry, commands, labels) for entry in looks), "  ")
    leave = commands.key("app.leave")
    last: Line = (Span(leave, "key"), Span(" leave"))
    right = join([*(_hint(entry, commands, labels) for entry in acts), last], "  ")
    border: Line = (Span(" "), Span(_BORDER, "rule"), Span(" "))
    return (Span(" "), *left, *border, *right)


def _hint(entry: Command, commands: Commands, labels: Mapping[str, str]) -> Line:
    label = labels.get(entry.id, entry.label)
    return (Span(commands.key(entry.id), "key"), Span(f" {label}"))


_DAY: Final = 86400


_MARKS: Final[dict[str, tuple[str, Role]]] = {
    "failed": ("✗", "failed"),
    "asked": ("?", "asks"),
    "gone": ("░", "warning"),
}


_LEGEND: Final = (("✗", "failed"), ("?", "asked"), ("░", "gone"))


_LABEL: Final = 8
"""Cells that the name of a day needs."""


def format_speed(speed: float) -> str:
    """`60x`, `1.9x`, `max`."""
    if isinf(speed):
        return "max"
    return f"{speed:.0f}x" if speed >= 10 or speed == int(speed) else f"{speed:.1f}x"


def render_time_bar(playback: Playback, cells: int, rows: int) -> tuple[Line, ...]:
    """The bar in `rows` lines (1 or 2) of at most `cells`."""
    left = _left_time_bar(playback, wide=cells >= 100)
    right = _right_time_bar(playback, wide=cells >= 100)
    room = max(8, cells - width(left) - width(right) - 2)
    scale = Scale(playback.begin, playback.end, room)
    bar = (*left, Span("├", "rule"), *_bar(playback, scale), Span("┤", "rule"), *right)
    if rows < 2:
        return (cut(bar, cells),)
    return (cut(bar, cells), cut(_days(playback, scale, width(left) + 1), cells))


class Scale:
    """Cells for times."""

    def __init__(self, begin: float, end: float, cells: int) -> None:
        self.begin = begin
        self.cells = cells
        self._per_cell = max((end - begin) / cells, 1e-9)

    def cell(self, t: float) -> int:
        """The cell of a time, one of those there are."""
        place = int((t - self.begin) / self._per_cell)
        return max(0, min(place, self.cells - 1))


def _left_time_bar(playback: Playback, *, wide: bool) -> Line:
    glyph = "▸" if playback.playing else "‖"
    local = time.localtime(playback.at)
    form = "%a %d %b %H:%M:%S" if wide else "%m-%d %H:%M"
    return (
        Span(f" {glyph} ", "running" if playback.playing else "stalled"),
        Span(f"{format_speed(playback.speed):<7} ", "text"),
        Span(f"{time.strftime(form, local)} ", "strong"),
    )


def _right_time_bar(playback: Playback, *, wide: bool) -> Line:
    whole = playback.end - playback.begin
    if not wide:
        share = (playback.at - playback.begin) / whole if whole > 0 else 1.0
        return (Span(f" {share:4.0%} ", "muted"),)
    gone = duration(playback.at - playback.begin)
    return (Span(f" {fit(f'{gone} of {duration(whole)}', 22)}", "muted"),)


def _bar(playback: Playback, scale: Scale) -> list[Span]:
    """A span for each run of cells that look alike."""
    here = scale.cell(playback.at)
    cells: list[tuple[str, Role]] = [
        ("━", "accent") if place < here else ("─", "rule")
        for place in range(scale.cells)
    ]
    for day in list_midnights(playback.begin, playback.end):
        place = scale.cell(day)
        cells[place] = ("┼", cells[place][1])
    for mark in sorted(playback.landmarks, key=_gravity):
        for place in range(scale.cell(mark.t), scale.cell(mark.until) + 1):
            cells[place] = _MARKS[mark.kind]
    cells[here] = ("●", "focus")
    return _joined(cells)


def _gravity(mark: Landmark) -> int:
    return ("gone", "asked", "failed").index(mark.kind)


def _joined(cells: list[tuple[str, Role]]) -> list[Span]:
    spans: list[Span] = []
    for text, role in cells:
        if spans and spans[-1].role == role:
            spans[-1] = Span(spans[-1].text + text, role)
        else:
            spans.append(Span(text, role))
    return spans


def list_midnights(begin: float, end: float, most: int = 400) -> list[float]:
    """The beginnings of the days between, in the machine's zone; at most `most`."""
    first = time.localtime(begin)
    found: list[float] = []
    for day in range(1, most + 1):
        parts = (first.tm_year, first.tm_mon, first.tm_mday + day, 0, 0, 0, 0, 0, -1)
        midnight = time.mktime(parts)
        if midnight >= end:
            break
        found.append(midnight)
    return found


def _days(playback: Playback, scale: Scale, indent: int) -> Line:
    """The names of the days below their ticks, where there is room; the legend."""
    text, last = "", -_LABEL
    for day in list_midnights(playback.begin, playback.end):
        place = scale.cell(day)
        if place - last >= _LABEL and place + 6 <= scale.cells:
            text = text.ljust(place) + time.strftime("%a %d", time.localtime(day))
            last = place
    found: list[Span] = [Span(fit("", indent - 1)), Span(fit(" " + text, scale.cells))]
    found[1] = Span(found[1].text, "muted")
    for glyph, word in _LEGEND:
        role = next(one for mark, one in _MARKS.values() if mark == glyph)
        found += [Span(f" {glyph}", role), Span(f" {word}", "muted")]
    return tuple(found)
