"""Metrics from files that hold nothing else: a JSON object a line, or CSV.

A `FileReader` is fed whole lines and keeps what the lines before them said: a header,
a quoted field that goes on, the last step. What cannot be read (a torn line, a word
where a number is wanted) says nothing. Which files there are is not its concern.
"""

from __future__ import annotations

import glob
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from autoexp_tui.conditions.comparing import as_number
from autoexp_tui.model.rules import MetricFile, Monitoring
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.telemetry.metric_csv import Rows
from autoexp_tui.telemetry.metric_lines import STEP, Reading
from autoexp_tui.telemetry.metrics import Point, Steps, canonical

PATH_FIELDS: Final = ("name", "stage", "family", "index", "output_dir", "log_dir")
"""What may stand between braces in a path."""
MOST_NUMBERS: Final = 256
"""Of one line that are looked at."""
_DEEPEST: Final = 8
_MOST_NAME: Final = 100
"""Characters of a metric's name."""
_FIELD: Final = re.compile(r"\{([^{}]*)\}")
_MAGIC: Final = re.compile(r"[*?\[]")
_STEP_KEYS: Final = (
    *("step", "global_step", "iteration", "iter", "_step"),
    *("trainer/global_step", "train/global_step", "train/step"),
)


# --------------------------------------------------------------------------- paths
def unknown_fields(path: str) -> list[str]:
    """What stands between braces in a path and is no field of a job."""
    return [name for name in _FIELD.findall(path) if name not in PATH_FIELDS]


def is_pattern(path: str) -> bool:
    """Whether a path stands for any that match it."""
    return _MAGIC.search(path) is not None


def place_of(file: MetricFile, job: JobSpec) -> str:
    """Where a job's file lies, absolute as far as its output directory is; or the
    pattern of several. Values in it are never read as patterns."""
    pattern = is_pattern(file.path)

    def value(match: re.Match[str]) -> str:
        text = str(getattr(job, match[1])) if match[1] in PATH_FIELDS else match[0]
        return glob.escape(text) if pattern else text

    path = _FIELD.sub(value, file.path)
    if path.startswith("/"):
        return path
    home = glob.escape(job.output_dir) if pattern else job.output_dir
    return f"{home}/{path}"


def places_of(rules: Monitoring, job: JobSpec) -> tuple[str, ...]:
    """Where all files of metrics of a job lie, in the order of its rules."""
    return tuple(place_of(file, job) for file in rules.metrics_files)


# ------------------------------------------------------------------------- readers
class _Records(Protocol):
    """A format."""

    def records(self, data: bytes) -> Iterator[tuple[int, Mapping[str, object]]]:
        """(start of its line, key -> value) of each record in whole lines."""
        ...


class FileReader:
    """Reads one file. One that began anew takes a new reader."""

    def __init__(self, file: MetricFile) -> None:
        self._file = file
        self._names = {key: canonical(name) for name, key in file.metrics.items()}
        self._records: _Records = Rows() if file.format == "csv" else _Objects()
        self._steps = Steps()
        self.tells_steps = False
        """Some line had a step of its own."""
        self._known: dict[str, str] = {}

    def feed(self, data: bytes, offset: int = 0) -> list[Point]:
        """The points of whole lines that begin at byte `offset` of the file."""
        return [
            self._steps.point(reading, offset + start)
            for start, record in self._records.records(data)
            if (reading := self._reading(record)) is not None
        ]

    def _reading(self, record: Mapping[str, object]) -> Reading | None:
        step_key = self._step_key(record)
        values = {
            name: number
            for key, value in record.items()
            if key != step_key
            and (name := self._name(key))
            and (number := _number(value, text=key in self._names)) is not None
        }
        step = _whole(record.get(step_key))
        self.tells_steps = self.tells_steps or step is not None
        return Reading(step, None, values) if values or step is not None else None

    def _step_key(self, record: Mapping[str, object]) -> str:
        if self._file.step:
            return self._file.step
        return next((key for key in _STEP_KEYS if key in record), "")

    def _name(self, key: str) -> str:
        """What the value of a key is called; empty: it is not wanted."""
        if self._names:
            return self._names.get(key, "")
        if key not in self._known:
            if len(self._known) >= MOST_NUMBERS:
                return ""
            self._known[key] = _called(key)
        return self._known[key]


def _called(key: str) -> str:
    """The metric's name; empty for what begins like a private one (`_runtime`)."""
    plain = canonical(key)
    return "" if plain == STEP or key.startswith("_") else plain[:_MOST_NAME]


def _number(value: object, *, text: bool) -> float | None:
    """A number; `text`: also one that is spelled as text. nan and inf always are."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        found = as_number(value.strip())
        number = None if found is None else _float(found)
        return number if text or number is None or not math.isfinite(number) else None
    return _float(value) if isinstance(value, int | float) else None


def _float(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _whole(value: object) -> int | None:
    number = _number(value, text=True)
    if number is None or not math.isfinite(number) or abs(number) >= 1e18:
        return None
    return int(number)


# ---------------------------------------------------------------------------- JSONL
class _Objects:
    """A JSON object a line; nested keys are joined by dots."""

    def records(self, data: bytes) -> Iterator[tuple[int, Mapping[str, object]]]:
        start = 0
        for line in data.split(b"\n"):
            begin, start = start, start + len(line) + 1
            if line.lstrip().startswith(b"{"):
                record = _parsed(line)
                if record is not None:
                    yield begin, dict(_flat(record, "", 0))


def _parsed(line: bytes) -> Mapping[str, object] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # torn, or not meant for us
        return None
    return found if isinstance(found, dict) else None


def _flat(
    record: Mapping[str, object], prefix: str, depth: int
) -> Iterator[tuple[str, object]]:
    for count, (key, value) in enumerate(record.items()):
        if count >= MOST_NUMBERS:
            return
        if not isinstance(value, dict):
            yield f"{prefix}{key}", value
        elif depth < _DEEPEST:
            yield from _flat(value, f"{prefix}{key}.", depth + 1)
