"""Overrides that Hydra takes and that are most likely not meant, or do nothing here.

A list below `params` is what is tried; a mapping is one value. So a list that slipped
one level down, or into a mapping of another program's sweeps, is no sweep at all and
nothing fails: the config merely holds a mapping where a number was. What the config has
at that place tells. Whoever means it writes `++` before the key.

So does text where the config, or other points, have a number: YAML takes `1e-3, 3e-3`
without brackets, `0o17` and `2024-01-01` for text, and a program reads another rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeAlias, TypeGuard

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import ConfigView
from autoexp_tui.sweep.names import format_in_name
from autoexp_tui.sweep.schema import shorten_text

_LISTS: Final = ("values", "choices", "choice", "options", "grid")
"""What other programs call the list of values to try."""
_BESIDE: Final = frozenset({*_LISTS, "type", "method", "distribution"})
"""What stands beside it there."""
_MISSING: Final = "???"
_REFUSED: Final = {
    "sweeper": "put the values to try into `sweep`: sweep.params.KEY=[1,2]",
    "launcher": "choose where jobs run by the group `slurm`: slurm=generic",
}
"""Settings of Hydra's own that would run one job where many were meant."""
Scalar: TypeAlias = str | bool
"""A value that is written where a number was."""


def check_hydra_key(key: str, where: str) -> tuple[Problem, bool] | None:
    """The finding of a `hydra...` key, and whether it is an error; None for others."""
    head, _, rest = key.replace("/", ".").partition(".")
    name = rest.partition(".")[0].partition("@")[0]
    if head != "hydra" or not name or name == "searchpath":
        return None
    if name in _REFUSED:
        message = f"Hydra's {name} is not used: jobs are swept and submitted from here"
        return Problem(message, where=where, hint=_REFUSED[name]), True
    hint = "take it out; of `hydra`, only `hydra.searchpath` is read"
    return Problem("has no effect here", where=where, hint=hint), False


def check_value(key: str, value: object, view: ConfigView) -> Iterator[Problem]:
    """Warnings about a value that a point sets on `key` of a config."""
    held = _read_value(view, key)
    if isinstance(value, Mapping):
        yield from _check_mapping(key, value, held, view)
    elif isinstance(value, list | tuple) and isinstance(held, bool | int | float):
        yield Problem(
            f"is set to a list, and was {_quote(held)}", key, hint=_build_hint(key)
        )


def find_numbers(
    points: Iterable[Mapping[str, object]],
) -> dict[str, int | float]:
    """The first number that each parameter has in any of the points, if any."""
    found: dict[str, int | float] = {}
    for point in points:
        for key, value in point.items():
            if is_number(value) and key not in found:
                found[key] = value
    return found


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def find_number_at(view: ConfigView, key: str) -> int | float | None:
    """The number that a config has at a key; None when it has none there."""
    held = _read_value(view, key)
    return held if is_number(held) else None


def check_list_text(key: str, value: Scalar, number: float) -> Problem | None:
    """The error of a list without brackets where the config has a number."""
    if not isinstance(value, str) or "," not in value:
        return None
    message = (
        f"is the text `{shorten_text(value)}`, and was the number {_quote(number)}"
    )
    hint = (
        f"values to try have brackets: `{key}: [{shorten_text(value)}]`; "
        f"`++{key}` says that the text is meant"
    )
    return Problem(message, key, hint=hint)


def warn_of_literal(key: str, value: Scalar, number: float, *, was: bool) -> Problem:
    """The warning of text, true or false where the others are numbers.

    `was`: the number is the config's own, not that of other points.
    """
    kind = "the text " if isinstance(value, str) else ""
    before = "and was" if was else "where other jobs have"
    message = f"is {kind}{_quote(value)}, {before} the number {_quote(number)}"
    mend = _find_number(value) if isinstance(value, str) else ""
    hint = f"{mend}; " if mend else ""
    return Problem(message, key, hint=f"{hint}`++{key}` says that it is meant")


def _find_number(text: str) -> str:
    """How to write the number that a text most likely stands for."""
    with suppress(ValueError):
        float(text)
        return f"take the quotes away: {text}"
    with suppress(ValueError):
        return f"YAML has no such number; write {int(text, 0)}"
    return ""


def _check_mapping(
    key: str, value: Mapping[object, object], held: object, view: ConfigView
) -> Iterator[Problem]:
    listed = _find_list_key(value)
    if isinstance(held, Mapping):
        for name, inner in value.items():
            yield from check_value(f"{key}.{name}", inner, view)
    elif isinstance(held, bool | int | float | str):
        yield Problem(
            f"is set to a mapping, and was {_quote(held)}", key, hint=_build_hint(key)
        )
    elif held is None and listed is not None:
        message = f"is a mapping, one value: what its `{listed}` holds is not tried"
        yield Problem(message, key, hint=_build_hint(key))


def _build_hint(key: str) -> str:
    return (
        f"values to try are a list right below `params`: `{key}: [1, 2]`; "
        f"`++{key}` says that this is meant"
    )


def _read_value(view: ConfigView, key: str) -> object:
    """What a config has at a key as it is written; None where that is not known."""
    try:
        held = view.raw(key)
    except KeyError:
        return None
    is_open = isinstance(held, str) and (held == _MISSING or "${" in held)
    return None if is_open else held


def _find_list_key(value: Mapping[object, object]) -> str | None:
    """The key under which a mapping holds what another program would try."""
    if not all(name in _BESIDE for name in value):
        return None
    found = (name for name in _LISTS if isinstance(value.get(name), list | tuple))
    return next(found, None)


def _quote(held: object) -> str:
    # As YAML has it.
    text = str(held).lower() if isinstance(held, bool) else format_in_name(held)
    return f"`{shorten_text(text)}`"
