"""A session on disk: its journal, who may write it, its letterbox, and its watchers.

How its calls are made: see `ports`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from autoexp_tui.events.events import JournalRotated
from autoexp_tui.model.commands import Order
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.snapshot import EngineView, Live
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState


class Journal(Protocol):
    """The durable order of events. One writer."""

    def append(self, records: Sequence[Recorded]) -> None:
        """Write the records and sync once.

        Raises:
            EnvironmentFailed: nothing of this call counts; the same records may be
                tried again.
            SessionOwned: a successor has taken the session; nothing counts any more.
        """
        ...

    def rotation(self) -> JournalRotated | None:
        """What opens the next part, in a commit of its own; None: go on in this one."""
        ...

    def add_plan(self, plan: Plan) -> str:
        """Store a plan beside the journal, durable; returns its sha."""
        ...

    def close(self) -> None:
        """Release the file; appending ends."""
        ...


class Lease(Protocol):
    """The right to write one session."""

    epoch: int

    def heartbeat(self) -> bool:
        """Touch one's own file; False when a successor has taken the session."""
        ...

    def release(self) -> None:
        """Give it back so that a successor need not wait."""
        ...


class Inbox(Protocol):
    """Commands that other processes left for the session's engine."""

    def take(self) -> Sequence[Order]:
        """Commands since the last call, oldest first; rubbish is set aside."""
        ...

    def done(self, command_ids: Sequence[str]) -> None:
        """The commands' events are synced: forget them."""
        ...


class LiveSink(Protocol):
    """Volatile detail for viewers, written only while one is watching."""

    def publish(self, snapshot: object) -> None:
        """Write it if a viewer's heartbeat is fresh."""
        ...


class SessionWatcher(Protocol):
    """Another process's session as it grows; blocks."""

    def load(self) -> tuple[SessionState, Sequence[Recorded]]:
        """The session as its journal tells it now, and its newest records.

        Raises:
            AutoexpError: it cannot be read.
        """
        ...

    def news(self) -> Sequence[Recorded] | None:
        """Records since the last call, in order; survives rotation and take-over.

        None: what was read before does not all count; load the session anew.
        """
        ...

    def live(self) -> tuple[EngineView, Mapping[str, Live]] | None:
        """The owner's volatile detail, the same object while it has not moved.

        None while the owner writes none.
        """
        ...

    def owner_alive(self) -> bool:
        """Whether an engine owns the session just now."""
        ...

    def halted_pid(self) -> int:
        """The engine's process on this host, when the last `owner_alive` found it
        stopped by Ctrl-Z or SIGSTOP: alive, and answering nothing; else 0."""
        ...

    def leave(self, order: Order) -> None:
        """Put a command into the session's inbox.

        Raises:
            EnvironmentFailed: it could not be written.
        """
        ...

    def beat(self) -> None:
        """Show the owner that somebody watches."""
        ...

    def close(self) -> None:
        """Stop watching."""
        ...
