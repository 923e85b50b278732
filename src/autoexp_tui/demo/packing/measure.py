"""Pack circles of one size with the solver of the current directory, and say how well.

    python -P -m autoexp_tui.demo.packing.measure --size 10 --seeds 1 2

A line a seed, {"step", "ratio", "evenness"}: of all seeds up to there. Distances are
measured by `score.py` of this package, never by that of the directory."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from autoexp_tui.demo.packing.files.score import is_point, measure_points

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 when the points are not what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args(argv)
    sys.path.insert(0, os.getcwd())
    from solver import solve

    found = []
    for step, seed in enumerate(args.seeds, 1):
        points = [list(point) for point in solve(args.size, seed)]
        is_whole = len(points) == args.size and all(map(is_point, points))
        if not is_whole or not all(0 <= at <= 1 for point in points for at in point):
            print(f"seed {seed}: these are not {args.size} points of the square")
            return 1
        found.append(measure_points(points))
        means = [sum(column) / step for column in zip(*found, strict=True)]
        told = {"step": step, "ratio": means[0], "evenness": means[2]}
        print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
