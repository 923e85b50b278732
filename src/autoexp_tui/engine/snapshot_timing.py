"""When a front end gets a new snapshot, and what of it is volatile.

At most ten a second, and none while nothing changed that anybody could see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from autoexp_tui.engine.ephemeral_state import Volatile
from autoexp_tui.engine.health import Health
from autoexp_tui.engine.session_ports import LiveSink
from autoexp_tui.engine.snapshot_publisher import Publisher
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.events.events import Recorded
from autoexp_tui.model.snapshot import EngineView, Live, Snapshot
from autoexp_tui.model.state import JobRecord, SessionState

PUBLISH_SECONDS = 0.1
"""At most ten snapshots a second."""
AGE_SECONDS = 5.0
"""How often the age of the executor's answer is shown anew while something runs."""


class Showing:
    """Makes snapshots and hands them out."""

    def __init__(
        self,
        state: SessionState,
        volatile: Volatile,
        telemetry: Telemetry,
        health: Health,
        live_sink: LiveSink,
        on_snapshot: Callable[[Snapshot], None],
    ) -> None:
        self.snapshot: Snapshot | None = None
        """The newest one."""
        self.dirty = True
        """Something changed since."""
        self._state = state
        self._volatile = volatile
        self._telemetry = telemetry
        self._health = health
        self._live_sink = live_sink
        self._on_snapshot = on_snapshot
        self._publisher = Publisher()
        self._published_at = float("-inf")
        self._shown_error = ""
        self._live: dict[str, Live] = {}

    @property
    def due_at(self) -> float:
        """The earliest time of the next snapshot, monotonic."""
        return self._published_at + PUBLISH_SECONDS

    def restart(self) -> None:
        """What is volatile is made anew."""
        self._live = {}

    def note(
        self, records: Sequence[Recorded], jobs: Iterable[str] | None = None
    ) -> None:
        """Events became true. `jobs`: all that they changed; None: not known."""
        self._publisher.note(records, jobs)

    def note_moves(self, now: float) -> None:
        """Look whether a front end would see a difference although no event came."""
        news = (
            bool(self._volatile.reworded)
            or self._telemetry.moved
            or self._health.error != self._shown_error
        )
        stale = now - self._published_at >= AGE_SECONDS
        running = bool(self._volatile.roster.active)
        self.dirty = self.dirty or news or (stale and running)

    def is_due(self, now: float, *, at_once: bool) -> bool:
        """Whether to make a snapshot; `at_once`: however fresh the last one is."""
        return self.dirty and (at_once or now >= self.due_at)

    def show(self, view: EngineView, now: float) -> None:
        """Make a snapshot and hand it out."""
        self.dirty = False
        self._published_at = now
        self._shown_error = self._health.error
        moved = self._refresh_live()
        self.snapshot = self._publisher.snapshot(
            self._state, view, self._live, live_changed=bool(moved), moved=moved
        )
        self._live_sink.publish(self.snapshot)
        self._on_snapshot(self.snapshot)

    def _refresh_live(self) -> set[str]:
        """Make the volatile side anew of the jobs that moved; which those are."""
        changed = self._volatile.reworded | self._telemetry.take_changed()
        self._volatile.reworded = set()
        for name in changed:
            job = self._state.jobs.get(name)
            if job is not None:
                self._live[name] = self._live_of(job)
        return changed

    def _live_of(self, job: JobRecord) -> Live:
        name, verdicts = job.name, self._volatile.verdicts
        newest = [verdicts.get((name, "start", i)) for i in range(len(job.start))]
        queue = self._health.queue.get(name)
        return self._telemetry.view(name, tuple(newest), queue)
