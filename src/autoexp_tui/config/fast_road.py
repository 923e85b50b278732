"""Composes thousands of jobs from a few real compositions, or says that it cannot.

Jobs whose overrides differ in nothing but the values that they set have one
*structure*: the same groups, the same keys, in the same order. The first job of a
structure is composed by Hydra; the others are that config with other values in it (see
`fast_view`). What is no plain `key=value`, with a scalar or a list of them, belongs to
the structure as it is written; where it is not certain that a value is all that
changes, there is no template and every job is composed by Hydra.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.base import ContainerMetadata
from omegaconf.nodes import AnyNode

from autoexp_tui.config.config_view import OmegaView
from autoexp_tui.config.fast_values import Template
from autoexp_tui.config.fast_view import FastView
from autoexp_tui.config.interpolations import is_open, plain
from autoexp_tui.config.plain_tree import Path, at, touches
from autoexp_tui.planning.overrides import BARE

_SAMPLES: Final = (1, 10, 100, 1000)
_THEN_EVERY: Final = 1000
_HELD: Final = 1024
"""Templates; of a config of 300 keys each is some 50 KB. A sweep over groups that gets
by with fewer than it has combinations would compose every one of its jobs."""
_SET: Final = re.compile(r"(\+{0,2})([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)=(.*)", re.ASCII)
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_REAL: Final = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?|-?\d+e[+-]\d+", re.ASCII)
_QUOTED: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
_TOKEN: Final = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"|[\[\],]|[^\[\],]+")
_RELATIVE: Final = "${."
"""Such a text is settled while a config is composed; see `hydra_compose`."""
_WORDS: Final = frozenset({"null", "true", "false", "nan", "inf"})
_NOT_SO: Final = object()

Structure: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Parted:
    """A job's overrides and mounts: what they have in common with others, and not."""

    structure: Structure
    own: Mapping[Path, object]
    """The values that it sets, by the keys they are set on."""


def parted(
    texts: Sequence[str],
    mounts: Mapping[str, object],
    is_group: Callable[[str], bool],
) -> Parted:
    """Split overrides (as Hydra is given them) and mounts."""
    found = [(text, _scalar_set(text, is_group)) for text in texts]
    found += [
        (f"{key}:{value!r}", (f"{key}:", (key,), value) if _is_scalar(value) else None)
        for key, value in mounts.items()
    ]
    crowded = _crowded([one[1] for _, one in found if one is not None])
    structure: list[object] = []
    own: dict[Path, object] = {}
    for text, one in found:
        if one is None or one[1] in crowded:
            structure.append(text)
        else:
            structure.append((one[0],))
            own[one[1]] = one[2]
    return Parted(tuple(structure), own)


def _crowded(paths: Sequence[Path]) -> frozenset[Path]:
    """Paths that meet another one: there the order decides."""
    plain_ones = set(paths)
    if len(plain_ones) == len(paths) and not _has_prefixes(plain_ones):
        return frozenset()
    return frozenset(
        path
        for at, path in enumerate(paths)
        if any(touches(path, other) for n, other in enumerate(paths) if n != at)
    )


def _has_prefixes(paths: set[Path]) -> bool:
    return any(path[:n] in paths for path in paths for n in range(1, len(path)))


def _scalar_set(
    text: str, is_group: Callable[[str], bool]
) -> tuple[str, Path, object] | None:
    """Head, path and value of an override that sets a scalar; None: it does more."""
    found = _set_in(text)
    if found is None or is_group(".".join(found[1])):
        return None
    return found


@lru_cache(maxsize=8192)
def _set_in(text: str) -> tuple[str, tuple[str, ...], object] | None:
    """Head, keys and value of an override that sets a scalar, or chooses a group."""
    match = _SET.fullmatch(text)
    if match is None:
        return None
    plus, key, written = match.groups()
    value = value_in(written)
    if value is _NOT_SO:
        return None
    return f"{plus}{key}={_kind(value)}", tuple(key.split(".")), value


def _kind(value: object) -> str:
    """What a value does to a dict, a list or a scalar that is there."""
    if value is None:
        return "null"
    return "[]" if isinstance(value, list) else ""


def value_in(written: str) -> object:
    """The value of a text in Hydra's grammar: a scalar, null, or a list of such.

    `_NOT_SO` for anything that this reading is not sure of.
    """
    if written == "null":
        return None
    return _listed(written) if written[:1] == "[" else scalar(written)


