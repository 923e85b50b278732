"""The agents of the research example: no model, but rules. In the role `research` one
decides what is tried next, in the role `fixer` it repairs runs without memory.

A prompt names experiment_state.json, which has in full what the prompt tells: the rules
look there. They import nothing of ours, so that they show what an agent has to go by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from autoexp_tui.demo.tuning.rules import decide

OUTPUT: Final = "_research_output.json"
_STATE: Final = re.compile(r"^Curves of all runs .*: (/.*\.json)$", re.MULTILINE)
_MEMORY: Final = re.compile(
    r"MemoryError: tried to allocate ([\d.]+) MB for a pass over (\d+) contexts, "
    r"beside ([\d.]+) MB for the model; the limit is (\d+) MB"
)


def answer(role: str, prompt: str, directory: Path) -> str:
    """Write the answer into `directory`; raises ValueError for another prompt."""
    made = repair(prompt) if role == "fixer" else decide(read_state(prompt))
    text = json.dumps(made, indent=2, allow_nan=False)
    (directory / OUTPUT).write_text(text + "\n", encoding="utf-8")
    told: str = made["fix_applied"] if role == "fixer" else made["reasoning"]
    return told or "No override helps."


def read_state(prompt: str) -> Mapping[str, Any]:
    """What the file that a prompt names holds; raises ValueError, OSError."""
    if (found := _STATE.search(prompt)) is None:
        raise ValueError("the prompt names no experiment_state.json")
    state: Mapping[str, Any] = json.loads(Path(found[1]).read_bytes())
    return state


def repair(prompt: str) -> Mapping[str, Any]:
    """Smaller passes for a run that had too little memory: its gradient stays the same.
    Nothing for any other failure, and where no pass is small enough."""
    if found := _MEMORY.search(prompt):
        passing, rows, kept, limit = map(float, found.groups())
        kept *= 5 / 4  # the sum of the gradients of the passes
        smaller = rows
        while smaller >= 2 and kept + passing * smaller / rows > limit:
            smaller //= 2
        if kept + passing * smaller / rows <= limit:
            applied = f"passes of {smaller:.0f} contexts in place of {rows:.0f}"
            return {"fix_applied": applied, "overrides": [f"micro_batch={smaller:.0f}"]}
    return {"fix_applied": "", "overrides": []}
