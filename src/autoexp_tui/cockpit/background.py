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
        self._wake = threading.Condition()
        self._has_thread = False
        self._asked = 0

    async def fetch(self, key: str, work: Callable[[], Result]) -> Result:
        """What `work` returns, or raises, when its turn comes; cancelled where it
        still waits once a newer call has its key."""
        answer: Future[Result] = Future()
        with self._wake:
            if not self._has_thread:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._has_thread = True
            older = self._waiting.get(key)
            self._waiting[key] = (work, answer)
            self._wake.notify()
        if older is not None:
            older[1].cancel()
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
            with self._wake:
                while not self._waiting:
                    self._wake.wait()
                work, answer = self._waiting.popitem(last=False)[1]
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work())
                except Exception as error:  # noqa: BLE001 - delivered, never swallowed
                    answer.set_exception(error)
