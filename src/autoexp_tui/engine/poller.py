"""When to look outside, and at what: the executor, files, logs, the inbox, the lease.
Each look runs on a pool, and what it shows comes back as an observation. What changes
is looked at often, else ever more seldom. Each file system has one batch of looks under
way; one without progress is *stuck*: its thread keeps what it has in hand, the rest
goes on in another, up to the mount point's share. Used by the engine's thread alone;
`now` is monotonic seconds."""

from __future__ import annotations

import heapq
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from itertools import islice
from math import inf
from typing import Final, Generic, TypeAlias, TypeVar

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import ports
from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.engine.ephemeral_state import EphemeralState
from autoexp_tui.engine.executor_port import PollAnswer
from autoexp_tui.engine.observations import LogRead, Observation
from autoexp_tui.engine.ports import Pool
from autoexp_tui.engine.run_reports import RunReports
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.model.errors import format_os_reason
from autoexp_tui.model.facts import CommandKey, Fact, GlobKey, OutsideKey, Silence
from autoexp_tui.model.specs import Place
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Outcome

K = TypeVar("K")
T = TypeVar("T")
A = TypeVar("A")
ReportSilence: TypeAlias = Callable[[Sequence[K], Silence, float], Observation | None]

BACKOFF: Final = 1.5
"""How much longer the wait is after a look that showed nothing new."""
UNDER_WAY: Final = math.inf
SILENT_SECONDS: Final = 10.0
"""Without any progress, after which a batch is stuck."""
MOST_BATCHES: Final = 4
"""Threads of one mount point, stuck ones included: its share of the pool."""
FAULT_SECONDS: Final = 5.0
"""Before what raised when it was looked at is looked at again."""
BATCH_ITEMS: Final = 1000
"""More follow in the next batch, so that one answer stays small."""
_STEP_SECONDS: Final = 6.0
"""At most so much silence counts between two commits: we may have been asleep."""


@dataclass(slots=True)
class Entry:
    wait: float
    """Seconds between the last look and the next."""
    due: float = UNDER_WAY
    looked_at: float = -math.inf
    is_silent: bool = False
    """It was told that nothing is known of it."""


class Schedule(Generic[K]):
    """Keys and when they are due. Each is under way from `take_due` to `settle`."""

    def __init__(self) -> None:
        self.entries: dict[K, Entry] = {}
        self.heap: list[tuple[float, int, K]] = []
        """When keys are due, or were to be; the first tells when there is work."""
        self._pushes = 0

    def want(self, key: K, now: float, shortest: float) -> None:
        """Somebody wants to know: at once, or `shortest` after the last look."""
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(shortest)
            self._set_due(key, entry, now)
        entry.wait = shortest
        if entry.due < UNDER_WAY:
            soonest = max(now, entry.looked_at + shortest)
            self._set_due(key, entry, min(soonest, entry.due))

    def hurry(self, now: float, key: K) -> None:
        """It is due at once, unless a look is under way."""
        entry = self.entries.get(key)
        if entry is not None and now < entry.due < UNDER_WAY:
            self._set_due(key, entry, now)

    def take_due(
        self,
        now: float,
        is_wanted: Callable[[K], bool] = lambda _: True,
        *,
        slack: float = 0.0,
        most: float = math.inf,
    ) -> Iterator[K]:
        """At `most` so many keys to look at now, longest due first, with what is due
        within `slack` of the first; unwanted ones are forgotten."""
        until = now
        while most > 0 and self.heap and self.heap[0][0] <= until:
            due, _, key = heapq.heappop(self.heap)
            entry = self.entries.get(key)
            if entry is None or entry.due != due:
                continue
            until = now + slack
            if is_wanted(key):
                entry.due = UNDER_WAY
                most -= 1
                yield key
            else:
                del self.entries[key]

    def settle(
        self,
        key: K,
        now: float,
        *,
        changed: bool,
        shortest: float,
        longest: float,
        factor: float = BACKOFF,
    ) -> None:
        """A look is over: the next one comes `shortest` to `longest` seconds later."""
        entry = self.entries.get(key)
        if entry is not None:
            slower = max(shortest, min(entry.wait * factor, longest))
            entry.wait = shortest if changed else slower
            entry.looked_at, entry.is_silent = now, False
            self._set_due(key, entry, now + entry.wait)

    def next_at(self) -> float | None:
        """When the next key is due; None: none is, until an answer comes."""
        while self.heap:
            due, _, key = self.heap[0]
            entry = self.entries.get(key)
            if entry is not None and entry.due == due:
                return due
            heapq.heappop(self.heap)
        return None

    def _set_due(self, key: K, entry: Entry, due: float) -> None:
        if due != entry.due:
            entry.due = due
            self._pushes += 1
            heapq.heappush(self.heap, (due, self._pushes, key))


