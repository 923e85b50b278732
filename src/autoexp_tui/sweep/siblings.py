"""How a reference names another point, whether two points are siblings, where they lie.

A pattern (`stable`, `[lr=1e-3]`, `index=0`) is a row of conditions, all of which must
hold. Points are looked up by stage, by place and by value: in a sweep of thousands
nobody goes through all of them for each reference. What is looked up are candidates;
whether one is a sibling is asked of it, and which is meant is decided by `families`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final, TypeAlias

from autoexp_tui.sweep.points import (
    NOT_OVERRIDES,
    STAGE,
    STAGE_KEYS,
    Coordinate,
    RemovedPoint,
    SweepPoint,
    format_word,
    list_words,
    plain_key,
)

_STAGE_ALONE: Final = frozenset({STAGE})
_Names: TypeAlias = tuple[str, ...]
_Row: TypeAlias = dict[tuple[object, ...], list[int]]
"""What points choose by some names -> the points."""

INDEX = "index"
_MOST_SHAPES: Final = 64
"""Ways to points that are told apart; of more, all points are looked at."""
_MOST_DIGITS = 9
"""Of an index; a longer one is no job's."""


@dataclass(frozen=True)
class Pattern:
    """What the other point must be."""

    text: str
    wanted: tuple[tuple[str, str], ...]
    """(key, value as written) pairs; `stage` and `index` are keys like others."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys it names."""
        return frozenset(key for key, _ in self.wanted)

    @cached_property
    def words(self) -> Mapping[str, frozenset[str]]:
        """Each key it names -> the words of all values that are written there."""
        return {key: list_words(value) for key, value in self.wanted}

    @property
    def stage(self) -> str | None:
        """The stage it names, if it names one."""
        return dict(self.wanted).get(STAGE)

    @property
    def index(self) -> int | None:
        """The index it names, if it names one."""
        text = dict(self.wanted).get(INDEX, "")
        return int(text) if text.isdecimal() else None

    def bound(self, known: Collection[str]) -> Pattern:
        """The pattern with every key that is the end of one `known` key spelled out."""
        wanted = []
        for key, value in self.wanted:
            ends = [name for name in known if name.endswith(f".{key}")]
            is_end = key not in {STAGE, INDEX, *known} and len(ends) == 1
            wanted.append((ends[0] if is_end else key, value))
        return Pattern(self.text, tuple(wanted))

    def fits(self, point: SweepPoint | RemovedPoint) -> bool:
        """Whether a point is what is wanted; an index is not looked at."""
        return all(
            point.stage == value
            if key == STAGE
            else key == INDEX
            or any(
                format_word(value) in self.words[key]
                for name, value in point.parameters.items()
                if plain_key(name) == key
            )
            for key, value in self.wanted
        )


def build_stage_pattern(stage: str) -> Pattern:
    """The pattern of a stage."""
    return Pattern(stage, ((STAGE, stage),))


def parse_pattern(text: str) -> Pattern:
    """The pattern that `text` writes; ValueError: it writes none."""
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    pairs = []
    for part in inner.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            key, value = STAGE, key
        pairs.append((STAGE if key in STAGE_KEYS else key, value))
    if not all(key and value for key, value in pairs):
        raise ValueError(f"`{text}` is no pattern: write a stage, or key=value")
    for key, value in pairs:
        if key == INDEX and not (value.isdecimal() and len(value) <= _MOST_DIGITS):
            raise ValueError("an index is a whole number: 0 is the first job's")
    return Pattern(text, tuple(pairs))


