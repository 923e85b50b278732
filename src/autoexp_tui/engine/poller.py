"""When to look outside, and at what: the executor, files, logs, the inbox, the lease.
Each look runs on a pool, and what it shows comes back as an observation. Of logs and
files of metrics those of what runs are read, and last words: what grew with the next
poll, or a little later where very many run; what said nothing new waits longer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from itertools import islice
from math import inf
from typing import Final, TypeAlias

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import ports
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.ephemeral_state import EphemeralState
from autoexp_tui.engine.executor_port import PollAnswer
from autoexp_tui.engine.looks import BACKOFF, Looks
from autoexp_tui.engine.observations import LogRead, Observation
from autoexp_tui.engine.run_reports import RunReports
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.model.errors import format_os_reason
from autoexp_tui.model.facts import CommandKey, Fact, GlobKey, OutsideKey, Silence
from autoexp_tui.model.specs import Place
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
_REST: Final = 4.0
"""A slow command rests for at least so many times what it took."""
MOST_COMMANDS: Final = 4
"""Commands that run at a time, those apart that are long overdue."""
INBOX_SECONDS: Final = 1.0

LOOK_BYTES: Final = 4 << 20
"""Bytes of all logs at a look, so that one commit stays short."""
TAIL_BYTES: Final = 8192
"""Bytes of a log's end that evidence is taken from."""
REREAD_AT_ONCE: Final = 8
MOST_REREAD: Final = 2000
"""Ended jobs whose logs a new engine reads again: the newest."""
GPU_FILE: Final = "gpu.jsonl"
"""In an attempt's directory, by the wrapper."""
GPU_SECONDS: Final = (15.0, 60.0)
"""Between two looks for samples of GPUs, of which there is one every half minute."""
SLOWEST_SECONDS: Final = 15.0
"""Between two looks at a quiet file, at most."""
PATIENCE_SHARE: Final = 0.1
"""Of the time that the least patient rule waits: the longest between two looks."""
SLACK: Final = 0.25
"""Of a poll: files due so soon after the first are looked at with it."""
MOST_AT_ONCE: Final = 250
"""Files that are sent with one commit: the commit that reads them stays short."""
BUSY_JOBS: Final = 500
"""Jobs whose logs may grow with each poll; of more, all are read more seldom ..."""
BUSIEST_SECONDS: Final = 5.0
"""... but each is looked at so often, however many there are."""
ASKED: Final[Mapping[str, Place]] = {"executor": "main", "beside": "beside"}
"""What is asked about tasks, by the place of those that it is asked about."""


