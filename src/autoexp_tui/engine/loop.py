"""The commit loop: the one writer of a session. Any wake-up is a commit: drain, decide,
append, sync, apply, dispatch, publish. The sync is the only blocking call. `commit()`
is one step, so the same engine runs under a thread and under a simulated clock."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from autoexp_tui.engine.command_handlers import handle_order
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.ephemeral_state import (
    EphemeralState,
    Health,
    Inputs,
    Mailbox,
    Timeline,
)
from autoexp_tui.engine.observation_handlers import ObservationHandlers
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.poller import Poller
from autoexp_tui.engine.ports import Parts
from autoexp_tui.engine.run_reports import RunReports
from autoexp_tui.engine.snapshot_publisher import SnapshotPublisher
from autoexp_tui.engine.submission_answers import leave_in_doubt
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.events import events
from autoexp_tui.model.commands import Order
from autoexp_tui.model.decision_context import DecisionContext, Draft
from autoexp_tui.model.errors import EnvironmentFailed, SessionOwned
from autoexp_tui.model.event import Recorded, apply
from autoexp_tui.model.facts import Fact, OutsideKey
from autoexp_tui.model.snapshot import EngineView, Snapshot
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import BEGUN, JobState, why
from autoexp_tui.scheduling.decide import settle_jobs

IDLE_SECONDS = 5.0
"""The longest sleep; so soon a wall clock that was set is noticed."""
STEP_SECONDS = 5.0
"""By which the wall clock differs from what passed when somebody has set it."""
HOLD_SECONDS = 2.0
"""Between two tries to write what could not be written."""
WITH_EXECUTOR = frozenset({JobState.QUEUED, *BEGUN})
"""States of jobs that the executor has a word on."""


class Engine:
    """Runs one session. Only `order` and nudges may be called from outside."""

    def __init__(
        self,
        state: SessionState,
        parts: Parts,
        on_snapshot: Callable[[Snapshot], None] = lambda _snapshot: None,
        *,
        unrecorded: float = 0.0,
    ) -> None:
        """`unrecorded`: seconds for which an engine lived after `state`."""
        self.state = state
        state.touched.clear()
        self.stopped = False
        self._parts = parts
        self._clock = parts.clock
        self._timeline = Timeline(parts.clock, state, unrecorded)
        self._mailbox = Mailbox()
        self._health = Health()
        self._outside_facts: dict[OutsideKey, Fact] = {}
        self._ephemeral = EphemeralState()
        self._telemetry = Telemetry(state)
        self._dispatcher = Dispatcher(parts, self._mailbox.post, self._clock.monotonic)
        runs = RunReports(
            self._telemetry,
            self._health,
            self._outside_facts,
            parts.find_executor,
        )
        self._poller = Poller(
            state,
            self._ephemeral,
            parts,
            self._dispatcher,
            self._telemetry,
            runs,
            self._mailbox.post,
        )
        self._handlers = ObservationHandlers(
            self._dispatcher,
            self._poller,
            runs,
            self._health,
            self._timeline.lived_at,
            parts.log_fault,
        )
        self._unwritten: list[Recorded] = []
        """What the disk refused: nothing else is decided before it is written."""
        self._holding = ""
        """Why nothing is written just now, empty when all is well."""
        self._retry_at = 0.0
        """When that is tried again, monotonic."""
        self._publisher = SnapshotPublisher(
            state,
            self._ephemeral,
            self._telemetry,
            self._health,
            parts.live_sink,
            on_snapshot,
        )
        self._rebuild()

    def order(self, order: Order) -> None:
        """A command; never dropped."""
        self._mailbox.add_order(order)

    def nudge_executor(self) -> None:
        """A record was written: ask the executor now."""
        self._poller.hurry_executor()
        self._mailbox.wake()

    def nudge_files(self, paths: Iterable[str]) -> None:
        """Files changed outside: logs among them that were quiet are read now."""
        if self._poller.logs.wake(paths):
            self._mailbox.wake()

    def run(self) -> None:
        """Commit until the engine is stopped: the body of the engine's thread."""
        while not self.stopped:
            if self._unwritten:  # whatever comes waits for the disk as well
                self._mailbox.pause(self.next_wake())
            else:
                self._mailbox.sleep(self.next_wake())
            self.commit()
        self._parts.close()
        self._parts.journal.close()
        try:
            self._parts.lease.release()
        except EnvironmentFailed as problem:  # a successor elsewhere will wait
            self._parts.log_fault(str(problem))

    def note_recent(self, newest: Sequence[Recorded]) -> None:
        """The newest events of a session that is taken up again, for its screens."""
        self._publisher.builder.note(newest)

    def begin(self, first: Sequence[events.Event] = ()) -> None:
        """Write the first events, or a predecessor's loose ends; raises OSError."""
        draft = self._draft()
        for event in first:
            draft.emit(event)
        for pending in self.state.pending.values():  # of a predecessor
            if pending.effect.recovery == "probe":
                self._dispatcher.in_doubt.add(pending.effect_id)
            elif pending.effect.recovery == "once":
                leave_in_doubt(draft, pending)
        records = draft.commit()
        self._parts.journal.append(records)
        self._make_true(records)
        self._rebuild()
        self._publish()

    def _rebuild(self) -> None:
        """Make everything volatile anew from the state; logs are read again."""
        self._telemetry.restart()
        self._ephemeral.restart(self.state)
        self._poller.logs.restart()
        self._publisher.restart()
        self._dispatcher.joining.restart()

    def commit(self) -> None:
        """One step. Returns when it is durable, or when the disk refuses it."""
        now = self._timeline.now()
        if not self._unwritten:
            step = now.utc - now.t - self._timeline.wall_ahead
            self._timeline.wall_ahead += step
            if abs(step) >= STEP_SECONDS:
                self._note_step(step)
        if self._unwritten and not self._write(self._unwritten):
            self._publish()
            return
        orders, observations = self._mailbox.drain()
        touched, self._ephemeral.pending = self._ephemeral.pending, set()
        touched |= set(self._ephemeral.timers.pop_due(now.lived))
        if orders or observations or touched:
            try:
                draft = self._decide_all(orders, observations, touched)
            except Exception:  # noqa: BLE001 - one bad input must not stop the rest
                self._decide_singly(orders, observations, touched)
            else:
                self._finish(draft)
        if not self._unwritten:
            self._look()
        self._publish()

    def _note_step(self, seconds: float) -> None:
        """The wall clock was set: who waits for a time is judged anew."""
        self._telemetry.restart_clocks()
        self._ephemeral.pending |= self.state.jobs.keys()
        way = "back" if seconds < 0 else "forward"
        reason = why("clock_set", way=way, seconds=abs(seconds))
        self._record_alone(events.WarningRaised(warning_id="clock", why=reason))

    def _record_alone(self, event: events.Event) -> None:
        draft = self._draft()
        draft.emit(event)
        self._write(draft.commit())

    def _decide_all(
        self,
        orders: Sequence[Order],
        observations: Sequence[Observation],
        touched: set[str],
    ) -> Draft:
        now, ephemeral = self._timeline.now(), self._ephemeral
        draft = Draft(self.state, now, self._parts.lease.epoch)
        size = self._parts.executor.array_size
        context = DecisionContext(
            draft=draft,
            now=draft.now,
            watch=ephemeral.watch,
            timers=ephemeral.timers,
            roster=ephemeral.roster,
            outside=self._outside_facts,
            metrics=self._telemetry.metrics,
            policy=replace(self._parts.policy, array_size=size),
            runs=self._telemetry.runs,
            verdicts=ephemeral.verdicts,
            joining=self._dispatcher.joining,
        )
        judged = set(touched)
        for order in orders:
            handle_order(context, order)
        for observation in observations:
            judged.update(self._handlers.handle(context, observation))
        self._telemetry.watch_stalls(context)
        if self._dispatcher.looking:
            self._handlers.end_overdue_looks(context)
        if self.state.pending and self.state.warnings:
            self._handlers.settle_cancels(context)
        if judged or draft.records or self.state.parts:
            settle_jobs(context, judged)
        ephemeral.reworded |= context.reworded
        return draft

    def _decide_singly(
        self,
        orders: Sequence[Order],
        observations: Sequence[Observation],
        touched: set[str],
    ) -> None:
        """Decide input by input; the one that raises is dropped and reported."""
        self._parts.log_fault(traceback.format_exc())
        self._rebuild()
        self._ephemeral.pending |= touched
        single: deque[Inputs] = deque(
            [
                *(([order], []) for order in orders),
                *(([], [observation]) for observation in observations),
            ]
        )
        while single and not self._unwritten:
            some_orders, some_observations = single.popleft()
            try:
                draft = self._decide_all(some_orders, some_observations, set())
            except Exception as bug:  # noqa: BLE001 - reported as an event here
                self._rebuild()
                self._parts.log_fault("".join(traceback.format_exception(bug)))
                inputs = (*some_orders, *some_observations)
                where = ", ".join(type(one).__name__ for one in inputs)
                problem = f"{type(bug).__name__}: {bug}"
                draft = self._draft()
                draft.emit(events.EngineFaulted(where=where, problem=problem))
            self._finish(draft)
        self._mailbox.put_back(single)

    def _finish(self, draft: Draft) -> None:
        if draft.records:
            self._write(draft.commit())
        else:
            self._publisher.note_moves(self._clock.monotonic())

    def _write(self, records: list[Recorded]) -> bool:
        """Append and sync, then let the events be true. False: they are not (yet)."""
        if not self._append(records):
            return False
        self._make_true(records)
        return True

    def _append(self, records: list[Recorded]) -> bool:
        """Whether the records are on the disk; else they wait, or we are deposed."""
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
            self._unwritten, self._holding = records, str(problem)
            self._retry_at = self._clock.monotonic() + HOLD_SECONDS
            self._publisher.dirty = True
            return False
        self._unwritten, self._holding = [], ""
        return True

    def _make_true(self, records: Sequence[Recorded]) -> None:
        for record in records:
            apply(self.state, record)
        touched, self.state.touched = self.state.touched, set()
        self._poller.logs.moved |= touched
        self._telemetry.note_changes(touched)
        for name in touched & self._health.queue.keys():
            if self.state.jobs[name].state not in WITH_EXECUTOR:
                del self._health.queue[name]
        self._publisher.builder.note(records)
        self._publisher.dirty = True
        if commands := [one.command_id for one in records if one.command_id]:
            self._poller.forget_orders(dict.fromkeys(commands))
        if any(isinstance(record.event, events.EngineStopped) for record in records):
            self._stop()
        if self.state.pending:
            self._dispatcher.dispatch(self.state, self._clock.monotonic())

    def stop_unwritten(self) -> None:
        """End without what the disk refuses: it was not done, and the next engine looks
        again. Of any thread."""
        self.stopped = True

    def _stop(self) -> None:
        self.stopped = True
        self._publisher.dirty = True

    def _look(self) -> None:
        if self._health.deposed:
            self._stop()
        if self.stopped:
            return
        now = self._clock.monotonic()
        if self.state.pending:
            self._dispatcher.dispatch(self.state, now)
        self._poller.look(now, self._timeline.now().t)
        if self.state.engine_stopping and not self._ephemeral.roster.active:
            reason = "stopped with its jobs"
            self._record_alone(events.EngineStopped(reason=reason, on_request=True))

    def _draft(self) -> Draft:
        return Draft(self.state, self._timeline.now(), self._parts.lease.epoch)

    def next_wake(self) -> float:
        """Seconds until the next commit has something to do."""
        now = self._clock.monotonic()
        if self._unwritten:
            return max(0.0, self._retry_at - now)
        times = [now + IDLE_SECONDS, *self._poller.next_at(now)]
        due = self._ephemeral.timers.next_at()
        if due is not None:
            times.append(self._timeline.monotonic_at(due))
        if self._publisher.dirty:
            times.append(self._publisher.due_at)
        if self._ephemeral.pending:
            times.append(now)
        return max(0.0, min(times) - now)

    def _publish(self) -> None:
        now, publisher = self._clock.monotonic(), self._publisher
        if not publisher.dirty or not (self.stopped or now >= publisher.due_at):
            return
        executor = self._parts.executor
        view = EngineView(
            role="live",
            epoch=self._parts.lease.epoch,
            host=self.state.engine_host,
            pid=self.state.engine_pid,
            stopped=self.stopped,
            committed_at=self._timeline.now().t,
            executor=executor.name,
            executor_answered_at=self._health.answered_at,
            executor_error=self._health.error,
            slots=self._parts.policy.slots,
            gpus=self._parts.gpus,
            holding=self._holding,
            log_file=self._parts.log_file,
            directory=str(self._parts.directory),
            owner_alive=not self._health.deposed,
        )
        publisher.publish(view, now)
