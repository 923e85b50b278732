"""A sweep as written, checked and typed: nodes with one body each.

Every finding is gathered, with the path of the place. What is static about a node is
told here (how many points it makes, which keys it sets); making the points is `sweep`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from autoexp_tui.core.errors import Problem
from autoexp_tui.plan.expression import ExpressionError
from autoexp_tui.plan.filters import check_filter
from autoexp_tui.plan.near import did_you_mean
from autoexp_tui.plan.points import keys_of

BODIES: Final = ("params", "configs", "groups")
_NODE_KEYS: Final = frozenset({"type", *BODIES, "defaults", "filter", "name"})
_TYPES: Final = {
    "params": ("product", "zip"),
    "configs": ("list", "product"),
    "groups": ("product", "list"),
}
"""What `type` may say of each body; the first when it says nothing."""
_MAX_DEPTH: Final = 40
"""Nodes inside one another."""

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


@dataclass(frozen=True)
class Configs:
    """One point for each entry; an entry may be a node."""

    entries: tuple[Parameters | Node, ...]

    @cached_property
    def count(self) -> int:
        """Points that it makes."""
        return sum(e.count if isinstance(e, Node) else 1 for e in self.entries)


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

    def note(self, where: str, message: str, hint: str = "") -> None:
        """Keep a finding."""
        self.problems.append(Problem(message, where=where, hint=hint))

    def node(self, raw: object, where: str, depth: int = 0) -> Node:
        """The node at `where`; an empty one when it cannot be read."""
        empty = Node(where, Groups((), crossed=True))
        found = self.mapping(raw, where)
        if depth > _MAX_DEPTH:
            self.note(where, f"lies more than {_MAX_DEPTH} nodes deep")
            return empty
        self.check_keys(found, _NODE_KEYS, where)
        bodies = [key for key in BODIES if key in found]
        if len(bodies) != 1:
            given = " and ".join(bodies) or "none of them"
            hint = "a node takes one of params, configs, groups"
            self.note(where, f"has {given} for a body", hint)
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
            for key, value in self.parameters(raw, where).items()
        }
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
            self.note(where, f"`{raw}`: {error}")
            return True
        return raw

    def parameters(self, raw: object, where: str) -> Parameters:
        """A mapping of parameters; empty when absent."""
        found = {} if raw is None else self.mapping(raw, where)
        keys: list[object] = list(found)
        for key in keys:
            if not isinstance(key, str):
                self.note(where, f"has the key {key!r}, which is no text", "quote it")
        return {str(key): value for key, value in found.items()}

    def mapping(self, raw: object, where: str) -> Parameters:
        """`raw`, when it is a mapping."""
        if isinstance(raw, Mapping):
            return raw
        self.note(where, f"is {_shown(raw)}, not a mapping", "write `key: value`")
        return {}

    def sequence(self, raw: object, where: str) -> Sequence[object]:
        """`raw`, when it is a list; nothing when it is null."""
        if isinstance(raw, list | tuple):
            return raw
        if raw is not None:
            self.note(where, f"is {_shown(raw)}, not a list", "begin entries with `- `")
        return ()

    def check_keys(self, found: Parameters, known: frozenset[str], where: str) -> None:
        """Note every key of `found` that is not `known`."""
        for key in found:
            if key not in known:
                hint = did_you_mean(str(key), sorted(known), "it takes the keys")
                if known == _NODE_KEYS and "did you mean" not in hint:
                    hint = "parameters of a node belong into params, configs, defaults"
                self.note(f"{where}.{key}", "is no key of a sweep", hint)


def _shown(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= 60 else f"{text[:57]}..."
