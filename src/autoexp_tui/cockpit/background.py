"""Daemon threads for what takes its time: a hung disk never holds the keys.

Calls run one after the other; of several that wait under one key only the newest
runs. Its result, or error, goes to `done` on the UI's thread."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")

Done: TypeAlias = Callable[[Any, BaseException | None], None]
Deliver: TypeAlias = Callable[[Callable[[], None]], None]
"""Runs a call on the UI's thread, soon."""


class Background:
    """A serial worker that may be left behind: it holds no exit."""

    def __init__(self, name: str, deliver: Deliver) -> None:
        self._deliver = deliver
        self._waiting: OrderedDict[str, tuple[Callable[[], Any], Done]] = OrderedDict()
        self._wake = threading.Condition()
        self._closed = False
        self._is_busy = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def call(self, key: str, work: Callable[[], Any], done: Done) -> None:
        """Run `work` when its turn comes; an older one of that key is forgotten."""
        with self._wake:
            self._waiting[key] = (work, done)
            self._wake.notify()

    async def fetch(self, key: str, work: Callable[[], Result]) -> Result:
        """What `work` returns, or raises; never back once a newer call has its key."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def done(result: Any, problem: BaseException | None) -> None:
            if answer.done():
                return
            if problem is not None:
                answer.set_exception(problem)
            else:
                answer.set_result(result)

        self.call(key, work, done)
        return await answer

    def close(self) -> None:
        """Take no more; what runs is left alone."""
        with self._wake:
            self._closed = True
            self._waiting.clear()
            self._wake.notify()

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        with self._wake:
            return not self._waiting and not self._is_busy

    def _run(self) -> None:
        while (job := self._next()) is not None:
            work, done = job
            result: Any = None
            problem: BaseException | None = None
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - delivered, never swallowed
                problem = error
            with self._wake:
                closed = self._closed
            if not closed:
                self._deliver(partial(done, result, problem))
            with self._wake:
                self._is_busy = False

    def _next(self) -> tuple[Callable[[], Any], Done] | None:
        with self._wake:
            while not self._waiting and not self._closed:
                self._wake.wait()
            if self._closed:
                return None
            self._is_busy = True
            return self._waiting.popitem(last=False)[1]
