"""The handle on a session that another process runs: folds its journal, never decides.

Commands go through the session's inbox, so they are journaled by the one writer like
any other; what came of them arrives with its events.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autoexp_tui.engine.handle import Player
from autoexp_tui.engine.live import (
    Earlier,
    Identify,
    Listener,
    new_command_id,
    nobody,
    nothing_earlier,
)
from autoexp_tui.engine.ports import Clock
from autoexp_tui.engine.session_ports import SessionWatcher
from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.events.apply import apply
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.commands import Command, Order, is_personal
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.snapshot import EngineView, Live, Role, Snapshot
from autoexp_tui.model.state import SessionState

POLL_SECONDS = 0.5
"""Between two looks at the session's journal."""
INBOX_SECONDS = 10.0
"""How long who leaves waits for a command that is being written into the inbox."""


class Folded:
    """A session's state as far as it was read, and what snapshots of it share."""

    def __init__(self, state: SessionState, newest: Sequence[Recorded] = ()) -> None:
        self.state = state
        self.publisher = SnapshotBuilder()
        self.publisher.note(newest)

    def take(self, records: Sequence[Recorded]) -> None:
        """Fold further records."""
        for record in records:
            apply(self.state, record)
        self.publisher.note(records)


class ViewerHandle:
    """Watches a session and commands it through its inbox."""

    role: Role = "viewer"

    def __init__(
        self,
        watcher: SessionWatcher,
        clock: Clock,
        *,
        read_only: bool = False,
        log_fault: Callable[[str], None] = lambda _text: None,
        earlier: Earlier = nothing_earlier,
        directory: str = "",
        identify: Identify = nobody,
        user: str = "",
    ) -> None:
        """Read the session as it stands.

        Args:
            watcher: the session's files.
            clock: of this process.
            read_only: whether commands are refused.
            log_fault: keeps a traceback.
            earlier: reads older records.
            directory: where the session lies.
            identify: tells who this process is.
            user: the other user whose it is; empty: one's own.

        Raises:
            AutoexpError: it cannot be read.
        """
        self.read_only = read_only
        self.unanswered = False
        self.player: Player | None = None
        self._earlier = earlier
        self._directory = directory
        self._identify = identify
        self._user = user
        self._watcher = watcher
        self._clock = clock
        self._log_fault = log_fault
        self._folded = Folded(*watcher.load())
        self._listeners: list[Listener] = []
        self._stop = threading.Event()
        self._problem = ""
        self._leaving: list[threading.Thread] = []
        self._detail = watcher.live()
        self._snapshot = self._make()
        self._thread = threading.Thread(target=self._run, name="viewer", daemon=True)
        self._thread.start()

    def snapshot(self) -> Snapshot:
        """The newest folded state."""
        return self._snapshot

    def earlier(self, seq: int, count: int) -> Sequence[Recorded]:
        """The newest `count` records before record `seq`, from the journal."""
        return self._earlier(self._directory, seq, count)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` on each new snapshot, from the viewer's thread."""
        self._listeners.append(listener)

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """Leave a command in the inbox, off the caller's thread."""
        order = self._ordered(command, by, expected)
        thread = threading.Thread(target=self._leave, args=(order,), daemon=True)
        self._leaving = [*(one for one in self._leaving if one.is_alive()), thread]
        thread.start()
        return order.command_id

    def send_now(self, command: Command, *, by: str) -> str:
        """Leave a command in the inbox and return when it lies there.

        Raises:
            EnvironmentFailed: it could not be written.
        """
        order = self._ordered(command, by, None)
        self._watcher.leave(order)
        return order.command_id

    def _ordered(
        self, command: Command, by: str, expected: Mapping[str, int] | None
    ) -> Order:
        return Order(
            command_id=new_command_id(),
            command=command,
            by=by,
            seen_seq=self._snapshot.seq,
            expected=dict(expected or {}),
            sender=self._identify() if is_personal(command) else None,
        )

    def look_at(self, jobs: Sequence[str]) -> None:
        """The owner's detail is all that a viewer shows."""

    def close(self, *, hand_over: bool = False) -> None:
        """Stop watching, with all that was sent in the inbox; the session goes on."""
        del hand_over  # it runs no engine
        for thread in self._leaving:
            thread.join(INBOX_SECONDS)
        self._stop.set()
        self._thread.join(2 * POLL_SECONDS)
        self._watcher.close()

    def _leave(self, order: Order) -> None:
        try:
            self._watcher.leave(order)
        except AutoexpError as error:
            self._problem = f"the command was not sent: {error}"
            self._publish()

    # ----------------------------------------------------------------- the thread
    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            try:
                self._look()
            except (AutoexpError, OSError) as problem:
                self._problem = str(problem)
                self._publish()
            except Exception:  # noqa: BLE001 - a thread's last frame: keep and show
                self._log_fault(traceback.format_exc())
                self._problem = "this view failed; see the log"
                self._publish()

    def _look(self) -> None:
        self._watcher.beat()
        records = self._watcher.news()
        detail = self._watcher.live()
        if records is None:
            self._folded = Folded(*self._watcher.load())
        else:
            self._folded.take(records)
        moved = records is None or bool(records) or detail is not self._detail
        self._detail = detail
        if moved or self._alive_changed():
            self._publish()

    def _alive_changed(self) -> bool:
        shown = self._snapshot.engine
        now = (self._watcher.owner_alive(), self._watcher.halted_pid())
        return now != (shown.owner_alive, shown.halted_pid)

    def _publish(self) -> None:
        self._snapshot = self._make()
        for listener in self._listeners:
            listener(self._snapshot)

    def _make(self) -> Snapshot:
        view, live = self._detail or (EngineView(role="viewer"), dict[str, Live]())
        state = self._folded.state
        view = replace(
            view,
            role="viewer",
            epoch=state.epoch,
            host=state.engine_host,
            pid=state.engine_pid,
            stopped=state.engine_stopped,
            owner_alive=self._watcher.owner_alive(),
            halted_pid=self._watcher.halted_pid(),
            directory=self._directory or view.directory,
            user=self._user,
            holding=self._problem or view.holding,
        )
        snapshot = self._folded.publisher.snapshot(state, view, live)
        return replace(snapshot, t=float(state.present(self._clock.utc())))
