"""Jobs as a template with their own values in it.

Jobs that choose the same groups share a *template*: what Hydra composes without their
own values. A value is put into it where it is certain that Hydra would do no more:
plain `key=value`, with a scalar or a list of them, over a scalar or a new key. All else
belongs to the template as it is written. Only what was made of changed keys is resolved
anew (see `config_view`).

Evaluates `${...}` over plain trees, and notes what each value was made of.

OmegaConf's own parser and visitor do the reading; only looking keys up is ours, over
nested dicts instead of nodes, so that thousands of jobs share one tree. Where its
rules are not certainly these, `Doubtful` is raised and the caller asks OmegaConf.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, zip_longest
from typing import Any, Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.grammar_parser import parse
from omegaconf.grammar_visitor import GrammarVisitor

from autoexp_tui.config.resolvers import PURE
from autoexp_tui.planning.overrides import BARE, MISSING
from autoexp_tui.text.plain_tree import (
    ABSENT,
    Path,
    at,
    leaves,
    touches,
    unpatched,
    with_values,
)

_SCALARS: Final = (str, int, float, bool, type(None))
_KEY: Final = re.compile(r"[^.\[\]]+")
_NODE: Final = re.compile(r"\$\{(\.*[A-Za-z_]\w*(?:\.\w+)*)\}", re.ASCII)
"""An interpolation that most configs have, and that needs no grammar."""
_parse: Final = lru_cache(maxsize=2048)(parse)


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


def is_open(value: object) -> bool:
    """Whether a value as written is an interpolation (or escapes one)."""
    return isinstance(value, str) and "${" in value


@dataclass(slots=True)
class Values:
    """The resolved values of one tree, each made once; or `Doubtful`, everywhere."""

    tree: Any
    _known: dict[Path, tuple[object, set[Path]] | None] = field(default_factory=dict)
    """Leaf -> its value and all it was made of; None: it has none, or not yet."""
    _reads: list[set[Path]] = field(default_factory=lambda: [set()])
    """What was looked at, for each value that is being made."""

    @contextmanager
    def note_reads(self) -> Iterator[set[Path]]:
        """Inside, every path that is looked at is noted in the set."""
        found: set[Path] = set()
        self._reads.append(found)
        try:
            yield found
        finally:
            self._reads.pop()
            self._reads[-1] |= found

    def resolve(self, path: Path) -> object:
        """The resolved value at a path, dicts and lists with all that is in them."""
        found = self.get_value(path)
        if not isinstance(found, Place):
            return found
        path, node = found.path, at(self.tree, found.path)
        if isinstance(node, dict):
            return {key: self.resolve((*path, key)) for key in node}
        return [self.resolve((*path, index)) for index in range(len(node))]

    def get_value(self, path: Path) -> object:
        """The resolved value of a leaf, or a `Place`; raises `Absent` without one."""
        self._reads[-1].add(path)
        node = at(self.tree, path)
        if node is ABSENT:
            raise Absent(path)
        if isinstance(node, dict | list):
            return Place(path)
        if node == MISSING:
            raise Doubtful(path)
        if not is_open(node):
            return node
        if path not in self._known:
            self._known[path] = None
            with self.note_reads() as reads:
                self._known[path] = self.evaluate(node, path[:-1]), reads
        known = self._known[path]
        if known is None:
            raise Doubtful(path)
        self._reads[-1] |= known[1]
        return known[0]

    def evaluate(self, text: str, parent: Path = ()) -> object:
        """What `text`, written below `parent`, stands for: a scalar or a `Place`."""
        pieces = _split_plain(text)
        try:
            if pieces is not None:
                values = [self._look_up(key, parent) for key in pieces[1::2]]
                rows = zip_longest(pieces[::2], values, fillvalue="")
                # A key alone keeps its type.
                is_alone = len(pieces) == 3 and not pieces[0] and not pieces[2]
                found = values[0] if is_alone else "".join(map(str, chain(*rows)))
            else:
                visitor = GrammarVisitor(
                    node_interpolation_callback=lambda key, memo: self._look_up(  # type: ignore[arg-type,return-value]
                        key, parent
                    ),
                    resolver_interpolation_callback=partial(self._call, parent=parent),
                    memo=None,
                )
                found = visitor.visit(_parse(text))
        except Exception as error:  # OmegaConf tells it in its own words
            raise Doubtful(text) from error
        if not _is_certain(found, parent):
            raise Doubtful(text)
        return found

    def locate(self, keys: Sequence[str]) -> Path:
        """Where keys lead, interpolated dicts and lists followed; or `Absent`."""
        if at(self.tree, tuple(keys)) is not ABSENT:
            return tuple(keys)
        path: Path = ()
        for key in keys:
            node = at(self.tree, path)
            if node is None or node == MISSING:
                raise Doubtful(path)
            if is_open(node):  # it stands for another dict or list
                found = self.get_value(path)
                if not isinstance(found, Place):
                    raise Doubtful(path)
                path, node = found.path, at(self.tree, found.path)
            if isinstance(node, list) and not key.isdigit():
                raise Doubtful(keys)
            path = (*path, int(key) if isinstance(node, list) else key)
            if at(self.tree, path) is ABSENT:
                self._reads[-1].add(path)
                raise Absent(keys)
        return path

    def _look_up(self, key: str, parent: Path) -> object:
        """What `key` stands for in an interpolation below `parent`."""
        bare = key.lstrip(".")
        up = len(key) - len(bare)
        if up - 1 > len(parent):
            raise Doubtful(key)
        above = map(str, parent[: len(parent) + 1 - up] if up else ())
        return self.get_value(self.locate((*above, *split_keys(bare))))

    def _call(
        self, name: str, args: tuple[Any, ...], args_str: Any, parent: Path
    ) -> object:
        """A resolver that only its arguments decide."""
        if name == "oc.select":
            # A key that may be absent, and what to take then.
            key, *default = args
            if not isinstance(key, str) or key[:1] == "." or len(default) > 1:
                raise Doubtful(args)
            try:
                return self._look_up(key, parent)
            except Absent:
                if not default:
                    raise
                return default[0]
        call: Callable[..., object] | None = OmegaConf._get_resolver(name)
        is_certain = name in PURE and not any(isinstance(arg, Place) for arg in args)
        if call is None or not is_certain:
            raise Doubtful(name)
        return call(None, None, None, args, args_str)


@lru_cache(maxsize=8192)
def _split_plain(text: str) -> Sequence[str] | None:
    """Words and keys in turn, of a text of `${a.b}`; None: it needs the grammar."""
    pieces = _NODE.split(text)
    words = pieces[::2]
    return None if any("${" in word or "\\" in word for word in words) else pieces


@lru_cache(maxsize=8192)
def split_keys(dotted: str) -> tuple[str, ...]:
    """The keys of `a.b` or `a[b]`."""
    return tuple(_KEY.findall(dotted))


def _is_certain(found: object, parent: Path) -> bool:
    """Whether a result means the same to us as to OmegaConf."""
    if isinstance(found, Place):  # it refuses a node's own parents
        return parent[: len(found.path)] != found.path
    items = found if isinstance(found, list) else [found]
    is_missing = found == MISSING
    return not is_missing and all(
        type(item) in _SCALARS and not is_open(item) for item in items
    )


_SET: Final = re.compile(r"(\+{0,2})([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)=(.*)", re.ASCII)
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_REAL: Final = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?|-?\d+e[+-]\d+", re.ASCII)
_WORDS: Final = frozenset({"null", "true", "false", "nan", "inf"})
_RELATIVE: Final = "${."
"""Such a text is settled while a config is composed; see `hydra_compose`."""
_UNSURE: Final = object()
_APART: Final = frozenset({"hydra", "sweep"})
"""What no job's config has, whatever overrides say."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A plain value on a key."""

    mark: str
    """`+`: the key is new; `++`: it may be; empty: it is there."""
    path: Path
    value: object


