"""The words the trainer speaks: text for a log, made from numbers. Pure.

The forms follow Megatron-LM, whose logs most supervisors already read. The training
loss is `lm loss:`, the held-out one `lm loss value:`; no pattern takes one for the
other.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Progress:
    """One log interval."""

    iteration: int
    train_iters: int
    samples: int
    """Consumed since the run began; one sample predicts one byte."""
    seconds_per_iteration: float
    tokens_per_second: float
    rate: float
    loss: float
    grad_norm: float


def number(value: float, spec: str) -> str:
    """A number in a format, or plain `nan`, `inf`, `-inf`."""
    return format(value, spec) if math.isfinite(value) else str(value)


def progress_line(progress: Progress, now: float) -> str:
    """One log interval as a line, what matters most first.

    `now` is in seconds since the epoch.
    """
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    fields = (
        f" [{stamp}] iteration {progress.iteration:8d}/{progress.train_iters:8d}",
        f"lm loss: {number(progress.loss, '.6E')}",
        f"learning rate: {number(progress.rate, '.3E')}",
        f"tokens/s: {progress.tokens_per_second:.0f}",
        f"grad norm: {number(progress.grad_norm, '.3f')}",
        f"consumed samples: {progress.samples}",
        f"elapsed time per iteration (ms): "
        f"{progress.seconds_per_iteration * 1e3:.1f} |",
    )
    return " | ".join(fields)


def validation_line(iteration: int, loss: float) -> str:
    """The held-out loss in the middle of a run."""
    return (
        f" validation loss at iteration {iteration} | "
        f"lm loss value: {number(loss, '.6E')} |"
    )


def saved_line(iteration: int, path: Path) -> str:
    """A checkpoint is complete."""
    return f"successfully saved checkpoint from iteration {iteration:7d} to {path}"


def loaded_line(iteration: int, path: Path) -> str:
    """A run goes on from a checkpoint."""
    return f"successfully loaded checkpoint from {path} at iteration {iteration}"


STARTED_LINE = "starting from random weights"


def heldout_line(loss: float, bits: float) -> str:
    """The result of an evaluation."""
    return (
        f"held-out loss: {number(loss, '.6f')} | bits per byte: {number(bits, '.4f')}"
    )


def baseline_line(loss: float, bits: float) -> str:
    """The result of the checkpoint it is compared with."""
    return (
        f"baseline loss: {number(loss, '.6f')} | bits per byte: {number(bits, '.4f')}"
    )
