"""The handle of whoever stays with a session, whichever engine runs it.

Watches another process's engine and goes on with the session itself once that is gone;
where nothing is left to do, once somebody orders something. Watches again when another
engine has deposed its own. Whether the session is free is the lease's business: of
several that try, one succeeds, and the rest watch on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from autoexp_tui.events.events import EngineStopped
from autoexp_tui.model.errors import AutoexpError, SessionOwned
from autoexp_tui.model.snapshot import Role, Snapshot

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle, Player
    from autoexp_tui.events.events import Recorded
    from autoexp_tui.model.commands import Command

HEIR_SECONDS = 20.0
"""How long an engine that left is given to bring up an heir of its own."""
AGAIN_SECONDS = 30.0
"""Between two tries to go on with a session that cannot be taken up."""
_STEP_SECONDS = 0.5


class Session(Protocol):
    """The ways into a session, by its directory."""

    def view(self, directory: str) -> EngineHandle:
        """Watch it.

        Raises:
            AutoexpError: it cannot be read.
        """
        ...

    def own(self, directory: str) -> EngineHandle:
        """Run it in this process.

        Raises:
            SessionOwned: another engine lives, or may.
            AutoexpError: it cannot be taken up.
        """
        ...


class JoinedHandle:
    """Stays with a session; passes everything on to the handle of the moment."""

    def __init__(
        self,
        first: EngineHandle,
        session: Session,
        *,
        heir_seconds: float = HEIR_SECONDS,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        self._handle = first
        self._session = session
        self._heir_seconds = heir_seconds
        self._again_seconds = again_seconds
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._problem = ""
        self._ordered = ""
        """The id of the last command that was left in the inbox."""
        self._closed = threading.Event()
        self._changed = threading.Event()
        self._changed.set()
        self._lock = threading.Lock()
        self._listen(first)
        self._thread = threading.Thread(target=self._run, name="joined", daemon=True)
        self._thread.start()

    # ---------------------------------------------------------------------- handle
    @property
    def role(self) -> Role:
        """Of the handle of the moment."""
        return self._handle.role

    @property
    def read_only(self) -> bool:
        """Whether it takes no commands."""
        return self._handle.read_only

    @property
    def unanswered(self) -> bool:
        """Of the handle of the moment."""
        return self._handle.unanswered

    @property
    def player(self) -> Player | None:
        """Nothing is replayed."""
        return None

    def snapshot(self) -> Snapshot:
        """The newest state."""
        return self._worded(self._handle.snapshot())

    def earlier(self, seq: int, count: int) -> Sequence[Recorded]:
        """The newest `count` records before record `seq`, from the journal."""
        return self._handle.earlier(seq, count)

    def subscribe(self, listener: Callable[[Snapshot], None]) -> None:
        """Call `listener` on each new snapshot."""
        self._listeners.append(listener)

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """Pass a command on; between two handles it is left in the inbox."""
        handle = self._handle
        sent = handle.send(command, by=by, expected=expected)
        if handle.role == "viewer":
            self._ordered = sent
            self._changed.set()
        return sent

    def look_at(self, jobs: Sequence[str]) -> None:
        """Pass on what is looked at."""
        self._handle.look_at(jobs)

    def close(self, *, hand_over: bool = False) -> None:
        """Detach; an engine of this process ends at a commit boundary."""
        self._closed.set()
        self._changed.set()
        with self._lock:
            self._handle.close(hand_over=hand_over)

    # ------------------------------------------------------------------ the thread
    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._closed.is_set():
                return
            snapshot = self._handle.snapshot()
            if is_deposed(snapshot):
                self._swap(self._session.view, snapshot)
            elif self._lacks_engine(snapshot):
                self._inherit(snapshot)

    def _lacks_engine(self, snapshot: Snapshot) -> bool:
        """Whether the session's work, or an order from here, has nobody to do it."""
        return is_orphaned(snapshot) or (
            bool(self._ordered)
            and is_without_owner(snapshot)
            and all(one.command_id != self._ordered for one in snapshot.events)
        )

    def _inherit(self, snapshot: Snapshot) -> None:
        """Go on with the session; an heir of the one that left comes first."""
        heir_due = snapshot.engine.stopped and is_orphaned(snapshot)
        if heir_due and self._heir_comes():
            return
        if not self._swap(self._session.own, snapshot):
            self._closed.wait(self._again_seconds if self._problem else _STEP_SECONDS)
            self._changed.set()

    def _heir_comes(self) -> bool:
        """Whether another engine came up in the time that an heir has for it."""
        slept = 0.0
        while slept < self._heir_seconds and not self._closed.wait(_STEP_SECONDS):
            slept += _STEP_SECONDS
            if not self._lacks_engine(self._handle.snapshot()):
                return True
        return self._closed.is_set()

    def _swap(self, enter: Callable[[str], EngineHandle], snapshot: Snapshot) -> bool:
        """Another handle in the place of this one; False when it is still a view."""
        with self._lock:
            if self._closed.is_set():
                return True
            # Its thread must have ended: both look at the lease with the same eyes.
            self._handle.close()
            self._handle = self._entered(enter, snapshot.engine.directory)
        self._listen(self._handle)
        self._pass_on(self._handle.snapshot())
        return not self._lacks_engine(self._handle.snapshot())

    def _entered(
        self, enter: Callable[[str], EngineHandle], directory: str
    ) -> EngineHandle:
        try:
            entered = enter(directory)
        except SessionOwned:
            self._problem = ""
        except AutoexpError as problem:
            self._problem = f"cannot go on with this session: {problem.line}"
        else:
            self._problem = ""
            return entered
        return self._seen_again(directory)

    def _seen_again(self, directory: str) -> EngineHandle:
        """The view again, or what there was when not even that can be had."""
        try:
            return self._session.view(directory)
        except AutoexpError as problem:
            self._problem = problem.line
            return self._handle

    def _listen(self, handle: EngineHandle) -> None:
        def heard(snapshot: Snapshot) -> None:
            if handle is self._handle:
                self._pass_on(snapshot)

        handle.subscribe(heard)

    def _pass_on(self, snapshot: Snapshot) -> None:
        if not is_deposed(snapshot):  # what comes next tells more
            told = self._worded(snapshot)
            for listener in self._listeners:
                listener(told)
        self._changed.set()

    def _worded(self, snapshot: Snapshot) -> Snapshot:
        if not self._problem:
            return snapshot
        view = replace(snapshot.engine, holding=self._problem)
        return replace(snapshot, engine=view)


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
    if not snapshot.engine.stopped:
        return False
    for record in reversed(snapshot.events):
        if isinstance(record.event, EngineStopped):
            return record.event.on_request
    return False