@dataclass(frozen=True, slots=True)
class JobKeys:
    """A job's overrides and mounts: what it shares with others, and its own values."""

    structure: object
    """Equal for jobs that share a template."""
    texts: Sequence[str]
    """With `mounts`, what a template is composed of."""
    mounts: Mapping[str, object]
    settings: Sequence[Setting]


def split_overrides(
    texts: Sequence[str],
    mounts: Mapping[str, object],
    is_group: Callable[[str], bool],
) -> JobKeys:
    """Tell the values of overrides (as Hydra is given them) and mounts apart."""
    names = [text.partition("=")[0].lstrip("+~") for text in texts]
    pairs = zip(texts, names, strict=True)
    free = [(text, name) for text, name in pairs if not is_group(name)]
    plain = {
        key: value
        for key, value in mounts.items()
        if _is_plain(value) and not isinstance(value, list) and not is_open(value)
    }
    rest = {key: value for key, value in mounts.items() if key not in plain}
    keys: list[Path] = [tuple(name.partition("@")[0].split(".")) for _, name in free]
    keys += [(key,) for key in rest]
    found: dict[str, Setting] = {}
    for text, _ in free:
        one = parse_setting(text)
        # Of keys that meet, the order decides: Hydra puts them in.
        if one is not None and sum(touches(one.path, key) for key in keys) == 1:
            found[text] = one
    own = [*found.values(), *(Setting("++", (k,), value) for k, value in plain.items())]
    shared = tuple(text for text in texts if text not in found)
    structure = (shared, repr(rest))
    if _RELATIVE not in repr(structure):
        return JobKeys(structure, shared, rest, own)
    # What a relative text means hangs on the keys beside it: all are to be there.
    heads = [(one.mark, one.path) for one in own]
    own = [replace(one, mark="++") for one in own]
    return JobKeys((*structure, *heads), texts, mounts, own)


