"""The model's mathematics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autoexp_tui.demo import model
from autoexp_tui.demo.model import Floats, Shape, Tokens

SHAPE = Shape(context=3, hidden=5, vocabulary=7, embedding=2)
CONTEXTS: Tokens = np.array([[0, 1, 2], [1, 1, 6], [5, 0, 0], [4, 3, 2]])
TARGETS: Tokens = np.array([3, 6, 0, 1])


def double_weights() -> Floats:
    """Weights far from zero, in double precision for finite differences."""
    random = np.random.default_rng(1)
    return random.standard_normal(SHAPE.parameters)


def loss_at(flat: Floats) -> float:
    logits = model.forward(model.views(flat, SHAPE), CONTEXTS).logits
    return float(model.softmax(logits, TARGETS)[1].mean())


def slope_at(flat: Floats, index: int) -> float:
    step = np.zeros_like(flat)
    step[index] = 1e-6
    return (loss_at(flat + step) - loss_at(flat - step)) / 2e-6


def test_every_gradient_agrees_with_finite_differences() -> None:
    flat = double_weights()
    gradient = np.empty_like(flat)
    model.loss_and_gradient(
        model.views(flat, SHAPE), model.views(gradient, SHAPE), CONTEXTS, TARGETS
    )
    measured = [slope_at(flat, index) for index in range(flat.size)]
    np.testing.assert_allclose(gradient, measured, rtol=1e-5, atol=1e-8)


def test_the_loss_is_the_mean_negative_log_probability() -> None:
    flat = double_weights()
    weights = model.views(flat, SHAPE)
    logits = model.forward(weights, CONTEXTS).logits
    probabilities = model.softmax(logits, TARGETS)[0]
    expected = -np.log(probabilities[np.arange(4), TARGETS]).mean()
    gradient = model.views(np.empty_like(flat), SHAPE)
    loss = model.loss_and_gradient(weights, gradient, CONTEXTS, TARGETS)
    assert loss == pytest.approx(expected)


def test_random_weights_know_nothing_yet() -> None:
    shape = Shape(context=24, hidden=64, vocabulary=128)
    weights = model.views(model.initial(shape, seed=0), shape)
    text = np.arange(1000) % 128
    assert model.text_loss(weights, text, 24) == pytest.approx(math.log(128), abs=0.1)


def test_the_weights_are_views_of_the_flat_vector() -> None:
    flat = double_weights()
    model.views(flat, SHAPE).output_bias[-1] = 42.0
    assert flat[-1] == 42.0


def test_the_same_seed_gives_the_same_weights() -> None:
    first = model.initial(SHAPE, seed=3)
    assert first.tobytes() == model.initial(SHAPE, seed=3).tobytes()
    assert first.tobytes() != model.initial(SHAPE, seed=4).tobytes()


def test_the_text_loss_is_the_mean_over_every_position() -> None:
    weights = model.views(double_weights(), SHAPE)
    text = np.array([0, 1, 2, 3, 4, 5, 6, 0])
    single = [model.text_loss(weights, text[at : at + 4], 3) for at in range(5)]
    assert model.text_loss(weights, text, 3) == pytest.approx(np.mean(single))


def test_a_stride_measures_only_some_positions() -> None:
    weights = model.views(double_weights(), SHAPE)
    text = np.array([0, 1, 2, 3, 4, 5, 6])
    ends = [model.text_loss(weights, text[at : at + 4], 3) for at in (0, 3)]
    assert model.text_loss(weights, text, 3, stride=3) == pytest.approx(np.mean(ends))


def test_a_large_logit_overflows_single_precision() -> None:
    logits = np.array([[0.0, 100.0]], dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        probabilities, losses = model.softmax(logits, np.array([0]))
    assert losses[0] == math.inf
    assert np.isnan(probabilities[0, 1])
