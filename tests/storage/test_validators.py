"""Unions of dataclasses are told apart at once, and validators are made once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from autoexp_tui.conditions.kinds import Not, TimeReached
from autoexp_tui.storage.json_codec import build_validator, describe_error


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
