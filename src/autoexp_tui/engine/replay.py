"""The handle on a journal that was: folds its events in their own time, or faster.

Policy never runs again; what was decided then is shown as it was decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoexp_tui.core.commands import Command
from autoexp_tui.core.events import Recorded
from autoexp_tui.core.snapshot import EngineView, Role, Snapshot
from autoexp_tui.core.specs import Plan
from autoexp_tui.core.state import SessionState
from autoexp_tui.engine.live import Listener
from autoexp_tui.engine.viewer import Folded


class ReplayHandle:
    """Shows a session as of any moment of its journal."""

    role: Role = "replay"
    read_only = True

    def __init__(self, records: Sequence[Recorded], plans: Mapping[str, Plan]) -> None:
        """Stand at the end of `records`; `plans` by the sha that they name."""
        self._records = list(records)
        self._plans = plans
        self._listeners: list[Listener] = []
        self._at = 0
        self._folded = Folded(SessionState(plans=plans))
        self.seek(len(self._records))

    def __len__(self) -> int:
        return len(self._records)

    @property
    def position(self) -> int:
        """How many records are folded."""
        return self._at

    def seek(self, position: int) -> None:
        """Stand after the first `position` records; back means folding again."""
        position = max(0, min(position, len(self._records)))
        if position < self._at:
            self._start()
        self._folded.take(self._records[self._at : position])
        self._at = position
        self._publish()

    def _start(self) -> None:
        self._folded, self._at = Folded(SessionState(plans=self._plans)), 0

    def advance_to(self, t: float) -> None:
        """Fold on up to the moment `t` (UTC seconds)."""
        position = self._at
        while position < len(self._records) and self._records[position].t <= t:
            position += 1
        if position != self._at:
            self.seek(position)

    def snapshot(self) -> Snapshot:
        """The state at the present position."""
        return self._snapshot

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` on each move."""
        self._listeners.append(listener)

    def send(
        self,
        command: Command,
        *,
        by: str = "cockpit",
        expected: Mapping[str, int] | None = None,
    ) -> str:
        """What has happened takes no commands: nothing is sent."""
        del command, by, expected
        return ""

    def close(self) -> None:
        """Nothing to let go of."""

    def _publish(self) -> None:
        state = self._folded.state
        view = EngineView(role="replay", epoch=state.epoch, host=state.engine_host)
        self._snapshot = self._folded.publisher.snapshot(state, view, {})
        for listener in self._listeners:
            listener(self._snapshot)
