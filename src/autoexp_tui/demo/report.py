"""Does the learning rate that looks best before cooldown still win after it?

Reads the records that evaluations wrote and ranks their runs twice at equal tokens:
by the stable run, and by the run that cooled down. Reads no checkpoint.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoexp_tui.demo.errors import DemoError
from autoexp_tui.demo.files import write_atomic
from autoexp_tui.demo.log_lines import number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

QUESTION = "Does the learning rate that looks best before cooldown still win after it?"


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """The arguments of a report."""

    results: tuple[Path, ...]
    output: Path
    """The report is written beside it twice, as `.json` and as `.md`."""


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


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two rankings, best first."""

    before: tuple[Result, ...]
    after: tuple[Result, ...]

    @property
    def changed(self) -> bool:
        """Whether cooldown made another run the best."""
        return self.before[0] is not self.after[0]


def report(settings: ReportSettings, say: Callable[[str], None]) -> None:
    """Rank the results, write both forms of the report and say the text.

    Raises DemoError for a missing, unreadable or not comparable result.
    """
    results = [read_result(path) for path in settings.results]
    require_comparable(results)
    comparison = compare(results)
    text = to_markdown(comparison)
    record = json.dumps(to_record(comparison), indent=2) + "\n"
    write_atomic(settings.output.with_suffix(".json"), record)
    write_atomic(settings.output.with_suffix(".md"), text)
    say(text.rstrip("\n"))


def read_result(path: Path) -> Result:
    """One evaluation's record. Raises DemoError when it is missing or not one."""
    try:
        return _to_result(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DemoError(
            f"{path} is not the result of an evaluation with --baseline"
        ) from error


def _to_result(record: Any) -> Result:
    return Result(
        name=str(record["name"]),
        lr=float(record["lr"]),
        iteration=int(record["iteration"]),
        tokens=int(record["tokens"]),
        corpus=str(record["corpus"]),
        before=_loss(record["baseline"]["heldout_loss"]),
        after=_loss(record["heldout_loss"]),
    )


def _loss(value: Any) -> float:
    return math.inf if value is None else float(value)


def require_comparable(results: Sequence[Result]) -> None:
    """Raise DemoError unless all have the same tokens and the same text."""
    if len({result.tokens for result in results}) > 1:
        seen = ", ".join(f"{result.name} {result.tokens}" for result in results)
        raise DemoError(f"the results are not at equal tokens: {seen}")
    if len({result.corpus for result in results}) > 1:
        raise DemoError("the results were measured on different texts")


def compare(results: Sequence[Result]) -> Comparison:
    """Rank at least one result twice; equal losses keep the order given."""
    return Comparison(
        before=tuple(sorted(results, key=lambda result: result.before)),
        after=tuple(sorted(results, key=lambda result: result.after)),
    )


def to_record(comparison: Comparison) -> dict[str, Any]:
    """The report as JSON; what is not finite becomes null."""
    first = comparison.before[0]
    return {
        "question": QUESTION,
        "tokens": first.tokens,
        "iteration": first.iteration,
        "corpus": first.corpus,
        "winner_before": first.name,
        "winner_after": comparison.after[0].name,
        "winner_changed": comparison.changed,
        "before": [_entry(result, result.before) for result in comparison.before],
        "after": [_entry(result, result.after) for result in comparison.after],
    }


def _entry(result: Result, loss: float) -> dict[str, Any]:
    return {
        "name": result.name,
        "lr": result.lr,
        "heldout_loss": _or_null(loss),
        "gain": _or_null(result.gain),
    }


def _or_null(value: float) -> float | None:
    return value if math.isfinite(value) else None


def to_markdown(comparison: Comparison) -> str:
    """The report as text: both rankings, the gains, the answer."""
    first = comparison.before[0]
    where = f"at {first.tokens} tokens (iteration {first.iteration})"
    parts = (
        f"# {QUESTION}",
        f"Held-out loss in nats per byte, every run {where}.",
        _rankings(comparison),
        _gains(comparison),
        _answer(comparison),
    )
    return "\n\n".join(parts) + "\n"


def _rankings(comparison: Comparison) -> str:
    pairs = zip(comparison.before, comparison.after, strict=True)
    rows = [
        (
            str(rank),
            f"{before.lr:g}",
            number(before.before, ".4f"),
            f"{after.lr:g}",
            number(after.after, ".4f"),
        )
        for rank, (before, after) in enumerate(pairs, start=1)
    ]
    return _table(("rank", "lr before", "loss", "lr after", "loss"), rows)


def _gains(comparison: Comparison) -> str:
    rows = [
        (
            _cell(result.name),
            f"{result.lr:g}",
            number(result.before, ".4f"),
            number(result.after, ".4f"),
            number(result.gain, ".4f"),
        )
        for result in sorted(comparison.before, key=lambda result: result.lr)
    ]
    return _table(("run", "lr", "stable", "cooled down", "gain"), rows)


def _answer(comparison: Comparison) -> str:
    before, after = comparison.before[0], comparison.after[0]
    verdict = "No: the winner changed" if comparison.changed else "Yes: the same wins"
    return (
        f"{verdict}. Best before cooldown: lr {before.lr:g} "
        f"({number(before.before, '.4f')}); best after: lr {after.lr:g} "
        f"({number(after.after, '.4f')})."
    )


def _cell(text: str) -> str:
    """A name in one cell: no line break, no column sign of its own."""
    return " ".join(text.split()).replace("|", "\\|")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    columns = zip(head, *rows, strict=True)
    widths = [max(len(cell) for cell in column) for column in columns]
    rule = tuple("-" * width for width in widths)
    return "\n".join(_row(cells, widths) for cells in (head, rule, *rows))


def _row(cells: tuple[str, ...], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
