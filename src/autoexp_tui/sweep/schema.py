"""A sweep as written, checked and typed: nodes with one body each.

What is static about a node is told here (how many points it makes, which keys it sets).
Nodes are read by `reader`; making the points is `sweep`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, TypeAlias

from autoexp_tui.sweep.points import (
    NOT_OVERRIDES,
    NOTES,
    STAGE,
    find_stage,
    format_word,
    list_chosen_keys,
    list_plain_keys,
    plain_key,
)

BODIES: Final = ("params", "configs", "groups")
MOST_OF_A_FILTER: Final = 300
"""Characters of a filter that messages show."""

Parameters: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Size:
    """How much a node makes, before filters."""

    count: int
    """Points."""
    most: int
    """The most points that are made at once on the way."""
    cells: int
    """Values that its points hold together, at most."""


@dataclass(frozen=True)
class Params:
    """Values to try for each key, crossed or paired."""

    values: Mapping[str, tuple[object, ...]]
    paired: bool

    def measure(self) -> Size:
        """How much it makes."""
        lengths = [len(values) for values in self.values.values()]
        count = max(lengths, default=1) if self.paired else math.prod(lengths)
        return Size(count, count, count * len(lengths))


@dataclass(frozen=True)
class Configs:
    """One point for each entry; an entry may be a node."""

    entries: tuple[Parameters | Node, ...]

    def measure(self) -> Size:
        """How much it makes."""
        sizes = [
            e.size if isinstance(e, Node) else Size(1, 0, len(e)) for e in self.entries
        ]
        count = sum(size.count for size in sizes)
        most = max(count, *(size.most for size in sizes), 0)
        return Size(count, most, sum(size.cells for size in sizes))


@dataclass(frozen=True)
class Groups:
    """Several nodes, crossed or one after another."""

    nodes: tuple[Node, ...]
    crossed: bool

    def measure(self) -> Size:
        """How much it makes; no nodes make one point."""
        sizes = [node.size for node in self.nodes]
        counts = [size.count for size in sizes]
        count = math.prod(counts) if self.crossed or not counts else sum(counts)
        cells = sum(
            one.cells * (count // one.count if self.crossed else 1)
            for one in sizes
            if one.count
        )
        return Size(count, max(count, *(one.most for one in sizes), 0), cells)


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
    def size(self) -> Size:
        """How much it makes."""
        size = self.body.measure()
        return replace(size, cells=size.cells + size.count * len(self.defaults))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every plain key that some point of it sets."""
        return list_plain_keys(self.defaults) | _find_body_keys(self.body)

    @cached_property
    def varied(self) -> frozenset[str]:
        """Keys that some axis of it sets to several values."""
        match self.body:
            case Params(values=values):
                several = [one for one in values.items() if len(one[1]) > 1]
                return frozenset().union(*itertools.starmap(list_chosen_keys, several))
            case Configs(entries=(Node() as only,)):
                return only.varied
            case Groups(nodes=nodes, crossed=crossed) if crossed or len(nodes) < 2:
                return frozenset().union(*(node.varied for node in nodes))
            case Configs(entries=(_,)):
                return frozenset()
        return _find_body_keys(self.body)

    @cached_property
    def values(self) -> Mapping[str, frozenset[str]]:
        """Every plain key -> what points of it may set it to, as words."""
        found: dict[str, set[str]] = {}
        _add_words(found, ((key, (value,)) for key, value in self.defaults.items()))
        match self.body:
            case Params(values=values):
                _add_words(found, values.items())
            case Configs(entries=parts) | Groups(nodes=parts):
                for part in parts:
                    _merge_words(found, list_entry_values(part))
        return {key: frozenset(words) for key, words in found.items()}

    @property
    def varied_values(self) -> Mapping[str, frozenset[str]]:
        """What axes of it set to several values -> these, as words."""
        return {key: self.values.get(key, frozenset()) for key in self.varied}

    @cached_property
    def labels(self) -> frozenset[str]:
        """The parameters that axes of it choose by value, on every way through it."""
        match self.body:
            case Params(values=values):
                return frozenset(values)
            case Configs(entries=entries):
                return find_common_labels(entries)
            case Groups(nodes=nodes, crossed=True):
                return frozenset().union(*(node.labels for node in nodes))
            case Groups(nodes=nodes):
                return find_common_labels(nodes)


def find_empty_lists(node: Node) -> Iterator[str]:
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
                    yield from find_empty_lists(entry)
        case Groups(nodes=nodes):
            for below in nodes:
                yield from find_empty_lists(below)


def find_emptied(node: Node) -> Iterator[str]:
    """The places of empty lists that take the rest of a product with them.

    An empty `configs` that stands alone, or in a list, takes nothing with it.
    """
    match node.body:
        case Params():
            yield from find_empty_lists(node)
        case Groups(nodes=nodes, crossed=True) if not node.size.count and any(
            one.size.count for one in nodes
        ):
            yield from find_empty_lists(node)
        case Groups(nodes=parts) | Configs(entries=parts):
            for part in parts:
                if isinstance(part, Node):
                    yield from find_emptied(part)


def _find_body_keys(body: Body) -> frozenset[str]:
    match body:
        case Params(values=values):
            return frozenset().union(
                *itertools.starmap(list_chosen_keys, values.items())
            )
        case Configs(entries=entries):
            return frozenset().union(*(list_entry_keys(entry) for entry in entries))
        case Groups(nodes=nodes):
            return frozenset().union(*(node.keys for node in nodes))


def list_entry_keys(entry: Parameters | Node) -> frozenset[str]:
    """The plain keys of an entry."""
    return entry.keys if isinstance(entry, Node) else list_plain_keys(entry)


def list_entry_values(entry: Parameters | Node) -> Mapping[str, frozenset[str]]:
    """The plain keys of an entry -> what its points may set them to, as words."""
    if isinstance(entry, Node):
        return entry.values
    found: dict[str, set[str]] = {}
    _add_words(found, ((key, (value,)) for key, value in entry.items()))
    return {key: frozenset(words) for key, words in found.items()}


def _add_words(
    found: dict[str, set[str]], values: Iterable[tuple[str, Iterable[object]]]
) -> None:
    """Add the words of each key's values; of what is ours only the stage has some."""
    for key, tried in values:
        plain = plain_key(key)
        if plain == NOTES:
            stages = filter(None, (find_stage({NOTES: value}) for value in tried))
            found.setdefault(STAGE, set()).update(stages)
        elif plain == STAGE or plain not in NOT_OVERRIDES:
            found.setdefault(plain, set()).update(map(format_word, tried))


def _merge_words(
    found: dict[str, set[str]], more: Mapping[str, frozenset[str]]
) -> None:
    for key, words in more.items():
        found.setdefault(key, set()).update(words)


def find_common_labels(entries: Sequence[Parameters | Node]) -> frozenset[str]:
    """Labels of axes that lie below every one of the choices."""
    labels = [e.labels if isinstance(e, Node) else frozenset() for e in entries]
    return frozenset.intersection(*labels) if labels else frozenset()


def shorten_text(text: str, most: int = 60) -> str:
    """A text of the config as messages show it: at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
