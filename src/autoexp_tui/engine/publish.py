"""From state to snapshot: shares every frozen part, rebuilds only what changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoexp_tui.core.events import Recorded
from autoexp_tui.core.snapshot import EngineView, InQueue, Live, Snapshot
from autoexp_tui.core.specs import Plan
from autoexp_tui.core.state import JobRecord, PendingEffect, SessionState, Warned
from autoexp_tui.core.states import JobState
from autoexp_tui.core.verdicts import Verdict

EVENT_TAIL = 2000
"""Events that a snapshot carries; older ones are in the journal."""


@dataclass(slots=True)
class Publisher:
    """Keeps the parts of the last snapshot, so that unchanged ones are shared."""

    tail: deque[Recorded] = field(default_factory=lambda: deque(maxlen=EVENT_TAIL))
    _jobs: tuple[JobRecord, ...] = ()
    _live: tuple[Live | None, ...] = ()
    _events: tuple[Recorded, ...] = ()
    _warnings: tuple[Warned, ...] = ()
    _pending: tuple[PendingEffect, ...] = ()
    _stale: bool = True

    def note(self, records: Sequence[Recorded]) -> None:
        """Events became true."""
        self.tail.extend(records)
        self._stale = self._stale or bool(records)

    def snapshot(
        self,
        state: SessionState,
        engine: EngineView,
        live: Mapping[str, Live],
        *,
        live_changed: bool = True,
    ) -> Snapshot:
        """The state as of now."""
        if self._stale:
            self._refresh(state)
        if live_changed or len(self._live) != len(self._jobs):
            self._live = tuple(live.get(job.name) for job in self._jobs)
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
            finished=bool(self._jobs) and all(job.ended for job in self._jobs),
            gaps=state.gaps,
        )

    def _refresh(self, state: SessionState) -> None:
        self._jobs = tuple(state.jobs[name] for name in state.order)
        self._warnings = tuple(state.warnings.values())
        self._pending = tuple(state.pending.values())
        self._events = tuple(self.tail)
        self._stale = False


_NO_PLAN = Plan(plan_id="", name="", state_dir="", jobs=())


def with_verdicts(
    live: Live | None, verdicts: Sequence[Verdict | None], queue: InQueue | None
) -> Live:
    """`live` with the newest verdicts of the start conditions, and the queue's word."""
    return replace(live or Live(), start=tuple(verdicts), queue=queue)


def can_progress(job: JobRecord) -> bool:
    """Whether a job may still move without a person choosing it."""
    return not job.ended and job.state not in _CHOSEN_BY_PERSON


_CHOSEN_BY_PERSON = frozenset({JobState.PLANNED, JobState.HELD})
