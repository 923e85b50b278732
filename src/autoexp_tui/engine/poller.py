"""When to look outside, and at what: the executor, files, logs, the inbox, the lease.

Each look runs on a pool, at most one of a kind at a time; answers return as
observations. A nudge (a changed directory) only makes the next look come sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from autoexp_tui.conditions.watch import Watch
from autoexp_tui.engine.executor_port import Executor, PollAnswer, Task
from autoexp_tui.engine.fact_poller import FactRounds
from autoexp_tui.engine.log_poller import LogCursor, LogRounds
from autoexp_tui.engine.ports import Pool
from autoexp_tui.engine.reading_ports import FactSource, LogSource
from autoexp_tui.engine.session_ports import Inbox, Lease
from autoexp_tui.model import observations as seen
from autoexp_tui.model.observations import Observation

HEARTBEAT_SECONDS = 30.0
INBOX_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The outside as the lookout needs it."""

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


@dataclass(slots=True)
class Lookout:
    """Due times (monotonic seconds) and which looks are under way."""

    sources: Sources
    post: Callable[[Observation], None]
    due: dict[str, float] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    _nudged: set[str] = field(default_factory=set)
    facts: FactRounds = field(init=False)
    log_rounds: LogRounds = field(init=False)

    def __post_init__(self) -> None:
        at = self.sources
        self.facts = FactRounds(
            at.facts, at.file_pool, at.command_pool, at.place_of, self.post
        )
        self.log_rounds = LogRounds(at.logs, at.log_pool, at.place_of, self.post)

    def is_due(self, what: str, now: float) -> bool:
        """Whether `what` should be looked at; never while a look is under way."""
        return what not in self.busy and self.due.get(what, now) <= now

    def nudge(self, what: str) -> None:
        """Look at `what` at the next opportunity."""
        self.due.pop(what, None)
        self._nudged.add(what)

    def outside(self, watch: Watch, now: float, t: float, poll_seconds: float) -> None:
        """Every fact that is due, and what became of the looks under way.

        Args:
            watch: who waits for what.
            now: monotonic seconds.
            t: the same moment.
            poll_seconds: between two looks at what changes.
        """
        self.facts.want(watch.take_wanted(), now, poll_seconds)
        if "facts" in self._nudged:
            self.facts.hurry(now)
        self._nudged.clear()
        self.facts.look(now, t, poll_seconds, watch.is_read)
        self.log_rounds.tend(now, t)

    def next_at(self, kinds: Iterable[str], now: float) -> float | None:
        """When the next look of these kinds is due."""
        times = [self.due.get(kind, now) for kind in kinds if kind not in self.busy]
        return min(times, default=None)

    # --------------------------------------------------------------------- looks
    def poll(self, tasks: Sequence[Task], now: float) -> None:
        """One look at the executor."""

        def call() -> Observation:
            try:
                return seen.Polled(answer=self.sources.executor.poll(tasks))
            except OSError as error:
                return seen.Polled(answer=PollAnswer(error=str(error)))

        wait = self.sources.executor.poll_seconds
        self._look("executor", self.sources.poll_pool, call, now + wait)

    def logs(self, cursors: Sequence[LogCursor], now: float, t: float) -> None:
        """One look at these logs; those that are being looked at are left out."""
        if cursors:
            self.log_rounds.send(cursors)
            self.log_rounds.tend(now, t)

    def inbox(self, now: float) -> None:
        """Fetch commands that other processes left."""
        self._look(
            "inbox",
            self.sources.house_pool,
            lambda: seen.OrdersTaken(orders=tuple(self.sources.inbox.take())),
            now + INBOX_SECONDS,
        )

    def heartbeat(self, now: float) -> None:
        """Show that we live, and learn whether we still own the session."""

        def call() -> Observation:
            try:
                return seen.Heartbeat(ours=self.sources.lease.heartbeat())
            except OSError as error:
                return seen.Heartbeat(ours=True, problem=str(error))

        self._look("heartbeat", self.sources.house_pool, call, now + HEARTBEAT_SECONDS)

    def orders_done(self, command_ids: Sequence[str]) -> None:
        """Their events are synced: the inbox may forget the commands."""
        self.sources.house_pool.submit(
            f"done {command_ids[0]}",
            lambda: self.sources.inbox.done(command_ids),
            self._only_faults("inbox"),
        )

    def _look(
        self, what: str, pool: Pool, call: Callable[[], Observation], next_due: float
    ) -> None:
        def done(answer: object, problem: BaseException | None) -> None:
            self.busy.discard(what)
            if problem is not None:
                self.post(seen.call_failed(what, problem))
            else:
                self.post(answer)  # type: ignore[arg-type]

        self.due[what] = next_due
        self.busy.add(what)
        if not pool.submit(what, call, done):
            self.busy.discard(what)

    def _only_faults(self, what: str) -> Callable[[object, BaseException | None], None]:
        def done(_: object, problem: BaseException | None) -> None:
            if problem is not None:
                self.post(seen.call_failed(what, problem))

        return done
