"""A person at a cockpit: presses keys, reads the screen, lets time pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from textual import events
from textual.keys import _character_to_key
from textual.pilot import Pilot

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions, LeaveWay
from autoexp_tui.cockpit.dialogs.question import Overlay
from autoexp_tui.cockpit.screens.jobs import JobsScreen
from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.session import JobView, Look
from autoexp_tui.cockpit.widgets.pane import LinesWidget
from autoexp_tui.model.commands import Command
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.testing.clock import ManualClock
from tests.support.campaigns import T0, campaign
from tests.support.scripted_handle import ScriptedHandle

PATIENCE = 5.0
"""Seconds after which something that should come is missed."""
SIGNS = {
    "!": "exclamation_mark",
    "?": "question_mark",
    ":": "colon",
    "|": "vertical_line",
}
SIGNS |= {">": "greater_than_sign", "<": "less_than_sign"}
CONTROLS = {"\x7f": "backspace", "\r": "enter", "\t": "tab", "\x1b": "escape"}


def read_lines(widget: LinesWidget) -> str:
    """What a widget shows now, as plain text."""
    return "\n".join(plain(one.line) for one in widget._lines_shown)


@dataclass
class Seat:
    app: CockpitApp
    pilot: Pilot[LeaveWay]
    handle: ScriptedHandle
    clock: ManualClock

    @property
    def left(self) -> list[LeaveWay]:
        """How the person left, once they did."""
        return [*filter(None, (self.app.return_value,))]

    @property
    def jobs(self) -> JobsScreen:
        return self.app.jobs_screen

    @property
    def model(self) -> SessionModel:
        return self.app.context.model

    def looking(self, look: Look) -> list[JobView]:
        return [job for job in self.model.session.jobs if job.look is look]

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.pilot.pause()

    async def click(self, text: str) -> None:
        """Click on the first place of a text in the dialog."""
        row, content = next(
            (row, one) for row, one in enumerate(self.dialog.split("\n")) if text in one
        )
        await self.pilot.click("#frame", offset=(content.index(text), row))
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        await self.press(*map(_character_to_key, text))

    async def burst(self, text: str) -> None:
        """All keys of `text` at once, as a terminal hands on what was pasted."""
        for letter in text:
            key = CONTROLS.get(letter) or _character_to_key(letter)
            character = None if letter in CONTROLS else letter
            self.app.post_message(events.Key(key, character))
        for _ in range(4):
            await self.pilot.pause()

    async def play(self, script: str) -> None:
        """Press the keys of a script; a word behind a `'` is typed, `~` a blank in it.

        At `hear` it waits until a dialog is there, and hears.
        """
        for word in script.split():
            if word.startswith("'"):
                await self.type(word[1:].replace("~", " "))
            elif word == "hear":
                await self.until(lambda: self.dialog)
                self.clock.advance(0.4)
                await self.pilot.pause()
            else:
                await self.press(SIGNS.get(word, word))

    def check(self, **shown: str) -> None:
        """Whether panes (footer, dialog, focus too) show words, apart by `|`.

        Words behind a `!` are not to be there.
        """
        for where, words in shown.items():
            text = self._read(where)
            for word in words.split("|"):
                absent = word.startswith("!")
                assert (word.lstrip("!") in text) is not absent, (where, word, text)

    async def see(self, script: str = "", **shown: str) -> None:
        """Press the keys of a script; panes show the words soon."""

        def holds() -> bool:
            with suppress(AssertionError):
                self.check(**shown)
                return True
            return False

        await self.play(script)
        await self.until(holds)

    async def walk(self, road: str) -> None:
        """Go a road of lines like `keys => pane: words; other pane: words`."""
        for step in road.strip().splitlines():
            script, _, seen = step.partition("=>")
            shown = (one.strip().split(": ", 1) for one in seen.split(";"))
            await self.see(script, **dict(shown))

    async def order(self, script: str, *commands: Command) -> None:
        """Press the keys of a script; by them exactly these commands are sent."""
        before = len(self.handle.sent)
        await self.play(script)
        await self.until(lambda: len(self.handle.sent) - before >= len(commands))
        assert self.handle.commands[before:] == list(commands)

    def _read(self, where: str) -> str:
        if where == "focus":
            return str(self.app.focused.id) if self.app.focused else ""
        if where in ("footer", "dialog"):
            return str(getattr(self, where))
        return self.pane(where)

    async def go_to(self, look: Look) -> str:
        """Put the cursor on the first job of that look; its name."""
        job = self.looking(look)[0]
        self.jobs.show_job(job)
        await self.pilot.pause()
        return job.name

    async def push(self, snapshot: Snapshot) -> None:
        self.app.on_command_sent()
        self.handle.push(snapshot)
        await self.until(lambda: self.app.context.model.session.snapshot is snapshot)

    async def until(self, holds: Callable[[], Any]) -> None:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not holds():
            late = asyncio.get_running_loop().time() > deadline
            assert not late, f"it never came:\n{self.everything}\n{self.footer}"
            await asyncio.sleep(0.01)
        await self.pilot.pause()

    async def idle(self) -> None:
        """Wait until nothing is read any more."""
        await self.until(lambda: self.app.context.background.is_idle)

    def widget(self, name: str) -> Any:
        return self.app.screen.query_one(f"#{name}")

    def pane(self, name: str) -> str:
        return read_lines(self.widget(name))

    @property
    def dialog(self) -> str:
        screen = self.app.screen
        return read_lines(screen.frame) if isinstance(screen, Overlay) else ""

    @property
    def footer(self) -> str:
        full = self.app.full_screen
        return read_lines(full.footer) if full is not None else ""

    @property
    def everything(self) -> str:
        widgets = self.app.screen.query(LinesWidget)
        return "\n".join(map(read_lines, (one for one in widgets if one.display)))


@asynccontextmanager
async def cockpit(
    snapshot: Snapshot | None = None,
    size: tuple[int, int] = (120, 40),
    *,
    handle_read_only: bool = False,
    **options: Any,
) -> AsyncIterator[Seat]:
    """A running cockpit over a made-up session."""
    shown = snapshot if snapshot is not None else campaign()
    handle = ScriptedHandle(shown, read_only=handle_read_only)
    clock = ManualClock(T0 + 2)
    wanted = CockpitOptions(**{"ascii": False, "no_color": False, **options})
    app = CockpitApp(handle, options=wanted, clock=clock)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.pause()
        yield Seat(app, pilot, handle, clock)


@asynccontextmanager
async def asking(
    key: str, look: Look, snapshot: Snapshot | None = None
) -> AsyncIterator[tuple[Seat, str]]:
    """A cockpit that asks about the first job of that look; with the job's name."""
    async with cockpit(snapshot) as seat:
        name = await seat.go_to(look)
        await seat.play(f"{key} hear")
        yield seat, name
