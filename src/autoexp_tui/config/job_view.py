"""Jobs as a template with their own values in it.

Jobs that choose the same groups share a *template*: what Hydra composes without their
own values. A value is put into it where it is certain that Hydra would do no more:
plain `key=value`, with a scalar or a list of them, over a scalar or a new key. All else
belongs to the template as it is written. Only what was made of changed keys is resolved
anew; whatever is not certain is asked of the config that Hydra composes for the job,
which a view can turn to at any moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final, TypeVar

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.nodes import AnyNode

from autoexp_tui.config.config_view import OmegaView, Relatives, has_interpolation
from autoexp_tui.config.eval_rewrite import rewrite_tree
from autoexp_tui.config.interpolations import (
    MISSING,
    Absent,
    Doubtful,
    Place,
    Values,
    is_open,
    split_keys,
)
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.overrides import BARE
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.text.plain_tree import (
    ABSENT,
    Path,
    at,
    leaves,
    touches,
    unpatched,
    with_values,
)

SWITCH: Final = "AUTOEXP_COMPOSE"
"""The environment variable that, set to `hydra`, has every job composed by Hydra."""
_SET: Final = re.compile(r"(\+{0,2})([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)=(.*)", re.ASCII)
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_REAL: Final = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?|-?\d+e[+-]\d+", re.ASCII)
_WORDS: Final = frozenset({"null", "true", "false", "nan", "inf"})
_RELATIVE: Final = "${."
"""Such a text is settled while a config is composed; see `hydra_compose`."""
_UNSURE: Final = object()
_APART: Final = frozenset({"hydra", "sweep"})
"""What no job's config has, whatever overrides say."""
T = TypeVar("T")


# ------------------------------------------------------------- what a job asks for
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

    @property
    def values(self) -> dict[Path, object]:
        """What it sets, by the keys it is set on."""
        return {one.path: one.value for one in self.settings}


def split_overrides(
    texts: Sequence[str],
    mounts: Mapping[str, object],
    is_group: Callable[[str], bool],
) -> JobKeys:
    """Tell the values of overrides (as Hydra is given them) and mounts apart."""
    found = [(text, parse_setting(text)) for text in texts]
    pairs = [
        (text, None if one is None or is_group(_find_name(text)) else one)
        for text, one in found
    ]
    # Of keys that meet, the order decides: Hydra puts them in.
    plain = {key: value for key, value in mounts.items() if _is_scalar(value)}
    keys = [_find_key(text) for text in texts if not is_group(_find_name(text))]
    keys += [(key,) for key in mounts.keys() - plain.keys()]
    own = [
        one
        for _, one in pairs
        if one is not None and sum(touches(one.path, key) for key in keys) == 1
    ]
    given = {id(one) for one in own}
    own += [Setting("++", (key,), value) for key, value in plain.items()]
    shared = tuple(text for text, one in pairs if id(one) not in given)
    rest = {key: value for key, value in mounts.items() if key not in plain}
    structure = (shared, repr(rest))
    if _RELATIVE not in repr(structure):
        return JobKeys(structure, shared, rest, own)
    # What a relative text means hangs on the keys beside it: all are to be there.
    heads = [(one.mark, one.path) for one in own]
    own = [replace(one, mark="++") for one in own]
    return JobKeys((*structure, *heads), texts, mounts, own)


def _find_name(text: str) -> str:
    return text.partition("=")[0].lstrip("+~")


def _find_key(text: str) -> Path:
    return tuple(_find_name(text).partition("@")[0].split("."))


@lru_cache(maxsize=8192)
def parse_setting(text: str) -> Setting | None:
    """What a plain `key=value` sets, or chooses; None: it does more."""
    match = _SET.fullmatch(text)
    value = _UNSURE if match is None else parse_value(match[3])
    if match is None or value is _UNSURE:
        return None
    return Setting(match[1], tuple(match[2].split(".")), value)


def parse_value(written: str) -> object:
    """A plain value as Hydra's grammar reads it; `_UNSURE` for anything else.

    Hydra's parser takes long, and most values need none.
    """
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


def _is_scalar(value: object) -> bool:
    return _is_plain(value) and not isinstance(value, list) and not is_open(value)


