"""From state to snapshot, and when a front end gets a new one: at most ten a second,
and only what changed is made anew."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autoexp_tui.engine.ports import LiveSink
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.policy import list_open_ends
from autoexp_tui.model.resubmission import is_open
from autoexp_tui.model.snapshot import EngineView, Live, Snapshot
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState, fork_parts, list_newer

if TYPE_CHECKING:  # a viewer has snapshots, and no engine to load
    from autoexp_tui.engine.ephemeral_state import EphemeralState, Health
    from autoexp_tui.engine.telemetry import Telemetry

EVENT_TAIL = 2000
"""Events that a snapshot carries; older ones are in the journal."""
PUBLISH_SECONDS = 0.1
"""At most ten snapshots a second."""
AGE_SECONDS = 5.0
"""How often the age of the executor's answer is shown anew while something runs."""


@dataclass(slots=True)
class SnapshotBuilder:
    """Keeps what of the last snapshot still holds, so that the next one shares it."""

    tail: deque[Recorded] = field(default_factory=lambda: deque(maxlen=EVENT_TAIL))
    _shared: dict[str, Any] = field(default_factory=dict)
    """What follows from the state alone; empty once an event has changed it."""
    _live: tuple[Live | None, ...] = ()
    _rows: list[Live | None] = field(default_factory=list)
    """The same, as it is being changed."""
    _places: dict[str, int] = field(default_factory=dict)
    """Job -> its row. Jobs never leave a session."""

    def note(self, records: Sequence[Recorded]) -> None:
        self.tail.extend(records)
        if records:
            self._shared = {}

    def build_snapshot(
        self,
        state: SessionState,
        engine: EngineView,
        live: Mapping[str, Live],
        changed: Iterable[str] | None = None,
    ) -> Snapshot:
        """The state as of now; `live`: the volatile side of the jobs that have one;
        `changed`: whose may be another than at the last call, since when no job has
        gone; None: anybody's."""
        if not self._shared:
            jobs = tuple(state.jobs.values())
            pending = tuple(state.pending.values())
            ends = list_open_ends(state.parts)
            self._shared = {
                "jobs": jobs,
                "pending": pending,
                "warnings": tuple(state.warnings.values()),
                "events": tuple(self.tail),
                "parts": fork_parts(state.parts),
                "asks": dict(state.asks),
                "open": bool(ends) or is_open(jobs, pending, state.asks),
                "open_ends": ends,
            }
        if changed is None:
            self._rows, self._places = [], {}
        rows, places, known = self._rows, self._places, len(self._rows)
        for name in list_newer(state.jobs, known):
            places[name] = len(rows)
            rows.append(live.get(name))
        moved = len(rows) > known
        for name in changed or ():
            at, new = places[name], live.get(name)
            moved = moved or rows[at] != new
            rows[at] = new
        # While nothing moves the front ends keep what they made of it.
        if moved and (changed is not None or rows != [*self._live]):
            self._live = tuple(rows)
        return Snapshot(
            seq=state.seq,
            t=state.t,
            session=state.session,
            name=state.name,
            plan=state.plan or _NO_PLAN,
            asked=state.plans.get(state.asked),
            started_at=state.started_at,
            paused=state.paused,
            engine=engine,
            live=self._live,
            gaps=state.gaps,
            wall_ahead=state.wall_ahead,
            absent=state.t - state.lived,
            **self._shared,
        )


_NO_PLAN = Plan(plan_id="", name="", state_dir="", jobs=())


@dataclass(slots=True)
class SnapshotPublisher:
    state: SessionState
    ephemeral: EphemeralState
    telemetry: Telemetry
    health: Health
    live_sink: LiveSink
    on_snapshot: Callable[[Snapshot], None]
    dirty: bool = True
    """Something changed since."""
    due_at: float = float("-inf")
    """The earliest time of the next snapshot, monotonic."""
    builder: SnapshotBuilder = field(default_factory=SnapshotBuilder)
    _shown_error: str = ""
    _live: dict[str, Live] = field(default_factory=dict)

    def restart(self) -> None:
        self._live, self.builder = {}, SnapshotBuilder(self.builder.tail)

    def note_moves(self, now: float) -> None:
        """Look whether a front end would see a difference although no event came."""
        news = (
            bool(self.ephemeral.reworded or self.telemetry.changed)
            or self.health.error != self._shown_error
        )
        stale = now - self.due_at >= AGE_SECONDS - PUBLISH_SECONDS
        running = bool(self.ephemeral.roster.active)
        self.dirty = self.dirty or news or (stale and running)

    def publish(self, view: EngineView, now: float) -> None:
        self.dirty = False
        self.due_at = now + PUBLISH_SECONDS
        self._shown_error = self.health.error
        changed = self.ephemeral.reworded | self.telemetry.changed
        self.ephemeral.reworded, self.telemetry.changed = set(), set()
        moved = changed & self.state.jobs.keys()
        for name in moved:
            start = range(len(self.state.jobs[name].start))
            verdicts = (self.ephemeral.verdicts.get((name, "start", i)) for i in start)
            queue = self.health.queue.get(name)
            self._live[name] = self.telemetry.build_live(name, tuple(verdicts), queue)
        build = self.builder.build_snapshot
        snapshot = build(self.state, view, self._live, moved)
        self.live_sink.publish(snapshot)
        self.on_snapshot(snapshot)
