"""The handle that a front end holds: opens a plan or a session off its thread, and
stays with it. Goes on with the session itself once its engine is gone, or at an order;
watches again when another engine has deposed its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from autoexp_tui.engine.handle import EngineHandle, ReplayMove, run_aside
from autoexp_tui.model.errors import AutoexpError, SessionOwned
from autoexp_tui.model.snapshot import EngineView, Role, Snapshot

if TYPE_CHECKING:
    from autoexp_tui.model.commands import Command
    from autoexp_tui.model.event import Recorded

HEIR_SECONDS = 20.0
"""How long an engine that left is given to bring up an heir of its own."""
AGAIN_SECONDS = 30.0
"""Between two tries to go on with a session that cannot be taken up."""
_STEP_SECONDS = 0.5


class SessionEntry(Protocol):
    """The ways into a session, by its directory."""

    def view(self, directory: str) -> EngineHandle:
        """Watch it; raises AutoexpError where it cannot be read."""

    def own(self, directory: str) -> EngineHandle:
        """Run it in this process; raises SessionOwned or AutoexpError."""


class SessionHandle(EngineHandle):
    """Passes everything on to the handle of the moment, once there is one."""

    def __init__(
        self,
        open_handle: Callable[[], EngineHandle],
        entry: SessionEntry | None = None,
        *,
        name: str = "",
        doing: str = "",
        read_only: bool = False,
        on_failure: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        """`entry` leads into the session again; None: what was opened is kept. `name`
        and `doing` are shown until it is open. `on_failure` takes what `open_handle`
        raised, on the thread of `start`."""
        super().__init__()
        self._open = open_handle
        self._entry = entry
        self._on_failure = on_failure
        self._read_only = read_only
        self._nothing = self._handle = EngineHandle()
        self._doing = doing
        view = EngineView(role="plan", doing=doing)
        self._nothing.publish(Snapshot(name=name, engine=view))
        self._opening = False
        """Whether something is being opened, in place of what was opened before too."""
        self._open_thread: threading.Thread | None = None
        self._send_lock = threading.Lock()
        self._problem = ""
        self._order_id = ""
        """Of the last command that was left in the inbox."""
        self._closed = threading.Event()
        self._changed = threading.Event()
        self._swap_lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether something was opened."""
        return self._handle is not self._nothing

    def start(self) -> None:
        """Begin to open, off the caller's thread; again, after it failed. A plan that
        nobody submitted is opened anew."""
        if self._open_thread is None or not self._open_thread.is_alive():
            self._opening = True
            self._open_thread = run_aside(self._open_anew, "open")
            self._publish()

    def _open_anew(self) -> None:
        try:
            handle = self._open()
        except Exception as error:  # noqa: BLE001 - handed to whoever asked to open
            self._opening = False
            self._publish()
            self._on_failure(error)
        else:
            self._take_over(handle)

    def open_now(self) -> None:
        """Open on the caller's thread; raises AutoexpError where it cannot be."""
        self._take_over(self._open())

    def _take_over(self, handle: EngineHandle) -> None:
        """Put what was opened in place, unless the plan before it was submitted."""
        with self._send_lock:
            self._opening = False
            before = self._handle
            if before.role == "plan":
                self._handle = handle
        if self._handle is not handle:
            handle.close()
            return
        self._listen(handle)
        before.close()
        if before is self._nothing and self._entry is not None:
            run_aside(self._follow, "session")

    @property
    def role(self) -> Role:
        return self._handle.role

    @property
    def read_only(self) -> bool:
        return self._handle.read_only if self.is_open else self._read_only

    @property
    def is_unanswered(self) -> bool:
        return self._handle.is_unanswered

    def play(self, move: ReplayMove, value: float = 0.0) -> None:
        self._handle.play(move, value)

    def snapshot(self) -> Snapshot:
        return self._annotate(self._handle.snapshot())

    def earlier(self, seq: int, count: int) -> Sequence[Recorded]:
        return self._handle.earlier(seq, count)

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """Pass a command on; before something is open it is not taken."""
        with self._send_lock:  # what is submitted is not replaced by another plan
            handle = self._handle
            command_id = handle.send(command, by=by, expected=expected)
        if handle.role == "viewer":
            self._order_id = command_id
            self._changed.set()
        return command_id

    def close(self, *, hand_over: bool = False) -> None:
        self._closed.set()
        self._changed.set()
        with self._swap_lock:
            self._handle.close(hand_over=hand_over)

    def _listen(self, handle: EngineHandle) -> None:
        def hear(snapshot: Snapshot) -> None:
            if handle is self._handle:
                self._pass_on(snapshot)

        handle.subscribe(hear)
        self._pass_on(handle.snapshot())

    def _pass_on(self, snapshot: Snapshot) -> None:
        if self._entry is None or not is_deposed(snapshot):  # else the next tells more
            self._publish(snapshot)
        self._changed.set()

    def _publish(self, snapshot: Snapshot | None = None) -> None:
        """Tell the listeners; None: of a change of what is added to a snapshot."""
        if not self.is_open:
            return
        annotated = self._annotate(snapshot or self._handle.snapshot())
        for listener in tuple(self._listeners):
            listener(annotated)

    def _annotate(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot, with what is being done, and what hinders it."""
        view = snapshot.engine
        if self._opening and view.role == "plan":
            view = replace(view, doing=self._doing)
        if self._problem:
            view = replace(view, holding=self._problem)
        return snapshot if view is snapshot.engine else replace(snapshot, engine=view)

    def _follow(self) -> None:
        """Stay with the session, whoever runs it."""
        entry = self._entry
        while entry is not None:
            self._changed.wait()
            self._changed.clear()
            if self._closed.is_set():
                return
            snapshot = self._handle.snapshot()
            if is_deposed(snapshot):
                self._swap(entry, entry.view, snapshot)
            elif self._lacks_engine(snapshot):
                self._inherit(entry, snapshot)

    def _lacks_engine(self, snapshot: Snapshot) -> bool:
        """Whether the session's work, or an order from here, has nobody to do it."""
        return is_orphaned(snapshot) or (
            bool(self._order_id)
            and is_without_owner(snapshot)
            and all(one.command_id != self._order_id for one in snapshot.events)
        )

    def _inherit(self, entry: SessionEntry, snapshot: Snapshot) -> None:
        """Go on with the session; an heir of the engine that left comes first."""
        has_heir, slept = snapshot.engine.stopped and is_orphaned(snapshot), 0.0
        while has_heir and slept < HEIR_SECONDS:
            slept += _STEP_SECONDS
            closed = self._closed.wait(_STEP_SECONDS)
            if closed or not self._lacks_engine(self.snapshot()):
                return
        if not self._swap(entry, entry.own, snapshot):
            self._closed.wait(AGAIN_SECONDS if self._problem else _STEP_SECONDS)
            self._changed.set()

    def _swap(
        self,
        entry: SessionEntry,
        enter: Callable[[str], EngineHandle],
        snapshot: Snapshot,
    ) -> bool:
        """Another handle in the place of this one: by one of the ways in, else the view
        again, else what there was. False when it is still a view."""
        with self._swap_lock:
            if self._closed.is_set():
                return True
            # Its thread must have ended: both look at the lease with the same eyes.
            self._handle.close()
            self._problem, handle = "", self._handle
            for way, said in (
                (enter, "cannot go on with this session: "),
                (entry.view, ""),
            ):
                try:
                    handle = way(snapshot.engine.directory)
                    break
                except SessionOwned:
                    continue
                except AutoexpError as problem:
                    self._problem = f"{said}{problem.line}"
            self._handle = handle
        self._listen(handle)
        return not self._lacks_engine(handle.snapshot())


def is_deposed(snapshot: Snapshot) -> bool:
    """Whether the engine of this process has ended because another has the session."""
    engine = snapshot.engine
    return engine.role == "live" and engine.stopped and not engine.owner_alive


def is_orphaned(snapshot: Snapshot) -> bool:
    """Whether a session that is watched needs an engine and has none."""
    wanted = snapshot.open and not is_at_rest(snapshot)
    return is_without_owner(snapshot) and wanted


def is_without_owner(snapshot: Snapshot) -> bool:
    """Whether a session that is watched has no engine."""
    return snapshot.engine.role == "viewer" and not snapshot.engine.owner_alive


def is_at_rest(snapshot: Snapshot) -> bool:
    """Whether somebody told the engine to stop: nobody goes on by themselves then."""
    from autoexp_tui.events.events import EngineStopped

    if not snapshot.engine.stopped:
        return False
    for record in reversed(snapshot.events):
        if isinstance(record.event, EngineStopped):
            return record.event.on_request
    return False
