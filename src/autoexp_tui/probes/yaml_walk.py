"""Follows dotted paths through YAML trees that know their lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

import yaml

_PART: Final = re.compile(r"[^.\[\]]+")

Found: TypeAlias = tuple[int, int]
"""How many parts of a path were found, and the line (from 1 on) of the last."""


def parts_of(path: str) -> tuple[str, ...]:
    """The names and numbers of `sweep.groups[1].params.optim.lr`."""
    return tuple(_PART.findall(path))


def parts_of_key(node: yaml.Node) -> tuple[str, ...]:
    """The parts of a mapping's key, without `+`, `++` and `~`."""
    return parts_of(str(node.value).lstrip("+~"))


def line_of(node: yaml.Node) -> int:
    """The line at which a node begins."""
    return int(node.start_mark.line) + 1


def walk(node: yaml.Node, parts: Sequence[str]) -> Found:
    """As far as a path leads; a literal dotted key is taken whole."""
    best: Found = (0, 0)
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            own = parts_of_key(name)
            size = len(own)
            if size and tuple(parts[:size]) == own:
                best = max(best, behind(size, walk(value, parts[size:]), line_of(name)))
    elif isinstance(node, yaml.SequenceNode) and parts and parts[0].isdigit():
        at = int(parts[0])
        if at < len(node.value):
            item = node.value[at]
            best = behind(1, walk(item, parts[1:]), line_of(item))
    return best


def behind(size: int, found: Found, line: int) -> Found:
    """What was found behind the first `size` parts, which stand in `line`."""
    return size + found[0], found[1] or line