class Lookup:
    """The points of one sweep, by what references may ask of them."""

    def __init__(self, points: Sequence[SweepPoint]) -> None:
        self._points = points
        self.by_stage: dict[str, list[int]] = {}
        for at, point in enumerate(points):
            self.by_stage.setdefault(point.stage, []).append(at)
        self._fitting: dict[Pattern, Sequence[int]] = {}
        self._by_value: dict[str, dict[str, list[int]]] = {}
        self._rows: dict[tuple[Pattern, _Names], dict[_Names, _Row]] = {}

    def fitting(self, wanted: Pattern) -> Sequence[int]:
        """The positions of all points that fit; an index is not looked at."""
        if wanted not in self._fitting:
            rows = [
                self.by_stage.get(text, ())
                if key == STAGE
                else self._find_with(key, wanted.words[key])
                for key, text in wanted.wanted
                if key != INDEX
            ]
            found = min(rows, key=len) if rows else range(len(self._points))
            if len(wanted.wanted) > 1 or wanted.stage is None:
                found = [at for at in found if wanted.fits(self._points[at])]
            self._fitting[wanted] = found
        return self._fitting[wanted]

    def _find_with(self, key: str, words: Set[str]) -> Sequence[int]:
        if key not in self._by_value:
            values: dict[str, list[int]] = {}
            for at, value in self._points_by_key.get(key, ()):
                values.setdefault(format_word(value), []).append(at)
            self._by_value[key] = values
        rows = (self._by_value[key].get(one, ()) for one in words)
        return sorted(set(chain.from_iterable(rows)))

    @cached_property
    def _points_by_key(self) -> Mapping[str, Sequence[tuple[int, object]]]:
        """Plain key -> the points that set it, and to what."""
        found: dict[str, list[tuple[int, object]]] = {}
        for at, point in enumerate(self._points):
            for key, value in point.parameters.items():
                found.setdefault(plain_key(key), []).append((at, value))
        return found

    @cached_property
    def _shapes(self) -> Set[tuple[str, ...]]:
        """The axes on the way to points."""
        return {tuple(c.axis.address for c in p.coordinates) for p in self._points}

    def beside(self, wanted: Pattern, current: int) -> Sequence[int]:
        """Points that fit and choose the same, axes with keys of `wanted` apart."""
        if len(self._shapes) > _MOST_SHAPES:
            return self.fitting(wanted)
        mine = self._list_choices(current, wanted.keys)
        rows = self._rows.setdefault((wanted, tuple(mine)), {})
        for at in () if rows else self.fitting(wanted):
            theirs = self._list_choices(at, wanted.keys)
            shared = tuple(name for name in theirs if name in mine)
            here = tuple(theirs[name] for name in shared)
            rows.setdefault(shared, {}).setdefault(here, []).append(at)
        found = (
            row.get(tuple(mine[name] for name in shared), ())
            for shared, row in rows.items()
        )
        return sorted(chain.from_iterable(found))

    def _list_choices(self, at: int, keys: frozenset[str]) -> Mapping[str, object]:
        """Parameter, or address -> what is chosen once; axes with `keys` apart."""
        coordinates = self._points[at].coordinates
        often = Counter(c.axis.label or c.axis.address for c in coordinates)
        return {
            name: _make_hashable(c.value) if c.axis.label else c.position
            for c in coordinates
            if often[name := c.axis.label or c.axis.address] == 1
            and not keys & c.axis.carries
        }


def _make_hashable(value: object) -> Hashable:
    """The same for equal values; for all that cannot be looked up, too."""
    try:
        hash(value)
    except TypeError:
        return "..."
    return value


def find_family_key(point: SweepPoint) -> object:
    """Where a point lies, stage apart."""
    if not point.coordinates:
        shared = _list_comparable(point)
        return tuple(sorted((key, repr(value)) for key, value in shared.items()))
    key: list[tuple[str, object]] = []
    around: list[Coordinate] = []
    for coordinate in point.coordinates:
        if coordinate.own_stages or coordinate.carries(_STAGE_ALONE):
            around.append(coordinate)
            continue
        address = coordinate.axis.address
        above = [c for c in around if address.startswith(f"{c.axis.address}.")]
        if not above:
            key.append((coordinate.axis.address, coordinate.position))
        elif coordinate.axis.label in above[-1].axis.common:
            key.append((coordinate.axis.label, repr(coordinate.value)))
        elif above[-1].own_stages:
            key.append((coordinate.axis.address, coordinate.position))
    return tuple(key)


def _list_comparable(point: SweepPoint | RemovedPoint) -> Mapping[str, object]:
    """The parameters that tell families of points made by hand apart."""
    return {
        plain_key(key): value
        for key, value in point.parameters.items()
        if key not in NOT_OVERRIDES and key != "_index"
    }


def is_sibling(
    point: SweepPoint,
    other: SweepPoint | RemovedPoint,
    keys: frozenset[str],
    words: Mapping[str, frozenset[str]],
) -> bool:
    """Whether points differ on no axis but those that lead to a pattern's keys."""
    if not point.coordinates or not other.coordinates:
        mine, theirs = _list_comparable(point), _list_comparable(other)
        return all(mine[k] == theirs[k] for k in (mine.keys() & theirs.keys()) - keys)
    theirs_at = {c.axis.address: c for c in other.coordinates}
    apart: dict[str, object] = {}
    for mine_at in point.coordinates:
        found = theirs_at.pop(mine_at.axis.address, None)
        if found is None:
            apart[mine_at.axis.label] = mine_at.value
        elif found.position != mine_at.position and not mine_at.may_lead_to(words):
            return False
    return not any(  # of what they choose on different axes
        c.axis.label and apart.get(c.axis.label, c.value) != c.value
        for c in theirs_at.values()
        if not keys & c.axis.carries
    )


def count_differences(point: SweepPoint, other: SweepPoint) -> int:
    """On how many axes two points do not agree."""
    mine = {c.axis.address: c.position for c in point.coordinates}
    theirs = {c.axis.address: c.position for c in other.coordinates}
    return sum(
        mine.get(a, -1) != theirs.get(a, -1) for a in mine.keys() | theirs.keys()
    )
