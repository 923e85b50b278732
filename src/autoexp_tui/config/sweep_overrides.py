"""Command-line overrides that reach into `sweep`, where keys may hold dots.

    sweep.groups.0.params.optim.lr=[1e-4,2e-4]

Hydra would look for `optim` inside `params`; we match the longest literal key first.
Lists are reached by position. Works on plain containers as written in the config.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hydra.core.override_parser.types import Override

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.text.did_you_mean import did_you_mean

_INTO_SWEEP: Final = re.compile(r"(?:\+{0,2}|~)sweep\.")
_OPEN: Final = frozenset({"params", "configs", "grids", "defaults", "base_values"})
"""Below these, a key that is added is one literal key, dots and all."""


def split_sweep_overrides(
    texts: Iterable[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(overrides into `sweep`, all others), each in order."""
    found = tuple(texts)
    ours = tuple(text for text in found if _INTO_SWEEP.match(text))
    return ours, tuple(text for text in found if not _INTO_SWEEP.match(text))


def apply_sweep_overrides(
    sweep: Mapping[str, object] | None, overrides: Sequence[Override]
) -> Mapping[str, object] | None:
    """`sweep` with the overrides; itself is left as it was.

    Raises CannotCompose with every override that reaches nothing.
    """
    if not overrides:
        return sweep
    changed: dict[str, object] = copy.deepcopy(dict(sweep or {}))
    problems: list[Problem] = []
    for override in overrides:
        segments = tuple(override.key_or_group.split(".")[1:])
        is_added = override.is_add() or override.is_force_add()
        if found := _locate(changed, segments):
            container, key = found
            if override.is_delete():
                del container[key]
            else:
                container[key] = override.value()
        elif not is_added or not _add(changed, segments, override.value()):
            known = sorted(_list_paths(changed, ""))
            hint = did_you_mean(".".join(segments), known, "keys of the sweep")
            where, hint = f"override {override.input_line}", f"{hint}; + adds"
            problems.append(Problem("names nothing in the sweep", where, hint=hint))
    if problems:
        raise CannotCompose(tuple(problems))
    return changed


def _locate(container: Any, segments: tuple[str, ...]) -> tuple[Any, Any] | None:
    """Where the path ends: the last container, and the key in it."""
    for length in range(len(segments), 0, -1):
        key = _find_key(container, ".".join(segments[:length]))
        if key is None:
            continue
        rest = segments[length:]
        found = _locate(container[key], rest) if rest else (container, key)
        if found is not None:
            return found
    return None


def _find_key(container: Any, text: str) -> Any:
    """`text` as a key or position that the container has; None: it has not."""
    if isinstance(container, dict):
        return text if text in container else None
    if isinstance(container, list) and text.isdigit() and int(text) < len(container):
        return int(text)
    return None


def _add(sweep: dict[str, object], segments: tuple[str, ...], value: object) -> bool:
    """Set a key that is not there, in the deepest container that is."""
    for length in range(len(segments) - 1, -1, -1):
        head, rest = segments[:length], segments[length:]
        found = _locate(sweep, head) if head else None
        if head and found is None:
            continue
        container: Any = found[0][found[1]] if found else sweep
        if not isinstance(container, dict):
            return False
        names = [segment for segment in head if not segment.isdigit()]
        if names and names[-1] in _OPEN:
            container[".".join(rest)] = value
            return True
        for key in rest[:-1]:
            container = container.setdefault(key, {})
        container[rest[-1]] = value
        return True
    return False


def _list_paths(container: object, prefix: str) -> Iterable[str]:
    if isinstance(container, Mapping):
        items: Iterable[tuple[object, object]] = container.items()
    elif isinstance(container, list):
        items = enumerate(container)
    else:
        return
    for key, value in items:
        path = f"{prefix}.{key}" if prefix else str(key)
        yield path
        yield from _list_paths(value, path)
