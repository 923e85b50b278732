"""Looks at things outside, each again and again: often while it changes, else ever more
seldom. Each file system has one batch of looks under way. One without progress is
*stuck*: its thread keeps what it has in hand, the rest goes on in another, up to the
mount point's share. Used by the engine's thread alone; `now` is monotonic seconds.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, TypeAlias, TypeVar

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.ports import Pool
from autoexp_tui.model.facts import Silence

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
