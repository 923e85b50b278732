"""Who belongs together: the families of a sweep, and how siblings are found.

By position, not by equal parameters: stages carry keys of their own, so that two
siblings seldom share all parameters, but they lie at the same coordinates everywhere
except where the stage is chosen. Points made by hand have no coordinates; for them
the keys that both share must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from autoexp_tui.sweep.points import (
    NOTES,
    STAGE,
    Coordinate,
    Entries,
    Origins,
    RemovedPoint,
    SweepPoint,
    format_in_name,
    plain_key,
)
from autoexp_tui.sweep.siblings import (
    INDEX,
    Lookup,
    Pattern,
    count_differences,
    find_family_key,
    is_sibling,
    parse_pattern,
)
from autoexp_tui.text.did_you_mean import did_you_mean, list_names

_MOST_SHOWN: Final = 6
_FEW: Final = 16
"""Points that are compared one by one without a thought."""
_MOST_EXPLAINED: Final = 20
"""References that find nothing for which it is looked why: it takes all points each."""
_MOST_COMPARED: Final = 500_000
"""Points that are compared without finding one."""


class UnusableJob(Exception):
    """A job that was asked for has faults of its own; they are told there."""


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
    """The sibling that `pattern` names, and its position; raises SiblingNotFound."""
    at = Families(points).find(pattern, current_index)
    return at, points[at]


class Families:
    """The points of one sweep, indexed by stage and family."""

    def __init__(
        self,
        points: Sequence[SweepPoint],
        removed: Sequence[RemovedPoint] = (),
    ) -> None:
        """`removed`: what filters took, to explain what cannot be found."""
        self.points = points
        self._removed = removed
        self._patterns: dict[str, Pattern] = {}
        self._hints: dict[str, str] = {}
        self._explained = 0
        keys = [find_family_key(point) for point in points]
        order = {key: f"f{at}" for at, key in enumerate(dict.fromkeys(keys))}
        self._names = [order[key] for key in keys]
        self._lookup = Lookup(points)
        self._compared_in_vain = 0
        self._by_place: dict[tuple[str, str], list[int]] = {}
        for stage, positions in self._lookup.by_stage.items():
            for at in positions:
                self._by_place.setdefault((stage, self._names[at]), []).append(at)

    def family(self, at: int) -> str:
        """The name of the family of the point at a position: `f0`, `f1` ..."""
        return self._names[at]

    @cached_property
    def stages(self) -> Set[str]:
        """All stages, in order of first appearance."""
        return {stage: 0 for stage in self._lookup.by_stage if stage}.keys()

    def all_of(self, pattern: str) -> Sequence[int]:
        """The positions of all points that fit, in order; SiblingNotFound: of none."""
        wanted = self._parse_pattern(pattern)
        if found := self._list_fitting(wanted):
            return found
        gone = next((one for one in self._removed if wanted.fits(one)), None)
        hint = did_you_mean(wanted.stage or "", self.stages, "stages")
        hint = _explain_removal(gone) if gone else hint
        raise SiblingNotFound(f"No job found matching pattern: {wanted.text}", hint)

    @cached_property
    def _by_index(self) -> Mapping[int, int]:
        """Index -> position; points made by hand may all have the index 0."""
        numbers = {point.index: at for at, point in enumerate(self.points)}
        every = range(len(self.points))
        return numbers if len(numbers) == len(every) else {at: at for at in every}

    def _list_fitting(self, wanted: Pattern) -> Sequence[int]:
        if wanted.index is None:
            return self._lookup.fitting(wanted)
        at = self._by_index.get(wanted.index)
        return [at] if at is not None and wanted.fits(self.points[at]) else []

    def knows(self, pattern: str) -> bool:
        """Whether some point fits a pattern."""
        try:
            return bool(self._list_fitting(self._parse_pattern(pattern)))
        except SiblingNotFound:
            return False

    def find(self, pattern: str, current: int) -> int:
        """The position of the sibling that `pattern` names; SiblingNotFound."""
        wanted = self._parse_pattern(pattern)
        if wanted.index is not None:
            found = self._list_fitting(wanted)
            hint = f"{self._label(current)} is that job itself"
            if not found:
                hint = f"indices go from 0 to {max(self._by_index, default=0)}"
            if not found or found[0] == current:
                raise SiblingNotFound(_format_nothing(wanted.text), hint)
            return found[0]
        place = (wanted.stage or "", self._names[current])
        near = self._by_place.get(place, ()) if wanted.stage is not None else ()
        found = self._compare(wanted, current, near)
        if not found:
            fitting = self._lookup.fitting(wanted)
            if len(fitting) > _FEW:
                fitting = self._lookup.beside(wanted, current)
            found = self._compare(wanted, current, fitting)
        if not found:
            raise self._build_none(wanted, current)
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
        if last is not None and last.axis.address == "derived_jobs":
            place = (*before, Coordinate(last.axis, 0))
            if (gone := self._removed_at.get(repr(place))) is not None:
                message = f"the base of {self._label(current)} is not in the sweep"
                raise SiblingNotFound(message, _explain_removal(gone))
        notes = point.parameters.get("_meta")
        parent = notes.get("parent_stage") if isinstance(notes, Mapping) else None
        if parent is not None:
            return self.find(str(parent), current)
        others = sorted(set(referred()) - {current})
        if len(others) == 1:
            return others[0]
        stages = list_names(self.stages, "stages")
        raise SiblingNotFound(
            f"{self._label(current)} has no base",
            f"name it: _meta: {{parent_stage: ...}}; {stages}",
        )

    @cached_property
    def _removed_at(self) -> Mapping[str, RemovedPoint]:
        """A place in the sweep -> the point that a filter took there."""
        return {repr(one.coordinates): one for one in reversed(self._removed)}

    def _parse_pattern(self, text: str) -> Pattern:
        if text not in self._patterns:
            try:
                self._patterns[text] = parse_pattern(text).bound(self._known_keys)
            except ValueError as error:
                raise SiblingNotFound(_format_nothing(text), str(error)) from None
        return self._patterns[text]

    @cached_property
    def _known_keys(self) -> Sequence[str]:
        shapes = {tuple(point.parameters) for point in self.points}
        return sorted({plain_key(key) for shape in shapes for key in shape})

    def _compare(
        self, wanted: Pattern, current: int, candidates: Sequence[int]
    ) -> Sequence[int]:
        """The siblings that differ least; raises when too many were compared."""
        if len(candidates) > _FEW and self._compared_in_vain > _MOST_COMPARED:
            message = f"is not looked for: too many jobs find no one {wanted.text}"
            raise SiblingNotFound(message, "mend the references of those first")
        point, keys, words = self.points[current], wanted.keys, wanted.words
        fitting = [
            at
            for at in candidates
            if at != current
            and wanted.fits(self.points[at])
            and is_sibling(point, self.points[at], keys, words)
        ]
        differing = [count_differences(point, self.points[at]) for at in fitting]
        least = min(differing, default=0)
        found = [at for at, n in zip(fitting, differing, strict=True) if n == least]
        self._compared_in_vain += len(candidates) if len(found) != 1 else 0
        return found

    def _build_none(self, wanted: Pattern, current: int) -> SiblingNotFound:
        """Only of the first failures it is looked why: it takes all points each."""
        if self._explained < _MOST_EXPLAINED:
            self._explained += 1
            self._hints[wanted.text] = self._explain_none(wanted, current)
        hint = self._hints.get(wanted.text) or list_names(self.stages, "stages")
        return SiblingNotFound(_format_nothing(wanted.text), hint, self._label(current))

    def _explain_none(self, wanted: Pattern, current: int) -> str:
        point, keys, words = self.points[current], wanted.keys, wanted.words
        for removed in self._removed:
            if wanted.fits(removed) and is_sibling(point, removed, keys, words):
                return _explain_removal(removed)
        if list(self._lookup.fitting(wanted)) == [current]:
            return "it is that job itself: its own values need no `sibling`, as {name}"
        if wanted.stage is None:
            word = next(iter(wanted.keys - {INDEX}))
            if word not in self._known_keys:
                return did_you_mean(word, self._known_keys, "keys")
            return f"no job beside it has that {word}"
        if wanted.stage in self._lookup.by_stage:
            return "jobs of that stage lie in other families"
        return did_you_mean(wanted.stage, self.stages, "stages")

    def _build_several(
        self, wanted: Pattern, current: int, found: Sequence[int]
    ) -> SiblingNotFound:
        shown = "; ".join(self._label(at) for at in found[:_MOST_SHOWN])
        rest = len(found) - _MOST_SHOWN
        more = f" and {rest} more" if rest > 0 else ""
        return SiblingNotFound(
            f"{len(found)} siblings match the pattern: {wanted.text}",
            f"they are {shown}{more}; name one: {{sibling[key=value]...}} or "
            f"{{sibling.index=N...}}; or all: {{all.{wanted.stage or 'STAGE'}...}}",
            self._label(current),
        )

    def _label(self, at: int) -> str:
        return label_point(self.points[at])


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


def _explain_removal(gone: RemovedPoint) -> str:
    return f"it was removed by the filter `{gone.filter}` at {gone.where}"


def find_origins(
    points: Iterable[SweepPoint],
    names: Mapping[int, str],
    wanted: frozenset[str],
) -> Origins:
    """The origins of the `wanted` jobs; `names`: position -> name, where known."""
    found: dict[str, list[Entries]] = {}
    unnamed = wanted.difference(names.values())
    for at, point in enumerate(points if wanted else ()):
        labels = {names.get(at, "")} & wanted
        if unnamed:
            labels |= {label_point(point)} & unnamed
        for label in labels:
            found.setdefault(label, []).append(point.entries)
    return found
