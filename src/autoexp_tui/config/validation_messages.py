"""pydantic's findings in our words: the key, what is wrong with it, the next step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from autoexp_tui.model.errors import Problem
from autoexp_tui.text.did_you_mean import did_you_mean

_MISSING: Final = frozenset(
    {"missing", "missing_argument", "missing_keyword_only_argument"}
)
_UNKNOWN: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_NO_MAPPING: Final = frozenset({"model_type", "model_attributes_type", "dict_type"})
_UNSAID: Final = frozenset({"str", "int", "float", "bool", "none", "list", "tuple"})
"""Parts of a place that name a member of a union, not a key."""


def problems_of(
    error: ValidationError,
    where: str,
    known: Mapping[tuple[str, ...], Iterable[str]] | None = None,
) -> list[Problem]:
    """One finding for each key; `known`: what keys there are, by the place above."""
    found: dict[str, Problem] = {}
    for item in error.errors(include_url=False):
        problem = _problem(dict(item), where, known or {})
        found.setdefault(problem.where, problem)
    return list(found.values())


def _problem(
    item: Mapping[str, Any], where: str, known: Mapping[tuple[str, ...], Iterable[str]]
) -> Problem:
    path = tuple(str(part) for part in item["loc"] if _is_key(part))
    place = ".".join(part for part in (where, *path) if part)
    kind, given = str(item["type"]), item.get("input")
    if kind in _MISSING:
        return Problem("is missing", where=place)
    if kind in _UNKNOWN:
        hint = did_you_mean(path[-1], known.get(path[:-1], ()), "keys")
        return Problem("is no key here", where=place, hint=hint)
    if kind == "literal_error":
        expected = str(item["ctx"]["expected"])
        return Problem(f"is {given!r}; it may be {expected}", where=place)
    if kind in _NO_MAPPING:
        return Problem(f"is {given!r}, not a mapping", where=place)
    wanted = str(item["msg"]).replace("Input should be ", "it should be ")
    wanted = wanted.removeprefix("Value error, ")
    return Problem(f"is {given!r}: {wanted}", where=place)


def _is_key(part: object) -> bool:
    if not isinstance(part, str):
        return True
    return part not in _UNSAID and "[" not in part
