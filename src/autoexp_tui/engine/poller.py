"""When to look outside, and at what: the executor, files, logs, the inbox, the lease.

Looks only; what they show comes back as observations. Each look runs on a pool, at most
one of a kind at a time. A nudge (a changed directory) makes the next look come sooner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.adaptive_poller import AdaptivePoller
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.ephemeral_state import EphemeralState
from autoexp_tui.engine.executor_port import Executor, PollAnswer, Task
from autoexp_tui.engine.log_poller import LogPoller, LogProbe
from autoexp_tui.engine.mount_workers import SILENT_SECONDS, MountWorkers, Probe
from autoexp_tui.engine.observation_handlers import ObservationHandlers
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.ports import FactSource, Inbox, Lease, LogSource, Pool
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.model.facts import (
    CommandKey,
    Fact,
    GlobKey,
    LogKey,
    OutsideKey,
    Silence,
    StatKey,
    TextKey,
)
from autoexp_tui.model.state import Attempt, SessionState
from autoexp_tui.model.states import Outcome

FileKey: TypeAlias = StatKey | GlobKey | TextKey | LogKey
FileFact: TypeAlias = tuple[FileKey, Fact]

COLD_SECONDS: Final = 15.0
"""Between two looks at a file that has not changed for long, where many are watched."""
FREE_LOOKS: Final = 20.0
"""Looks a second that cost nothing worth saving: so few files are all kept hot."""
COMMAND_SECONDS: Final = 5.0
"""Between two runs of a command, at least."""
MOST_COMMAND_SECONDS: Final = 300.0
_COMMAND_BACKOFF: Final = 2.0
_REST: Final = 4.0
"""A slow command rests for at least so many times what it took."""
MOST_COMMANDS: Final = 4
"""Commands that run at a time, those apart that are long overdue."""
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
            case seen.OrdersTaken():
                known = self._state.commands  # a predecessor could not clear its inbox
                ids = [one.command_id for one in observation.orders]
                self.forget_orders(one for one in ids if one in known)
            case _:
                pass

    def look(self, now: float, t: float) -> None:
        """Every look that is due; `t` is the same moment."""
        if self._is_due("inbox", now):
            # Before logs, whose answer takes a commit's time.
            inbox, pool = self._sources.inbox, self._sources.house_pool
            self._submit(
                "inbox",
                pool,
                lambda: seen.OrdersTaken(orders=tuple(inbox.take())),
                now + INBOX_SECONDS,
            )
        if self._is_due("executor", now) and (tasks := self._list_open_tasks()):
            executor, pool = self._sources.executor, self._sources.poll_pool
            due = now + executor.poll_seconds
            self._submit("executor", pool, lambda: _poll(executor, tasks), due)
        watch = self._ephemeral.watch
        self._handlers.forget(watch.take_dropped())
        self._facts.want(watch.take_wanted(), now, self._poll_seconds())
        if "facts" in self._nudged:
            self._facts.hurry(now)
        self._nudged.clear()
        self._facts.look(now, t, watch.is_read)
        self.logs.look(now, t)
        if self._is_due("heartbeat", now):
            lease, pool = self._sources.lease, self._sources.house_pool
            due = now + HEARTBEAT_SECONDS
            self._submit("heartbeat", pool, lambda: _beat(lease), due)

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


def _poll(executor: Executor, tasks: Sequence[Task]) -> Observation:
    """One look at the executor."""
    try:
        return seen.Polled(answer=executor.poll(tasks))
    except OSError as error:
        return seen.Polled(answer=PollAnswer(error=str(error)))


def _beat(lease: Lease) -> Observation:
    """Show that we live, and learn whether we still own the session."""
    try:
        return seen.Heartbeat(ours=lease.heartbeat())
    except OSError as error:
        return seen.Heartbeat(ours=True, problem=str(error))


def _is_known(attempt: Attempt) -> bool:
    """Whether the executor answered for it: before that, its absence says nothing."""
    return attempt.submitted_at is not None or attempt.run >= 0


# ---------------------------------------------------------------------------- facts
class FactPoller:
    """Looks at what is due. Used by the engine's thread alone."""

    def __init__(
        self,
        source: FactSource,
        file_pool: Pool,
        command_pool: Pool,
        mount_of: Callable[[str], str],
        post: Callable[[Observation], None],
    ) -> None:
        self._files: AdaptivePoller[FileKey] = AdaptivePoller()
        self._workers = MountWorkers(
            "facts", file_pool, mount_of, FileProbe(source), post
        )
        self._commands = CommandPoller(source, command_pool, post)

    def restart(self) -> None:
        """Whoever waits asks anew."""
        self._files = AdaptivePoller()

    def want(self, keys: Iterable[OutsideKey], now: float, poll_seconds: float) -> None:
        """Somebody asks for these just now, or has reason to ask again."""
        for key in keys:
            if isinstance(key, CommandKey):
                self._commands.schedule.want([key], now, COMMAND_SECONDS)
            else:
                self._files.want([key], now, poll_seconds)

    def hurry(self, now: float) -> None:
        """Files may have changed: look at all of them."""
        self._files.hurry(now)

    def note(self, got: seen.FactsSeen, now: float, poll_seconds: float) -> None:
        """Learn from answers when to look again."""
        longest = min(COLD_SECONDS, len(self._files) / FREE_LOOKS)
        for key, fact in got.facts:
            if not isinstance(key, CommandKey) and fact.silence is None:
                changed = self._files.is_news(key, (fact.value, fact.error))
                self._files.settle(
                    key, now, changed=changed, shortest=poll_seconds, longest=longest
                )

    def look(
        self, now: float, t: float, is_wanted: Callable[[OutsideKey], bool]
    ) -> None:
        """Look at everything that is due; `now` is monotonic, `t` the same moment."""
        due = self._files.take_due(now, is_wanted)
        # Neighbours share their reading.
        self._workers.send(sorted(due, key=self._workers.probe.path))
        self._workers.tend(now, t)
        self._commands.look(now, t, is_wanted)

    def next_at(self) -> float | None:
        """When something is due, monotonic."""
        times = (self._files.next_at(), self._commands.next_at())
        return min((at for at in times if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class FileProbe(Probe[FileKey, FileFact]):
    """How facts of files are looked at."""

    source: FactSource

    def key(self, item: FileKey) -> Hashable:
        return item

    def path(self, item: FileKey) -> str:
        return item.pattern if isinstance(item, GlobKey) else item.path

    def read(self, items: Sequence[FileKey]) -> Iterator[FileFact]:
        return zip(items, self.source.observe_all(items), strict=True)

    def report(self, answers: Sequence[FileFact]) -> Observation:
        return seen.FactsSeen(facts=tuple(answers))

    def report_silence(
        self, items: Sequence[OutsideKey], silence: Silence, t: float
    ) -> Observation:
        return _report_unknown(items, silence, t)


def _report_unknown(
    keys: Sequence[OutsideKey], silence: Silence, t: float
) -> seen.FactsSeen:
    fact = Fact(None, t, f"no answer from {silence.place}", silence)
    return seen.FactsSeen(facts=tuple((key, fact) for key in keys))


# ----------------------------------------------------------------------- commands
@dataclass(slots=True, eq=False)
class CommandRun:
    """One run of a command."""

    key: CommandKey
    begun_at: float
    fact: Fact | None = None
    is_late: bool = False


class CommandPoller:
    """Which command is asked when: a few at a time, and seldom when it never passes."""

    def __init__(
        self, source: FactSource, pool: Pool, post: Callable[[Observation], None]
    ) -> None:
        self.schedule: AdaptivePoller[CommandKey] = AdaptivePoller()
        self._source = source
        self._pool = pool
        self._post = post
        self._running: list[CommandRun] = []
        self._ended: deque[CommandRun] = deque()

    def look(
        self, now: float, t: float, is_wanted: Callable[[OutsideKey], bool]
    ) -> None:
        """Take what ended, report what is late, begin what is due."""
        while self._ended:
            self._settle(self._ended.popleft(), now)
        for run in self._running:
            self._report_late(run, now, t)
        for key in self.schedule.take_due(now, is_wanted, most=self._count_free()):
            self._begin(CommandRun(key, now))

    def next_at(self) -> float | None:
        """When the next one is due; None: none is, until one ends."""
        return self.schedule.next_at() if self._count_free() > 0 else None

    def _count_free(self) -> int:
        return MOST_COMMANDS - sum(not run.is_late for run in self._running)

    def _begin(self, run: CommandRun) -> None:
        name = f"command {run.key}"

        def call() -> None:
            run.fact = self._source.observe(run.key)

        def done(_: object, problem: BaseException | None) -> None:
            self._ended.append(run)
            if problem is not None:
                self._post(seen.call_failed(name, problem))
            elif run.fact is not None:
                self._post(seen.FactsSeen(facts=((run.key, run.fact),)))

        self._running.append(run)
        if not self._pool.submit(name, call, done):
            self._ended.append(run)

    def _settle(self, run: CommandRun, now: float) -> None:
        """Only its exit code counts as a change, not what it printed."""
        self._running.remove(run)
        fact, took = run.fact, now - run.begun_at
        outcome = fact and (getattr(fact.value, "exit_code", None), bool(fact.error))
        self.schedule.settle(
            run.key,
            now,
            changed=self.schedule.is_news(run.key, outcome),
            shortest=min(max(COMMAND_SECONDS, took * _REST), MOST_COMMAND_SECONDS),
            longest=MOST_COMMAND_SECONDS,
            factor=_COMMAND_BACKOFF,
        )

    def _report_late(self, run: CommandRun, now: float, t: float) -> None:
        """A command that its own time limit does not end hangs in the kernel."""
        took = now - run.begun_at
        if not run.is_late and took > run.key.timeout + SILENT_SECONDS:
            run.is_late = True
            silence = Silence(" ".join(run.key.command), t - took)
            self._post(_report_unknown([run.key], silence, t))
