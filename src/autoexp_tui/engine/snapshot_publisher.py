"""From state to snapshot, and when a front end gets a new one.

A snapshot shares every frozen part with the one before; only what changed is made anew.
There are at most ten a second, and none while nothing changed that anybody could see.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autoexp_tui.engine.ports import LiveSink
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.policy import find_policy
from autoexp_tui.model.resubmission import is_open
from autoexp_tui.model.snapshot import EngineView, Live, Snapshot
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import JobRecord, PendingEffect, SessionState, Warned

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
    """Keeps the parts of the last snapshot, so that unchanged ones are shared."""

    tail: deque[Recorded] = field(default_factory=lambda: deque(maxlen=EVENT_TAIL))
    _places: dict[str, int] = field(default_factory=dict)
    """Job -> its place in the order of all."""
    _records: list[JobRecord] = field(default_factory=list)
    _lives: list[Live | None] = field(default_factory=list)
    _jobs: tuple[JobRecord, ...] = ()
    _live: tuple[Live | None, ...] = ()
    _events: tuple[Recorded, ...] = ()
    _parts: Mapping[str, Any] = field(default_factory=dict)
    _warnings: tuple[Warned, ...] = ()
    _pending: tuple[PendingEffect, ...] = ()
    _stale: bool = True
    _touched: set[str] | None = None
    """Jobs that are to be taken over anew; None: all."""

    def note(
        self, records: Sequence[Recorded], jobs: Iterable[str] | None = None
    ) -> None:
        """Events became true. `jobs`: all that they changed; None: not known."""
        self.tail.extend(records)
        self._stale = self._stale or bool(records)
        if jobs is None:
            self._touched = None if records else self._touched
        elif self._touched is not None:
            self._touched.update(jobs)

    def build_snapshot(
        self,
        state: SessionState,
        engine: EngineView,
        live: Mapping[str, Live],
        *,
        moved: Collection[str] | None = None,
    ) -> Snapshot:
        """The state as of now.

        Args:
            state: whose jobs, warnings and pending effects are shown.
            engine: how the engine is.
            live: the volatile side of the jobs that have one.
            moved: the jobs of which it may say something else; None: not known.
        """
        if self._stale:
            self._refresh(state)
        if moved is None or moved or len(self._live) != len(self._jobs):
            self._refresh_live(live, moved)
        return Snapshot(
            seq=state.seq,
            t=state.t,
            session=state.session,
            name=state.name,
            plan=state.plan or _NO_PLAN,
            started_at=state.started_at,
            paused=state.paused,
            engine=engine,
            jobs=self._jobs,
            live=self._live,
            warnings=self._warnings,
            pending=self._pending,
            events=self._events,
            open=is_open(self._jobs, self._pending) or _has_open_policy(state),
            gaps=state.gaps,
            parts=self._parts,
            wall_ahead=state.wall_ahead,
            absent=state.t - state.lived,
        )

    def _refresh(self, state: SessionState) -> None:
        self._refresh_jobs(state)
        self._warnings = tuple(state.warnings.values())
        self._pending = tuple(state.pending.values())
        self._events = tuple(self.tail)
        self._parts = dict(state.parts)
        self._stale = False

    def _refresh_jobs(self, state: SessionState) -> None:
        touched, self._touched = self._touched, set()
        if touched is None or len(state.order) != len(self._records):
            self._records = [state.jobs[name] for name in state.order]
            self._places = {name: place for place, name in enumerate(state.order)}
        else:
            for name in touched & self._places.keys():
                self._records[self._places[name]] = state.jobs[name]
        self._jobs = tuple(self._records)

    def _refresh_live(
        self, live: Mapping[str, Live], moved: Collection[str] | None
    ) -> None:
        if moved is None or len(self._lives) != len(self._jobs):
            self._lives = [live.get(job.name) for job in self._jobs]
        else:
            for name in self._places.keys() & moved:
                self._lives[self._places[name]] = live.get(name)
        self._live = tuple(self._lives)


def _has_open_policy(state: SessionState) -> bool:
    found = ((find_policy(name), part) for name, part in state.parts.items())
    return any(policy is not None and policy.is_open(part) for policy, part in found)


_NO_PLAN = Plan(plan_id="", name="", state_dir="", jobs=())


class SnapshotPublisher:
    """Makes snapshots and hands them out."""

    def __init__(
        self,
        state: SessionState,
        ephemeral: EphemeralState,
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
        self._ephemeral = ephemeral
        self._telemetry = telemetry
        self._health = health
        self._live_sink = live_sink
        self._on_snapshot = on_snapshot
        self._builder = SnapshotBuilder()
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
        self._builder.note(records, jobs)

    def note_moves(self, now: float) -> None:
        """Look whether a front end would see a difference although no event came."""
        news = (
            bool(self._ephemeral.reworded or self._telemetry.changed)
            or self._health.error != self._shown_error
        )
        stale = now - self._published_at >= AGE_SECONDS
        running = bool(self._ephemeral.roster.active)
        self.dirty = self.dirty or news or (stale and running)

    def is_due(self, now: float, *, at_once: bool) -> bool:
        """Whether to make a snapshot; `at_once`: however fresh the last one is."""
        return self.dirty and (at_once or now >= self.due_at)

    def publish(self, view: EngineView, now: float) -> None:
        """Make a snapshot and hand it out."""
        self.dirty = False
        self._published_at = now
        self._shown_error = self._health.error
        self.snapshot = self._builder.build_snapshot(
            self._state, view, self._live, moved=self._refresh_live()
        )
        self._live_sink.publish(self.snapshot)
        self._on_snapshot(self.snapshot)

    def _refresh_live(self) -> set[str]:
        """Make the volatile side anew of the jobs that moved; which those are."""
        changed = self._ephemeral.reworded | self._telemetry.changed
        self._ephemeral.reworded, self._telemetry.changed = set(), set()
        for name in changed:
            job = self._state.jobs.get(name)
            if job is not None:
                self._live[name] = self._build_live(job)
        return changed

    def _build_live(self, job: JobRecord) -> Live:
        name, verdicts = job.name, self._ephemeral.verdicts
        newest = [verdicts.get((name, "start", i)) for i in range(len(job.start))]
        queue = self._health.queue.get(name)
        return self._telemetry.build_live(name, tuple(newest), queue)
