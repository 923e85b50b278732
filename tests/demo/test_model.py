"""What a run is made of: the model, Adam, the text, checkpoints."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from autoexp_tui.demo import checkpoints, model, training
from autoexp_tui.demo.checkpoints import Checkpoint, DemoError, RunFacts
from autoexp_tui.demo.model import Floats, Shape, Tokens, clip
from autoexp_tui.demo.training import batch, read_corpus

SHAPE = Shape(context=3, hidden=5, vocabulary=7, embedding=2)
CONTEXTS: Tokens = np.array([[0, 1, 2], [1, 1, 6], [5, 0, 0], [4, 3, 2]])
TARGETS: Tokens = np.array([3, 6, 0, 1])
GRADIENTS = np.array([[1.0, -2.0, 0.5], [0.5, 1.0, 0.0], [-3.0, 0.1, 2.0]])
# Far from zero, in double precision for finite differences.
FLAT: Floats = np.random.default_rng(1).standard_normal(SHAPE.parameters)
WEIGHTS = model.split_weights(FLAT, SHAPE)


def loss_at(flat: Floats) -> float:
    logits = model.forward(model.split_weights(flat, SHAPE), CONTEXTS)[-1]
    return float(model.softmax(logits, TARGETS)[1].mean())


def slope_at(index: int) -> float:
    step = np.zeros_like(FLAT)
    step[index] = 1e-6
    return (loss_at(FLAT + step) - loss_at(FLAT - step)) / 2e-6


def test_loss_and_every_gradient_agree_with_probabilities_and_differences() -> None:
    gradient = np.empty_like(FLAT)
    parts = model.split_weights(gradient, SHAPE)
    loss = model.loss_and_gradient(WEIGHTS, parts, CONTEXTS, TARGETS)
    measured = [slope_at(index) for index in range(FLAT.size)]
    np.testing.assert_allclose(gradient, measured, rtol=1e-5, atol=1e-8)
    chances = model.softmax(model.forward(WEIGHTS, CONTEXTS)[-1], TARGETS)[0]
    assert loss == pytest.approx(-np.log(chances[np.arange(4), TARGETS]).mean())
    whole, part, batch = gradient.copy(), np.empty_like(FLAT), (CONTEXTS, TARGETS)
    summed = model.accumulate_gradient(WEIGHTS, gradient, part, batch, SHAPE, rows=3)
    assert summed == pytest.approx(loss)
    np.testing.assert_allclose(gradient, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("stride", "ends"), [(1, range(5)), (3, (0, 3))])
def test_the_text_loss_is_the_mean_over_the_positions(
    stride: int, ends: range | tuple[int, ...]
) -> None:
    text = np.array([0, 1, 2, 3, 4, 5, 6, 0])[: max(ends) + 4]
    single = [model.text_loss(WEIGHTS, text[at : at + 4], 3) for at in ends]
    found = model.text_loss(WEIGHTS, text, 3, stride=stride)
    assert found == pytest.approx(np.mean(single))


def test_steps_of_adam_agree_with_the_textbook_in_single_precision() -> None:
    parameters, *moments = np.zeros((3, 3), dtype=np.float32)
    expected, mean, square = np.zeros(3), np.zeros(3), np.zeros(3)
    for step, gradient in enumerate(GRADIENTS, start=1):
        one = gradient.astype(np.float32)
        model.update_by_adam(parameters, one, (moments[0], moments[1]), 0.01, step)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        root = np.sqrt(square / (1 - 0.999**step)) + 1e-8
        expected -= 0.01 * mean / (1 - 0.9**step) / root
    np.testing.assert_allclose(parameters, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("limit", "left"), [(1.0, [0.6, 0.8]), (0.0, [3.0, 4.0]), (10.0, [3.0, 4.0])]
)
def test_a_gradient_is_cut_to_the_limit_if_there_is_one(
    limit: float, left: list[float]
) -> None:
    gradient = np.array([3.0, 4.0])
    assert clip(gradient, limit) == 5.0
    assert gradient == pytest.approx(left)


def test_the_library_is_read_up_to_the_caps_every_file_in_one_part_by_its_beginning(
    tmp_path: Path,
) -> None:
    text = read_corpus()
    sizes = len(text.train), len(text.heldout)
    assert sizes == (training.TRAIN_BYTES, training.HELDOUT_BYTES)
    assert max(text.train.max(), text.heldout.max()) < training.VOCABULARY
    with pytest.raises(DemoError, match=str(tmp_path)):
        read_corpus(tmp_path)
    for number in range(60):
        (tmp_path / f"module_{number}.py").write_text(f"name = {number:04d}\n")
    text = read_corpus(tmp_path)
    parts = [part.tobytes().split(b"\0") for part in (text.train, text.heldout)]
    written = {path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(parts[0] + parts[1]) == sorted(written)
    (tmp_path / "module_2.py").write_text("x" * 2 * training.FILE_BYTES)
    changed = read_corpus(tmp_path)
    whole = changed.train.tobytes() + changed.heldout.tobytes()
    assert whole.count(b"x") == training.FILE_BYTES
    assert changed.digest != text.digest


def test_a_batch_is_windows_of_the_text_drawn_by_seed_and_iteration() -> None:
    def draw(seed: int, iteration: int) -> tuple[Tokens, Tokens]:
        settings = SimpleNamespace(context=4, batch_size=8, seed=seed)
        return batch(np.arange(100, dtype=np.uint8), cast("Any", settings), iteration)

    contexts, targets = draw(5, 9)
    assert contexts.shape == (8, 4)
    assert (contexts + 1 == np.column_stack([contexts[:, 1:], targets])).all()
    for other in (draw(5, 10), draw(6, 9)):
        assert contexts.tobytes() != other[0].tobytes()


def made(iteration: int = 7) -> Checkpoint:
    facts = RunFacts(iteration, samples=70, seed=1, lr=0.1, corpus="abc", shape=SHAPE)
    numbers = np.arange(SHAPE.parameters, dtype=np.float32)
    return Checkpoint(facts, numbers, numbers * 2, numbers * 3)


def save(directory: Path, iteration: int = 7) -> Path:
    checkpoints.prepare(directory)
    return checkpoints.save(directory, made(iteration))


def test_the_newest_complete_one_is_found_and_what_a_killed_writer_left_is_removed(
    tmp_path: Path,
) -> None:
    older, newer, last = (save(tmp_path, iteration) for iteration in (9, 10, 11))
    (last / "done.txt").unlink()
    assert checkpoints.find_newest(tmp_path) == checkpoints.locate(tmp_path) == newer
    assert checkpoints.locate(tmp_path, 9) == checkpoints.locate(older) == older
    left = tmp_path / ".iter_00000012.partial"
    left.mkdir()
    (left / "model.npz").write_bytes(b"half")
    (tmp_path / "iter_00000012").mkdir()
    path = save(tmp_path, 12)
    assert not left.exists()
    assert checkpoints.load(path).facts.iteration == 12


def test_a_damaged_checkpoint_or_one_of_another_text_is_an_error(
    tmp_path: Path,
) -> None:
    with pytest.raises(DemoError, match="another text"):
        checkpoints.require_corpus(tmp_path, made().facts, "def")
    arrays = save(tmp_path) / "model.npz"
    arrays.write_bytes(arrays.read_bytes()[:-200])
    with pytest.raises(DemoError, match="cannot read the checkpoint"):
        checkpoints.load(arrays.parent)
