"""One thing that is wrong with a session, and what would mend it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "note"]
"""An *error* keeps the session from going on as it should, or something accepted is
lost; a *warning* may; a *note* is no flaw, but worth a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """One finding of a session's check."""

    severity: Severity
    where: str
    """The file, with line and byte where there are any; or the job."""
    problem: str
    hint: str = ""
    """The next step, for a person."""
    repair: str = ""
    """What a repair would do; empty: nothing is repaired by us."""
    mend: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """Does it, and says what was done."""

    def as_json(self) -> dict[str, str]:
        """As plain data."""
        return {
            "severity": self.severity,
            "where": self.where,
            "problem": self.problem,
            "hint": self.hint,
            "repair": self.repair,
        }
