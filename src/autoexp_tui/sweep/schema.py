"""A sweep as written, checked and typed: nodes with one body each.

What is static about a node is told here (how many points it makes, which keys it sets).
Nodes are read by `reader`; making the points is `sweep`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from autoexp_tui.sweep.points import (
    NOT_OVERRIDES,
    NOTES,
    STAGE,
    find_stage,
    format_word,
    plain_key,
)

BODIES: Final = ("params", "configs", "groups")
MOST_OF_A_FILTER: Final = 300
"""Characters of a filter that messages show."""

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

    @cached_property
    def most(self) -> int:
        """The most points that are made at once on the way."""
        parts: Sequence[object] = ()
        match self.body:
            case Configs(entries=parts) | Groups(nodes=parts):
                pass
        return max(self.count, *(e.most for e in parts if isinstance(e, Node)), 0)

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
        case Groups(nodes=nodes, crossed=True) if not node.count and any(
            one.count for one in nodes
        ):
            yield from find_empty_lists(node)
        case Groups(nodes=parts) | Configs(entries=parts):
            for part in parts:
                if isinstance(part, Node):
                    yield from find_emptied(part)


def shorten_text(text: str, most: int = 60) -> str:
    """A text of the config as messages show it: at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
