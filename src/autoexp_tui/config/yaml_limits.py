"""How deep and how large a config file may be.

Looked at on the tree of YAML nodes, before anything is made of it: a file of a
kilobyte can stand for a billion values (aliases of aliases), for a list that holds
itself, or for more levels than any reader of it has stack for. Composing goes through
each level several times, so the bound is far below what parsing alone would take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import yaml

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose

MAX_DEPTH: Final = 60
"""Lists and mappings inside one another, and `${...}` inside one another."""
MAX_VALUES: Final = 500_000
"""Values of a file, each alias counted as what it stands for."""


def check_size(
    node: yaml.Node, path: str, known: dict[int, tuple[int, int]], depth: int = 1
) -> tuple[int, int]:
    """The values that a node stands for, and its levels; each node is counted once.

    `path`: the file as people write it; `known`: of the nodes counted so far.

    Raises:
        CannotCompose: too deep (as what holds itself is), or too many values.
    """
    if depth > MAX_DEPTH:
        raise CannotCompose((too_deep(locate(node, path)),))
    if id(node) not in known:
        below = [check_size(one, path, known, depth + 1) for one in children(node)]
        values = 1 + sum(size for size, _ in below)
        levels = 1 + max((deep for _, deep in below), default=0)
        if levels > MAX_DEPTH:
            raise CannotCompose((too_deep(locate(node, path)),))
        if values > MAX_VALUES:
            raise CannotCompose((_too_many(locate(node, path)),))
        known[id(node)] = values, levels
    return known[id(node)]


def children(node: yaml.Node) -> Sequence[yaml.Node]:
    """The nodes directly below one: items, or keys and values."""
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return ()


def list_nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Every node, each once (aliases share nodes), in the order of the file."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack += reversed(children(node))


def locate(node: yaml.Node, path: str) -> str:
    """The file and line at which a node begins."""
    return f"{path}:{node.start_mark.line + 1}"


def too_deep(where: str) -> Problem:
    """That something is nested too deeply."""
    hint = "keep what belongs together in one mapping, and name it"
    return Problem(f"is nested more than {MAX_DEPTH} levels deep", where, hint=hint)


def _too_many(where: str) -> Problem:
    message = f"stands for more than {MAX_VALUES:,} values, aliases followed"
    hint = "a sweep of params makes many jobs of few lines; aliases repeat values"
    return Problem(message, where, hint=hint)


def count_open(text: str) -> int:
    """How many `${` are open at once, at most; quotes are not looked at."""
    if text.count("${") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    for at, char in enumerate(text):
        if char == "{" and text[at - 1 : at] == "$":
            depth += 1
            deepest = max(deepest, depth)
        elif char == "}":
            depth = max(0, depth - 1)
    return deepest
