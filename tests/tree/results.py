"""Results in a few words, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from autoexp_tui.tree.results_csv import Results, parse_results


def make_results(*rows: Sequence[float | str], metrics: str = "a") -> Results:
    """A row a tuple of its metrics; a word instead of them is its status."""
    names = metrics.split()
    lines = [f"config_id,status,{','.join(names)}"]
    for at, row in enumerate(rows):
        is_word = isinstance(row, str)
        cells = [0.0] * len(names) if is_word else list(row)
        lines.append(",".join(map(str, (at, row if is_word else "ok", *cells))))
    return parse_results("\n".join(lines).encode(), names, "r.csv")
