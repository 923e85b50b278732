"""From which entries of a sweep its jobs come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from autoexp_tui.sweep.families import called
from autoexp_tui.sweep.points import SweepPoint

Entries: TypeAlias = Mapping[str, int]
"""Address of a choice, below `sweep` (`groups.0.params.optim.lr`, `groups.1.configs`)
-> the number of what was chosen there. Grids have the addresses of the groups that they
stand for; at `derived_jobs`, 0 is the base job."""
Origins: TypeAlias = Mapping[str, Sequence[Entries]]
"""A job, as findings call it -> what it chose; several chose, if they share a name."""


def entries_of(point: SweepPoint) -> Entries:
    """What a point chose, at each place of the sweep where it had a choice."""
    return {one.axis.address: one.position for one in point.coordinates}


def origins_of(
    points: Iterable[SweepPoint],
    names: Mapping[int, str],
    wanted: frozenset[str],
) -> Origins:
    """The origins of the `wanted` jobs.

    `names`: position of a point -> the name of the job, of those that have got one.
    """
    found: dict[str, list[Entries]] = {}
    unnamed = wanted.difference(names.values())
    for at, point in enumerate(points):
        labels = {names.get(at, "")} & wanted
        if unnamed:
            labels |= {called(point)} & unnamed
        for label in labels:
            found.setdefault(label, []).append(entries_of(point))
    return found
