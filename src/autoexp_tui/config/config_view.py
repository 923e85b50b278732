"""One composed config as planning sees it: lazy, and in plain Python outside.

Only what is asked for is resolved, so that a value which makes sense for some jobs
alone hurts no others. Nothing here composes; see `hydra_compose`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from omegaconf import DictConfig, ListConfig, Node, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from autoexp_tui.config.eval_rewrite import rewrite_tree
from autoexp_tui.config.hydra_errors import resolve_problem
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose

_ABSENT: Final = object()
_RELATIVE: Final = re.compile(
    r"(?<!\\)\$\{(?P<dots>\.+)(?P<path>[A-Za-z_][\w\-]*(?:\.[\w\-]+)*)\}"
)
MOST_PROBLEMS: Final = 20
_HOLDER: Final = "_interpolated_"
"""Where a value lies that is no part of the config; told as the key that was given."""


class OmegaView:
    """A `planning.ports.ConfigView` over an OmegaConf config."""

    def __init__(self, config: DictConfig) -> None:
        self._config = config
        self._leaves: tuple[str, ...] | None = None

    def select(self, path: str) -> object:
        """The resolved value at `path` as plain Python.

        Raises:
            KeyError: there is no such key.
            CannotCompose: it does not resolve.
        """
        try:
            found = OmegaConf.select(
                self._config, path, default=_ABSENT, throw_on_missing=True
            )
            if found is not _ABSENT:
                return _to_plain(found)
        except OmegaConfBaseException as error:
            below = self._all_problems(f"{path}.")
            raise CannotCompose(below or (self._explain(error, path),)) from None
        raise KeyError(path)

    def raw(self, path: str) -> object:
        """The value as written; KeyError when absent."""
        node = find_node(self._config, path)
        if node is None:
            raise KeyError(path)
        return written(node)

    def has(self, path: str) -> bool:
        """Whether the key exists, resolved or not."""
        return find_node(self._config, path) is not None

    def leaf_paths(self) -> Sequence[str]:
        """Dotted paths of all leaves in order; a list is one leaf."""
        if self._leaves is None:
            self._leaves = tuple(_list_leaves(self._config, ""))
        return self._leaves

    def interpolate(self, value: object, at: str = "") -> object:
        """`value` with every `${...}` resolved in this config.

        Raises:
            CannotCompose: something does not resolve.
        """
        if not has_interpolation(value):
            return value
        ready = Relatives(self, absolute=True).settle(rewrite_tree(value), at)
        try:
            holder = OmegaConf.create({_HOLDER: ready})
            holder._set_parent(self._config)
            return _to_plain(holder[_HOLDER])
        except OmegaConfBaseException as error:
            problem = self._explain(error, at)
            if problem.where.partition(".")[0].partition("[")[0] == _HOLDER:
                problem = replace(problem, where=at)
            raise CannotCompose((problem,)) from None

    def put(self, path: str, value: object) -> None:
        """Write `value` at a dotted path; what refers to it sees the new value."""
        with read_write(self._config), open_dict(self._config):
            ready = rewrite_tree(value)
            OmegaConf.update(self._config, path, ready, merge=False, force_add=True)
        self._leaves = None

    def to_dict(self) -> Mapping[str, object]:
        """Everything resolved.

        Raises:
            CannotCompose: with every value that does not resolve (the first twenty).
        """
        try:
            return _plain_dict(self._config)
        except OmegaConfBaseException as error:
            problems = self._all_problems() or (self._explain(error, ""),)
            raise CannotCompose(problems) from None

    def written_dict(self) -> Mapping[str, object]:
        """Everything as written, interpolations unresolved."""
        return _make_text_keys(OmegaConf.to_container(self._config, resolve=False))

    def _all_problems(self, prefix: str = "") -> tuple[Problem, ...]:
        """What hinders each leaf whose path starts with `prefix`."""
        found: list[Problem] = []
        for path in self.leaf_paths():
            if not path.startswith(prefix):
                continue
            try:
                self.select(path)
            except KeyError:
                continue
            except CannotCompose as error:
                found += error.problems
            if len(found) >= MOST_PROBLEMS:
                break
        return group_by_cause(found, self._as_text)

    def _as_text(self, path: str) -> str:
        try:
            return str(self.raw(path))
        except KeyError:
            return ""

    def _explain(self, error: Exception, at: str) -> Problem:
        return resolve_problem(error, self.leaf_paths(), at)


def group_by_cause(
    problems: Iterable[Problem], written: Callable[[str], str]
) -> tuple[Problem, ...]:
    """One finding for each cause: keys that read a broken key fail in its words."""
    found_by: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        places = found_by.setdefault((problem.message, problem.hint), [])
        if problem.where not in places:
            places.append(problem.where)
    return tuple(
        Problem(_add_places(message, places), where=places[0], hint=hint)
        for (message, hint), found in found_by.items()
        for places in [_sort_by_cause(found, written)]
    )


def _sort_by_cause(places: list[str], written: Callable[[str], str]) -> list[str]:
    """The key that reads none of the others, and then those; in a ring as they are."""
    for place in places:
        text = written(place)
        others = [other for other in places if other != place]
        if text and not any(_is_reading(text, other) for other in others):
            return [place, *others]
    return places


def _is_reading(text: str, key: str) -> bool:
    """Whether a text as written names a key: whole, or relative to its own."""
    tail = re.escape(key.rpartition(".")[2])
    named = rf"(?<![\w.-]){re.escape(key)}|\{{\.+(?:[\w-]+\.)*{tail}"
    return re.search(rf"(?:{named})(?![\w-])", text) is not None


def _add_places(message: str, places: list[str]) -> str:
    return f"{message} (also: {', '.join(places[1:])})" if places[1:] else message


# -------------------------------------------------------------------- raw nodes
def find_node(config: DictConfig, path: str) -> Node | None:
    """The node at a dotted path, following interpolations on the way; None: absent."""
    node: Any = config
    for key in path.split(".") if path else []:
        node = _get_child(_follow_node(node), key)
        if node is None:
            return None
    return node if isinstance(node, Node) else None


def _follow_node(node: Any) -> Any:
    """What an interpolated node stands for; itself when that does not resolve."""
    if not isinstance(node, Node) or not node._is_interpolation():
        return node
    try:
        return node._dereference_node()
    except OmegaConfBaseException:
        return None


def _get_child(node: Any, key: str) -> Any:
    if isinstance(node, DictConfig) and not node._is_none():
        return node._get_node(key, validate_access=False)
    if isinstance(node, ListConfig) and key.isdigit() and int(key) < len(node):
        return node._get_node(int(key))
    return None


def written(node: Node) -> object:
    """A node's value as written, in plain Python."""
    if isinstance(node, DictConfig | ListConfig):
        return OmegaConf.to_container(node, resolve=False)
    return node._value()


