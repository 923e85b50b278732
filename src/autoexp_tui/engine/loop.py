"""The commit loop: the one writer of a session.

Any wake-up is a commit: drain, decide, append, sync, apply, dispatch, publish. The
journal's sync is the only blocking call here. `commit()` takes one step and returns,
so the same engine runs under a thread and under a simulated clock.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from autoexp_tui.core import events
from autoexp_tui.core.apply import apply
from autoexp_tui.core.commands import Order, StopEngine
from autoexp_tui.core.draft import Draft
from autoexp_tui.core.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.core.events import Recorded
from autoexp_tui.core.facts import Fact, OutsideKey
from autoexp_tui.core.snapshot import EngineView, Live, Snapshot
from autoexp_tui.core.state import Attempt, JobRecord, SessionState
from autoexp_tui.core.states import JobState, Outcome
from autoexp_tui.core.verdicts import Verdict, why
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.dispatcher import Dispatcher, Outside
from autoexp_tui.engine.intake import Health, Intake
from autoexp_tui.engine.lookout import LogCursor, Lookout, Sources
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.ports import Clock, Journal, Lease, LiveSink, Task
from autoexp_tui.engine.publish import Publisher, with_verdicts
from autoexp_tui.engine.steer import obey
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.monitor.decide import settle
from autoexp_tui.monitor.desk import Desk, Policy, Roster
from autoexp_tui.monitor.watch import Timers, Watch

PUBLISH_SECONDS = 0.1
"""At most ten snapshots a second."""
REREAD_JOBS = 500
"""Ended jobs whose logs are read again for their curves when a session is taken up."""
REREAD_AT_ONCE = 8
HOLD_SECONDS = 2.0
"""Between two tries to write what could not be written."""
AGE_SECONDS = 5.0
"""How often the age of the executor's answer is shown anew while something runs."""
IDLE_SECONDS = 5.0
"""The longest sleep; timers on the wall clock are looked at this often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an engine is made of."""

    clock: Clock
    journal: Journal
    lease: Lease
    sources: Sources
    outside: Outside
    live_sink: LiveSink
    policy: Policy = field(default_factory=Policy)
    log_fault: Callable[[str], None] = lambda _text: None
    closing: Callable[[], None] = lambda: None
    """Called when the engine has ended: lets go of whatever else it was given."""
    directory: Path = Path()
    log_file: str = ""
    gpus: int | None = None
    """Of the machine that runs the jobs, for people; None: not known."""