# -------------------------------------------------------------------- what is shared
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
        """Whether Hydra, too, would merely put these values in.

        `closed`: keys that have a meaning where a config lacks them.
        """
        return all(self._takes_one(one, closed) for one in settings)

    def _takes_one(self, one: Setting, closed: Collection[str]) -> bool:
        if one.path[0] in _APART:
            return False
        above = (at(self.tree, one.path[:size]) for size in range(1, len(one.path)))
        if not all(isinstance(node, dict) or node is ABSENT for node in above):
            return False
        held = at(self.tree, one.path)
        if held is ABSENT:
            return bool(one.mark) or ".".join(map(str, one.path)) in closed
        is_scalar = not isinstance(held, dict | list)
        both_lists = isinstance(held, list) and isinstance(one.value, list)
        return one.mark != "+" and (is_scalar or both_lists)

    def find_affected(self, changed: tuple[Path, ...]) -> tuple[Path, ...]:
        """Where resolved values may differ from the template's when these keys do.

        New keys are in the order of `changed`; no path lies below another.
        """
        if changed not in self._affected:
            found = dict.fromkeys([*changed, *self._find_readers(changed)])
            self._affected[changed] = tuple(
                path
                for path in found
                if not any(path[:size] in found for size in range(len(path)))
            )
        return self._affected[changed]

    def _find_readers(self, changed: tuple[Path, ...]) -> Iterator[Path]:
        for path, reads in self._reads.items():
            if reads is None or any(touches(a, b) for a in changed for b in reads):
                yield path


def make_template(config: DictConfig) -> Template | None:
    """What jobs can share of a config; None: nothing that is certain."""
    if not _is_untyped(config):
        return None
    tree: Any = OmegaConf.to_container(config, resolve=False)
    return Template(tree) if _has_text_keys(tree) else None


def _has_text_keys(tree: Any) -> bool:
    if isinstance(tree, dict):
        return all(isinstance(k, str) and _has_text_keys(v) for k, v in tree.items())
    return all(map(_has_text_keys, tree)) if isinstance(tree, list) else True


def _is_untyped(node: Any) -> bool:
    """Whether every value may be set to anything: no schema converts or refuses it."""
    if not isinstance(node, DictConfig | ListConfig):
        return type(node) is AnyNode
    metadata = node._metadata
    return (
        metadata.object_type in (dict, list, None)
        and metadata.element_type is Any
        and all(map(_is_untyped, _nodes_in(node)))
    )


def _nodes_in(node: DictConfig | ListConfig) -> Iterable[Any]:
    content = node._content
    if isinstance(content, dict):
        return content.values()
    return content if isinstance(content, list) else ()


