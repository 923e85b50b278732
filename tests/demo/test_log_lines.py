"""The log as a supervisor's patterns see it."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from autoexp_tui.demo import training
from autoexp_tui.demo.training import Progress

PROGRESS = Progress(
    iteration=8000,
    train_iters=10000,
    samples=512000,
    seconds_per_iteration=0.00125,
    tokens_per_second=51200.0,
    rate=1e-3,
    loss=2.915,
    grad_norm=0.812,
)
TRAIN_LOSS = re.compile(r"lm loss: (\S+)")


def test_a_progress_line_has_the_megatron_form() -> None:
    line = training.format_progress(PROGRESS, now=0.0)
    assert re.fullmatch(
        r" \[19(69|70)-\d\d-\d\d \d\d:\d\d:\d\d\] iteration     8000/   10000 \| "
        r"lm loss: 2\.915000E\+00 \| learning rate: 1\.000E-03 \| tokens/s: 51200 \| "
        r"grad norm: 0\.812 \| consumed samples: 512000 \| "
        r"elapsed time per iteration \(ms\): 1\.2 \|",
        line,
    )


@pytest.mark.parametrize("loss", [2.915, 1e-7, math.inf, 12345.678])
def test_the_loss_can_be_read_back(loss: float) -> None:
    line = training.format_progress(replace(PROGRESS, loss=loss), now=0.0)
    match = TRAIN_LOSS.search(line)
    assert match is not None
    assert float(match[1]) == pytest.approx(loss)


@pytest.mark.parametrize(
    ("value", "word"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")]
)
def test_what_is_no_number_is_a_plain_word(value: float, word: str) -> None:
    progress = replace(PROGRESS, loss=value, grad_norm=value)
    line = training.format_progress(progress, now=0.0)
    assert f"lm loss: {word} |" in line
    assert f"grad norm: {word} |" in line


def test_the_validation_line_is_not_taken_for_training() -> None:
    line = training.format_validation(8000, 2.5)
    assert "validation loss at iteration 8000 | lm loss value: 2.500000E+00" in line
    assert TRAIN_LOSS.search(line) is None
