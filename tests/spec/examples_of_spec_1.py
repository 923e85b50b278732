"""The sweeps that the document on multi-stage sweeps shows, typed anew and small.

Each file in `examples/` has the structure of the one that it stands for: the same
nodes, keys, references and expressions, and what the document only hints at (`[...]`)
filled in with the least that works.
`python -m tests.spec.examples_of_spec_1` plans all of them and prints the table.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoexp_tui.planning.build import PlanOutcome
from autoexp_tui.text.interpolations import find_end
from tests.spec.campaign import outcome_of

PLACE = Path(__file__).parent / "examples"


@dataclass(frozen=True)
class Example:
    """One sweep of the document."""

    line: int
    """Where it begins there."""
    what: str
    says: str
    """The number of jobs that it states; empty when it states none."""
    gives: int
    waits: int = 0
    """Edges of the plan along which jobs wait."""
    why: str = ""
    """Why the two differ, or how what it leaves out was filled in."""

    @property
    def config(self) -> str:
        """The whole config."""
        return (PLACE / f"line_{self.line}.yaml").read_text("utf-8")


EXAMPLES: Sequence[Example] = (
    Example(89, "groups and stages as overrides", "", 8, 0, "2 x 2 x 2"),
    Example(119, "hyperparameters x stages", "12", 12, 6, ""),
    Example(
        160,
        "product with a filter",
        "about 6",
        3,
        0,
        "of 9 products lr * batch size 3 are <= 0.0256: 64, 128, 256 at 1e-4",
    ),
    Example(178, "paired configs", "3", 3, 0, ""),
    Example(205, "groups of 6, 3 and 2", "36", 36, 0, ""),
    Example(
        225,
        "filters at two levels",
        "",
        15,
        0,
        "9 of 12 pass the first; x 2 stages; 3 cooldowns of a = 1 go",
    ),
    Example(389, "templates and aux", "", 2, 1, "with the stable stage that it names"),
    Example(
        801,
        "a stage with a backend of its own",
        "8",
        8,
        0,
        "its table has cooldowns keep megatron_fsdp; they set a backend",
    ),
    Example(869, "a whole config", "12", 12, 6, ""),
    Example(
        1014, "planned jobs beside rules", "", 2, 1, "one base, as no grid is given"
    ),
    Example(1045, "stable and cooldown as derived jobs", "12", 12, 6, ""),
    Example(1127, "one run, two evaluations", "3", 3, 2, ""),
    Example(1174, "cooldowns at four scales", "20", 20, 16, ""),
    Example(1236, "push and pull", "", 2, 1, "1 + 1"),
    Example(
        1487, "a command as a condition", "", 2, 1, "one base, as no grid is given"
    ),
    Example(1685, "two structures side by side", "", 8, 0, "4 + 4"),
    Example(
        1947,
        "the filter instead of _filter",
        "",
        3,
        0,
        "2 rates x 2 stages, without the cooldown of 1e-4",
    ),
    Example(1960, "a chain of four stages", "16", 16, 12, ""),
    Example(2030, "two branches", "", 4, 0, "1 + 1 + 2"),
    Example(2129, "cancelled with its sibling", "", 2, 1, ""),
    Example(2236, "an ensemble of three", "", 4, 3, "3 + 1"),
    Example(2808, "the pipeline of the tests", "4", 4, 2, ""),
)


def quoted(text: str) -> str:
    """`text` with each `${oc.eval:X}` as `${oc.eval:'X'}`."""
    opening = "${oc.eval:"
    at = text.find(opening)
    if at < 0:
        return text
    end = find_end(text, at)
    inside = text[at + len(opening) : end - 1]
    return f"{text[:at]}{opening}'{inside}'}}{quoted(text[end:])}"


def outcome(config: str, root: Path, overrides: Sequence[str] = ()) -> PlanOutcome:
    """What comes of planning a config of these, written below `root`."""
    backend = (PLACE / "backend.yaml").read_text("utf-8")
    for name, text in (
        ("exp", config),
        ("backend/megatron_torchrun", backend),
        ("backend/megatron_fsdp", backend),
        ("slurm/lumi", "{}\n"),
    ):
        path = root / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return outcome_of("exp", root, overrides, configs=root)


def table() -> str:
    """Each example: its line, what the document states, what we plan, and why."""
    rows = [("line", "example", "stated", "planned", "")]
    with tempfile.TemporaryDirectory() as place:
        for example in EXAMPLES:
            plan = outcome(example.config, Path(place)).plan
            planned = str(len(plan.jobs)) if plan else "refused"
            rows.append(
                (str(example.line), example.what, example.says, planned, example.why)
            )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
