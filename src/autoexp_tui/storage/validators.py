"""pydantic's check of one core dataclass, built when it is first needed.

The core's dataclasses are the only models; nothing here repeats their fields. Importing
this module imports no pydantic: that happens at the first use, after the first paint.
It checks trees that JSON made; it reads no file and knows no journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

Schema: TypeAlias = Any
"""A node of a pydantic core schema: nested dicts, lists and plain values."""
FieldOf: TypeAlias = tuple[type, str]
"""A dataclass and the name of one of its fields."""


@cache
def validator(
    model: Any, *, finite: bool = True, free: frozenset[FieldOf] = frozenset()
) -> SchemaValidator:
    """The validator of a dataclass `model`, None not among what it accepts by contract.

    Unknown fields are refused. `finite` refuses nan and the infinities as numbers; the
    fields in `free` take anything that JSON has.
    """
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_core import CoreConfig, SchemaValidator

    config = ConfigDict(extra="forbid", allow_inf_nan=not finite, defer_build=True)
    # A bare dataclass takes no config of ours; inside `| None` it takes the union's.
    adapter: TypeAdapter[Any] = TypeAdapter(model | None, config=config)
    adapter.rebuild(_types_namespace=names_of_core())
    schema = adapter.core_schema
    if free:
        schema = _loosened(schema, free)
    return SchemaValidator(tag_unions(schema), CoreConfig())


@cache
def names_of_core() -> dict[str, Any]:
    """What modules of a first paint name for the type checker alone."""
    from autoexp_tui.actions import kinds as action_kinds
    from autoexp_tui.conditions import kinds as condition_kinds
    from autoexp_tui.effects import effects
    from autoexp_tui.events import events
    from autoexp_tui.model import rules as rule_kinds
    from autoexp_tui.model import specs, verdicts

    asked = (condition_kinds, action_kinds, rule_kinds, specs)
    names: dict[str, Any] = {}
    for module in (*asked, effects, events, verdicts):
        names |= vars(module)
    return names


def _loosened(node: Schema, free: frozenset[FieldOf]) -> Schema:
    if isinstance(node, list | tuple):
        return type(node)(_loosened(part, free) for part in node)
    if not isinstance(node, dict):
        return node
    new = {key: _loosened(value, free) for key, value in node.items()}
    if new.get("type") == "dataclass":
        for field in new["schema"]["fields"]:
            if (new["cls"], field["name"]) in free:
                field["schema"] = {"type": "any"}
    return new


def complaint(error: Exception) -> str:
    """What a validation error says first, as `field.path: reason`."""
    from pydantic_core import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"])
    return f"{path}: {message}" if path else message


def tag_unions(schema: Schema) -> Schema:
    """`schema` with every union of dataclasses told apart by their `kind` at once.

    Trying the members one after the other gives the same values, at ten times the
    cost for a large plan; a union that has no `kind` stays as it is.
    """
    definitions = {part["ref"]: part for part in schema.get("definitions", ())}
    return _rebuild(schema, definitions)


def _rebuild(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if isinstance(node, list | tuple):
        return type(node)(_rebuild(part, definitions) for part in node)
    if not isinstance(node, dict):
        return node
    new = {key: _rebuild(value, definitions) for key, value in node.items()}
    return _tagged(new, definitions) if new.get("type") == "union" else new


def _tagged(union: Schema, definitions: Mapping[str, Schema]) -> Schema:
    choices = {_kind(choice, definitions): choice for choice in union["choices"]}
    if None in choices or len(choices) < len(union["choices"]):
        return union
    return {"type": "tagged-union", "choices": choices, "discriminator": "kind"}


def _kind(choice: Schema, definitions: Mapping[str, Schema]) -> str | None:
    """The one value that a dataclass's `kind` may have; None when there is no such."""
    if not isinstance(choice, dict):
        return None
    target = definitions.get(choice.get("schema_ref", ""), choice)
    if target.get("type") != "dataclass":
        return None
    fields = {field["name"]: field for field in target["schema"]["fields"]}
    expected = fields.get("kind", {}).get("schema", {}).get("schema", {})
    values = expected.get("expected", ())
    return str(values[0]) if len(values) == 1 else None
