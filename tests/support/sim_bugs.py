"""Six deliberate bugs, so that the simulator is seen to catch what it is made for.

Each replaces one part of a campaign by one that is wrong in a way that engines of this
kind have been wrong. None of it can be reached from outside a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine.executor_port import (
    AdoptAnswer,
    CancelAnswer,
    Executor,
    PollAnswer,
    Submission,
    SubmitAnswer,
    Task,
    TaskPhase,
    TaskReport,
)
from autoexp_tui.engine.loop import Engine
from autoexp_tui.engine.ports import Clock, Journal, Parts
from autoexp_tui.events import events
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.state import SessionState
from tests.support.memory_journal import MemoryJournal
from tests.support.sim_clusters import SimCluster


class Bug:
    """What a deliberate bug replaces; this one replaces nothing."""

    def executor(self, inner: Executor) -> Executor:
        return inner

    def journal(self, inner: MemoryJournal) -> Journal:
        return inner

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return Engine(state, parts)

    def cluster(self, cluster: SimCluster) -> None:
        """Spoil what runs the jobs."""


class _Journal:
    """`ports.Journal` around another."""

    def __init__(self, inner: MemoryJournal) -> None:
        self.inner = inner

    def append(self, records: Sequence[Recorded]) -> None:
        self.inner.append(records)

    def add_plan(self, plan: Plan) -> str:
        return self.inner.add_plan(plan)

    def close(self) -> None:
        self.inner.close()


class DropIntent(Bug):
    """A submission is sent, and nothing on the disk says that it was meant to be."""

    def journal(self, inner: MemoryJournal) -> Journal:
        return _Forgetful(inner)


class _Forgetful(_Journal):
    def append(self, records: Sequence[Recorded]) -> None:
        self.inner.append([_without_intent(record) for record in records])


def _without_intent(record: Recorded) -> Recorded:
    event = record.event
    if isinstance(event, events.EffectOrdered) and isinstance(
        event.effect, SubmitTasks
    ):
        return replace(record, event=events.MessageLogged(text="something was sent"))
    return record


class TrustEmpty(Bug):
    """Whatever an answer does not name is gone for good."""

    def executor(self, inner: Executor) -> Executor:
        return _Credulous(inner)


class _Credulous:
    def __init__(self, inner: Executor) -> None:
        self.name = inner.name
        self.slots = inner.slots
        self.poll_seconds = inner.poll_seconds
        self._inner = inner

    @property
    def array_size(self) -> int:
        return self._inner.array_size

    @property
    def lost_after_seconds(self) -> float:
        return self._inner.lost_after_seconds

    def submit(self, submission: Submission) -> SubmitAnswer:
        return self._inner.submit(submission)

    def cancel(self, tasks: Sequence[Task]) -> CancelAnswer:
        return self._inner.cancel(tasks)

    def adopt(self, submissions: Sequence[Submission]) -> AdoptAnswer:
        return self._inner.adopt(submissions)

    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        answer = self._inner.poll(tasks)
        if answer.error:
            return answer
        told = {(report.job, report.attempt): report for report in answer.reports}
        believed = [
            self._believed(told.get(task.id) or _nothing(task)) for task in tasks
        ]
        return replace(answer, reports=tuple(believed))

    def _believed(self, report: TaskReport) -> TaskReport:
        if report.phase is not TaskPhase.ENDED or report.exited is not None:
            return report
        return replace(report, gone_for=self.lost_after_seconds, unclaimed=False)


def _nothing(task: Task) -> TaskReport:
    return TaskReport(job=task.job, attempt=task.attempt, phase=TaskPhase.ENDED)


class ForgetClaim(Bug):
    """A start does not look whether another has begun the attempt."""

    def cluster(self, cluster: SimCluster) -> None:
        cluster.forget_claims()


class ApplyBeforeJournal(Bug):
    """Events count, and are acted on, before they are on the disk."""

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return _Hasty(state, parts)


class _Hasty(Engine):
    def _write(self, records: list[Recorded]) -> bool:
        if records is not self._unwritten:
            self._make_true(records)
        return self._append(records)


class IgnoreEpoch(Bug):
    """Nobody asks whether the engine that writes still owns the session."""

    def journal(self, inner: MemoryJournal) -> Journal:
        return _Unfenced(inner)


class _Unfenced(_Journal):
    def append(self, records: Sequence[Recorded]) -> None:
        self.inner.append_unfenced(records)


class TimeByWall(Bug):
    """What lasts goes by the wall clock, and stands still while that is behind."""

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return Engine(state, replace(parts, clock=_WallAlone(parts.clock)))


class _WallAlone:
    def __init__(self, inner: Clock) -> None:
        self._inner = inner
        self._latest = 0.0

    def utc(self) -> float:
        return self._inner.utc()

    def monotonic(self) -> float:
        self._latest = max(self._latest, self._inner.utc())
        return self._latest

    def boottime(self) -> float:
        return self.monotonic()


BUGS: Final[Mapping[str, Callable[[], Bug]]] = {
    "drop_intent": DropIntent,
    "trust_empty": TrustEmpty,
    "forget_claim": ForgetClaim,
    "apply_before_journal": ApplyBeforeJournal,
    "ignore_epoch": IgnoreEpoch,
    "time_by_wall": TimeByWall,
}
