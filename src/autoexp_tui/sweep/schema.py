"""A sweep as written, checked and typed: nodes with one body each.

What is static about a node is told here (how many points it makes, which keys it sets).
Every finding is gathered, with its place; what cannot be read is left out, so that the
rest is looked at too. `grids` and `derived_jobs` are sugar, and end here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from autoexp_tui.model.errors import Problem
from autoexp_tui.sweep.expression import ExpressionError
from autoexp_tui.sweep.filters import check_filter
from autoexp_tui.sweep.points import (
    A_KEY,
    MOST_OF_A_FILTER,
    NOT_OVERRIDES,
    NOTES,
    STAGE,
    STAGE_KEYS,
    SweepRefused,
    find_stage,
    format_word,
    is_key,
    list_stages_named,
    plain_key,
    shorten_text,
)
from autoexp_tui.text.did_you_mean import did_you_mean

BODIES: Final = ("params", "configs", "groups")

Parameters: TypeAlias = Mapping[str, object]


@dataclass(frozen=True)
class Params:
    """Values to try for each key, crossed or paired."""

    values: Mapping[str, tuple[object, ...]]
    paired: bool


@dataclass(frozen=True)
class Configs:
    """One point for each entry; an entry may be a node."""

    entries: tuple[Parameters | Node, ...]


@dataclass(frozen=True)
class Groups:
    """Several nodes, crossed or one after another; none make one point."""

    nodes: tuple[Node, ...]
    crossed: bool


Body: TypeAlias = Params | Configs | Groups


@dataclass(frozen=True)
class Node:
    """One node of a sweep."""

    where: str
    """The path, `sweep.groups.0`."""
    body: Body
    defaults: Parameters = field(default_factory=dict)
    filter: str | bool = True
    """An expression; True keeps all."""

    @cached_property
    def count(self) -> int:
        """How many points it makes, before filters."""
        match self.body:
            case Params(values=values, paired=paired):
                lengths = list(map(len, values.values()))
                return max(lengths, default=1) if paired else math.prod(lengths)
            case Configs(entries=entries):
                return sum(e.count if isinstance(e, Node) else 1 for e in entries)
            case Groups(nodes=nodes, crossed=crossed):
                counts = [node.count for node in nodes]
                return math.prod(counts) if crossed or not counts else sum(counts)

    @property
    def nodes(self) -> Sequence[Node]:
        """Those right below it."""
        match self.body:
            case Configs(entries=parts) | Groups(nodes=parts):
                return [part for part in parts if isinstance(part, Node)]
        return ()

    @cached_property
    def most(self) -> int:
        """The most points that are made at once on the way."""
        return max([self.count, *(node.most for node in self.nodes)])

    @cached_property
    def sets(self) -> Sets:
        """What its points set."""
        match self.body:
            case Params(values=values):
                own = Sets(list_words_by_key(values.items()))
                several = [one for one in values.items() if len(one[1]) > 1]
                varied = frozenset(list_words_by_key(several))
                labels = frozenset(values)
            case Configs(entries=parts) | Groups(nodes=parts):
                each = [list_sets(part) for part in parts]
                own = join_sets(each)
                varied, labels = frozenset(own.words), own.labels
                is_crossed = isinstance(self.body, Groups) and self.body.crossed
                if is_crossed or len(parts) < 2:
                    varied = frozenset().union(*(one.varied for one in each))
                if is_crossed:
                    labels = frozenset().union(*(one.labels for one in each))
        words = join_sets([own, list_sets(self.defaults)]).words
        return Sets(words, varied, labels)


@dataclass(frozen=True, slots=True)
class Sets:
    """What the points of a node, or one entry, set."""

    words: Mapping[str, frozenset[str]]
    """Plain key -> what it may be, as words; of ours only the stage has some."""
    varied: frozenset[str] = frozenset()
    """Keys that some axis below sets to several values."""
    labels: frozenset[str] = frozenset()
    """The parameters that axes below choose by value, on every way."""


def list_sets(entry: Parameters | Node) -> Sets:
    """What an entry sets."""
    if isinstance(entry, Node):
        return entry.sets
    return Sets(list_words_by_key((key, (value,)) for key, value in entry.items()))


def join_sets(parts: Sequence[Sets]) -> Sets:
    """What any of several parts sets, and the labels that all of them have."""
    found: dict[str, set[str]] = {}
    for part in parts:
        for key, words in part.words.items():
            found.setdefault(key, set()).update(words)
    labels = [part.labels for part in parts] or [frozenset()]
    joined = {key: frozenset(words) for key, words in found.items()}
    return Sets(joined, labels=frozenset.intersection(*labels))


def list_words_by_key(
    tried: Iterable[tuple[str, Iterable[object]]],
) -> dict[str, frozenset[str]]:
    """See `Sets.words`; notes that name a stage set the stage, too."""
    found: dict[str, set[str]] = {}
    for key, values in tried:
        plain = plain_key(key)
        words = found.setdefault(plain, set())
        if plain == NOTES:
            if stages := {find_stage({NOTES: value}) for value in values} - {""}:
                found.setdefault(STAGE, set()).update(stages)
        elif plain == STAGE or plain not in NOT_OVERRIDES:
            words.update(map(format_word, values))
    return {key: frozenset(words) for key, words in found.items()}


def find_empty_lists(node: Node, *, whole: bool = True) -> Iterator[str]:
    """The places of empty lists under a node: `sweep.groups.0.params.lr`.

    Not `whole`: those that take the rest of a product with them; an empty `configs`
    that stands alone, or in a list, takes nothing.
    """
    match node.body:
        case Params(values=values):
            yield from (
                f"{node.where}.params.{key}" for key in values if not values[key]
            )
        case Configs(entries=()) if whole:
            yield f"{node.where}.configs"
        case Groups(nodes=nodes, crossed=True) if not node.count:
            whole = whole or any(one.count for one in nodes)
    for part in node.nodes:
        yield from find_empty_lists(part, whole=whole)


MAX_POINTS: Final = 1_000_000
"""Points of one sweep, unless `max_points` says otherwise."""
_VALUES_A_POINT: Final = 20
"""On average, of as many points as there may be."""
_MOST_DIGITS: Final = 33
"""Digits of a count that are written out."""
_MOST_NAMES: Final = 40
"""Of a dotted key."""
_MOST_STAGES_SHOWN: Final = 4
"""Of a config that says several."""
_NODE_KEYS: Final = frozenset({"type", *BODIES, "defaults", "filter", "name"})
_ROOT_KEYS: Final = _NODE_KEYS | {
    *("grids", "derived_jobs", "base_values"),
    *("list_composition", "max_points"),
}
_CONDITION_KEYS: Final = (
    "start_conditions",
    "cancel_conditions",
    "start_condition_cmd",
)
_DERIVED_KEYS: Final = frozenset(
    {"name", "for_each_base_job", "aux", "parameter_overrides", *_CONDITION_KEYS}
)
_TYPES: Final = {
    "params": ("product", "zip"),
    "configs": ("list", "product"),
    "groups": ("product", "list"),
}
"""What `type` may say of each body; the first when it says nothing."""


@dataclass(frozen=True)
class DerivedJob:
    """What `derived_jobs` adds to every base job, or once."""

    name: str
    parameters: Parameters
    for_each: bool


@dataclass(frozen=True)
class Sweep:
    """A sweep that was read without a finding."""

    root: Node
    accumulated: frozenset[str]
    """Plain keys whose values add up over groups, as lists."""
    max_points: int
    derived: tuple[DerivedJob, ...] = ()

    @property
    def count(self) -> int:
        """Jobs before filters."""
        each = sum(job.for_each for job in self.derived)
        return self.root.count * (1 + each) + len(self.derived) - each


def read_sweep(raw: object, where: str = "sweep") -> Sweep:
    """The sweep that `raw` (a mapping, or None) describes; raises SweepRefused."""
    reader = _Reader()
    found = {} if raw is None else reader.read_mapping(raw, where)
    reader.check_keys(found, _ROOT_KEYS, where)
    place = f"{where}.list_composition"
    keys = reader.read_list(found.get("list_composition"), place)
    sweep = Sweep(
        reader.read_root(found, where),
        frozenset(plain_key(str(key)) for key in keys),
        reader.read_bound(found.get("max_points"), f"{where}.max_points"),
        reader.read_derived(found.get("derived_jobs"), f"{where}.derived_jobs"),
    )
    derived = (plain_key(key) for job in sweep.derived for key in job.parameters)
    known = sorted({*sweep.root.sets.words, *derived})
    for key in sorted(sweep.accumulated.difference(known)):
        hint = did_you_mean(key, known, "keys")
        reader.note(place, f"names `{key}`, which no point sets", hint)
    # Points are counted, with those made on the way, before the first is made.
    if (most := max(sweep.count, sweep.root.most)) > sweep.max_points:
        message = (
            f"makes {_format_count(most)} points; the bound is {sweep.max_points:,}"
        )
        hint = "drop values or pair them with `type: zip`; sweep.max_points raises it"
        reader.note(where, message, hint)
    elif sweep.count * len(known) > _VALUES_A_POINT * max(sweep.max_points, MAX_POINTS):
        message = f"makes {sweep.count:,} points of up to {len(known):,} values"
        hint = "what all points share belongs into the config, not the sweep"
        reader.note(where, message, hint)
    if reader.problems:
        raise SweepRefused(tuple(reader.problems))
    return sweep


def _format_count(number: int) -> str:
    """A number; of one that nobody would read, the size."""
    digits = int(number.bit_length() * math.log10(2)) + 1
    return f"{number:,}" if digits <= _MOST_DIGITS else f"about 10^{digits - 1}"


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def note(self, where: str, message: str, hint: str = "") -> None:
        """Keep a finding."""
        self.problems.append(Problem(message, where=where, hint=hint))

    def read_root(self, found: Parameters, where: str) -> Node:
        """The root node; `base_values` are defaults, too."""
        defaults = {
            **self.read_parameters(found.get("base_values"), f"{where}.base_values"),
            **self.read_parameters(found.get("defaults"), f"{where}.defaults"),
        }
        kept = self.read_filter(found.get("filter"), f"{where}.filter")
        bodies = [key for key in (*BODIES, "grids") if key in found]
        if len(bodies) > 1:
            hint = "nest them: groups: [{params: ...}, {configs: ...}]"
            self.note(where, f"has {' and '.join(bodies)} side by side", hint)
        body: Body = Groups((), crossed=True)
        if bodies[:1] == ["grids"]:
            nodes = []
            for at, raw in enumerate(self.read_list(found["grids"], f"{where}.grids")):
                place = f"{where}.grids.{at}"
                values = self._read_values(raw, place)
                held = {key: one[0] for key, one in values.items() if len(one) == 1}
                tried = {key: one for key, one in values.items() if len(one) != 1}
                nodes.append(Node(place, Params(tried, paired=False), held))
            body = Groups(tuple(nodes), crossed=False)
        elif bodies:
            body = self._read_body(found, bodies[0], where)
        return Node(where, body, defaults, kept)

    def read_bound(self, raw: object, where: str) -> int:
        """The most points that there may be."""
        if raw is None:
            return MAX_POINTS
        if isinstance(raw, bool) or not isinstance(raw, int) or raw < 1:
            message = f"is {shorten_text(repr(raw))}, not a number of points"
            hint = "a whole number above 0; leave it out for 1,000,000"
            self.note(where, message, hint)
            return MAX_POINTS
        return raw

    def read_derived(self, raw: object, where: str) -> tuple[DerivedJob, ...]:
        """The derived jobs; no two of one name."""
        entries = enumerate(self.read_list(raw, where))
        jobs = [self._read_derived_job(one, f"{where}.{at}") for at, one in entries]
        names = [job.name for job in jobs]
        for name in sorted({name for name in names if name and names.count(name) > 1}):
            hint = "the name is the job's stage, and the end of its name"
            self.note(where, f"has two entries named `{name}`", hint)
        return tuple(jobs)

    def _read_derived_job(self, raw: object, where: str) -> DerivedJob:
        found = self.read_mapping(raw, where)
        self.check_keys(found, _DERIVED_KEYS, where)
        name = found.get("name")
        if not isinstance(name, str) or not name:
            self.note(where, "has no name", "name: cooldown")
            name = ""
        for_each = found.get("for_each_base_job", True)
        if not isinstance(for_each, bool):
            hint = "true: one for every job of the sweep; false: one in all"
            message = f"is {shorten_text(repr(for_each))}, not true or false"
            self.note(f"{where}.for_each_base_job", message, hint)
        key = "parameter_overrides"
        given = dict(self.read_parameters(found.get(key), f"{where}.{key}"))
        if aux := self.read_parameters(found.get("aux"), f"{where}.aux"):
            below = given.get("aux")
            given["aux"] = {**aux, **(below if isinstance(below, Mapping) else {})}
        given |= {key: found[key] for key in _CONDITION_KEYS if key in found}
        if not list_stages_named(given):
            given = {STAGE: name, **given}
        return DerivedJob(name, given, for_each is not False)

    def _read_node(self, raw: object, where: str) -> Node:
        found = self.read_mapping(raw, where)
        self.check_keys(found, _NODE_KEYS, where)
        bodies = [key for key in BODIES if key in found]
        if len(bodies) != 1:
            given = f"{' and '.join(bodies)} for a body" if bodies else "no body"
            hint = "a node takes one of params, configs, groups"
            self.note(where, f"has {given}", hint)
            return Node(where, Groups((), crossed=True))
        return Node(
            where,
            self._read_body(found, bodies[0], where),
            self.read_parameters(found.get("defaults"), f"{where}.defaults"),
            self.read_filter(found.get("filter"), f"{where}.filter"),
        )

    def _read_body(self, found: Parameters, key: str, where: str) -> Body:
        kind = self._read_type(found, key, where)
        inner, raw = f"{where}.{key}", found[key]
        if key == "params":
            values = self._read_values(raw, inner)
            if kind != "zip":
                return Params(values, paired=False)
            return Params(self._pair_values(values, raw, inner), paired=True)
        each = [
            (one, f"{inner}.{at}") for at, one in enumerate(self.read_list(raw, inner))
        ]
        if key == "configs":
            return Configs(tuple(self._read_entry(*one) for one in each))
        nodes = (self._read_node(*one) for one in each)
        return Groups(tuple(nodes), crossed=kind == "product")

    def _read_type(self, found: Parameters, key: str, where: str) -> str:
        allowed = _TYPES[key]
        kind = found.get("type", allowed[0])
        if kind in allowed:
            return str(kind)
        known = {name for names in _TYPES.values() for name in names}
        hint = f"for {key} write {' or '.join(allowed)}"
        if kind not in known:
            hint = did_you_mean(str(kind), allowed, "types")
        self.note(f"{where}.type", f"{kind!r} does not go with {key}", hint)
        return allowed[0]

    def _read_values(self, raw: object, where: str) -> dict[str, tuple[object, ...]]:
        """What is tried of each key; a value that is no list is one."""
        values = {
            key: tuple(value) if isinstance(value, list | tuple) else (value,)
            for key, value in self._read_keyed(raw, where).items()
        }
        self._check_ours(values, where)
        return values

    def _pair_values(
        self, values: dict[str, tuple[object, ...]], raw: object, where: str
    ) -> dict[str, tuple[object, ...]]:
        """The lists of a zip, single values repeated to their length."""
        lists = {
            key: len(found)
            for key, found in values.items()
            if isinstance(raw, Mapping) and isinstance(raw.get(key), list | tuple)
        }
        if len(set(lists.values())) > 1:
            lengths = ", ".join(f"{key} has {n}" for key, n in lists.items())
            hint = "make them equally long; without `type: zip` they are crossed"
            self.note(where, f"pairs lists of different lengths: {lengths}", hint)
            return {}
        length = next(iter(lists.values()), 1)
        if not length:
            return dict.fromkeys(lists, ())
        return {
            key: found if key in lists else found * length
            for key, found in values.items()
        }

    def _read_entry(self, raw: object, where: str) -> Parameters | Node:
        if isinstance(raw, Mapping) and any(body in raw for body in BODIES):
            return self._read_node(raw, where)
        found = self.read_parameters(raw, where)
        for key in ("_filter", "filter"):
            if key in found:
                hint = (
                    "put it on the node around, or on the sweep: "
                    "filter: 'not (stage == \"cooldown\" and lr <= 1e-4)'"
                )
                if key == "filter":
                    hint += "; a config key of that name is set by `++filter`"
                self.note(f"{where}.{key}", "a config has no filter of its own", hint)
        return found

    def read_filter(self, raw: object, where: str) -> str | bool:
        """A filter's text; True when there is none, or it is refused."""
        if raw is None or isinstance(raw, bool):
            return raw is not False
        message = hint = ""
        if isinstance(raw, str):
            try:
                check_filter(raw)
            except ExpressionError as error:
                message = f"`{shorten_text(raw, MOST_OF_A_FILTER)}`: {error}"
            else:
                return raw
        else:
            message = f"is {shorten_text(repr(raw))}, not an expression"
            hint = "write it as text"
            if isinstance(raw, list | tuple):
                hint = "join them: '(lr > 1) and (steps > 2)'"
        self.note(where, message, hint)
        return True

    def read_parameters(self, raw: object, where: str) -> Parameters:
        """A mapping of parameters; empty when absent."""
        found = self._read_keyed(raw, where)
        self._check_ours({key: (value,) for key, value in found.items()}, where)
        return found

    def _read_keyed(self, raw: object, where: str) -> Parameters:
        found = {} if raw is None else self.read_mapping(raw, where)
        first: dict[str, str] = {}
        kept: dict[str, object] = {}
        for key, value in found.items():
            shown, plain = shorten_text(str(key)), plain_key(str(key))
            if fault := _find_fault_of_key(key):
                self.note(where, *fault)
            elif not key.startswith("~") and first.setdefault(plain, key) != key:
                message = f"has `{shorten_text(first[plain])}` and `{shown}`"
                hint = "keep one of them: they are ways of writing the same key"
                self.note(where, message, hint)
            bare = str(key).lstrip("+")  # `++stage` is ours, and no key of the config
            kept[bare if bare in (*STAGE_KEYS, NOTES) else str(key)] = value
        return kept

    def _check_ours(self, values: Mapping[str, tuple[object, ...]], where: str) -> None:
        """Note stages that are no names or several at once, and notes that are none."""
        stages: dict[str, str] = {}
        every = [(key, value) for key, tried in values.items() for value in tried]
        for key, value in every:
            place, stage = key, value
            if key == NOTES:
                if value is not None and not isinstance(value, Mapping):
                    hint = "_meta: {stage: cooldown, description: ...}"
                    message = f"is {shorten_text(repr(value))}, not a mapping"
                    self.note(f"{where}.{key}", message, hint)
                stage = value.get(STAGE) if isinstance(value, Mapping) else None
                place = f"{NOTES}.{STAGE}"
            if place in STAGE_KEYS and isinstance(stage, Mapping | list | tuple):
                hint = (
                    "a stage is one name; several belong into `configs`, or into params"
                )
                message = f"is {shorten_text(repr(stage))}, not a name"
                self.note(f"{where}.{place}", message, hint)
            named = list_stages_named({key: value})
            stages |= {text: name for name, text in named.items()}
        if len(stages) > 1 and len(set(stages.values())) > 1:
            few = itertools.islice(stages.items(), _MOST_STAGES_SHOWN)
            names = " and ".join(
                f"{name}: {shorten_text(stage)}" for stage, name in few
            )
            hint = "keep one of them: they are ways of writing the same key"
            self.note(where, f"says two stages, {names}", hint)

    def read_mapping(self, raw: object, where: str) -> Parameters:
        """`raw`, when it is a mapping."""
        if isinstance(raw, Mapping):
            return raw
        message = f"is {shorten_text(repr(raw))}, not a mapping"
        self.note(where, message, "write `key: value`")
        return {}

    def read_list(self, raw: object, where: str) -> Sequence[object]:
        """`raw`, when it is a list; nothing when it is null."""
        if isinstance(raw, list | tuple):
            return raw
        if raw is not None:
            message = f"is {shorten_text(repr(raw))}, not a list"
            self.note(where, message, "begin entries with `- `")
        return ()

    def check_keys(self, found: Parameters, known: frozenset[str], where: str) -> None:
        """Note every key of `found` that is not `known`."""
        for key in found:
            if key not in known:
                hint = did_you_mean(str(key), sorted(known), "it takes the keys")
                if known == _NODE_KEYS and "did you mean" not in hint:
                    hint = "parameters of a node belong into params, configs, defaults"
                self.note(f"{where}.{key}", "is no key of a sweep", hint)


def _find_fault_of_key(key: object) -> tuple[str, str] | None:
    """What is wrong with a parameter's key, and what to do; None when nothing is."""
    if not isinstance(key, str):
        return f"has the key {key!r}, which is no text", "quote it"
    if not is_key(key):
        return f"has `{shorten_text(key)}`, which is no key", A_KEY
    if key.count(".") >= _MOST_NAMES:
        message = f"has the key `{shorten_text(key)}`, of more than {_MOST_NAMES} names"
        return message, "give a mapping as the value of a shorter key"
    return None