@lru_cache(maxsize=8192)
def parse_setting(text: str) -> Setting | None:
    """What a plain `key=value` sets, or chooses; None: it does more."""
    match = _SET.fullmatch(text)
    value = parse_value(match[3]) if match else _UNSURE
    if match is None or value is _UNSURE:
        return None
    return Setting(match[1], tuple(match[2].split(".")), value)


def parse_value(written: str) -> object:
    """A plain value as Hydra's grammar reads it, which takes long; else `_UNSURE`."""
    if BARE.fullmatch(written) and written.lower() not in _WORDS:
        return written
    if _WHOLE.fullmatch(written):
        return int(written)
    if _REAL.fullmatch(written):
        return float(written)
    try:
        override = OverridesParser.create().parse_override(f"key={written}")
    except (HydraException, RecursionError):
        return _UNSURE
    value: object = _UNSURE if override.is_sweep_override() else override.value()
    return value if value is None or _is_plain(value) else _UNSURE


def _is_plain(value: object) -> bool:
    """Whether a value is set as it is, whatever stands in the config."""
    if isinstance(value, list):
        return all(item is None or _is_plain(item) for item in value)
    if isinstance(value, str):
        return value != MISSING and _RELATIVE not in value
    return type(value) in (int, float, bool) and value == value


class Template:
    """A config as written and resolved, into which jobs put their values."""

    def __init__(self, tree: Any) -> None:
        """`tree`: nested dicts and lists, with interpolations."""
        self.tree = tree
        self.resolved = tree
        """With every value resolved of which that is certain."""
        self._reads: dict[Path, set[Path] | None] = {}
        """Interpolated leaf -> all it was made of; None: that is not certain."""
        self._affected: dict[tuple[Path, ...], tuple[Path, ...]] = {}
        values = Values(tree)
        found: dict[Path, object] = {}
        for path, value in leaves(tree):
            if value == MISSING or is_open(value):
                self._reads[path] = None
                with suppress(Doubtful), values.note_reads() as reads:
                    found[path] = values.resolve(path)
                    self._reads[path] = reads
        if found:
            self.resolved = unpatched(with_values(tree, found))

    def takes(self, settings: Iterable[Setting], closed: Collection[str]) -> bool:
        """Whether Hydra, too, would merely put these values in. `closed`: keys that
        have a meaning where a config lacks them."""
        for one in settings:
            above = [at(self.tree, one.path[:size]) for size in range(1, len(one.path))]
            if one.path[0] in _APART or any(
                not isinstance(node, dict) and node is not ABSENT for node in above
            ):
                return False
            held = at(self.tree, one.path)
            if held is ABSENT:
                is_free = bool(one.mark) or ".".join(map(str, one.path)) in closed
            else:
                is_scalar = not isinstance(held, dict | list)
                both_lists = isinstance(held, list) and isinstance(one.value, list)
                is_free = one.mark != "+" and (is_scalar or both_lists)
            if not is_free:
                return False
        return True

    def find_affected(self, changed: tuple[Path, ...]) -> tuple[Path, ...]:
        """Where resolved values may differ from the template's when these keys do. New
        keys are in the order of `changed`; no path lies below another."""
        if changed not in self._affected:
            readers = (
                path
                for path, reads in self._reads.items()
                if reads is None or any(touches(a, b) for a in changed for b in reads)
            )
            found = dict.fromkeys([*changed, *readers])
            self._affected[changed] = tuple(
                path
                for path in found
                if not any(path[:size] in found for size in range(len(path)))
            )
        return self._affected[changed]
