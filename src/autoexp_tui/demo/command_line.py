"""Arguments of the trainer's three commands, and its exit status.

0: done. 2: a wrong argument or a missing file. 1: a crash."""

from __future__ import annotations

import argparse
import math
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.demo.checkpoints import DemoError
from autoexp_tui.demo.evaluation import evaluate, report
from autoexp_tui.demo.training import TrainSettings, train

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM: Final = "autoexp_tui.demo"
USER_ERROR_EXIT: Final = 2
RESUME_VARIABLE: Final = "AUTOEXP_RESUME"
"""0: a first attempt, which starts afresh; 1 or unset: go on where `--save` ends."""


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="A small language model trainer."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (about, flags, _) in COMMANDS.items():
        one = commands.add_parser(name, help=about, allow_abbrev=False)
        for flag, settings in flags.items():
            one.add_argument(flag, **settings)
    options = vars(parser.parse_args(arguments))
    command = options.pop("command")
    try:
        COMMANDS[command][2](**options)
    except (DemoError, OSError) as error:
        print(f"{PROGRAM} {command}: error: {error}", file=sys.stderr)
        return USER_ERROR_EXIT
    return 0


def _run_train(**options: Any) -> None:
    resume = os.environ.get(RESUME_VARIABLE) != "0"
    train(TrainSettings(**options, resume=resume))


def _number(least: float, default: float | None, about: str = "") -> Any:
    """An option with a number, whole where `least` is."""
    kind = type(least)

    def parse(text: str) -> float:
        with suppress(ValueError):
            if least <= (value := kind(text)) < math.inf:
                return value
        noun = "whole number" if kind is int else "number"
        raise argparse.ArgumentTypeError(f"{text!r} is no {noun} from {least} on")

    return {"type": parse, "default": default, "help": about or None}


_dir: Any = partial(dict, type=Path, metavar="DIR")
_file: Any = partial(dict, type=Path, metavar="FILE")

_TRAIN: Final = {
    "--lr": _number(1e-12, 1e-3, "peak learning rate"),
    "--train-iters": _number(1, 10_000, "last iteration"),
    "--warmup-iters": _number(0, 500, "iterations of linear rise"),
    "--decay-iters": _number(0, 0, "decay over the last N; 0: none"),
    "--batch-size": _number(1, 64, "contexts per iteration"),
    "--context": _number(1, 24, "bytes the model sees"),
    "--hidden": _number(1, 256, "width of the hidden layer"),
    "--seed": _number(0, 0, "of the weights and the data order"),
    "--clip-grad": _number(0.0, 1.0, "largest norm; 0: no clipping"),
    "--log-interval": _number(1, 100, "iterations per log line"),
    "--save-interval": _number(0, 1000, "0: at the end only"),
    "--eval-interval": _number(0, 1000, "0: never"),
    "--save": _dir(help="where checkpoints go; resumed from"),
    "--load": _dir(help="an iter_* or a save directory"),
    "--crash-at": _number(1, None, "raise there, unless resumed from --save"),
}
_EVALUATE: Final = {
    "--load": _dir(help="checkpoint to measure", required=True),
    "--baseline": _dir(help="one to compare, at equal tokens"),
    "--output": _file(help="JSON to write", required=True),
    "--name": {"help": "name of the run in the report"},
    "--summary": _file(help="one line for a person"),
}
_REPORT: Final = {
    "--results": _file(nargs="+", required=True),
    "--output": _file(help=".json and .md", required=True),
}
COMMANDS: Final[dict[str, tuple[str, dict[str, Any], Any]]] = {
    "train": ("train a model", _TRAIN, _run_train),
    "evaluate": ("held-out loss of a checkpoint", _EVALUATE, evaluate),
    "report": ("rank evaluated learning rates", _REPORT, report),
}
