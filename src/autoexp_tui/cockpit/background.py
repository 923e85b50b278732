"""Daemon threads for what takes its time: a hung disk never holds the keys."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class Background:
    """Works on one thing after the other, on a thread that may be left behind."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: OrderedDict[str, tuple[Callable[[], Any], Future[Any]]]
        self._waiting = OrderedDict()
        self._lock = threading.Lock()
        self._has_thread = False
        self._asked = 0

    async def fetch(self, key: str, work: Callable[[], Result]) -> Result:
        """What `work` returns, or raises, when its turn comes; cancelled where it
        still waits once a newer call has its key."""
        answer: Future[Result] = Future()
        with self._lock:
            older = self._waiting.get(key)
            self._waiting[key] = (work, answer)
            starts, self._has_thread = not self._has_thread, True
        if older is not None:
            older[1].cancel()
        if starts:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self._asked += 1
        try:
            return await asyncio.wrap_future(answer)
        finally:
            self._asked -= 1

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not self._asked

    def _run(self) -> None:
        while True:
            with self._lock:
                self._has_thread = bool(self._waiting)
                if not self._waiting:
                    return
                work, answer = self._waiting.popitem(last=False)[1]
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work())
                except Exception as error:  # noqa: BLE001 - delivered, never swallowed
                    answer.set_exception(error)
