"""Evaluates `${...}` over plain trees, and notes what each value was made of.

OmegaConf's own parser and visitor do the reading; only looking keys up is ours, over
nested dicts instead of nodes, so that thousands of jobs share one tree. Where its
rules are not certainly these, `Doubtful` is raised and the caller asks OmegaConf.

A value is remembered with the reads that it was made of, in order. Whoever finds the
same values behind the same reads gets the same result: each read decides what is read
next. (The "verifying traces" of Mokhov, Mitchell and Peyton Jones, Build Systems a la
Carte, 2018.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from omegaconf import OmegaConf
from omegaconf._utils import split_key
from omegaconf.grammar_visitor import GrammarVisitor

from autoexp_tui.config.parse_trees import parse_tree
from autoexp_tui.config.plain_tree import ABSENT, Path, at
from autoexp_tui.config.quick_texts import Quick, quick
from autoexp_tui.config.resolvers import PURE

MISSING: Final = "???"
_MOST_TEXTS: Final = 50_000
"""A job may have a text of its own; beyond this all are forgotten."""
_MOST_RESULTS: Final = 20_000
"""Of one text; after that they are forgotten and made anew."""
_NO_KEY: Final = ""
"""Before the name of a resolver, where keys are sought that are not there."""
_SCALARS: Final = (str, int, float, bool, type(None))


class Doubtful(Exception):
    """OmegaConf has to be asked."""


class Absent(Doubtful):
    """There is no such key."""


@dataclass(frozen=True, slots=True)
class Place:
    """A dict or a list that an interpolation stands for."""

    path: Path

    def __str__(self) -> str:
        """Raises Doubtful: a container inside a text is spelled by OmegaConf alone."""
        raise Doubtful(self.path)


class Reading(Protocol):
    """One job's tree, with the values that are known by now."""

    @property
    def tree(self) -> Any:
        """As written."""
        ...

    def value(self, path: Path) -> object:
        """The resolved value of a leaf, or a `Place`.

        Raises:
            Absent: there is no such key.
            Doubtful: it is missing, or not certain.
        """
        ...


def is_open(value: object) -> bool:
    """Whether a value as written is an interpolation (or escapes one)."""
    return isinstance(value, str) and "${" in value


@dataclass(slots=True)
class Trace:
    """What one evaluation looked at."""

    reads: dict[Path, object] = field(default_factory=dict)
    """Path -> the value found there; a `Place` for dicts and lists."""
    crossed: dict[Path, str] = field(default_factory=dict)
    """Path on the way -> the interpolation that stood there."""
    sought: set[Path] = field(default_factory=set)
    """Where nothing could be read, so that it went no further."""
    impure: bool = False
    """A resolver was met that may give another result each time."""


Shape: TypeAlias = tuple[tuple[Path, ...], tuple[tuple[Path, str], ...]]


class Evaluations:
    """Results of the interpolations of one tree's shape, over all its jobs."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Path], dict[Shape, dict[Any, object]]] = {}
        self.made = 0
        """How often a text was really evaluated."""

    def value(self, reading: Reading, text: str, parent: Path) -> object:
        """What `text`, written below `parent`, stands for.

        Raises:
            Doubtful: OmegaConf has to say.
        """
        if len(self._known) >= _MOST_TEXTS:
            self._known.clear()
        shapes = self._known.setdefault((text, parent), {})
        for shape, results in shapes.items():
            key = _key(reading, shape)
            if key is not None and key in results:
                return results[key]
        trace = Trace()
        found = evaluate(reading, text, parent, trace)
        self.made += 1
        key = _frozen(trace.reads.values())
        results = shapes.setdefault(
            (tuple(trace.reads), tuple(trace.crossed.items())), {}
        )
        if len(results) >= _MOST_RESULTS:
            results.clear()
        results[key] = found
        return found


def _key(reading: Reading, shape: Shape) -> Any:
    """The values behind a shape's reads; None when they cannot all be read."""
    paths, crossed = shape
    if any(at(reading.tree, path) != text for path, text in crossed):
        return None
    try:
        return _frozen(_value_or_absent(reading, path) for path in paths)
    except Doubtful:
        return None


def _value_or_absent(reading: Reading, path: Path) -> object:
    try:
        return reading.value(path)
    except Absent:
        return ABSENT


def _frozen(values: Iterable[object]) -> Any:
    """Values as a key; equal numbers of different types are not the same."""
    return tuple(
        (list, tuple(value)) if isinstance(value, list) else (type(value), value)
        for value in values
    )


# ------------------------------------------------------------------- one evaluation
def evaluate(reading: Reading, text: str, parent: Path, trace: Trace) -> object:
    """What `text` stands for; `trace` is told what was looked at.

    Raises:
        Doubtful: OmegaConf has to say.
    """

    def looked_up(inter_key: str, memo: object) -> object:
        return _looked_up(reading, inter_key, parent, trace)

    def called(name: str, args: tuple[Any, ...], args_str: tuple[str, ...]) -> object:
        if name == "oc.select":
            return _selected(reading, args, parent, trace)
        if name not in PURE:
            if OmegaConf.has_resolver(name):
                trace.impure = True
            else:
                trace.sought.add((_NO_KEY, name))
        return _call(name, args, args_str)

    try:
        parts = quick(text)
        found = (
            _visited(text, looked_up, called)
            if parts is None
            else _put_together(
                parts,
                [_looked_up(reading, key, parent, trace) for key in parts.keys],
            )
        )
    except Absent as error:  # what it reads is; the text itself is there
        raise Doubtful(text) from error
    except Doubtful:
        raise
    except Exception as error:  # whatever it is, OmegaConf tells it in its own words
        raise Doubtful(text) from error
    if not _is_certain(found, parent):
        raise Doubtful(text)
    return found


