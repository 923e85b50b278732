"""Who belongs together: the families of a sweep, and how siblings are found.

By position, not by equal parameters: stages carry keys of their own, so that two
siblings seldom share all parameters, but they lie at the same coordinates everywhere
except where the stage is chosen. Points made by hand have no coordinates; for them
the keys that both share must be equal.

A pattern (`stable`, `[lr=1e-3]`, `index=0`) is a row of conditions, all of which must
hold. Points are looked up by what they choose: in a sweep of thousands nobody goes
through all of them for each reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

from autoexp_tui.sweep.points import (
    NOT_OVERRIDES,
    NOTES,
    STAGE,
    STAGE_KEYS,
    Coordinate,
    Entries,
    Origins,
    Removed,
    SweepFilter,
    SweepPoint,
    format_in_name,
    format_word,
    list_words,
    plain_key,
)
from autoexp_tui.text.did_you_mean import did_you_mean, list_names

_STAGE_ALONE: Final = frozenset({STAGE})
_Names: TypeAlias = tuple[str, ...]
_Row: TypeAlias = dict[tuple[object, ...], list[int]]
"""What points choose by some names -> the points."""

INDEX = "index"
_MOST_DIGITS = 9
"""Of an index; a longer one is no job's."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """What the other point must be."""

    text: str
    wanted: Mapping[str, str]
    """Key -> value as written; `stage` and `index` are keys like others."""
    words: Mapping[str, frozenset[str]]
    """Key -> the words of all values that are written there."""
    keys: frozenset[str]
    stage: str | None
    index: int | None

    def fits(self, point: SweepPoint) -> bool:
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
            for key, value in self.wanted.items()
        )


def parse_pattern(text: str, known: Collection[str] = ()) -> Pattern:
    """The pattern that `text` writes, every key that is the end of one `known` key
    spelled out; ValueError: it writes none."""
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    wanted: dict[str, str] = {}
    for part in inner.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            key, value = STAGE, key
        if not key or not value:
            raise ValueError(f"`{text}` is no pattern: write a stage, or key=value")
        if key == INDEX and not (value.isdecimal() and len(value) <= _MOST_DIGITS):
            raise ValueError("an index is a whole number: 0 is the first job's")
        key = STAGE if key in STAGE_KEYS else key
        ends = [name for name in known if name.endswith(f".{key}")]
        is_end = key not in {STAGE, INDEX, *known} and len(ends) == 1
        wanted[ends[0] if is_end else key] = value
    return Pattern(
        text,
        wanted,
        {key: list_words(value) for key, value in wanted.items()},
        frozenset(wanted),
        wanted.get(STAGE),
        int(wanted[INDEX]) if INDEX in wanted else None,
    )


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


def _list_comparable(point: SweepPoint) -> Mapping[str, object]:
    """The parameters that tell families of points made by hand apart."""
    return {
        plain_key(key): value
        for key, value in point.parameters.items()
        if key not in NOT_OVERRIDES and key != "_index"
    }


