"""autoexp-tui: the cockpit over a new plan, a session, or the sessions it finds."""

from __future__ import annotations

import argparse
import gc
import math
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.cli import open as opening
from autoexp_tui.cli.diagnostics import ExitCode, freeze_garbage, make_entry, say
from autoexp_tui.cli.options import (
    DEFAULT_CONFIG,
    FORCE,
    Options,
    name_session,
    option,
    parse_options,
)
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    Problem,
    UsageError,
)
from autoexp_tui.storage.atomic import explaining
from autoexp_tui.storage.trust import get_accepted_file, read_checked

if TYPE_CHECKING:
    from autoexp_tui.cockpit.app import CockpitApp
    from autoexp_tui.cockpit.context import CockpitOptions, LeaveWay
    from autoexp_tui.cockpit.keymap import Keymap
    from autoexp_tui.cockpit.render.plan_findings import PlanChanges
    from autoexp_tui.cockpit.settings import Settings
    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.engine.session_handle import SessionHandle
    from autoexp_tui.model.snapshot import SessionBrief
    from autoexp_tui.model.specs import Plan
    from autoexp_tui.storage.session_dir import SessionDir

_MOST_SETTINGS: Final = 1 << 20
"""Bytes of the settings."""
_FLAGS: Final = (
    option("--submit", "submit the whole plan at once"),
    option("--read-only", "look, and command nothing"),
    option("--ascii", "no glyphs beyond ASCII", default=None),
    option("--theme", "dark, light, ansi, or a theme file", "THEME"),
    option("--keymap", "your own keys", "FILE"),
    option("--mouse", "take the mouse (off by default)"),
    option("--replay", "play a session's journal (--session)"),
    option("--speed", "of a replay: 1x to 1000000x, max", "N", default="60x"),
    option("--slow", "repaint every two seconds"),
    FORCE,
)


def main(argv: Sequence[str]) -> int:
    """Open the cockpit."""
    options, args = parse_options("autoexp-tui", __doc__, argv, _FLAGS)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise EnvironmentFailed(
            "the cockpit needs a terminal",
            hint="autoexp-run does the same without one.",
        )
    if args.replay:
        parse_speed(args.speed)
        if options.config_ref or options.manifest or args.submit:
            raise UsageError(
                "--replay plays what happened: it takes no plan, and submits nothing",
                hint="autoexp-tui --session ID --replay; without ID it asks which.",
            )
    if not (options.config_ref or options.session or options.manifest):
        if options.config_dir or options.overrides or options.local:  # of a plan
            options = replace(options, config_ref=DEFAULT_CONFIG)
        else:
            return _open_chosen(options, args)
    return Cockpit(options, args).run()


def parse_speed(text: str) -> float:
    """Seconds of a session in one second of its replay: `60`, `60x`, `max`; raises
    UsageError where it is no speed."""
    try:
        speed = math.inf if text == "max" else float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not speed >= 1:
        raise UsageError(
            f"--speed: {text!r} is no speed", hint="1x to 1000000x, or max"
        )
    return speed


def _open_chosen(options: Options, args: argparse.Namespace) -> int:
    """Let the person choose a session, or several to compare, of which one looks and
    comes back to the list."""
    from autoexp_tui.cockpit.context import LeaveWay
    from autoexp_tui.cockpit.screens.picker import SessionPicker
    from autoexp_tui.storage.sessions import list_sessions

    places = opening.list_places(options)
    marked: Sequence[str] = ()
    while True:
        shown = _build_options(options, args)
        picker = SessionPicker(lambda: list_sessions(*places), shown, marked=marked)
        choice = picker.run(mouse=args.mouse)
        if choice is None:
            return ExitCode.OK
        chosen = replace(options, session=choice.ids[0])
        if not choice.compares:
            return Cockpit(chosen, args).run()
        looks = argparse.Namespace(**{**vars(args), "read_only": True, "replay": False})
        cockpit = Cockpit(chosen, looks, choice.ids[1:])
        code = cockpit.run()
        if cockpit.way is not LeaveWay.BACK:
            return code
        marked = choice.ids


def _load_settings(*, commands: bool) -> Settings:
    """The person's own file, which nobody else may write; raises AutoexpError."""
    from autoexp_tui.cockpit.keymap import parse_toml
    from autoexp_tui.cockpit.settings import Settings, build_settings

    file = get_accepted_file().parent / "settings.toml"
    if not file.exists():
        return Settings()
    with explaining(file, "read"):
        data = read_checked(file, "own", _MOST_SETTINGS)
    content = parse_toml(data, str(file))
    return build_settings(content, str(file), commands=commands)


def _build_options(
    options: Options, args: argparse.Namespace, *, commands: bool = False
) -> CockpitOptions:
    """What was asked for, and what the person's settings say; `commands`: with their
    own commands."""
    from autoexp_tui.cockpit.context import CockpitOptions
    from autoexp_tui.cockpit.keymap import load_keymap

    settings = _load_settings(commands=commands)
    keymap = settings.keymap
    if args.keymap:
        own = [*settings.keymap.own.values()] if settings.keymap else []
        keymap = load_keymap(Path(args.keymap)).add(own, args.keymap)
    return CockpitOptions(
        read_only=args.read_only,
        ascii=args.ascii,
        no_color=options.no_color or None,
        theme=args.theme or settings.theme or "dark",
        slow=args.slow,
        keymap=keymap,
    )


