"""The agents' entry: an answer by rule to the prompt of a call, as a file.

As `agents.NAME: {backend: scripted, command: [autoexp_tui.demo.tuning.agent:answer]}`
it is a research agent, and in the role `fixer` one that repairs runs without memory."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from autoexp_tui.demo.tuning.context import read_context
from autoexp_tui.demo.tuning.rules import decide

OUTPUT: Final = "_research_output.json"
_MEMORY: Final = re.compile(
    r"MemoryError: tried to allocate ([\d.]+) MB for a pass over (\d+) contexts, "
    r"beside ([\d.]+) MB for the model; the limit is (\d+) MB"
)


def answer(role: str, prompt: str, directory: Path) -> str:
    """Write the answer into `directory`; raises ValueError for another prompt."""
    made = repair(prompt) if role == "fixer" else decide(read_context(prompt))
    text = json.dumps(made, indent=2, allow_nan=False)
    (directory / OUTPUT).write_text(text + "\n", encoding="utf-8")
    told: str = made["fix_applied"] if role == "fixer" else made["reasoning"]
    return told or "No override helps."


def repair(prompt: str) -> Mapping[str, Any]:
    """Smaller passes for a run that had too little memory: its gradient stays the same.
    Nothing for any other failure, and where no pass is small enough."""
    if found := re.search(_MEMORY, prompt):
        passing, rows, kept, limit = map(float, found.groups())
        kept *= 5 / 4  # the sum of the gradients of the passes
        smaller = rows
        while smaller >= 2 and kept + passing * smaller / rows > limit:
            smaller //= 2
        if kept + passing * smaller / rows <= limit:
            applied = f"passes of {smaller:.0f} contexts in place of {rows:.0f}"
            overrides = [f"micro_batch={smaller:.0f}"]
            return {"fix_applied": applied, "overrides": overrides}
    return {"fix_applied": "", "overrides": []}
