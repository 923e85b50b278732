"""What a cooldown gains: the losses of checkpoints, and the ranking of runs by them.

An evaluation takes the whole held-out text and writes one JSON record. A report reads
records, no checkpoint, and ranks their runs twice at equal tokens."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
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


def to_json(value: Any) -> Any:
    """A record with null in the place of what is not finite."""
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    bad = isinstance(value, float) and not math.isfinite(value)
    return None if bad else value


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
    write_atomic(output, json.dumps(to_json(record), indent=2) + "\n")
    if summary is not None:
        write_atomic(summary, format_summary(to_json(record)) + "\n")
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
    before = baseline["heldout_loss"] if baseline else None

    def spell(loss: float | None) -> str:
        return "not a number" if loss is None else f"{loss:.4f}"

    parts = [f"{record['name']:<10} cooled down {spell(after)}"]
    if baseline is not None:
        parts.append(f"stable {spell(before)}")
    if after is not None and before is not None:
        parts.append(f"gain {before - after:+.4f}")
    return "   ".join(parts)


@dataclass(frozen=True, slots=True)
class Result:
    """One learning rate: losses in nats a byte, inf for a run that diverged."""

    name: str
    lr: float
    iteration: int
    tokens: int
    corpus: str
    before: float
    """Without a cooldown, at the same tokens."""
    after: float

    @property
    def gain(self) -> float:
        """How much loss the cooldown took away; nan when a loss is not finite."""
        gain = self.before - self.after
        return gain if math.isfinite(gain) else math.nan


def report(results: Sequence[Path], output: Path, say: Callable[[str], None]) -> None:
    """Rank the results, write `.json` and `.md` beside `output`, say it.

    Equal losses keep the order given. Raises DemoError for results at other tokens, or
    of other texts.
    """
    found = [read_result(path) for path in results]
    if len({result.tokens for result in found}) > 1:
        seen = ", ".join(f"{result.name} {result.tokens}" for result in found)
        raise DemoError(f"the results are not at equal tokens: {seen}")
    if len({result.corpus for result in found}) > 1:
        raise DemoError("the results were measured on different texts")
    before = sorted(found, key=lambda result: result.before)
    after = sorted(found, key=lambda result: result.after)
    text = to_markdown(before, after)
    record = to_json(to_record(before, after))
    write_atomic(output.with_suffix(".json"), json.dumps(record, indent=2) + "\n")
    write_atomic(output.with_suffix(".md"), text)
    say(text.rstrip("\n"))


def read_result(path: Path) -> Result:
    """One evaluation's record. Raises DemoError when it is missing or not one."""

    def read_loss(record: Any) -> float:
        value = record["heldout_loss"]
        return math.inf if value is None else float(value)

    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return Result(
            name=str(record["name"]),
            lr=float(record["lr"]),
            iteration=int(record["iteration"]),
            tokens=int(record["tokens"]),
            corpus=str(record["corpus"]),
            before=read_loss(record["baseline"]),
            after=read_loss(record),
        )
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DemoError(
            f"{path} is not the result of an evaluation with --baseline"
        ) from error


def to_record(before: Sequence[Result], after: Sequence[Result]) -> Record:
    """The report as JSON, of the results ranked by either loss."""
    first = before[0]

    def rank(result: Result, loss: float) -> Record:
        lr, gain = result.lr, result.gain
        return {"name": result.name, "lr": lr, "heldout_loss": loss, "gain": gain}

    return {
        "question": QUESTION,
        "tokens": first.tokens,
        "iteration": first.iteration,
        "corpus": first.corpus,
        "winner_before": first.name,
        "winner_after": after[0].name,
        "winner_changed": first is not after[0],
        "before": [rank(one, one.before) for one in before],
        "after": [rank(one, one.after) for one in after],
    }


def to_markdown(before: Sequence[Result], after: Sequence[Result]) -> str:
    """The report as text: both rankings, the gains, the answer."""
    first, last = before[0], after[0]
    where = f"at {first.tokens} tokens (iteration {first.iteration})"
    rankings = [
        (str(rank), f"{b.lr:g}", _cell(b.before), f"{a.lr:g}", _cell(a.after))
        for rank, (b, a) in enumerate(zip(before, after, strict=True), start=1)
    ]
    gains = [
        (_cell(r.name), f"{r.lr:g}", _cell(r.before), _cell(r.after), _cell(r.gain))
        for r in sorted(before, key=lambda result: result.lr)
    ]
    verdict = "Yes: the same wins" if first is last else "No: the winner changed"
    parts = (
        f"# {QUESTION}",
        f"Held-out loss in nats per byte, every run {where}.",
        _format_table(("rank", "lr before", "loss", "lr after", "loss"), rankings),
        _format_table(("run", "lr", "stable", "cooled down", "gain"), gains),
        f"{verdict}. Best before cooldown: lr {first.lr:g} ({_cell(first.before)}); "
        f"best after: lr {last.lr:g} ({_cell(last.after)}).",
    )
    return "\n\n".join(parts) + "\n"


def _cell(value: str | float) -> str:
    """A loss, or a name in one cell: no line break, no column sign of its own."""
    if isinstance(value, str):
        return " ".join(value.split()).replace("|", "\\|")
    return format_number(value, ".4f")


def _format_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    columns = zip(head, *rows, strict=True)
    widths = [max(len(cell) for cell in column) for column in columns]
    rule = tuple("-" * width for width in widths)
    lines = (
        [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        for cells in (head, rule, *rows)
    )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
