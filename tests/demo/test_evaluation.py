"""Evaluations, and what a cooldown gains."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from autoexp_tui.demo import checkpoints
from autoexp_tui.demo.checkpoints import Checkpoint
from autoexp_tui.demo.evaluation import format_summary

if TYPE_CHECKING:
    from pathlib import Path

    from tests.demo.conftest import Run


def record(path: Path) -> Any:
    return json.loads(path.read_text())


def spoil(path: Path) -> None:
    """Put nan in the weights of a checkpoint, as a diverged run would."""
    found = checkpoints.load(path)
    bad = np.full_like(found.parameters, math.nan)
    checkpoints.save(
        path.parent, Checkpoint(found.facts, bad, found.mean, found.square)
    )


def test_the_record_says_what_was_measured(
    demo: Run, small_train: Run, tmp_path: Path
) -> None:
    small_train("--save", tmp_path / "run")
    output = tmp_path / "deep" / "result.json"
    demo("evaluate", "--load", tmp_path / "run", "--output", output, "--name", "one")
    found = record(output)
    assert found["name"] == "one"
    assert (found["lr"], found["iteration"], found["tokens"]) == (0.01, 40, 320)
    assert found["bits_per_byte"] == pytest.approx(found["heldout_loss"] / math.log(2))
    assert found["baseline"] is None


def test_a_cooldown_gains_over_the_stable_run_at_equal_tokens(
    demo: Run, tmp_path: Path
) -> None:
    model = ("--hidden", 64, "--context", 8, "--batch-size", 32, "--lr", 0.005)
    run = ("train", *model, "--train-iters", 2000, "--eval-interval", 0)
    demo(*run, "--save-interval", 1600, "--save", tmp_path / "stable")
    start = ("--load", tmp_path / "stable" / "iter_00001600", "--decay-iters", 400)
    demo(*run, *start, "--save", tmp_path / "cool")
    compared = ("--load", tmp_path / "cool", "--baseline", tmp_path / "stable")
    demo("evaluate", *compared, "--output", tmp_path / "result.json")
    found = record(tmp_path / "result.json")
    assert found["tokens"] == found["baseline"]["tokens"] == 64000
    assert found["heldout_loss"] < found["baseline"]["heldout_loss"] - 0.02


def test_the_baseline_is_taken_at_the_same_iteration(
    demo: Run, small_train: Run, tmp_path: Path
) -> None:
    small_train("--save", tmp_path / "stable")
    load = ("--load", tmp_path / "stable" / "iter_00000030")
    arguments = (*load, "--baseline", tmp_path / "stable")
    told = demo("evaluate", *load, *arguments, "--output", tmp_path / "result.json")
    found = record(tmp_path / "result.json")
    assert len(told.lines("held-out loss: ")) == len(told.lines("baseline loss: ")) == 1
    assert found["baseline"]["iteration"] == 30
    assert found["baseline"]["heldout_loss"] == found["heldout_loss"]


def test_a_baseline_with_other_tokens_is_refused(
    demo: Run, small_train: Run, tmp_path: Path
) -> None:
    small_train("--save", tmp_path / "run")
    baseline = ("--baseline", tmp_path / "run" / "iter_00000030")
    output = ("--output", tmp_path / "result.json")
    outcome = demo("evaluate", "--load", tmp_path / "run", *baseline, *output)
    assert outcome.status == 2
    assert "240 tokens" in outcome.err
    assert not (tmp_path / "result.json").exists()


def test_the_loss_of_a_diverged_run_is_nan_in_the_log_and_null_in_the_record(
    demo: Run, small_train: Run, tmp_path: Path
) -> None:
    small_train("--save", tmp_path / "run")
    spoil(tmp_path / "run" / "iter_00000040")
    output = tmp_path / "result.json"
    outcome = demo("evaluate", "--load", tmp_path / "run", "--output", output)
    assert outcome.lines("held-out loss: nan")
    assert record(output)["heldout_loss"] is None


def test_the_summary_says_both_losses_and_the_gain_in_one_line() -> None:
    record = {
        "name": "lr1e-3",
        "heldout_loss": 1.5,
        "baseline": {"heldout_loss": 1.625},
    }
    line = format_summary(record)
    assert line == "lr1e-3     cooled down 1.5000   stable 1.6250   gain +0.1250"


def test_a_loss_that_is_no_number_is_said_as_such() -> None:
    nan = {"heldout_loss": math.nan}
    record = {"name": "x", **nan, "baseline": nan}
    assert format_summary(record).count("not a number") == 2