def _list_leaves(config: DictConfig, prefix: str) -> Iterator[str]:
    if config._is_none() or config._is_interpolation() or config._is_missing():
        return
    for key in config:
        path = f"{prefix}.{key!s}" if prefix else str(key)
        node = config._get_node(key)
        if isinstance(node, DictConfig) and _has_keys(node):
            yield from _list_leaves(node, path)
        else:
            yield path


def _has_keys(node: DictConfig) -> bool:
    special = node._is_none() or node._is_interpolation() or node._is_missing()
    return not special and len(node) > 0


def _to_plain(value: object) -> object:
    if isinstance(value, DictConfig | ListConfig):
        return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
    return value


def _plain_dict(config: DictConfig) -> dict[str, object]:
    return _make_text_keys(_to_plain(config))


def _make_text_keys(found: object) -> dict[str, object]:
    return {str(k): v for k, v in found.items()} if isinstance(found, dict) else {}


def has_interpolation(value: object) -> bool:
    """Whether any string of `value` holds an interpolation."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, Mapping):
        return any(has_interpolation(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(has_interpolation(item) for item in value)
    return False


# ------------------------------------------------------------ relative references
class HasKeys(Protocol):
    """A config that can be asked for keys."""

    def has(self, path: str) -> bool:
        """Whether the key exists, resolved or not."""
        ...


@dataclass(frozen=True, slots=True)
class Relatives:
    """Where `${.x}` points when the key beside it does not exist: the job's `aux`."""

    view: HasKeys
    absolute: bool
    """True: a path that exists is spelled from the root; False: it stays as it is."""

    def settle(self, value: object, at: str, around: tuple[object, ...] = ()) -> object:
        """`value`, set on the key `at`, with its relative interpolations settled.

        `around`: the containers that hold it within the value, innermost first.
        """
        if isinstance(value, str):
            return _RELATIVE.sub(lambda m: self._settle(m, at, around), value)
        inner = (value, *around)
        if isinstance(value, Mapping):
            return {k: self.settle(v, at, inner) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.settle(v, at, inner) for v in value]
        return value

    def _settle(self, m: re.Match[str], at: str, around: tuple[object, ...]) -> str:
        up, path = len(m["dots"]), m["path"]
        if up <= len(around):
            held = _contains(around[up - 1], path)
            return m[0] if held else self._find_in_aux(path) or m[0]
        above = at.split(".") if at else []
        parent = above[: max(0, len(above) - (up - len(around)))]
        target = ".".join([*parent, path])
        if self.view.has(target):
            return f"${{{target}}}" if self.absolute else m[0]
        return self._find_in_aux(path) or (f"${{{target}}}" if self.absolute else m[0])

    def _find_in_aux(self, path: str) -> str | None:
        for candidate in (f"aux.{path}", path if path.startswith("aux.") else ""):
            if candidate and self.view.has(candidate):
                return f"${{{candidate}}}"
        return None


def _contains(container: object, path: str) -> bool:
    """Whether a plain container holds a dotted path."""
    for key in path.split("."):
        if isinstance(container, Mapping) and key in container:
            container = container[key]
        elif isinstance(container, list) and key.isdigit():
            if int(key) >= len(container):
                return False
            container = container[int(key)]
        else:
            return False
    return True
