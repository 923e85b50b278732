"""The mathematics of the model, of Adam and of the learning rate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autoexp_tui.demo import model
from autoexp_tui.demo.model import Adam, Floats, Schedule, Shape, Tokens, clip

SHAPE = Shape(context=3, hidden=5, vocabulary=7, embedding=2)
CONTEXTS: Tokens = np.array([[0, 1, 2], [1, 1, 6], [5, 0, 0], [4, 3, 2]])
TARGETS: Tokens = np.array([3, 6, 0, 1])
GRADIENTS = np.array([[1.0, -2.0, 0.5], [0.5, 1.0, 0.0], [-3.0, 0.1, 2.0]])
WSD = Schedule(lr=1.0, train_iters=100, warmup_iters=10, decay_iters=20)


def double_weights() -> Floats:
    """Weights far from zero, in double precision for finite differences."""
    random = np.random.default_rng(1)
    return random.standard_normal(SHAPE.parameters)


def loss_at(flat: Floats) -> float:
    logits = model.forward(model.split_weights(flat, SHAPE), CONTEXTS).logits
    return float(model.softmax(logits, TARGETS)[1].mean())


def slope_at(flat: Floats, index: int) -> float:
    step = np.zeros_like(flat)
    step[index] = 1e-6
    return (loss_at(flat + step) - loss_at(flat - step)) / 2e-6


def test_every_gradient_agrees_with_finite_differences() -> None:
    flat = double_weights()
    gradient = np.empty_like(flat)
    model.loss_and_gradient(
        model.split_weights(flat, SHAPE),
        model.split_weights(gradient, SHAPE),
        CONTEXTS,
        TARGETS,
    )
    measured = [slope_at(flat, index) for index in range(flat.size)]
    np.testing.assert_allclose(gradient, measured, rtol=1e-5, atol=1e-8)


def test_the_loss_is_the_mean_negative_log_probability() -> None:
    flat = double_weights()
    weights = model.split_weights(flat, SHAPE)
    logits = model.forward(weights, CONTEXTS).logits
    probabilities = model.softmax(logits, TARGETS)[0]
    expected = -np.log(probabilities[np.arange(4), TARGETS]).mean()
    gradient = model.split_weights(np.empty_like(flat), SHAPE)
    loss = model.loss_and_gradient(weights, gradient, CONTEXTS, TARGETS)
    assert loss == pytest.approx(expected)


def test_the_same_seed_gives_the_same_weights() -> None:
    first = model.initialize_weights(SHAPE, seed=3)
    assert first.tobytes() == model.initialize_weights(SHAPE, seed=3).tobytes()
    assert first.tobytes() != model.initialize_weights(SHAPE, seed=4).tobytes()


def test_the_text_loss_is_the_mean_over_every_position() -> None:
    weights = model.split_weights(double_weights(), SHAPE)
    text = np.array([0, 1, 2, 3, 4, 5, 6, 0])
    single = [model.text_loss(weights, text[at : at + 4], 3) for at in range(5)]
    assert model.text_loss(weights, text, 3) == pytest.approx(np.mean(single))


def test_a_stride_measures_only_some_positions() -> None:
    weights = model.split_weights(double_weights(), SHAPE)
    text = np.array([0, 1, 2, 3, 4, 5, 6])
    ends = [model.text_loss(weights, text[at : at + 4], 3) for at in (0, 3)]
    assert model.text_loss(weights, text, 3, stride=3) == pytest.approx(np.mean(ends))


def test_a_large_logit_overflows_single_precision() -> None:
    logits = np.array([[0.0, 100.0]], dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        probabilities, losses = model.softmax(logits, np.array([0]))
    assert losses[0] == math.inf
    assert np.isnan(probabilities[0, 1])


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


FALLING = Schedule(lr=1.0, train_iters=100, decay_iters=20, min_lr=0.2)
STEEP = Schedule(lr=1.0, train_iters=100, decay_iters=20, decay_style="1-sqrt")


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (WSD, {1: 0.1, 5: 0.5, 10: 1.0, 11: 1.0, 80: 1.0, 81: 0.95, 90: 0.5, 100: 0.0}),
        (Schedule(lr=0.3, train_iters=100), {100: 0.3}),
        (FALLING, {90: 0.6, 100: 0.2}),
        (STEEP, {80: 1.0, 81: 1 - 0.05**0.5, 85: 0.5, 100: 0.0}),
    ],
)
def test_the_rate_rises_stays_and_falls(
    schedule: Schedule, rates: dict[int, float]
) -> None:
    assert {at: schedule.rate(at) for at in rates} == pytest.approx(rates)
