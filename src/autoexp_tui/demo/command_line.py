"""Arguments of the trainer's three commands, and its exit status.

0: done. 2: a wrong argument or a missing file, with one line on stderr. 1, with a
traceback: a crash.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from autoexp_tui.demo.errors import DemoError
from autoexp_tui.demo.evaluate import EvaluateSettings, evaluate
from autoexp_tui.demo.report import ReportSettings, report
from autoexp_tui.demo.schedule import DecayStyle, Schedule
from autoexp_tui.demo.train import TrainSettings, train

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "autoexp_tui.demo"
USER_ERROR_EXIT = 2
MOST_DIGITS = 18


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(USER_ERROR_EXIT, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except (DemoError, OSError) as error:
        print(f"{PROGRAM} {options.command}: error: {error}", file=sys.stderr)
        return USER_ERROR_EXIT
    return 0


def _run(options: argparse.Namespace) -> None:
    if options.command == "train":
        train(_train_settings(options), _say)
    elif options.command == "evaluate":
        evaluate(_evaluate_settings(options), _say)
    else:
        report(ReportSettings(tuple(options.results), options.output), _say)


def _say(line: str) -> None:
    # A line that waits in a buffer is one a supervisor cannot read.
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="A small language model trainer.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (about, add_arguments) in COMMANDS.items():
        command = commands.add_parser(name, help=about, allow_abbrev=False)
        add_arguments(command)
    return parser


def _add_train(parser: argparse.ArgumentParser) -> None:
    _add_schedule(parser)
    _add_model(parser)
    _add_rhythm(parser)
    parser.add_argument(
        "--save", type=Path, metavar="DIR", help="where checkpoints go; resumed from"
    )
    parser.add_argument(
        "--load", type=Path, metavar="DIR", help="an iter_* or a save directory"
    )
    parser.add_argument(
        "--crash-at",
        type=_positive,
        metavar="N",
        help="raise at iteration N, unless resumed from --save",
    )


def _add_schedule(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lr", type=_positive_number, default=1e-3, help="peak learning rate")
    add("--min-lr", type=_number, default=0.0, help="rate at the end of the decay")
    add("--train-iters", type=_positive, default=10_000, help="last iteration")
    add("--warmup-iters", type=_count, default=500, help="iterations of linear rise")
    add("--decay-iters", type=_count, default=0, help="decay over the last N; 0: none")
    styles = [style.value for style in DecayStyle]
    add("--decay-style", choices=styles, default=DecayStyle.LINEAR.value)


def _add_model(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--batch-size", type=_positive, default=64, help="contexts per iteration")
    add("--context", type=_positive, default=24, help="bytes the model sees")
    add("--hidden", type=_positive, default=256, help="width of the hidden layer")
    add("--seed", type=_count, default=0, help="of the weights and the data order")
    add("--clip-grad", type=_number, default=1.0, help="largest norm; 0: no clipping")
    add("--weight-init-scale", type=_positive_number, default=1.0)


def _add_rhythm(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--log-interval", type=_positive, default=100, help="iterations per log line")
    add("--save-interval", type=_count, default=1000, help="0: at the end only")
    add("--eval-interval", type=_count, default=1000, help="0: never")


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--load", type=Path, required=True, metavar="DIR", help="checkpoint to measure")
    add("--baseline", type=Path, metavar="DIR", help="one to compare, at equal tokens")
    add("--output", type=_file, required=True, metavar="FILE", help="JSON to write")
    add("--name", help="name of the run in the report")
    add("--summary", type=_file, metavar="FILE", help="one line for a person")


def _add_report(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--results", type=Path, nargs="+", required=True, metavar="FILE")
    add("--output", type=_file, required=True, metavar="FILE", help=".json and .md")


RESUME_VARIABLE = "AUTOEXP_RESUME"
"""0: a first attempt, which starts afresh; 1 or unset: go on where `--save` ends."""

COMMANDS = {
    "train": ("train a model", _add_train),
    "evaluate": ("held-out loss of a checkpoint", _add_evaluate),
    "report": ("rank evaluated learning rates", _add_report),
}


def _train_settings(options: argparse.Namespace) -> TrainSettings:
    return TrainSettings(
        schedule=_schedule(options),
        batch_size=options.batch_size,
        context=options.context,
        hidden=options.hidden,
        seed=options.seed,
        clip_grad=options.clip_grad,
        weight_init_scale=options.weight_init_scale,
        log_interval=options.log_interval,
        save_interval=options.save_interval,
        eval_interval=options.eval_interval,
        save=options.save,
        load=options.load,
        crash_at=options.crash_at,
        resume=os.environ.get(RESUME_VARIABLE) != "0",
    )


def _schedule(options: argparse.Namespace) -> Schedule:
    if options.warmup_iters + options.decay_iters > options.train_iters:
        raise DemoError("--warmup-iters and --decay-iters exceed --train-iters")
    if options.min_lr > options.lr:
        raise DemoError("--min-lr exceeds --lr")
    return Schedule(
        peak=options.lr,
        train_iters=options.train_iters,
        warmup_iters=options.warmup_iters,
        decay_iters=options.decay_iters,
        min_rate=options.min_lr,
        style=DecayStyle(options.decay_style),
    )


def _evaluate_settings(options: argparse.Namespace) -> EvaluateSettings:
    return EvaluateSettings(
        options.load,
        options.output,
        options.baseline,
        options.name,
        options.summary,
    )


def _file(text: str) -> Path:
    if not Path(text).name:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a file")
    return Path(text)


def _positive(text: str) -> int:
    return _at_least(1, text)


def _count(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    if int(text) < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return int(text)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number >= 0")
    return value


def _positive_number(text: str) -> float:
    value = _number(text)
    if value == 0:
        raise argparse.ArgumentTypeError("0 is not a number > 0")
    return value
