"""The trainer's three commands: runs, evaluations, reports, and what they refuse."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.demo import checkpoints
from autoexp_tui.demo.command_line import main

SMALL = (
    *("train", "--context", "4", "--hidden", "8", "--batch-size", "8"),
    *("--train-iters", "40", "--warmup-iters", "5", "--lr", "0.01"),
    *("--log-interval", "10", "--save-interval", "10", "--eval-interval", "0"),
)
COMMAND = [sys.executable, "-m", "autoexp_tui.demo", *SMALL]
FINAL = "iter_00000040"


@dataclass(frozen=True, slots=True)
class Outcome:
    status: int
    out: str
    err: str

    def lines(self, word: str) -> list[str]:
        """The printed lines that hold a word."""
        return [line for line in self.out.splitlines() if word in line]

    @property
    def losses(self) -> list[str]:
        return re.findall(r"lm loss: (\S+)", self.out)


@dataclass(frozen=True, slots=True)
class Demo:
    """The commands, in this process."""

    capsys: pytest.CaptureFixture[str]
    root: Path

    def __call__(self, *arguments: object) -> Outcome:
        self.capsys.readouterr()
        return Outcome(main(list(map(str, arguments))), *self.capsys.readouterr())

    def train(self, *arguments: object) -> Outcome:
        """Train a small model; arguments are added to the small ones."""
        return self(*SMALL, *arguments)

    def evaluate(self, *arguments: object) -> tuple[Outcome, Any]:
        """What an evaluation says and writes."""
        output = self.root / "deep" / "result.json"
        outcome = self("evaluate", *arguments, "--output", output)
        return outcome, json.loads(output.read_text()) if output.exists() else None

    def report(self, *results: Any) -> tuple[Outcome, Any]:
        """What a report on these results says and writes."""
        paths = [self.root / f"{index}.json" for index in range(len(results))]
        for path, content in zip(paths, results, strict=True):
            path.write_text(json.dumps(content))
        output = self.root / "report.json"
        outcome = self("report", "--results", *paths, "--output", output)
        return outcome, json.loads(output.read_text()) if output.exists() else None


@pytest.fixture
def demo(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Demo:
    return Demo(capsys, tmp_path)


def train_apart(*arguments: object) -> Outcome:
    """Train a small model in a process of its own."""
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def assert_same_state(one: Path, other: Path) -> None:
    """The two checkpoints agree in every bit."""
    first, second = checkpoints.load(one), checkpoints.load(other)
    assert first.facts == second.facts
    for name in ("parameters", "mean", "square"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()


def test_a_run_logs_and_saves_at_each_interval_and_is_not_done_again(
    demo: Demo, tmp_path: Path
) -> None:
    outcome = demo.train("--save", tmp_path, "--eval-interval", 20)
    assert outcome.lines("starting from random weights")
    iterations = re.findall(r"iteration +(\d+)/ +40 ", outcome.out)
    assert iterations == ["10", "20", "30", "40"]
    number = r"\d\.\d{6}E[+-]\d\d"
    assert re.fullmatch(
        r" \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] iteration       40/      40 \| "
        rf"lm loss: {number} \| learning rate: 1\.000E-02 \| tokens/s: \d+ \| "
        r"grad norm: \d+\.\d{3} \| consumed samples: 320 \| "
        r"elapsed time per iteration \(ms\): \d+\.\d \|",
        outcome.lines("iteration       40/")[0],
    ), "the form of Megatron"
    assert len(outcome.losses) == 4  # a training loss is told from a held-out one
    assert float(outcome.losses[-1]) < float(outcome.losses[0])  # it learns
    held_out = r"validation loss at iteration (\d+) \| lm loss value: \d"
    assert re.findall(held_out, outcome.out) == ["20", "40"]
    saved = outcome.lines("successfully saved checkpoint")
    last = f"successfully saved checkpoint from iteration      40 to {tmp_path / FINAL}"
    assert (len(saved), saved[-1]) == (4, last)
    before = (tmp_path / FINAL / "model.npz").stat().st_mtime_ns
    again = demo.train("--save", tmp_path)
    assert again.status == 0
    assert again.lines("training complete at iteration 40")
    assert (tmp_path / FINAL / "model.npz").stat().st_mtime_ns == before


def test_a_crash_and_a_restart_end_bit_for_bit_like_an_uninterrupted_run(
    tmp_path: Path,
) -> None:
    train_apart("--save", tmp_path / "whole")
    flaky = ("--save", tmp_path / "flaky", "--crash-at", 26)
    crashed, restarted = train_apart(*flaky), train_apart(*flaky)
    assert crashed.status == 1
    assert "RuntimeError: asked to crash at iteration 26" in crashed.err
    assert restarted.status == 0
    assert restarted.lines("successfully loaded")[0].endswith("at iteration 20")
    assert_same_state(tmp_path / "whole" / FINAL, tmp_path / "flaky" / FINAL)
    often = ("--save", tmp_path / "killed", "--save-interval", "1")
    command = [*COMMAND, *map(str, often), "--log-interval", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "iteration       15/" in line)
        process.send_signal(signal.SIGKILL)
    newest = checkpoints.find_newest(tmp_path / "killed")
    assert newest is not None
    assert newest.name >= "iter_00000014"
    train_apart(*often)
    assert_same_state(tmp_path / "whole" / FINAL, tmp_path / "killed" / FINAL)


def test_a_crash_that_was_asked_for_is_raised_before_its_iteration(
    demo: Demo, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match="asked to crash at iteration 26"):
        demo.train("--save", tmp_path, "--crash-at", 26)
    newest = checkpoints.find_newest(tmp_path)
    assert newest is not None
    assert newest.name == "iter_00000020"


def test_a_batch_that_does_not_fit_runs_in_smaller_passes(demo: Demo) -> None:
    large = ("--batch-size", 256, "--train-iters", 5, "--warmup-iters", 0)
    told = r"tried to allocate 1\.\d+ MB for a pass over 256 contexts, beside 0\.\d+ MB"
    with pytest.raises(MemoryError, match=told):
        demo.train(*large, "--memory-mb", 1)
    whole, passes = demo.train(*large), demo.train(*large, "--micro-batch", 64)
    assert passes.losses == whole.losses
    assert demo.train(*large, "--micro-batch", 64, "--memory-mb", 1).status == 0


def test_without_numpy_one_line_says_what_to_install(tmp_path: Path) -> None:
    text = 'raise ModuleNotFoundError("No module named numpy", name="numpy")'
    (tmp_path / "numpy.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=env, check=False)
    mend = f"NumPy is not installed: {sys.executable} -m pip install numpy\n"
    assert (done.returncode, done.stderr) == (1, f"autoexp_tui.demo: error: {mend}")


def test_a_loaded_run_decays_and_goes_on_from_its_own_checkpoint_first(
    demo: Demo, tmp_path: Path
) -> None:
    demo.train("--save", tmp_path / "stable")
    own = ("--save", tmp_path / "own", "--log-interval", 5)
    load = ("--load", tmp_path / "stable" / "iter_00000030", "--decay-iters", 10)
    cool = demo.train(*load, *own)
    assert cool.lines("successfully loaded")[0].endswith("at iteration 30")
    rates = re.findall(r"iteration +(\d+)/.*learning rate: (\S+)", cool.out)
    assert rates == [("35", "5.000E-03"), ("40", "0.000E+00")]
    again = demo.train("--load", tmp_path / "stable", *own, "--train-iters", 50)
    loaded = again.lines("successfully loaded")[0]
    assert f"own/{FINAL} at iteration 40" in loaded
    for argument, message in (
        (("--hidden", 16), "hidden=8"),
        (("--train-iters", 30), "beyond --train-iters"),
    ):
        refused = demo.train("--load", tmp_path / "stable", *argument)
        assert (refused.status, message in refused.err) == (2, True)


def test_a_first_attempt_sets_an_earlier_run_s_checkpoints_aside(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = tmp_path / "checkpoints"
    demo.train("--save", save)
    monkeypatch.setenv("AUTOEXP_RESUME", "0")
    again = demo.train("--save", save)
    assert again.lines("starting from random weights")
    assert (tmp_path / "checkpoints.earlier-1" / FINAL / "done.txt").exists()
    assert (save / FINAL / "done.txt").exists()
    monkeypatch.setenv("AUTOEXP_RESUME", "1")
    assert demo.train("--save", save).lines("successfully loaded checkpoint")


def test_a_high_rate_without_clipping_overflows_to_nan_and_to_null_in_the_record(
    demo: Demo, tmp_path: Path
) -> None:
    size = ("--hidden", 64, "--batch-size", 8, "--train-iters", 600)
    arguments = (*size, "--lr", 0.3, "--clip-grad", 0, "--save", tmp_path)
    outcome = demo("train", *arguments, "--log-interval", 10, "--eval-interval", 0)
    assert outcome.status == 0
    assert math.isfinite(float(outcome.losses[0]))
    assert outcome.losses[-1] == "nan"
    assert outcome.lines("lm loss: nan |")
    assert outcome.lines("grad norm: nan |")
    outcome, record = demo.evaluate("--load", tmp_path)
    assert outcome.lines("held-out loss: nan")
    assert record["heldout_loss"] is None


def test_the_record_says_what_was_measured_beside_the_baseline_at_equal_tokens(
    demo: Demo, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    demo.train("--save", run)
    early = run / "iter_00000030"
    refused, nothing = demo.evaluate("--load", run, "--baseline", early)
    assert (refused.status, "240 tokens" in refused.err, nothing) == (2, True, None)
    found = demo.evaluate("--load", run, "--name", "one")[1]
    assert (found["name"], found["lr"], found["baseline"]) == ("one", 0.01, None)
    assert (found["iteration"], found["tokens"]) == (40, 320)
    summary = tmp_path / "summary"
    demo.evaluate("--load", run, "--name", "one", "--summary", summary)
    assert re.fullmatch(r"one {7} cooled down \d\.\d{4}\n", summary.read_text())
    beside = ("--baseline", run, "--summary", summary)
    said, found = demo.evaluate("--load", early, *beside)
    assert len(said.lines("held-out loss: ")) == len(said.lines("baseline loss: ")) == 1
    assert found["tokens"] == found["baseline"]["tokens"] == 240
    assert found["baseline"]["heldout_loss"] == found["heldout_loss"]
    assert summary.read_text().endswith("   gain +0.0000\n")


def result(
    before: float | None, after: float | None, lr: float = 0.001, **other: Any
) -> dict[str, Any]:
    """What an evaluation with a baseline writes."""
    facts = {"iteration": 100, "tokens": 6400, "corpus": "abc"}
    found = {"name": f"lr={lr:g}", "lr": lr, "heldout_loss": after, **facts}
    return {**found, "baseline": {"heldout_loss": before}, **other}


def test_runs_are_ranked_before_and_after_cooldown(demo: Demo, tmp_path: Path) -> None:
    outcome, record = demo.report(result(1.6, 1.5), result(1.7, 1.4, lr=0.005))
    runs = [(one["lr"], one["before"], round(one["gain"], 9)) for one in record["runs"]]
    assert runs == [(0.005, 1.7, 0.3), (0.001, 1.6, 0.1)]
    assert (record["winner_before"], record["winner_changed"]) == ("lr=0.001", True)
    assert outcome.lines("No: the winner changed. Best before cooldown: lr 0.001; best")
    assert (tmp_path / "report.md").read_text() == outcome.out
    assert "| lr=0.005 | 0.005 | 1.7000 | 1.4000 | 0.3000 |" in outcome.out


def test_a_diverged_run_is_last_without_a_gain_and_a_name_stays_in_its_cell(
    demo: Demo,
) -> None:
    outcome, record = demo.report(
        result(None, None, lr=0.3), result(1.6, 1.5, name="a|b\nc")
    )
    last = record["runs"][-1]
    found = [last[key] for key in ("name", "before", "after", "gain")]
    assert found == ["lr=0.3", None, None, None]
    assert outcome.lines("| lr=0.3 | 0.3 | inf | inf | nan |")
    assert outcome.lines(r"| a\|b c | 0.001 |")
    assert record["winner_changed"] is False
    assert outcome.lines("Yes: the same wins.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (result(1.6, 1.5, tokens=1), "not at equal tokens"),
        (result(1.6, 1.5, corpus="def"), "not at equal tokens of the same text"),
        (result(1.6, 1.5, baseline=None), "is not the result of an evaluation"),
        ({}, "is not the result of an evaluation"),
        ([], "is not the result of an evaluation"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    demo: Demo, content: Any, message: str
) -> None:
    outcome, record = demo.report(result(1.6, 1.5), content)
    assert (outcome.status, record) == (2, None)
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        "", "fly", "train --lr fast", "train --lr nan", "train --lr 0",
        "train --train-iters 0", "train --train-iters 1.5", "train --lr inf",
        "train --clip-grad -1", "train --crash-at 0",
        "train --train-it 5", "evaluate --load x", "report --output x",
        "train --load {tmp}/no",
        "train --save {tmp}/file/below", "train --train-iters 10 --decay-iters 11",
        "train --context 2000000",
        "evaluate --load {tmp}/no --output {tmp}/o.json",
        "report --results {tmp}/no --output {tmp}/o.json",
    ],
)  # fmt: skip
def test_what_is_wrong_or_cannot_be_done_is_told_with_exit_2(
    demo: Demo, tmp_path: Path, words: str
) -> None:
    (tmp_path / "file").touch()
    try:
        outcome = demo(*words.format(tmp=tmp_path).split())
    except SystemExit as stopped:
        outcome = Outcome(int(str(stopped.code)), *demo.capsys.readouterr())
    assert outcome.status == 2
    assert "error: " in outcome.err.splitlines()[-1]


THREADS = """
import os, runpy, sys
try:
    runpy.run_module("autoexp_tui.demo", run_name="__main__")
except SystemExit:
    print(*(os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "OPENBLAS", "MKL")))
"""


def test_a_process_is_one_thread() -> None:
    command = [sys.executable, "-c", THREADS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "1 1 1\n"
