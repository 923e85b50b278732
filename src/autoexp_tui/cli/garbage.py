"""How the garbage collector treats plans and sessions of 10,000 jobs."""

from __future__ import annotations

import gc
from typing import Final

_THRESHOLDS: Final = (20_000, 20, 20)
"""Of new objects, and of looks through the young and the middle-aged: a log that grows
leaves some thirty new objects a second, none of them garbage at once."""


def settle() -> None:
    """What is there now is here to stay, and is not looked through again and again."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def leave() -> None:
    """Of a process that answers and ends: nothing of a large plan is garbage before."""
    gc.disable()
