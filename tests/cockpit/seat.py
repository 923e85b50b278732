"""A person at a cockpit: presses keys, reads the screen, lets time pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from textual.pilot import Pilot

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions, LeaveWay
from autoexp_tui.cockpit.dialogs.overlay import Overlay
from autoexp_tui.cockpit.screens.jobs import JobsScreen
from autoexp_tui.cockpit.session_model import SessionModel
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.cockpit.widgets.pane import LinesWidget
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.testing.clock import ManualClock
from tests.support.campaigns import T0, campaign
from tests.support.scripted_handle import ScriptedHandle

PATIENCE = 5.0
"""Seconds after which something that should come is missed."""


@dataclass
class Seat:
    app: CockpitApp
    pilot: Pilot[LeaveWay]
    handle: ScriptedHandle
    clock: ManualClock
    left: list[LeaveWay]

    @property
    def jobs(self) -> JobsScreen:
        return self.app.jobs_screen

    @property
    def model(self) -> SessionModel:
        return self.app.context.model

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        await self.press(*(NAMES.get(letter, letter) for letter in text))

    async def play(self, script: str) -> None:
        """Press the keys of a script; a word behind a `'` is typed."""
        for word in script.split():
            if word.startswith("'"):
                await self.type(word[1:])
            else:
                await self.press(word)

    def check(self, **shown: str) -> None:
        """Whether panes (footer, dialog, focus too) show words, apart by `|`.

        Words behind a `!` are not to be there.
        """
        for where, words in shown.items():
            text = self._read(where)
            for word in words.split("|"):
                absent = word.startswith("!")
                assert (word.lstrip("!") in text) is not absent, (where, word, text)

    def _read(self, where: str) -> str:
        if where == "focus":
            return str(self.app.focused.id) if self.app.focused else ""
        if where in ("footer", "dialog"):
            return str(getattr(self, where))
        return self.pane(where)

    async def hear(self) -> None:
        """Let a dialog's deaf time pass."""
        self.clock.advance(0.4)
        await self.pilot.pause()

    async def go_to(self, look: Look) -> str:
        """Put the cursor on the first job of that look; its name."""
        job = next(one for one in self.model.session.jobs if one.look is look)
        self.jobs.show_job(job)
        await self.pilot.pause()
        return job.name

    async def ask(self, key: str) -> None:
        """Press an acting key, and wait until the dialog hears."""
        await self.press(key)
        await self.until(lambda: self.dialog)
        await self.hear()

    async def push(self, snapshot: Snapshot) -> None:
        self.app.on_command_sent()
        self.handle.push(snapshot)
        await self.until(lambda: self.app.context.model.session.snapshot is snapshot)
        await self.pilot.pause()

    async def until(self, holds: Callable[[], Any]) -> None:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not holds():
            assert asyncio.get_running_loop().time() < deadline, "it never came"
            await asyncio.sleep(0.01)
        await self.pilot.pause()

    def pane(self, name: str) -> str:
        widget = self.app.screen.query_one(f"#{name}", LinesWidget)
        return widget.text_on_screen

    @property
    def dialog(self) -> str:
        screen = self.app.screen
        return screen.frame.text_on_screen if isinstance(screen, Overlay) else ""

    @property
    def footer(self) -> str:
        full = self.app.full_screen
        return full.footer.text_on_screen if full is not None else ""

    @property
    def everything(self) -> str:
        widgets = self.app.screen.query(LinesWidget)
        return "\n".join(widget.text_on_screen for widget in widgets if widget.display)


NAMES = {
    " ": "space",
    ":": "colon",
    "=": "equals_sign",
    ">": "greater_than_sign",
    "<": "less_than_sign",
    "-": "minus",
    ".": "full_stop",
    "/": "slash",
    "_": "underscore",
}


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
    left: list[LeaveWay] = []
    wanted: dict[str, Any] = {"ascii": False, "no_color": False, **options}
    app = CockpitApp(
        handle, options=CockpitOptions(**wanted), on_leave=left.append, clock=clock
    )
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.pause()
        yield Seat(app, pilot, handle, clock, left)


@asynccontextmanager
async def asking(
    key: str, look: Look, snapshot: Snapshot | None = None
) -> AsyncIterator[tuple[Seat, str]]:
    """A cockpit that asks about the first job of that look; with the job's name."""
    async with cockpit(snapshot) as seat:
        name = await seat.go_to(look)
        await seat.ask(key)
        yield seat, name
