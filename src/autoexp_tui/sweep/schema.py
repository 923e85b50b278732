"""What a sweep says: its nodes, read and checked.

A node has one body. How many points it makes is known, and bounded, before the first
is made. Every finding is gathered, with its place; what cannot be read is left out, so
that the rest is looked at too. `grids` are sugar, and end here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

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
class Choices:
    """One after another: nodes, and entries that are one point each."""

    name: str
    parts: tuple[Parameters | Node, ...]


@dataclass(frozen=True)
class Product:
    """Nodes that are crossed; none make one point."""

    parts: tuple[Node, ...] = ()


Body: TypeAlias = Params | Choices | Product


@dataclass(frozen=True)
class Node:
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
            case Choices(parts=parts):
                return sum(p.count if isinstance(p, Node) else 1 for p in parts)
            case Product(parts=nodes):
                return math.prod(node.count for node in nodes)

    @cached_property
    def most(self) -> int:
        """The most points that are made at once on the way."""
        parts = () if isinstance(self.body, Params) else self.body.parts
        return max([self.count, *(p.most for p in parts if isinstance(p, Node))])

    @cached_property
    def sets(self) -> Sets:
        if isinstance(self.body, Params):
            values = self.body.values
            words: Mapping[str, frozenset[str]]
            words = list_words_by_key(values.items())
            several = {key: tried for key, tried in values.items() if len(tried) > 1}
            varied = frozenset(list_words_by_key(several.items()))
            labels = frozenset(values)
        else:
            each = [list_sets(part) for part in self.body.parts]
            words, _, labels = join_sets(each)
            varied = frozenset(words)
            if isinstance(self.body, Product):
                labels = frozenset().union(*(one.labels for one in each))
            if isinstance(self.body, Product) or len(each) < 2:
                varied = frozenset().union(*(one.varied for one in each))
        below = Sets(words), list_sets(self.defaults)
        return Sets(join_sets(below).words, varied, labels)


class Sets(NamedTuple):
    """What the points of a node, or one entry, set."""

    words: Mapping[str, frozenset[str]]
    """Plain key -> what it may be, as words; of ours only the stage has some."""
    varied: frozenset[str] = frozenset()
    """Keys that some axis below sets to several values."""
    labels: frozenset[str] = frozenset()
    """The parameters that axes below choose by value, on every way."""


def list_sets(entry: Parameters | Node) -> Sets:
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


MAX_POINTS: Final = 1_000_000
"""Points of one sweep, unless `max_points` says otherwise."""
_COUNTED: Final = 10**30
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
    "grids": ("list", "product"),
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
    root: Node
    accumulated: frozenset[str]
    """Plain keys whose values add up over groups, as lists."""
    max_points: int
    derived: tuple[DerivedJob, ...] = ()


def read_sweep(raw: object) -> Sweep:
    """The sweep that `raw` (a mapping, or None) describes; raises SweepRefused."""
    reader = _Reader()
    found = {} if raw is None else reader.read_mapping(raw, "sweep")
    place = "sweep.list_composition"
    keys = reader.read_list(found.get("list_composition"), place)
    bound = found.get("max_points", MAX_POINTS)
    if isinstance(bound, bool) or not isinstance(bound, int) or bound < 1:
        message = f"is {shorten_text(repr(bound))}, not a number of points"
        reader.note("sweep.max_points", message, "a whole number above 0")
        bound = MAX_POINTS
    sweep = Sweep(
        reader.read_node(found, "sweep", is_root=True),
        frozenset(plain_key(str(key)) for key in keys),
        bound,
        reader.read_derived(found.get("derived_jobs")),
    )
    if sweep.accumulated:
        derived = (plain_key(key) for job in sweep.derived for key in job.parameters)
        known = sorted({*sweep.root.sets.words, *derived})
        for key in sorted(sweep.accumulated.difference(known)):
            hint = did_you_mean(key, known, "keys")
            reader.note(place, f"names `{key}`, which no point sets", hint)
    # Points are counted, with those made on the way, before the first is made.
    each = sum(job.for_each for job in sweep.derived)
    jobs = sweep.root.count * (1 + each) + len(sweep.derived) - each
    if (most := max(jobs, sweep.root.most)) > sweep.max_points:
        count = f"{most:,}" if most < _COUNTED else "more than 10^30"
        message = f"makes {count} points; the bound is {sweep.max_points:,}"
        hint = "drop values or pair them with `type: zip`; sweep.max_points raises it"
        reader.note("sweep", message, hint)
    if reader.problems:
        raise SweepRefused(tuple(reader.problems))
    return sweep


@dataclass(slots=True)
class _Reader:
    problems: list[Problem] = field(default_factory=list)

    def note(self, where: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(message, where=where, hint=hint))

    def read_derived(self, raw: object) -> tuple[DerivedJob, ...]:
        where = "sweep.derived_jobs"
        entries = enumerate(self.read_list(raw, where))
        return tuple(
            self._read_derived_job(one, f"{where}.{at}") for at, one in entries
        )

    def _read_derived_job(self, raw: object, where: str) -> DerivedJob:
        found = self.read_mapping(raw, where)
        self._check_keys(found, _DERIVED_KEYS, where)
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
        given = dict(self._read_parameters(found.get(key), f"{where}.{key}"))
        if aux := self._read_parameters(found.get("aux"), f"{where}.aux"):
            below = given.get("aux")
            given["aux"] = {**aux, **(below if isinstance(below, Mapping) else {})}
        given |= {key: found[key] for key in _CONDITION_KEYS if key in found}
        if not find_stage(given):
            given = {STAGE: name, **given}
        return DerivedJob(name, given, for_each is not False)

    def read_node(self, raw: object, where: str, *, is_root: bool = False) -> Node:
        """A node; `base_values` of the root are defaults, too."""
        found = self.read_mapping(raw, where)
        self._check_keys(found, _ROOT_KEYS if is_root else _NODE_KEYS, where)
        bodies = [key for key in _TYPES if key in found and (is_root or key in BODIES)]
        body: Body = Product()
        if len(bodies) == 1:
            body = self._read_body(found, bodies[0], where)
        elif bodies or not is_root:
            hint = "a node takes one of params, configs, groups; groups nest others"
            self.note(where, f"has {' and '.join(bodies) or 'no body'}", hint)
        defaults: dict[str, object] = {}
        for key in ("base_values", "defaults") if is_root else ("defaults",):
            defaults |= self._read_parameters(found.get(key), f"{where}.{key}")
        kept = self._read_filter(found.get("filter"), f"{where}.filter")
        return Node(where, body, defaults, kept)

    def _read_body(self, found: Parameters, key: str, where: str) -> Body:
        kind = found.get("type", _TYPES[key][0])
        if kind not in _TYPES[key]:
            hint = did_you_mean(str(kind), _TYPES[key], "types")
            self.note(f"{where}.type", f"{kind!r:.80} does not go with {key}", hint)
        inner, raw = f"{where}.{key}", found[key]
        if key == "params":
            values = self._read_values(raw, inner)
            if kind != "zip":
                return Params(values, paired=False)
            return Params(self._pair_values(values, raw, inner), paired=True)
        read = {
            "configs": self._read_entry,
            "groups": self.read_node,
            "grids": self._read_grid,
        }[key]
        raws = enumerate(self.read_list(raw, inner))
        parts = tuple(read(one, f"{inner}.{at}") for at, one in raws)
        if key == "configs":
            return Choices(key, parts)
        nodes = tuple(part for part in parts if isinstance(part, Node))
        is_list = (kind == "list" or key == "grids") and nodes
        return Choices("groups", nodes) if is_list else Product(nodes)

    def _read_grid(self, raw: object, where: str) -> Node:
        """A product; what has one value is held."""
        values = self._read_values(raw, where)
        held = {key: one[0] for key, one in values.items() if len(one) == 1}
        tried = {key: one for key, one in values.items() if len(one) != 1}
        return Node(where, Params(tried, paired=False), held)

    def _read_values(self, raw: object, where: str) -> dict[str, tuple[object, ...]]:
        """What is tried of each key; a value that is no list is one."""
        return {
            key: tuple(value) if isinstance(value, list | tuple) else (value,)
            for key, value in self._read_parameters(raw, where, tried=True).items()
        }

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
            return self.read_node(raw, where)
        found = self._read_parameters(raw, where)
        for key in found.keys() & {"_filter", "filter"}:
            hint = (
                "put it on the node around, or on the sweep: "
                "filter: 'not (stage == \"cooldown\" and lr <= 1e-4)'"
            )
            if key == "filter":
                hint += "; a config key of that name is set by `++filter`"
            self.note(f"{where}.{key}", "a config has no filter of its own", hint)
        return found

    def _read_filter(self, raw: object, where: str) -> str | bool:
        """A filter's text; True when there is none, or it is refused."""
        if raw is None or isinstance(raw, bool):
            return raw is not False
        if not isinstance(raw, str):
            hint = "write it as text, lists joined: '(lr > 1) and (steps > 2)'"
            self.note(where, f"is {shorten_text(repr(raw))}, not an expression", hint)
            return True
        try:
            check_filter(raw)
        except ExpressionError as error:
            self.note(where, f"`{shorten_text(raw, MOST_OF_A_FILTER)}`: {error}")
            return True
        return raw

    def _read_parameters(
        self, raw: object, where: str, *, tried: bool = False
    ) -> Parameters:
        """A mapping of parameters, of lists that are `tried`; empty when absent."""
        found = {} if raw is None else self.read_mapping(raw, where)
        first: dict[str, str] = {}
        kept: dict[str, object] = {}
        for key, value in found.items():
            text, plain = str(key), plain_key(str(key))
            if not isinstance(key, str) or not is_key(key):
                self.note(where, f"has `{shorten_text(text)}`, which is no key", A_KEY)
            elif not key.startswith("~") and first.setdefault(plain, key) != key:
                message = f"has `{shorten_text(first[plain])}` and `{key}`"
                hint = "keep one of them: they are ways of writing the same key"
                self.note(where, message, hint)
            bare = text.lstrip("+")  # `++stage` is ours, and no key of the config
            if bare in (*STAGE_KEYS, NOTES):
                text = bare
                each = value if tried and isinstance(value, list | tuple) else [value]
                for one in each:
                    self._check_stage(bare, one, f"{where}.{bare}")
            kept[text] = value
        return kept

    def _check_stage(self, key: str, value: object, where: str) -> None:
        """Note a stage that is no name, and notes that are no mapping."""
        if key == NOTES and not isinstance(value, Mapping | None):
            hint = "_meta: {stage: cooldown, description: ...}"
            self.note(where, f"is {shorten_text(repr(value))}, not a mapping", hint)
        stage = value
        if key == NOTES:
            stage = value.get(STAGE) if isinstance(value, Mapping) else None
        if isinstance(stage, Mapping | list | tuple):
            hint = "a stage is one name; several belong into `configs`, or into params"
            self.note(where, f"has the stage {shorten_text(repr(stage))}", hint)

    def read_mapping(self, raw: object, where: str) -> Parameters:
        if isinstance(raw, Mapping):
            return raw
        message = f"is {shorten_text(repr(raw))}, not a mapping"
        self.note(where, message, "write `key: value`")
        return {}

    def read_list(self, raw: object, where: str) -> Sequence[object]:
        if isinstance(raw, list | tuple):
            return raw
        if raw is not None:
            message = f"is {shorten_text(repr(raw))}, not a list"
            self.note(where, message, "begin entries with `- `")
        return ()

    def _check_keys(self, found: Parameters, known: frozenset[str], where: str) -> None:
        for key in found:
            if key not in known:
                hint = did_you_mean(str(key), sorted(known), "it takes the keys")
                self.note(f"{where}.{key}", "is no key of a sweep", hint)
