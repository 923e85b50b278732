"""What a cooldown gains: the losses of checkpoints, and the ranking of runs by them.

An evaluation takes the whole held-out text and writes one JSON record. A report reads
records, no checkpoint, and ranks their runs at equal tokens."""

from __future__ import annotations

import json
import math
import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from autoexp_tui.demo import checkpoints
from autoexp_tui.demo.checkpoints import DemoError, write_atomic
from autoexp_tui.demo.model import split_weights, text_loss
from autoexp_tui.demo.training import Corpus, format_number, read_corpus, say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
