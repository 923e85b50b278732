"""Reads the nodes of a sweep out of plain mappings.

Every finding is gathered, with the path of the place; what cannot be read is left out,
so that the rest is looked at too. What a node is: `sweep_nodes`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.sweep.expression import ExpressionError
from autoexp_tui.sweep.filters import check_filter
from autoexp_tui.sweep.points import (
    A_KEY,
    NOTES,
    STAGE,
    STAGE_KEYS,
    is_key,
    plain_key,
    stages_named,
)
from autoexp_tui.sweep.schema import (
    BODIES,
    MOST_OF_A_FILTER,
    Body,
    Configs,
    Groups,
    Node,
    Parameters,
    Params,
    shown,
)
from autoexp_tui.text.did_you_mean import did_you_mean

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
_MOST_STAGES_SHOWN: Final = 4
"""Of a config that says several."""


class NodeReader:
    """Reads nodes out of plain mappings; findings go to `problems`."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.of_filters: list[Problem] = []
        """Those of `problems` that are about a filter: the rest may be planned."""
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
        if not length:
            return dict.fromkeys(lists, ())
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
    def filter(self, raw: object, where: str) -> str | bool | None:
        """A filter's text; True when there is none, None when it is refused."""
        if raw is None or isinstance(raw, bool):
            return raw is not False
        if not isinstance(raw, str):
            several = isinstance(raw, list | tuple)
            hint = (
                "join them: '(lr > 1) and (steps > 2)'"
                if several
                else "write it as text"
            )
            self._unread(where, f"is {shown(repr(raw))}, not an expression", hint)
            return None
        try:
            check_filter(raw)
        except ExpressionError as error:
            self._unread(where, f"`{shown(raw, MOST_OF_A_FILTER)}`: {error}")
            return None
        return raw

    def _unread(self, where: str, message: str, hint: str = "") -> None:
        self.note(where, message, hint)
        self.of_filters.append(self.problems[-1])

    def parameters(self, raw: object, where: str) -> Parameters:
        """A mapping of parameters; empty when absent."""
        found = self.keyed(raw, where)
        for key, value in found.items():
            self.check_ours(key, value, where)
        self._check_one_stage({key: (value,) for key, value in found.items()}, where)
        return found

    def _check_one_stage(
        self, values: Mapping[str, Iterable[object]], where: str
    ) -> None:
        """Note a stage, and notes beside it that may say another one."""
        said: dict[str, str] = {}
        for key, tried in values.items():
            for value in tried:
                said |= {
                    stage: name for name, stage in stages_named({key: value}).items()
                }
        names = list(dict.fromkeys(said.values()))
        if len(said) > 1 and len(names) > 1:
            few = itertools.islice(said.items(), _MOST_STAGES_SHOWN)
            told = " and ".join(f"{name}: {shown(stage)}" for stage, name in few)
            hint = "keep one of them: they are ways of writing the same key"
            self.note(where, f"says two stages, {told}", hint)

    def _check_written_once(self, found: Parameters, where: str) -> None:
        """Note keys that are one key, written in two ways: which of them counts?"""
        first: dict[str, str] = {}
        for key in found:
            if isinstance(key, str) and is_key(key) and not key.startswith("~"):
                before = first.setdefault(plain_key(key), key)
                if before != key:
                    hint = "keep one of them: they are ways of writing the same key"
                    self.note(where, f"has `{shown(before)}` and `{shown(key)}`", hint)

    def keyed(self, raw: object, where: str) -> Parameters:
        """A mapping whose keys can be parameters; empty when absent."""
        found = {} if raw is None else self.mapping(raw, where)
        self._check_written_once(found, where)
        for key, value in found.items():
            fault = fault_of_key(key)
            if fault is not None:
                self.note(where, *fault)
            if _levels(value) > _MAX_LEVELS:
                hint = "keep what belongs together in one mapping, and name it"
                message = f"is nested more than {_MAX_LEVELS} levels deep"
                self.note(f"{where}.{shown(str(key))}", message, hint)
        return {_own_name(str(key)): value for key, value in found.items()}

    def check_values(
        self, values: Mapping[str, tuple[object, ...]], where: str
    ) -> None:
        """`check_ours` for each value that is tried."""
        for key, tried in values.items():
            for value in tried:
                self.check_ours(key, value, where)
        self._check_one_stage(values, where)

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


def _own_name(key: str) -> str:
    """`++stage` as `stage`: it is ours, and no key of the config."""
    bare = key.lstrip("+")
    return bare if bare in STAGE_KEYS or bare == NOTES else key


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
