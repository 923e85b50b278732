"""The rails beside a list of stages: lines that lead from each to what follows it.

A stage that others wait for keeps a lane, one cell wide, until the last of them is
listed. A stage stands right of all lanes; a line runs to it from every lane that it
follows from. A line that passes over a lane does not join it.

    ▾ stable
    ├▾ cooldown
    │├▾ evaluate     of cooldown
    │└─▾ average     of cooldown
    └──┴▾ report     of stable and average
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BELOW: Final = "│"


@dataclass(frozen=True, slots=True)
class Rails:
    """What stands left of a stage: before its first line, and before further ones."""

    first: str = ""
    below: str = ""


NO_RAILS: Final = Rails()
"""Of a stage that stands alone."""


def rails(parents: Mapping[str, Sequence[str]]) -> Mapping[str, Rails]:
    """The rails of stages.

    `parents`: by stage, in the order of the list, those that it follows from; one that
    is not listed before it has no lane, and no line.
    """
    drawing = _Drawing(parents)
    return {stage: drawing.place(stage, parents[stage]) for stage in parents}


class _Drawing:
    def __init__(self, parents: Mapping[str, Sequence[str]]) -> None:
        self._open: dict[str, int] = {}
        """How many stages that follow from one are still to come."""
        self._lanes: list[str | None] = []
        """The stage that has each lane, "" for jobs without one; None: nobody."""
        seen: set[str] = set()
        for stage, others in parents.items():
            for other in set(others) & seen:
                self._open[other] = self._open.get(other, 0) + 1
            seen.add(stage)

    def place(self, stage: str, parents: Sequence[str]) -> Rails:
        """The rails of the next stage."""
        wanted = set(parents)
        joined = [lane for lane, one in enumerate(self._lanes) if one in wanted]
        column = len(self._lanes)
        ended = self._leave(joined)
        first = "".join(
            self._cell(lane, joined, ended=lane in ended) for lane in range(column)
        )
        for lane in ended:
            self._lanes[lane] = None
        if self._open.get(stage):
            self._lanes.append(stage)
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()
        below = "".join(self._passing(lane) for lane in range(len(self._lanes)))
        return Rails(first, below)

    def _leave(self, joined: Sequence[int]) -> set[int]:
        """Count a stage off the lanes that lead to it; those that end with it."""
        ended = set()
        for lane in joined:
            owner = self._lanes[lane] or ""
            self._open[owner] -= 1
            if not self._open[owner]:
                ended.add(lane)
        return ended

    def _cell(self, lane: int, joined: Sequence[int], *, ended: bool) -> str:
        if not joined or lane < joined[0]:
            return self._passing(lane)
        if lane not in joined:
            return "─"
        if lane == joined[0]:
            return "└" if ended else "├"
        return "┴" if ended else "┼"

    def _passing(self, lane: int) -> str:
        return " " if self._lanes[lane] is None else BELOW
