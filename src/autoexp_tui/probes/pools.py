"""Bounded daemon threads for calls that may block for ever, one outstanding call a key:
a hung file server costs the threads of one pool, not one more at every look. And on
which file system a path lies, by the kernel's table, without touching the path; what a
symbolic link leads to is not known this way."""

from __future__ import annotations

import logging
import os
import posixpath
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from autoexp_tui.engine.ports import Clock

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
Call = Callable[[], object]
Done = Callable[[object, BaseException | None], None]


class _Item(NamedTuple):
    key: str
    call: Call
    done: Done


class ThreadPool:
    """`ports.Pool` over at most `threads` daemon threads, started when needed. While
    `done` runs, the key may be submitted again, but that call starts only after `done`
    returned: the answers of one key arrive in order."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._most = threads
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._queue: deque[_Item] = deque()
        self._outstanding: set[str] = set()
        self._delivering: dict[str, _Item | None] = {}
        """Keys whose `done` runs -> the call that was submitted meanwhile."""
        self._threads = 0
        self._idle = 0
        self._closed = False

    def submit(self, key: str, call: Call, done: Done) -> bool:
        """Run `call` elsewhere, then `done(answer, None)` or `done(None, error)` there.
        False when `key` is still outstanding, or the pool is closed."""
        item = _Item(key, call, done)
        with self._lock:
            if self._closed or key in self._outstanding:
                return False
            self._outstanding.add(key)
            if key in self._delivering:
                self._delivering[key] = item
            else:
                self._push(item)
        return True

    def close(self) -> None:
        """Accept nothing more; waiting calls are dropped, running ones abandoned."""
        with self._lock:
            self._closed = True
            self._queue.clear()
            self._work.notify_all()

    def _push(self, item: _Item) -> None:
        self._queue.append(item)
        if self._idle >= len(self._queue):
            self._work.notify()
        elif self._threads < self._most:
            self._threads += 1
            name = f"{self._name}-{self._threads}"
            threading.Thread(target=self._run_calls, name=name, daemon=True).start()

    def _run_calls(self) -> None:
        while (item := self._take_next()) is not None:
            answer: object = None
            error: BaseException | None = None
            try:
                answer = item.call()
            except BaseException as raised:  # noqa: BLE001 - whoever asked gets it
                error = raised
            with self._lock:
                self._outstanding.discard(item.key)
                self._delivering[item.key] = None
                if self._closed:
                    return
            try:
                item.done(answer, error)
            except Exception:  # noqa: BLE001 - the thread must live on; the log has it
                _LOG.exception("the answer of %s could not be delivered", item.key)
            with self._lock:
                follower = self._delivering.pop(item.key)
                if follower is not None and not self._closed:
                    self._push(follower)

    def _take_next(self) -> _Item | None:
        with self._lock:
            while not self._queue and not self._closed:
                self._idle += 1
                self._work.wait()
                self._idle -= 1
            return None if self._closed else self._queue.popleft()


_IDLE_SECONDS = 0.01
"""Of a processor; a call that hangs uses less."""
_MOST_ROUNDS = 5
"""How often a call that still computes is given as long again."""


def ask_all(
    calls: Sequence[Callable[[], T]], seconds: float, *, at_once: int = 4
) -> list[T | Exception]:
    """Each call's answer or error, in order; a TimeoutError for one that hangs: that
    did nothing for `seconds`, or worked for five times that. It keeps its thread, and
    holds up no other."""
    answers: dict[int, T | Exception] = {}
    running: dict[int, _Running] = {}
    changed = threading.Condition()

    def run(index: int) -> None:
        answer: T | Exception
        try:
            answer = calls[index]()
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            answer = error
        with changed:
            if running.pop(index, None) is not None:  # else given up
                answers[index] = answer
                changed.notify()

    waiting = deque(range(len(calls)))
    with changed:
        while waiting or running:
            for index, call in [*running.items()]:
                if call.due <= time.monotonic() and not call.is_working(seconds):
                    del running[index]
                    answers[index] = TimeoutError(f"no answer in {seconds:g} s")
            while waiting and len(running) < at_once:
                index = waiting.popleft()
                running[index] = _Running(partial(run, index), seconds)
            first = min((call.due for call in running.values()), default=0.0)
            changed.wait(max(0.0, first - time.monotonic()))
    return [answers[index] for index in range(len(calls))]


class _Running:
    """A call on a thread of its own, begun while its end is held up."""

    def __init__(self, call: Callable[[], None], seconds: float) -> None:
        self.due = time.monotonic() + seconds
        thread = threading.Thread(target=call, name="ask", daemon=True)
        thread.start()
        assert thread.ident is not None
        self._clock = time.pthread_getcpuclockid(thread.ident)
        self._seen = [time.clock_gettime(self._clock)]

    def is_working(self, seconds: float) -> bool:
        """Whether it has computed meanwhile, and is given as long again."""
        self._seen.append(time.clock_gettime(self._clock))
        self.due = time.monotonic() + seconds
        worked = self._seen[-1] - self._seen[-2] > _IDLE_SECONDS
        return worked and len(self._seen) <= _MOST_ROUNDS


TABLE: Final = Path("/proc/self/mountinfo")
FRESH_SECONDS: Final = 30.0
"""How long the table counts before it is read again."""
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_MAGIC: Final = re.compile(r"[*?\[]")


class Mounts:
    """The mount point of any path, or of what a pattern surely begins with."""

    def __init__(self, clock: Clock, table: Path = TABLE) -> None:
        self._clock = clock
        self._table = table
        self._points: frozenset[str] = frozenset()
        self._known: dict[str, str] = {}
        self._read_at = float("-inf")
        self._cwd = os.getcwd()

    def find(self, path: str) -> str:
        """The mount point; `/` for everything where there is no table."""
        now = self._clock.monotonic()
        if now - self._read_at >= FRESH_SECONDS:
            self._read_at, self._known = now, {}
            self._points = mount_points(self._table)
        if path not in self._known:
            # The directories before the first one that is a pattern.
            match = _MAGIC.search(path)
            plain = path if match is None else posixpath.dirname(path[: match.start()])
            place = posixpath.normpath(posixpath.join(self._cwd, plain))
            while place not in self._points and place != "/":
                place = posixpath.dirname(place)
            self._known[path] = place
        return self._known[path]


def mount_points(table: Path = TABLE) -> frozenset[str]:
    """Every mount point that the kernel tells; empty where it tells none."""
    try:
        lines = table.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return frozenset()
    columns = (line.split(" ") for line in lines)
    points = (parts[4] for parts in columns if len(parts) > 4)
    # Blanks and the like are octal numbers there.
    return frozenset(_ESCAPED.sub(lambda x: chr(int(x[1], 8)), one) for one in points)
