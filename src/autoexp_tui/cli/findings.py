"""One thing that the doctor looked at, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["ok", "hint", "missing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    grade: Grade
    found: str
    mend: str = ""
    """The command or the step that mends it; empty: nothing to do."""

    @property
    def line(self) -> str:
        """For people; what mends it stands below."""
        mark = {"ok": "✓", "hint": "·", "missing": "✗"}[self.grade]
        line = f" {mark} {self.what:<14} {self.found}"
        return f"{line}\n   {'':<14} {self.mend}" if self.mend else line
