"""What the scripted steps of a dry run of the tree do and measure, and the programs
that do it: a real search with real commits, which calls no agent and no sweep. Among
seven ideas a node, two nodes wide and three deep, each kind of end below is there.

    python -m autoexp_tui.demo.dry_run_steps --ideas-dir DIR [--context-ideas-dir DIR]
    python -m autoexp_tui.demo.dry_run_steps

The first writes a node's ideas, the second measures the current directory."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROWS: Final = 8
METRIC: Final = "ratio"
CHANGED_FILE: Final = "dry_run.txt"
ROOT_VALUE: Final = 75
"""Hundredths, as the values below."""
GAIN: Final = 4
"""By which a depth's level lies above that of the depth before it."""
LATE_SECONDS: Final = 0.5

OUTCOMES: Final = (
    (("late 0", "2", "-9", "0 stuck", "nan", "short", "-8"),),
    (
        ("1", "no column", "no file", "error", "1", "broken", "-8"),
        ("2", "repeat", "unchanged", "text", "0", "-9", "-1"),
    ),
    (("1", "-9", "0", "-1", "-8", "0", "-1"), ("2", "0", "-8", "1", "-9", "-1", "0")),
)
"""By depth, by node of the frontier, by idea. A number: what is measured, above the
level of the depth. Two that measure alike are a tie, which the id decides.

late: it ends after those opened behind it; stuck: its worktree cannot be removed; nan:
every cell, so there is no score; text: one cell is no number; short: a row is missing;
error: a row failed; no column, no file: nothing can be read; broken: the implementation
fails; repeat: the idea before it in other blanks; unchanged: it changes nothing."""
_TITLE: Final = re.compile(r"Idea (\d+) of node (\d+) at depth (\d+)")
_WIDTH: Final = max(map(len, OUTCOMES))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedStep:
    """One idea of a dry run, and what comes of it."""

    file_name: str
    idea: str
    """Markdown."""
    written: str | None
    """What the implementation writes to CHANGED_FILE; None: nothing."""
    is_broken: bool
    """Whether the implementation fails."""
    results: str | None
    """The CSV; None: none is written."""
    seconds: float
    """How long the evaluation takes."""
    is_stuck: bool
    """Whether removing its worktree fails, the first time."""


def list_steps(depth: int, node: int, count: int = 7) -> tuple[ScriptedStep, ...]:
    """The ideas of a node: `depth` counts from 1, `node` from 0 in the frontier. Beyond
    the table its last lists go on."""
    nodes = OUTCOMES[min(depth, len(OUTCOMES)) - 1]
    outcomes = nodes[min(node, len(nodes) - 1)]
    return tuple(
        _make_step(depth, node, index, outcomes[index % len(outcomes)])
        for index in range(count)
    )


def format_results(hundredths: int, fault: str = "") -> str:
    """A CSV whose mean is so many hundredths, with one fault of OUTCOMES."""
    cells = [
        [str(row), "ok", f"{hundredths / 100 + (2 * row - 7) / 2000:.4f}"]
        for row in range(ROWS)
    ]
    header = ["config_id", "status", METRIC]
    match fault:
        case "nan":
            cells = [[*row[:2], "nan"] for row in cells]
        case "text":
            cells[3][2] = "failed to converge"
        case "error":
            cells[3][1:] = ["error", ""]
        case "short":
            del cells[-1]
        case "no column":
            header.pop()
            cells = [row[:2] for row in cells]
    return "".join(",".join(row) + "\n" for row in [header, *cells])


def _make_step(depth: int, node: int, index: int, outcome: str) -> ScriptedStep:
    words = outcome.split()
    offset = next((int(word) for word in words if word.lstrip("-").isdigit()), 0)
    value = ROOT_VALUE + GAIN * depth + offset
    number = index if outcome == "repeat" else index + 1
    title = f"Idea {number} of node {node + 1} at depth {depth}"
    bullet = "*   " if outcome == "repeat" else "- "
    return ScriptedStep(
        file_name=f"idea-{index + 1:02d}.md",
        idea=f"# {title}\n\n{bullet}a step of the dry run\n",
        written=None if outcome == "unchanged" else f"{title}\n",
        is_broken=outcome == "broken",
        results=None if outcome == "no file" else format_results(value, outcome),
        seconds=LATE_SECONDS if "late" in words else 0.0,
        is_stuck="stuck" in words,
    )


def find_step(text: str) -> ScriptedStep | None:
    """The step of an idea, by its title; None: there is none."""
    found = _TITLE.search(text)
    if found is None:
        return None
    index, node, depth = map(int, found.groups())
    return list_steps(depth, node - 1, index)[-1]


def propose(directory: Path) -> None:
    """Write the ideas of the node that the directory is named for: `n0` is the root,
    and each depth promotes as many as the table is wide."""
    number = int(directory.name[1:])
    depth, node = divmod(max(0, number - 1), _WIDTH)
    depth += 1 + (number > 0)
    for step in list_steps(depth, node):
        (directory / step.file_name).write_text(step.idea, encoding="utf-8")


def answer_call(role: str, prompt: str, directory: Path) -> str:
    """As an agent that is a function: write what the step writes; raises ValueError
    where it is to fail."""
    step = find_step(prompt)
    if step is None or step.is_broken:
        raise ValueError("the step fails, as it is scripted")
    if step.written is not None:
        (directory / CHANGED_FILE).write_text(step.written, encoding="utf-8")
    return "done"


def measure(directory: Path, target: Path) -> None:
    """Write the results of what was changed there; of nothing, the root's."""
    changed = directory / CHANGED_FILE
    step = find_step(changed.read_text("utf-8")) if changed.exists() else None
    results = format_results(ROOT_VALUE)
    if step is not None:
        time.sleep(step.seconds)
        results = step.results or ""
    if results:
        target.write_text(results, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ideas-dir", type=Path)
    parser.add_argument("--context-ideas-dir", action="append")
    args = parser.parse_args(arguments)
    if args.ideas_dir:
        propose(args.ideas_dir)
    else:
        measure(Path(), Path(os.environ["AGENTIC_RESULTS_CSV"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