@dataclass(slots=True)
class Poller:
    """Sends a look wherever one is due. Times are monotonic seconds."""

    state: SessionState
    ephemeral: EphemeralState
    parts: ports.Parts
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
    _unsent: set[str] = field(default_factory=set)
    """Of `ASKED` those whose executor has nothing yet of all that is active there."""

    def __post_init__(self, telemetry: Telemetry, runs: RunReports) -> None:
        parts, ephemeral = self.parts, self.ephemeral
        self._outside = runs.outside
        self.facts = FactPoller(
            parts, lambda key: ephemeral.watch.is_read(key), self.post
        )
        self.logs = LogPoller(self.state, ephemeral, telemetry, runs, parts, self.post)

    def hurry_executor(self) -> None:
        """Ask the executor at the next opportunity. Any thread may call it."""
        for kind in ASKED:
            self._due.pop(kind, None)

    def look(self, now: float, t: float) -> None:
        watch, plan = self.ephemeral.watch, self.state.base
        self.poll_seconds = plan.monitoring.poll_seconds if plan else 1.0
        own = {"inbox", "heartbeat", *self._list_asked()} - self._busy
        due = {kind for kind in own if self._due.get(kind, now) <= now}
        if "inbox" in due:
            # Before logs, whose answer takes a commit's time.
            take, again = self.parts.inbox.take, now + INBOX_SECONDS
            self._submit(
                "inbox", "house", lambda: seen.OrdersTaken(orders=(*take(),)), again
            )
        for kind in ASKED:
            if kind in due:
                self._ask_executor(kind, now)
        if watch.dropped:
            for key in watch.take_dropped():  # an old look must not count as a new one
                self._outside.pop(key, None)
        if watch.wanted:
            self.facts.want(watch.take_wanted(), now, self.poll_seconds)
        self.facts.look(now, t)
        self.logs.look(now, t, self.poll_seconds)
        if "heartbeat" in due:
            again = now + self.parts.heartbeat_seconds
            self._submit("heartbeat", "house", self._beat, again)

    def next_at(self, now: float) -> list[float]:
        """When something is to be looked at or sent again."""
        kinds = {"inbox", "heartbeat"} - self._busy
        roster = self.ephemeral.roster
        for kind in self._list_asked():
            if kind not in self._unsent and roster.count_active(ASKED[kind]):
                kinds |= {kind} - self._busy
        times = [
            *(self._due.get(kind, now) for kind in kinds),
            *self.facts.list_next(),
            self.logs.next_at(now),
            self.dispatcher.next_at(self.state),
        ]
        return [at for at in times if at is not None]

    def _list_asked(self) -> list[str]:
        """The kinds of executors that there are jobs for."""
        return [*ASKED] if self.ephemeral.roster.beside else ["executor"]

    def _ask_executor(self, kind: str, now: float) -> None:
        roster, executor, place = (
            self.ephemeral.roster,
            self.parts.executor,
            ASKED[kind],
        )
        active, lost = (roster.select(n, place) for n in (roster.active, roster.lost))
        names = (*sorted(active), *sorted(lost))
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
                answer = executor.poll(tasks)
            except OSError as error:
                answer = PollAnswer(error=str(error))
            return answer if place == "main" else replace(answer, place=place)

        if tasks:
            self._unsent.discard(kind)
            due = now + self.parts.find_executor(place).poll_seconds
            self._submit(kind, "poll", call, due)
        else:
            self._unsent.add(kind)

    def _beat(self) -> Observation:
        """Show that we live, and learn whether we still own the session."""
        try:
            return seen.Heartbeat(ours=self.parts.lease.heartbeat())
        except OSError:  # it could not be touched
            return seen.Heartbeat(ours=True)

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
        self,
        kind: str,
        pool: ports.PoolKey,
        call: Callable[[], Observation],
        due: float,
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
        parts: ports.Parts,
        is_read: Callable[[OutsideKey], bool],
        post: Callable[[Observation], None],
    ) -> None:
        source, self._is_read = parts.facts, is_read
        self._answered: set[OutsideKey] = set()
        """Just now: who is judged by such an answer does not ask anew."""

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
            if key in self._answered:
                continue
            is_command = isinstance(key, CommandKey)
            shortest = COMMAND_SECONDS if is_command else poll_seconds
            (self.commands if is_command else self.files).want(key, now, shortest)

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
        self._answered.add(key)
        if isinstance(key, CommandKey):
            looks, longest, factor = self.commands, MOST_COMMAND_SECONDS, 2.0
            shortest = max(COMMAND_SECONDS, (now - began) * _REST)
        else:
            looks, shortest, factor = self.files, poll_seconds, BACKOFF
            longest = min(COLD_SECONDS, len(looks.entries) / FREE_LOOKS)
        looks.settle(
            key, now, changed=changed, shortest=shortest, longest=longest, factor=factor
        )

    def look(self, now: float, t: float) -> None:
        """Look at everything that is due; `now` is monotonic, `t` the same moment."""
        self._answered.clear()
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


