"""When to look outside, and at what: the executor, files, logs, the inbox, the lease.

Each look runs on a pool, at most one of a kind at a time; answers return as
observations. A nudge (a changed directory) only makes the next look come sooner.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from autoexp_tui.core.facts import CommandKey, OutsideKey
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.observations import LogRead, Observation
from autoexp_tui.engine.ports import (
    Executor,
    FactSource,
    Inbox,
    Lease,
    LogSource,
    PollAnswer,
    Pool,
    Task,
)

LOG_CHUNK = 1 << 20
"""Bytes read from one log at a look."""
LOOK_BYTES = 4 << 20
"""Bytes of all logs at a look, so that one commit stays short."""
TAIL_BYTES = 8192
"""Bytes of a log's end that evidence is taken from."""
HEARTBEAT_SECONDS = 30.0
INBOX_SECONDS = 1.0
COMMAND_SECONDS = 5.0
"""Between two runs of a command condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCursor:
    """Where the reading of one run's log stands."""

    job: str
    attempt: int
    run: int
    path: str
    offset: int
    final: bool = False


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


@dataclass(slots=True)
class Lookout:
    """Due times (monotonic seconds) and which looks are under way."""

    sources: Sources
    post: Callable[[Observation], None]
    due: dict[str, float] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    _commands: dict[CommandKey, float] = field(default_factory=dict)

    def is_due(self, what: str, now: float) -> bool:
        """Whether `what` should be looked at; never while a look is under way."""
        return what not in self.busy and self.due.get(what, now) <= now

    def nudge(self, what: str) -> None:
        """Look at `what` at the next opportunity."""
        self.due.pop(what, None)

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

    def facts(
        self, keys: Iterable[OutsideKey], now: float, poll_seconds: float
    ) -> None:
        """One look at all files somebody waits for; commands each on their own."""
        files: list[OutsideKey] = []
        for key in keys:
            if isinstance(key, CommandKey):
                self._command(key, now)
            else:
                files.append(key)
        if files:
            self._look(
                "facts",
                self.sources.file_pool,
                lambda: self._observe(files),
                now + poll_seconds,
            )
        else:
            self.due["facts"] = now + poll_seconds

    def _observe(self, keys: Sequence[OutsideKey]) -> Observation:
        observe = self.sources.facts.observe
        return seen.FactsSeen(facts=tuple((key, observe(key)) for key in keys))

    def _command(self, key: CommandKey, now: float) -> None:
        name = f"command {key}"
        if name in self.busy or self._commands.get(key, now) > now:
            return
        self._commands[key] = now + COMMAND_SECONDS
        self._look(name, self.sources.command_pool, lambda: self._observe([key]), now)
        self.due.pop(name, None)

    def logs(
        self, cursors: Sequence[LogCursor], now: float, poll_seconds: float
    ) -> None:
        """One look at these logs, in their order, up to `LOOK_BYTES`."""

        def call() -> Observation:
            return self._read_all(cursors)

        self._look("logs", self.sources.log_pool, call, now + poll_seconds)

    def _read_all(self, cursors: Sequence[LogCursor]) -> Observation:
        reads: list[LogRead] = []
        room = LOOK_BYTES
        for cursor in cursors:
            if room <= 0:
                break
            read = self._read(cursor)
            room -= len(read.chunk.data) if read.chunk else 0
            reads.append(read)
        left = tuple(cursor.job for cursor in cursors[len(reads) :])
        return seen.LogsRead(reads=tuple(reads), left=left)

    def _read(self, at: LogCursor) -> LogRead:
        source = self.sources.logs
        made = {"job": at.job, "attempt": at.attempt, "run": at.run}
        try:
            chunk = source.read(
                at.job,
                at.attempt,
                at.run,
                at.path,
                at.offset,
                LOG_CHUNK,
                final=at.final,
            )
            tail = source.tail(at.path, TAIL_BYTES) if at.final else ""
        except OSError as error:
            return LogRead(
                **made,  # type: ignore[arg-type]
                chunk=None,
                final=at.final,
                problem=str(error),
            )
        return LogRead(**made, chunk=chunk, final=at.final, tail=tail)  # type: ignore[arg-type]

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
                self.post(call_failed(what, problem))
            else:
                self.post(answer)  # type: ignore[arg-type]

        self.due[what] = next_due
        self.busy.add(what)
        if not pool.submit(what, call, done):
            self.busy.discard(what)

    def _only_faults(self, what: str) -> Callable[[object, BaseException | None], None]:
        def done(_: object, problem: BaseException | None) -> None:
            if problem is not None:
                self.post(call_failed(what, problem))

        return done


def call_failed(what: str, problem: BaseException, effect_id: str = "") -> Observation:
    """The observation of an outside call that raised what it should not."""
    return seen.CallFailed(
        what=what,
        effect_id=effect_id,
        problem=f"{type(problem).__name__}: {problem}",
        trace="".join(traceback.format_exception(problem)),
    )
