"""Looks at files, apart for each file system: one that hangs holds up nobody else. Each
mount point has one batch under way. One without progress is *stuck*: its thread keeps
the file in hand, the rest goes on in another, up to the mount point's share."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, TypeAlias, TypeVar

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.ports import Pool
from autoexp_tui.model.facts import Silence

T = TypeVar("T")
A = TypeVar("A")
ReportSilence: TypeAlias = Callable[[Sequence[T], Silence, float], Observation | None]

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


@dataclass(slots=True, eq=False)
class _Batch(Generic[T, A]):
    """One thread's items. `answers` grows on the pool's thread."""

    name: str
    items: Sequence[tuple[Hashable, T]]
    answers: list[A] = field(default_factory=list)
    seen: int = 0
    quiet: float = 0.0
    """Seconds without progress."""
    stuck: bool = False
    failed: bool = False
    """The look at its first item without an answer raised."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add_answer(self, answer: A) -> bool:
        """Keep an answer; False when others have taken over the rest."""
        with self._lock:
            self.answers.append(answer)
            return not self.stuck

    def give_up(
        self,
    ) -> tuple[Sequence[tuple[Hashable, T]], list[A], Sequence[tuple[Hashable, T]]]:
        """Leave it the item in hand alone: what is done, its answers, and the rest; all
        empty when it is through, and only its end is on its way."""
        with self._lock:
            items, answers, done = self.items, self.answers, len(self.answers)
            if done == len(items):
                return (), [], ()
            self.items, self.answers = items[done : done + 1], []
            self.seen, self.stuck = 0, True
            return items[:done], answers, items[done + 1 :]


@dataclass(slots=True)
class _Mount(Generic[T, A]):
    """One mount point."""

    path: str
    waiting: dict[Hashable, T] = field(default_factory=dict)
    batches: list[_Batch[T, A]] = field(default_factory=list)
    answering: bool | None = None
    """Whether it answered, as was posted last; None: nothing was."""


class MountWorkers(Generic[T, A]):
    """All looks of one kind. Used by the engine's thread alone."""

    def __init__(
        self,
        kind: str,
        pool: Pool,
        mount_of: Callable[[str], str],
        read: Callable[[Sequence[T]], Iterator[A]],
        report: Callable[[Sequence[A]], Observation],
        post: Callable[[Observation], None],
        report_silence: ReportSilence[T] = lambda _items, _silence, _t: None,
    ) -> None:
        """`read` blocks on a pool's thread and gives one answer an item, in order, or
        fewer; the others tell what is posted of answers, and of silence."""
        self._kind = kind
        self._pool = pool
        self._mount_of = mount_of
        self._read = read
        self._report = report
        self._report_silence = report_silence
        self._post = post
        self._mounts: dict[str, _Mount[T, A]] = {}
        self._held: set[Hashable] = set()
        """Everything that waits or is looked at."""
        self._silent: set[Hashable] = set()
        """Of that, what was reported silent."""
        self._ended: deque[tuple[_Mount[T, A], _Batch[T, A]]] = deque()
        self._resting: deque[tuple[float, _Mount[T, A], Hashable, T]] = deque()
        """Until when (monotonic) what raised is left alone."""
        self._tended_at: float | None = None

    def holds(self, key: Hashable) -> bool:
        """Whether it waits for a look, or is being looked at."""
        return key in self._held

    def send(self, items: Iterable[tuple[Hashable, str, T]]) -> None:
        """Look at these, each with its key and path; those under way are left out."""
        self._take_ended()  # else what is due again counts as under way still
        for key, path, item in items:
            if key not in self._held:
                self._held.add(key)
                place = self._mount_of(path)
                self._mounts.setdefault(place, _Mount(place)).waiting[key] = item

    def tend(self, now: float, t: float) -> None:
        """Take what ended, notice what is stuck, begin what can begin."""
        self._take_ended()
        while self._resting and self._resting[0][0] <= now:
            _, mount, key, item = self._resting.popleft()
            mount.waiting[key] = item
        last, self._tended_at = self._tended_at, now
        passed = 0.0 if last is None else min(max(now - last, 0.0), _STEP_SECONDS)
        for mount in self._mounts.values():
            for batch in mount.batches:
                done = len(batch.answers)
                batch.quiet = 0.0 if done > batch.seen else batch.quiet + passed
                batch.seen = done
                if not batch.stuck and batch.quiet >= SILENT_SECONDS:
                    self._give_up(mount, batch, t)
            if mount.waiting and all(batch.stuck for batch in mount.batches):
                self._start(mount, t)

    def _take_ended(self) -> None:
        while self._ended:
            mount, batch = self._ended.popleft()
            mount.batches.remove(batch)
            done = len(batch.answers)
            self._release(batch.items[:done])
            rest = batch.items[done:]
            if batch.failed and rest:
                until = (self._tended_at or 0.0) + FAULT_SECONDS
                self._resting.append((until, mount, *rest[0]))
                rest = rest[1:]
            mount.waiting = dict(rest) | mount.waiting  # nobody got to these
            if not mount.answering and not any(one.stuck for one in mount.batches):
                mount.answering = True
                self._post(seen.PlaceHeard(place=mount.path))

    def _release(self, items: Iterable[tuple[Hashable, T]]) -> None:
        keys = {key for key, _ in items}
        self._held -= keys
        self._silent -= keys

    def _give_up(self, mount: _Mount[T, A], batch: _Batch[T, A], t: float) -> None:
        finished, answers, rest = batch.give_up()
        if batch.stuck:
            if answers:
                self._post(self._report(answers))
            self._release(finished)
            mount.waiting = dict(rest) | mount.waiting
            self._tell_silence(mount, [*batch.items, *rest], t)

    def _tell_silence(
        self, mount: _Mount[T, A], items: Iterable[tuple[Hashable, T]], t: float
    ) -> None:
        """Post, once each, what is not known because the mount does not answer."""
        new = {key: item for key, item in items if key not in self._silent}
        if not new:
            return
        self._silent |= new.keys()
        quiet = max(batch.quiet for batch in mount.batches)
        silence = Silence(mount.path, t - quiet)
        observation = self._report_silence([*new.values()], silence, t)
        if observation is not None:
            self._post(observation)
        if mount.answering is not False:
            mount.answering = False
            self._post(seen.PlaceHeard(place=mount.path, silence=silence))

    def _start(self, mount: _Mount[T, A], t: float) -> None:
        """Begin a batch, on a thread that none of the mount's stuck ones has."""
        taken = {batch.name for batch in mount.batches}
        names = [f"{mount.path} #{n}" for n in range(1, MOST_BATCHES + 1)]
        free = [name for name in names if name not in taken]
        if not free:
            self._tell_silence(mount, mount.waiting.items(), t)
            return
        items = list(islice(mount.waiting.items(), BATCH_ITEMS))
        batch: _Batch[T, A] = _Batch(free[0], items)
        name = f"{self._kind} {batch.name}"

        def call() -> None:
            for answer in self._read([item for _, item in items]):
                if not batch.add_answer(answer):
                    return

        def done(_: object, problem: BaseException | None) -> None:
            answers = batch.answers
            batch.failed = problem is not None
            self._ended.append((mount, batch))
            if problem is not None:
                self._post(seen.call_failed(name, problem))
            if answers:
                self._post(self._report(answers))

        mount.batches.append(batch)
        if self._pool.submit(name, call, done):
            for key, _ in items:
                del mount.waiting[key]
        else:
            mount.batches.remove(batch)
