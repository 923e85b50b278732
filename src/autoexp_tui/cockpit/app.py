"""The cockpit's app: wiring between handle, model, screens and terminal.

The engine is never stopped from here: however the app ends, its caller decides what
becomes of the engine; `fault` says whether it ended badly."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import events
from textual.app import App, InvalidModeError
from textual.binding import BindingType
from textual.screen import Screen
from textual.worker import WorkerFailed

from autoexp_tui.cockpit import terminal
from autoexp_tui.cockpit.context import (
    KEEP,
    Background,
    Clock,
    CockpitContext,
    CockpitOptions,
    LeaveWay,
    WallClock,
)
from autoexp_tui.cockpit.keymap import PARTS, Keymap, Pane
from autoexp_tui.cockpit.render.layout import is_too_small
from autoexp_tui.cockpit.screens.base import BoxScreen, JobListScreen, Request
from autoexp_tui.cockpit.screens.jobs import JobsScreen
from autoexp_tui.cockpit.session_model import SessionModel, estimate_outlook
from autoexp_tui.cockpit.spans import Line, outside
from autoexp_tui.cockpit.state.session import JobView, Scope
from autoexp_tui.cockpit.themes import apply_skin
from autoexp_tui.cockpit.widgets.pane import LinesWidget
from autoexp_tui.model.errors import AutoexpError, Problem
from autoexp_tui.text.spelling import EXAMPLES, NoMoment, parse_moment

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from autoexp_tui.cockpit.actions import Actions
    from autoexp_tui.cockpit.comparison import Comparison
    from autoexp_tui.cockpit.dialogs.palette import Entry, Kind
    from autoexp_tui.cockpit.dialogs.question import Overlay
    from autoexp_tui.cockpit.render.questions import Question
    from autoexp_tui.engine.handle import EngineHandle, ReplayMove
    from autoexp_tui.model.commands import Command
    from autoexp_tui.model.snapshot import EngineView, SessionBrief, Snapshot
    from autoexp_tui.model.specs import Plan

REFRESH_SECONDS: Final = 1.0
"""Between two snapshots on the screen; what was just ordered shows at once."""
SLOW_SECONDS: Final = 2.0
"""The same over a slow line."""
_HOUSE: Final = "autoexp_tui.cockpit.screens"
SCREENS: Final[dict[str, str]] = {
    "events": f"{_HOUSE}.events:EventsScreen",
    "results": f"{_HOUSE}.results:ResultsScreen",
    "tree": f"{_HOUSE}.tree:TreeScreen",
    "research": f"{_HOUSE}.research:ResearchScreen",
}
"""Mode -> its screen, which is loaded when it is first shown. A policy has one by its
name, in a mode of the same name (`keymap.PARTS`); else its lines are shown."""


class CockpitApp(App[LeaveWay], inherit_bindings=False):
    """One cockpit over one handle."""

    CSS_PATH = "cockpit.tcss"
    ENABLE_COMMAND_PALETTE = False
    DEFAULT_MODE = "jobs"
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self,
        handle: EngineHandle,
        *,
        options: CockpitOptions | None = None,
        on_ready: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        """`on_ready` is called once, when the first screen was painted."""
        super().__init__(driver_class=terminal.CockpitDriver)
        wanted = options or CockpitOptions()
        model = SessionModel(handle.snapshot())
        self.context = CockpitContext(
            handle=handle,
            model=model,
            skin=apply_skin(
                self, wanted.theme, no_color=wanted.no_color, ascii_only=wanted.ascii
            ),
            options=wanted,
            clock=clock or WallClock(),
            keymap=wanted.keymap or Keymap(),
            background=Background("cockpit-files"),
        )
        quiet = wanted.replay or not wanted.notify
        self.notifier = terminal.Notifier(self._write, model, quiet=quiet)
        self._on_ready = on_ready
        self._has_left = False
        self._has_greeted = False
        self._is_abandoned = False
        self._was_watching = False
        """Whether another engine was seen to live while this cockpit looked on."""
        self._explain_takeover(model.session.snapshot.engine)
        self._taken: Plan | None = None
        """The plan for which keys and the table's columns were read."""
        self._newest: Snapshot | None = None
        """What was published last, until it is shown."""
        self._shown_at = float("-inf")
        self._is_take_scheduled = False
        self._deaf_until = float("-inf")
        self.animation_level = "none"

    async def on_event(self, event: events.Event) -> None:
        """Hand keys to the uppermost screen one by one: Textual's queues mix them."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
            return
        self.app_focus = True
        now = self.context.clock.monotonic()
        screen = cast("BoxScreen | Overlay[object]", self.screen)
        if now >= self._deaf_until:
            await screen.take_key(event)
            if not isinstance(screen, BoxScreen) and screen is not self.screen:
                self._deaf_until = now + screen.deaf_seconds
            await asyncio.sleep(0)  # a dialog opens before the next key

    def on_mount(self) -> None:
        modes = ("jobs", "events", "waiting", "timeline", "grid", "results", *PARTS)
        for mode in modes:
            self.add_mode(mode, partial(self._make_mode, mode))
        self.context.handle.subscribe(self._publish)
        self.set_interval(1.0, self.update_every_second)

        def finish_first_paint() -> None:
            self._on_ready()
            self._greet()
            self._estimate_ends()
            self._take_plan()
            if (beside := self.context.options.beside) is not None:
                self.action_show_mode("results")
                self.run_worker(self.comparison.change(beside))

        self.call_after_refresh(finish_first_paint)

    def get_default_screen(self) -> Screen[Any]:
        return self._make_screen("jobs")

    def _make_mode(self, mode: str) -> Screen[Any]:
        """Its screen, of today's styles: Textual would read all of them anew, twice."""
        screen = self._make_screen(mode)
        screen._css_update_count = self._css_update_count
        return screen

    def _make_screen(self, mode: str) -> Screen[Any]:
        if mode == "jobs":
            return JobsScreen(self.context)
        if mode in SCREENS:
            module, _, name = SCREENS[mode].partition(":")
            made: Screen[Any] = getattr(import_module(module), name)(self.context)
            return made
        from autoexp_tui.cockpit.screens.lists import LISTS, ListScreen, PolicyScreen

        if mode in LISTS:
            return ListScreen(self.context, LISTS[mode])
        return PolicyScreen(self.context, mode.removeprefix("policy:"))

    def _greet(self) -> None:
        """Say what happened while the person was away, once there are jobs to tell of:
        a session may still be opening."""
        self.notifier.show_title()
        session, groups = self.context.model.session, self.context.model.groups
        since = self.context.options.away_since
        if since is None or self._has_greeted or not session.jobs:
            return
        from autoexp_tui.cockpit.render.lists import write_digest

        self._has_greeted = True
        present = self.context.find_present()
        lines = write_digest(session, groups, session.present(since), present)
        if lines:
            passes = {"exclamation_mark": "walk through them"} if groups else {}
            self._show_lines("While you were away", lines, passes)

    @cached_property
    def actions(self) -> Actions:
        """What asks, sends, and plans again."""
        from autoexp_tui.cockpit.actions import Actions

        return Actions(self.context, self, self.renew_screen)

    @property
    def fault(self) -> Exception | None:
        """The exception that ended the app; None when it ended as asked."""
        return self._exception

    def _publish(self, snapshot: Snapshot) -> None:
        """From the engine's thread."""
        with suppress(RuntimeError):  # the loop ended under us: nobody looks any more
            self.call_later(self._schedule, snapshot)

    def _schedule(self, snapshot: Snapshot) -> None:
        """Take the newest snapshot now, or when it is time."""
        self._newest = snapshot
        if self._is_take_scheduled:
            return
        pace = SLOW_SECONDS if self.context.options.slow else REFRESH_SECONDS
        wait = self._shown_at + pace - self.context.clock.monotonic()
        if wait <= 0:
            self._take_snapshot()
        else:
            self._is_take_scheduled = True
            self.set_timer(wait, self._take_snapshot)

    def on_command_sent(self) -> None:
        """Show the next snapshot at once: something was just ordered."""
        self._shown_at = float("-inf")

    def _take_snapshot(self) -> None:
        self._is_take_scheduled = False
        snapshot, self._newest = self._newest, None
        if snapshot is None or self._has_left:
            return
        model = self.context.model
        self._shown_at = self.context.clock.monotonic()
        before = model.words.plan
        model.take(snapshot)
        if "actions" in self.__dict__ or snapshot.engine.role == "plan":
            self.actions.take(snapshot, before)
        self._estimate_ends()
        self.renew_screen()
        self._take_plan()
        self._greet()
        self._explain_takeover(snapshot.engine)
        self.notifier.notify()

    def _explain_takeover(self, engine: EngineView) -> None:
        """Say once that the session is run from here now, and was not before."""
        is_ours = engine.role == "live"
        if is_ours and self._was_watching:
            text = (
                "the engine that was watched is gone; the session goes on in this one"
            )
            self.notify(text, severity="warning", timeout=KEEP)
        is_watching = engine.role == "viewer" and engine.owner_alive
        self._was_watching = not is_ours and (self._was_watching or is_watching)

    def update_every_second(self) -> None:
        """A second has passed: let ages grow where no snapshot will come."""
        screen = self.full_screen
        if screen is None or not screen.query("Header"):
            return  # it is not composed yet, or goes
        moved = "comparison" in self.__dict__ and self.comparison.take()
        if self.context.model.update_ages(self.context.find_utc()) or moved:
            screen.renew()
        screen.update_time()

    @cached_property
    def comparison(self) -> Comparison:
        """The sessions that are shown beside the own one."""
        from autoexp_tui.cockpit.comparison import Comparison

        return Comparison(self.context, self, self.renew_screen)

    def action_compare(self) -> None:
        """Ask for a session to compare with; for one that is, to do so no longer."""

        async def choose(screen: BoxScreen) -> None:
            entry = await self._find_entry(screen, "session")
            if entry is not None:
                await self.comparison.change((entry.id,))

        if self.full_screen is not None:
            self.run_worker(choose(self.full_screen))

    def action_back_to_list(self) -> None:
        """Back to the list of sessions that this was opened from."""
        self.leave(LeaveWay.BACK)

    def _estimate_ends(self) -> None:
        """Estimate ends when that is due, behind the screen."""
        model = self.context.model
        if not model.is_due(self.context.clock.monotonic()):
            return

        async def estimate() -> None:
            work = partial(estimate_outlook, model.session)
            model.set_outlook(*await self.context.background.fetch("forecast", work))
            self.renew_screen()

        self.run_worker(estimate())

    def _take_plan(self) -> None:
        """Read keys and columns of the table, once there is a plan, or another."""
        plan = self.context.model.session.snapshot.plan
        before, self._taken = self._taken, plan
        read_keymap = self.context.options.read_keymap
        if plan is not before and read_keymap is not None:
            self.context.keymap = read_keymap()
        if plan is None or plan is before or self.context.options.read_columns is None:
            return
        from autoexp_tui.cockpit.dialogs.columns import find_config, load_columns

        async def load() -> None:
            await load_columns(self.context, self)
            self.renew_screen()

        if find_config(plan) != find_config(before):
            self.run_worker(load())

    @property
    def full_screen(self) -> BoxScreen | None:
        """The screen below any overlay."""
        stack = [one for one in self.screen_stack if isinstance(one, BoxScreen)]
        return stack[-1] if stack else None

    @property
    def jobs_screen(self) -> JobsScreen:
        return cast("JobsScreen", self._screen_stacks[self.DEFAULT_MODE][0])

    def renew_screen(self) -> None:
        if self.full_screen is not None:
            self.full_screen.renew()

    def on_screen_resume(self) -> None:
        self.renew_screen()

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Textual's word for a notice; ours stands where the keys are."""
        if self.full_screen is not None:
            self.full_screen.show_notice(message, severity, keep=timeout == KEEP)

    def action_show_pane(self, pane: Pane) -> None:
        """To Jobs mode, and there to a pane."""
        if self.current_mode != "jobs":
            self.switch_mode("jobs")
            self.jobs_screen.renew()
        self.jobs_screen.show_pane(pane)

    def action_show_curves(self, jobs: Sequence[JobView], metric: str) -> None:
        """To Jobs mode, and there to the curves of the marked jobs, else of these over
        seeds; esc leads back to where they were asked for. Logs are read of those of
        which no engine tells curves."""
        mode = self.current_mode
        self.action_show_pane("jobs")
        self.jobs_screen.show_curves(jobs, metric, joins=True, mode=mode)
        self.run_worker(self.comparison.read_curves(jobs))

    def action_show_mode(self, mode: str) -> None:
        """To another mode; there already, to its list."""
        if self.current_mode != mode:
            self.switch_mode(mode)
        elif self.full_screen is not None:
            self.full_screen.focus_pane()

    def show_policy(self, name: str) -> None:
        """To the screen of a policy of the session."""
        mode = name if name in PARTS else f"policy:{name}"
        with suppress(InvalidModeError):  # it is there already
            self.add_mode(mode, partial(self._make_mode, mode))
        self.action_show_mode(mode)

    def action_show_need(self) -> None:
        if self.current_mode != "jobs":
            self.action_show_pane("jobs")
        self.jobs_screen.show_need()

    def action_show_job(self, job: JobView) -> None:
        self.action_show_pane("jobs")
        self.jobs_screen.show_job(job)

    def action_redraw(self) -> None:
        if self.full_screen is not None:
            terminal.redraw(self.full_screen)

    def action_help(self) -> None:
        from autoexp_tui.cockpit.dialogs.reader import list_keys

        screen, replay = self.full_screen, self.context.is_replay
        if screen is not None:
            pane = screen.find_pane().name_in_table
            parts = self.context.parts
            keys = list_keys(self.context.keymap, pane, replay=replay, parts=parts)
            self._show_lines("Keys", keys)

    def _show_lines(
        self, title: str, lines: Sequence[Line], passes: Mapping[str, str] | None = None
    ) -> None:
        from autoexp_tui.cockpit.dialogs.reader import Page, ReaderScreen

        reader = ReaderScreen(self.context, title, [Page("", tuple(lines))], passes)
        self.push_screen(reader, lambda key: self.action_show_need() if key else None)

    def action_palette(self) -> None:
        """Find something by its name: carry it out, or go there."""

        async def run(screen: BoxScreen) -> None:
            entry = await self._find_entry(screen)
            if entry is not None:
                await self._open_entry(screen, entry)

        if self.full_screen is not None:
            self.run_worker(run(self.full_screen))

    async def _find_entry(
        self, screen: BoxScreen, only: Kind | None = None
    ) -> Entry | None:
        """Let a person find something; None where they gave it up."""
        from autoexp_tui.cockpit.dialogs.palette import PaletteScreen

        async def show_sessions(work: Callable[[], Sequence[SessionBrief]]) -> None:
            with suppress(AutoexpError, OSError):  # they are then not found, no more
                found = await self.context.background.fetch("sessions", work)
                palette.show_sessions(found)

        palette = PaletteScreen(self.context, screen.find_pane().name_in_table, only)
        if list_sessions := self.context.options.list_sessions:
            self.run_worker(show_sessions(list_sessions))
        return await self.push_screen_wait(palette)

    async def _open_entry(self, screen: BoxScreen, entry: Entry) -> None:
        session = self.context.model.session
        match entry.kind:
            case "command":
                await screen.run_command(self.context.keymap.commands[entry.id])
            case "job" if job := session.find_job(entry.id):
                self.action_show_job(job)
            case "stage":
                names = {job.name for job in session.jobs if job.stage == entry.id}
                only = (outside(f"stage {entry.id}"), frozenset(names))
                self.context.model.update_arrangement(only=only)
                self.action_show_pane("jobs")
                self.renew_screen()
            case "policy":
                self.show_policy(entry.id)
            case "session":
                command = f"autoexp-tui --session {entry.id}"
                self.notify(f"`{command}` opens it; {self.notifier.copy(command)}")
            case "theme":
                self.switch_theme(entry.id)

    def switch_theme(self, name: str) -> None:
        """Draw everything by another theme, from now on."""
        wanted = self.context.options
        self.context.skin = apply_skin(
            self, name, no_color=wanted.no_color, ascii_only=wanted.ascii
        )
        for stack in self._screen_stacks.values():
            for screen in stack:
                for widget in screen.query(LinesWidget):
                    widget.refresh()

    def action_run_own(self, name: str) -> None:
        """Run a command of a person's own, for the job under the cursor."""
        from autoexp_tui.cockpit.own_commands import run_own

        own = self.context.keymap.own.get(name)
        if own is not None and self._may_run():
            run = run_own(self.context, self, own, self._find_job())
            self.run_worker(run, group=name, exclusive=True)

    def action_open_shell(self) -> None:
        """Open a shell where the job under the cursor is."""
        import os

        from autoexp_tui.cockpit import own_commands as own

        job = self._find_job()
        if job is None:
            self.notify("there is no job here")
        elif self._may_run():
            words, directory = own.choose_shell(job)
            session = self.context.model.session.snapshot.session
            environment = {**os.environ, **own.build_environment(job, session)}
            own.run_in_terminal(self, "the shell", words, environment, directory)

    def _may_run(self) -> bool:
        """Whether a person may run programs from here; else it is said why not."""
        allowed = not self.context.is_read_only and not self.context.is_replay
        if not allowed:
            self.notify("read only: nothing is run from here", severity="warning")
        return allowed

    def _find_job(self) -> JobView | None:
        screen = self.full_screen
        jobs = screen.find_jobs() if isinstance(screen, JobListScreen) else ()
        return next(iter(jobs), None)

    def action_show_details(self, jobs: Sequence[JobView]) -> None:
        from autoexp_tui.cockpit.dialogs.reader import show_job_details

        self.run_worker(show_job_details(self.context, self, jobs))

    def action_copy(self, text: str) -> None:
        self.notify(self.notifier.copy(text))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action may be carried out now; acting ones say why not."""
        if action != "act":
            return True
        if not self.context.is_read_only:
            return not is_too_small(*self.size)  # nobody could read what is asked
        if self.context.is_replay:
            text = "a replay: what has happened takes no commands"
        elif user := self.context.model.session.snapshot.engine.user:
            text = f"read only: this is the session of {outside(user)}"
        else:
            text = "read only: this view sends no commands"
        self.notify(text, severity="warning")
        return False

    async def action_act(self, verb: str) -> None:
        """Ask about a verb, for what the screen is about; then send it."""
        screen, warnings = self.full_screen, None
        if not isinstance(screen, JobListScreen):
            if screen is not None:
                await screen.act(verb)
            return
        if verb == "skip" and isinstance(screen, JobsScreen):
            warnings = screen.find_warnings()
        if warnings is not None:
            self.actions.dismiss_warnings(warnings)
        else:
            ask = getattr(self.actions, verb)
            self.run_worker(ask(screen.find_scope()))

    def action_order(self, verb: str) -> None:
        """Carry out a verb that is about no job: pause, or stop a countdown."""
        self.run_worker(getattr(self.actions, verb)(Scope(jobs=())))

    def action_answer(self, names: Sequence[str] = ()) -> None:
        """Ask about these questions of a policy, else about all that asks."""
        self.run_worker(self.actions.answer(Scope(jobs=(), asks=tuple(names))))

    def action_ask(self, question: Question) -> None:
        """Ask what a screen of its own wants to know, and send what is answered."""
        self.run_worker(self.actions.ask(question))

    def action_send(self, command: Command, told: str) -> None:
        """Send what needs no question, for a screen of its own."""
        self.actions.send(command)
        self.notify(told)

    def action_plan(self, what: str) -> None:
        """Plan again from what was saved, or show what changed since the last plan."""
        getattr(self.actions, "plan_again" if what == "again" else "show_changes")()

    def show_faults(self, faults: Sequence[Problem]) -> None:
        """Show why there is no plan; closed without one, the cockpit is left."""
        self.actions.show_faults(faults, self.leave)

    def action_replay(self, how: str) -> None:
        """Move the replay; what comes of it is shown as soon as it is there."""
        shown = self.context.model.session.snapshot.playback
        if shown is None:
            self.notify("the journal is still being read", severity="warning")
        elif how == "jump":
            self._ask_moment()
        else:
            self.on_command_sent()
            orders: dict[str, tuple[ReplayMove, float]] = {
                "play": ("toggle", 0.0),
                "slower": ("speed", 0.5),
                "faster": ("speed", 2.0),
                "back": ("step", -1),
                "on": ("step", 1),
                "begin": ("jump", shown.begin),
                "end": ("jump", shown.end),
            }
            self.context.handle.play(*orders[how])

    def _ask_moment(self) -> None:

        def jump(text: str) -> str:
            shown = self.context.model.session.snapshot.playback
            if shown is None or not text.strip():
                return ""
            try:
                wanted = parse_moment(text, shown.at, shown.begin, shown.end)
            except NoMoment as error:
                return str(error)
            self.on_command_sent()
            self.context.handle.play("jump", wanted)
            return ""

        if self.full_screen is not None:
            self.full_screen.ask_line(Request(label="time", hint=EXAMPLES, answer=jump))

    def _write(self, sequence: str) -> None:
        """Write beside the screen, where there is a terminal to write to."""
        if self._driver is not None and not self.is_headless and not self._is_abandoned:
            self._driver.write(sequence)
            self._driver.flush()

    def _handle_exception(self, error: Exception) -> None:
        """A worker's fault is told as itself, with where it happened."""
        if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
            error = error.error
        super()._handle_exception(error)

    def action_leave(self) -> None:
        """Ask where leaving could matter; leave at once where it cannot."""
        from autoexp_tui.cockpit.dialogs.question import Answer, QuestionScreen
        from autoexp_tui.cockpit.render.questions import ask_leave
        from autoexp_tui.model.commands import Pause

        way_back = self.context.describe_return()
        question = ask_leave(self.context.model.session, way_back)
        if question is None:
            self.leave()
            return

        def done(answer: Answer | None) -> None:
            if answer is None:
                return
            if answer.key == "p" and not self.context.is_read_only:
                self.context.handle.send(Pause(), by="cockpit")
            self.leave()

        self.push_screen(QuestionScreen(self.context, question), done)

    async def action_quit(self) -> None:
        self.action_leave()

    def leave(self, way: LeaveWay = LeaveWay.LEFT) -> None:
        """End the screen; the engine is the caller's."""
        if self._has_left:
            return
        self._has_left = True
        self._drop_countdown()
        if "comparison" in self.__dict__:
            self.comparison.close()
        self.exit(way)

    def _drop_countdown(self) -> None:
        if "actions" in self.__dict__:
            self.actions.drop_countdown()

    def abandon(self) -> None:
        """End at once without painting: the terminal is gone. Safe to call twice."""
        if self._is_abandoned:
            return
        self._is_abandoned = True
        if isinstance(self._driver, terminal.CockpitDriver):
            self._driver.losable.gone = True
        self.leave(LeaveWay.LOST)

    def notify_terminal_lost(self) -> None:
        """From any thread, or a signal: the terminal does not answer any more."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.abandon)

    def _print_error_renderables(self) -> None:
        """Say in one line what ended the app; the caller logs the traceback."""
        self._exit_renderables.clear()
        if self._exception is not None and not self._is_abandoned:
            name = type(self._exception).__name__
            problem = f"The screen failed ({name}); the engine goes on."
            with suppress(OSError):  # the terminal may be gone as well
                sys.stderr.write(f"{problem}\n")

    def _fatal_error(self) -> None:
        """End after a handler's fault, without drawing a traceback over the shell."""
        self._drop_countdown()
        self._has_left = True
        self._close_messages_no_wait()
