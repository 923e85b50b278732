"""A sweep as written, checked and typed: nodes with one body each.

Every finding is gathered, with the path of the place. What is static about a node is
told here (how many points it makes, which keys it sets); making the points is `sweep`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from autoexp_tui.core.errors import Problem
from autoexp_tui.plan.expression import ExpressionError
from autoexp_tui.plan.filters import check_filter
from autoexp_tui.plan.near import did_you_mean
from autoexp_tui.plan.points import (
    A_KEY,
    NOTES,
    STAGE,
    STAGE_KEYS,
    is_key,
    keys_of,
)

BODIES: Final = ("params", "configs", "groups")
_NODE_KEYS: Final = frozenset({"type", *BODIES, "defaults", "filter", "name"})
_TYPES: Final = {
    "params": ("product", "zip"),
    "configs": ("list", "product"),
    "groups": ("product", "list"),
}
"""What `type` may say of each body; the first when it says nothing."""
_MAX_DEPTH: Final = 40
"""Nodes inside one another, and keys of a dotted key."""
_MAX_NODES: Final = 100_000
"""Nodes of a sweep; one that stands in several places is read in each."""
_MAX_LEVELS: Final = 60
"""Lists and mappings inside one another, in a value."""
MOST_OF_A_FILTER: Final = 300
"""Characters of a filter that messages show."""

Parameters: TypeAlias = Mapping[str, object]


@dataclass(frozen=True)
class Params:
    """Values to try for each key, crossed or paired."""

    values: Mapping[str, tuple[object, ...]]
    paired: bool

    @cached_property
    def count(self) -> int:
        """Points that it makes."""
        lengths = [len(values) for values in self.values.values()]
        return max(lengths, default=1) if self.paired else math.prod(lengths)

    @property
    def most(self) -> int:
        """The most points that are made at once on the way."""
        return self.count

    @property
    def cells(self) -> int:
        """Values that its points hold together."""
        return self.count * len(self.values)


@dataclass(frozen=True)
class Configs:
    """One point for each entry; an entry may be a node."""

    entries: tuple[Parameters | Node, ...]

    @cached_property
    def count(self) -> int:
        """Points that it makes."""
        return sum(e.count if isinstance(e, Node) else 1 for e in self.entries)

    @cached_property
    def most(self) -> int:
        """The most points that are made at once on the way."""
        inner = (e.most for e in self.entries if isinstance(e, Node))
        return max(self.count, *inner, 0)

    @cached_property
    def cells(self) -> int:
        """Values that its points hold together."""
        return sum(e.cells if isinstance(e, Node) else len(e) for e in self.entries)


@dataclass(frozen=True)
class Groups:
    """Several nodes, crossed or one after another."""

    nodes: tuple[Node, ...]
    crossed: bool

    @cached_property
    def count(self) -> int:
        """Points that it makes."""
        if not self.nodes:
            return 1
        counts = [node.count for node in self.nodes]
        return math.prod(counts) if self.crossed else sum(counts)

    @cached_property
    def most(self) -> int:
        """The most points that are made at once on the way."""
        return max(self.count, *(node.most for node in self.nodes), 0)

    @cached_property
    def cells(self) -> int:
        """Values that its points hold together, at most."""
        if not self.crossed:
            return sum(node.cells for node in self.nodes)
        return sum(
            node.cells * self.count // node.count for node in self.nodes if node.count
        )


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

    @property
    def count(self) -> int:
        """Points that it makes before filters."""
        return self.body.count

    @property
    def most(self) -> int:
        """The most points that are made at once on the way."""
        return self.body.most

    @property
    def cells(self) -> int:
        """Values that its points hold together, at most."""
        return self.body.cells + self.count * len(self.defaults)

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every plain key that some point of it sets."""
        return keys_of(self.defaults) | _keys_of_body(self.body)

    @cached_property
    def varied(self) -> frozenset[str]:
        """Keys that some axis of it sets to several values."""
        match self.body:
            case Params(values=values):
                several = {key: 0 for key, found in values.items() if len(found) > 1}
                return keys_of(several)
            case Configs(entries=(Node() as only,)):
                return only.varied
            case Groups(nodes=nodes, crossed=crossed) if crossed or len(nodes) < 2:
                return frozenset().union(*(node.varied for node in nodes))
            case Configs(entries=(_,)):
                return frozenset()
        return _keys_of_body(self.body)

    @cached_property
    def labels(self) -> frozenset[str]:
        """The parameters that axes of it choose by value, on every way through it."""
        match self.body:
            case Params(values=values):
                return frozenset(values)
            case Configs(entries=entries):
                return common_labels(entries)
            case Groups(nodes=nodes, crossed=True):
                return frozenset().union(*(node.labels for node in nodes))
            case Groups(nodes=nodes):
                return common_labels(nodes)