# ------------------------------------------------------------------------- one job
class JobView:
    """A `planning.ports.ConfigView` over a template and a job's own values."""

    def __init__(
        self,
        template: Template,
        own: Mapping[Path, object],
        compose: Callable[[], OmegaView],
        compare: Callable[[], OmegaView] | None = None,
    ) -> None:
        """`own`: what the job sets; `compose`: the same by Hydra.

        With `compare`, which composes the job by nothing that is known of others, the
        resolved config is compared with what that gives.
        """
        self._template = template
        self._compose = compose
        self._compare = compare
        self._composed: OmegaView | None = None
        self._puts: list[tuple[str, object]] = []
        self._changed = tuple(own)
        self._values: Values | None = Values(with_values(template.tree, own))
        """None: what is written is not known without Hydra."""
        self._leaves: tuple[str, ...] | None = None

    # ------------------------------------------------------------- the port
    def select(self, path: str) -> object:
        """See `OmegaView.select`."""
        return self._ask(
            lambda values: values.resolve(_locate(values, path)),
            lambda view: view.select(path),
        )

    def raw(self, path: str) -> object:
        """See `OmegaView.raw`."""
        return self._ask(
            lambda values: unpatched(at(values.tree, _locate(values, path))),
            lambda view: view.raw(path),
        )

    def has(self, path: str) -> bool:
        """See `OmegaView.has`."""
        with suppress(KeyError):
            return self._ask(
                lambda values: _locate(values, path) is not None,
                lambda view: view.has(path),
            )
        return False

    def leaf_paths(self) -> Sequence[str]:
        """See `OmegaView.leaf_paths`."""
        if self._leaves is None:
            self._leaves = self._ask(
                lambda values: tuple(_list_leaf_paths(values.tree, "")),
                lambda view: tuple(view.leaf_paths()),
            )
        return self._leaves

    def interpolate(self, value: object, at: str = "") -> object:
        """See `OmegaView.interpolate`."""
        if not has_interpolation(value):
            return value
        relatives = Relatives(self, absolute=True)
        return self._ask(
            lambda values: _evaluate_value(
                values, relatives.settle(rewrite_tree(value), at)
            ),
            lambda view: view.interpolate(value, at),
        )

    def put(self, path: str, value: object) -> None:
        """See `OmegaView.put`."""
        self._puts.append((path, value))
        if self._composed is not None:
            self._composed.put(path, value)
        self._leaves = None
        if self._values is not None:
            self._values = self._with(path, value, self._values)

    def _with(self, path: str, value: object, values: Values) -> Values | None:
        keys = tuple(path.split("."))
        self._changed = (*self._changed, keys)
        try:
            tree = with_values(values.tree, {keys: rewrite_tree(value)})
        except LookupError:
            return None
        return None if "[" in path else Values(tree)

    def to_dict(self) -> Mapping[str, object]:
        """See `OmegaView.to_dict`.

        Raises:
            CannotCompose: something does not resolve; or the job is to be compared,
                and Hydra composes something else.
        """
        return self._ask(self._resolve, OmegaView.to_dict)

    def _resolve(self, values: Values) -> Mapping[str, object]:
        affected = self._template.find_affected(self._changed)
        found: Mapping[str, object] = with_values(
            self._template.resolved, {path: values.resolve(path) for path in affected}
        )
        compare, self._compare = self._compare, None
        if compare is not None:
            _check_same(found, self._put_all(compare()).to_dict())
        return found

    def written_dict(self) -> Mapping[str, object]:
        """See `OmegaView.written_dict`."""
        return self._ask(lambda values: values.tree, OmegaView.written_dict)

    # ----------------------------------------------------------------- Hydra
    @property
    def is_shared(self) -> bool:
        """Whether Hydra was not asked, and need not be, but to compare."""
        return self._composed is None and self._values is not None

    def _ask(self, ours: Callable[[Values], T], hydras: Callable[[OmegaView], T]) -> T:
        """What our values say; where they are in doubt, what Hydra's config says."""
        if self._values is not None:
            try:
                return ours(self._values)
            except Absent as error:
                raise KeyError(str(error)) from None
            except Doubtful:
                pass
        if self._composed is None:
            self._composed = self._put_all(self._compose())
        return hydras(self._composed)

    def _put_all(self, view: OmegaView) -> OmegaView:
        for path, value in self._puts:
            view.put(path, value)
        return view


def _locate(values: Values, path: str) -> Path:
    """Where a dotted path leads."""
    if path and "" in path.split("."):
        raise Doubtful(path)
    return values.locate(split_keys(path))


def _evaluate_value(values: Values, value: object) -> object:
    """A value that stands nowhere in the config, with every `${...}` resolved."""
    if isinstance(value, Mapping):
        return {key: _evaluate_value(values, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_evaluate_value(values, item) for item in value]
    if not isinstance(value, str) or not is_open(value):
        return value
    found = values.evaluate(value)
    return values.resolve(found.path) if isinstance(found, Place) else found


def _check_same(ours: Any, hydras: Any) -> None:
    """Refuse a config that is not Hydra's, with types and order.

    Raises:
        CannotCompose: it is not.
    """
    if repr(ours) != repr(hydras):
        pairs = zip_longest(leaves(ours), leaves(hydras), fillvalue=((), None))
        where = next((a[0] or b[0] for a, b in pairs if repr(a) != repr(b)), ())
        message = "a job that was composed from another one is not what Hydra composes"
        hint = f"set {SWITCH}=hydra to have every job composed by Hydra, and report it"
        where_is = ".".join(map(str, where))
        problem = Problem(f"{message}; this is a bug of ours", where_is, hint=hint)
        raise CannotCompose((problem,))


def _list_leaf_paths(node: Mapping[str, object], prefix: str) -> Iterator[str]:
    for key, value in node.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            yield from _list_leaf_paths(value, path)
        else:
            yield path
