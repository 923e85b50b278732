"""The cockpit on a real plan of 10,000 jobs: first paint and keys, on a terminal.

    python tests/bench/bench_open_plan.py [--jobs 10000]

The plan is made by `autoexp-plan` over the tree of `bench_plan`. First paint stands
beside a bare Textual app's. A key is timed from the press to the last byte of what it
writes; a screen's own opening (grid, config of a job) counts as one key.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.bench_plan import OURS, cost
from tests.bench.bench_ui import BARE, first_paint
from tests.plan.large_tree import two_stages, write_tree
from tests.ui.ptys import OnTerminal

COCKPIT = "from autoexp_tui.cli.tui import entry; entry()"
QUIET_SECONDS = 0.06
"""So long nothing is written when a key has been answered."""
KEYS = (
    ("down, up", "jk"),
    ("page down, page up", "\x04\x15"),
    ("end, home", "Gg"),
    ("a family's stage below", "1j"),
    ("the jobs again", "2"),
)


def planned(place: Path, jobs: int) -> str:
    """The manifest of a plan of so many jobs."""
    tree = write_tree(place, two_stages(jobs, choices=True))
    state = place / "plans"
    plan = ["-c", OURS, "-C", str(tree), "--state-dir", str(state)]
    cost([sys.executable, *plan], tree)
    (found,) = state.glob("manifests/plan_????????????.json")
    return str(found)


def answered(terminal: OnTerminal, key: str) -> float:
    """Milliseconds from a press to the last byte of its answer; 0: there was none."""
    terminal.read_during(QUIET_SECONDS)
    begun = last = time.perf_counter()
    terminal.type(key)
    patience = 1.0
    while terminal.read_some(patience):
        last, patience = time.perf_counter(), QUIET_SECONDS
    return (last - begun) * 1e3


def keys(command: Sequence[str], presses: int) -> None:
    """Each kind of key, many times."""
    with OnTerminal(command, size=(160, 48)) as terminal:
        terminal.read_until(b"planned")
        terminal.read_during(2.0)
        everything: list[float] = []
        for label, these in KEYS:
            took = [answered(terminal, these[n % len(these)]) for n in range(presses)]
            everything += took
            print(_row(label, took))
        print(_row("all of these", everything))
        for label, opening, closing in (
            ("config of a job", "i", "\x1b"),
            ("the grid", "1G", "\x1b"),
            ("the log of a job", "20", "\x1b"),
        ):
            for key in opening[:-1]:
                answered(terminal, key)
            print(_row(f"opening: {label}", [answered(terminal, opening[-1])]))
            answered(terminal, closing)


def _row(label: str, took: Sequence[float]) -> str:
    ordered = sorted(took)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    middle = statistics.median(ordered)
    return f"{label:30} {len(ordered):4} x   median {middle:5.1f}   p99 {p99:6.1f} ms"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--presses", type=int, default=60)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        manifest = planned(Path(place), chosen.jobs)
        state = ["--state-dir", str(Path(place) / "state")]
        ours = ["-c", COCKPIT, "--manifest", manifest, *state]
        bare, opened = first_paint(["-c", BARE]), first_paint(ours)
        print(
            f"first paint of {chosen.jobs} planned jobs {opened * 1e3:5.0f} ms, "
            f"{opened / bare:.2f} x a bare Textual app ({bare * 1e3:.0f} ms)"
        )
        keys(ours, chosen.presses)


if __name__ == "__main__":
    main()
