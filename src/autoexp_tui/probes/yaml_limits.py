"""What a config file may hold: how deep, how much, and which kinds of values.

Looked at on the tree of YAML nodes, before anything is made of it: a file of a
kilobyte can stand for a billion values (aliases of aliases), for a list that holds
itself, or for more levels than any reader of it has stack for. Composing goes through
each level several times, so the bound is far below what parsing alone would take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import yaml
from omegaconf._utils import get_yaml_loader

from autoexp_tui.model.errors import Problem

MAX_DEPTH: Final = 60
"""Lists and mappings inside one another, and `${...}` inside one another."""
MAX_VALUES: Final = 500_000
"""Values of a file, each alias counted as what it stands for."""

_KINDS: Final = frozenset(
    f"tag:yaml.org,2002:{kind}"
    for kind in ("map", "seq", "str", "int", "float", "bool", "null", "merge")
)
_KINDS_SAID: Final = {"int": "number", "float": "number", "bool": "truth value"}
_MOST_SHOWN: Final = 60
"""Characters of a value that are shown."""
_Loader: Final[Any] = get_yaml_loader()


def excess(root: yaml.Node, path: str) -> Problem | None:
    """What is too deep or too much in a file; None when nothing is.

    `path`: the file as people write it.
    """
    sizes: dict[int, tuple[int, int]] = {}
    open_: set[int] = set()
    stack: list[tuple[yaml.Node, Iterator[yaml.Node]]] = []

    def enter(node: yaml.Node) -> None:
        open_.add(id(node))
        stack.append((node, iter(children(node))))

    enter(root)
    while stack:
        node, below = stack[-1]
        for child in below:
            if id(child) in open_:
                return _holds_itself(child, path)
            if id(child) not in sizes:
                enter(child)
                break
        else:
            stack.pop()
            open_.remove(id(node))
            sizes[id(node)] = _measured(sizes[id(child)] for child in children(node))
            found = _too_big(node, *sizes[id(node)], path)
            if found is not None:
                return found
    return None


def children(node: yaml.Node) -> Sequence[yaml.Node]:
    """The nodes directly below one: items, or keys and values."""
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return ()


def _measured(below: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """(values, levels) of a node, from those below it."""
    found = list(below)
    values = 1 + sum(size for size, _ in found)
    return values, 1 + max((depth for _, depth in found), default=0)


def _too_big(node: yaml.Node, values: int, depth: int, path: str) -> Problem | None:
    if depth > MAX_DEPTH:
        return too_deep(_place(node, path))
    if values > MAX_VALUES:
        message = f"stands for more than {MAX_VALUES:,} values, aliases followed"
        hint = "a sweep of params makes many jobs of few lines; aliases repeat values"
        return Problem(message, where=_place(node, path), hint=hint)
    return None


def too_deep(where: str) -> Problem:
    """That something is nested too deeply."""
    hint = "keep what belongs together in one mapping, and name it"
    return Problem(f"is nested more than {MAX_DEPTH} levels deep", where, hint=hint)


def _holds_itself(node: yaml.Node, path: str) -> Problem:
    hint = "an alias (`*name`) cannot stand below its own anchor (`&name`)"
    return Problem("holds itself, by an alias", where=_place(node, path), hint=hint)


def _place(node: yaml.Node, path: str) -> str:
    return f"{path}:{node.start_mark.line + 1}"


# ----------------------------------------------------------------------- kinds
def strangers(nodes: Iterable[yaml.Node], path: str) -> Iterator[Problem]:
    """Values that no config holds: other tags, null characters, odd keys."""
    for node in nodes:
        if node.tag not in _KINDS:
            yield _stranger(node, path)
        elif isinstance(node, yaml.MappingNode):
            yield from (_key_fault(key, path) for key, _ in node.value if _is_odd(key))
        elif "\0" in node.value:
            hint = "take it out: no path, command or variable can hold one"
            yield Problem("holds a null character", _place(node, path), hint=hint)
        elif interpolations_deep(str(node.value)) > MAX_DEPTH:
            yield too_deep(_place(node, path))


def _stranger(node: yaml.Node, path: str) -> Problem:
    name = node.tag.replace("tag:yaml.org,2002:", "!!")
    if name == "!!value":
        return Problem("`=` by itself is no value", _place(node, path), hint='"="')
    hint = "leave the tag out: text, numbers, true, false, null, lists, mappings"
    return Problem(
        f"{name} is no kind of value for configs", _place(node, path), "", hint
    )


def _is_odd(key: yaml.Node) -> bool:
    return not isinstance(key, yaml.ScalarNode) or key.tag.endswith(":null")


def _key_fault(key: yaml.Node, path: str) -> Problem:
    if isinstance(key, yaml.ScalarNode):
        shown = f"the key {key.value or 'null'} is nothing to YAML"
        hint = f'quote it: "{key.value}"' if key.value else "write a key before the `:`"
        return Problem(shown, where=_place(key, path), hint=hint)
    kind = "list" if isinstance(key, yaml.SequenceNode) else "mapping"
    hint = "a key is a name; quote text that begins with [ or {"
    return Problem(f"a {kind} cannot be a key", where=_place(key, path), hint=hint)


NOT_READ: Final = (ValueError, LookupError, OverflowError)
"""What PyYAML raises for a scalar that is not what its tag says: of an empty one, that
it has no first character."""


def unreadable(nodes: Iterable[yaml.Node], path: str) -> Iterator[Problem]:
    """Scalars that are not what their tag, or their look, says."""
    for node in nodes:
        if isinstance(node, yaml.ScalarNode) and not _is_readable(node):
            kind = node.tag.rpartition(":")[2]
            whole = len(node.value) <= _MOST_SHOWN
            shown = node.value if whole else f"{node.value[: _MOST_SHOWN - 3]}..."
            hint = f'quote it: "{shown}"' if whole else "quote it, if it is text"
            message = (
                f"{shown or 'an empty text'} is no {_KINDS_SAID[kind]} that can be read"
            )
            yield Problem(message, where=_place(node, path), hint=hint)


def _is_readable(node: yaml.Node) -> bool:
    loader = _Loader("")
    try:
        loader.construct_document(node)
    except NOT_READ:
        return False
    finally:
        loader.dispose()
    return True


# -------------------------------------------------------------- interpolations
def interpolations_deep(text: str) -> int:
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
