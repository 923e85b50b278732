"""How planning says no: problems are gathered and raised together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autoexp_tui.model.errors import Problem


@dataclass(eq=False)
class SweepRefused(ValueError):
    """A sweep that cannot be expanded; carries every finding."""

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def raise_if_any(problems: Iterable[Problem]) -> None:
    """Raise SweepRefused when there are problems."""
    found = tuple(problems)
    if found:
        raise SweepRefused(found)
