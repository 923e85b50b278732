"""Measure the points of a sweep, and write a CSV with a line a row.

    python score.py

Reads `points.jsonl` in AGENTIC_OUTPUT_DIR and writes AGENTIC_RESULTS_CSV. Nothing that
the sweep says of itself counts: every distance is measured here, from the points.

- ratio: the smallest distance of two points, by the best one known; 1 is the optimum
- radius: of equal circles in the unit square that such points are the centres of
- evenness: the smallest distance, by the mean distance to the nearest neighbour

A row is `ok`, or says what is wrong with it: missing, malformed, count, outside."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

BEST_DISTANCE = {
    10: 0.421279543983903,
    11: 0.398207310236844,
    12: 0.388730126323020,
    13: 0.366096007696425,
}
"""The smallest distance of so many points in the unit square, at its largest: The
best known packings of equal circles in a square, E. Specht, www.packomania.com."""
ROWS = [(size, seed) for size in BEST_DISTANCE for seed in (1, 2)]
"""The size and the seed of each row; its place is its config_id."""
POINTS_FILE = "points.jsonl"
METRICS = ("ratio", "radius", "evenness")


def main() -> int:
    """Returns the exit status: 1 when there is nothing to measure."""
    output = Path(os.environ.get("AGENTIC_OUTPUT_DIR", "output"))
    results = Path(os.environ.get("AGENTIC_RESULTS_CSV", output / "results.csv"))
    try:
        text = (output / POINTS_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"score.py: no results of the sweep: {error}", file=sys.stderr)
        return 1
    rows = score_results(text)
    with results.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("config_id", "status", *METRICS))
        writer.writerows(rows)
    ratios = [float(row[2]) for row in rows if row[1] == "ok"]
    mean = math.fsum(ratios) / max(len(ratios), 1)
    print(f"ratio {mean:.4f}: the mean of {len(ratios)} of {len(rows)} rows")
    return 0


def score_results(text: str) -> list[tuple[str, ...]]:
    """The cells of each row, for the lines that a sweep wrote."""
    found = read_lines(text)
    rows = []
    for config_id, (size, _) in enumerate(ROWS):
        status, cells = score_row(size, found.get(config_id))
        rows.append((str(config_id), status, *cells))
    return rows


def read_lines(text: str) -> dict[int, Any]:
    """What each row's points are said to be; of two lines of a row the last counts."""
    found = {}
    for line in text.splitlines():
        try:
            record = json.loads(line)
            found[int(record["config_id"])] = record["points"]
        except (KeyError, TypeError, ValueError, RecursionError):
            continue
    return found


def score_row(size: int, points: Any) -> tuple[str, tuple[str, ...]]:
    """The status and the metrics, empty unless it is ok."""
    if points is None:
        status = "missing"
    elif not isinstance(points, list) or not all(map(is_point, points)):
        status = "malformed"
    elif len(points) != size:
        status = "count"
    elif not all(0 <= value <= 1 for point in points for value in point):
        status = "outside"
    else:
        return "ok", tuple(f"{value:.9f}" for value in measure_points(points))
    return status, ("",) * len(METRICS)


def is_point(value: Any) -> bool:
    """Whether it is a list of two numbers."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(number) in (int, float) for number in value)
    )


def measure_points(points: list[list[float]]) -> tuple[float, float, float]:
    """The metrics, in the order of METRICS."""
    nearest = [
        min(measure_distance(one, other) for other in points if other is not one)
        for one in points
    ]
    smallest = min(nearest)
    mean = math.fsum(nearest) / len(nearest)
    return (
        smallest / BEST_DISTANCE[len(points)],
        smallest / (2 * (1 + smallest)),
        smallest / mean if mean else 0.0,
    )


def measure_distance(one: list[float], other: list[float]) -> float:
    """Between two points; by arithmetic that is rounded alike on every machine."""
    x, y = one[0] - other[0], one[1] - other[1]
    return math.sqrt(x * x + y * y)


if __name__ == "__main__":
    sys.exit(main())