def empty_lists(node: Node) -> Iterator[str]:
    """The places of empty lists under a node: `sweep.groups.0.params.lr`."""
    match node.body:
        case Params(values=values):
            for key, found in values.items():
                if not found:
                    yield f"{node.where}.params.{key}"
        case Configs(entries=()):
            yield f"{node.where}.configs"
        case Configs(entries=entries):
            for entry in entries:
                if isinstance(entry, Node):
                    yield from empty_lists(entry)
        case Groups(nodes=nodes):
            for below in nodes:
                yield from empty_lists(below)


def _keys_of_body(body: Body) -> frozenset[str]:
    match body:
        case Params(values=values):
            return keys_of(values)
        case Configs(entries=entries):
            return frozenset().union(*(keys_set_by(entry) for entry in entries))
        case Groups(nodes=nodes):
            return frozenset().union(*(node.keys for node in nodes))


def keys_set_by(entry: Parameters | Node) -> frozenset[str]:
    """The plain keys of an entry."""
    return entry.keys if isinstance(entry, Node) else keys_of(entry)


def common_labels(entries: Sequence[Parameters | Node]) -> frozenset[str]:
    """Labels of axes that lie below every one of the choices."""
    labels = [e.labels if isinstance(e, Node) else frozenset() for e in entries]
    return frozenset.intersection(*labels) if labels else frozenset()


