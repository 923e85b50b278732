"""Adam and clipping."""

from __future__ import annotations

import numpy as np
import pytest

from autoexp_tui.demo.model import Adam, clip

GRADIENTS = np.array([[1.0, -2.0, 0.5], [0.5, 1.0, 0.0], [-3.0, 0.1, 2.0]])


def test_the_first_step_is_the_rate_against_the_sign() -> None:
    parameters = np.zeros(3)
    Adam(np.zeros(3), np.zeros(3)).update(parameters, GRADIENTS[0].copy(), 0.1, 1)
    np.testing.assert_allclose(parameters, [-0.1, 0.1, -0.1], rtol=1e-6)


def test_several_steps_agree_with_the_textbook() -> None:
    parameters, adam = np.zeros(3), Adam(np.zeros(3), np.zeros(3))
    expected, mean, square = np.zeros(3), np.zeros(3), np.zeros(3)
    for step, gradient in enumerate(GRADIENTS, start=1):
        adam.update(parameters, gradient.copy(), 0.01, step)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        unbiased_mean = mean / (1 - 0.9**step)
        unbiased_square = square / (1 - 0.999**step)
        expected -= 0.01 * unbiased_mean / (np.sqrt(unbiased_square) + 1e-8)
    np.testing.assert_allclose(parameters, expected, rtol=1e-9)


def test_single_precision_stays_single() -> None:
    parameters = np.zeros(3, dtype=np.float32)
    adam = Adam(np.zeros_like(parameters), np.zeros_like(parameters))
    adam.update(parameters, GRADIENTS[0].astype(np.float32), 0.1, 1)
    assert adam.mean.dtype == adam.square.dtype == parameters.dtype == np.float32


def test_a_long_gradient_is_cut_to_the_limit() -> None:
    gradient = np.array([3.0, 4.0])
    assert clip(gradient, 1.0) == 5.0
    assert gradient == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("limit", [0.0, 10.0])
def test_a_gradient_within_the_limit_or_without_one_is_left(limit: float) -> None:
    gradient = np.array([3.0, 4.0])
    clip(gradient, limit)
    assert gradient.tolist() == [3.0, 4.0]
