"""The learning rate, iteration by iteration."""

from __future__ import annotations

import pytest

from autoexp_tui.demo.model import Schedule

WSD = Schedule(lr=1.0, train_iters=100, warmup_iters=10, decay_iters=20)


@pytest.mark.parametrize(
    ("iteration", "rate"),
    [
        *((1, 0.1), (5, 0.5), (10, 1.0), (11, 1.0)),
        *((80, 1.0), (81, 0.95), (90, 0.5), (99, 0.05), (100, 0.0)),
    ],
)
def test_the_rate_rises_stays_and_falls_linearly(iteration: int, rate: float) -> None:
    assert WSD.rate(iteration) == pytest.approx(rate)


def test_without_decay_the_rate_stays_to_the_end() -> None:
    assert Schedule(lr=0.3, train_iters=100).rate(100) == 0.3


def test_the_decay_ends_at_the_minimum() -> None:
    schedule = Schedule(lr=1.0, train_iters=100, decay_iters=20, min_lr=0.2)
    assert schedule.rate(90) == pytest.approx(0.6)
    assert schedule.rate(100) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("iteration", "rate"), [(80, 1.0), (85, 0.5), (100, 0.0), (81, 1 - 0.05**0.5)]
)
def test_one_minus_sqrt_falls_steeply_first(iteration: int, rate: float) -> None:
    style = "1-sqrt"
    schedule = Schedule(lr=1.0, train_iters=100, decay_iters=20, decay_style=style)
    assert schedule.rate(iteration) == pytest.approx(rate)
