"""Unions of dataclasses are told apart at once, and validators are made once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import TypeAdapter

from autoexp_tui.conditions.kinds import Not, TimeReached
from autoexp_tui.events.events import EffectOrdered
from autoexp_tui.model.commands import Order
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.json_codec import build_validator, describe_error, tag_unions


@dataclass(frozen=True)
class Cat:
    """A member of a union, with a kind."""

    kind: Literal["cat"] = "cat"


@dataclass(frozen=True)
class Dog:
    """Another."""

    kind: Literal["dog"] = "dog"


@dataclass(frozen=True)
class Stone:
    """One without a kind."""

    weight: int = 1


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every node of a core schema."""
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from nodes(value)


def kinds_of_unions(hint: Any) -> set[str]:
    schema = tag_unions(TypeAdapter(hint).core_schema)
    types = {str(node["type"]) for node in nodes(schema) if "choices" in node}
    return types & {"union", "tagged-union"}


def test_a_union_with_kinds_is_told_apart_by_them() -> None:
    assert kinds_of_unions(Cat | Dog) == {"tagged-union"}


@pytest.mark.parametrize("hint", [Cat | Stone, int | str, Cat | int])
def test_a_union_without_kinds_stays_as_it_is(hint: Any) -> None:
    assert kinds_of_unions(hint) == {"union"}


@pytest.mark.parametrize("model", [Plan, Order, EffectOrdered])
def test_the_cores_own_unions_of_dataclasses_all_have_kinds(model: Any) -> None:
    schema = tag_unions(TypeAdapter(model).core_schema)
    untold = [
        node
        for node in nodes(schema)
        if node.get("type") == "union"
        and any(part.get("type") in _NESTED for part in node["choices"])
    ]
    assert untold == []


_NESTED = {"dataclass", "definition-ref"}


def test_a_union_within_itself_is_read() -> None:
    spec = Not(condition=Not(condition=TimeReached(after_seconds=1.0)))
    inner = {"kind": "time", "after_seconds": 1.0}
    tree = {"kind": "not", "condition": {"kind": "not", "condition": inner}}
    assert build_validator(Not).validate_python(tree) == spec


def test_a_validator_is_made_once() -> None:
    assert build_validator(Cat) is build_validator(Cat)


def test_a_complaint_names_the_field() -> None:
    with pytest.raises(ValueError, match="weight") as caught:
        build_validator(Stone).validate_python({"weight": "heavy"})
    assert describe_error(caught.value).startswith("weight: ")


def test_any_other_error_speaks_for_itself() -> None:
    assert describe_error(ValueError("no")) == "no"
