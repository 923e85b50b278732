"""What jobs share whose overrides differ in nothing but the values that they set.

Such jobs have one *structure*: the same groups, the same keys, in the same order. The
first job of a structure is composed by Hydra; the others are that config with other
values in it (see `job_view`). What is no plain `key=value`, with a scalar or a list of
them, belongs to the structure as it is written; where it is not certain that a value is
all that changes, there is no template and every job is composed by Hydra.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.nodes import AnyNode

from autoexp_tui.config.interpolations import MISSING, Doubtful, Values, is_open
from autoexp_tui.planning.overrides import BARE
from autoexp_tui.text.plain_tree import (
    Path,
    at,
    leaves,
    touches,
    unpatched,
    with_values,
)

_SET: Final = re.compile(r"(\+{0,2})([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)=(.*)", re.ASCII)
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_REAL: Final = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?|-?\d+e[+-]\d+", re.ASCII)
_WORDS: Final = frozenset({"null", "true", "false", "nan", "inf"})
_RELATIVE: Final = "${."
"""Such a text is settled while a config is composed; see `hydra_compose`."""
_UNSURE: Final = object()

Structure: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class JobKeys:
    """A job's overrides and mounts: what they have in common with others, and not."""

    structure: Structure
    values: Mapping[Path, object]
    """What it sets, by the keys it is set on."""


def split_overrides(
    texts: Sequence[str],
    mounts: Mapping[str, object],
    is_group: Callable[[str], bool],
) -> JobKeys:
    """Tell the values of overrides (as Hydra is given them) and mounts apart."""
    found = [(text, _setting(text, is_group)) for text in texts]
    found += [
        (f"{key}:{value!r}", (f"{key}:", (key,), value) if _is_scalar(value) else None)
        for key, value in mounts.items()
    ]
    paths = [setting[1] for _, setting in found if setting is not None]
    structure: list[object] = []
    values: dict[Path, object] = {}
    for text, setting in found:
        # Of paths that meet another one the order decides.
        if setting is None or sum(touches(setting[1], path) for path in paths) > 1:
            structure.append(text)
        else:
            structure.append((setting[0],))
            values[setting[1]] = setting[2]
    return JobKeys(tuple(structure), values)


def _setting(
    text: str, is_group: Callable[[str], bool]
) -> tuple[str, Path, object] | None:
    """Head, path and value of an override that sets a value; None: it does more."""
    found = parse_setting(text)
    return None if found is None or is_group(".".join(map(str, found[1]))) else found


@lru_cache(maxsize=8192)
def parse_setting(text: str) -> tuple[str, Path, object] | None:
    """Head, keys and value of an override that sets a value, or chooses a group."""
    match = _SET.fullmatch(text)
    value = _UNSURE if match is None else parse_value(match[3])
    if match is None or value is _UNSURE:
        return None
    kind = "null" if value is None else "[]" if isinstance(value, list) else ""
    return f"{match[1]}{match[2]}={kind}", tuple(match[2].split(".")), value


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


class Template:
    """The config of the first job of a structure, as written and resolved."""

    def __init__(self, tree: Any) -> None:
        """`tree`: nested dicts and lists, with interpolations."""
        self.tree = tree
        self.resolved = tree
        """With every value resolved of which that is certain."""
        self._reads: dict[Path, set[Path] | None] = {}
        """Interpolated leaf -> all it was made of; None: that is not certain."""
        self._affected: dict[frozenset[Path], tuple[Path, ...]] = {}
        values = Values(tree)
        found: dict[Path, object] = {}
        for path, value in leaves(tree):
            if value == MISSING or is_open(value):
                self._reads[path] = None
                with suppress(Doubtful), values.reads() as reads:
                    found[path] = values.whole(path)
                    self._reads[path] = reads
        if found:
            self.resolved = unpatched(with_values(tree, found))

    def affected(self, changed: frozenset[Path]) -> tuple[Path, ...]:
        """Where values may differ from the first job's when these keys do.

        None of the paths lies below another.
        """
        if changed not in self._affected:
            found = {*changed, *self._readers(changed)}
            self._affected[changed] = tuple(
                path
                for path in found
                if not any(path[:size] in found for size in range(len(path)))
            )
        return self._affected[changed]

    def _readers(self, changed: frozenset[Path]) -> Iterator[Path]:
        for path, reads in self._reads.items():
            if reads is None or any(touches(a, b) for a in changed for b in reads):
                yield path


def make_template(keys: JobKeys, config: DictConfig) -> Template | None:
    """What other jobs can share of a config; None: nothing that is certain."""
    if not _is_untyped(config):
        return None
    tree: Any = OmegaConf.to_container(config, resolve=False)
    if not _has_text_keys(tree):
        return None
    for path, value in keys.values.items():
        if repr(at(tree, path)) != repr(value):  # 1 is not 1.0
            return None
    return Template(tree)


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
