"""Hypothesis strategies made from the core's dataclasses: any value of any event."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from autoexp_tui.conditions.kinds import Composite, Not

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INTEGERS = st.integers(-(2**63), 2**63)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
    ),
    max_leaves=5,
)
_PRIMITIVES: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: INTEGERS,
    float: FLOATS,
    bool: st.booleans(),
    type(None): st.none(),
    object: JSON,
}


@cache
def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that the core's dataclasses use."""
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    if isinstance(hint, type) and "kinds" in vars(hint):
        return st.deferred(lambda: _of_kinds(vars(hint)["kinds"].values()))
    if is_dataclass(hint):
        return st.deferred(lambda: _instances(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    return _of_generic(get_origin(hint), get_args(hint))


def _of_kinds(kinds: Iterable[Any]) -> st.SearchStrategy[Any]:
    # Kinds that hold others come last, and seldom: trees stay small.
    members = sorted(kinds, key=lambda member: member in (Composite, Not))
    return st.one_of([values_of(member) for member in members])


def _instances(model: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(model)
    parts = {part.name: values_of(hints[part.name]) for part in fields(model)}
    return st.builds(model, **parts)


def _of_generic(origin: Any, args: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(member) for member in args])
    if origin is tuple and args[1:] == (...,):
        return st.lists(values_of(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values_of(arg) for arg in args))
    if origin in (Mapping, typing.get_origin(Mapping[str, str])):
        return st.dictionaries(TEXT, values_of(args[1]), max_size=2)
    raise TypeError(f"no strategy for {origin}{args}")
