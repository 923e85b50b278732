"""The programs of a dry run of the tree, without a model: what proposes, edits and
measures.

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
from pathlib import Path
from typing import Final

from autoexp_tui.demo.dry_run import (
    CHANGED_FILE,
    OUTCOMES,
    ROOT_VALUE,
    ScriptedStep,
    format_results,
    list_steps,
)

_TITLE: Final = re.compile(r"Idea (\d+) of node (\d+) at depth (\d+)")
_WIDTH: Final = max(map(len, OUTCOMES))


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
