"""Makes the points of a sweep: products, lists, filters and derived jobs, and the
holes that filters leave.

Values stay as written: references and `${...}` are resolved much later, for each job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import Hole, Scalar
from autoexp_tui.sweep.expression import ExpressionError
from autoexp_tui.sweep.filters import PointFilter, is_deferred, list_names
from autoexp_tui.sweep.points import (
    MOST_OF_A_FILTER,
    NOT_OVERRIDES,
    NOTES,
    STAGE,
    Axis,
    Coordinate,
    Removed,
    SweepFilter,
    SweepPoint,
    SweepRefused,
    find_stage,
    format_in_name,
    format_word,
    plain_key,
    shorten_text,
)
from autoexp_tui.sweep.schema import (
    Choices,
    Node,
    Parameters,
    Params,
    Product,
    Sweep,
    join_sets,
    list_sets,
    list_words_by_key,
    read_sweep,
)


@dataclass(frozen=True, slots=True)
class Expansion:
    points: tuple[SweepPoint, ...]
    removed: tuple[Removed, ...] = ()


def expand_sweep(sweep: Mapping[str, object] | None) -> list[SweepPoint]:
    """The points of the `sweep` subtree in order; raises SweepRefused, a ValueError."""
    return list(expand(sweep).points)


def expand(sweep: Mapping[str, object] | None) -> Expansion:
    """The points of `sweep`, and those that filters removed; raises SweepRefused."""
    try:
        read = read_sweep(sweep)
    except RecursionError:
        message = "is nested too deeply, or holds itself"
        raise SweepRefused((Problem(message, where="sweep"),)) from None
    expander = _Expander(read.accumulated)
    made = expander.expand_body(read.root, "", {})
    if read.derived:
        made = _add_derived(read, made)
    if read.accumulated:
        made = [
            replace(one, parameters=_merge([one.parameters], read.accumulated))
            for one in made
        ]
    kept = expander.filter_made(read.root, made, {})
    if expander.problems:
        raise SweepRefused(tuple(expander.problems))
    numbers = {one.index: at for at, one in enumerate(kept)}  # of bases
    return Expansion(
        points=tuple(
            replace(
                one,
                index=at,
                base=one.base if one.base is None else numbers.get(one.base),
            )
            for at, one in enumerate(kept)
        ),
        removed=tuple(expander.removed),
    )


@dataclass(slots=True)
class _Expander:
    _accumulated: frozenset[str]
    removed: list[Removed] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def expand_node(
        self, node: Node, address: str, above: Parameters
    ) -> Sequence[SweepPoint]:
        """The fragments of a node, filtered; `above`: the defaults around it."""
        return self.filter_made(node, self.expand_body(node, address, above), above)

    def expand_body(
        self, node: Node, address: str, above: Parameters
    ) -> Sequence[SweepPoint]:
        """The fragments of a node with its defaults under them."""
        below = _merge([above, node.defaults], self._accumulated)
        match node.body:
            case Params():
                made = _expand_params(node.body, f"{address}params")
            case Choices():
                place = f"{address}{node.body.name}"
                made = self._expand_choices(node.body, place, below)
            case Product(parts=nodes):
                place = f"{address}groups"
                parts = [
                    self.expand_node(one, f"{place}.{at}.", below)
                    for at, one in enumerate(nodes)
                ]
                made = [
                    SweepPoint(
                        -1,
                        _merge([one.parameters for one in row], self._accumulated),
                        tuple(chain.from_iterable(one.coordinates for one in row)),
                        tuple(chain.from_iterable(one.deferred for one in row)),
                    )
                    for row in product(*parts)
                ]
        if not node.defaults and not self._accumulated:
            return made
        return [
            replace(
                one,
                parameters=_merge([node.defaults, one.parameters], self._accumulated),
            )
            for one in made
        ]

    def _expand_choices(
        self, body: Choices, address: str, above: Parameters
    ) -> Sequence[SweepPoint]:
        made: list[SweepPoint] = []
        choices = _build_choices(address, body.parts)
        for at, (part, choice) in enumerate(zip(body.parts, choices, strict=True)):
            inner: Sequence[SweepPoint] = ()
            if isinstance(part, Node):
                inner = self.expand_node(part, f"{address}.{at}.", above)
            else:
                inner = [SweepPoint(-1, part)]
            made += (
                replace(one, coordinates=(choice, *one.coordinates)) for one in inner
            )
        return made

    def filter_made(
        self, node: Node, made: Sequence[SweepPoint], above: Parameters
    ) -> Sequence[SweepPoint]:
        where = f"{node.where}.filter"
        if node.filter is True or not made:
            return made
        if isinstance(node.filter, str) and is_deferred(node.filter):
            mark = SweepFilter(node.filter, where)
            return [
                replace(fragment, deferred=(*fragment.deferred, mark))
                for fragment in made
            ]
        try:
            return self._apply_filter(str(node.filter), where, made, above)
        except ExpressionError as error:
            message = f"`{shorten_text(str(node.filter), MOST_OF_A_FILTER)}`: {error}"
            self.problems.append(Problem(message, where=where))
            return made

    def _apply_filter(
        self, text: str, where: str, made: Sequence[SweepPoint], above: Parameters
    ) -> Sequence[SweepPoint]:
        rows = (fragment.parameters for fragment in made)
        test = PointFilter(text, list_names((above, *rows)))
        kept: list[SweepPoint] = []
        for fragment in made:
            own = fragment.parameters
            # Merged, not laid over: `++lr` and `_stage` cover the defaults' spelling.
            seen = _merge([above, own], self._accumulated) if above else own
            if _is_kept(test, seen):
                kept.append(fragment)
            else:
                self.removed.append((fragment, SweepFilter(text, where)))
        return kept


def _is_kept(test: PointFilter, parameters: Parameters) -> bool:
    try:
        return test.holds(parameters)
    except ExpressionError as error:
        values = ", ".join(
            f"{name}={shorten_text(format_in_name(value))}"
            for name, value in test.read(parameters).items()
            if value is not None
        )
        raise ExpressionError(
            f"{error}, for {values}" if values else str(error)
        ) from None


def _expand_params(body: Params, address: str) -> Sequence[SweepPoint]:
    """A fragment for each combination, or pair, of values."""
    several = (
        (key, values)
        for key, values in body.values.items()
        if body.paired and len(set(map(format_word, values))) > 1
    )
    # A zip chooses these as one: what differs in one differs in all.
    together = frozenset(list_words_by_key(several))
    chosen = []
    for key, values in body.values.items():
        carries = frozenset(list_words_by_key([(key, values)]))
        axis = Axis(f"{address}.{key}", plain_key(key), carries | together)
        chosen.append([Coordinate(axis, at, value) for at, value in enumerate(values)])
    rows: Iterable[tuple[Coordinate, ...]] = product(*chosen)
    if body.paired and chosen:
        rows = zip(*chosen, strict=True)
    keys = tuple(body.values)
    return [
        SweepPoint(-1, dict(zip(keys, (c.value for c in row), strict=True)), tuple(row))
        for row in rows
    ]


def _build_choices(
    address: str, entries: Sequence[Parameters | Node]
) -> Sequence[Coordinate]:
    each = [list_sets(entry) for entry in entries]
    every = join_sets(each)
    axis = Axis(address, carries=frozenset(every.words), common=every.labels)
    stages = [one.words.get(STAGE, frozenset()) for one in each]
    shared = Counter(chain.from_iterable(stages))
    return [
        Coordinate(
            axis,
            at,
            varies={key: one.words[key] for key in one.varied},
            own_stages=STAGE in one.varied
            and all(shared[stage] == 1 for stage in stages[at]),
        )
        for at, one in enumerate(each)
    ]


def _merge(
    rows: Sequence[Parameters], accumulated: frozenset[str] = frozenset()
) -> dict[str, object]:
    """The parameters of all rows; a later one wins, notes and `accumulated` add up
    (these are lists, also where one row alone sets them)."""
    merged: dict[str, object] = {}
    spellings: dict[str, str] = {}
    for row in rows:
        if merged and find_stage(row):  # a later row says the stage anew
            for key in [key for key in merged if plain_key(key) == STAGE]:
                del merged[key]
            notes = merged.get(NOTES)
            if isinstance(notes, Mapping) and STAGE in notes:
                merged[NOTES] = {key: notes[key] for key in notes if key != STAGE}
        for key, value in row.items():
            plain = plain_key(key)
            before = merged.pop(spellings.get(plain, key), None)
            if plain in accumulated:
                value = [*_to_list(before), *_to_list(value)]
            elif key == NOTES and isinstance(before, Mapping | None):
                value = {**(before or {}), **_to_mapping(value)}
            spellings[plain] = key
            merged[key] = value
    return merged


def _to_list(value: object) -> Sequence[object]:
    if isinstance(value, list | tuple):
        return value
    return [] if value is None else [value]


def _to_mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _add_derived(sweep: Sweep, bases: Sequence[SweepPoint]) -> Sequence[SweepPoint]:
    """Each base job followed by those derived from it, then those made once."""
    keys = {plain_key(key) for job in sweep.derived for key in job.parameters}
    axis = Axis("derived_jobs", carries=frozenset(keys))  # of a base and what follows
    derived = [(job, Coordinate(axis, at)) for at, job in enumerate(sweep.derived, 1)]
    made: list[SweepPoint] = []
    for serial, base in enumerate(bases):
        place = (*base.coordinates, Coordinate(axis, 0))
        made.append(replace(base, coordinates=place, index=serial))
        kept = {
            key: value
            for key, value in base.parameters.items()
            if key == "aux" or key not in NOT_OVERRIDES
        }
        for job, choice in derived:
            if not job.for_each:
                continue
            name = job.name.replace("{", "{{").replace("}", "}}")
            own = {"project.name": f"{{base.name}}_{name}", **job.parameters}
            if "aux" in own:
                own["aux"] = {**_to_mapping(kept.get("aux")), **_to_mapping(own["aux"])}
            place = (*base.coordinates, choice)
            merged = _merge([kept, own])
            made.append(SweepPoint(-1, merged, place, base.deferred, serial))
    made += [
        SweepPoint(-1, job.parameters, (at,)) for job, at in derived if not job.for_each
    ]
    return made


MOST_HOLES: Final = 2000
"""Kept with a plan: it is read whole by every command that takes a manifest."""
_MOST_TEXT: Final = 200


def list_holes(
    expansion: Expansion, dropped: Mapping[int, SweepFilter]
) -> tuple[tuple[Hole, ...], int]:
    """The holes (`dropped`: after composing), and how many more there are than kept."""
    taken = list(expansion.removed)
    taken += ((expansion.points[at], mark) for at, mark in sorted(dropped.items()))
    holes = tuple(_build_hole(*one) for one in taken[:MOST_HOLES])
    return holes, len(taken) - len(holes)


def _build_hole(point: SweepPoint, mark: SweepFilter) -> Hole:
    kept: dict[str, Scalar] = {}
    for key, value in point.parameters.items():
        if plain_key(key) in NOT_OVERRIDES:
            continue
        if isinstance(value, str):
            kept[plain_key(key)] = value[:_MOST_TEXT]
        elif isinstance(value, bool | int | float | None):
            kept[plain_key(key)] = value
    return Hole(parameters=kept, stage=point.stage, filter=mark.text, where=mark.where)
