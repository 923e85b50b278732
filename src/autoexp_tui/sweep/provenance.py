"""From which entries of a sweep its jobs come, and what filters took out of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from autoexp_tui.model.specs import Hole, Scalar
from autoexp_tui.sweep.expand import Expansion
from autoexp_tui.sweep.families import label_point
from autoexp_tui.sweep.points import (
    NOT_OVERRIDES,
    DeferredFilter,
    SweepPoint,
    find_stage,
    plain_key,
)

MOST_HOLES: Final = 2000
"""Kept with a plan: it is read whole by every command that takes a manifest."""
_MOST_TEXT: Final = 200
"""Characters of one value."""

Entries: TypeAlias = Mapping[str, int]
"""Address of a choice, below `sweep` (`groups.0.params.optim.lr`, `groups.1.configs`)
-> the number of what was chosen there. Grids have the addresses of the groups that they
stand for; at `derived_jobs`, 0 is the base job."""
Origins: TypeAlias = Mapping[str, Sequence[Entries]]
"""A job, as findings call it -> what it chose; several chose, if they share a name."""


def list_entries(point: SweepPoint) -> Entries:
    """What a point chose, at each place of the sweep where it had a choice."""
    return {one.axis.address: one.position for one in point.coordinates}


def find_origins(
    points: Iterable[SweepPoint],
    names: Mapping[int, str],
    wanted: frozenset[str],
) -> Origins:
    """The origins of the `wanted` jobs.

    `names`: position of a point -> the name of the job, of those that have got one.
    """
    found: dict[str, list[Entries]] = {}
    unnamed = wanted.difference(names.values())
    for at, point in enumerate(points if wanted else ()):
        labels = {names.get(at, "")} & wanted
        if unnamed:
            labels |= {label_point(point)} & unnamed
        for label in labels:
            found.setdefault(label, []).append(list_entries(point))
    return found


def list_holes(
    expansion: Expansion, dropped: Mapping[int, DeferredFilter]
) -> tuple[tuple[Hole, ...], int]:
    """The holes of a sweep, and how many more there are than are kept.

    `dropped`: positions of points that a filter took after composing.
    """
    taken = [(one.parameters, one.filter, one.where) for one in expansion.removed]
    taken += (
        (expansion.points[at].parameters, mark.text, mark.where)
        for at, mark in sorted(dropped.items())
    )
    more = max(0, len(taken) - MOST_HOLES) + expansion.forgotten
    return tuple(_build_hole(*one) for one in taken[:MOST_HOLES]), more


def _build_hole(parameters: Mapping[str, object], text: str, where: str) -> Hole:
    """A hole with plain values alone, of bounded length."""
    kept: dict[str, Scalar] = {}
    for key, value in parameters.items():
        if plain_key(key) in NOT_OVERRIDES:
            continue
        if isinstance(value, str):
            kept[plain_key(key)] = value[:_MOST_TEXT]
        elif isinstance(value, bool | int | float) or value is None:
            kept[plain_key(key)] = value
    return Hole(parameters=kept, stage=find_stage(parameters), filter=text, where=where)
