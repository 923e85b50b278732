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
    ours: list[str] = []
    others: list[str] = []
    for text in texts:
        (ours if _INTO_SWEEP.match(text) else others).append(text)
    return tuple(ours), tuple(others)


def apply_sweep_overrides(
    sweep: Mapping[str, object] | None, overrides: Sequence[Override]
) -> Mapping[str, object] | None:
    """`sweep` with the overrides; itself is left as it was.

    Raises:
        CannotCompose: with every override that reaches nothing.
    """
    if not overrides:
        return sweep
    changed: dict[str, object] = copy.deepcopy(dict(sweep or {}))
    problems = [
        problem
        for override in overrides
        if (problem := _apply_one(changed, override)) is not None
    ]
    if problems:
        raise CannotCompose(tuple(problems))
    return changed


def _apply_one(sweep: dict[str, object], override: Override) -> Problem | None:
    segments = tuple(override.key_or_group.split(".")[1:])
    found = _locate(sweep, segments)
    if found is not None:
        container, key = found
        if override.is_delete():
            del container[key]
        else:
            container[key] = override.value()
        return None
    if (override.is_add() or override.is_force_add()) and _add(
        sweep, segments, override.value()
    ):
        return None
    return _describe_miss(sweep, override, segments)


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
        container = found[0][found[1]] if found else sweep
        if not isinstance(container, dict):
            return False
        if _is_literal(head):
            container[".".join(rest)] = value
        else:
            _set_nested(container, rest, value)
        return True
    return False


def _is_literal(head: tuple[str, ...]) -> bool:
    names = [segment for segment in head if not segment.isdigit()]
    return bool(names) and names[-1] in _OPEN


def _set_nested(
    container: dict[str, object], rest: tuple[str, ...], value: object
) -> None:
    for key in rest[:-1]:
        inner: dict[str, object] = {}
        container[key] = inner
        container = inner
    container[rest[-1]] = value


def _describe_miss(
    sweep: Mapping[str, object], override: Override, segments: tuple[str, ...]
) -> Problem:
    known = sorted(_list_paths(sweep, ""))
    key = ".".join(segments)
    hint = did_you_mean(key, known, "keys of the sweep")
    where = f"override {override.input_line}"
    return Problem("names nothing in the sweep", where=where, hint=f"{hint}; + adds")


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
