"""What a cooldown gains: the losses of checkpoints, and the ranking of runs by them.

An evaluation takes the whole held-out text and writes one JSON record. A report reads
records, no checkpoint, and ranks their runs twice at equal tokens."""

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
from autoexp_tui.demo.training import Corpus, format_number, read_corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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
    say: Callable[[str], None],
) -> None:
    """Measure, write the record and a line in `summary`, say the losses.

    `baseline`, an `iter_*` or a save directory, is measured at the same iteration; one
    that has not seen as many tokens raises DemoError, as does one of another text.
    """
    corpus = read_corpus()
    found = measure(checkpoints.locate(load), corpus)
    compared = None
    if baseline is not None:
        place = checkpoints.locate(baseline, found["iteration"])
        compared = measure(place, corpus)
        if compared["tokens"] != found["tokens"]:
            raise DemoError(
                f"the baseline {compared['checkpoint']} has seen {compared['tokens']} "
                f"tokens, {found['checkpoint']} has seen {found['tokens']}: they "
                "cannot be compared"
            )
    record = {
        "name": name or f"lr={found['lr']:g}",
        **found,
        "heldout_bytes": len(corpus.heldout),
        "corpus": corpus.digest,
        "baseline": compared,
    }
    write_json(output, record)
    if summary is not None:
        write_atomic(summary, format_summary(record) + "\n")
    for what, one in (("held-out", found), ("baseline", compared)):
        if one is not None:
            bits = format_number(one["bits_per_byte"], ".4f")
            loss = format_number(one["heldout_loss"], ".6f")
            say(f"{what} loss: {loss} | bits per byte: {bits}")


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
        "bits_per_byte": loss / math.log(2),
    }


def format_summary(record: Record) -> str:
    """A record in one line: the losses side by side, and the gain."""
    after, baseline = record["heldout_loss"], record["baseline"]
    parts = [f"{record['name']:<10} cooled down {format_number(after, '.4f')}"]
    if baseline is not None:
        before = baseline["heldout_loss"]
        parts.append(f"stable {format_number(before, '.4f')}")
        if math.isfinite(before - after):
            parts.append(f"gain {before - after:+.4f}")
    return "   ".join(parts)


def report(results: Sequence[Path], output: Path, say: Callable[[str], None]) -> None:
    """Rank the results, write `.json` and `.md` beside `output`, say it.

    Equal losses keep the order given. Raises DemoError for results at other tokens, or
    of other texts.
    """
    found = [read_result(path) for path in results]
    if len({one["tokens"] for one in found}) > 1:
        seen = ", ".join(f"{one['name']} {one['tokens']}" for one in found)
        raise DemoError(f"the results are not at equal tokens: {seen}")
    if len({one["corpus"] for one in found}) > 1:
        raise DemoError("the results were measured on different texts")
    before = sorted(found, key=itemgetter("before"))
    after = sorted(found, key=itemgetter("after"))
    first = before[0]

    def rank(one: Record, when: str) -> Record:
        kept = {key: one[key] for key in ("name", "lr", "gain")}
        return kept | {"heldout_loss": one[when]}

    record = {
        "question": QUESTION,
        **{key: first[key] for key in ("tokens", "iteration", "corpus")},
        "winner_before": first["name"],
        "winner_after": after[0]["name"],
        "winner_changed": first is not after[0],
        "before": [rank(one, "before") for one in before],
        "after": [rank(one, "after") for one in after],
    }
    write_json(output.with_suffix(".json"), record)
    text = to_markdown(before, after)
    write_atomic(output.with_suffix(".md"), text)
    say(text.rstrip("\n"))


def read_result(path: Path) -> Record:
    """One evaluation's facts, with its losses `before` and `after`, inf for a run that
    diverged, and its `gain`; raises DemoError: it is missing, or not one."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        losses = record["baseline"]["heldout_loss"], record["heldout_loss"]
        before, after = (math.inf if loss is None else float(loss) for loss in losses)
        return {
            "name": str(record["name"]),
            "lr": float(record["lr"]),
            "iteration": int(record["iteration"]),
            "tokens": int(record["tokens"]),
            "corpus": str(record["corpus"]),
            "before": before,
            "after": after,
            "gain": before - after if math.isfinite(before - after) else math.nan,
        }
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DemoError(
            f"{path} is not the result of an evaluation with --baseline"
        ) from error


def to_markdown(before: Sequence[Record], after: Sequence[Record]) -> str:
    """The report as text: both rankings, the gains, the answer."""
    first, last = before[0], after[0]
    where = f"at {first['tokens']} tokens (iteration {first['iteration']})"
    rankings = [
        [str(rank), *_cells(b, "lr", "before"), *_cells(a, "lr", "after")]
        for rank, (b, a) in enumerate(zip(before, after, strict=True), start=1)
    ]
    columns = ("name", "lr", "before", "after", "gain")
    gains = [_cells(one, *columns) for one in sorted(before, key=itemgetter("lr"))]
    verdict = "Yes: the same wins" if first is last else "No: the winner changed"
    best = [*_cells(first, "lr", "before"), *_cells(last, "lr", "after")]
    parts = (
        f"# {QUESTION}",
        f"Held-out loss in nats per byte, every run {where}.",
        _format_table("rank,lr before,loss,lr after,loss", rankings),
        _format_table("run,lr,stable,cooled down,gain", gains),
        f"{verdict}. Best before cooldown: lr {best[0]} ({best[1]}); "
        f"best after: lr {best[2]} ({best[3]}).",
    )
    return "\n\n".join(parts) + "\n"


def _cells(one: Record, *columns: str) -> list[str]:
    """A name without a line break or column sign of its own, a rate, losses."""
    texts = {"name": " ".join(one["name"].split()).replace("|", "\\|")}
    texts["lr"] = f"{one['lr']:g}"
    return [
        texts[column] if column in texts else format_number(one[column], ".4f")
        for column in columns
    ]


def _format_table(head: str, rows: Sequence[list[str]]) -> str:
    names = head.split(",")
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    table = [names, ["-" * width for width in widths], *rows]
    lines = (map(str.ljust, cells, widths) for cells in table)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