@dataclass(slots=True)
class _Mount(Generic[K, T]):
    path: str
    waiting: dict[K, T] = field(default_factory=dict)
    is_answering: bool | None = None
    """As it was posted last; None: nothing was."""


@dataclass(slots=True, eq=False)
class _Batch(Generic[K, T, A]):
    """One thread's items. `answers` grows on the pool's thread."""

    mount: _Mount[K, T]
    name: str
    items: Sequence[tuple[K, T]]
    answers: list[A] = field(default_factory=list)
    seen: int = 0
    quiet: float = 0.0
    """Seconds without progress."""
    is_stuck: bool = False
    has_failed: bool = False
    """The look at its first item without an answer raised."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add_answer(self, answer: A) -> bool:
        """Keep an answer; False when others have taken over the rest."""
        with self._lock:
            self.answers.append(answer)
            return not self.is_stuck

    def give_up(self) -> list[A]:
        """Leave it the item in hand alone, and its mount the rest; returns what it has
        answered. Nothing is done when only its end is on its way."""
        with self._lock:
            items, answers, done = self.items, self.answers, len(self.answers)
            if done == len(items):
                return []
            self.items, self.answers = items[done : done + 1], []
            self.seen, self.is_stuck = 0, True
            self.mount.waiting = dict(items[done + 1 :]) | self.mount.waiting
            return answers


class Looks(Schedule[K], Generic[K, T, A]):
    """All looks of one kind, and the threads that look."""

    def __init__(
        self,
        kind: str,
        pool: Pool,
        prepare: Callable[[K], tuple[str, T]],
        read: Callable[[Sequence[T]], Iterator[A]],
        report: Callable[[Sequence[A]], Observation],
        post: Callable[[Observation], None],
        report_silence: ReportSilence[K] = lambda _keys, _silence, _t: None,
        *,
        find_patience: Callable[[K], float] | None = None,
    ) -> None:
        """`prepare`: a key's mount point, and what is read of it. `read` blocks on a
        pool's thread and gives one answer an item, in order, or fewer. The others tell
        what is posted. `find_patience`: each key is a place of its own, which may be
        silent for longer, and of which nobody is told."""
        super().__init__()
        self._kind = kind
        self._pool = pool
        self._prepare = prepare
        self._read = read
        self._report = report
        self._report_silence = report_silence
        self._post = post
        self._find_patience = find_patience
        self._mounts: dict[str, _Mount[K, T]] = {}
        self._batches: list[_Batch[K, T, A]] = []
        self._ended: deque[_Batch[K, T, A]] = deque()
        self._looked_at: float | None = None
        self.is_active = False
        """Something waits or is looked at: `look` has to be called."""

    @property
    def running(self) -> int:
        return sum(not batch.is_stuck for batch in self._batches)

    def look(
        self,
        now: float,
        t: float,
        is_wanted: Callable[[K], bool],
        *,
        slack: float = 0.0,
        most: float = math.inf,
    ) -> None:
        """Take what ended and what is due, notice what is stuck, begin what can begin;
        `t` is the same moment as `now`."""
        while self._ended:
            self._take_ended(self._ended.popleft(), now)
        for key in self.take_due(now, is_wanted, slack=slack, most=most):
            place, item = self._prepare(key)
            self._mounts.setdefault(place, _Mount(place)).waiting[key] = item
        last, self._looked_at = self._looked_at, now
        passed = 0.0 if last is None else min(max(now - last, 0.0), _STEP_SECONDS)
        for batch in self._batches:
            done = len(batch.answers)
            batch.quiet = 0.0 if done > batch.seen else batch.quiet + passed
            batch.seen = done
            patience = SILENT_SECONDS
            if self._find_patience is not None:
                patience += self._find_patience(batch.items[0][0])
            if not batch.is_stuck and batch.quiet >= patience:
                self._give_up(batch, t)
        busy = {batch.mount.path for batch in self._batches if not batch.is_stuck}
        for mount in self._mounts.values():
            if mount.waiting and mount.path not in busy:
                self._start(mount, t)
        self.is_active = bool(self._batches) or any(
            mount.waiting for mount in self._mounts.values()
        )

    def _take_ended(self, batch: _Batch[K, T, A], now: float) -> None:
        self._batches.remove(batch)
        mount, rest = batch.mount, batch.items[len(batch.answers) :]
        if batch.has_failed and rest:
            key, rest = rest[0][0], rest[1:]
            self._set_due(key, self.entries[key], now + FAULT_SECONDS)
        mount.waiting = dict(rest) | mount.waiting  # nobody got to these
        is_stuck = any(one.is_stuck for one in self._batches if one.mount is mount)
        if not (mount.is_answering or is_stuck):
            self._tell_place(mount, None)

    def _give_up(self, batch: _Batch[K, T, A], t: float) -> None:
        waiting = batch.mount.waiting
        answers = batch.give_up()
        if batch.is_stuck:
            if answers:
                self._post(self._report(answers))
            rest = [key for key in batch.mount.waiting if key not in waiting]
            self._tell_silence(batch.mount, [batch.items[0][0], *rest], t)

    def _tell_silence(self, mount: _Mount[K, T], keys: Iterable[K], t: float) -> None:
        """Post, once each, what is not known because the mount does not answer."""
        new = [key for key in keys if not self.entries[key].is_silent]
        if not new:
            return
        for key in new:
            self.entries[key].is_silent = True
        quiet = max(one.quiet for one in self._batches if one.mount is mount)
        silence = Silence(mount.path, t - quiet)
        observation = self._report_silence(new, silence, t)
        if observation is not None:
            self._post(observation)
        if mount.is_answering is not False:
            self._tell_place(mount, silence)

    def _tell_place(self, mount: _Mount[K, T], silence: Silence | None) -> None:
        mount.is_answering = silence is None
        if self._find_patience is None:
            self._post(seen.PlaceHeard(place=mount.path, silence=silence))

    def _start(self, mount: _Mount[K, T], t: float) -> None:
        """Begin a batch, on a thread that none of the mount's stuck ones has."""
        taken = {batch.name for batch in self._batches}
        names = (f"{self._kind} {mount.path} #{n}" for n in range(1, MOST_BATCHES + 1))
        name = next((name for name in names if name not in taken), None)
        if name is None:
            self._tell_silence(mount, mount.waiting, t)
            return
        items = list(islice(mount.waiting.items(), BATCH_ITEMS))
        batch: _Batch[K, T, A] = _Batch(mount, name, items)

        def call() -> None:
            for answer in self._read([item for _, item in items]):
                if not batch.add_answer(answer):
                    return

        def done(_: object, problem: BaseException | None) -> None:
            answers = batch.answers
            batch.has_failed = problem is not None
            self._ended.append(batch)
            if problem is not None:
                self._post(seen.call_failed(name, problem))
            if answers:
                self._post(self._report(answers))

        self._batches.append(batch)
        if self._pool.submit(name, call, done):
            for key, _ in items:
                del mount.waiting[key]
        else:
            self._batches.remove(batch)


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