def _listed(written: str) -> object:
    """The value of `[a,b,[c]]` as it is spelled for a job."""
    open_lists: list[list[object]] = [[]]
    after = ""
    for token in _TOKEN.findall(written):
        if token == "[" and after in ("", "[", ","):
            open_lists.append([])
        elif token == "]" and after not in ("", ",") and len(open_lists) > 1:
            done = open_lists.pop()
            open_lists[-1].append(done)
            token = "value"
        elif token == "," and after == "value" and len(open_lists) > 1:
            pass
        elif token not in "[]," and after in ("[", ","):
            item = None if token == "null" else scalar(token)
            if item is _NOT_SO:
                return _NOT_SO
            open_lists[-1].append(item)
            token = "value"
        else:
            return _NOT_SO
        after = token
    whole = open_lists[0]
    return whole[0] if len(open_lists) == len(whole) == 1 else _NOT_SO


def scalar(written: str) -> object:
    """The value of a text in Hydra's grammar, where it is certainly a scalar.

    A text with `${...}` is one; what it stands for is another matter.
    `_NOT_SO` for anything that this reading is not sure of.
    """
    if BARE.fullmatch(written):
        low = written.lower()
        if low in _WORDS:
            return {"true": True, "false": False}.get(low, _NOT_SO)
        return written
    if _WHOLE.fullmatch(written):
        return int(written)
    if _REAL.fullmatch(written):
        return float(written)
    quoted = _QUOTED.fullmatch(written)
    if quoted is not None:
        text = written[1:-1]
        return _NOT_SO if text == "???" or _RELATIVE in text else text
    return _NOT_SO


def _is_scalar(value: object) -> bool:
    if isinstance(value, str):
        return not is_open(value) and value != "???"
    return type(value) in (int, float, bool)


class FastRoad:
    """The templates of one primary config."""

    def __init__(self) -> None:
        self._templates: OrderedDict[Structure, Template | None] = OrderedDict()
        self._seen: set[Structure] = set()
        """Of which jobs were made without Hydra."""
        self._compared: set[Structure] = set()
        self._due = _SAMPLES[0]
        """The job from which on one is compared with Hydra's."""
        self.fast = 0
        """Views that were made without Hydra."""
        self.slow = 0
        """Those of them that had to be composed after all."""

    def view(
        self,
        job: Parted,
        composed: Callable[[], OmegaView],
        anew: Callable[[], OmegaView],
    ) -> FastView | None:
        """A job's config; None when its structure has no template (yet).

        `composed`: the slow road; `anew`: the same, by nothing that is known of others.
        """
        template = self._templates.get(job.structure)
        if template is None:
            return None
        self._templates.move_to_end(job.structure)
        self.fast += 1
        sample = anew if self._is_sample(job.structure) else None
        return FastView(template, job.own, composed, self._count, sample)

    def _is_sample(self, structure: Structure) -> bool:
        """Whether a fast job is compared with Hydra's: the so-many-th of the plan.

        The first, the tenth, the hundredth and each thousandth, or as soon after it as
        one comes whose structure has not been compared, where there is such a one. Each
        costs as much as some hundred jobs.
        """
        self._seen.add(structure)
        if self.fast < self._due:
            return False
        new = structure not in self._compared
        others = len(self._seen) > len(self._compared)
        if not new and others and self.fast < 2 * self._due:
            return False
        self._compared.add(structure)
        later = (n for n in _SAMPLES if n > self._due)
        self._due = next(later, self._due + _THEN_EVERY)
        return True

    def knows(self, structure: Structure) -> bool:
        """Whether a job of this structure was composed already."""
        return structure in self._templates

    def learn(self, job: Parted, config: DictConfig) -> None:
        """Keep what Hydra composed of the first job of a structure."""
        self._templates[job.structure] = _template(job, config)
        if len(self._templates) > _HELD:
            self._templates.popitem(last=False)

    def _count(self) -> None:
        self.slow += 1


def _template(job: Parted, config: DictConfig) -> Template | None:
    """What other jobs can share of a config; None: nothing that is certain."""
    if not _is_untyped(config):
        return None
    tree: Any = OmegaConf.to_container(config, resolve=False)
    if not plain(tree):
        return None
    for path, value in job.own.items():
        if repr(at(tree, path)) != repr(value):  # 1 is not 1.0
            return None
    return Template(tree)


def _is_untyped(node: Any) -> bool:
    """Whether every value may be set to anything: no schema converts or refuses it."""
    if isinstance(node, DictConfig | ListConfig):
        return _is_open_container(node._metadata) and all(
            map(_is_untyped, _inner(node))
        )
    return type(node) is AnyNode


def _is_open_container(metadata: ContainerMetadata) -> bool:
    return metadata.object_type in (dict, list, None) and metadata.element_type is Any


def _inner(node: DictConfig | ListConfig) -> Iterable[Any]:
    content = node._content
    if isinstance(content, dict):
        return content.values()
    return content if isinstance(content, list) else ()
