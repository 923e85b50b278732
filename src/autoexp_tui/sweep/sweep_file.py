"""The whole `sweep:` as written: its root node, and what only the root may hold.

`grids` and `derived_jobs` are sugar; they end here, as nodes and as derivations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.sweep.findings import raise_if_any
from autoexp_tui.sweep.node_reader import NodeReader
from autoexp_tui.sweep.points import Axis, plain_key, stages_named
from autoexp_tui.sweep.schema import (
    BODIES,
    Groups,
    Node,
    Parameters,
    Params,
    shown,
)
from autoexp_tui.text.did_you_mean import did_you_mean

MAX_POINTS: Final = 1_000_000
"""Points of one sweep, unless `max_points` says otherwise."""
_VALUES_A_POINT: Final = 20
"""Values that a point may hold, where there are as many points as may be."""
_MOST_DIGITS: Final = 33
"""Digits of a count that are written out."""
_ROOT_KEYS: Final = frozenset(
    {
        *("type", *BODIES, "grids", "derived_jobs"),
        *("defaults", "base_values", "filter", "name"),
        *("list_composition", "max_points"),
    }
)
_DERIVED_KEYS: Final = frozenset(
    {
        *("name", "for_each_base_job", "aux", "parameter_overrides"),
        *("start_conditions", "cancel_conditions", "start_condition_cmd"),
    }
)
_CONDITION_KEYS: Final = (
    "start_conditions",
    "cancel_conditions",
    "start_condition_cmd",
)


@dataclass(frozen=True)
class DerivedJob:
    """What `derived_jobs` adds to every base job, or once."""

    name: str
    parameters: Parameters
    for_each: bool


@dataclass(frozen=True)
class Sweep:
    """A sweep that was read without a finding but of filters."""

    root: Node
    accumulate: frozenset[str]
    """Plain keys whose values add up over groups, as lists."""
    max_points: int
    derived: tuple[DerivedJob, ...] = ()
    problems: tuple[Problem, ...] = ()
    """What is wrong with filters."""

    @property
    def count(self) -> int:
        """Jobs before filters."""
        each = sum(job.for_each for job in self.derived)
        return self.root.count * (1 + each) + len(self.derived) - each

    @property
    def cells(self) -> int:
        """Values that the jobs hold together, at most."""
        each = sum(self.root.cells for job in self.derived if job.for_each)
        own = sum(
            len(job.parameters) * (self.root.count if job.for_each else 1)
            for job in self.derived
        )
        return self.root.cells + each + own

    @property
    def derived_axis(self) -> Axis:
        """The axis on which a base job and its derived ones lie."""
        keys = {plain_key(key) for job in self.derived for key in job.parameters}
        return Axis("derived_jobs", carries=frozenset(keys))


def read_sweep(raw: object, where: str = "sweep") -> Sweep:
    """The sweep that `raw` (a mapping, or None) describes.

    Raises:
        SweepRefused: with every finding, if one is of more than a filter.
    """
    reader = NodeReader()
    found = {} if raw is None else reader.mapping(raw, where)
    reader.check_keys(found, _ROOT_KEYS, where)
    sweep = Sweep(
        _root(reader, found, where),
        _accumulated(
            reader, found.get("list_composition"), f"{where}.list_composition"
        ),
        _bound(reader, found.get("max_points"), f"{where}.max_points"),
        _derived(reader, found.get("derived_jobs"), f"{where}.derived_jobs"),
    )
    reader.problems += _never_set(sweep, f"{where}.list_composition")
    reader.problems += _too_many(sweep, where)
    if len(reader.problems) > len(reader.of_filters):
        raise_if_any(reader.problems)
    return replace(sweep, problems=tuple(reader.of_filters))


def _never_set(sweep: Sweep, where: str) -> Iterator[Problem]:
    """Keys that are to add up, and that nothing sets: most likely misspelled."""
    derived = (job.parameters for job in sweep.derived)
    keys = sweep.root.keys.union(*(map(plain_key, row) for row in derived))
    for key in sorted(sweep.accumulate - keys):
        hint = did_you_mean(key, sorted(keys), "keys")
        yield Problem(f"names `{key}`, which no point sets", where, hint=hint)


def _too_many(sweep: Sweep, where: str) -> Iterator[Problem]:
    """Points are counted, with those made on the way, before the first is made."""
    hint = "drop values or pair them with `type: zip`; sweep.max_points raises it"
    most, bound = max(sweep.count, sweep.root.most), sweep.max_points
    if most > bound:
        message = f"makes {_counted(most)} points; the bound is {bound:,}"
        yield Problem(message, where=where, hint=hint)
    elif sweep.cells > bound * _VALUES_A_POINT:
        message = (
            f"makes {sweep.count:,} points that hold {_counted(sweep.cells)} values; "
            f"the bound is {bound * _VALUES_A_POINT:,}"
        )
        hint = f"what all points share belongs into the config, not the sweep; {hint}"
        yield Problem(message, where=where, hint=hint)


def _counted(number: int) -> str:
    """A number; of one that nobody would read, the size."""
    digits = int(number.bit_length() * math.log10(2)) + 1
    return f"{number:,}" if digits <= _MOST_DIGITS else f"about 10^{digits - 1}"


def _root(reader: NodeReader, found: Parameters, where: str) -> Node:
    defaults = {
        **reader.parameters(found.get("base_values"), f"{where}.base_values"),
        **reader.parameters(found.get("defaults"), f"{where}.defaults"),
    }
    kept = reader.filter(found.get("filter"), f"{where}.filter")
    bodies = [key for key in (*BODIES, "grids") if key in found]
    if len(bodies) > 1:
        hint = "nest them: groups: [{params: ...}, {configs: ...}]"
        reader.note(where, f"has {' and '.join(bodies)} side by side", hint)
    empty = Groups((), crossed=True)
    if not bodies:
        return Node(where, empty, defaults, kept)
    if bodies[0] == "grids":
        return Node(where, _grids(reader, found["grids"], where), defaults, kept)
    return Node(where, reader.body(found, bodies[0], where), defaults, kept)


def _grids(reader: NodeReader, raw: object, where: str) -> Groups:
    nodes = []
    for at, grid in enumerate(reader.sequence(raw, f"{where}.grids")):
        place = f"{where}.grids.{at}"
        values = {
            key: tuple(value) if isinstance(value, list | tuple) else (value,)
            for key, value in reader.keyed(grid, place).items()
        }
        reader.check_values(values, place)
        held = {key: found[0] for key, found in values.items() if len(found) == 1}
        tried = {key: found for key, found in values.items() if len(found) != 1}
        nodes.append(Node(place, Params(tried, paired=False), held))
    return Groups(tuple(nodes), crossed=False)


def _accumulated(reader: NodeReader, raw: object, where: str) -> frozenset[str]:
    return frozenset(plain_key(str(key)) for key in reader.sequence(raw, where))


def _bound(reader: NodeReader, raw: object, where: str) -> int:
    if raw is None:
        return MAX_POINTS
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 1:
        hint = "a whole number above 0; leave it out for 1,000,000"
        reader.note(where, f"is {shown(repr(raw))}, not a number of points", hint)
        return MAX_POINTS
    return raw


# ------------------------------------------------------------------ derived jobs
def _derived(reader: NodeReader, raw: object, where: str) -> tuple[DerivedJob, ...]:
    jobs = [
        _derived_job(reader, entry, f"{where}.{at}")
        for at, entry in enumerate(reader.sequence(raw, where))
    ]
    names = [job.name for job in jobs]
    for name in sorted({name for name in names if name and names.count(name) > 1}):
        hint = "the name is the job's stage, and the end of its name"
        reader.note(where, f"has two entries named `{name}`", hint)
    return tuple(jobs)


def _derived_job(reader: NodeReader, raw: object, where: str) -> DerivedJob:
    found = reader.mapping(raw, where)
    reader.check_keys(found, _DERIVED_KEYS, where)
    name = found.get("name")
    if not isinstance(name, str) or not name:
        reader.note(where, "has no name", "name: cooldown")
        name = ""
    for_each = found.get("for_each_base_job", True)
    if not isinstance(for_each, bool):
        hint = "true: one for every job of the sweep; false: one in all"
        message = f"is {shown(repr(for_each))}, not true or false"
        reader.note(f"{where}.for_each_base_job", message, hint)
    return DerivedJob(
        name, _derived_parameters(reader, found, name, where), for_each is not False
    )


def _derived_parameters(
    reader: NodeReader, found: Parameters, name: str, where: str
) -> Parameters:
    key = f"{where}.parameter_overrides"
    given = dict(reader.parameters(found.get("parameter_overrides"), key))
    aux = reader.parameters(found.get("aux"), f"{where}.aux")
    if aux:
        below = given.get("aux")
        given["aux"] = {**aux, **(below if isinstance(below, Mapping) else {})}
    given |= {key: found[key] for key in _CONDITION_KEYS if key in found}
    return given if stages_named(given) else {"stage": name, **given}
