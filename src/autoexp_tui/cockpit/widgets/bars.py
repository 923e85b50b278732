"""The lines above and below: header, footer and what is said or typed in its place."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isinf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from textual import events
from textual.message import Message
from textual.widgets import Input

from autoexp_tui.cockpit.render.layout import SMALLEST, is_too_small
from autoexp_tui.cockpit.render.timeline import Window, list_midnights
from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    join,
    join_cells,
    line,
    outside,
    spread,
    width,
)
from autoexp_tui.cockpit.state import session as views
from autoexp_tui.cockpit.state.forecast import format_end
from autoexp_tui.cockpit.state.reasons import describe_needs
from autoexp_tui.cockpit.state.session import SessionView
from autoexp_tui.cockpit.widgets.pane import LinesWidget, Painted
from autoexp_tui.model.wording import short
from autoexp_tui.text.spelling import (
    clock_time,
    count,
    duration,
    format_elapsed,
    plural,
    wall_time,
)

if TYPE_CHECKING:
    from autoexp_tui.cockpit.keymap import Command, Keymap, Pane
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.model.snapshot import EngineView, Playback

LATE_AFTER = 60.0
"""Seconds without a word after which data counts as late, while something runs."""
_EXECUTOR_LATE_AFTER = 180.0


def is_late(session: SessionView, now: float) -> bool:
    """Whether something runs and the engine has been silent too long."""
    return session.active and now - session.now > LATE_AFTER


def render_header(
    model: SessionModel, now: float, cells: int, *, read_only: bool = False
) -> Line:
    """The first line at `now` (UTC), in exactly `cells` cells: what this is, how old
    the data is, and what needs a person."""
    compact = cells < 100
    clock = Span(f"{clock_time(wall_time(now, now))} ", "muted")
    right: Line = (clock,)
    if words := describe_needs(model.groups):
        words = words.split(",", 1)[0] if compact else words
        right = (Span(f"! {words}", "asks"), Span("  "), clock)
    room, snapshot = cells - width(right) - 2, model.session.snapshot
    prefix = "" if compact or not snapshot.session else "session "
    identity = line(
        Span(outside(snapshot.name), "title"),
        Span(f" {prefix}{outside(snapshot.session)}".rstrip(), "muted"),
    )
    parts = [
        identity,
        _render_role(snapshot.engine, read_only=read_only),
        *_render_state(model, now),
    ]
    parts = [part for part in parts if part]
    while len(parts) > 2 and width(join(parts, "   ")) > room:
        parts.pop()  # the least important come last
    gap = "   " if width(join(parts, "   ")) <= room else "  "
    return spread(cut((Span(" "), *join(parts, gap)), room), right, cells)


def _render_role(engine: EngineView, *, read_only: bool) -> Line:
    if engine.user:
        how = "replay" if engine.role == "replay" else "read only"
        return (Span(f"session of {outside(engine.user)}, {how}", "accent"),)
    if engine.role == "replay":
        away = "" if engine.owner_alive else ", no engine lived"
        return line(Span("replay", "accent"), Span(away, "warning"))
    if engine.role != "viewer":
        return line(Span("read only" if read_only else "", "accent"))
    if engine.halted_pid:
        text = f"engine stopped: fg, or kill -CONT {engine.halted_pid}"
        return (Span(text, "failed"),)
    if engine.owner_alive:
        return (Span("watching", "accent"),)
    return (Span("watching, its engine is gone", "warning"),)


def _render_state(model: SessionModel, now: float) -> Iterator[Line]:
    """How submission, the executor and the engine are, and when all should end."""
    session, ends = model.session, model.ends.session
    engine, paused = session.snapshot.engine, session.snapshot.paused
    if engine.holding:
        yield (Span(f"HOLDING: {outside(engine.holding)}", "failed"),)
    if paused is not None and paused.code == "storm":
        yield (Span(f"STORM, {short(paused)}, P resumes", "failed"),)
    elif paused is not None:
        yield (Span("submission paused, P resumes", "warning"),)
    executor = _render_executor(session, now)
    if executor.role == "warning":
        yield (executor,)
    if engine.role != "replay" or engine.doing:
        yield (_render_engine(session, now, failed=model.failed),)
    if executor.role != "warning":
        yield line(executor)
    if ends is not None and session.active:
        late = is_late(session, now)
        as_of = f", as of {clock_time(session.now, now)}" if late else ""
        text = f"ends {format_end(ends, now)}{as_of}"
        yield (Span(text, "warning" if late else "text"),)
    if model.gpu_hours > 0:
        yield (Span(f"{count(model.gpu_hours)} GPU h", "muted"),)


def _render_engine(session: SessionView, now: float, *, failed: bool) -> Span:
    engine = session.snapshot.engine
    if engine.doing:
        # The title says what: `exp   planning`, and not `exp   planning exp`.
        doing = outside(engine.doing.removesuffix(f" {session.snapshot.name}"))
        if failed:
            return Span(f"{doing} failed", "failed")
        return Span(doing, "accent")
    if not session.snapshot.open or not session.active:
        ended = "engine idle" if session.snapshot.open else "all ended"
        if session.snapshot.open_ends and engine.role != "plan":
            ended = f"open: {outside(session.snapshot.open_ends[0], 40)}"
        return Span("not submitted" if engine.role == "plan" else ended, "muted")
    if engine.user and not engine.owner_alive:
        return Span("no engine", "warning")
    age = _format_age(now - session.now)
    if is_late(session, now):
        return Span(f"engine silent {age}", "warning")
    return Span(f"engine {age or 'ok'}", "muted")


def _render_executor(session: SessionView, now: float) -> Span:
    """`slurm 14 s`: how old its newest answer is; a warning where that is not well."""
    engine = session.snapshot.engine
    name, answered = outside(engine.executor), engine.executor_answered_at
    age = now - answered if answered is not None else 0.0
    if engine.executor_error:
        since = f" silent {_format_age(age)}" if age >= LATE_AFTER else ""
        return Span(f"{name}{since}: {outside(engine.executor_error, 60)}", "warning")
    if not session.active or answered is None or not name:
        return Span("")
    if age > _EXECUTOR_LATE_AFTER and not session.is_beside_alone:
        return Span(f"{name} silent {_format_age(age)}", "warning")
    return Span(f"{name} {_format_age(age)}".rstrip(), "muted")


def _format_age(seconds: float) -> str:
    """Nothing while it is young, then coarse: ages are no reason to repaint."""
    whole = max(0, int(seconds))
    if whole < 5:
        return ""
    if whole < 60:
        return f"{whole // 5 * 5} s"
    return f"{whole // 60} min" if whole < 7200 else format_elapsed(seconds)


def render_counts(session: SessionView, cells: int, *, apart: bool = False) -> Line:
    """` 120 jobs   ✓61 done   ▸12 running ...`: every look that is there."""
    head = Span(f" {plural(len(session.jobs), 'job')}", "strong")
    parts = views.render_counts(session.counts, apart=apart)
    for gap in ("   ", "  "):
        if width(join([head, *parts], gap)) <= cells:
            return join([head, *parts], gap)
    tallies = views.render_tallies(session.counts, apart=apart)
    return cut(join([head, *tallies], "  "), cells)


def list_hints(
    keymap: Keymap,
    pane: Pane,
    useful: Collection[str],
    cells: int,
    *,
    replay: bool = False,
    paused: bool = False,
) -> Sequence[tuple[Line, Command | None]]:
    """The keys that matter in a pane, looking left, acting right, each with its
    command, and what is between them; together at most `cells` wide, for which the
    least important go.

    `useful` holds the ids of acting commands that could do something now; `paused`:
    whether submission is, and may be resumed.
    """
    here = [one for one in keymap.at(pane, replay=replay) if one.foot]
    looks = [one for one in here if not one.acts and one.id != "app.leave"]
    # A replay's, then by importance; a pane's own before those of everywhere.
    looks.sort(key=lambda one: (not one.replay, one.foot, len(one.where)))
    acts = [one for one in here if one.acts and one.id in useful]
    acts.sort(key=lambda one: one.foot)

    def hint(one: Command) -> Line:
        label = "resume" if paused and one.id == "run.pause" else one.label
        return (Span(keymap.key(one.id), "key"), Span(f" {label}"))

    gap: tuple[Line, None] = ((Span("  "),), None)
    border: Line = (Span(" "), Span("│", "rule"), Span(" "))
    leave = next(one for one in keymap if one.id == "app.leave")
    while True:
        found: list[tuple[Line, Command | None]] = [((Span(" "),), None)]
        for place, one in enumerate([*looks, *acts, leave]):
            between = (border, None) if place == len(looks) else gap
            found += [between] if place else [(border, None)] * (not looks)
            found.append((hint(one), one))
        if sum(width(part) for part, _ in found) <= cells or not (looks or acts):
            return found
        (looks if len(looks) > 2 or not acts else acts).pop()


_MARKS: Final[Mapping[str, tuple[str, Role]]] = {
    "gone": ("░", "warning"),
    "asked": ("?", "asks"),
    "failed": ("✗", "failed"),
}
"""Of a landmark, the gravest last: its glyph and role."""


def format_speed(speed: float) -> str:
    """`60x`, `1.9x`, `max`."""
    if isinf(speed):
        return "max"
    return f"{speed:.0f}x" if speed >= 10 or speed == int(speed) else f"{speed:.1f}x"


def render_time_bar(playback: Playback, cells: int, rows: int) -> Sequence[Line]:
    """Beginning, end, the moment shown, and landmarks, of a cell the gravest; in a
    second row the days and what the signs mean; each in at most `cells`."""
    wide = cells >= 100
    playing = Span(" ▸ ", "running") if playback.playing else Span(" ‖ ", "stalled")
    clock = "%a %d %b %H:%M:%S" if wide else "%m-%d %H:%M"
    left: Line = (
        playing,
        Span(f"{format_speed(playback.speed):<7} "),
        Span(f"{time.strftime(clock, time.localtime(playback.at))} ", "strong"),
    )
    whole, gone = playback.end - playback.begin, playback.at - playback.begin
    text = fit(f"{duration(gone)} of {duration(whole)}", 22)
    if not wide:
        text = f"{gone / whole if whole > 0 else 1.0:4.0%} "
    right: Line = (Span(f" {text}", "muted"),)
    room = max(8, cells - width(left) - width(right) - 2)
    window = Window(playback.begin, max(whole, 1e-3) * (1 + 1e-9), room)
    bar = join_cells(_build_bar(playback, window))
    lines = [(*left, Span("├", "rule"), *bar, Span("┤", "rule"), *right)]
    if rows > 1:
        indent = width(left) + 1
        days = _render_days(window, cells - indent)
        lines.append((Span(" " * indent), *days))
    return [cut(one, cells) for one in lines]


def _render_days(window: Window, cells: int) -> Line:
    """The days below their ticks, where there is room; at the right the legend."""
    legend: Line = ()
    for word, (glyph, role) in _MARKS.items():
        legend = (Span(glyph, role), Span(f" {word} ", "muted"), *legend)
    names, room = "", min(window.cells, cells - width(legend))
    for t in list_midnights(window):
        place = window.find_cell(t)
        name = time.strftime("%a %d", time.localtime(t))
        if (place > len(names) + 1 or not names) and place + len(name) < room:
            names = names.ljust(place) + name
    return (Span(names.ljust(room), "muted"), *legend)


def _build_bar(playback: Playback, window: Window) -> list[tuple[str, Role]]:
    here = window.find_cell(playback.at)
    cells: list[tuple[str, Role]] = [
        ("━", "accent") if place < here else ("─", "rule")
        for place in range(window.cells)
    ]
    for tick in list_midnights(window):
        place = window.find_cell(tick)
        cells[place] = ("┼", cells[place][1])
    order = list(_MARKS)
    for mark in sorted(playback.landmarks, key=lambda one: order.index(one.kind)):
        for place in window.list_cells(mark.t, mark.until):
            cells[place] = _MARKS[mark.kind]
    cells[max(0, min(here, window.cells - 1))] = ("●", "focus")
    return cells


class Header(LinesWidget):
    """What this is, how old the data is, who is needed."""

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        if is_too_small(*self.screen.size):
            text = f" too small: {SMALLEST[0]}x{SMALLEST[1]} at least; all goes on"
            return [Painted(cut((Span(text, "warning"),), cells))]
        now, read_only = self.context.find_present(), self.context.is_read_only
        head = render_header(self.model, now, cells, read_only=read_only)
        counts = render_counts(self.model.session, cells, apart=self.skin.ascii)
        return [Painted(head), Painted(counts)]


class Footer(LinesWidget):
    """The keys that matter here; for a while, what was just said, or is asked."""

    problem: str = ""
    """What is wrong with what is being typed, said in a line above; empty: nothing."""

    class Clicked(Message):
        """A command's key was clicked on."""

        def __init__(self, command: Command) -> None:
            super().__init__()
            self.command = command

    notice: Line = ()
    _pane: Pane = "jobs"
    _useful: Collection[str] = ()

    def show_keys(self, pane: Pane, useful: Collection[str]) -> None:
        """Show the keys of a pane; see `list_hints`."""
        self._pane, self._useful = pane, useful
        self.update_lines()

    def show_notice(self, notice: Line) -> None:
        """Show a notice instead of the keys; an empty one shows the keys again."""
        self.notice = notice
        self.update_lines()

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        hints = [part for part, _ in self._list_hints(cells)]
        content = self.notice or tuple(span for part in hints for span in part)
        above = [(Span(f" {self.problem}", "failed"),)] if self.problem else []
        return [Painted(cut(one, cells)) for one in (*above, content)]

    def _list_hints(self, cells: int) -> Sequence[tuple[Line, Command | None]]:
        return list_hints(
            self.context.keymap,
            self._pane,
            self._useful,
            cells,
            replay=self.context.is_replay,
            paused=self.model.session.snapshot.paused is not None,
        )

    async def on_click(self, event: events.Click) -> None:
        """Carry out the command whose key was clicked on."""
        left = event.x
        for part, command in () if self.notice else self._list_hints(self.size.width):
            left -= width(part)
            if left < 0:
                if command is not None:
                    self.post_message(self.Clicked(command))
                return


class TimeBar(LinesWidget):
    """Where a replay stands between the beginning and the end of its journal."""

    def compose_lines(self, cells: int, rows: int) -> Sequence[Painted]:
        playback = self.model.session.snapshot.playback
        if playback is None:
            return [Painted((Span(" reading the journal", "muted"),))]
        return [Painted(one) for one in render_time_bar(playback, cells, rows)]


Typed: TypeAlias = events.Key | events.Paste


class Prompt(Input):
    """One line to type in; its screen hands it keys in the order they were typed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(compact=True, select_on_focus=False, **options)
        self.cursor_blink = False

    async def take(self, event: Typed) -> None:
        """Type a key, edit with it, or paste a text's first line."""
        if isinstance(event, events.Paste):
            self.replace("".join(event.text.splitlines()[:1]), *self.selection)
        elif event.is_printable and event.character is not None:
            self.replace(event.character, *self.selection)
        else:
            for binding in self._bindings.key_to_bindings.get(event.key, ()):
                await self.run_action(binding.action)
