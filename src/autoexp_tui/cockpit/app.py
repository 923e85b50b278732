"""The cockpit's app: wiring between handle, desk, screens and terminal.

What is not on the first screen is imported when it is asked for: the first paint
comes before the dialogs.

The engine is never stopped from here. However the app ends (asked to, by a fault, by
the terminal's loss), its caller decides what becomes of the engine; `fault` says
whether it ended badly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, cast

from textual import events
from textual.app import App, InvalidModeError
from textual.binding import BindingType
from textual.message import Message
from textual.screen import Screen

from autoexp_tui.cockpit import terminal
from autoexp_tui.cockpit.background import Background
from autoexp_tui.cockpit.bridge import Bridge
from autoexp_tui.cockpit.clock import Clock, PlayedClock, WallClock
from autoexp_tui.cockpit.commands import Commands, Pane
from autoexp_tui.cockpit.notify import Voice
from autoexp_tui.cockpit.painting import say_colors_shortly, without_grey
from autoexp_tui.cockpit.planning import PlanDesk
from autoexp_tui.cockpit.screens.base import BoxScreen
from autoexp_tui.cockpit.screens.jobs import JobsScreen
from autoexp_tui.cockpit.session_model import Desk, outlook_of
from autoexp_tui.cockpit.spans import Line, Role, outside
from autoexp_tui.cockpit.themes import load_skin

if TYPE_CHECKING:
    from autoexp_tui.cockpit.dialogs.question import Answered
    from autoexp_tui.cockpit.job_actions import Acts
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.widgets.bars import Typed
    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.model.snapshot import EngineView
from autoexp_tui.cockpit.options import (
    CockpitOptions,
    LeaveWay,
    wants_ascii,
    wants_no_color,
)

REFRESH_SECONDS: Final = 1.0
"""Between two snapshots on the screen; what was just ordered shows at once."""


SLOW_SECONDS: Final = 2.0
"""The same over a slow line."""


class Hearing(Protocol):
    """A screen of ours."""

    def hear(self, event: Typed) -> None:
        """Take a key, or a text that was pasted."""


class SnapshotWaits(Message):
    """A snapshot waits in the bridge."""


class CockpitApp(App[LeaveWay], inherit_bindings=False):
    """One cockpit over one handle."""

    ENABLE_COMMAND_PALETTE = False
    DEFAULT_MODE = "jobs"
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self,
        handle: EngineHandle,
        *,
        options: CockpitOptions | None = None,
        on_leave: Callable[[LeaveWay], None] = lambda way: None,
        on_ready: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        """Args:
        handle: live, viewer or replay.
        options: see `CockpitOptions`.
        on_leave: called once, before `run` returns, unless a fault ended the app.
        on_ready: called once, when the first screen was painted.
        clock: the machine's own by default.
        """
        self.options = options or CockpitOptions()
        super().__init__(driver_class=terminal.CockpitDriver)
        self.handle = handle
        self.clock: Clock = clock or WallClock()
        if self.options.replay:
            self.clock = PlayedClock(self.clock, lambda: self.desk.session.snapshot)
        self.commands = self.options.keymap or Commands()
        self.skin = load_skin(
            self.options.theme,
            no_color=wants_no_color(self.options),
            ascii_only=wants_ascii(self.options),
        )
        self.desk = Desk(handle.snapshot(), self.options.expression)
        self.background = Background("cockpit-files", self._soon)
        self.thinking = Background("cockpit-thoughts", self._soon)
        """For what takes its time and reads no file of a session: no disk hangs it."""
        self.bridge = Bridge(handle, self._snapshot_waits)
        quiet = self.options.replay or not self.options.notify
        self.voice = Voice(self._write, self.desk, quiet=quiet)
        self._on_leave = on_leave
        self._on_ready = on_ready
        self.planning = PlanDesk(self)
        self._acts: Acts | None = None
        self._left = False
        self._greeted = False
        self._prepared = False
        self._abandoned = False
        self._watched = _watches(self.desk.session.snapshot.engine)
        """Whether another engine was seen to live while this cockpit looked on."""
        self._shown_at = float("-inf")
        self._take_timer_set = False
        self._deaf_until = float("-inf")
        self.animation_level = "none"
        self._dress()

    def _dress(self) -> None:
        """Register the theme; without colours no grey replaces them."""
        self.register_theme(self.skin.theme)
        self.theme = self.skin.theme.name
        if wants_no_color(self.options):
            without_grey(self)
        if self.skin.eight_bit:
            say_colors_shortly(self)

    # ------------------------------------------------------------------------- keys
    async def on_event(self, event: events.Event) -> None:
        """Hand keys to the uppermost screen, one after the other; it acts at once.

        Textual puts each into the queue of the widget that is focused by then, so that
        what was typed right behind a key went where that key was about to lead away
        from.
        """
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self.app_focus = True
            self._hear(event)
        else:
            await super().on_event(event)

    def _hear(self, event: Typed) -> None:
        if self.clock.monotonic() >= self._deaf_until:
            cast("Hearing", self.screen).hear(event)

    def be_deaf(self, seconds: float) -> None:
        """Take what is typed within `seconds` for the rest of what was typed before."""
        self._deaf_until = self.clock.monotonic() + seconds

    # -------------------------------------------------------------------- beginning
    def on_mount(self) -> None:
        """Show the first snapshot, then listen."""
        self.add_mode("jobs", self.get_default_screen)
        self.add_mode("events", self._events_screen)
        self.add_mode("waiting", self._waiting_screen)
        self.add_mode("timeline", self._timeline_screen)
        self.add_mode("grid", self._grid_screen)
        self.background.start()
        self.thinking.start()
        self.bridge.open()
        self.call_after_refresh(self._shown)

    def get_default_screen(self) -> Screen[Any]:
        """The first mode's screen."""
        return JobsScreen(self.skin, self.desk, self.background)

    def _events_screen(self) -> Screen[Any]:
        from autoexp_tui.cockpit.screens.events import EventsScreen

        return EventsScreen(self.skin, self.desk, self.background)

    def _waiting_screen(self) -> Screen[Any]:
        from autoexp_tui.cockpit.screens.waiting import WaitingScreen

        return WaitingScreen(self.skin, self.desk)

    def _timeline_screen(self) -> Screen[Any]:
        from autoexp_tui.cockpit.screens.timeline import TimelineScreen

        return TimelineScreen(self.skin, self.desk)

    def _grid_screen(self) -> Screen[Any]:
        from autoexp_tui.cockpit.screens.grid import GridScreen

        return GridScreen(self.skin, self.desk)

    @property
    def acts(self) -> Acts:
        """What asks and sends."""
        if self._acts is None:
            from autoexp_tui.cockpit.job_actions import Acts

            self._acts = Acts(self)
        return self._acts

    def _drop_countdown(self) -> None:
        if self._acts is not None:
            self._acts.drop()

    def _shown(self) -> None:
        self._on_ready()
        self._greet()

    def _greet(self) -> None:
        """Once there are jobs to tell of: a session may still be opening."""
        self.voice.tell_title(self.desk)
        self._prepare()
        since = self.options.away_since
        if since is None or self._greeted or not self.desk.session.jobs:
            return
        self._greeted = True
        from autoexp_tui.cockpit.dialogs.reader import ReaderScreen
        from autoexp_tui.cockpit.render.digest import write_digest

        session, groups = self.desk.session, self.desk.groups
        told = write_digest(
            session,
            groups,
            session.present(since),
            session.present(self.clock.utc()),
        )
        if not told:
            return
        passes = {"exclamation_mark": "walk through them"} if groups else {}

        def closed(key: str | None) -> None:
            if key is not None:
                self.jobs_screen.carry_out("rows.need")

        self.push_screen(
            ReaderScreen(self.skin, "While you were away", told, passes), closed
        )

    def _prepare(self) -> None:
        """Once, when jobs are on the screen: import what keys will ask for."""
        if self._prepared or not self.desk.session.jobs:
            return
        self._prepared = True
        from autoexp_tui.cockpit.preimport import prepare

        self.call_after_refresh(prepare, self.thinking, self.options.ahead)

    @property
    def read_only(self) -> bool:
        """Whether no command may be sent."""
        return self.options.read_only or self.handle.read_only

    @property
    def replays(self) -> bool:
        """Whether what is shown is a journal that is played."""
        return self.options.replay

    @property
    def come_back(self) -> str:
        """How to return; empty where a multiplexer keeps the terminal anyway."""
        return "" if terminal.in_multiplexer() else self._way_back()

    def _way_back(self) -> str:
        """The sentence of the options, with the session's id once there is one."""
        session = self.desk.session.snapshot.session
        return self.options.come_back.replace("ID", session or "ID")

    @property
    def fault(self) -> Exception | None:
        """The exception that ended the app; None when it ended as asked."""
        return self._exception

    # -------------------------------------------------------------------- snapshots
    def _snapshot_waits(self) -> None:
        """From the engine's thread."""
        try:
            self.post_message(SnapshotWaits())
        except RuntimeError:
            self.bridge.close()  # the loop ended under us: nobody looks any more

    def on_snapshot_waits(self) -> None:
        """Take the newest snapshot now, or when it is time."""
        if self._take_timer_set:
            return
        wait = self._shown_at + self._pace() - self.clock.monotonic()
        if wait <= 0:
            self._take()
        else:
            self._take_timer_set = True
            self.set_timer(wait, self._take)

    def _pace(self) -> float:
        return SLOW_SECONDS if self.options.slow else REFRESH_SECONDS

    def bridge_hurry(self) -> None:
        """Show the next snapshot at once: something was just ordered."""
        self._shown_at = float("-inf")

    def _take(self) -> None:
        self._take_timer_set = False
        snapshot = self.bridge.take()
        if snapshot is None:
            return
        self._shown_at = self.clock.monotonic()
        before = self.desk.words.plan
        self.desk.take(snapshot)
        self.planning.take(snapshot, before)
        self.forecast()
        if self._acts is not None:
            self._acts.hear(snapshot)
        screen = self.full_screen
        if screen is not None:
            screen.renew()
        self._greet()
        self._tell_take_over(snapshot.engine)
        self.voice.ring(self.desk)

    def _tell_take_over(self, engine: EngineView) -> None:
        """Say once that the session is run from here now, and was not before."""
        if engine.role == "live" and self._watched:
            self._watched = False
            words = (
                "the engine that was watched is gone; the session goes on in this one"
            )
            self.say(words, "warning", keep=True)
        elif _watches(engine):
            self._watched = True

    def pass_time(self) -> None:
        """A second has passed: let ages grow where no snapshot will come."""
        screen = self.full_screen
        if self.desk.pass_time(self.clock.utc()) and screen is not None:
            screen.renew()

    def forecast(self) -> bool:
        """Estimate ends when it is time; of many jobs in the background.

        Whether the estimate changed here and now.
        """
        if not self.desk.many:
            return self.desk.forecast(self.clock.monotonic())
        if self.desk.due(self.clock.monotonic()):
            session = self.desk.session
            self.background.call(
                "forecast", lambda: outlook_of(session), self._foreseen
            )
        return False

    def _foreseen(self, result: Any, problem: BaseException | None) -> None:
        if problem is not None:
            raise problem
        self.desk.foresee(*result)
        if self.full_screen is not None:
            self.full_screen.renew()

    @property
    def full_screen(self) -> BoxScreen | None:
        """The screen below any overlay."""
        stack = [one for one in self.screen_stack if isinstance(one, BoxScreen)]
        return stack[-1] if stack else None

    @property
    def jobs_screen(self) -> JobsScreen:
        """The main screen."""
        stack = self._screen_stacks[self.DEFAULT_MODE]
        return cast("JobsScreen", stack[0])

    def to_jobs(self, pane: Pane) -> None:
        """To Jobs mode, and there to a pane."""
        self.switch_mode("jobs")
        self.jobs_screen.renew()
        self.jobs_screen.do_pane(pane)

    def to_mode(self, name: str) -> None:
        """To another mode; there already, to its list."""
        if self.current_mode != name:
            self.switch_mode(name)
        elif self.full_screen is not None:
            self.full_screen.to_list()

    def to_policy(self, name: str) -> None:
        """To the pane of a policy of the session."""
        from autoexp_tui.cockpit.screens.policy import PolicyScreen

        mode = f"policy:{name}"
        with suppress(InvalidModeError):  # it is there already
            self.add_mode(mode, lambda: PolicyScreen(self.skin, self.desk, name))
        self.to_mode(mode)

    def on_screen_resume(self) -> None:
        """A mode was switched to."""
        screen = self.full_screen
        if screen is not None:
            screen.renew()

    # ---------------------------------------------------------------------- telling
    def say(self, text: str, role: Role = "accent", *, keep: bool = False) -> None:
        """Show a notice for some seconds; with `keep` until a key is pressed."""
        screen = self.full_screen
        if screen is not None:
            screen.say(text, role, keep=keep)

    def _write(self, sequence: str) -> None:
        """Write beside the screen, where there is a terminal to write to."""
        if self._driver is not None and not self.is_headless and not self._abandoned:
            self._driver.write(sequence)
            self._driver.flush()

    def copy(self, text: str) -> None:
        """Send a text to the clipboard, or to a file when it is too long."""
        self.say(*self.voice.copy(text, Path(self.options.save_directory)))

    def read_out(self, title: str, lines: Sequence[Line]) -> None:
        """Show lines over the screen."""
        from autoexp_tui.cockpit.dialogs.reader import ReaderScreen

        self.push_screen(ReaderScreen(self.skin, title, lines))

    def show_folder(self, path: str, job: str) -> None:
        """Show what lies in a directory, once it was read."""
        from autoexp_tui.cockpit.folders import read_folder

        def done(lines: Any, problem: BaseException | None) -> None:
            if isinstance(problem, OSError):
                reason = problem.strerror or str(problem)
                self.say(f"{outside(path)} cannot be read: {reason}", "warning")
            elif problem is not None:
                raise problem
            else:
                self.read_out(f"What was seen of {outside(job)}", lines)

        self.background.call("folder", lambda: read_folder(path), done)

    def show_papers(self, jobs: Sequence[JobView]) -> None:
        """Show how a job is made, or what differs between two, once that is read."""
        from autoexp_tui.cockpit.job_details import PaperDesk

        PaperDesk(self).show(jobs)

    def show_help(self) -> None:
        """List the keys."""
        from autoexp_tui.cockpit.dialogs.reader import help_lines

        self.read_out("Keys", help_lines(self.commands, replay=self.replays))

    def show_palette(self, pane: Pane) -> None:
        """Find a command by its name."""
        from autoexp_tui.cockpit.dialogs.reader import PaletteScreen, carry_on

        def run(command_id: str) -> None:
            if self.full_screen is not None:
                self.full_screen.carry_out(command_id)

        palette = PaletteScreen(self.skin, self.commands, pane, replay=self.replays)
        self.push_screen(palette, carry_on(run))

    def _soon(self, call: Callable[[], None]) -> None:
        """From the background thread: run a call on ours."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._guarded, call)

    def _guarded(self, call: Callable[[], None]) -> None:
        """Run a delivered call; its fault ends the app as any handler's does."""
        try:
            with self._context():
                call()
        except Exception as error:  # noqa: BLE001 - handed on, never swallowed
            self._handle_exception(error)

    # ---------------------------------------------------------------------- leaving
    def ask_to_leave(self) -> None:
        """Ask where leaving could matter; leave at once where it cannot."""
        from autoexp_tui.cockpit.dialogs.question import QuestionScreen
        from autoexp_tui.cockpit.render.questions import ask_leave

        question = ask_leave(self.desk.session, self._way_back())
        if question is None:
            self.leave(LeaveWay.NOTHING)
            return

        def answered(answer: Answered | None) -> None:
            if answer is None:
                return
            if answer.key == "p" and not self.read_only:
                from autoexp_tui.model.commands import Pause

                self.handle.send(Pause(), by="cockpit")
                self.leave(LeaveWay.PAUSED)
            else:
                self.leave(LeaveWay.LEFT)

        self.push_screen(QuestionScreen(self.skin, question), answered)

    async def action_quit(self) -> None:
        """Textual's own way out: ours asks first."""
        self.ask_to_leave()

    def leave(self, way: LeaveWay) -> None:
        """End the screen; the engine is the caller's."""
        if self._left:
            return
        self._left = True
        self._drop_countdown()
        self.bridge.close()
        self.background.close()
        self.thinking.close()
        self._on_leave(way)
        self.exit(way)

    def abandon(self) -> None:
        """End at once without painting: the terminal is gone. Safe to call twice."""
        if self._abandoned:
            return
        self._abandoned = True
        driver = self._driver
        if isinstance(driver, terminal.CockpitDriver):
            driver.let_go()
        self.leave(LeaveWay.LOST)

    def terminal_lost(self) -> None:
        """From the driver's threads: the terminal does not answer any more."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.abandon)

    def _print_error_renderables(self) -> None:
        """Say in one line what ended the app; the caller logs the traceback."""
        self._exit_renderables.clear()
        if self._exception is not None and not self._abandoned:
            name = type(self._exception).__name__
            problem = f"The screen failed ({name}); the engine goes on."
            with suppress(OSError):  # the terminal may be gone as well
                sys.stderr.write(f"{problem}\n")

    def _fatal_error(self) -> None:
        """End after a handler's fault, without drawing a traceback over the shell."""
        self._drop_countdown()
        self.bridge.close()
        self._close_messages_no_wait()


def _watches(engine: EngineView) -> bool:
    """Whether another engine lives and runs the session."""
    return engine.role == "viewer" and engine.owner_alive
