"""Who belongs together: the families of a sweep, and how siblings are found.

By position, not by equal parameters: stages carry keys of their own, so that two
siblings seldom share all parameters, but they lie at the same coordinates everywhere
except where the stage is chosen. Points made by hand have no coordinates; for them
the keys that both share must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final, TypeAlias

from autoexp_tui.plan.names import spell
from autoexp_tui.plan.near import did_you_mean, listed
from autoexp_tui.plan.patterns import INDEX, Pattern, of_stage, parse_pattern
from autoexp_tui.plan.points import (
    NOT_OVERRIDES,
    NOTES,
    STAGE,
    Coordinate,
    RemovedPoint,
    SweepPoint,
    plain_key,
)

_STAGE_ALONE: Final = frozenset({STAGE})
_MOST_SHOWN: Final = 6
_MOST_SHAPES: Final = 64
"""Rows of axes by which points are looked up; of more, all points are gone through."""
_MOST_EXPLAINED: Final = 50
"""Failures of one pattern that are looked into; the rest share the last hint."""
_MOST_PATTERNS: Final = 100
"""Patterns that find nothing for which it is looked why: it takes all points each."""


class UnusableJob(Exception):
    """A job that was asked for has faults of its own; they are told there."""


class UndecidedJob(UnusableJob):
    """Which job is meant hangs on a filter that nobody can read."""


_Shape: TypeAlias = tuple[str, ...]


@dataclass(eq=False)
class SiblingNotFound(ValueError):
    """No point, or more than one, is meant by a reference."""

    message: str
    hint: str = ""
    asker: str = ""
    """The point that asked."""

    def __str__(self) -> str:
        asked = f"{self.message}, for {self.asker}" if self.asker else self.message
        return f"{asked}\n  {self.hint}" if self.hint else asked


def find_sibling(
    pattern: str, points: Sequence[SweepPoint], current_index: int
) -> tuple[int, SweepPoint]:
    """The sibling of `points[current_index]` that `pattern` names, and its position.

    Raises:
        SiblingNotFound: a ValueError that says what there is instead.
    """
    at = Families(points).find(pattern, current_index)
    return at, points[at]


class Families:
    """The points of one sweep, indexed by stage and family."""

    def __init__(
        self,
        points: Sequence[SweepPoint],
        removed: Sequence[RemovedPoint] = (),
        doubted: Collection[int] = (),
    ) -> None:
        """`removed`: what filters took, to explain what cannot be found; `doubted`:
        positions of points that a filter which nobody can read may be meant to take.
        """
        self.points = points
        self._doubted = frozenset(doubted)
        self._removed = removed
        self._patterns: dict[str, Pattern] = {}
        self._hints: dict[str, list[str]] = {}
        self._by_index = _numbering(points)
        self._keys = [_family_key(point) for point in points]
        order = {key: f"f{at}" for at, key in enumerate(dict.fromkeys(self._keys))}
        self._names = [order[key] for key in self._keys]
        self._fits_some: dict[str, bool] = {}
        self._beside: dict[tuple[object, ...], dict[object, list[int]]] = {}
        self._by_stage: dict[str, list[int]] = {}
        self._by_place: dict[tuple[str, object], list[int]] = {}
        for at, point in enumerate(points):
            self._by_stage.setdefault(point.stage, []).append(at)
            place = (point.stage, self._keys[at])
            self._by_place.setdefault(place, []).append(at)

    # ---------------------------------------------------------------- questions
    def family(self, at: int) -> str:
        """The name of the family of the point at a position: `f0`, `f1` ..."""
        return self._names[at]

    @property
    def stages(self) -> Sequence[str]:
        """All stages, in order of first appearance."""
        return [stage for stage in self._by_stage if stage]

    def all_of(self, pattern: str) -> Sequence[int]:
        """The positions of all points that fit a pattern, in index order.

        Raises:
            SiblingNotFound: there is none.
        """
        wanted = self._pattern(pattern)
        found = [at for at, point in self._of(wanted) if wanted.fits(point)]
        if wanted.index is not None:
            at_index = self._by_index.get(wanted.index)
            found = [at for at in found if at == at_index]
        if found:
            return found
        gone = [point for point in self._removed if wanted.fits(point)]
        stage = wanted.stage or ""
        hint = _removal(gone) if gone else did_you_mean(stage, self.stages, "stages")
        raise SiblingNotFound(f"No job found matching pattern: {wanted.text}", hint)

    def knows(self, pattern: str) -> bool:
        """Whether some point fits a pattern."""
        if pattern not in self._fits_some:
            self._fits_some[pattern] = self._has_one(pattern)
        return self._fits_some[pattern]

    def _has_one(self, pattern: str) -> bool:
        try:
            wanted = self._pattern(pattern)
        except SiblingNotFound:
            return False
        if wanted.index is not None:
            return wanted.index in self._by_index
        return any(wanted.fits(point) for _, point in self._of(wanted))

    def _of(self, wanted: Pattern) -> Iterable[tuple[int, SweepPoint]]:
        """The points that may fit, with their positions."""
        if wanted.stage is None:
            return enumerate(self.points)
        positions = self._by_stage.get(wanted.stage, ())
        return ((at, self.points[at]) for at in positions)

    def find(self, pattern: str, current: int) -> int:
        """The position of the sibling that `pattern` names.

        Raises:
            SiblingNotFound: there is none, or there are several.
            UndecidedJob: there are several, and there may be fewer.
        """
        wanted = self._pattern(pattern)
        if wanted.index is not None:
            return self._at_index(wanted, current)
        found = self._near(wanted, current) or self._anywhere(wanted, current)
        if not found:
            raise self._none(wanted, current)
        if len(found) > 1 and not self._doubted.isdisjoint((current, *found)):
            raise UndecidedJob
        if len(found) > 1:
            raise self._several(wanted, current, found)
        return found[0]

    def base(self, current: int, referred: Callable[[], Iterable[int]] = tuple) -> int:
        """The position of the job that `{base}` means.

        A derived job's base; else the sibling that `_meta.parent_stage` names; else
        the only one in `referred()`, the siblings that the job names otherwise.

        Raises:
            SiblingNotFound: it has none, or nothing tells which.
        """
        point = self.points[current]
        if point.base is not None:
            return point.base
        self._check_base_is_there(point)
        notes = point.parameters.get("_meta")
        parent = notes.get("parent_stage") if isinstance(notes, Mapping) else None
        if parent is not None:
            return self.find(str(parent), current)
        others = sorted(set(referred()) - {current})
        if len(others) == 1:
            return others[0]
        raise SiblingNotFound(
            f"{self._called(current)} has no base",
            f"name it: _meta: {{parent_stage: ...}}; {listed(self.stages, 'stages')}",
        )

    # ------------------------------------------------------------------ finding
    def _pattern(self, text: str) -> Pattern:
        if text not in self._patterns:
            try:
                self._patterns[text] = parse_pattern(text).bound(self._known_keys)
            except ValueError as error:
                raise SiblingNotFound(_nothing(text), str(error)) from None
        return self._patterns[text]

    @cached_property
    def _known_keys(self) -> Sequence[str]:
        """The plain keys of all points."""
        shapes = {tuple(point.parameters) for point in self.points}
        return sorted({plain_key(key) for shape in shapes for key in shape})

    def _at_index(self, wanted: Pattern, current: int) -> int:
        at = self._by_index.get(wanted.index if wanted.index is not None else -1)
        if at is None or not wanted.fits(self.points[at]):
            last = max(self._by_index, default=0)
            hint = f"indices go from 0 to {last}"
            raise SiblingNotFound(_nothing(wanted.text), hint)
        if at == current:
            hint = f"{self._called(current)} is that job itself"
            raise SiblingNotFound(_nothing(wanted.text), hint)
        return at

    def _near(self, wanted: Pattern, current: int) -> Sequence[int]:
        """Siblings within the family."""
        if wanted.stage is None:
            return ()
        place = (wanted.stage, self._keys[current])
        return self._best(wanted, current, self._by_place.get(place, ()))

    def _anywhere(self, wanted: Pattern, current: int) -> Sequence[int]:
        if len(self._shapes) > _MOST_SHAPES:
            return self._best(wanted, current, (at for at, _ in self._of(wanted)))
        rows = (self._alongside(wanted, current, shape) for shape in self._shapes)
        return self._best(wanted, current, sorted(chain.from_iterable(rows)))

    def _alongside(self, wanted: Pattern, current: int, shape: _Shape) -> Sequence[int]:
        """Points of a shape that may be meant: at the same place on all shared axes.

        Axes that carry a key of the pattern apart: on these siblings may differ.
        """
        mine = self._shape_of(current)
        known = (wanted.stage, wanted.keys, mine, shape)
        shared = [
            address
            for address in mine
            if address in shape and not wanted.keys & self._carried[address]
        ]
        if known not in self._beside:
            found: dict[object, list[int]] = {}
            for at in self._shapes[shape]:
                if wanted.stage in {None, self.points[at].stage}:
                    found.setdefault(self._place(at, shared), []).append(at)
            self._beside[known] = found
        return self._beside[known].get(self._place(current, shared), ())

    def _shape_of(self, at: int) -> _Shape:
        return tuple(c.axis.address for c in self.points[at].coordinates)

    def _place(self, at: int, addresses: Sequence[str]) -> tuple[int, ...]:
        positions = {c.axis.address: c.position for c in self.points[at].coordinates}
        return tuple(positions[address] for address in addresses)

    @cached_property
    def _shapes(self) -> Mapping[_Shape, Sequence[int]]:
        """The axes on the way to a point -> the points that have these."""
        found: dict[_Shape, list[int]] = {}
        for at in range(len(self.points)):
            found.setdefault(self._shape_of(at), []).append(at)
        return found

    @cached_property
    def _carried(self) -> Mapping[str, frozenset[str]]:
        """Address of an axis -> every key that it carries."""
        axes = {c.axis for point in self.points for c in point.coordinates}
        found: dict[str, frozenset[str]] = {}
        for axis in axes:
            found[axis.address] = found.get(axis.address, frozenset()) | axis.carries
        return found

    def _best(
        self, wanted: Pattern, current: int, candidates: Iterable[int]
    ) -> Sequence[int]:
        """Those that fit and are siblings; of several, the ones that differ least."""
        point = self.points[current]
        fitting = [
            at
            for at in candidates
            if at != current
            and wanted.fits(self.points[at])
            and _are_siblings(point, self.points[at], wanted)
        ]
        if len(fitting) < 2:
            return fitting
        differing = [_differences(point, self.points[at]) for at in fitting]
        least = min(differing)
        return [at for at, n in zip(fitting, differing, strict=True) if n == least]

    # ----------------------------------------------------------------- failures
    def _check_base_is_there(self, point: SweepPoint) -> None:
        if (
            not point.coordinates
            or point.coordinates[-1].axis.address != "derived_jobs"
        ):
            return
        place = repr(
            (*point.coordinates[:-1], Coordinate(point.coordinates[-1].axis, 0))
        )
        gone = [r for r in self._removed if repr(r.coordinates) == place]
        if gone:
            message = f"the base of {self._called(point.index)} is not in the sweep"
            raise SiblingNotFound(message, _removal(gone))

    def _none(self, wanted: Pattern, current: int) -> SiblingNotFound:
        if wanted.text not in self._hints and len(self._hints) >= _MOST_PATTERNS:
            hint = listed(self.stages, "stages")
            return SiblingNotFound(_nothing(wanted.text), hint, self._called(current))
        hints = self._hints.setdefault(wanted.text, [])
        if len(hints) < _MOST_EXPLAINED:
            hints.append(self._why_none(wanted, self.points[current], current))
        return SiblingNotFound(_nothing(wanted.text), hints[-1], self._called(current))

    def _why_none(self, wanted: Pattern, point: SweepPoint, current: int) -> str:
        gone = [
            removed
            for removed in self._removed
            if wanted.fits(removed) and _are_siblings(point, removed, wanted)
        ]
        return _removal(gone) if gone else self._candidates(wanted, current)

    def _candidates(self, wanted: Pattern, current: int) -> str:
        if [at for at, p in self._of(wanted) if wanted.fits(p)] == [current]:
            return "it is that job itself: its own values need no `sibling`, as {name}"
        if wanted.stage is None:
            word = next(iter(wanted.keys - {INDEX}))
            if word not in self._known_keys:
                return did_you_mean(word, self._known_keys, "keys")
            return f"no job beside it has that {word}"
        near = [
            at
            for at in range(len(self.points))
            if at != current
            and (stage := self.points[at].stage)
            and _are_siblings(self.points[current], self.points[at], of_stage(stage))
        ]
        stages = list(dict.fromkeys(self.points[at].stage for at in near))
        hint = did_you_mean(wanted.stage, stages, "siblings")
        if wanted.stage in self._by_stage:
            return f"jobs of that stage lie in other families; {hint}"
        return hint

    def _several(
        self, wanted: Pattern, current: int, found: Sequence[int]
    ) -> SiblingNotFound:
        shown = "; ".join(self._called(at) for at in found[:_MOST_SHOWN])
        rest = len(found) - _MOST_SHOWN
        more = f" and {rest} more" if rest > 0 else ""
        return SiblingNotFound(
            f"{len(found)} siblings match the pattern: {wanted.text}",
            f"they are {shown}{more}; name one: {{sibling[key=value]...}} or "
            f"{{sibling.index=N...}}; or all: {{all.{wanted.stage or 'STAGE'}...}}",
            self._called(current),
        )

    def _called(self, at: int) -> str:
        return called(self.points[at])


def called(point: SweepPoint) -> str:
    """A point, told apart from others before it has a name: `job 3 (stage=x, lr=1)`."""
    labels = {c.axis.label: spell(c.value) for c in point.coordinates if c.axis.label}
    chosen = [
        f"{label.rpartition('.')[2]}={value}"
        for label, value in labels.items()
        if label not in {STAGE, NOTES}
    ]
    stage = [f"stage={point.stage}"] if point.stage else []
    shown = ", ".join([*stage, *chosen])
    return f"job {point.index} ({shown})" if shown else f"job {point.index}"


def _nothing(pattern: str) -> str:
    return f"No sibling found matching pattern: {pattern}"


def _removal(gone: Sequence[RemovedPoint]) -> str:
    return f"it was removed by the filter `{gone[0].filter}` at {gone[0].where}"


# ------------------------------------------------------------------- comparing
def _numbering(points: Sequence[SweepPoint]) -> Mapping[int, int]:
    """Index -> position; points made by hand may all have the index 0."""
    numbers = {point.index: at for at, point in enumerate(points)}
    return (
        numbers if len(numbers) == len(points) else dict(enumerate(range(len(points))))
    )


def _family_key(point: SweepPoint) -> object:
    """Where a point lies, stage apart."""
    if not point.coordinates:
        shared = _comparable(point)
        return tuple(sorted((key, repr(value)) for key, value in shared.items()))
    key: list[tuple[str, object]] = []
    around: list[Coordinate] = []
    for coordinate in point.coordinates:
        if coordinate.own_stages or coordinate.carries(_STAGE_ALONE):
            around.append(coordinate)
            continue
        above = [c for c in around if _lies_below(coordinate, c)]
        if not above:
            key.append((coordinate.axis.address, coordinate.position))
        elif coordinate.axis.label in above[-1].axis.common:
            key.append((coordinate.axis.label, repr(coordinate.value)))
        elif above[-1].own_stages:
            key.append((coordinate.axis.address, coordinate.position))
    return tuple(key)


def _lies_below(coordinate: Coordinate, other: Coordinate) -> bool:
    return coordinate.axis.address.startswith(f"{other.axis.address}.")


def _comparable(point: SweepPoint) -> Mapping[str, object]:
    """The parameters that tell families of points made by hand apart."""
    return {
        plain_key(key): value
        for key, value in point.parameters.items()
        if key not in NOT_OVERRIDES and key != "_index"
    }


def _are_siblings(
    point: SweepPoint, other: SweepPoint | RemovedPoint, wanted: Pattern
) -> bool:
    """Whether two points differ on no axis but those that lead to what is wanted."""
    keys = wanted.keys
    if not point.coordinates or not other.coordinates:
        mine, theirs = _comparable(point), _comparable(_as_point(other))
        return all(mine[k] == theirs[k] for k in (mine.keys() & theirs.keys()) - keys)
    theirs_at = {c.axis.address: c for c in other.coordinates}
    words = wanted.words
    apart: dict[str, object] = {}
    for mine_at in point.coordinates:
        found = theirs_at.pop(mine_at.axis.address, None)
        if found is None:
            apart[mine_at.axis.label] = mine_at.value
        elif found.position != mine_at.position and not mine_at.may_lead_to(words):
            return False
    return not _labels_differ(apart, theirs_at.values(), keys)


def _labels_differ(
    mine: Mapping[str, object], others: Iterable[Coordinate], keys: frozenset[str]
) -> bool:
    """Whether a parameter that two points choose on different axes differs."""
    return any(
        c.axis.label and mine.get(c.axis.label, c.value) != c.value
        for c in others
        if not keys & c.axis.carries
    )


def _as_point(other: SweepPoint | RemovedPoint) -> SweepPoint:
    if isinstance(other, SweepPoint):
        return other
    return SweepPoint(parameters=other.parameters)


def _differences(point: SweepPoint, other: SweepPoint) -> int:
    """On how many axes two points do not agree."""
    mine = {c.axis.address: c.position for c in point.coordinates}
    theirs = {c.axis.address: c.position for c in other.coordinates}
    return sum(
        mine.get(a, -1) != theirs.get(a, -1) for a in mine.keys() | theirs.keys()
    )
