"""A plan as a grid: a row for each combination of swept values, a column a stage.

Read from the jobs and from what filters took away. A cell holds the jobs that are
there; where none is, the filter that took them, when one did.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from autoexp_tui.model.specs import Hole, Plan
from autoexp_tui.planning.stages import order_stages, stage_parents
from autoexp_tui.planning.swept_keys import Settings, label_keys, read_settings

UNSET: Final = -1
"""In a row: the jobs of this row do not set that key."""
MOST_ROWS: Final = 50_000
_MOST_MADE_WHOLE: Final = 1000
"""Rows that one hole may stand for, where it does not name every axis."""

Row: TypeAlias = tuple[int, ...]
"""For each axis the place of its value."""
Cell: TypeAlias = tuple[Row, str]
"""A row, and a stage."""


@dataclass(frozen=True, slots=True)
class GridAxis:
    """A key that varies, its short label, its values as spelled, in order."""

    key: str
    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """See the module."""

    axes: tuple[GridAxis, ...]
    stages: tuple[str, ...]
    rows: tuple[Row, ...]
    jobs: Mapping[Cell, tuple[int, ...]]
    """Places of the cell's jobs in the plan."""
    holes: Mapping[Cell, int]
    """Place in `filters` of the filter that emptied the cell."""
    filters: tuple[tuple[str, str], ...]
    """Each filter that made a hole, as written, and its key."""
    counts: Mapping[int, int]
    """Place in `filters` -> how many cells it emptied."""
    more: int = 0
    """Combinations that filters took and that have no row: too many, or unnamed."""

    def value(self, row: Row, axis: int) -> str:
        """A row's value on an axis, `-` where its jobs set none."""
        place = row[axis]
        return "-" if place == UNSET else self.axes[axis].values[place]

    def described(self, row: Row) -> str:
        """`lr=1e-3 bsz=64`."""
        return " ".join(
            f"{one.label}={self.value(row, at)}"
            for at, one in enumerate(self.axes)
            if row[at] != UNSET
        )


def grid_of(plan: Plan) -> Grid:
    """The grid of a plan; linear in its jobs and holes."""
    jobs = [read_settings(job.parameters, plan.mask) for job in plan.jobs]
    homes = [job.stage for job in plan.jobs]
    gone = [read_settings(hole.parameters, plan.mask) for hole in plan.holes]
    lost = [hole.stage for hole in plan.holes]
    axes = _axes([*zip(homes, jobs, strict=True), *zip(lost, gone, strict=True)])
    places = [{value: at for at, value in enumerate(axis.values)} for axis in axes]
    parents = stage_parents(plan)
    emptied_stages = {one: () for one in lost if one and one not in parents}
    stages = tuple(order_stages({**parents, **emptied_stages}))
    cells: dict[Cell, list[int]] = {}
    for at, (stage, own) in enumerate(zip(homes, jobs, strict=True)):
        cells.setdefault((_row(own, axes, places), stage), []).append(at)
    rows = dict.fromkeys(row for row, _ in cells)
    filters = tuple(dict.fromkeys((hole.filter, hole.where) for hole in plan.holes))
    emptied = _Emptied(axes, places, rows, stages, filters)
    for hole, own in zip(plan.holes, gone, strict=True):
        emptied.take(hole, own)
    holes = {cell: at for cell, at in emptied.cells.items() if cell not in cells}
    return Grid(
        axes=axes,
        stages=stages,
        rows=tuple(sorted(rows)),
        jobs={cell: tuple(found) for cell, found in cells.items()},
        holes=holes,
        filters=filters,
        counts=Counter(holes.values()),
        more=plan.holes_more + emptied.more,
    )


# ---------------------------------------------------------------------------- axes
def _axes(settings: Sequence[tuple[str, Settings]]) -> tuple[GridAxis, ...]:
    """The keys that vary within a stage, of those that several stages have.

    What only one stage sets is that stage's own: it would make no rows of a grid.
    """
    seen: dict[str, dict[str, dict[str, None]]] = {}
    stages = {stage for stage, _ in settings if stage}
    for stage, own in settings:
        for key, value in own.items():
            seen.setdefault(key, {}).setdefault(stage, {})[value] = None
    varying = [
        key
        for key, by_stage in seen.items()
        if any(
            len({**values, **by_stage.get("", {})}) > 1 for values in by_stage.values()
        )
        and (len(stages) < 2 or len(by_stage) > 1 or "" in by_stage)
    ]
    labels = label_keys(varying)
    return tuple(
        GridAxis(key, labels[key], _merged(seen[key].values())) for key in varying
    )


def _merged(by_stage: Iterable[Mapping[str, None]]) -> tuple[str, ...]:
    """Every value once: numbers by size, else in order of appearance."""
    values = tuple(dict.fromkeys(itertools.chain.from_iterable(by_stage)))
    try:
        return tuple(sorted(values, key=float))
    except ValueError:
        return values


def _row(
    own: Settings, axes: Sequence[GridAxis], places: Sequence[Mapping[str, int]]
) -> Row:
    return tuple(
        places[at][own[axis.key]] if axis.key in own else UNSET
        for at, axis in enumerate(axes)
    )


# --------------------------------------------------------------------------- holes
class _Emptied:
    """The cells that filters emptied; the first filter that says so counts."""

    def __init__(
        self,
        axes: Sequence[GridAxis],
        places: Sequence[Mapping[str, int]],
        rows: dict[Row, None],
        stages: Sequence[str],
        filters: Sequence[tuple[str, str]],
    ) -> None:
        self.cells: dict[Cell, int] = {}
        self.more = 0
        """Rows that were left out."""
        self._axes, self._places = axes, places
        self._rows = rows
        self._stages = stages
        self._filters = {one: at for at, one in enumerate(filters)}

    def take(self, hole: Hole, own: Settings) -> None:
        """Note every cell that a hole stands for."""
        at = self._filters[hole.filter, hole.where]
        stages = (hole.stage,) if hole.stage else self._stages or ("",)
        choices = self._choices(own)
        self.more += max(0, math.prod(map(len, choices)) - _MOST_MADE_WHOLE)
        for row in itertools.islice(itertools.product(*choices), _MOST_MADE_WHOLE):
            if row not in self._rows and len(self._rows) >= MOST_ROWS:
                self.more += 1
                continue
            self._rows.setdefault(row)
            for stage in stages:
                self.cells.setdefault((row, stage), at)

    def _choices(self, own: Settings) -> Sequence[Sequence[int]]:
        """For each axis the places of the values that a combination may have.

        One that it does not name has all.
        """
        return [
            (self._places[at][own[axis.key]],)
            if axis.key in own
            else range(len(axis.values))
            for at, axis in enumerate(self._axes)
        ]
