"""Metrics from files that hold nothing else: a JSON object a line, CSV, TensorBoard's
events. What cannot be read (a torn line, a word where a number is wanted) says
nothing."""

from __future__ import annotations

import csv
import glob
import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from autoexp_tui.conditions.jobs import as_number
from autoexp_tui.model.rules import MetricFile, Monitoring
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.telemetry.metric_lines import Reading, split_lines
from autoexp_tui.telemetry.metrics import Point, StepCounter
from autoexp_tui.telemetry.tensorboard_events import RecordSplitter, parse_event
from autoexp_tui.text.log_lines import STEP, find_canonical_name

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


def find_unknown_fields(path: str) -> list[str]:
    """What stands between braces in a path and is no field of a job."""
    return [name for name in _FIELD.findall(path) if name not in PATH_FIELDS]


def is_pattern(path: str) -> bool:
    """Whether a path stands for any that match it."""
    return _MAGIC.search(path) is not None


def locate_file(file: MetricFile, job: JobSpec) -> str:
    """Where a job's file lies, or the pattern of several; values in it are no
    patterns."""
    pattern = is_pattern(file.path)

    def value(match: re.Match[str]) -> str:
        text = str(getattr(job, match[1])) if match[1] in PATH_FIELDS else match[0]
        return glob.escape(text) if pattern else text

    path = _FIELD.sub(value, file.path)
    if path.startswith("/"):
        return path
    home = glob.escape(job.output_dir) if pattern else job.output_dir
    return f"{home}/{path}"


def locate_files(rules: Monitoring, job: JobSpec) -> tuple[str, ...]:
    """Where all files of metrics of a job lie, in the order of its rules."""
    return tuple(locate_file(file, job) for file in rules.metrics_files)


def is_binary(file: MetricFile) -> bool:
    """Whether a file has records, and no lines."""
    return file.format == "tensorboard"


_Record: TypeAlias = Mapping[str, object]
"""Key or column -> value."""


class FileReader:
    """Reads one file. One that began anew takes a new reader."""

    def __init__(self, file: MetricFile) -> None:
        self.file = file
        self._names = {
            key: find_canonical_name(name) for name, key in file.metrics.items()
        }
        self.records = RecordSplitter() if is_binary(file) else None
        """Of a file that has no lines."""
        is_csv = file.format == "csv"
        self._parse_line = _Csv().parse_line if is_csv else _parse_json_line
        self._steps = StepCounter()
        self.has_steps = False
        """Some line had a step of its own."""
        self._known: dict[str, str] = {}

    def read(self, data: bytes, offset: int = 0) -> list[Point]:
        """The points of whole lines that begin at byte `offset` of the file, or of the
        records in these bytes."""
        points = []
        split = self.records.split if self.records else split_lines
        parse = parse_event if self.records else self._parse_line
        for start, line in split(data):
            found = parse(line)
            reading = self._read_record(found) if found else None
            if reading and (point := self._steps.make_point(reading, offset + start)):
                points.append(point)
        return points

    def _read_record(self, record: _Record) -> Reading | None:
        named = "" if self.records else self.file.step
        step_key = named or next((k for k in _STEP_KEYS if k in record), "")
        values = {
            name: number
            for key, value in record.items()
            if key != step_key
            and (name := self._name_metric(key))
            and (number := _parse_number(value, text=key in self._names)) is not None
        }
        number = _parse_number(record.get(step_key), text=True)
        is_step = number is not None and math.isfinite(number) and abs(number) < 1e18
        step = int(number) if number is not None and is_step else None
        self.has_steps = self.has_steps or step is not None
        return Reading(step, None, values) if values or step is not None else None

    def _name_metric(self, key: str) -> str:
        """What the value of a key is called; empty: it is not wanted."""
        if self._names:
            return self._names.get(key, "")
        if key not in self._known:
            if len(self._known) >= MOST_NUMBERS:
                return ""
            name = find_canonical_name(key)
            is_private = name == STEP or key.startswith("_")
            self._known[key] = "" if is_private else name[:_MOST_NAME]
        return self._known[key]


def _parse_number(value: object, *, text: bool) -> float | None:
    """A number; `text`: also one that is spelled as text. nan and inf always are."""
    is_text = isinstance(value, str)
    found = as_number(value.strip()) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        number = float(found)
    except OverflowError:
        return None
    return number if text or not is_text or not math.isfinite(number) else None


def _parse_json_line(line: bytes) -> _Record | None:
    """A JSON object a line; nested keys are joined by dots."""
    record = parse_json_object(line)
    return None if record is None else dict(_flatten(record, "", 0))


def parse_json_object(line: bytes) -> _Record | None:
    """The JSON object that a line is; None: it is torn, or none."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        found: _Record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found


def _flatten(record: _Record, prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    for key, value in islice(record.items(), MOST_NUMBERS):
        if not isinstance(value, dict):
            yield f"{prefix}{key}", value
        elif depth < _DEEPEST:
            yield from _flatten(value, f"{prefix}{key}.", depth + 1)


class _Csv:
    """Rows below a header. The first row with a word in it is a header; a later row
    without any number is one again."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._delimiter = ""

    def parse_line(self, line: bytes) -> _Record | None:
        """The record that a line is; None: it is a header, or empty."""
        cells = self._split(line.decode("utf-8", "replace").rstrip("\r"))
        words = [cell for cell in cells if cell]
        numbers = sum(as_number(word) is not None for word in words)
        if words and not numbers if self._columns else numbers < len(words):
            self._columns = [cell.lstrip("\ufeff#").strip() for cell in cells]
            return None
        if words and not self._columns:
            self._columns = [f"column {n}" for n in range(1, len(cells) + 1)]
        pairs = zip(self._columns, cells, strict=False)
        known = ((name, cell, as_number(cell)) for name, cell in pairs if name)
        return {name: cell if n is None else n for name, cell, n in known}

    def _split(self, line: str) -> list[str]:
        if line and not self._delimiter:
            self._delimiter = max((",", "\t", ";"), key=line.count)
        if '"' not in line:
            return [cell.strip() for cell in line.split(self._delimiter or ",")]
        try:
            row = next(csv.reader([line], delimiter=self._delimiter), [])
        except csv.Error:
            row = []
        return [cell.strip() for cell in row]
