"""From state to snapshot: shares every frozen part, rebuilds only what changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autoexp_tui.events.events import Recorded
from autoexp_tui.model.openness import is_open
from autoexp_tui.model.snapshot import EngineView, Live, Snapshot
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import JobRecord, PendingEffect, SessionState, Warned
from autoexp_tui.model.states import JobState

EVENT_TAIL = 2000
"""Events that a snapshot carries; older ones are in the journal."""


@dataclass(slots=True)
class Publisher:
    """Keeps the parts of the last snapshot, so that unchanged ones are shared."""

    tail: deque[Recorded] = field(default_factory=lambda: deque(maxlen=EVENT_TAIL))
    _places: dict[str, int] = field(default_factory=dict)
    """Job -> its place in the order of all."""
    _records: list[JobRecord] = field(default_factory=list)
    _lives: list[Live | None] = field(default_factory=list)
    _jobs: tuple[JobRecord, ...] = ()
    _live: tuple[Live | None, ...] = ()
    _events: tuple[Recorded, ...] = ()
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

    def snapshot(
        self,
        state: SessionState,
        engine: EngineView,
        live: Mapping[str, Live],
        *,
        live_changed: bool = True,
        moved: Collection[str] | None = None,
    ) -> Snapshot:
        """The state as of now.

        Args:
            state: whose jobs, warnings and pending effects are shown.
            engine: how the engine is.
            live: the volatile side of the jobs that have one.
            live_changed: whether `live` may say something else than the last time.
            moved: the jobs of which it does; None: not known.
        """
        if self._stale:
            self._refresh(state)
        if live_changed or len(self._live) != len(self._jobs):
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
            open=is_open(self._jobs, self._pending),
            gaps=state.gaps,
            wall_ahead=state.wall_ahead,
            absent=state.t - state.lived,
        )

    def _refresh(self, state: SessionState) -> None:
        self._refresh_jobs(state)
        self._warnings = tuple(state.warnings.values())
        self._pending = tuple(state.pending.values())
        self._events = tuple(self.tail)
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


_NO_PLAN = Plan(plan_id="", name="", state_dir="", jobs=())


def can_progress(job: JobRecord) -> bool:
    """Whether a job may still move without a person choosing it."""
    return not job.ended and job.state not in _CHOSEN_BY_PERSON


_CHOSEN_BY_PERSON = frozenset({JobState.PLANNED, JobState.HELD})