def _is_certain(found: object, parent: Path) -> bool:
    """Whether a result means the same to us as to OmegaConf."""
    if isinstance(found, Place):
        return (
            parent[: len(found.path)] != found.path
        )  # it refuses a node's own parents
    if isinstance(found, list):
        return all(type(item) in _SCALARS and not is_open(item) for item in found)
    return type(found) in _SCALARS and found != MISSING and not is_open(found)


def _visited(
    text: str, looked_up: Callable[..., object], called: Callable[..., object]
) -> object:
    """By OmegaConf's grammar."""
    visitor = GrammarVisitor(
        node_interpolation_callback=looked_up,  # type: ignore[arg-type]
        resolver_interpolation_callback=called,
        memo=None,
    )
    return visitor.visit(parse_tree(text))


def _put_together(parts: Quick, values: Sequence[object]) -> object:
    """The same of a text that needs no grammar, from the values of its keys."""
    if parts.expression:
        given = (parts.expression, *values)
        return _call("oc.eval", given, tuple(map(str, given)))
    if parts.alone:
        return values[0]
    mixed = list(parts.pieces)
    mixed[1::2] = map(str, values)
    return "".join(mixed)


@lru_cache(maxsize=8192)
def keys_of(dotted: str) -> tuple[str, ...]:
    """The keys of `a.b` or `a[b]`."""
    return tuple(split_key(dotted))


def _call(name: str, args: tuple[Any, ...], args_str: tuple[str, ...]) -> object:
    """A resolver that only its arguments decide."""
    if name not in PURE or any(isinstance(argument, Place) for argument in args):
        raise Doubtful(name)
    resolver: Callable[..., object] | None = OmegaConf._get_resolver(name)
    if resolver is None:
        raise Doubtful(name)
    return resolver(None, None, None, args, args_str)


def _selected(
    reading: Reading, args: tuple[Any, ...], parent: Path, trace: Trace
) -> object:
    """`oc.select`: a key that may be absent, and what to take then."""
    if len(args) not in (1, 2) or not isinstance(args[0], str) or args[0][:1] == ".":
        raise Doubtful(args)
    try:
        return _looked_up(reading, args[0], parent, trace)
    except Absent:
        if len(args) == 1:
            raise
        trace.sought.clear()
        trace.reads[keys_of(args[0])] = ABSENT
        return args[1]


def _looked_up(reading: Reading, inter_key: str, parent: Path, trace: Trace) -> object:
    keys = _absolute(inter_key, parent)
    path: Path = keys
    try:
        path = canonical(reading, keys, trace)
        found = reading.value(path)
    except Doubtful:
        trace.sought.add(path)
        raise
    trace.reads[path] = found
    return found


@lru_cache(maxsize=8192)
def _absolute(inter_key: str, parent: Path) -> tuple[str, ...]:
    """The keys that an interpolation names, from the root."""
    bare = inter_key.lstrip(".")
    up = len(inter_key) - len(bare)
    keys = keys_of(bare)
    if up == 0:
        return keys
    if up - 1 > len(parent):
        raise Doubtful(inter_key)
    above = parent[: len(parent) - (up - 1)]
    return (*map(str, above), *keys)


def canonical(reading: Reading, keys: Sequence[str], trace: Trace) -> Path:
    """Where the keys lead: interpolated dicts and lists on the way are followed.

    Raises:
        Doubtful: they lead nowhere, or the way is not certain.
    """
    if _is_straight(reading.tree, keys):
        return tuple(keys)
    path: Path = ()
    node = reading.tree
    for key in keys:
        if node == MISSING or node is None:
            raise Doubtful(keys)
        if is_open(node):
            trace.crossed[path] = node
            target = reading.value(path)
            if not isinstance(target, Place):
                raise Doubtful(keys)
            path = target.path
            trace.reads[path] = target
            node = at(reading.tree, path)
        step = _step(node, key)
        path = (*path, step)
        node = at(node, (step,))
        if node is ABSENT:
            raise Absent(keys)
    return path


def _is_straight(node: Any, keys: Sequence[str]) -> bool:
    """Whether dicts alone lead there."""
    for key in keys:
        if not isinstance(node, dict):
            return False
        node = node.get(key, ABSENT)
    return node is not ABSENT


def _step(node: object, key: str) -> str | int:
    if isinstance(node, list):
        if not key.isdigit():
            raise Doubtful(key)
        return int(key)
    return key


def plain(value: object) -> bool:
    """Whether a tree holds nothing but dicts by text keys, lists and scalars."""
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and plain(v) for k, v in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return type(value) in _SCALARS
