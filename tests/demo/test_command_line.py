"""Arguments, exit status, and the process as its supervisor sees it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.demo.conftest import Run

THREADS = """
import os, sys
from autoexp_tui.demo import __main__, command_line
sys.argv = ["demo", "train", "--train-iters", "many"]
try:
    __main__.main()
except SystemExit:
    print(sorted((k, v) for k, v in os.environ.items() if k.endswith("NUM_THREADS")))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("fly",),
        ("train", "--lr", "fast"),
        ("train", "--lr", "nan"),
        ("train", "--lr", "0"),
        ("train", "--train-iters", "0"),
        ("train", "--train-iters", "1.5"),
        ("train", "--seed", "9" * 40),
        ("train", "--clip-grad", "-1"),
        ("train", "--crash-at", "0"),
        ("train", "--decay-style", "cosine"),
        ("train", "--train-it", "5"),
        ("evaluate", "--load", "x"),
        ("report", "--output", "x"),
        ("report", "--results", "x", "--output", "."),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_2(
    demo: Run,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        demo(*arguments)
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert error.count("\n") == 1
    assert "error: " in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--load", "{tmp}/nothing"),
        ("train", "--save", "{tmp}/file/below"),
        ("train", "--train-iters", "10", "--decay-iters", "11"),
        ("train", "--min-lr", "1"),
        ("train", "--context", "2000000"),
        ("evaluate", "--load", "{tmp}/nothing", "--output", "{tmp}/out.json"),
        ("report", "--results", "{tmp}/nothing", "--output", "{tmp}/out.json"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_2(
    demo: Run, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    outcome = demo(*(text.format(tmp=tmp_path) for text in arguments))
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1


def test_the_process_itself_exits_2_without_a_traceback(
    small_process: Run, tmp_path: Path
) -> None:
    outcome = small_process("--load", tmp_path)
    assert outcome.status == 2
    assert outcome.err.startswith("autoexp_tui.demo train: error: no complete")
    assert "Traceback" not in outcome.err


def test_the_array_library_is_not_loaded_before_the_threads_are_set() -> None:
    code = "import sys, autoexp_tui.demo.__main__; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_process_is_one_thread() -> None:
    command = [sys.executable, "-c", THREADS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        assert f"('{name}', '1')" in done.stdout
