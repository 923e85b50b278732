"""The trainer's three commands, their arguments and exit status.

0: done. 2: a wrong argument or a missing file. 1: a crash. An evaluation takes the
whole held-out text and writes a JSON record. A report reads records, no checkpoint, and
ranks their runs at equal tokens."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autoexp_tui.demo import checkpoints
from autoexp_tui.demo.checkpoints import DemoError, write_atomic
from autoexp_tui.demo.model import split_weights, text_loss
from autoexp_tui.demo.training import (
    Corpus,
    TrainSettings,
    format_number,
    read_corpus,
    say,
    train,
)

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


QUESTION = "Does the learning rate that looks best before cooldown still win after it?"


Record = dict[str, Any]


def write_json(path: Path, record: Record) -> None:
    """Write a record with null in the place of what is not finite."""
    text = json.dumps(record, indent=2)
    text = re.sub(r"(?<=: )(NaN|-?Infinity)(?=,?\n)", "null", text)
    write_atomic(path, text + "\n")


def evaluate(
    load: Path,
    output: Path,
    baseline: Path | None,
    name: str | None,
    summary: Path | None,
) -> None:
    """Measure, write the record and a line in `summary`, say the losses.

    `baseline`, an `iter_*` or a save directory, is measured at the same iteration; one
    that has not seen as many tokens raises DemoError, as does one of another text.
    """
    corpus = read_corpus()
    found = measure(checkpoints.locate(load), corpus)
    name = name or f"lr={found['lr']:g}"
    record = {"name": name, **found, "corpus": corpus.digest, "baseline": None}
    losses = [("held-out", found)]
    if baseline is not None:
        place = checkpoints.locate(baseline, found["iteration"])
        compared = record["baseline"] = measure(place, corpus)
        if compared["tokens"] != found["tokens"]:
            raise DemoError(
                f"the baseline has seen {compared['tokens']} tokens, {load} "
                f"{found['tokens']}: they cannot be compared"
            )
        losses.append(("baseline", compared))
    write_json(output, record)
    if summary is not None:
        write_atomic(summary, format_summary(record) + "\n")
    for what, one in losses:
        say(f"{what} loss: {format_number(one['heldout_loss'], '.6f')}")


def measure(path: Path, corpus: Corpus) -> Record:
    """The loss (nats a byte) of the checkpoint in an `iter_*` directory, its facts."""
    found = checkpoints.load(path)
    facts = found.facts
    checkpoints.require_corpus(path, facts, corpus.digest)
    weights = split_weights(found.parameters, facts.shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        loss = text_loss(weights, corpus.heldout, facts.shape.context)
    return {
        "checkpoint": str(path),
        "lr": facts.lr,
        "iteration": facts.iteration,
        "tokens": facts.samples,
        "heldout_loss": loss,
    }


def format_summary(record: Record) -> str:
    """A record in one line: the losses side by side, and the gain."""
    after, baseline = record["heldout_loss"], record["baseline"]
    text = f"{record['name']:<10} cooled down {format_number(after, '.4f')}"
    if baseline is None:
        return text
    before = baseline["heldout_loss"]
    gain = f"   gain {before - after:+.4f}" if math.isfinite(before - after) else ""
    return f"{text}   stable {format_number(before, '.4f')}{gain}"


def report(results: Sequence[Path], output: Path) -> None:
    """Rank the results, write `.json` and `.md` beside `output`, say it.

    Equal losses keep the order given. Raises DemoError for results at other tokens, or
    of other texts.
    """
    found = [read_result(path) for path in results]
    if len({(one["tokens"], one["corpus"]) for one in found}) > 1:
        raise DemoError("the results are not at equal tokens of the same text")
    ranked = sorted(found, key=itemgetter("after"))
    before, after = min(found, key=itemgetter("before")), ranked[0]
    record = {
        "question": QUESTION,
        "winner_before": before["name"],
        "winner_after": after["name"],
        "winner_changed": before is not after,
        "runs": ranked,
    }
    write_json(output.with_suffix(".json"), record)
    table = [("run", "lr", "stable", "cooled down", "gain"), ("---",) * 5]
    table += map(_cells, ranked)
    lines = (f"| {' | '.join(cells)} |" for cells in table)
    verdict = "Yes: the same wins" if before is after else "No: the winner changed"
    text = (
        f"# {QUESTION}\n\nHeld-out loss in nats per byte, every run at "
        f"{after['tokens']} tokens (iteration {after['iteration']}).\n\n"
        + "\n".join(lines)
        + f"\n\n{verdict}. Best before cooldown: lr {before['lr']:g}; best after: lr "
        f"{after['lr']:g}.\n"
    )
    write_atomic(output.with_suffix(".md"), text)
    say(text.rstrip("\n"))


def read_result(path: Path) -> Record:
    """One evaluation's facts, with its losses `before` and `after`, inf for a run that
    diverged, and its `gain`; raises DemoError: it is missing, or not one."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        losses = record["baseline"]["heldout_loss"], record["heldout_loss"]
        before, after = (math.inf if loss is None else float(loss) for loss in losses)
        kept = ("name", "lr", "iteration", "tokens", "corpus")
        found = {key: record[key] for key in kept}
        return {**found, "before": before, "after": after, "gain": before - after}
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DemoError(
            f"{path} is not the result of an evaluation with --baseline"
        ) from error


def _cells(one: Record) -> tuple[str, str, str, str, str]:
    """A name without a line break or column sign of its own, a rate, losses."""
    name = " ".join(one["name"].split()).replace("|", "\\|")
    before, after, gain = (
        format_number(one[key], ".4f") for key in ("before", "after", "gain")
    )
    return name, f"{one['lr']:g}", before, after, gain


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
    "--micro-batch": _number(0, 0, "contexts per pass; 0: the whole batch"),
    "--memory-mb": _number(0, 0, "memory that arrays may take; 0: any"),
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
