"""Runs: from the start, from a checkpoint, after a crash, into nan."""

from __future__ import annotations

import re
import signal
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from autoexp_tui.demo import checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.demo.conftest import Outcome, Run

FINAL = "iter_00000040"


def assert_same_state(one: Path, other: Path) -> None:
    """The two checkpoints agree in every bit."""
    first, second = checkpoints.load(one), checkpoints.load(other)
    assert first.facts == second.facts
    for name in ("parameters", "mean", "square"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()


def losses(outcome: Outcome) -> list[str]:
    return re.findall(r"lm loss: (\S+)", outcome.out)


def test_a_run_logs_each_interval_and_saves_each_checkpoint(
    small_train: Run, tmp_path: Path
) -> None:
    outcome = small_train("--save", tmp_path)
    assert outcome.lines("starting from random weights")
    iterations = re.findall(r"iteration +(\d+)/ +40 ", outcome.out)
    assert iterations == ["10", "20", "30", "40"]
    place = tmp_path / FINAL
    last = f"successfully saved checkpoint from iteration      40 to {place}"
    assert last in outcome.out.splitlines()
    assert len(outcome.lines("successfully saved checkpoint")) == 4
    assert (tmp_path / FINAL / "done.txt").exists()


def test_a_progress_line_has_the_megatron_form(small_train: Run) -> None:
    (line,) = small_train("--train-iters", 40, "--log-interval", 40).lines(
        "iteration  "
    )
    number = r"\d\.\d{6}E[+-]\d\d"
    assert re.fullmatch(
        r" \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] iteration       40/      40 \| "
        rf"lm loss: {number} \| learning rate: 1\.000E-02 \| tokens/s: \d+ \| "
        r"grad norm: \d+\.\d{3} \| consumed samples: 320 \| "
        r"elapsed time per iteration \(ms\): \d+\.\d \|",
        line,
    )


def test_a_run_learns(small_train: Run) -> None:
    values = [float(loss) for loss in losses(small_train("--train-iters", 200))]
    assert values[-1] < values[0] - 0.5


def test_the_last_iteration_is_saved_out_of_turn(
    small_train: Run, tmp_path: Path
) -> None:
    small_train("--save", tmp_path, "--save-interval", 0)
    assert [path.name for path in tmp_path.glob("iter_*")] == [FINAL]


def test_the_heldout_loss_is_logged_at_its_interval(small_train: Run) -> None:
    outcome = small_train("--eval-interval", 20)
    found = re.findall(
        r"validation loss at iteration (\d+) \| lm loss value: \d", outcome.out
    )
    assert found == ["20", "40"]
    assert len(losses(outcome)) == 4  # a training loss is told from it


def test_a_crash_and_a_restart_end_bit_for_bit_like_an_uninterrupted_run(
    small_process: Run, tmp_path: Path
) -> None:
    small_process("--save", tmp_path / "whole")
    flaky = ("--save", tmp_path / "flaky", "--crash-at", 26)
    crashed, restarted = small_process(*flaky), small_process(*flaky)
    assert crashed.status == 1
    assert "RuntimeError: asked to crash at iteration 26" in crashed.err
    assert restarted.status == 0
    assert restarted.lines("successfully loaded")[0].endswith("at iteration 20")
    assert_same_state(tmp_path / "whole" / FINAL, tmp_path / "flaky" / FINAL)


def test_a_loaded_run_continues_the_iterations_and_decays(
    small_train: Run, tmp_path: Path
) -> None:
    small_train("--save", tmp_path / "stable")
    load = ("--load", tmp_path / "stable" / "iter_00000030", "--decay-iters", 10)
    outcome = small_train(*load, "--save", tmp_path / "cool", "--log-interval", 5)
    assert outcome.lines("successfully loaded checkpoint")
    rates = re.findall(r"iteration +(\d+)/.*learning rate: (\S+)", outcome.out)
    assert rates == [("35", "5.000E-03"), ("40", "0.000E+00")]


def test_its_own_checkpoint_goes_before_the_newest_of_the_directory_to_load(
    small_train: Run, tmp_path: Path
) -> None:
    small_train("--save", tmp_path / "stable")
    load = ("--load", tmp_path / "stable", "--save", tmp_path / "own")
    first = small_train(*load, "--train-iters", 50)
    assert first.lines("successfully loaded")[0].endswith("at iteration 40")
    again = small_train(*load, "--train-iters", 50)
    assert "own/iter_00000050 at iteration 50" in again.lines("successfully loaded")[0]


def test_a_finished_run_started_again_does_nothing(
    small_train: Run, tmp_path: Path
) -> None:
    small_train("--save", tmp_path)
    before = (tmp_path / FINAL / "model.npz").stat().st_mtime_ns
    outcome = small_train("--save", tmp_path)
    assert outcome.status == 0
    assert outcome.lines("training complete at iteration 40")
    assert (tmp_path / FINAL / "model.npz").stat().st_mtime_ns == before


def test_a_high_rate_without_clipping_overflows_to_nan_and_goes_on(demo: Run) -> None:
    size = ("--hidden", 64, "--batch-size", 8, "--train-iters", 600)
    arguments = (*size, "--lr", 0.3, "--clip-grad", 0)
    outcome = demo("train", *arguments, "--log-interval", 10, "--eval-interval", 0)
    assert outcome.status == 0
    assert np.isfinite(float(losses(outcome)[0]))
    assert losses(outcome)[-1] == "nan"
    assert outcome.lines("lm loss: nan |")
    assert outcome.lines("grad norm: nan |")


@pytest.mark.parametrize(
    ("argument", "message"),
    [(("--hidden", 16), "hidden=8"), (("--train-iters", 30), "beyond --train-iters")],
)
def test_a_checkpoint_that_does_not_fit_is_refused(
    small_train: Run,
    tmp_path: Path,
    argument: tuple[object, ...],
    message: str,
) -> None:
    small_train("--save", tmp_path)
    outcome = small_train("--load", tmp_path, *argument)
    assert outcome.status == 2
    assert message in outcome.err


def test_a_first_attempt_sets_an_earlier_run_s_checkpoints_aside(
    small_train: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save = tmp_path / "checkpoints"
    small_train("--save", save)
    monkeypatch.setenv("AUTOEXP_RESUME", "0")
    again = small_train("--save", save)
    assert again.lines("starting from random weights")
    assert (tmp_path / "checkpoints.earlier-1" / FINAL / "done.txt").exists()
    assert (save / FINAL / "done.txt").exists()
    monkeypatch.setenv("AUTOEXP_RESUME", "1")
    assert small_train("--save", save).lines("successfully loaded checkpoint")


def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    small_process: Run,
    small_process_command: Callable[..., list[str]],
    tmp_path: Path,
) -> None:
    small_process("--save", tmp_path / "whole")
    often = ("--save", tmp_path / "killed", "--save-interval", 1)
    command = small_process_command(*often, "--log-interval", 1)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "iteration       15/" in line)
        process.send_signal(signal.SIGKILL)
    newest = checkpoints.find_newest(tmp_path / "killed")
    assert newest is not None
    assert newest.name >= "iter_00000014"
    small_process(*often)
    assert_same_state(tmp_path / "whole" / FINAL, tmp_path / "killed" / FINAL)
