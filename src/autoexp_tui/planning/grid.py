"""What a plan sweeps over: its keys, and the plan as a grid.

Read from the jobs and from what filters took away, as a manifest holds them. A key is
swept when jobs of one stage have different values of it: what only tells stages apart
is no hyperparameter. A cell of the grid holds the jobs that are there; where none is,
the filter that took them, when one did.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from autoexp_tui.model.masking import NO_RULES, MaskRules, mask_value
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.dag import find_stage_parents, order_stages
from autoexp_tui.sweep.points import NOT_OVERRIDES, plain_key
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import format_yaml_value, spell_alike

UNSET: Final = -1
"""In a row: the jobs of this row do not set that key."""
MOST_ROWS: Final = 50_000
_MOST_MADE_WHOLE: Final = 1000
"""Rows that one hole may stand for, where it does not name every axis."""
_NOT_SWEPT: Final = NOT_OVERRIDES | {"project.name"}
"""Keys that are ours, or name jobs and make none."""

Settings: TypeAlias = Mapping[str, str]
"""What a sweep point sets: plain key -> value, spelled."""
Row: TypeAlias = tuple[int, ...]
"""For each axis the place of its value."""
Cell: TypeAlias = tuple[Row, str]


@dataclass(frozen=True, slots=True)
class Axis:
    """A key that varies, its short label, its values as spelled, in order."""

    key: str
    label: str
    values: tuple[str, ...]
    shown: tuple[str, ...] = ()
    """The same, the floats spelled alike."""


def read_settings(
    parameters: Mapping[str, object], rules: MaskRules = NO_RULES
) -> Settings:
    """What a sweep point sets; what is ours or only names jobs is left out."""
    return {
        plain: format_yaml_value(mask_value(key, value, rules))
        for key, value in parameters.items()
        if (plain := plain_key(key)) not in _NOT_SWEPT
    }


def find_axes(
    points: Sequence[tuple[str, Settings]], *, shared: bool = False
) -> tuple[Axis, ...]:
    """The keys that vary within a stage; `shared`: of those that several stages have.

    A hole without a stage is one of every stage. Numbers are in order of size. An axis
    is called by the last part of its key; by the whole where that is unclear.
    """
    keys = dict.fromkeys(itertools.chain.from_iterable(own for _, own in points))
    values: dict[str, dict[str, Counter[str]]] = {key: {} for key in keys}
    by_stage: dict[str, list[Settings]] = {}
    for stage, own in points:
        by_stage.setdefault(stage, []).append(own)
    for stage, some in by_stage.items():
        met = Counter(itertools.chain.from_iterable(own.items() for own in some))
        for (key, value), number in met.items():
            values[key].setdefault(stage, Counter())[value] = number
    sizes = {stage: len(some) for stage, some in by_stage.items()}
    is_staged = len({stage for stage in sizes if stage}) > 1
    axes: dict[str, Sequence[str]] = {}
    for key, stages in values.items():
        anywhere: Mapping[str, int] = stages.get("", {})
        is_own = is_staged and len(stages) == 1 and "" not in stages
        if not (shared and is_own) and any(
            len({**own, **anywhere}) > 1 or (own.total() < sizes[stage] and not shared)
            for stage, own in stages.items()
        ):
            axes[key] = list(dict.fromkeys(itertools.chain(*stages.values())))
            with suppress(ValueError):
                axes[key] = sorted(axes[key], key=float)
    tails = {key: key.rsplit(".", 1)[-1] for key in axes}
    often = Counter(tails.values())
    return tuple(
        Axis(
            key,
            clean_line(tails[key] if often[tails[key]] == 1 else key) or "?",
            tuple(found),
            spell_alike(found),
        )
        for key, found in axes.items()
    )


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """A row for each combination of swept values, a column a stage."""

    axes: tuple[Axis, ...]
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
        return "-" if place == UNSET else self.axes[axis].shown[place]

    def describe_row(self, row: Row) -> str:
        """`lr=1e-3 bsz=64`."""
        return " ".join(
            f"{one.label}={self.value(row, at)}"
            for at, one in enumerate(self.axes)
            if row[at] != UNSET
        )


def build_grid(plan: Plan) -> Grid:
    jobs, gone = (
        [(one.stage, read_settings(one.parameters, plan.mask)) for one in some]
        for some in (plan.jobs, plan.holes)
    )
    axes = find_axes([*jobs, *gone], shared=True)
    parents = find_stage_parents(plan)
    emptied_stages = {one: () for one, _ in gone if one and one not in parents}
    stages = tuple(order_stages({**parents, **emptied_stages}))
    places = [
        (one.key, {value: at for at, value in enumerate(one.values)}) for one in axes
    ]
    cells: dict[Cell, list[int]] = {}
    for at, (stage, own) in enumerate(jobs):
        row = tuple(by[own[key]] if key in own else UNSET for key, by in places)
        cells.setdefault((row, stage), []).append(at)
    rows = {row: None for row, _ in cells}
    filters: dict[tuple[str, str], int] = {}
    emptied: dict[Cell, int] = {}
    more = plan.holes_more
    for hole, (_, own) in zip(plan.holes, gone, strict=True):
        at = filters.setdefault((hole.filter, hole.where), len(filters))
        # A hole has all values of an axis that it does not name.
        choices = [
            (by[own[key]],) if key in own else range(len(by)) for key, by in places
        ]
        more += max(0, math.prod(map(len, choices)) - _MOST_MADE_WHOLE)
        for row in itertools.islice(itertools.product(*choices), _MOST_MADE_WHOLE):
            if row not in rows and len(rows) >= MOST_ROWS:
                more += 1
                continue
            rows.setdefault(row)
            for stage in (hole.stage,) if hole.stage else stages or ("",):
                emptied.setdefault((row, stage), at)  # the first filter counts
    holes = {cell: at for cell, at in emptied.items() if cell not in cells}
    return Grid(
        axes=axes,
        stages=stages,
        rows=tuple(sorted(rows)),
        jobs={cell: tuple(found) for cell, found in cells.items()},
        holes=holes,
        filters=tuple(filters),
        counts=Counter(holes.values()),
        more=more,
    )
