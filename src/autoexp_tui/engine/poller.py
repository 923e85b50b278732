"""When to look outside, and at what: the executor, files, logs, the inbox, the lease.
Each look runs on a pool, and what it shows comes back as an observation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from math import inf
from typing import Final, TypeAlias

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.ephemeral_state import EphemeralState
from autoexp_tui.engine.executor_port import PollAnswer
from autoexp_tui.engine.log_poller import LogPoller
from autoexp_tui.engine.looks import Looks
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.ports import Parts, PoolKey
from autoexp_tui.engine.run_reports import RunReports
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.model.facts import CommandKey, Fact, GlobKey, OutsideKey, Silence
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Outcome

FactLooks: TypeAlias = Looks[OutsideKey, OutsideKey, tuple[OutsideKey, Fact]]

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


@dataclass(slots=True)
class Poller:
    """Sends a look wherever one is due. Times are monotonic seconds."""

    state: SessionState
    ephemeral: EphemeralState
    parts: Parts
    dispatcher: Dispatcher
    telemetry: InitVar[Telemetry]
    runs: InitVar[RunReports]
    post: Callable[[Observation], None]
    facts: FactPoller = field(init=False)
    logs: LogPoller = field(init=False)
    poll_seconds: float = 1.0
    _outside: dict[OutsideKey, Fact] = field(init=False)
    _due: dict[str, float] = field(default_factory=dict)
    _busy: set[str] = field(default_factory=set)
    """Looks under way."""

    def __post_init__(self, telemetry: Telemetry, runs: RunReports) -> None:
        parts, ephemeral = self.parts, self.ephemeral
        self._outside = runs.outside
        self.facts = FactPoller(
            parts, lambda key: ephemeral.watch.is_read(key), self.post
        )
        self.logs = LogPoller(self.state, ephemeral, telemetry, runs, parts, self.post)

    def hurry_executor(self) -> None:
        """Ask the executor at the next opportunity. Any thread may call it."""
        self._due.pop("executor", None)

    def look(self, now: float, t: float) -> None:
        """Every look that is due; `t` is the same moment."""
        watch, plan = self.ephemeral.watch, self.state.plan
        self.poll_seconds = plan.monitoring.poll_seconds if plan else 1.0
        own = {"inbox", "executor", "heartbeat"} - self._busy
        due = {kind for kind in own if self._due.get(kind, now) <= now}
        if "inbox" in due:
            # Before logs, whose answer takes a commit's time.
            take, again = self.parts.inbox.take, now + INBOX_SECONDS
            self._submit(
                "inbox", "house", lambda: seen.OrdersTaken(orders=(*take(),)), again
            )
        if "executor" in due:
            self._ask_executor(now)
        if watch.dropped:
            for key in watch.take_dropped():  # an old look must not count as a new one
                self._outside.pop(key, None)
        if watch.wanted:
            self.facts.want(watch.take_wanted(), now, self.poll_seconds)
        self.facts.look(now, t)
        self.logs.look(now, t, self.poll_seconds)
        if "heartbeat" in due:
            self._submit("heartbeat", "house", self._beat, now + HEARTBEAT_SECONDS)

    def next_at(self, now: float) -> list[float]:
        """When something is to be looked at or sent again."""
        kinds = {"inbox", "heartbeat"} - self._busy
        if self.ephemeral.roster.active and "executor" not in self._busy:
            kinds.add("executor")
        times = [
            *(self._due.get(kind, now) for kind in kinds),
            *self.facts.list_next(),
            self.logs.next_at(now),
            self.dispatcher.next_at(self.state),
        ]
        return [at for at in times if at is not None]

    def _ask_executor(self, now: float) -> None:
        roster, executor = self.ephemeral.roster, self.parts.executor
        names = (*sorted(roster.active), *sorted(roster.lost))
        tasks = [
            self.dispatcher.find_task(job, attempt.number)
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
            return seen.Heartbeat(ours=self.parts.lease.heartbeat())
        except OSError as error:
            return seen.Heartbeat(ours=True, problem=str(error))

    def forget_orders(self, command_ids: Iterable[str]) -> None:
        """Their events are synced: the inbox may forget the commands."""
        ids = list(command_ids)

        def done(_: object, problem: BaseException | None) -> None:
            if problem is not None:
                self.post(seen.call_failed("inbox", problem))

        if ids:
            inbox, pool = self.parts.inbox, self.parts.pools["house"]
            pool.submit(f"done {ids[0]}", lambda: inbox.done(ids), done)

    def _submit(
        self, kind: str, pool: PoolKey, call: Callable[[], Observation], due: float
    ) -> None:
        def done(answer: object, problem: BaseException | None) -> None:
            self._busy.discard(kind)
            if problem is not None:
                self.post(seen.call_failed(kind, problem))
            else:
                self.post(answer)  # type: ignore[arg-type]

        self._due[kind] = due
        self._busy.add(kind)
        if not self.parts.pools[pool].submit(kind, call, done):
            self._busy.discard(kind)


class FactPoller:
    """Looks at files that are due, and runs commands: a few at a time, and seldom when
    they never pass."""

    def __init__(
        self,
        parts: Parts,
        is_read: Callable[[OutsideKey], bool],
        post: Callable[[Observation], None],
    ) -> None:
        """`is_read`: whether anybody waits for it still."""
        source, self._is_read = parts.facts, is_read

        def place(key: OutsideKey) -> tuple[str, OutsideKey]:
            if isinstance(key, CommandKey):
                return " ".join(key.command), key
            path = key.pattern if isinstance(key, GlobKey) else key.path
            return parts.place_of(path), key

        def read(keys: Sequence[OutsideKey]) -> Iterator[tuple[OutsideKey, Fact]]:
            return zip(keys, source.observe_all(keys), strict=True)

        def report(facts: Sequence[tuple[OutsideKey, Fact]]) -> Observation:
            return seen.FactsSeen(facts=tuple(facts))

        kinds = (place, read, report, post, _report_unknown)
        self.files: FactLooks = Looks("facts", parts.pools["files"], *kinds)
        self.commands: FactLooks = Looks(
            "command",
            parts.pools["command"],
            *kinds,
            find_patience=lambda key: getattr(key, "timeout", 0.0),
        )

    def want(self, keys: Iterable[OutsideKey], now: float, poll_seconds: float) -> None:
        """Somebody asks for these just now, or has reason to ask again."""
        for key in keys:
            if isinstance(key, CommandKey):
                self.commands.want(key, now, COMMAND_SECONDS)
            else:
                self.files.want(key, now, poll_seconds)

    def settle(
        self,
        key: OutsideKey,
        now: float,
        poll_seconds: float,
        began: float,
        *,
        changed: bool,
    ) -> None:
        """A look that `began` then is over."""
        if isinstance(key, CommandKey):
            rest = max(COMMAND_SECONDS, (now - began) * _REST)
            self.commands.settle(
                key,
                now,
                changed=changed,
                shortest=min(rest, MOST_COMMAND_SECONDS),
                longest=MOST_COMMAND_SECONDS,
                factor=_COMMAND_BACKOFF,
            )
        else:
            cold = min(COLD_SECONDS, len(self.files.entries) / FREE_LOOKS)
            self.files.settle(
                key, now, changed=changed, shortest=poll_seconds, longest=cold
            )

    def look(self, now: float, t: float) -> None:
        """Look at everything that is due; `now` is monotonic, `t` the same moment."""
        for looks in (self.files, self.commands):
            if looks.is_active or (looks.heap and looks.heap[0][0] <= now):
                most = inf if looks is self.files else MOST_COMMANDS - looks.running
                looks.look(now, t, self._is_read, most=most)

    def list_next(self) -> list[float | None]:
        """When something is due, monotonic; None: nothing is, until an answer comes."""
        is_full = self.commands.running >= MOST_COMMANDS
        return [self.files.next_at(), None if is_full else self.commands.next_at()]


def _report_unknown(
    keys: Sequence[OutsideKey], silence: Silence, t: float
) -> seen.FactsSeen:
    fact = Fact(None, t, f"no answer from {silence.place}", silence)
    return seen.FactsSeen(facts=tuple((key, fact) for key in keys))
