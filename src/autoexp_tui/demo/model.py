"""The language model, its optimizer and its learning rate, written out in NumPy.

The softmax is the plain one: a run that diverges overflows float32 to inf and then nan,
as large models do in half precision, and nothing here hides that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Tokens = npt.NDArray[np.integer[Any]]

EMBEDDING = 16
EMBEDDING_SCALE = 0.3
"""Small inputs: a step of Adam moves a hidden unit by about rate x inputs x this."""
OUTPUT_SCALE = 0.1
"""Small first logits: the first loss is about log(vocabulary)."""
EVALUATION_ROWS = 2048


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes that a checkpoint and a run must share."""

    context: int
    hidden: int
    vocabulary: int
    embedding: int = EMBEDDING

    @property
    def parameters(self) -> int:
        """How many numbers the model learns."""
        return sum(int(np.prod(part)) for part in self.parts())

    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the weights, in the order of `Weights`."""
        return (
            (self.vocabulary, self.embedding),
            (self.context * self.embedding, self.hidden),
            (self.hidden,),
            (self.hidden, self.vocabulary),
            (self.vocabulary,),
        )


def measure_memory(shape: Shape, rows: int, copies: int) -> tuple[int, int]:
    """Bytes of what training keeps (`copies` of the parameters), and of the arrays of
    one pass over `rows` contexts."""
    wide = shape.context * (2 * shape.embedding + shape.vocabulary)
    floats = wide + 3 * (shape.hidden + shape.vocabulary)
    return 4 * copies * shape.parameters, 4 * rows * floats


class Weights(NamedTuple):
    """Views into one flat vector, so that an optimiser sees a single array."""

    embedding: Floats
    hidden: Floats
    hidden_bias: Floats
    output: Floats
    output_bias: Floats


def split_weights(flat: Floats, shape: Shape) -> Weights:
    """Cut a flat vector of `shape.parameters` numbers into weights, sharing memory."""
    ends = np.cumsum([int(np.prod(part)) for part in shape.parts()])
    pieces = zip(np.split(flat, ends[:-1]), shape.parts(), strict=True)
    return Weights(*(piece.reshape(part) for piece, part in pieces))


def initialize_weights(shape: Shape, seed: int) -> Floats:
    """Random float32 weights as a flat vector."""
    random = np.random.Generator(np.random.Philox(key=seed))
    flat = random.standard_normal(shape.parameters, dtype=np.float32)
    weights = split_weights(flat, shape)
    weights.embedding[:] *= EMBEDDING_SCALE
    weights.hidden[:] *= 1 / weights.hidden.shape[0] ** 0.5
    weights.output[:] *= OUTPUT_SCALE / weights.output.shape[0] ** 0.5
    weights.hidden_bias[:] = 0.0
    weights.output_bias[:] = 0.0
    return flat


def forward(weights: Weights, contexts: Tokens) -> tuple[Floats, ...]:
    """Inputs, hidden units, their squares, and logits (rows, vocabulary), for contexts
    (rows, context)."""
    inputs = weights.embedding[contexts].reshape(len(contexts), -1)
    rectified = inputs @ weights.hidden
    rectified += weights.hidden_bias
    np.maximum(rectified, 0.0, out=rectified)
    squared = rectified * rectified
    logits = squared @ weights.output
    logits += weights.output_bias
    return inputs, rectified, squared, logits


def softmax(logits: Floats, targets: Tokens) -> tuple[Floats, Floats]:
    """Probabilities (rows, vocabulary) and the loss of each row, in nats."""
    exponentials = np.exp(logits)
    totals = exponentials.sum(axis=1, keepdims=True)
    wanted = logits[np.arange(len(targets)), targets]
    return exponentials / totals, np.log(totals[:, 0]) - wanted


def loss_and_gradient(
    weights: Weights, gradient: Weights, contexts: Tokens, targets: Tokens
) -> float:
    """Mean loss in nats over the rows; its gradient is left in `gradient`."""
    inputs, rectified, squared, logits = forward(weights, contexts)
    at_logits, losses = softmax(logits, targets)
    at_logits[np.arange(len(targets)), targets] -= 1.0
    at_logits *= 1.0 / len(targets)
    np.matmul(squared.T, at_logits, out=gradient.output)
    np.sum(at_logits, axis=0, out=gradient.output_bias)
    at_hidden = at_logits @ weights.output.T
    at_hidden *= rectified
    at_hidden *= 2.0
    np.matmul(inputs.T, at_hidden, out=gradient.hidden)
    np.sum(at_hidden, axis=0, out=gradient.hidden_bias)
    # Rows that used the same byte are summed by a product with a one-hot matrix.
    vocabulary, width = gradient.embedding.shape
    one_hot = np.zeros((contexts.size, vocabulary), dtype=gradient.embedding.dtype)
    one_hot[np.arange(contexts.size), contexts.ravel()] = 1.0
    at_inputs = (at_hidden @ weights.hidden.T).reshape(-1, width)
    np.matmul(one_hot.T, at_inputs, out=gradient.embedding)
    return float(losses.mean())


def accumulate_gradient(
    weights: Weights,
    gradient: Floats,
    part: Floats,
    batch: tuple[Tokens, Tokens],
    shape: Shape,
    rows: int,
) -> float:
    """The same of a batch in passes of `rows` at most; `part`, as large as `gradient`,
    is used for each of them."""
    contexts, targets = batch
    slopes, total = split_weights(part, shape), 0.0
    gradient[:] = 0.0
    for start in range(0, len(targets), rows):
        some = slice(start, start + rows)
        share = len(targets[some]) / len(targets)
        loss = loss_and_gradient(weights, slopes, contexts[some], targets[some])
        total += share * loss
        part *= share
        gradient += part
    return total


def text_loss(weights: Weights, text: Tokens, context: int, stride: int = 1) -> float:
    """Mean loss in nats of predicting every `stride`-th byte of a longer text."""
    windows = np.lib.stride_tricks.sliding_window_view(text, context + 1)[::stride]
    total = 0.0
    for start in range(0, len(windows), EVALUATION_ROWS):
        rows = windows[start : start + EVALUATION_ROWS]
        logits = forward(weights, rows[:, :context])[-1]
        losses = softmax(logits, rows[:, context])[1]
        total += float(losses.sum(dtype=np.float64))
    return total / len(windows)


BETA_MEAN = 0.9
BETA_SQUARE = 0.999
EPSILON = 1e-8


def update_by_adam(
    parameters: Floats,
    gradient: Floats,
    moments: tuple[Floats, Floats],
    rate: float,
    step: int,
) -> None:
    """Move the parameters and their two moments; `step` counts from 1."""
    mean, square = moments
    mean += (1.0 - BETA_MEAN) * (gradient - mean)
    square += (1.0 - BETA_SQUARE) * (gradient * gradient - square)
    root = np.sqrt(square / (1.0 - BETA_SQUARE**step)) + EPSILON
    parameters -= rate / (1.0 - BETA_MEAN**step) * mean / root


def clip(gradient: Floats, limit: float) -> float:
    """Scale the gradient down to the norm `limit` (0: never); returns the old norm."""
    norm = float(np.sqrt(np.dot(gradient, gradient)))
    if limit and norm > limit:
        gradient *= limit / norm
    return norm


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The learning rate over a run: warm-up, stable, linear decay up to its end."""

    lr: float
    """At its peak."""
    train_iters: int
    warmup_iters: int = 0
    decay_iters: int = 0
    """Length of the decay at the end of the run; 0 keeps the peak to the end."""

    def rate(self, iteration: int) -> float:
        """The learning rate of an iteration."""
        if iteration <= self.warmup_iters:
            return self.lr * iteration / self.warmup_iters
        into_decay = iteration - (self.train_iters - self.decay_iters)
        if self.decay_iters == 0 or into_decay <= 0:
            return self.lr
        return self.lr * (1 - into_decay / self.decay_iters)
