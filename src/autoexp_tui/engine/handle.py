"""What a front end holds: snapshots in, commands out. The UI knows nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from autoexp_tui.events.events import Recorded
    from autoexp_tui.model.commands import Command
    from autoexp_tui.model.snapshot import Role, Snapshot


class Player(Protocol):
    """Moves a replay through its journal. All methods return at once.

    Where it stands then is in the `playback` of the snapshots that follow.
    """

    def toggle(self) -> None:
        """Play, or stand still; at the end, play from the beginning."""
        ...

    def pace(self, factor: float) -> None:
        """Play `factor` times as fast as now, within what there is."""
        ...

    def step(self, commits: int) -> None:
        """Go on by so many commits, back when negative, and stand still."""
        ...

    def jump(self, t: float) -> None:
        """Show the moment `t` (UTC seconds), or the nearest that there is."""
        ...


class EngineHandle(Protocol):
    """A running, watched or replayed engine. All methods return at once but one."""

    @property
    def role(self) -> Role:
        """What this is a handle on."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it takes no commands."""
        ...

    @property
    def unanswered(self) -> bool:
        """Whether an order was sent to an engine of this process that no snapshot
        tells of yet.

        Once it is False, `snapshot` tells of all that was sent before.
        """
        ...

    @property
    def player(self) -> Player | None:
        """What moves a replay; None for what is none."""
        ...

    def snapshot(self) -> Snapshot:
        """The newest published state."""
        ...

    def earlier(self, seq: int, count: int) -> Sequence[Recorded]:
        """The newest `count` records before record `seq`, oldest first.

        Reads the journal: slow, to be called off the screen's thread.

        Raises:
            AutoexpError: the journal cannot be read.
        """
        ...

    def subscribe(self, listener: Callable[[Snapshot], None]) -> None:
        """Call `listener` on each new snapshot, at most 10 a second.

        Called from the engine's thread; the listener must only pass it on.
        """
        ...

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """Queue a command; returns its id. What came of it is in later events.

        `expected` maps jobs to the number of attempts the person saw: an order that
        names it is refused when it is stale.
        """
        ...

    def look_at(self, jobs: Sequence[str]) -> None:
        """Somebody looks at these jobs: what is not held of them is read again.

        It comes with later snapshots, where the engine is of this process.
        """
        ...

    def close(self, *, hand_over: bool = False) -> None:
        """Detach. A live engine of this process ends at a commit boundary.

        `hand_over`: an heir goes on with the session at once; its journal says so.
        """
        ...
