"""What a cooldown gains: the losses of checkpoints, and the ranking of runs by them.

An evaluation takes the whole held-out text, so two of one checkpoint agree to the last
digit, and writes one JSON record. A report reads records, no checkpoint, and ranks
their runs twice at equal tokens: by the stable run, and by the run that cooled down.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, slots=True)
class Measurement:
    """One checkpoint on the whole held-out text."""

    checkpoint: str
    lr: float
    iteration: int
    tokens: int
    """Bytes predicted in training."""
    heldout_loss: float
    """Nats per byte; not finite for a run that diverged."""
    bits_per_byte: float

    def to_record(self) -> dict[str, Any]:
        """As JSON; what is not finite becomes null."""
        return {
            key: _convert_loss(value) if isinstance(value, float) else value
            for key, value in asdict(self).items()
        }

    def format_losses(self) -> str:
        """Its losses as a log line tells them."""
        bits = format_number(self.bits_per_byte, ".4f")
        return f"{format_number(self.heldout_loss, '.6f')} | bits per byte: {bits}"


def _convert_loss(value: float) -> float | None:
    return value if math.isfinite(value) else None


def evaluate(
    load: Path,
    output: Path,
    baseline: Path | None,
    name: str | None,
    summary: Path | None,
    say: Callable[[str], None],
) -> None:
    """Measure, write the record, in `summary` as one line for a person, say the losses.

    `baseline` is an `iter_*` directory, or a save directory: then it is measured at the
    same iteration. Raises DemoError for a missing checkpoint, for one of another text,
    and for a baseline that has not seen as many tokens.
    """
    corpus = read_corpus()
    result = measure(checkpoints.locate(load), corpus)
    compared = _measure_baseline(baseline, result, corpus) if baseline else None
    record = {
        "name": name or f"lr={result.lr:g}",
        **result.to_record(),
        "heldout_bytes": len(corpus.heldout),
        "corpus": corpus.digest,
        "baseline": compared.to_record() if compared else None,
    }
    write_atomic(output, json.dumps(record, indent=2) + "\n")
    if summary is not None:
        write_atomic(summary, format_summary(record) + "\n")
    say(f"held-out loss: {result.format_losses()}")
    if compared is not None:
        say(f"baseline loss: {compared.format_losses()}")


def measure(path: Path, corpus: Corpus) -> Measurement:
    """The loss of the checkpoint in an `iter_*` directory."""
    found = checkpoints.load(path)
    facts = found.facts
    checkpoints.require_corpus(path, facts, corpus.digest)
    weights = split_weights(found.parameters, facts.shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        loss = text_loss(weights, corpus.heldout, facts.shape.context)
    return Measurement(
        checkpoint=str(path),
        lr=facts.lr,
        iteration=facts.iteration,
        tokens=facts.samples,
        heldout_loss=loss,
        bits_per_byte=loss / math.log(2),
    )


def _measure_baseline(path: Path, result: Measurement, corpus: Corpus) -> Measurement:
    baseline = measure(checkpoints.locate(path, result.iteration), corpus)
    if baseline.tokens != result.tokens:
        raise DemoError(
            f"the baseline {baseline.checkpoint} has seen {baseline.tokens} tokens, "
            f"{result.checkpoint} has seen {result.tokens}: they cannot be compared"
        )
    return baseline


def format_summary(record: dict[str, Any]) -> str:
    """A record in one line: the losses side by side, and the gain."""
    after, baseline = record["heldout_loss"], record["baseline"]
    before = baseline["heldout_loss"] if baseline else None
    parts = [f"{record['name']:<10} cooled down {_format_loss(after)}"]
    if baseline is not None:
        parts.append(f"stable {_format_loss(before)}")
    if after is not None and before is not None:
        parts.append(f"gain {before - after:+.4f}")
    return "   ".join(parts)


def _format_loss(loss: float | None) -> str:
    return "not a number" if loss is None else f"{loss:.4f}"


# ------------------------------------------------------------------------------- report
@dataclass(frozen=True, slots=True)
class Result:
    """One learning rate: the same tokens without and with a cooldown.

    Losses are in nats per byte, inf for a run that diverged.
    """

    name: str
    lr: float
    iteration: int
    tokens: int
    corpus: str
    before: float
    after: float

    @property
    def gain(self) -> float:
        """How much loss the cooldown took away; nan when a loss is not finite."""
        gain = self.before - self.after
        return gain if math.isfinite(gain) else math.nan

    def to_record(self, loss: float) -> dict[str, Any]:
        """Its entry in a ranking by `loss`; what is not finite becomes null."""
        return {
            "name": self.name,
            "lr": self.lr,
            "heldout_loss": _convert_loss(loss),
            "gain": _convert_loss(self.gain),
        }


def report(results: Sequence[Path], output: Path, say: Callable[[str], None]) -> None:
    """Rank the results, write the report beside `output` as `.json` and `.md`, say it.

    Equal losses keep the order given. Raises DemoError for a missing, unreadable or not
    comparable result.
    """
    found = [read_result(path) for path in results]
    require_comparable(found)
    before = sorted(found, key=lambda result: result.before)
    after = sorted(found, key=lambda result: result.after)
    text = to_markdown(before, after)
    record = json.dumps(to_record(before, after), indent=2) + "\n"
    write_atomic(output.with_suffix(".json"), record)
    write_atomic(output.with_suffix(".md"), text)
    say(text.rstrip("\n"))


def read_result(path: Path) -> Result:
    """One evaluation's record. Raises DemoError when it is missing or not one."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return Result(
            name=str(record["name"]),
            lr=float(record["lr"]),
            iteration=int(record["iteration"]),
            tokens=int(record["tokens"]),
            corpus=str(record["corpus"]),
            before=_read_loss(record["baseline"]),
            after=_read_loss(record),
        )
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DemoError(
            f"{path} is not the result of an evaluation with --baseline"
        ) from error


def _read_loss(record: Any) -> float:
    value = record["heldout_loss"]
    return math.inf if value is None else float(value)


def require_comparable(results: Sequence[Result]) -> None:
    """Raise DemoError unless all have the same tokens and the same text."""
    if len({result.tokens for result in results}) > 1:
        seen = ", ".join(f"{result.name} {result.tokens}" for result in results)
        raise DemoError(f"the results are not at equal tokens: {seen}")
    if len({result.corpus for result in results}) > 1:
        raise DemoError("the results were measured on different texts")


def to_record(before: Sequence[Result], after: Sequence[Result]) -> dict[str, Any]:
    """The report as JSON, of the results ranked by either loss."""
    first = before[0]
    return {
        "question": QUESTION,
        "tokens": first.tokens,
        "iteration": first.iteration,
        "corpus": first.corpus,
        "winner_before": first.name,
        "winner_after": after[0].name,
        "winner_changed": first is not after[0],
        "before": [result.to_record(result.before) for result in before],
        "after": [result.to_record(result.after) for result in after],
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
    return "\n".join(_row(cells, widths) for cells in (head, rule, *rows))


def _row(cells: tuple[str, ...], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
