"""What filters took out of a sweep, as a plan keeps it: bounded, and plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from autoexp_tui.model.specs import Hole, Scalar
from autoexp_tui.sweep.expand import Expansion
from autoexp_tui.sweep.points import NOT_OVERRIDES, DeferredFilter, plain_key, stage_of

MOST_HOLES: Final = 2000
"""Kept with a plan: it is read whole by every command that takes a manifest."""
_MOST_TEXT: Final = 200
"""Characters of one value."""


def holes_of(
    expansion: Expansion, dropped: Mapping[int, DeferredFilter]
) -> tuple[tuple[Hole, ...], int]:
    """The holes of a sweep, and how many more there are than are kept.

    `dropped`: positions of points that a filter took after composing.
    """
    found = list(_holes(expansion, dropped))
    more = max(0, len(found) - MOST_HOLES) + expansion.forgotten
    return tuple(found[:MOST_HOLES]), more


def _holes(
    expansion: Expansion, dropped: Mapping[int, DeferredFilter]
) -> Iterable[Hole]:
    for one in expansion.removed:
        yield _hole(one.parameters, one.filter, one.where)
    for at, mark in sorted(dropped.items()):
        yield _hole(expansion.points[at].parameters, mark.text, mark.where)


def _hole(parameters: Mapping[str, object], text: str, where: str) -> Hole:
    kept: dict[str, Scalar] = {}
    for key, value in parameters.items():
        if plain_key(key) in NOT_OVERRIDES:
            continue
        if isinstance(value, str):
            kept[plain_key(key)] = value[:_MOST_TEXT]
        elif isinstance(value, bool | int | float) or value is None:
            kept[plain_key(key)] = value
    return Hole(parameters=kept, stage=stage_of(parameters), filter=text, where=where)
