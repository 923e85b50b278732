"""When to look outside, and at what: the executor, files, logs, the inbox, the lease.

Looks only; what they show comes back as observations. Each look runs on a pool, at most
one of a kind at a time. A nudge (a changed directory) makes the next look come sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.ephemeral_state import EphemeralState
from autoexp_tui.engine.executor_port import Executor, PollAnswer, Task
from autoexp_tui.engine.fact_poller import FactPoller
from autoexp_tui.engine.log_poller import LogPoller, LogProbe
from autoexp_tui.engine.mount_workers import MountWorkers
from autoexp_tui.engine.observation_handlers import ObservationHandlers
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.ports import FactSource, Inbox, Lease, LogSource, Pool
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.model.state import Attempt, SessionState
from autoexp_tui.model.states import Outcome

HEARTBEAT_SECONDS: Final = 30.0
INBOX_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The outside as the poller needs it."""

    executor: Executor
    facts: FactSource
    logs: LogSource
    inbox: Inbox
    lease: Lease
    poll_pool: Pool
    file_pool: Pool
    log_pool: Pool
    command_pool: Pool
    house_pool: Pool
    """For the session's own directory: inbox and lease."""
    place_of: Callable[[str], str] = lambda _path: "/"
    """The file system of a path, told without touching it."""


class Poller:
    """Sends a look wherever one is due. Times are monotonic seconds."""

    def __init__(
        self,
        state: SessionState,
        ephemeral: EphemeralState,
        sources: Sources,
        dispatcher: Dispatcher,
        telemetry: Telemetry,
        handlers: ObservationHandlers,
        post: Callable[[Observation], None],
    ) -> None:
        self._state = state
        self._ephemeral = ephemeral
        self._sources = at = sources
        self._dispatcher = dispatcher
        self._handlers = handlers
        self._post = post
        self._due: dict[str, float] = {}
        self._busy: set[str] = set()
        """Looks under way."""
        self._nudged: set[str] = set()
        self._facts = FactPoller(
            at.facts, at.file_pool, at.command_pool, at.place_of, post
        )
        self.logs = LogPoller(
            state,
            ephemeral,
            telemetry,
            handlers.runs,
            dispatcher.outside.attempt_dir,
            MountWorkers("logs", at.log_pool, at.place_of, LogProbe(at.logs), post),
        )

    def restart(self) -> None:
        """What is volatile is made anew."""
        self._facts.restart()
        self.logs.restart()

    def nudge(self, kind: str) -> None:
        """Look at this kind at the next opportunity. Any thread may call it."""
        self._due.pop(kind, None)
        self._nudged.add(kind)

    def note(self, observation: Observation, now: float) -> None:
        """Learn from an answer when to look again."""
        match observation:
            case seen.JobsOpened():
                self.logs.open(observation.jobs)
            case seen.LogsRead():
                self.logs.note(observation, now)
            case seen.FactsSeen():
                self._facts.note(observation, now, self._poll_seconds())
            case _:
                pass

    def look(self, now: float, t: float) -> None:
        """Every look that is due; `t` is the same moment."""
        if self._is_due("inbox", now):
            self._take_orders(now)  # before logs, whose answer takes a commit's time
        if self._is_due("executor", now) and (tasks := self._list_open_tasks()):
            self._poll_executor(tasks, now)
        watch = self._ephemeral.watch
        self._handlers.forget(watch.take_dropped())
        self._facts.want(watch.take_wanted(), now, self._poll_seconds())
        if "facts" in self._nudged:
            self._facts.hurry(now)
        self._nudged.clear()
        self._facts.look(now, t, watch.is_read)
        self.logs.look(now, t)
        if self._is_due("heartbeat", now):
            self._send_heartbeat(now)

    def next_at(self, now: float) -> list[float]:
        """When something is to be looked at or sent again."""
        kinds = {"inbox", "heartbeat"} - self._busy
        if self._ephemeral.roster.active and "executor" not in self._busy:
            kinds.add("executor")
        times = [
            *(self._due.get(kind, now) for kind in kinds),
            self._facts.next_at(),
            self.logs.next_at(now),
            self._dispatcher.next_at(self._state),
        ]
        return [at for at in times if at is not None]

    def _poll_seconds(self) -> float:
        plan = self._state.plan
        return plan.monitoring.poll_seconds if plan else 1.0

    def _is_due(self, kind: str, now: float) -> bool:
        return kind not in self._busy and self._due.get(kind, now) <= now

    # ------------------------------------------------------------------------- looks
    def _list_open_tasks(self) -> list[Task]:
        roster = self._ephemeral.roster
        jobs = [
            self._state.jobs[name]
            for name in (*sorted(roster.active), *sorted(roster.lost))
        ]
        return [
            self._dispatcher.find_task(job, attempt.number)
            for job in jobs
            for attempt in job.attempts[-1:]
            if attempt.outcome in (None, Outcome.LOST) and _is_known(attempt)
        ]

    def _poll_executor(self, tasks: Sequence[Task], now: float) -> None:
        executor = self._sources.executor

        def call() -> Observation:
            try:
                return seen.Polled(answer=executor.poll(tasks))
            except OSError as error:
                return seen.Polled(answer=PollAnswer(error=str(error)))

        due = now + executor.poll_seconds
        self._submit("executor", self._sources.poll_pool, call, due)

    def _take_orders(self, now: float) -> None:
        """Fetch commands that other processes left."""

        def call() -> Observation:
            return seen.OrdersTaken(orders=tuple(self._sources.inbox.take()))

        self._submit("inbox", self._sources.house_pool, call, now + INBOX_SECONDS)

    def _send_heartbeat(self, now: float) -> None:
        """Show that we live, and learn whether we still own the session."""

        def call() -> Observation:
            try:
                return seen.Heartbeat(ours=self._sources.lease.heartbeat())
            except OSError as error:
                return seen.Heartbeat(ours=True, problem=str(error))

        due = now + HEARTBEAT_SECONDS
        self._submit("heartbeat", self._sources.house_pool, call, due)

    def forget_orders(self, command_ids: Iterable[str]) -> None:
        """Their events are synced: the inbox may forget the commands."""
        ids = list(command_ids)

        def done(_: object, problem: BaseException | None) -> None:
            if problem is not None:
                self._post(seen.call_failed("inbox", problem))

        def call() -> None:
            self._sources.inbox.done(ids)

        if ids:
            self._sources.house_pool.submit(f"done {ids[0]}", call, done)

    def _submit(
        self, kind: str, pool: Pool, call: Callable[[], Observation], next_due: float
    ) -> None:
        def done(answer: object, problem: BaseException | None) -> None:
            self._busy.discard(kind)
            if problem is not None:
                self._post(seen.call_failed(kind, problem))
            else:
                self._post(answer)  # type: ignore[arg-type]

        self._due[kind] = next_due
        self._busy.add(kind)
        if not pool.submit(kind, call, done):
            self._busy.discard(kind)


def _is_known(attempt: Attempt) -> bool:
    """Whether the executor answered for it: before that, its absence says nothing."""
    return attempt.submitted_at is not None or attempt.run >= 0
