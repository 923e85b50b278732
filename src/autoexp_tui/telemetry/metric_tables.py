"""Tables of one name and one number a row, between lines of dashes, as
stable-baselines3's logger prints them (`common/logger.py`, HumanOutputFormat): rows of
a group are indented below its name. A table without a counter of steps says nothing:
it may be a config."""

from __future__ import annotations

import re
from typing import Final

from autoexp_tui.telemetry.metric_lines import Reading
from autoexp_tui.telemetry.metric_names import is_metric
from autoexp_tui.text.log_lines import find_canonical_name

_ROW: Final = re.compile(
    rb"\|( *+)([a-z][\w@./ -]*?) *\| *"
    rb"([-+]?(?:\d++(?:\.\d*+)?+(?:e[-+]?\d++)?+|\.\d++|nan|inf)|) *\|"
)
_COUNTERS: Final = ("total_timesteps", "timesteps", "step", "iterations", "epoch")
_MOST_ROWS: Final = 256


class Table:
    """The rows since the last line of dashes."""

    def __init__(self) -> None:
        self._group = ""
        self._rows: dict[str, float] = {}

    def add_row(self, line: bytes) -> bool:
        """Whether a folded line is a row; then it is kept."""
        row = _ROW.fullmatch(line) if line[:1] == b"|" else None
        if row is None:
            return False
        indent, name, number = row[1], row[2].decode(), row[3]
        if not number:
            self._group = name if name.endswith("/") else ""
        elif len(self._rows) < _MOST_ROWS:
            group = self._group if len(indent) > 1 else ""
            self._rows[f"{group}{name}"] = float(number)
        return True

    def close(self) -> Reading | None:
        """What the rows say, at a line of dashes; they are forgotten."""
        rows, self._rows, self._group = self._rows, {}, ""
        last = {key.rpartition("/")[2]: key for key in rows}
        counter = next((last[name] for name in _COUNTERS if name in last), None)
        if counter is None:
            return None
        step = rows.pop(counter)
        named = ((find_canonical_name(key), value) for key, value in rows.items())
        values = {name: value for name, value in named if is_metric(name)}
        return Reading(int(step), None, values) if step < 1e18 else None
