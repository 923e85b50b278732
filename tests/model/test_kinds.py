"""Every kind of each table keeps what all kinds promise."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.effects.effects import OutsideEffect
from autoexp_tui.model.commands import Command
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.event import Event
from autoexp_tui.model.rules import Action
from tests.storage.strategies import values_of

TABLES: dict[str, Any] = {
    base.__name__: base for base in (Condition, Action, Effect, Event, Command)
}


@pytest.mark.parametrize("base", TABLES.values(), ids=TABLES)
def test_the_table_names_every_kind_each_a_frozen_value_stored_by_its_name(
    base: Any,
) -> None:
    for name, kind in base.kinds.items():
        called = kind.__name__
        assert issubclass(kind, base)
        assert is_dataclass(kind)
        assert vars(kind)["__dataclass_params__"].frozen, name
        assert "__dict__" not in dir(kind), name
        assert kind.__doc__, name
        defaults = {part.name: part.default for part in fields(kind)}
        assert (called if base is Event else defaults["kind"]) == name
    modules = {inspect.getmodule(kind) for kind in base.kinds.values()}
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, base)
        and value.__module__ == getattr(module, "__name__", "")
        and not value.__name__.startswith("_")
        and ("kind" in getattr(value, "__dataclass_fields__", {}) or base is Event)
    }
    bases = {kind.__mro__[1] for kind in base.kinds.values()}
    assert found - bases <= set(base.kinds.values())


@pytest.mark.parametrize("kind", [*Effect.kinds.values(), *Condition.kinds.values()])
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_an_effect_and_a_condition_are_described(
    kind: Any, data: st.DataObject
) -> None:
    one = data.draw(values_of(kind))
    assert isinstance(one.name_object(), str)
    if isinstance(one, Condition):
        assert isinstance(one.name_subject(", ".join), str)
        assert all(isinstance(source, str) for source in one.list_sources())
    else:
        assert isinstance(one.describe(), str)
    if isinstance(one, OutsideEffect):
        assert one.pool in ("executor", "command", "planner", "errand")
