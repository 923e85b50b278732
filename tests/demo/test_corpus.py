"""The text, its split, and the order it is seen in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from autoexp_tui.demo import training
from autoexp_tui.demo.checkpoints import DemoError
from autoexp_tui.demo.training import batch, read_corpus

if TYPE_CHECKING:
    from pathlib import Path

TEXT = np.arange(100, dtype=np.uint8)


def write_library(root: Path, files: int = 60) -> None:
    for number in range(files):
        (root / f"module_{number}.py").write_text(f"name = {number:04d}\n")


def test_the_standard_library_is_read_up_to_the_caps_as_ascii() -> None:
    text = read_corpus()
    assert len(text.train) == training.TRAIN_BYTES
    assert len(text.heldout) == training.HELDOUT_BYTES
    assert max(text.train.max(), text.heldout.max()) < training.VOCABULARY


def test_every_file_is_in_exactly_one_part(tmp_path: Path) -> None:
    write_library(tmp_path)
    text = read_corpus(tmp_path)
    parts = [part.tobytes().split(b"\0") for part in (text.train, text.heldout)]
    written = {path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(parts[0] + parts[1]) == sorted(written)


def test_a_changed_text_has_another_digest(tmp_path: Path) -> None:
    write_library(tmp_path)
    before = read_corpus(tmp_path).digest
    (tmp_path / "module_1.py").write_text("name = 'new'\n")
    assert read_corpus(tmp_path).digest != before


def test_a_large_file_gives_its_beginning_only(tmp_path: Path) -> None:
    write_library(tmp_path)
    (tmp_path / "module_2.py").write_text("x" * 2 * training.FILE_BYTES)
    text = read_corpus(tmp_path)
    whole = text.train.tobytes() + text.heldout.tobytes()
    assert whole.count(b"x") == training.FILE_BYTES


def test_no_text_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=str(tmp_path)):
        read_corpus(tmp_path)


def test_a_batch_is_windows_of_the_text() -> None:
    contexts, targets = batch(TEXT, context=4, size=8, seed=0, iteration=1)
    assert contexts.shape == (8, 4)
    assert (contexts + 4 == np.column_stack([contexts[:, 1:], targets]) + 3).all()


@pytest.mark.parametrize(("seed", "iteration"), [(5, 10), (6, 9)])
def test_another_seed_or_iteration_gives_another_batch(
    seed: int, iteration: int
) -> None:
    first = batch(TEXT, 4, 8, seed=5, iteration=9)[0]
    assert first.tobytes() != batch(TEXT, 4, 8, seed, iteration)[0].tobytes()


def test_neighbouring_iterations_draw_from_streams_that_do_not_overlap() -> None:
    text = np.frombuffer(np.arange(50_000, dtype=">u4").tobytes(), dtype=np.uint8)
    seen = [
        {row.tobytes() for row in batch(text, 16, 64, seed=5, iteration=number)[0]}
        for number in (9, 10)
    ]
    assert len(seen[0] & seen[1]) < 4
