"""Adam over one flat vector, and clipping by the global norm. All in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from autoexp_tui.demo.model import Floats

BETA_MEAN = 0.9
BETA_SQUARE = 0.999
EPSILON = 1e-8


class Adam:
    """The two moments of every parameter."""

    def __init__(self, mean: Floats, square: Floats) -> None:
        """Take the moments over; zeros of the parameters' shape start afresh."""
        self.mean = mean
        self.square = square
        self._scratch = np.empty_like(mean)

    def update(
        self, parameters: Floats, gradient: Floats, rate: float, step: int
    ) -> None:
        """Move the parameters; `step` counts from 1. Overwrites the gradient."""
        self._average(gradient)
        denominator = np.sqrt(self.square, out=self._scratch)
        denominator *= (1.0 - BETA_SQUARE**step) ** -0.5
        denominator += EPSILON
        change = np.divide(self.mean, denominator, out=gradient)
        change *= rate / (1.0 - BETA_MEAN**step)
        parameters -= change

    def _average(self, gradient: Floats) -> None:
        self.mean *= BETA_MEAN
        self.mean += np.multiply(gradient, 1.0 - BETA_MEAN, out=self._scratch)
        self.square *= BETA_SQUARE
        np.multiply(gradient, gradient, out=self._scratch)
        self._scratch *= 1.0 - BETA_SQUARE
        self.square += self._scratch


def clip(gradient: Floats, limit: float) -> float:
    """Scale the gradient down to the norm `limit` (0: never); returns the old norm."""
    norm = float(np.sqrt(np.dot(gradient, gradient)))
    if limit and norm > limit:
        gradient *= limit / norm
    return norm