@dataclass(slots=True)
class LogPoller:
    """Reads logs. Used by the engine's thread, but for `wake`."""

    state: SessionState
    ephemeral: EphemeralState
    telemetry: Telemetry
    runs: RunReports
    parts: ports.Parts
    post: Callable[[Observation], None]
    looks: Looks[ports.Stream, ports.LogCursor, LogRead] = field(init=False)
    moved: set[str] = field(default_factory=set)
    """Jobs of which other files may have to be watched than are."""
    _shortest: float = 1.0
    _woken: deque[ports.Stream] = field(default_factory=deque)
    _to_reread: dict[ports.Stream, None] = field(default_factory=dict)
    _watched: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """Job -> its log, and which of its files are watched."""
    _paths: dict[str, ports.Stream] = field(default_factory=dict)
    """What was looked at, by its path."""

    def __post_init__(self) -> None:
        self.looks = Looks(
            "logs",
            self.parts.pools["logs"],
            self._prepare,
            partial(read_logs, self.parts.logs),
            lambda reads: seen.LogsRead(reads=tuple(reads)),
            self.post,
        )

    def restart(self) -> None:
        """Logs of ended jobs are read again, the newest first, for their curves."""
        self._watched.clear()
        ended = [job for job in self.state.jobs.values() if job.ended]
        ended.sort(key=lambda job: job.since, reverse=True)
        self._to_reread = {
            (job.name, source): None
            for job in [one for one in ended if one.attempts][:MOST_REREAD]
            if job.attempts[-1].log_path
            for source in self.telemetry.find_run(job).sources
        }
        self.moved.update(self.ephemeral.roster.active)
        self.runs.drained.clear()

    def wake(self, paths: Iterable[str]) -> bool:
        """Some files changed: whether one of them is looked at sooner for it."""
        known = {self._paths.get(path, ("", "")) for path in paths}
        slow, entries = self._shortest * BACKOFF, self.looks.entries
        woken = [
            one
            for one in filter(self._is_wanted, known)
            if (entry := entries.get(one)) and entry.wait > slow
        ]
        self._woken.extend(sorted(woken))
        return bool(woken)

    def note(self, got: seen.LogsRead, now: float) -> None:
        """Learn from answers when to look again. `now`: monotonic seconds."""
        for read in got.reads:
            stream, chunk = (read.at.job, read.at.source), read.chunk
            shortest, longest = self._find_waits(stream)
            self.looks.settle(
                stream,
                now,
                changed=chunk is not None,
                shortest=shortest,
                longest=longest,
            )
            if chunk is not None and chunk.offset + len(chunk.data) < chunk.size:
                self.looks.hurry(now, stream)
            if read.found is not None:
                self.moved.add(read.at.job)
            if chunk is None and stream in self._to_reread:
                del self._to_reread[stream]
                files = ((read.at.job, one.path) for one in read.found or ())
                self._to_reread |= dict.fromkeys(files)

    def _find_waits(self, stream: ports.Stream) -> tuple[float, float]:
        """Seconds between two looks at a file: while it grows, and at most."""
        job, source = stream
        if source == ports.GPU:
            return GPU_SECONDS
        longest, run = SLOWEST_SECONDS, self.telemetry.runs.get(job)
        if run is not None and not source:
            patience = min(run.watch.shortest, run.rules.stall_after_seconds)
            longest = min(patience * PATIENCE_SHARE, longest)
        return self._shortest, longest

    def look(self, now: float, t: float, poll_seconds: float) -> None:
        """Read what is due; `now` is monotonic, `t` the same moment."""
        looks = self.looks
        if self.moved:
            self._watch_moved(now)
        often = min(len(self._watched) / BUSY_JOBS, BUSIEST_SECONDS)
        self._shortest = max(poll_seconds, often)
        while self._woken:
            stream = self._woken.popleft()
            looks.want(stream, now, self._find_waits(stream)[0])
        if self.runs.ending:
            for stream in self.runs.list_undrained(self.state.jobs):
                looks.hurry(0.0, stream)  # before all others
        for stream in [*islice(self._to_reread, REREAD_AT_ONCE)]:
            if self.state.jobs[stream[0]].ended:
                looks.want(stream, now, 0.0)
            else:
                del self._to_reread[stream]
        heap = looks.heap
        if looks.is_active or (heap and heap[0][0] <= now):
            slack = poll_seconds * SLACK
            looks.look(now, t, self._is_wanted, slack=slack, most=MOST_AT_ONCE)

    def next_at(self, now: float) -> float | None:
        """When the next log is to be read; an answer that is still out wakes us."""
        return now if self._woken or self.moved else self.looks.next_at()

    def _is_wanted(self, stream: ports.Stream) -> bool:
        _, sources = self._watched.get(stream[0], ("", ()))
        return stream[1] in sources or stream in self._to_reread

    def _watch_moved(self, now: float) -> None:
        """Watch the files that there are now of the jobs that moved, and no others."""
        for name in sorted(self.moved & self.ephemeral.roster.active):
            job = self.state.jobs[name]
            # Nothing is watched before there is a log.
            if job.attempts and (log := job.attempts[-1].log_path):
                sources = (*self.telemetry.find_run(job).sources, ports.GPU)
                old_log, old = self._watched.get(name, ("", ()))
                for source in sources:
                    if source not in old or log != old_log:
                        stream = (name, source)
                        self.looks.want(stream, now, self._find_waits(stream)[0])
                self._watched[name] = (log, sources)
        for name in self.moved - self.ephemeral.roster.active:
            self._watched.pop(name, None)
        self.moved.clear()

    def _prepare(self, stream: ports.Stream) -> tuple[str, ports.LogCursor]:
        """Where a file is to be read on, and its mount point."""
        (name, source), directory = stream, self.parts.attempt_dir
        job, runs = self.state.jobs[name], self.runs
        final = job.ended or (name, len(job.attempts)) in runs.ending
        cursor = self.telemetry.make_cursor(job, source, final=final)
        if source in (ports.SEARCH, ports.GPU):
            present = str(directory(name, cursor.attempt))
            cursor = replace(cursor, path=f"{present}/{GPU_FILE}")
        if source == ports.SEARCH:
            patterns = self.telemetry.find_run(job).patterns
            search = ports.Search(patterns, str(directory(name, 1)), present)
            cursor = replace(cursor, search=search, path=patterns[0])
        self._paths[cursor.path] = stream
        return self.parts.place_of(cursor.path), cursor


def read_logs(
    source: ports.LogSource, items: Sequence[ports.LogCursor]
) -> Iterator[LogRead]:
    """Look at logs one by one, in their order, up to `LOOK_BYTES` and `LOOK_WORK`."""
    room, work = LOOK_BYTES, ports.LOOK_WORK
    for at in items:
        if room <= 0 or work <= 0:
            return
        chunk, tail, problem = None, "", ""
        found: tuple[ports.FoundFile, ...] | None = None
        try:
            if at.search is not None:
                found = tuple(source.find(at.search))
            else:
                chunk = source.read(at)
                if at.final and not at.source:
                    tail = source.tail(at.path, TAIL_BYTES)
        except OSError as error:
            chunk, problem = None, f"{at.path}: {format_os_reason(error)}"
        size = len(chunk.data) if chunk else 0
        room, work = room - size, work - size * at.cost
        yield LogRead(at=at, chunk=chunk, tail=tail, problem=problem, found=found)
