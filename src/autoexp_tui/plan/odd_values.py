"""Values of a sweep that Hydra takes and that are most likely not meant.

A list below `params` is what is tried; a mapping is one value. So a list that slipped
one level down, or into a mapping of another program's sweeps, is no sweep at all and
nothing fails: the config merely holds a mapping where a number was. What the config has
at that place tells. Whoever means it writes `++` before the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from autoexp_tui.core.errors import Problem
from autoexp_tui.plan.names import spell
from autoexp_tui.plan.ports import ConfigView
from autoexp_tui.plan.sweep_nodes import shown

_LISTS: Final = ("values", "choices", "choice", "options", "grid")
"""What other programs call the list of values to try."""
_BESIDE: Final = frozenset({*_LISTS, "type", "method", "distribution"})
"""What stands beside it there."""
_MISSING: Final = "???"


def odd_values(key: str, value: object, view: ConfigView) -> Iterator[Problem]:
    """Warnings about a value that a point sets on `key` of a config."""
    held = _held(view, key)
    if isinstance(value, Mapping):
        yield from _odd_mapping(key, value, held, view)
    elif isinstance(value, list | tuple) and isinstance(held, bool | int | float):
        yield Problem(f"is set to a list, and was {_told(held)}", key, hint=_mend(key))


def _odd_mapping(
    key: str, value: Mapping[object, object], held: object, view: ConfigView
) -> Iterator[Problem]:
    listed = _listed(value)
    if isinstance(held, Mapping):
        for name, inner in value.items():
            yield from odd_values(f"{key}.{name}", inner, view)
    elif isinstance(held, bool | int | float | str):
        yield Problem(
            f"is set to a mapping, and was {_told(held)}", key, hint=_mend(key)
        )
    elif held is None and listed is not None:
        message = f"is a mapping, one value: what its `{listed}` holds is not tried"
        yield Problem(message, key, hint=_mend(key))


def _mend(key: str) -> str:
    return (
        f"values to try are a list right below `params`: `{key}: [1, 2]`; "
        f"`++{key}` says that this is meant"
    )


def _held(view: ConfigView, key: str) -> object:
    """What a config has at a key as it is written; None where that is not known."""
    try:
        held = view.raw(key)
    except KeyError:
        return None
    is_open = isinstance(held, str) and (held == _MISSING or "${" in held)
    return None if is_open else held


def _listed(value: Mapping[object, object]) -> str | None:
    """The key under which a mapping holds what another program would try."""
    if not all(name in _BESIDE for name in value):
        return None
    found = (name for name in _LISTS if isinstance(value.get(name), list | tuple))
    return next(found, None)


def _told(held: object) -> str:
    # As YAML has it.
    text = str(held).lower() if isinstance(held, bool) else spell(held)
    return f"`{shown(text)}`"
