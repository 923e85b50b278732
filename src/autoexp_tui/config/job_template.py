"""Jobs as a template with their own values in it.

Jobs that choose the same groups share a *template*: what Hydra composes without their
own values. A value is put into it where it is certain that Hydra would do no more:
plain `key=value`, with a scalar or a list of them, over a scalar or a new key. All else
belongs to the template as it is written. Only what was made of changed keys is resolved
anew (see `config_view`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from autoexp_tui.config.interpolations import MISSING, Doubtful, Values, is_open
from autoexp_tui.planning.overrides import BARE
from autoexp_tui.text.plain_tree import (
    ABSENT,
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
    list_choices: Callable[[str], object],
) -> JobKeys:
    """Tell the values of overrides (as Hydra is given them) and mounts apart."""
    names = [text.partition("=")[0].lstrip("+~") for text in texts]
    pairs = zip(texts, names, strict=True)
    free = [(text, name) for text, name in pairs if list_choices(name) is None]
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
        """Where resolved values may differ from the template's when these keys do.

        New keys are in the order of `changed`; no path lies below another.
        """
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
