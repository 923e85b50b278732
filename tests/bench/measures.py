"""What benches measure by."""

from __future__ import annotations

import time
from collections.abc import Callable


def measure_cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measure_wall(work: Callable[[], object]) -> float:
    """Seconds on the wall clock."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
