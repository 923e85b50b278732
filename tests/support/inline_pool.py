"""A pool without threads: the test says what happens next, or a seed does.

A call and the delivery of its answer are two steps, as they are in real life: the
outside may have changed and the engine die before it hears of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Call = Callable[[], object]
Done = Callable[[object, BaseException | None], None]


@dataclass(slots=True)
class _Item:
    call: Call
    done: Done
    called: bool = False
    answer: object = None
    error: BaseException | None = None


class InlinePool:
    """`ports.Pool` that runs nothing by itself.

    Steps are taken oldest first, or in an order drawn from `seed`.
    """

    def __init__(self, *, seed: int | None = None) -> None:
        self._random = None if seed is None else random.Random(seed)
        self._items: dict[str, _Item] = {}
        self._closed = False
        self.held: set[str] = set()
        """Calls whose key begins with one of these hang: no step touches them."""

    def submit(self, key: str, call: Call, done: Done) -> bool:
        """Take a call; False when `key` is outstanding or the pool is closed."""
        if self._closed or key in self._items:
            return False
        self._items[key] = _Item(call, done)
        return True

    def close(self) -> None:
        """Accept nothing more; what was taken is never delivered."""
        self._closed = True
        self._items.clear()

    @property
    def pending(self) -> tuple[str, ...]:
        """Keys whose answer was not delivered yet, oldest first."""
        return tuple(self._items)

    def step(self) -> bool:
        """Make one call, or deliver one answer; False when there is nothing to do."""
        held = tuple(self.held)
        keys = [key for key in self._items if not key.startswith(held)]
        if not keys:
            return False
        key = self._random.choice(keys) if self._random else keys[0]
        if self._items[key].called:
            self.deliver(key)
        else:
            self.call(key)
        return True

    def drain(self, most: int = 100_000) -> int:
        """Step until nothing is left; how many steps it took; raises RuntimeError."""
        for taken in range(most):
            if not self.step():
                return taken
        raise RuntimeError(f"the pool did not come to rest in {most} steps")

    def call(self, key: str) -> None:
        """Make the call of `key` and hold its answer back."""
        item = self._items[key]
        item.called = True
        try:
            item.answer = item.call()
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            item.error = error

    def deliver(self, key: str) -> None:
        """Deliver the answer of `key`, which was called."""
        item = self._items.pop(key)
        item.done(item.answer, item.error)
