"""The held-out loss of a checkpoint, and of the one it is compared with.

Takes the whole held-out text, so two evaluations of one checkpoint agree to the last
digit. Writes one JSON record per call; ranking them is the report's part.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autoexp_tui.demo import checkpoint as checkpoints
from autoexp_tui.demo import log_lines
from autoexp_tui.demo.corpus import Corpus, read_corpus
from autoexp_tui.demo.errors import DemoError
from autoexp_tui.demo.files import write_atomic
from autoexp_tui.demo.model import text_loss, views

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class EvaluateSettings:
    """The arguments of an evaluation."""

    load: Path
    output: Path
    baseline: Path | None = None
    """An `iter_*` directory, or a save directory: then at the same iteration."""
    name: str | None = None
    summary: Path | None = None
    """One line for a person who decides on these results."""


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


def evaluate(settings: EvaluateSettings, say: Callable[[str], None]) -> None:
    """Measure, write the record and say the losses.

    Raises DemoError for a missing checkpoint, for one of another text, and for a
    baseline that has not seen as many tokens.
    """
    corpus = read_corpus()
    result = measure(checkpoints.locate(settings.load), corpus)
    baseline = _measure_baseline(settings.baseline, result, corpus)
    record = to_record(settings.name, result, baseline, corpus)
    write_atomic(settings.output, json.dumps(record, indent=2) + "\n")
    if settings.summary is not None:
        write_atomic(settings.summary, summary_line(record) + "\n")
    say(log_lines.heldout_line(result.heldout_loss, result.bits_per_byte))
    if baseline is not None:
        say(log_lines.baseline_line(baseline.heldout_loss, baseline.bits_per_byte))


def measure(path: Path, corpus: Corpus) -> Measurement:
    """The loss of the checkpoint in an `iter_*` directory."""
    found = checkpoints.load(path)
    facts = found.facts
    checkpoints.require_corpus(path, facts, corpus.digest)
    weights = views(found.parameters, facts.shape)
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


def _measure_baseline(
    path: Path | None, result: Measurement, corpus: Corpus
) -> Measurement | None:
    if path is None:
        return None
    baseline = measure(checkpoints.locate(path, result.iteration), corpus)
    if baseline.tokens != result.tokens:
        raise DemoError(
            f"the baseline {baseline.checkpoint} has seen {baseline.tokens} tokens, "
            f"{result.checkpoint} has seen {result.tokens}: they cannot be compared"
        )
    return baseline


def to_record(
    name: str | None,
    result: Measurement,
    baseline: Measurement | None,
    corpus: Corpus,
) -> dict[str, Any]:
    """The JSON record; a loss that is not finite becomes null."""
    return {
        "name": name or f"lr={result.lr:g}",
        **_finite(result),
        "heldout_bytes": len(corpus.heldout),
        "corpus": corpus.digest,
        "baseline": None if baseline is None else _finite(baseline),
    }


def summary_line(record: dict[str, Any]) -> str:
    """A record in one line: the losses side by side, and the gain."""
    after, baseline = record["heldout_loss"], record["baseline"]
    before = baseline["heldout_loss"] if baseline else None
    parts = [f"{record['name']:<10} cooled down {_spelled(after)}"]
    if baseline is not None:
        parts.append(f"stable {_spelled(before)}")
    if after is not None and before is not None:
        parts.append(f"gain {before - after:+.4f}")
    return "   ".join(parts)


def _spelled(loss: float | None) -> str:
    return "not a number" if loss is None else f"{loss:.4f}"


def _finite(measurement: Measurement) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(measurement).items()
    }
