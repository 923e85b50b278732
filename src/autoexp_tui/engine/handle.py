"""What a front end holds: snapshots in, commands out. The UI knows nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from autoexp_tui.core.commands import Command
    from autoexp_tui.core.snapshot import Role, Snapshot


class EngineHandle(Protocol):
    """A running, watched or replayed engine. All methods return at once."""

    @property
    def role(self) -> Role:
        """What this is a handle on."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it takes no commands."""
        ...

    def snapshot(self) -> Snapshot:
        """The newest published state."""
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

    def close(self) -> None:
        """Detach. A live engine of this process ends at a commit boundary."""
        ...
