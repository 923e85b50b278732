"""How a reference names another point, whether two points are siblings, where they lie.

A pattern (`stable`, `[lr=1e-3]`, `index=0`) is a row of conditions, all of which must
hold. Points are looked up by stage, by place and by value: in a sweep of thousands
nobody goes through all of them for each reference. What is looked up are candidates;
whether one is a sibling is asked of it, and which is meant is decided by `families`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
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
_MOST_SHAPES: Final = 64
"""Rows of axes by which points are looked up; of more, all points are gone through."""

_Shape: TypeAlias = tuple[str, ...]


# ---------------------------------------------------------------------------- patterns
INDEX = "index"
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
        wanted = tuple((_expand_key(key, known), value) for key, value in self.wanted)
        return Pattern(self.text, wanted)

    def fits(self, point: SweepPoint | RemovedPoint) -> bool:
        """Whether a point is what is wanted; an index is not looked at."""
        return all(
            point.stage == value
            if key == STAGE
            else key == INDEX or _is_at(point.parameters, key, self.words[key])
            for key, value in self.wanted
        )


def build_stage_pattern(stage: str) -> Pattern:
    """The pattern of a stage."""
    return Pattern(stage, ((STAGE, stage),))


def parse_pattern(text: str) -> Pattern:
    """The pattern that `text` writes.

    Raises:
        ValueError: it writes none.
    """
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    pairs = [_read_pair(part.strip()) for part in inner.split(",")]
    if not all(key and value for key, value in pairs):
        raise ValueError(f"`{text}` is no pattern: write a stage, or key=value")
    for key, value in pairs:
        if key == INDEX and not (value.isdecimal() and len(value) <= _MOST_DIGITS):
            raise ValueError("an index is a whole number: 0 is the first job's")
    return Pattern(text, tuple(pairs))


def _read_pair(text: str) -> tuple[str, str]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        return STAGE, key
    return (STAGE if key in STAGE_KEYS else key), value


def _expand_key(key: str, known: Collection[str]) -> str:
    if key in {STAGE, INDEX} or key in known:
        return key
    ends = [name for name in known if name.endswith(f".{key}")]
    return ends[0] if len(ends) == 1 else key


def _is_at(parameters: Mapping[str, object], key: str, words: Set[str]) -> bool:
    """Whether the parameter is there, and has a value of these words."""
    spellings = (name for name in parameters if plain_key(name) == key)
    return any(format_word(parameters[name]) in words for name in spellings)


# -------------------------------------------------------------------------- looking up
@dataclass(frozen=True, slots=True)
class _Row:
    """How points of one shape lie beside those of another."""

    places: Sequence[int]
    """Which coordinates of a point that asks have to agree."""
    labels: Sequence[int]
    """Which of them choose, on another axis, what the points of the row choose too."""
    found: Mapping[object, Sequence[int]]
    """By what has to agree: the points of the row."""


class Lookup:
    """The points of one sweep, by what references may ask of them."""

    def __init__(self, points: Sequence[SweepPoint]) -> None:
        self._points = points
        self.by_stage: dict[str, list[int]] = {}
        for at, point in enumerate(points):
            self.by_stage.setdefault(point.stage, []).append(at)
        self._fitting: dict[Pattern, Sequence[int]] = {}
        self._by_value: dict[str, dict[str, list[int]]] = {}
        self._rows: dict[tuple[object, ...], _Row] = {}

    def fitting(self, wanted: Pattern) -> Sequence[int]:
        """The positions of all points that fit; an index is not looked at."""
        if wanted not in self._fitting:
            candidates = self._find_candidates(wanted)
            if len(wanted.wanted) > 1 or wanted.stage is None:
                fits = (at for at in candidates if wanted.fits(self._points[at]))
                candidates = list(fits)
            self._fitting[wanted] = candidates
        return self._fitting[wanted]

    def _find_candidates(self, wanted: Pattern) -> Sequence[int]:
        rows = [
            self.by_stage.get(text, ())
            if key == STAGE
            else self._find_with(key, wanted.words[key])
            for key, text in wanted.wanted
            if key != INDEX
        ]
        return min(rows, key=len) if rows else range(len(self._points))

    def _find_with(self, key: str, words: Set[str]) -> Sequence[int]:
        """Points that set a key to something of these words."""
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

    def beside(
        self, keys: frozenset[str], stage: str | None, current: int
    ) -> Sequence[int]:
        """Points that may be siblings: at the same place on all axes that are shared.

        Axes that carry one of `keys` apart: on these siblings may differ. `stage`:
        only those of it; None: of all.
        """
        if len(self._shapes) > _MOST_SHAPES:
            every = range(len(self._points))
            return every if stage is None else self.by_stage.get(stage, ())
        rows = (
            self._find_in_row(keys, stage, current, shape) for shape in self._shapes
        )
        return sorted(chain.from_iterable(rows))

    def _find_in_row(
        self, keys: frozenset[str], stage: str | None, current: int, shape: _Shape
    ) -> Sequence[int]:
        mine = self._find_shape(current)
        known = (keys, stage, mine, shape)
        if known not in self._rows:
            self._rows[known] = self._build_row(keys, stage, current, shape)
        row = self._rows[known]
        here = self._list_agreeing(current, row.places, row.labels)
        return row.found.get(here, ())

    def _build_row(
        self, keys: frozenset[str], stage: str | None, current: int, shape: _Shape
    ) -> _Row:
        mine = self._find_shape(current)
        shared = [one for one in mine if one in shape and not keys & self._carried[one]]
        own = self._find_labels(current, set(shape))
        first = self._shapes[shape][0]
        theirs = {
            label: at
            for label, at in self._find_labels(first, set(mine)).items()
            if label in own and not keys & self._carried[shape[at]]
        }
        places = [shape.index(one) for one in shared]
        found: dict[object, list[int]] = {}
        for at in self._shapes[shape]:
            if stage in {None, self._points[at].stage}:
                here = self._list_agreeing(at, places, list(theirs.values()))
                found.setdefault(here, []).append(at)
        return _Row(
            [mine.index(one) for one in shared], [own[label] for label in theirs], found
        )

    def _find_labels(self, at: int, but: set[str]) -> Mapping[str, int]:
        """Parameters that a point chooses on other axes -> the number of the axis."""
        return {
            c.axis.label: number
            for number, c in enumerate(self._points[at].coordinates)
            if c.axis.label and c.axis.address not in but
        }

    def _list_agreeing(
        self, at: int, places: Sequence[int], labels: Sequence[int]
    ) -> tuple[object, ...]:
        coordinates = self._points[at].coordinates
        return (
            *(coordinates[number].position for number in places),
            *(_make_hashable(coordinates[number].value) for number in labels),
        )

    def _find_shape(self, at: int) -> _Shape:
        return tuple(c.axis.address for c in self._points[at].coordinates)

    @cached_property
    def _shapes(self) -> Mapping[_Shape, Sequence[int]]:
        """The axes on the way to a point -> the points that have these."""
        found: dict[_Shape, list[int]] = {}
        for at in range(len(self._points)):
            found.setdefault(self._find_shape(at), []).append(at)
        return found

    @cached_property
    def _carried(self) -> Mapping[str, frozenset[str]]:
        """Address of an axis -> every key that it carries."""
        axes = {c.axis for point in self._points for c in point.coordinates}
        found: dict[str, frozenset[str]] = {}
        for axis in axes:
            found[axis.address] = found.get(axis.address, frozenset()) | axis.carries
        return found


def _make_hashable(value: object) -> Hashable:
    """The same for equal values; for all that cannot be looked up, too."""
    try:
        hash(value)
    except TypeError:
        return "..."
    return value


# --------------------------------------------------------------------------- comparing
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
        above = [c for c in around if _is_below(coordinate, c)]
        if not above:
            key.append((coordinate.axis.address, coordinate.position))
        elif coordinate.axis.label in above[-1].axis.common:
            key.append((coordinate.axis.label, repr(coordinate.value)))
        elif above[-1].own_stages:
            key.append((coordinate.axis.address, coordinate.position))
    return tuple(key)


def _is_below(coordinate: Coordinate, other: Coordinate) -> bool:
    return coordinate.axis.address.startswith(f"{other.axis.address}.")


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
    """Whether two points differ on no axis but those that lead to what is wanted.

    `keys` and `words` are those of the pattern that wants it.
    """
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
    return not _is_label_different(apart, theirs_at.values(), keys)


def _is_label_different(
    mine: Mapping[str, object], others: Iterable[Coordinate], keys: frozenset[str]
) -> bool:
    """Whether a parameter that two points choose on different axes differs."""
    return any(
        c.axis.label and mine.get(c.axis.label, c.value) != c.value
        for c in others
        if not keys & c.axis.carries
    )


def count_differences(point: SweepPoint, other: SweepPoint) -> int:
    """On how many axes two points do not agree."""
    mine = {c.axis.address: c.position for c in point.coordinates}
    theirs = {c.axis.address: c.position for c in other.coordinates}
    return sum(
        mine.get(a, -1) != theirs.get(a, -1) for a in mine.keys() | theirs.keys()
    )