class Engine:
    """Runs one session. Only `post`, `order`, `nudge` may be called from outside."""

    def __init__(
        self,
        state: SessionState,
        parts: Parts,
        on_snapshot: Callable[[Snapshot], None] = lambda _snapshot: None,
    ) -> None:
        self.state = state
        self.stopped = False
        self.snapshot: Snapshot | None = None
        self._parts = parts
        self._clock = parts.clock
        self._on_snapshot = on_snapshot
        self._wake = threading.Condition()
        self._orders: deque[Order] = deque()
        self._observations: deque[Observation] = deque()
        self._nudged = False
        self._unwritten: list[Recorded] = []
        self._retry_at = 0.0
        self._holding = ""
        self._published_at = float("-inf")
        self._dirty = True
        self._shown_error = ""
        self._outside_facts: dict[OutsideKey, Fact] = {}
        self._health = Health()
        self._lookout = Lookout(parts.sources, self.post)
        self._dispatcher = Dispatcher(parts.outside, self.post)
        self._publisher = Publisher()
        self._telemetry = Telemetry(state)
        self._intake = Intake(
            dispatcher=self._dispatcher,
            telemetry=self._telemetry,
            health=self._health,
            outside=self._outside_facts,
            monotonic=self._clock.monotonic,
            lost_after_seconds=parts.sources.executor.lost_after_seconds,
            log_fault=parts.log_fault,
        )
        self._rebuild()

    # -------------------------------------------------------------- from outside
    def post(self, observation: Observation) -> None:
        """An answer from a pool."""
        with self._wake:
            self._observations.append(observation)
            self._wake.notify()

    def order(self, order: Order) -> None:
        """A command; never dropped."""
        with self._wake:
            self._orders.append(order)
            self._wake.notify()

    def nudge(self, *kinds: str) -> None:
        """Something changed outside: look at `kinds` now."""
        for kind in kinds or ("executor", "logs", "facts"):
            self._lookout.nudge(kind)
        with self._wake:
            self._nudged = True
            self._wake.notify()

    def run(self) -> None:
        """Commit until the engine is stopped: the body of the engine's thread."""
        while not self.stopped:
            self._sleep(self.next_wake())
            self.commit()
        self._parts.closing()
        self._parts.journal.close()
        try:
            self._parts.lease.release()
        except EnvironmentFailed as problem:  # a successor elsewhere will wait
            self._parts.log_fault(str(problem))

    def _sleep(self, seconds: float) -> None:
        with self._wake:
            if not (self._orders or self._observations or self._nudged):
                self._wake.wait(max(0.0, seconds))
            self._nudged = False

    # --------------------------------------------------------------------- begin
    def recall(self, newest: Sequence[Recorded]) -> None:
        """The newest events of a session that is taken up again, for its screens."""
        self._publisher.note(newest)

    def begin(self, first: Sequence[events.Event] = ()) -> None:
        """Take up the session: write its first events, or a predecessor's loose ends.

        Raises:
            OSError: the first events could not be written.
        """
        draft = self._draft()
        for event in first:
            draft.emit(event)
        for pending in self._dispatcher.adopt_former(self.state):
            draft.emit(
                events.EffectSettled(effect_id=pending.effect_id, outcome="uncertain")
            )
            draft.emit(
                events.WarningRaised(
                    warning_id=f"u{pending.effect_id}",
                    why=why("uncertain_effect", kind=pending.effect.kind),
                )
            )
        records = draft.commit()
        self._parts.journal.append(records)
        self._make_true(records)
        self._rebuild()
        self._publish()

    def _rebuild(self) -> None:
        """Make everything volatile anew from the state; logs are read again."""
        self._telemetry.restart()
        self._watch = Watch()
        self._timers = Timers()
        self._roster = Roster()
        self._verdicts: dict[tuple[str, str, int], Verdict] = {}
        self._live: dict[str, Live] = {}
        self._changed: set[str] = set(self.state.jobs)
        for job in self.state.jobs.values():
            self._roster.note(job)
        self._to_reread = dict.fromkeys(self._with_old_logs())
        self._to_judge: set[str] = {
            name
            for name, job in self.state.jobs.items()
            if not job.ended and job.state not in {JobState.PLANNED, JobState.HELD}
        }

    def _with_old_logs(self) -> list[str]:
        """Ended jobs whose curves a former engine took with it, the newest first."""
        ended = [
            job
            for job in self.state.jobs.values()
            if job.ended and job.attempt is not None and job.attempt.log_path
        ]
        ended.sort(key=lambda job: job.since, reverse=True)
        return [job.name for job in ended[:REREAD_JOBS]]

    # -------------------------------------------------------------------- commit
    def commit(self) -> None:
        """One step. Returns when it is durable, or when the disk refuses it."""
        if self._unwritten and not self._write(self._unwritten):
            self._publish()
            return
        orders, observations = self._drain()
        self._forget_known(observations)
        now = self._clock.utc()
        touched = {*self._to_judge, *self._timers.pop_due(max(now, self.state.t))}
        self._to_judge = set()
        if orders or observations or touched:
            self._decide(orders, observations, touched)
        if not self._unwritten:
            self._look_around()
        self._publish()

    def _drain(self) -> tuple[list[Order], list[Observation]]:
        with self._wake:
            orders, observations = list(self._orders), list(self._observations)
            self._orders.clear()
            self._observations.clear()
        return orders, observations

    def _forget_known(self, observations: Sequence[Observation]) -> None:
        """Commands carried out by a predecessor that could not clear its inbox."""
        known = [
            order.command_id
            for taken in observations
            if isinstance(taken, seen.OrdersTaken)
            for order in taken.orders
            if order.command_id in self.state.commands
        ]
        if known:
            self._lookout.orders_done(known)

    def _decide(
        self,
        orders: Sequence[Order],
        observations: Sequence[Observation],
        touched: set[str],
    ) -> None:
        draft = self._draft()
        try:
            self._fill(draft, orders, observations, touched)
        except Exception:  # noqa: BLE001 - a bug in one input must not stop the rest
            self._salvage(orders, observations, touched)
            return
        self._finish(draft, orders)

    def _fill(
        self,
        draft: Draft,
        orders: Sequence[Order],
        observations: Sequence[Observation],
        touched: set[str],
    ) -> None:
        desk = self._desk(draft)
        judged = set(touched)
        for order in orders:
            obey(desk, order)
        for observation in observations:
            judged.update(self._intake.take(desk, observation))
            self._note_reread(observation)
        self._telemetry.watch_stalls(desk)
        settle(desk, judged)
        self._changed |= desk.reworded
        self._note_queued(draft)

    def _note_reread(self, observation: Observation) -> None:
        """Forget logs that were read to their end, and those of jobs revived since."""
        if not (self._to_reread and isinstance(observation, seen.LogsRead)):
            return
        done = {read.job for read in observation.reads if read.chunk is None}
        done |= {name for name in self._to_reread if not self.state.jobs[name].ended}
        for name in done:
            self._to_reread.pop(name, None)

    def _salvage(
        self,
        orders: Sequence[Order],
        observations: Sequence[Observation],
        touched: set[str],
    ) -> None:
        """Decide input by input; the one that raises is dropped and reported."""
        self._parts.log_fault(traceback.format_exc())
        self._rebuild()
        self._to_judge |= touched
        single: deque[tuple[list[Order], list[Observation]]] = deque(
            [
                *(([order], []) for order in orders),
                *(([], [observation]) for observation in observations),
            ]
        )
        while single and not self._unwritten:
            some_orders, some_observations = single.popleft()
            draft = self._draft()
            try:
                self._fill(draft, some_orders, some_observations, set())
            except Exception as bug:  # noqa: BLE001 - reported as an event below
                self._rebuild()
                draft = self._draft()
                draft.emit(self._fault(bug, some_orders, some_observations))
            self._finish(draft, some_orders)
        self._put_back(single)

    def _put_back(
        self, inputs: Sequence[tuple[list[Order], list[Observation]]]
    ) -> None:
        with self._wake:
            for orders, observations in reversed(inputs):
                self._orders.extendleft(reversed(orders))
                self._observations.extendleft(reversed(observations))

    def _fault(
        self,
        bug: Exception,
        orders: Sequence[Order],
        observations: Sequence[Observation],
    ) -> events.EngineFaulted:
        self._parts.log_fault("".join(traceback.format_exception(bug)))
        inputs = [type(one).__name__ for one in (*orders, *observations)]
        return events.EngineFaulted(
            where=", ".join(inputs), problem=f"{type(bug).__name__}: {bug}"
        )

    def _finish(self, draft: Draft, orders: Sequence[Order]) -> None:
        if any(_stops_jobs(order) for order in orders):
            self._health.stop_when_idle = True
        if not draft.records:
            self._dirty = self._dirty or self._moved()
            return
        self._write(draft.commit())

    def _moved(self) -> bool:
        """Whether a front end would see a difference although no event happened."""
        error = self._health.error
        news = (
            bool(self._changed) or self._telemetry.moved or error != self._shown_error
        )
        stale = self._clock.monotonic() - self._published_at >= AGE_SECONDS
        return news or (stale and bool(self._roster.active))

    # --------------------------------------------------------------- write, apply
    def _write(self, records: list[Recorded]) -> bool:
        """Append and sync, then let the events be true. False: HOLD, try later."""
        if self._unwritten and self._clock.monotonic() < self._retry_at:
            return False
        if self._health.deposed:
            self._stop()
            return False
        try:
            self._parts.journal.append(records)
        except SessionOwned as deposed:
            self._parts.log_fault(str(deposed))
            self._health.deposed = True
            self._stop()
            return False
        except (OSError, EnvironmentFailed) as problem:
            self._hold(records, str(problem))
            return False
        self._unwritten = []
        self._holding = ""
        self._make_true(records)
        return True

    def _hold(self, records: list[Recorded], problem: str) -> None:
        self._unwritten = records
        self._retry_at = self._clock.monotonic() + HOLD_SECONDS
        self._holding = problem
        self._dirty = True

    def _make_true(self, records: Sequence[Recorded]) -> None:
        for record in records:
            apply(self.state, record)
        self._publisher.note(records)
        self._dirty = True
        commands = [record.command_id for record in records if record.command_id]
        if commands:
            self._lookout.orders_done(list(dict.fromkeys(commands)))
        if any(isinstance(record.event, events.EngineStopped) for record in records):
            self._stop()
        self._dispatcher.dispatch(self.state, self._clock.monotonic())

    def _stop(self) -> None:
        self.stopped = True
        self._dirty = True

    # ---------------------------------------------------------------- look around
    def _look_around(self) -> None:
        if self._health.deposed:
            self._stop()
        if self.stopped:
            return
        now = self._clock.monotonic()
        self._dispatcher.dispatch(self.state, now)
        lookout, poll_seconds = self._lookout, self._poll_seconds()
        if lookout.is_due("executor", now):
            tasks = self._open_tasks()
            if tasks:
                lookout.poll(tasks, now)
        if lookout.is_due("logs", now):
            cursors = self._cursors()
            if cursors:
                hurry = self._intake.ending or self._to_reread
                lookout.logs(cursors, now, 0.0 if hurry else poll_seconds)
        if lookout.is_due("facts", now) or self._watch.take_new():
            lookout.facts(self._watch.outside(), now, poll_seconds)
        if lookout.is_due("inbox", now):
            lookout.inbox(now)
        if lookout.is_due("heartbeat", now):
            lookout.heartbeat(now)
        self._stop_when_idle()

    def _poll_seconds(self) -> float:
        return self.state.plan.monitoring.poll_seconds if self.state.plan else 1.0

    def _stop_when_idle(self) -> None:
        if self._health.stop_when_idle and not self._roster.active:
            self._health.stop_when_idle = False
            draft = self._draft()
            draft.emit(events.EngineStopped(reason="stopped with its jobs"))
            self._write(draft.commit())

    def _open_tasks(self) -> list[Task]:
        return [
            self._dispatcher.task(job, attempt.number)
            for name in self._polled_jobs()
            for job in (self.state.jobs[name],)
            for attempt in job.attempts[-1:]
            if attempt.outcome in (None, Outcome.LOST) and _is_known(attempt)
        ]

    def _polled_jobs(self) -> list[str]:
        return [*sorted(self._roster.active), *sorted(self._roster.lost)]

    def _cursors(self) -> list[LogCursor]:
        ending = self._intake.ending
        running = (self.state.jobs[name] for name in sorted(self._roster.active))
        first = [
            self.state.jobs[name] for name in islice(self._to_reread, REREAD_AT_ONCE)
        ]
        old = (job for job in first if job.ended)
        return [
            self._telemetry.cursor(
                job, final=job.ended or (job.name, attempt.number) in ending
            )
            for job in (*running, *old)
            for attempt in job.attempts[-1:]
            if attempt.log_path
        ]

    # --------------------------------------------------------------------- helpers
    def _draft(self) -> Draft:
        return Draft(self.state, self._clock.utc(), self._parts.lease.epoch)

    def _desk(self, draft: Draft) -> Desk:
        return Desk(
            draft=draft,
            watch=self._watch,
            timers=self._timers,
            roster=self._roster,
            outside=self._outside_facts,
            metrics=self._telemetry.metrics,
            policy=self._parts.policy,
            verdicts=self._verdicts,
        )

    def _note_queued(self, draft: Draft) -> None:
        for record in draft.records:
            job = getattr(record.event, "job", "")
            if job and job in draft.state.jobs:
                self._intake.note_state(draft.job(job))

    def next_wake(self) -> float:
        """Seconds until the next commit has something to do."""
        now = self._clock.monotonic()
        if self._unwritten:
            return max(0.0, self._retry_at - now)
        times = [now + IDLE_SECONDS]
        times += [at for at in self._next_looks(now) if at is not None]
        due = self._timers.next_at()
        if due is not None:
            times.append(now + max(0.0, due - self._clock.utc()))
        if self._dirty:
            times.append(self._published_at + PUBLISH_SECONDS)
        if self._to_judge:
            times.append(now)
        return max(0.0, min(times) - now)

    def _next_looks(self, now: float) -> list[float | None]:
        lookout = self._lookout
        kinds = ["inbox", "heartbeat"]
        kinds += ["executor"] if self._roster.active else []
        kinds += ["logs"] if self._cursors() else []
        kinds += ["facts"] if any(True for _ in self._watch.outside()) else []
        return [lookout.next_at(kinds, now), self._dispatcher.next_at(self.state)]

    # --------------------------------------------------------------------- publish
    def _publish(self) -> None:
        now = self._clock.monotonic()
        due = now - self._published_at >= PUBLISH_SECONDS
        if not (self._dirty and (due or self.stopped)):
            return
        self._dirty = False
        self._published_at = now
        self._shown_error = self._health.error
        self.snapshot = self._publisher.snapshot(
            self.state, self._view(), self._refresh_live()
        )
        self._parts.live_sink.publish(self.snapshot)
        self._on_snapshot(self.snapshot)

    def _refresh_live(self) -> dict[str, Live]:
        """The volatile side of the jobs, made anew only where something moved."""
        changed = self._changed | self._telemetry.take_changed()
        self._changed = set()
        for name in changed:
            job = self.state.jobs.get(name)
            if job is not None:
                self._live[name] = self._live_of(job)
        return self._live

    def _live_of(self, job: JobRecord) -> Live:
        name = job.name
        verdicts = [
            self._verdicts.get((name, "start", index))
            for index in range(len(job.start))
        ]
        waits_in = self._health.reasons.get(name, "")
        return with_verdicts(self._telemetry.view(name), verdicts, waits_in)

    def _view(self) -> EngineView:
        executor = self._parts.sources.executor
        return EngineView(
            role="live",
            epoch=self._parts.lease.epoch,
            host=self.state.engine_host,
            pid=self.state.engine_pid,
            stopped=self.stopped,
            committed_at=self._clock.utc(),
            executor=executor.name,
            executor_answered_at=self._health.answered_at,
            executor_error=self._health.error,
            slots=self._parts.policy.slots,
            slots_used=len(self._roster.active),
            gpus=self._parts.gpus,
            holding=self._holding,
            log_file=self._parts.log_file,
            directory=str(self._parts.directory),
            owner_alive=not self._health.deposed,
        )


def _is_known(attempt: Attempt) -> bool:
    """Whether the executor answered for it: before that, its absence says nothing."""
    return attempt.submitted_at is not None or attempt.run >= 0


def _stops_jobs(order: Order) -> bool:
    return isinstance(order.command, StopEngine) and order.command.cancel_jobs
