"""When to look outside, and at what: the executor, files, logs, the inbox, the lease.
Each look runs on a pool, and what it shows comes back as an observation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.ephemeral_state import EphemeralState
from autoexp_tui.engine.executor_port import PollAnswer
from autoexp_tui.engine.log_poller import AdaptivePoller, LogPoller, read_logs
from autoexp_tui.engine.mount_workers import SILENT_SECONDS, MountWorkers
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.ports import FactSource, Parts, Pool, PoolKey
from autoexp_tui.engine.run_reports import RunReports
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
from autoexp_tui.model.state import SessionState
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


class Poller:
    """Sends a look wherever one is due. Times are monotonic seconds."""

    def __init__(
        self,
        state: SessionState,
        ephemeral: EphemeralState,
        parts: Parts,
        dispatcher: Dispatcher,
        telemetry: Telemetry,
        runs: RunReports,
        post: Callable[[Observation], None],
    ) -> None:
        self.state = state
        self._ephemeral = ephemeral
        self._parts = parts
        self._dispatcher = dispatcher
        self._outside = runs.outside
        self._post = post
        self.poll_seconds = 1.0
        self._due: dict[str, float] = {}
        self._busy: set[str] = set()
        """Looks under way."""
        pools, place_of = parts.pools, parts.place_of
        self.facts = FactPoller(
            parts.facts, pools["files"], pools["command"], place_of, post
        )
        self.logs = LogPoller(
            state,
            ephemeral,
            telemetry,
            runs,
            parts.attempt_dir,
            MountWorkers(
                "logs",
                pools["logs"],
                place_of,
                partial(read_logs, parts.logs),
                lambda reads: seen.LogsRead(reads=tuple(reads)),
                post,
            ),
        )

    def restart(self) -> None:
        """What is volatile is made anew."""
        self.facts.restart()
        self.logs.restart()

    def hurry_executor(self) -> None:
        """Ask the executor at the next opportunity. Any thread may call it."""
        self._due.pop("executor", None)

    def look(self, now: float, t: float) -> None:
        """Every look that is due; `t` is the same moment."""
        watch, plan = self._ephemeral.watch, self.state.plan
        self.poll_seconds = plan.monitoring.poll_seconds if plan else 1.0
        own = {"inbox", "executor", "heartbeat"} - self._busy
        due = {kind for kind in own if self._due.get(kind, now) <= now}
        if "inbox" in due:
            # Before logs, whose answer takes a commit's time.
            take, again = self._parts.inbox.take, now + INBOX_SECONDS
            self._submit(
                "inbox", "house", lambda: seen.OrdersTaken(orders=(*take(),)), again
            )
        if "executor" in due:
            self._ask_executor(now)
        for key in watch.take_dropped():  # an old look must not count as a new one
            self._outside.pop(key, None)
        if wanted := watch.take_wanted():
            self.facts.want(wanted, now, self.poll_seconds)
        self.facts.look(now, t, watch.is_read)
        self.logs.look(now, t, self.poll_seconds)
        if "heartbeat" in due:
            self._submit("heartbeat", "house", self._beat, now + HEARTBEAT_SECONDS)

    def next_at(self, now: float) -> list[float]:
        """When something is to be looked at or sent again."""
        kinds = {"inbox", "heartbeat"} - self._busy
        if self._ephemeral.roster.active and "executor" not in self._busy:
            kinds.add("executor")
        times = [
            *(self._due.get(kind, now) for kind in kinds),
            self.facts.next_at(),
            self.logs.next_at(now),
            self._dispatcher.next_at(self.state),
        ]
        return [at for at in times if at is not None]

    def _ask_executor(self, now: float) -> None:
        roster, executor = self._ephemeral.roster, self._parts.executor
        names = (*sorted(roster.active), *sorted(roster.lost))
        tasks = [
            self._dispatcher.find_task(job, attempt.number)
            for job in map(self.state.jobs.__getitem__, names)
            for attempt in job.attempts[-1:]
            if attempt.outcome in (None, Outcome.LOST)
            # Before the executor has answered for it, its absence says nothing.
            and (attempt.submitted_at is not None or attempt.run >= 0)
        ]

        def call() -> Observation:
            try:
                return seen.Polled(answer=executor.poll(tasks))
            except OSError as error:
                return seen.Polled(answer=PollAnswer(error=str(error)))

        if tasks:
            due = now + executor.poll_seconds
            self._submit("executor", "poll", call, due)

    def _beat(self) -> Observation:
        """Show that we live, and learn whether we still own the session."""
        try:
            return seen.Heartbeat(ours=self._parts.lease.heartbeat())
        except OSError as error:
            return seen.Heartbeat(ours=True, problem=str(error))

    def forget_orders(self, command_ids: Iterable[str]) -> None:
        """Their events are synced: the inbox may forget the commands."""
        ids = list(command_ids)

        def done(_: object, problem: BaseException | None) -> None:
            if problem is not None:
                self._post(seen.call_failed("inbox", problem))

        if ids:
            inbox, pool = self._parts.inbox, self._parts.pools["house"]
            pool.submit(f"done {ids[0]}", lambda: inbox.done(ids), done)

    def _submit(
        self, kind: str, pool: PoolKey, call: Callable[[], Observation], due: float
    ) -> None:
        def done(answer: object, problem: BaseException | None) -> None:
            self._busy.discard(kind)
            if problem is not None:
                self._post(seen.call_failed(kind, problem))
            else:
                self._post(answer)  # type: ignore[arg-type]

        self._due[kind] = due
        self._busy.add(kind)
        if not self._parts.pools[pool].submit(kind, call, done):
            self._busy.discard(kind)


@dataclass(slots=True, eq=False)
class CommandRun:
    """One run of a command."""

    key: CommandKey
    begun_at: float
    fact: Fact | None = None
    is_late: bool = False


class FactPoller:
    """Looks at files that are due, and runs commands: a few at a time, and seldom when
    they never pass."""

    def __init__(
        self,
        source: FactSource,
        file_pool: Pool,
        command_pool: Pool,
        mount_of: Callable[[str], str],
        post: Callable[[Observation], None],
    ) -> None:
        self._source = source
        self._command_pool = command_pool
        self._post = post
        self._workers: MountWorkers[FileKey, FileFact] = MountWorkers(
            "facts",
            file_pool,
            mount_of,
            lambda keys: zip(keys, source.observe_all(keys), strict=True),
            lambda facts: seen.FactsSeen(facts=tuple(facts)),
            post,
            _report_unknown,
        )
        self._files: AdaptivePoller[FileKey] = AdaptivePoller()
        self._commands: AdaptivePoller[CommandKey] = AdaptivePoller()
        self._running: list[CommandRun] = []
        self._ended: deque[CommandRun] = deque()

    def restart(self) -> None:
        """Whoever waits asks anew."""
        self._files = AdaptivePoller()

    def want(self, keys: Iterable[OutsideKey], now: float, poll_seconds: float) -> None:
        """Somebody asks for these just now, or has reason to ask again."""
        for key in keys:
            if isinstance(key, CommandKey):
                self._commands.want(key, now, COMMAND_SECONDS)
            else:
                self._files.want(key, now, poll_seconds)

    def note(self, got: seen.FactsSeen, now: float, poll_seconds: float) -> None:
        """Learn from answers when to look again."""
        longest = min(COLD_SECONDS, len(self._files.entries) / FREE_LOOKS)
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
        due = [
            (key.pattern if isinstance(key, GlobKey) else key.path, key)
            for key in self._files.take_due(now, is_wanted)
        ]
        due.sort(key=lambda one: one[0])  # neighbours share stats and listings
        self._workers.send((key, path, key) for path, key in due)
        self._workers.tend(now, t)
        if self._running or self._commands.next_at() is not None:
            self._look_at_commands(now, t, is_wanted)

    def _look_at_commands(
        self, now: float, t: float, is_wanted: Callable[[OutsideKey], bool]
    ) -> None:
        while self._ended:
            self._settle_command(self._ended.popleft(), now)
        for run in self._running:
            took = now - run.begun_at
            if not run.is_late and took > run.key.timeout + SILENT_SECONDS:
                run.is_late = True  # its own time limit did not end it
                silence = Silence(" ".join(run.key.command), t - took)
                self._post(_report_unknown([run.key], silence, t))
        for command in self._commands.take_due(now, is_wanted, most=self._count_free()):
            self._run_command(CommandRun(command, now))

    def next_at(self) -> float | None:
        """When something is due, monotonic; None: nothing is, until an answer comes."""
        files, commands = self._files.next_at(), self._commands.next_at()
        if commands is None or self._count_free() <= 0:
            return files
        return commands if files is None else min(files, commands)

    def _count_free(self) -> int:
        return MOST_COMMANDS - sum(not run.is_late for run in self._running)

    def _run_command(self, run: CommandRun) -> None:
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
        if not self._command_pool.submit(name, call, done):
            self._ended.append(run)

    def _settle_command(self, run: CommandRun, now: float) -> None:
        """Only its exit code counts as a change, not what it printed."""
        self._running.remove(run)
        fact, took = run.fact, now - run.begun_at
        outcome = fact and (getattr(fact.value, "exit_code", None), bool(fact.error))
        self._commands.settle(
            run.key,
            now,
            changed=self._commands.is_news(run.key, outcome),
            shortest=min(max(COMMAND_SECONDS, took * _REST), MOST_COMMAND_SECONDS),
            longest=MOST_COMMAND_SECONDS,
            factor=_COMMAND_BACKOFF,
        )


def _report_unknown(
    keys: Sequence[OutsideKey], silence: Silence, t: float
) -> seen.FactsSeen:
    fact = Fact(None, t, f"no answer from {silence.place}", silence)
    return seen.FactsSeen(facts=tuple((key, fact) for key in keys))
