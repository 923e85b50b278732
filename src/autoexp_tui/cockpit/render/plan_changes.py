"""What changed since the last plan of the same config: a line, and all of it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.spans import Line, Role, Span, line, outside
from autoexp_tui.model.wording import clock_time

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {"+": "done", "-": "failed", "~": "warning", ">": "accent", "!": "warning"}
)


@dataclass(frozen=True, slots=True)
class PlanChanges:
    """How a plan differs from the one before."""

    created_at: float
    """When that one was made; UTC."""
    head: str
    """In a few words, counted."""
    lines: tuple[tuple[str, str], ...]
    """Mark and sentence of each change."""
    differs: bool = True

    def told(self, now: float) -> str:
        """`since the plan of 14:02: 12 jobs added, 100 the same`."""
        when = clock_time(self.created_at, now)
        return f"since the plan of {when}: {outside(self.head)}"

    def page(self, now: float) -> tuple[Line, ...]:
        """All of it."""
        rows = [
            line(Span(f"{mark} ", _ROLES.get(mark, "accent")), outside(text, 4000))
            for mark, text in self.lines
        ]
        return ((Span(self.told(now), "strong"),), (), *rows)
