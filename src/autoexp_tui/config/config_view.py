"""One composed config as planning sees it: a tree of dicts and lists, resolved lazily.

A value which makes sense for some jobs alone hurts no others. What `Values` is not
certain of is asked of OmegaConf, over the same tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from autoexp_tui.config.hydra_errors import resolve_problem
from autoexp_tui.config.job_template import (
    Absent,
    Doubtful,
    Place,
    Template,
    Values,
    split_keys,
)
from autoexp_tui.config.resolvers import rewrite_tree
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.text.plain_tree import (
    ABSENT,
    Path,
    at,
    map_texts,
    unpatched,
    with_values,
)

_RELATIVE: Final = re.compile(
    r"(?<!\\)\$\{(?P<dots>\.+)(?P<path>[A-Za-z_][\w\-]*(?:\.[\w\-]+)*)\}"
)
MOST_PROBLEMS: Final = 20
_HOLDER: Final = "_interpolated_"
"""Where a value lies that is no part of the config; told as the key that was given."""


class ConfigTree:
    """A `planning.ports.ConfigView` over nested dicts and lists as written."""

    def __init__(
        self,
        tree: Any,
        make_config: Callable[[Any], DictConfig] = OmegaConf.create,
        template: Template | None = None,
        changed: tuple[Path, ...] = (),
        *,
        is_certain: bool = True,
    ) -> None:
        """`make_config`: OmegaConf's config of a tree, for what is in doubt; without
        `is_certain`, all of it. `template`: what the tree was made of, where `changed`
        are its own keys."""
        self._make_config = make_config
        self._template = template
        self._changed = changed
        self._is_certain = is_certain
        self._take(tree)

    def _take(self, tree: Any) -> None:
        self.tree = tree
        self._values = Values(tree)
        self._config: DictConfig | None = None
        self._leaves: tuple[str, ...] | None = None

    def select(self, path: str) -> object:
        """The resolved value at `path` as plain Python; KeyError when absent."""
        try:
            return self._resolve(self._locate(path))
        except Absent:
            raise KeyError(path) from None
        except Doubtful:
            config = self._open()
        try:
            found = OmegaConf.select(
                config, path, default=ABSENT, throw_on_missing=True
            )
            if found is not ABSENT:
                return _to_plain(found)
        except OmegaConfBaseException as error:
            below = self._list_problems(f"{path}.")
            raise CannotCompose(below or (self._explain(error, path),)) from None
        raise KeyError(path)

    def raw(self, path: str) -> object:
        """The value as written; KeyError when absent."""
        try:
            return unpatched(at(self.tree, self._locate(path)))
        except Doubtful:
            raise KeyError(path) from None

    def has(self, path: str) -> bool:
        """Whether the key exists, resolved or not."""
        try:
            return self._locate(path) is not None
        except Doubtful:
            return False

    def leaf_paths(self) -> Sequence[str]:
        """Dotted paths of all leaves in order; a list is one leaf."""
        if self._leaves is None:
            self._leaves = tuple(list_leaf_paths(self.tree))
        return self._leaves

    def interpolate(self, value: object, at: str = "") -> object:
        """`value` with every `${...}` resolved in this config."""
        if "${" not in repr(value):
            return value
        ready = settle_relatives(self, rewrite_tree(value), at)
        with suppress(Doubtful):
            if self._is_certain:
                return map_texts(ready, self._evaluate)
        try:
            holder = OmegaConf.create({_HOLDER: ready})
            holder._set_parent(self._open())
            return _to_plain(holder[_HOLDER])
        except OmegaConfBaseException as error:
            problem = self._explain(error, at)
            if problem.where.partition(".")[0].partition("[")[0] == _HOLDER:
                problem = replace(problem, where=at)
            raise CannotCompose((problem,)) from None

    def put(self, path: str, value: object) -> None:
        """Write `value` at a dotted path; what refers to it sees the new value."""
        keys, ready = tuple(path.split(".")), rewrite_tree(value)
        self._changed = (*self._changed, keys)
        if "[" not in path:
            with suppress(LookupError):
                self._take(with_values(self.tree, {keys: ready}))
                return
        config = OmegaConf.create(unpatched(self.tree))
        OmegaConf.update(config, path, ready, merge=False, force_add=True)
        self._template = None
        self._take(OmegaConf.to_container(config, resolve=False))

    def to_dict(self) -> Mapping[str, object]:
        """Everything resolved; CannotCompose tells the first twenty that do not."""
        with suppress(Doubtful):
            if self._template is None:
                return _make_text_keys(self._resolve(()))
            # Of what the template has resolved only what may differ.
            affected = self._template.find_affected(self._changed)
            found = {path: self._resolve(path) for path in affected}
            made: Mapping[str, object] = with_values(self._template.resolved, found)
            return made
        try:
            return _make_text_keys(_to_plain(self._open()))
        except OmegaConfBaseException as error:
            problems = self._list_problems() or (self._explain(error, ""),)
            raise CannotCompose(problems) from None

    def written_dict(self) -> Mapping[str, object]:
        """Everything as written, interpolations unresolved."""
        return _make_text_keys(self.tree)

    def _locate(self, path: str) -> Path:
        """Where a dotted path leads."""
        if path and "" in path.split("."):
            raise Doubtful(path)
        return self._values.locate(split_keys(path))

    def _resolve(self, path: Path) -> object:
        if not self._is_certain:
            raise Doubtful(path)
        return self._values.resolve(path)

    def _evaluate(self, text: str) -> object:
        """A text that stands nowhere in the config, with every `${...}` resolved."""
        found = self._values.evaluate(text)
        return self._resolve(found.path) if isinstance(found, Place) else found

    def _open(self) -> DictConfig:
        if self._config is None:
            self._config = self._make_config(unpatched(self.tree))
        return self._config

    def _list_problems(self, prefix: str = "") -> tuple[Problem, ...]:
        """What hinders each leaf whose path starts with `prefix`, told once a cause.
        Keys that read a broken key fail in its words."""
        found: dict[tuple[str, str], dict[str, None]] = {}
        for path in self.leaf_paths():
            if (
                path.startswith(prefix)
                and sum(map(len, found.values())) < MOST_PROBLEMS
            ):
                try:
                    self.select(path)
                except KeyError:
                    continue
                except CannotCompose as error:
                    for one in error.problems:
                        found.setdefault((one.message, one.hint), {})[one.where] = None
        problems: list[Problem] = []
        for (message, hint), (*places,) in found.items():
            cause = min(places, key=lambda one: self._reads_one(one, places))
            others = ", ".join(place for place in places if place != cause)
            text = f"{message} (also: {others})" if others else message
            problems.append(Problem(text, where=cause, hint=hint))
        return tuple(problems)

    def _reads_one(self, path: str, places: Sequence[str]) -> bool:
        """Whether a key, as written, seems to read another of these."""
        with suppress(KeyError):
            text = str(self.raw(path))
            return any(one.rpartition(".")[2] in text for one in places if one != path)
        return True

    def _explain(self, error: Exception, at: str) -> Problem:
        return resolve_problem(error, self.leaf_paths(), at)


def list_leaf_paths(node: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """Dotted paths of all leaves in order; a list is one leaf, an empty dict too."""
    for key, value in node.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, dict) and value:
            yield from list_leaf_paths(value, path)
        else:
            yield path


def _to_plain(value: object) -> object:
    if isinstance(value, DictConfig | ListConfig):
        return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
    return value


def _make_text_keys(found: object) -> Mapping[str, object]:
    if not isinstance(found, dict):
        return {}
    if all(isinstance(key, str) for key in found):
        return found
    return {str(key): value for key, value in found.items()}


def settle_relatives(
    view: ConfigTree, value: object, at: str, around: tuple[object, ...] = ()
) -> object:
    """`value`, set on the key `at`, with its `${.x}` spelled from the root. Where the
    key beside it does not exist, `${.x}` is the job's `aux.x`. `around`: the containers
    that hold the value within what is set, innermost first."""
    if isinstance(value, str):
        return _RELATIVE.sub(lambda found: _settle(view, found, at, around), value)
    inner = (value, *around)
    if isinstance(value, Mapping):
        return {k: settle_relatives(view, v, at, inner) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [settle_relatives(view, one, at, inner) for one in value]
    return value


def _settle(
    view: ConfigTree, found: re.Match[str], at: str, around: tuple[object, ...]
) -> str:
    up, path = len(found["dots"]), found["path"]
    if up <= len(around):
        known, is_there = found[0], _contains(around[up - 1], path)
    else:
        above = at.split(".") if at else []
        parent = above[: max(0, len(above) - (up - len(around)))]
        target = ".".join([*parent, path])
        known, is_there = f"${{{target}}}", view.has(target)
    places = (f"aux.{path}", *((path,) if path.startswith("aux.") else ()))
    in_aux = next((f"${{{place}}}" for place in places if view.has(place)), known)
    return known if is_there else in_aux


def _contains(container: object, path: str) -> bool:
    """Whether a plain container holds a dotted path."""
    for key in path.split("."):
        is_index = isinstance(container, list) and key.isdigit()
        container = at(container, (int(key) if is_index else key,))
    return container is not ABSENT
