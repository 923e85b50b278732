"""Solve every row of the table; `points.jsonl` in AGENTIC_OUTPUT_DIR gets a line a row.

    python sweep.py

A line is {"config_id", "points": [[x, y], ...]}. score.py alone measures them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from score import POINTS_FILE, ROWS
from solver import solve


def main() -> int:
    """Returns the exit status."""
    output = Path(os.environ.get("AGENTIC_OUTPUT_DIR", "output"))
    output.mkdir(parents=True, exist_ok=True)
    with (output / POINTS_FILE).open("w", encoding="utf-8") as file:
        for config_id, (size, seed) in enumerate(ROWS):
            print(f"row {config_id}: size {size} seed {seed}", flush=True)
            line = {"config_id": config_id, "points": solve(size, seed)}
            file.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
