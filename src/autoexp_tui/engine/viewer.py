"""The handle on a session that another process runs: folds its journal, never decides.
Commands go through the session's inbox."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autoexp_tui.engine.handle import EngineHandle, Identify, ReadEarlier
from autoexp_tui.engine.ports import Clock, SessionWatcher
from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.model.commands import Command
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.event import Recorded, apply
from autoexp_tui.model.snapshot import EngineView, Live, Role, Snapshot
from autoexp_tui.model.state import SessionState

POLL_SECONDS = 0.5
"""Between two looks at the session's journal."""
INBOX_SECONDS = 10.0
"""How long who leaves waits for a command that is being written into the inbox."""


class FoldedSession:
    """A session's state as far as it was read, and what snapshots of it share."""

    def __init__(self, state: SessionState, newest: Sequence[Recorded] = ()) -> None:
        self.state = state
        self.builder = SnapshotBuilder()
        self.builder.note(newest)

    def fold(self, records: Sequence[Recorded]) -> None:
        """Take in further records."""
        for record in records:
            apply(self.state, record)
        self.builder.note(records)


class ViewerHandle(EngineHandle):
    """Watches a session and commands it through its inbox."""

    role: Role = "viewer"
    read_only = False

    def __init__(
        self,
        watcher: SessionWatcher,
        clock: Clock,
        *,
        read_only: bool = False,
        log_fault: Callable[[str], None] = lambda _text: None,
        earlier: ReadEarlier | None = None,
        directory: str = "",
        identify: Identify | None = None,
        user: str = "",
    ) -> None:
        """`user`: the other user whose it is; raises AutoexpError."""
        super().__init__(earlier, identify)
        self.read_only = read_only
        self._directory = directory
        self._user = user
        self._watcher = watcher
        self._clock = clock
        self._log_fault = log_fault
        self._session = FoldedSession(*watcher.load())
        self._stop = threading.Event()
        self._problem = ""
        self._writers: list[threading.Thread] = []
        """Of commands on their way into the inbox."""
        self._detail = watcher.live()
        self._snapshot: Snapshot = self._build_snapshot()
        self._thread = threading.Thread(target=self._run, name="viewer", daemon=True)
        self._thread.start()

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """Leave a command in the inbox, off the caller's thread."""
        order = self._make_order(command, by, expected)

        def leave() -> None:
            try:
                self._watcher.leave(order)
            except AutoexpError as error:
                self._show_problem(f"the command was not sent: {error}")

        thread = threading.Thread(target=leave, daemon=True)
        self._writers = [*(one for one in self._writers if one.is_alive()), thread]
        thread.start()
        return order.command_id

    def send_now(self, command: Command, *, by: str) -> str:
        """Leave a command in the inbox at once; raises EnvironmentFailed."""
        order = self._make_order(command, by, None)
        self._watcher.leave(order)
        return order.command_id

    def close(self, *, hand_over: bool = False) -> None:
        """Stop watching, with all that was sent in the inbox; the session goes on."""
        del hand_over  # it runs no engine
        for thread in self._writers:
            thread.join(INBOX_SECONDS)
        self._stop.set()
        self._thread.join(2 * POLL_SECONDS)
        self._watcher.close()

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            try:
                self._look()
            except (AutoexpError, OSError) as problem:
                self._show_problem(str(problem))
            except Exception:  # noqa: BLE001 - a thread's last frame: keep and show
                self._log_fault(traceback.format_exc())
                self._show_problem("this view failed; see the log")

    def _look(self) -> None:
        self._watcher.beat()
        records = self._watcher.news()
        detail = self._watcher.live()
        if records is None:
            self._session = FoldedSession(*self._watcher.load())
        else:
            self._session.fold(records)
        moved = records is None or bool(records) or detail is not self._detail
        self._detail, shown = detail, self._snapshot.engine
        owner = (self._watcher.owner_alive(), self._watcher.halted_pid())
        if moved or owner != (shown.owner_alive, shown.halted_pid):
            self.publish(self._build_snapshot())

    def _show_problem(self, problem: str) -> None:
        self._problem = problem
        self.publish(self._build_snapshot())

    def _build_snapshot(self) -> Snapshot:
        view, live = self._detail or (EngineView(role="viewer"), dict[str, Live]())
        state = self._session.state
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
        snapshot = self._session.builder.build_snapshot(state, view, live)
        return replace(snapshot, t=float(state.present(self._clock.utc())))