_LATER: Final = {
    "details": "executors.job_details.read_job_details",
    "checkpoints": "storage.checkpoint_files.look_for_checkpoints",
    "read_columns": "storage.user_files.read_columns",
    "keep_columns": "storage.user_files.keep_columns",
    "read_curves": "cli.curves.read_curves",
    "plan_growth": "cli.growth.plan_growth",
    "store_growth": "cli.growth.store_growth",
}
"""Options of the cockpit, and functions that are loaded when they are called."""


def _load_later(place: str) -> Any:
    module, _, name = place.rpartition(".")
    return lambda *args: getattr(import_module(f"autoexp_tui.{module}"), name)(*args)


class Cockpit:
    """One run of the cockpit, from its first paint to what becomes of the engine."""

    def __init__(
        self,
        options: Options,
        args: argparse.Namespace,
        beside: Sequence[str] | None = None,
    ) -> None:
        """`beside`: ids of further sessions, whose results are shown together; None:
        this was not chosen in the list of sessions."""
        from autoexp_tui.cockpit.keymap import Keymap

        self.way: LeaveWay | None = None
        """How the person left."""
        self._beside = beside
        self._options = options
        self._args = args
        self._failure: BaseException | None = None
        """What went wrong while the plan or session was opened."""
        self._changes: Mapping[str, Any] | None = None
        self._entry = opening.SessionOpener(options)
        session = opening.find_session(options) if options.session else None
        self._session: SessionDir | None = session
        self._is_planning = session is None and not options.manifest
        self._looks = args.read_only or bool(session and session.find_user())
        may_run = not (self._looks or args.replay)
        self._shown = _build_options(options, args, commands=may_run)
        self._keymap = self._shown.keymap or Keymap()
        self._own_keymap = self._keymap
        """The keys without the commands of a config."""

    def run(self) -> int:
        """Show it until the person leaves, the terminal goes, or the screen fails."""
        from autoexp_tui.cockpit.terminal import restore_signals
        from autoexp_tui.storage.session_dir import SessionDir

        gc.disable()  # until it is open: nothing of what is loaded now is garbage
        handle = self._handle = self._make_handle()
        app = self._app = self._make_app(handle)
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, lambda *_: app.notify_terminal_lost())
        way = self.way = app.run(mouse=self._args.mouse)
        restore_signals()
        own = str(self._session.path) if self._session is not None else ""
        directory = handle.snapshot().engine.directory or own
        if directory and not (self._args.replay or self._beside is not None):
            SessionDir(Path(directory)).record_visit()
        if self._failure is None:
            return self._finish(app, handle, way)
        handle.close()
        raise self._failure

    def _make_handle(self) -> SessionHandle:
        from autoexp_tui.engine.session_handle import SessionHandle

        name = self._options.config_ref or self._options.session or "manifest"
        stays = self._session is not None and (self._args.replay or self._looks)
        return SessionHandle(
            self._open,
            None if stays else self._entry,
            name=name,
            doing=f"{'opening' if self._session else 'planning'} {name}",
            read_only=self._args.read_only or self._args.replay,
            on_failure=self._report_failure,
        )

    def _open(self) -> EngineHandle:
        """On its own thread: plan, or take up the session."""
        try:
            return self._open_now()
        finally:
            freeze_garbage()
            gc.enable()

    def _open_now(self) -> EngineHandle:
        session, args = self._session, self._args
        if session is None:
            plan, self._changes = opening.make_plan(self._options)
            if self._is_planning and not args.read_only:
                self._keymap = self._add_commands(plan)
            if args.submit:
                opening.confirm(plan, self._options, asks=False)
            handle = opening.open_plan(plan, self._options)
            handle.read_only = args.read_only
            if args.submit:
                from autoexp_tui.model.commands import Submit

                handle.send(Submit())
            return handle
        if args.replay:
            return opening.open_replay(session, speed=parse_speed(args.speed))
        if self._beside is not None:  # of the one that is first no more is seen either
            return self._view_first((self._options.session, *self._beside))
        session.record_visit()  # should the screen be killed, it was seen until now
        if self._looks:
            return self._entry.view(str(session.path), read_only=True)
        try:
            return self._entry.enter(str(session.path))
        except EnvironmentFailed as error:
            if error.passing:  # a disk that is full or read-only can be read
                look = f"autoexp-tui --session {name_session(session.path)} --read-only"
                error.hint = f"{error.hint} `{look}` shows it as it is.".strip()
            raise

    def _view(self, session_id: str) -> EngineHandle:
        """Watch a session; raises AutoexpError."""
        session = opening.find_session(self._options, session_id)
        return self._entry.view(str(session.path), read_only=True)

    def _view_first(self, ids: Sequence[str]) -> EngineHandle:
        """The first of some sessions that can be read; raises what the first one does
        where none can."""
        problems: list[AutoexpError] = []
        for one in ids:
            try:
                handle = self._view(one)
            except AutoexpError as problem:
                problems.append(problem)
                self._app.context.model.left_out[one] = str(problem)
            else:
                return handle
        raise problems[0]

    def _add_commands(self, plan: Plan) -> Keymap:
        """The keys with the commands of the config that was just planned: those of a
        plan that was found stored are nobody's wish; raises UsageError."""
        from autoexp_tui.cockpit.settings import read_own_commands

        own = read_own_commands(plan.ui.get("commands") or (), "ui.commands")
        return self._own_keymap.add(own, "ui.commands")

    def _report_failure(self, error: BaseException) -> None:
        """Lead to the place of what is wrong with a config; of anything else, end."""

        has_fault = self._is_planning and isinstance(error, AutoexpError)
        if not (has_fault and self._handle.is_open):
            self._failure = error
        while not self._app.is_running:
            time.sleep(0.02)
        if has_fault and isinstance(error, AutoexpError):
            own = Problem(error.problem, where=error.where, hint=error.hint)
            faults = getattr(error, "problems", ()) or (own,)
            self._app.call_from_thread(self._app.show_faults, faults)
        else:
            self._app.call_from_thread(self._app.leave)

    def _read_changes(self) -> PlanChanges | None:
        from autoexp_tui.cockpit.render.plan_findings import PlanChanges

        return PlanChanges(**self._changes) if self._changes else None

    def _list_sessions(self) -> Sequence[SessionBrief]:
        from autoexp_tui.storage.sessions import list_sessions

        return list_sessions(*opening.list_places(self._options))

    def _plan_again(self) -> None:
        self._failure = None
        self._handle.start()

    def _make_app(self, handle: SessionHandle) -> CockpitApp:
        from autoexp_tui.cockpit.app import CockpitApp

        session, plans = self._session, self._is_planning
        come_back = "autoexp-tui --session ID comes back"
        seen = None
        if session is not None:
            come_back = f"autoexp-tui --session {name_session(session.path)}"
            looks = self._args.replay or self._beside is not None
            seen = None if looks else session.read_last_visit()
        options = replace(
            self._shown,
            read_keymap=lambda: self._keymap,
            come_back=come_back,
            away_since=seen,
            replay=self._args.replay,
            list_sessions=self._list_sessions,
            view_session=self._view,
            beside=self._beside,
            changes=self._read_changes if plans else None,
            replan=self._plan_again if plans else None,
            **{name: _load_later(place) for name, place in _LATER.items()},
        )
        # Opened after the first paint: planning and pydantic would slow it down.
        return CockpitApp(handle, options=options, on_ready=handle.start)

    def _finish(self, app: CockpitApp, handle: SessionHandle, way: object) -> int:
        """The screen has ended: see that the engine goes on."""
        from autoexp_tui.cli import headless
        from autoexp_tui.cockpit.context import LeaveWay

        if way is LeaveWay.BACK:
            handle.close()
            return ExitCode.OK
        if way is LeaveWay.LOST:
            headless.release_terminal()  # before anything is said: nobody hears it
        if app.fault is not None:
            _tell_fault(app.fault, handle.snapshot().engine.log_file)
        if way is LeaveWay.LOST:  # the same process goes on, under the same lease
            plan = handle.snapshot().plan
            stops = plan is not None and plan.ui.get("on_hangup") == "stop"
            if not stops and handle.role == "live":
                return headless.watch_detached(handle)
            handle.close()
            return ExitCode.OK
        snapshot = headless.finish_orders(handle)
        rests = not snapshot.open or snapshot.engine.stopped
        code = ExitCode.OK if app.fault is None else ExitCode.INTERNAL
        if handle.role == "live" and snapshot.session and not rests:
            return self._hand_over(handle, code)
        if not handle.snapshot().session:
            handle.close()  # first: a session may still come into being
        if text := headless.format_farewell(handle.snapshot(), "autoexp-tui"):
            say(text)
        handle.close()
        return code

    def _hand_over(self, handle: SessionHandle, code: ExitCode) -> int:
        """Give the session to a background engine, at a commit boundary."""
        from autoexp_tui.cli.background import start_background
        from autoexp_tui.storage.session_dir import SessionDir

        engine = handle.snapshot().engine
        session = SessionDir(Path(engine.directory))
        try:
            handle.close(hand_over=True)
            start_background(session, self._options.approve, engine.epoch)
        except KeyboardInterrupt:
            say("What runs goes on. Should no engine have come up:")
            say(f"  autoexp-sessions restart {name_session(session.path)}")
            return ExitCode.INTERRUPTED
        come_back = f"autoexp-tui --session {name_session(session.path)}"
        say(f"The engine goes on. Come back: {come_back}")
        return code


def _tell_fault(fault: BaseException, log_file: str) -> None:
    from autoexp_tui.cli.assemble import log_fault

    text = "".join(traceback.format_exception(fault))
    if log_file:
        log_fault(Path(log_file), text)
        text = f"The traceback is in {log_file}"
    say(text)


entry = make_entry(main, __name__)
