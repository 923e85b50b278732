"""Command-line overrides that reach into `sweep`, where keys may hold dots.

    sweep.groups.0.params.optim.lr=[1e-4,2e-4]

Hydra would look for `optim` inside `params`; we match the longest literal key first.
Lists are reached by position. Works on plain containers as written in the config.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hydra.core.override_parser.types import Override

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.plain_tree import leaves

INTO_SWEEP: Final = re.compile(r"(?:\+{0,2}|~)sweep\.")
_OPEN: Final = frozenset({"params", "configs", "grids", "defaults", "base_values"})
"""Below these, a key that is added is one literal key, dots and all."""


def apply_sweep_overrides(
    sweep: Mapping[str, object], overrides: Sequence[Override]
) -> dict[str, object]:
    """`sweep` with the overrides; itself is left as it was.

    Raises CannotCompose with every override that reaches nothing.
    """
    changed: dict[str, object] = copy.deepcopy(dict(sweep))
    problems: list[Problem] = []
    for override in overrides:
        segments = tuple(override.key_or_group.split(".")[1:])
        holder, rest, inside = _descend(changed, segments)
        key = _find_key(holder, ".".join(rest))
        if key is not None and override.is_delete():
            del holder[key]
        elif key is not None:
            holder[key] = override.value()
        elif isinstance(holder, dict) and override.is_add() | override.is_force_add():
            if inside in _OPEN:
                rest = (".".join(rest),)
            for name in rest[:-1]:
                holder = holder.setdefault(name, {})
            holder[rest[-1]] = override.value()
        else:
            known = {
                ".".join(map(str, path[:size]))
                for path, _ in leaves(changed)
                for size in range(1, len(path) + 1)
            }
            hint = did_you_mean(".".join(segments), sorted(known), "keys of the sweep")
            where, hint = f"override {override.input_line}", f"{hint}; + adds"
            problems.append(Problem("names nothing in the sweep", where, hint=hint))
    if problems:
        raise CannotCompose(tuple(problems))
    return changed


def _descend(
    container: Any, segments: tuple[str, ...], inside: str = ""
) -> tuple[Any, tuple[str, ...], str]:
    """The last container on a path, what is left of it there, and the last name.

    What is left is a key that the container has, or all that it lacks.
    """
    best = (container, segments, inside)
    for length in range(len(segments), 0, -1):
        key = _find_key(container, ".".join(segments[:length]))
        if key is None:
            continue
        if length == len(segments):
            return best
        name = key if isinstance(key, str) else inside
        found = _descend(container[key], segments[length:], name)
        if _find_key(found[0], ".".join(found[1])) is not None:
            return found
        best = min(best, found, key=lambda one: len(one[1]))
    return best


def _find_key(container: Any, text: str) -> Any:
    """`text` as a key or position that the container has; None: it has not."""
    if isinstance(container, dict):
        return text if text in container else None
    if isinstance(container, list) and text.isdigit() and int(text) < len(container):
        return int(text)
    return None