# ---------------------------------------------------------------------- reading
class NodeReader:
    """Reads nodes out of plain mappings; findings go to `problems`."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._nodes = 0

    def note(self, where: str, message: str, hint: str = "") -> None:
        """Keep a finding."""
        self.problems.append(Problem(message, where=where, hint=hint))

    def node(self, raw: object, where: str, depth: int = 0) -> Node:
        """The node at `where`; an empty one when it cannot be read."""
        empty = Node(where, Groups((), crossed=True))
        found = self.mapping(raw, where)
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            if self._nodes == _MAX_NODES + 1:
                hint = "a list of values in params makes many points of one node"
                self.note(where, f"is more than the {_MAX_NODES:,}th node", hint)
            return empty
        if depth > _MAX_DEPTH:
            hint = "groups cross, and lists follow one another, without more nodes"
            self.note(where, f"lies more than {_MAX_DEPTH} nodes deep", hint)
            return empty
        self.check_keys(found, _NODE_KEYS, where)
        bodies = [key for key in BODIES if key in found]
        if len(bodies) != 1:
            given = f"{' and '.join(bodies)} for a body" if bodies else "no body"
            hint = "a node takes one of params, configs, groups"
            self.note(where, f"has {given}", hint)
            return empty
        return Node(
            where,
            self._body(found, bodies[0], where, depth),
            self.parameters(found.get("defaults"), f"{where}.defaults"),
            self.filter(found.get("filter"), f"{where}.filter"),
        )

    def body(self, found: Parameters, key: str, where: str) -> Body:
        """The body `key` of the mapping `found`."""
        return self._body(found, key, where, 0)

    def _body(self, found: Parameters, key: str, where: str, depth: int) -> Body:
        kind = self._type(found, key, where)
        inner, raw = f"{where}.{key}", found[key]
        if key == "params":
            return self._params(raw, inner, paired=kind == "zip")
        entries = self.sequence(raw, inner)
        if key == "configs":
            read = [
                self._entry(entry, f"{inner}.{at}", depth)
                for at, entry in enumerate(entries)
            ]
            return Configs(tuple(read))
        nodes = [
            self.node(node, f"{inner}.{at}", depth + 1)
            for at, node in enumerate(entries)
        ]
        return Groups(tuple(nodes), crossed=kind == "product")

    def _type(self, found: Parameters, key: str, where: str) -> str:
        allowed = _TYPES[key]
        kind = found.get("type", allowed[0])
        if kind in allowed:
            return str(kind)
        known = {name for names in _TYPES.values() for name in names}
        if kind in known:
            hint = f"for {key} write {' or '.join(allowed)}"
        else:
            hint = did_you_mean(str(kind), allowed, "types")
        self.note(f"{where}.type", f"{kind!r} does not go with {key}", hint)
        return allowed[0]

    def _params(self, raw: object, where: str, *, paired: bool) -> Params:
        values = {
            key: tuple(value) if isinstance(value, list | tuple) else (value,)
            for key, value in self.keyed(raw, where).items()
        }
        self.check_values(values, where)
        return Params(self._paired(values, raw, where) if paired else values, paired)

    def _paired(
        self, values: dict[str, tuple[object, ...]], raw: object, where: str
    ) -> dict[str, tuple[object, ...]]:
        """The lists of a zip, single values repeated to their length."""
        lists = {
            key: len(found)
            for key, found in values.items()
            if isinstance(raw, Mapping) and isinstance(raw.get(key), list | tuple)
        }
        if len(set(lists.values())) > 1:
            shown = ", ".join(f"{key} has {n}" for key, n in lists.items())
            hint = "make them equally long; without `type: zip` they are crossed"
            self.note(where, f"pairs lists of different lengths: {shown}", hint)
            return {}
        length = next(iter(lists.values()), 1)
        return {
            key: found if key in lists else found * length
            for key, found in values.items()
        }

    def _entry(self, raw: object, where: str, depth: int) -> Parameters | Node:
        if isinstance(raw, Mapping) and any(body in raw for body in BODIES):
            return self.node(raw, where, depth + 1)
        found = self.parameters(raw, where)
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

    # ------------------------------------------------------------------ pieces
    def filter(self, raw: object, where: str) -> str | bool:
        """A filter's text; True when there is none or it is refused."""
        if raw is None or isinstance(raw, bool):
            return raw is not False
        if not isinstance(raw, str):
            self.note(where, f"is {raw!r}, not an expression", "write it as text")
            return True
        try:
            check_filter(raw)
        except ExpressionError as error:
            self.note(where, f"`{shown(raw, MOST_OF_A_FILTER)}`: {error}")
            return True
        return raw

    def parameters(self, raw: object, where: str) -> Parameters:
        """A mapping of parameters; empty when absent."""
        found = self.keyed(raw, where)
        for key, value in found.items():
            self.check_ours(key, value, where)
        return found

    def keyed(self, raw: object, where: str) -> Parameters:
        """A mapping whose keys can be parameters; empty when absent."""
        found = {} if raw is None else self.mapping(raw, where)
        for key, value in found.items():
            fault = fault_of_key(key)
            if fault is not None:
                self.note(where, *fault)
            if _levels(value) > _MAX_LEVELS:
                hint = "keep what belongs together in one mapping, and name it"
                message = f"is nested more than {_MAX_LEVELS} levels deep"
                self.note(f"{where}.{shown(str(key))}", message, hint)
        return {str(key): value for key, value in found.items()}

    def check_values(
        self, values: Mapping[str, tuple[object, ...]], where: str
    ) -> None:
        """`check_ours` for each value that is tried."""
        for key, tried in values.items():
            for value in tried:
                self.check_ours(key, value, where)

    def check_ours(self, key: str, value: object, where: str) -> None:
        """Note a stage that is no name, and notes that are none."""
        if key == NOTES:
            if value is not None and not isinstance(value, Mapping):
                hint = "_meta: {stage: cooldown, description: ...}"
                message = f"is {shown(repr(value))}, not a mapping"
                self.note(f"{where}.{key}", message, hint)
            value = value.get(STAGE) if isinstance(value, Mapping) else None
            key = f"{NOTES}.{STAGE}"
        if key in STAGE_KEYS and isinstance(value, Mapping | list | tuple):
            hint = "a stage is one name; several belong into `configs`, or into params"
            message = f"is {shown(repr(value))}, not a name"
            self.note(f"{where}.{key}", message, hint)

    def mapping(self, raw: object, where: str) -> Parameters:
        """`raw`, when it is a mapping."""
        if isinstance(raw, Mapping):
            return raw
        self.note(where, f"is {shown(repr(raw))}, not a mapping", "write `key: value`")
        return {}

    def sequence(self, raw: object, where: str) -> Sequence[object]:
        """`raw`, when it is a list; nothing when it is null."""
        if isinstance(raw, list | tuple):
            return raw
        if raw is not None:
            self.note(
                where, f"is {shown(repr(raw))}, not a list", "begin entries with `- `"
            )
        return ()

    def check_keys(self, found: Parameters, known: frozenset[str], where: str) -> None:
        """Note every key of `found` that is not `known`."""
        for key in found:
            if key not in known:
                hint = did_you_mean(str(key), sorted(known), "it takes the keys")
                if known == _NODE_KEYS and "did you mean" not in hint:
                    hint = "parameters of a node belong into params, configs, defaults"
                self.note(f"{where}.{key}", "is no key of a sweep", hint)


def fault_of_key(key: object) -> tuple[str, str] | None:
    """What is wrong with a parameter's key, and what to do; None when nothing is."""
    if not isinstance(key, str):
        return f"has the key {key!r}, which is no text", "quote it"
    if not is_key(key):
        return f"has `{shown(key)}`, which is no key", A_KEY
    if key.count(".") >= _MAX_DEPTH:
        message = f"has the key `{shown(key)}`, of more than {_MAX_DEPTH} names"
        return message, "give a mapping as the value of a shorter key"
    return None


def _levels(value: object) -> int:
    """Lists and mappings inside one another; counted no further than needed."""
    level = {id(value): value}
    for depth in range(_MAX_LEVELS + 1):
        level = {id(inner): inner for outer in level.values() for inner in _held(outer)}
        if not level:
            return depth
    return _MAX_LEVELS + 1


def _held(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def shown(text: str, most: int = 60) -> str:
    """A text of the config as messages show it: at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
