"""The learning rate over a run: warm-up, stable, decay. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DecayStyle(StrEnum):
    """How the rate falls from its peak to its minimum."""

    LINEAR = "linear"
    ONE_MINUS_SQRT = "1-sqrt"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Iterations count from 1; the decay ends with the run."""

    peak: float
    train_iters: int
    warmup_iters: int = 0
    decay_iters: int = 0
    """Length of the decay at the end of the run; 0 keeps the peak to the end."""
    min_rate: float = 0.0
    style: DecayStyle = DecayStyle.LINEAR

    def rate(self, iteration: int) -> float:
        """The learning rate of an iteration."""
        if iteration <= self.warmup_iters:
            return self.peak * iteration / self.warmup_iters
        return self.peak - (self.peak - self.min_rate) * self._fallen(iteration)

    def _fallen(self, iteration: int) -> float:
        """The fraction of the fall that is behind: 0 before the decay, 1 at its end."""
        into_decay = iteration - (self.train_iters - self.decay_iters)
        if self.decay_iters == 0 or into_decay <= 0:
            return 0.0
        progress = into_decay / self.decay_iters
        return progress if self.style is DecayStyle.LINEAR else progress**0.5