def is_sibling(
    point: SweepPoint,
    other: SweepPoint,
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


_MOST_SHOWN: Final = 6


class UnusableJob(Exception):
    """A job that was asked for has faults of its own; they are told there."""


@dataclass(eq=False)
class SiblingNotFound(ValueError):
    """No point, or more than one, is meant by a reference."""

    message: str
    hint: str = ""
    asker: str = ""

    def __str__(self) -> str:
        asked = f"{self.message}, for {self.asker}" if self.asker else self.message
        return f"{asked}\n  {self.hint}" if self.hint else asked


def find_sibling(
    pattern: str, points: Sequence[SweepPoint], current_index: int
) -> tuple[int, SweepPoint]:
    """The sibling that `pattern` names, and its position; raises SiblingNotFound."""
    at = Families(points).find(pattern, current_index)
    return at, points[at]


class Families:
    """The points of one sweep, by what references may ask of them."""

    def __init__(
        self,
        points: Sequence[SweepPoint],
        removed: Sequence[Removed] = (),
    ) -> None:
        """`removed`: what filters took, to explain what cannot be found."""
        self.points = points
        self._removed = removed
        self._patterns: dict[str, Pattern] = {}
        shapes = {tuple(point.parameters) for point in points}
        self._known_keys = sorted({plain_key(key) for shape in shapes for key in shape})
        self._fitting: dict[Pattern, Sequence[int]] = {}
        self._rows: dict[tuple[Pattern, _Names], dict[_Names, _Row]] = {}
        keys = [find_family_key(point) for point in points]
        order = {key: f"f{at}" for at, key in enumerate(dict.fromkeys(keys))}
        self._names = [order[key] for key in keys]
        self._by_stage: dict[str, list[int]] = {}
        for at, point in enumerate(points):
            self._by_stage.setdefault(point.stage, []).append(at)
        self.stages: Set[str] = {one: 0 for one in self._by_stage if one}.keys()
        """All stages, in order of first appearance."""
        numbers = {point.index: at for at, point in enumerate(points)}
        if len(numbers) < len(points):  # those made by hand may all have the index 0
            numbers = dict(enumerate(range(len(points))))
        self._by_index: Mapping[int, int] = numbers

    def family(self, at: int) -> str:
        """The name of the family of the point at a position: `f0`, `f1` ..."""
        return self._names[at]

    def _parse_pattern(self, text: str) -> Pattern:
        if text not in self._patterns:
            try:
                self._patterns[text] = parse_pattern(text, self._known_keys)
            except ValueError as error:
                raise SiblingNotFound(_format_nothing(text), str(error)) from None
        return self._patterns[text]

    def _list_fitting(self, wanted: Pattern) -> Sequence[int]:
        """The positions of all points that are what is wanted, in order."""
        if wanted.index is not None:
            at = self._by_index.get(wanted.index)
            return [at] if at is not None and wanted.fits(self.points[at]) else []
        if wanted not in self._fitting:
            among: Sequence[int] = range(len(self.points))
            if wanted.stage is not None:
                among = self._by_stage.get(wanted.stage, ())
            found = [at for at in among if wanted.fits(self.points[at])]
            self._fitting[wanted] = found
        return self._fitting[wanted]

    def _list_beside(self, wanted: Pattern, current: int) -> Sequence[int]:
        """Points that fit and choose the same, axes with keys of `wanted` apart."""
        mine = self._list_choices(current, wanted.keys)
        rows = self._rows.setdefault((wanted, tuple(mine)), {})
        for at in () if rows else self._list_fitting(wanted):
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
        coordinates = self.points[at].coordinates
        often = Counter(c.axis.label or c.axis.address for c in coordinates)
        return {
            name: format_word(c.value) if c.axis.label else c.position
            for c in coordinates
            if often[name := c.axis.label or c.axis.address] == 1
            and not keys & c.axis.carries
        }

    def knows(self, pattern: str) -> bool:
        try:
            return bool(self._list_fitting(self._parse_pattern(pattern)))
        except SiblingNotFound:
            return False

    def all_of(self, pattern: str) -> Sequence[int]:
        """The positions of all points that fit, in order; SiblingNotFound: of none."""
        wanted = self._parse_pattern(pattern)
        if found := self._list_fitting(wanted):
            return found
        gone = (mark for one, mark in self._removed if wanted.fits(one))
        hint = did_you_mean(wanted.stage or "", self.stages, "stages")
        hint = next(map(_explain_removal, gone), hint)
        raise SiblingNotFound(f"No job found matching pattern: {wanted.text}", hint)

    def find(self, pattern: str, current: int) -> int:
        """The position of the sibling that `pattern` names; SiblingNotFound."""
        wanted = self._parse_pattern(pattern)
        found: Sequence[int]
        if wanted.index is not None:
            found = [at for at in self._list_fitting(wanted) if at != current]
        else:
            found = self._compare(wanted, current, self._list_beside(wanted, current))
        if not found:
            hint = self._explain_none(wanted, current)
            asker = label_point(self.points[current])
            raise SiblingNotFound(_format_nothing(wanted.text), hint, asker)
        if len(found) > 1:
            raise self._build_several(wanted, current, found)
        return found[0]

    def base(self, current: int, referred: Callable[[], Iterable[int]] = tuple) -> int:
        """The position of the job that `{base}` means.

        A derived job's base; else the sibling that `_meta.parent_stage` names; else
        the only one in `referred()`, the siblings that the job names otherwise; else
        SiblingNotFound.
        """
        point = self.points[current]
        if point.base is not None:
            return point.base
        *before, last = point.coordinates or (None,)
        if before and last and last.axis.address == "derived_jobs" and last.position:
            message = f"the base of {label_point(point)} is not in the sweep"
            raise SiblingNotFound(message, "a filter removed it")
        notes = point.parameters.get("_meta")
        parent = notes.get("parent_stage") if isinstance(notes, Mapping) else None
        if parent is not None:
            return self.find(str(parent), current)
        others = sorted(set(referred()) - {current})
        if len(others) == 1:
            return others[0]
        stages = list_names(self.stages, "stages")
        raise SiblingNotFound(
            f"{label_point(point)} has no base",
            f"name it: _meta: {{parent_stage: ...}}; {stages}",
        )

    def _compare(
        self, wanted: Pattern, current: int, candidates: Sequence[int]
    ) -> Sequence[int]:
        """The siblings that differ least."""
        point, keys, words = self.points[current], wanted.keys, wanted.words
        fitting = [
            (count_differences(point, self.points[at]), at)
            for at in candidates
            if at != current and is_sibling(point, self.points[at], keys, words)
        ]
        least = min(fitting, default=(0, 0))[0]
        return [at for number, at in fitting if number == least]

    def _explain_none(self, wanted: Pattern, current: int) -> str:
        point, keys, words = self.points[current], wanted.keys, wanted.words
        if list(self._list_fitting(wanted)) == [current]:
            return "it is that job itself: its own values need no `sibling`, as {name}"
        if wanted.index is not None:
            return f"indices go from 0 to {max(self._by_index, default=0)}"
        for removed, mark in self._removed:
            if wanted.fits(removed) and is_sibling(point, removed, keys, words):
                return _explain_removal(mark)
        unknown = sorted(keys - {STAGE, *self._known_keys})
        if unknown:
            return did_you_mean(unknown[0], self._known_keys, "keys")
        if wanted.stage is not None and wanted.stage not in self.stages:
            return did_you_mean(wanted.stage, self.stages, "stages")
        return "no job that fits lies beside it"

    def _build_several(
        self, wanted: Pattern, current: int, found: Sequence[int]
    ) -> SiblingNotFound:
        shown = "; ".join(label_point(self.points[at]) for at in found[:_MOST_SHOWN])
        rest = len(found) - _MOST_SHOWN
        more = f" and {rest} more" if rest > 0 else ""
        return SiblingNotFound(
            f"{len(found)} siblings match the pattern: {wanted.text}",
            f"they are {shown}{more}; name one: {{sibling[key=value]...}} or "
            f"{{sibling.index=N...}}; or all: {{all.{wanted.stage or 'STAGE'}...}}",
            label_point(self.points[current]),
        )


def label_point(point: SweepPoint) -> str:
    """A point, told apart from others before it has a name: `job 3 (stage=x, lr=1)`."""
    labels = {
        c.axis.label: format_in_name(c.value) for c in point.coordinates if c.axis.label
    }
    chosen = [
        f"{label.rpartition('.')[2]}={value}"
        for label, value in labels.items()
        if label not in {STAGE, NOTES}
    ]
    stage = [f"stage={point.stage}"] if point.stage else []
    shown = ", ".join([*stage, *chosen])
    return f"job {point.index} ({shown})" if shown else f"job {point.index}"


def _format_nothing(pattern: str) -> str:
    return f"No sibling found matching pattern: {pattern}"


def _explain_removal(mark: SweepFilter) -> str:
    return f"it was removed by {mark}"


def find_origins(
    points: Iterable[SweepPoint], names: Mapping[int, str], wanted: Set[str]
) -> Origins:
    """The origins of the `wanted` jobs; `names`: position -> name, where known."""
    found: dict[str, Entries] = {}
    for at, point in enumerate(points if wanted else ()):
        for label in {names.get(at, ""), label_point(point)} & wanted:
            found.setdefault(label, point.entries)
    return found
