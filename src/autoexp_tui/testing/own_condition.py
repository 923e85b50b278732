"""An example of a condition of one's own, to copy; docs and a shipped config use it.

Its fields are those of the config. It names the facts that it needs and judges them,
and looks at nothing itself: the engine has looked when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autoexp_tui.conditions.custom_conditions import says
from autoexp_tui.model.facts import FactKey, Facts, FileText, TextKey
from autoexp_tui.model.states import Verdict


@dataclass(frozen=True, slots=True)
class EnoughLines:
    """Passes when a file has at least so many lines."""

    path: str
    lines: int = 1

    def needs(self, job: str) -> Iterable[FactKey]:
        """The text of the file."""
        return (TextKey(self.path),)

    def evaluate(self, facts: Facts, now: float) -> Verdict:
        """Counts; the file may not be there yet."""
        fact = facts.get(TextKey(self.path))
        file = fact.value if fact is not None else None
        text = file.text if isinstance(file, FileText) else None
        have = len((text or "").splitlines())
        result = "pass" if have >= self.lines else "wait"
        return says(result, f"{have} of {self.lines} lines in {self.path}")
