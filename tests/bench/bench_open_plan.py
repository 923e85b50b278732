"""The cockpit on a real plan of 10,000 jobs: first paint and keys, on a terminal.

    python -m tests.bench.bench_open_plan [--jobs 10000]

The plan is made by `autoexp-plan` over the tree of `bench_plan`. First paint stands
beside a bare Textual app's. A key is timed from the press to its paint, and to the last
byte of what it writes, what is thought out meanwhile included; beside them stands the
CPU time of the screen's thread, which other work on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.bench_plan import OURS, cost
from tests.bench.bench_ui import BARE, first_paint
from tests.bench.measures import find_p99
from tests.cockpit.ptys import OnTerminal
from tests.planning.large_tree import two_stages, write_tree

COCKPIT = "from autoexp_tui.cli.tui import entry; entry()"
PAINTED_SECONDS = 0.004
"""So long nothing is written between one paint and the next."""
QUIET_SECONDS = 0.06
"""So long nothing is written when a key has been answered."""
PATIENCE_SECONDS = 4.0
"""So long an answer's first byte is waited for: a busy machine is slow to begin."""
KEYS = (
    ("down, up", "jk"),
    ("page down, page up", "\x04\x15"),
    ("end, home", "Gg"),
    ("the stages, the jobs again", "12"),
    ("", "1"),
    ("a stage below, above", "jk"),
)
"""A label and the keys in turn, each of which changes the screen; without a label: on
the way, once."""


def planned(place: Path, jobs: int) -> str:
    """The manifest of a plan of so many jobs."""
    tree = write_tree(place, two_stages(jobs, choices=True))
    state = place / "plans"
    plan = ["-c", OURS, "-C", str(tree), "--state-dir", str(state)]
    cost([sys.executable, *plan], tree)
    (found,) = state.glob("manifests/plan_????????????.json")
    return str(found)


class Answer(NamedTuple):
    """What a key took, in milliseconds."""

    painted: float
    """To the end of its first paint; 0: there was none."""
    wall: float
    """To the last byte of its answer."""
    cpu: float
    """Of the screen's thread until then."""


def answered(terminal: OnTerminal, key: str, quiet: float = QUIET_SECONDS) -> Answer:
    """Press a key, and read until nothing was written for `quiet` seconds."""
    terminal.read_for(QUIET_SECONDS)
    before = spent = _cpu(terminal)
    begun = last = time.perf_counter()
    terminal.type(key)
    patience, painted = PATIENCE_SECONDS, 0.0
    while terminal.read_some(patience):
        now = time.perf_counter()
        if not painted and last > begun and now - last > PAINTED_SECONDS:
            painted = last
        last, spent, patience = now, _cpu(terminal), quiet
    painted = painted or last
    return Answer((painted - begun) * 1e3, (last - begun) * 1e3, spent - before)


def _cpu(terminal: OnTerminal) -> float:
    """Milliseconds that the screen's thread, a process's first, has run.

    Source: Linux, Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat.
    """
    assert terminal.process is not None
    pid = terminal.process.pid
    told = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text()
    return int(told.split()[0]) / 1e6


def keys(command: Sequence[str], presses: int) -> None:
    """Each kind of key, many times."""
    with opened(command) as terminal:
        everything: list[Answer] = []
        for label, these in KEYS:
            if not label:
                answered(terminal, these)
                continue
            took = [answered(terminal, these[n % len(these)]) for n in range(presses)]
            everything += took
            print(_row(label, took))
        print(_row("all of these", everything))


@contextmanager
def opened(command: Sequence[str]) -> Iterator[OnTerminal]:
    """The cockpit with its plan on the screen, at rest."""
    with OnTerminal(command, size=(160, 48)) as terminal:
        terminal.read_until(b"planned")
        terminal.read_for(2.0)
        yield terminal


def _row(label: str, took: Sequence[Answer]) -> str:
    sides = (sorted(side) for side in zip(*took, strict=True))
    painted, wall, cpu = (
        f"{statistics.median(side):5.1f}, {find_p99(side):5.1f}" for side in sides
    )
    return (
        f"{label:28} {len(took):4} x   median, p99 in ms: to paint {painted}   "
        f"whole {wall}   screen's CPU {cpu}"
    )


def main() -> None:
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
