"""The commit loop: the one writer of a session.

Any wake-up is a commit: drain, decide, append, sync, apply, dispatch, publish. The
journal's sync is the only blocking call here. `commit()` takes one step and returns,
so the same engine runs under a thread and under a simulated clock.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.command_handlers import obey
from autoexp_tui.engine.dispatcher import Dispatcher, Outside
from autoexp_tui.engine.ephemeral_state import EphemeralState
from autoexp_tui.engine.health import Health
from autoexp_tui.engine.journal_writer import Writer, Written
from autoexp_tui.engine.mailbox import Inputs, Mailbox
from autoexp_tui.engine.observation_handlers import Intake
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.poller import Poller, Sources
from autoexp_tui.engine.ports import Clock
from autoexp_tui.engine.recovery_messages import leave_in_doubt
from autoexp_tui.engine.session_ports import Journal, Lease, LiveSink
from autoexp_tui.engine.snapshot_publisher import SnapshotPublisher
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.engine.timeline import Timeline, step_warned
from autoexp_tui.events import events
from autoexp_tui.model.commands import Order, StopEngine
from autoexp_tui.model.decision_context import DecisionContext, Policy
from autoexp_tui.model.draft import Draft
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.event import Recorded, apply
from autoexp_tui.model.facts import Fact, OutsideKey
from autoexp_tui.model.snapshot import EngineView, Snapshot
from autoexp_tui.model.state import SessionState
from autoexp_tui.scheduling.decide import settle

IDLE_SECONDS = 5.0
"""The longest sleep; so soon a wall clock that was set is noticed."""


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
    watch_files: Callable[[Callable[[Iterable[str]], None]], None] = lambda _: None
    """Takes what is to be called, from any thread, with paths that changed."""
    closing: Callable[[], None] = lambda: None
    """Called when the engine has ended: lets go of whatever else it was given."""
    directory: Path = Path()
    log_file: str = ""
    gpus: int | None = None
    """Of the machine that runs the jobs, for people; None: not known."""


class Engine:
    """Runs one session. Only `post`, `order` and nudges may be called from outside."""

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
        self.stopped = False
        self._parts = parts
        self._clock = parts.clock
        self._timeline = Timeline(parts.clock, state, unrecorded)
        self._mailbox = Mailbox()
        self._health = Health()
        self._outside_facts: dict[OutsideKey, Fact] = {}
        self._volatile = EphemeralState()
        self._touched: set[str] = set()
        """Jobs that are no longer what they were, once what is decided is durable."""
        self._telemetry = Telemetry(state)
        self._dispatcher = Dispatcher(parts.outside, self.post)
        self._intake = Intake(
            dispatcher=self._dispatcher,
            telemetry=self._telemetry,
            health=self._health,
            outside=self._outside_facts,
            monotonic=self._clock.monotonic,
            lived_at=self._timeline.lived_at,
            lost_after_seconds=lambda: parts.sources.executor.lost_after_seconds,
            log_fault=parts.log_fault,
        )
        self._poller = Poller(
            state,
            self._volatile,
            parts.sources,
            self._dispatcher,
            self._telemetry,
            self._intake,
            self.post,
        )
        self._writer = Writer(parts.journal, parts.clock, self._health, parts.log_fault)
        self._publisher = SnapshotPublisher(
            state,
            self._volatile,
            self._telemetry,
            self._health,
            parts.live_sink,
            on_snapshot,
        )
        self._rebuild()
        parts.watch_files(self.nudge_files)

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest one that was published."""
        return self._publisher.snapshot

    # -------------------------------------------------------------- from outside
    def post(self, observation: Observation) -> None:
        """An answer from a pool."""
        self._mailbox.post(observation)

    def order(self, order: Order) -> None:
        """A command; never dropped."""
        self._mailbox.order(order)

    def look_at(self, jobs: Iterable[str]) -> None:
        """Somebody looks at these jobs: curves that were let go of are read again."""
        self._mailbox.post(seen.JobsOpened(jobs=tuple(jobs)))

    def nudge(self, *kinds: str) -> None:
        """Something changed outside: look at `kinds` now."""
        for kind in kinds or ("executor", "logs", "facts"):
            self._poller.nudge(kind)
        self._mailbox.nudge()

    def nudge_files(self, paths: Iterable[str]) -> None:
        """Files changed outside: logs among them that were quiet are read now."""
        if self._poller.logs.wake(paths):
            self._mailbox.nudge()

    def run(self) -> None:
        """Commit until the engine is stopped: the body of the engine's thread."""
        while not self.stopped:
            if self._writer.unwritten:  # whatever comes waits for the disk as well
                self._mailbox.rest(self.next_wake())
            else:
                self._mailbox.sleep(self.next_wake())
            self.commit()
        self._parts.closing()
        self._parts.journal.close()
        try:
            self._parts.lease.release()
        except EnvironmentFailed as problem:  # a successor elsewhere will wait
            self._parts.log_fault(str(problem))

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
            leave_in_doubt(draft, pending)
        records = draft.commit()
        self._parts.journal.append(records)
        self._make_true(records)
        self._rebuild()
        self._publish()

    def _rebuild(self) -> None:
        """Make everything volatile anew from the state; logs are read again."""
        self._telemetry.restart()
        self._volatile.restart(self.state)
        self._poller.restart()
        self._publisher.restart()

    # -------------------------------------------------------------------- commit
    def commit(self) -> None:
        """One step. Returns when it is durable, or when the disk refuses it."""
        self._rotate()
        self._mind_steps()
        if self._writer.unwritten and not self._write(self._writer.unwritten):
            self._publish()
            return
        orders, observations = self._drain()
        self._forget_known(observations)
        lived = self._timeline.now().lived
        touched = self._volatile.take_to_judge() | set(
            self._volatile.timers.pop_due(lived)
        )
        if orders or observations or touched:
            self._decide(orders, observations, touched)
        if not self._writer.unwritten:
            self._look_around()
        self._publish()

    def _drain(self) -> Inputs:
        """What waits; where commands do, logs wait for the next commit: to search them
        takes long."""
        orders, observations = self._mailbox.drain()
        if not (orders or any(_has_orders(one) for one in observations)):
            return orders, observations
        logs: list[Observation] = []
        others: list[Observation] = []
        for one in observations:
            (logs if isinstance(one, seen.LogsRead) else others).append(one)
        self._mailbox.put_back([([], logs)])
        return orders, others

    def _mind_steps(self) -> None:
        """Tell of a wall clock that was set; who waits for a time is judged anew."""
        step = 0.0 if self._writer.unwritten else self._timeline.take_step()
        if not step:
            return
        draft = self._draft()
        draft.emit(step_warned(step))
        self._telemetry.blind()
        self._volatile.to_judge |= self.state.jobs.keys()
        self._write(draft.commit())

    def _forget_known(self, observations: Sequence[Observation]) -> None:
        """Commands carried out by a predecessor that could not clear its inbox."""
        self._poller.forget_orders(
            order.command_id
            for taken in observations
            if isinstance(taken, seen.OrdersTaken)
            for order in taken.orders
            if order.command_id in self.state.commands
        )

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
        context = self._desk(draft)
        judged = set(touched)
        for order in orders:
            obey(context, order)
        for observation in observations:
            judged.update(self._intake.take(context, observation))
            self._poller.note(observation, self._clock.monotonic())
        self._telemetry.watch_stalls(context)
        self._intake.effects.wait_no_longer(context)
        self._intake.submissions.settle_cancels(context)
        settle(context, judged)
        self._volatile.reworded |= context.reworded
        self._note_queued(draft)

    def _salvage(
        self,
        orders: Sequence[Order],
        observations: Sequence[Observation],
        touched: set[str],
    ) -> None:
        """Decide input by input; the one that raises is dropped and reported."""
        self._parts.log_fault(traceback.format_exc())
        self._rebuild()
        self._volatile.to_judge |= touched
        single: deque[Inputs] = deque(
            [
                *(([order], []) for order in orders),
                *(([], [observation]) for observation in observations),
            ]
        )
        while single and not self._writer.unwritten:
            some_orders, some_observations = single.popleft()
            draft = self._draft()
            try:
                self._fill(draft, some_orders, some_observations, set())
            except Exception as bug:  # noqa: BLE001 - reported as an event below
                self._rebuild()
                draft = self._draft()
                draft.emit(self._fault(bug, some_orders, some_observations))
            self._finish(draft, some_orders)
        self._mailbox.put_back(single)

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
        if draft.records:
            self._touched.update(draft.touched)
            self._write(draft.commit())
        else:
            self._publisher.note_moves(self._clock.monotonic())

    # --------------------------------------------------------------- write, apply
    def _write(self, records: list[Recorded]) -> bool:
        """Append and sync, then let the events be true. False: they are not (yet)."""
        match self._writer.write(records):
            case Written.DURABLE:
                self._make_true(records)
                return True
            case Written.HELD:
                self._publisher.dirty = True
            case Written.DEPOSED:
                self._stop()
            case Written.TOO_EARLY:
                pass
        return False

    def _rotate(self) -> None:
        """Go on in a new part of the journal when the present one has grown long."""
        rotated = None if self._writer.unwritten else self._parts.journal.rotation()
        if rotated is not None:
            draft = self._draft()
            draft.emit(rotated)
            self._write(draft.commit())

    def _make_true(self, records: Sequence[Recorded]) -> None:
        for record in records:
            apply(self.state, record)
        touched, self._touched = self._touched, set()
        self._poller.logs.touch(touched)
        self._telemetry.note_ends(touched)
        self._publisher.note(records, touched)
        self._publisher.dirty = True
        commands = (record.command_id for record in records if record.command_id)
        self._poller.forget_orders(dict.fromkeys(commands))
        if any(isinstance(record.event, events.EngineStopped) for record in records):
            self._stop()
        self._dispatcher.dispatch(self.state, self._clock.monotonic())

    def _stop(self) -> None:
        self.stopped = True
        self._publisher.dirty = True

    # ---------------------------------------------------------------- look around
    def _look_around(self) -> None:
        if self._health.deposed:
            self._stop()
        if self.stopped:
            return
        now = self._clock.monotonic()
        self._dispatcher.dispatch(self.state, now)
        self._poller.look(now, self._timeline.now().t)
        self._stop_when_idle()

    def _stop_when_idle(self) -> None:
        if self._health.stop_when_idle and not self._volatile.roster.active:
            self._health.stop_when_idle = False
            draft = self._draft()
            stopped = events.EngineStopped(
                reason="stopped with its jobs", on_request=True
            )
            draft.emit(stopped)
            self._write(draft.commit())

    # --------------------------------------------------------------------- helpers
    def _draft(self) -> Draft:
        return Draft(self.state, self._timeline.now(), self._parts.lease.epoch)

    def _desk(self, draft: Draft) -> DecisionContext:
        return DecisionContext(
            draft=draft,
            watch=self._volatile.watch,
            timers=self._volatile.timers,
            roster=self._volatile.roster,
            outside=self._outside_facts,
            metrics=self._telemetry.metrics,
            policy=self._policy,
            verdicts=self._volatile.verdicts,
        )

    @property
    def _policy(self) -> Policy:
        size = self._parts.sources.executor.array_size
        return replace(self._parts.policy, array_size=size)

    def _note_queued(self, draft: Draft) -> None:
        for record in draft.records:
            job = getattr(record.event, "job", "")
            if job and job in draft.state.jobs:
                self._intake.note_state(draft.job(job))

    def next_wake(self) -> float:
        """Seconds until the next commit has something to do."""
        now = self._clock.monotonic()
        if self._writer.unwritten:
            return max(0.0, self._writer.next_try - now)
        times = [now + IDLE_SECONDS, *self._poller.next_at(now)]
        due = self._volatile.timers.next_at()
        if due is not None:
            times.append(self._timeline.monotonic_at(due))
        if self._publisher.dirty:
            times.append(self._publisher.due_at)
        if self._volatile.to_judge:
            times.append(now)
        return max(0.0, min(times) - now)

    # --------------------------------------------------------------------- publish
    def _publish(self) -> None:
        now = self._clock.monotonic()
        if self._publisher.is_due(now, at_once=self.stopped):
            self._publisher.show(self._view(), now)

    def _view(self) -> EngineView:
        executor = self._parts.sources.executor
        return EngineView(
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
            slots_used=len(self._volatile.roster.active),
            gpus=self._parts.gpus,
            holding=self._writer.holding,
            log_file=self._parts.log_file,
            directory=str(self._parts.directory),
            owner_alive=not self._health.deposed,
        )


def _has_orders(observation: Observation) -> bool:
    return isinstance(observation, seen.OrdersTaken) and bool(observation.orders)


def _stops_jobs(order: Order) -> bool:
    return isinstance(order.command, StopEngine) and order.command.cancel_jobs
