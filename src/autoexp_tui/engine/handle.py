"""What a front end holds: snapshots in, commands out. The UI knows nothing else."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from autoexp_tui.model.commands import Command, Order, Sender
    from autoexp_tui.model.event import Recorded
    from autoexp_tui.model.snapshot import Role, Snapshot

Listener: TypeAlias = "Callable[[Snapshot], None]"
ReadEarlier: TypeAlias = "Callable[[str, int, int], Sequence[Recorded]]"
"""(a session's directory, a seq, a count) -> so many records before that seq."""
Identify: TypeAlias = "Callable[[], Sender | None]"
"""Tells which process this is, for commands that are signed."""


ReplayMove: TypeAlias = Literal["toggle", "speed", "step", "jump"]


class EngineHandle:
    """A running, watched or replayed engine. All but `earlier` returns at once."""

    def __init__(
        self, earlier: ReadEarlier | None = None, identify: Identify | None = None
    ) -> None:
        """`earlier`: reads older records; `identify`: None for who need not say it."""
        self._earlier = earlier
        self._identify = identify
        self._listeners: list[Listener] = []
        self._snapshot: Snapshot | None = None

    @property
    def role(self) -> Role:
        return "plan"

    @property
    def read_only(self) -> bool:
        return False

    @property
    def is_unanswered(self) -> bool:
        """Whether an order to an engine of this process is in no snapshot yet."""
        return False

    def play(self, move: ReplayMove, value: float = 0.0) -> None:
        """Move a replay: `toggle` plays it, from the beginning at its end, or lets it
        stand; `speed` plays `value` times as fast as now; `step` goes on by so many
        commits and stands; `jump` shows the moment `value` (UTC seconds). Where it
        stands then is in the `playback` of the snapshots that follow."""

    def snapshot(self) -> Snapshot:
        assert self._snapshot is not None, "an engine publishes before anybody asks"
        return self._snapshot

    def earlier(self, seq: int, count: int) -> Sequence[Recorded]:
        """The newest `count` records before record `seq`, oldest first; slow; raises
        AutoexpError."""
        if self._earlier is None:
            return ()
        return self._earlier(self.snapshot().engine.directory, seq, count)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` on each new snapshot, at most 10 a second, from the engine's
        thread."""
        self._listeners.append(listener)

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """Queue a command; returns its id, empty where nothing takes any. `expected`
        maps jobs to numbers of attempts that the person saw: an order that is stale is
        refused."""
        order = self._make_order(command, by, expected)
        return order.command_id if self._give(order) else ""

    def _give(self, order: Order) -> bool:
        """Pass an order on, if there is somebody to take it."""
        return False

    def close(self, *, hand_over: bool = False) -> None:
        """Detach. A live engine of this process ends; `hand_over`: an heir goes on."""

    def publish(self, snapshot: Snapshot) -> None:
        """Pass a snapshot on, on the thread that made it."""
        self._snapshot = snapshot
        for listener in self._listeners:
            listener(snapshot)

    def _make_order(
        self, command: Command, by: str, expected: Mapping[str, int] | None
    ) -> Order:
        from autoexp_tui.model.commands import Order, is_signed

        identify = self._identify if is_signed(command) else None
        return Order(
            command_id=make_command_id(),
            command=command,
            by=by,
            seen_seq=self._snapshot.seq if self._snapshot else 0,
            expected=dict(expected or {}),
            sender=identify() if identify else None,
        )


def run_aside(call: Callable[[], None], name: str) -> threading.Thread:
    """Have it done on a thread of its own, which no end of the process waits for."""
    thread = threading.Thread(target=call, name=name, daemon=True)
    thread.start()
    return thread


def make_command_id() -> str:
    """An id that no other command has."""
    return "c" + secrets.token_hex(8)
