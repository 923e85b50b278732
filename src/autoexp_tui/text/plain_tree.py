"""Configs as nested dicts and lists that many jobs share: paths, reads, copies. Nothing
is ever changed in place: a changed tree shares all that is as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys from the root; an index is an int."""

ABSENT: Final = object()


class Patched(dict[Any, Any]):
    """A dict that is another one but for a few keys; both are left as they are."""

    __slots__ = ("changed", "origin")

    def __init__(self, origin: dict[Any, Any], values: Mapping[Any, Any]) -> None:
        """A copy of `origin` with `values` in it; new keys come last."""
        super().__init__(origin)
        self.update(values)
        changed = dict.fromkeys(values)
        if isinstance(origin, Patched):
            self.origin: dict[Any, Any] = origin.origin
            self.changed: Mapping[Any, None] = {**origin.changed, **changed}
        else:
            self.origin, self.changed = origin, changed


def at(tree: Any, path: Path) -> Any:
    """What lies at `path`; `ABSENT` when nothing does."""
    for key in path:
        if isinstance(tree, dict):
            tree = tree.get(key, ABSENT)
        elif isinstance(tree, list) and isinstance(key, int) and key < len(tree):
            tree = tree[key]
        else:
            return ABSENT
    return tree


def with_values(tree: Any, values: Mapping[Path, object]) -> Any:
    """`tree` with values at paths, none below another; dicts that lack are made. Raises
    LookupError where something on the way is neither a dict nor a list with it."""
    if () in values:
        return values[()]
    below: dict[str | int, dict[Path, object]] = {}
    for path, value in values.items():
        below.setdefault(path[0], {})[path[1:]] = value
    if isinstance(tree, dict):
        inner = {key: with_values(tree.get(key, {}), own) for key, own in below.items()}
        return Patched(tree, inner)
    items = list(tree) if isinstance(tree, list) else []
    for key, own in below.items():
        if not isinstance(key, int) or key >= len(items):
            raise LookupError(key)
        items[key] = with_values(items[key], own)
    return items


def unpatched(tree: Any) -> Any:
    """The same of dicts and lists that are nothing but that."""
    if isinstance(tree, dict):
        return {key: unpatched(inner) for key, inner in tree.items()}
    return [unpatched(inner) for inner in tree] if isinstance(tree, list) else tree


def map_texts(value: object, change: Callable[[str], object]) -> object:
    """`value` with every text in it changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(item, change) for item in value]
    return value


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value that is neither a dict nor a list, with its path, in order."""
    if isinstance(tree, dict):
        for key, inner in tree.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(tree, list):
        for index, inner in enumerate(tree):
            yield from leaves(inner, (*path, index))
    else:
        yield path, tree


def touches(one: Path, other: Path) -> bool:
    """Whether a change at one path may be seen at the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def flatten(key: str, value: object) -> Iterator[tuple[str, object]]:
    """(dotted key, value) of every leaf below `key`; a list of plain values is one."""
    items: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple) and any(isinstance(x, Mapping) for x in value):
        items = enumerate(value)
    if not items:
        yield key, value
    for name, item in items:
        yield from flatten(f"{key}.{name}" if key else str(name), item)
