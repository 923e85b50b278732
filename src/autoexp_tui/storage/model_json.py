"""The model's values as JSON, and back: what all that this program keeps has in common.

Encoding is standard library alone; decoding checks with pydantic, which is imported at
the first use, after the first paint. The model's dataclasses are the only models;
nothing here repeats their fields. No file is touched here. What is kept is in
`plan_codec` and in `codec`.

What JSON cannot hold: where a field's type admits text, `nan` and the infinities become
the texts `nan`, `inf`, `-inf`; a number-only field refuses them. Characters that no
encoding can write (undecodable bytes of a file name) become U+FFFD.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from autoexp_tui.model.errors import JournalDamaged

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

T = TypeVar("T")
Schema: TypeAlias = Any
"""A node of a pydantic core schema: nested dicts, lists and plain values."""
FieldOf: TypeAlias = tuple[type, str]
"""A dataclass and the name of one of its fields."""

NEWER = "It was written by a newer autoexp-tui: read it with that version."
_FIELD_NAMES: dict[Any, tuple[str, ...]] = {}
_SURROGATES = re.compile("[\ud800-\udfff]")


class Unencodable(ValueError):
    """A value that JSON has no way to write; names the field. A bug of its maker."""


class Undecodable(ValueError):
    """A record that does not read; `hint` is the next step."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint

    @property
    def newer(self) -> bool:
        """Whether a newer version wrote it."""
        return self.hint == NEWER


def field_names(model: Any) -> tuple[str, ...]:
    """The names of a dataclass's fields, in order."""
    names = _FIELD_NAMES.get(model)
    if names is None:
        names = _FIELD_NAMES[model] = tuple(part.name for part in fields(model))
    return names


def _to_plain(value: object) -> object:
    """What the JSON encoder asks about anything that JSON has no word for."""
    if type(value) in _FIELD_NAMES or is_dataclass(value):
        return {name: getattr(value, name) for name in field_names(type(value))}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return list(value)
    raise Unencodable(f"a {type(value).__name__} has no JSON form: {value!r:.80}")


_COMPACT = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
    separators=(",", ":"),
    default=_to_plain,
)
LOOSE = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_to_plain
)
"""Writes nan and the infinities as Python's JSON spells them."""


def encode(value: Any) -> bytes:
    """A dataclass of the core as one line of JSON.

    Raises:
        Unencodable: it would not read back.
    """
    model = type(value)
    return to_json(value, lambda data: decode(model, data, model.__name__))


def to_json(value: object, check: Callable[[bytes], object]) -> bytes:
    """`value` as JSON; what JSON cannot hold goes the slow way, which is checked.

    Raises:
        Unencodable: it has no JSON form, or `check` refuses the one it has.
    """
    try:
        return _COMPACT.encode(value).encode()
    except Unencodable:
        raise
    except (ValueError, TypeError):  # nan, lone surrogates, strange keys
        data = _COMPACT.encode(replace_unwritable(value)).encode()
    try:
        check(data)
    except (Undecodable, JournalDamaged) as error:
        raise Unencodable(str(error)) from error
    return data


def replace_unwritable(value: object) -> object:
    """`value` as plain JSON data, numbers and characters of no JSON form replaced.

    Raises:
        Unencodable: a part of it has no JSON form at all.
    """
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [replace_unwritable(part) for part in value]
    tree = cast("Mapping[object, object]", _to_plain(value))
    return {
        _replace_in_key(key): replace_unwritable(part) for key, part in tree.items()
    }


def _replace_in_key(key: object) -> str:
    if not isinstance(key, str):
        raise Unencodable(f"a key that is not text: {key!r:.80}")
    return _SURROGATES.sub("\ufffd", key)


def read_json(data: bytes) -> Any:
    """Plain data; raises ValueError, for nan and the infinities as well."""
    from pydantic_core import from_json

    return from_json(data, allow_inf_nan=False)


def decode(model: type[T], data: bytes, where: str, *, finite: bool = True) -> T:
    """A dataclass of the core from its JSON; `finite`: without nan and infinities.

    Raises:
        JournalDamaged: it does not read; names `where` and what is wrong.
    """
    check = build_validator(cast(Any, model), finite=finite)
    try:
        value = check.validate_json(data, strict=True)
    except ValueError as error:
        raise JournalDamaged(describe_error(error), where) from error
    if value is None:
        raise JournalDamaged("it is null", where)
    return cast(T, value)


# ---------------------------------------------------------------------- validators
@cache
def build_validator(
    model: Any, *, finite: bool = True, free: frozenset[FieldOf] = frozenset()
) -> SchemaValidator:
    """What checks and makes a dataclass `model`, built when it is first needed.

    None is not among what it accepts by contract.

    Unknown fields are refused. `finite` refuses nan and the infinities as numbers; the
    fields in `free` take anything that JSON has.
    """
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_core import CoreConfig, SchemaValidator

    config = ConfigDict(extra="forbid", allow_inf_nan=not finite, defer_build=True)
    # A bare dataclass takes no config of ours; inside `| None` it takes the union's.
    adapter: TypeAdapter[Any] = TypeAdapter(model | None, config=config)
    adapter.rebuild(_types_namespace=collect_model_names())
    schema = adapter.core_schema
    if free:
        schema = _loosen(schema, free)
    return SchemaValidator(tag_unions(schema), CoreConfig())


@cache
def collect_model_names() -> dict[str, Any]:
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


def _loosen(node: Schema, free: frozenset[FieldOf]) -> Schema:
    if isinstance(node, list | tuple):
        return type(node)(_loosen(part, free) for part in node)
    if not isinstance(node, dict):
        return node
    new = {key: _loosen(value, free) for key, value in node.items()}
    if new.get("type") == "dataclass":
        for field in new["schema"]["fields"]:
            if (new["cls"], field["name"]) in free:
                field["schema"] = {"type": "any"}
    return new


def describe_error(error: Exception) -> str:
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
    return _tag_within(schema, definitions)


def _tag_within(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if isinstance(node, list | tuple):
        return type(node)(_tag_within(part, definitions) for part in node)
    if not isinstance(node, dict):
        return node
    new = {key: _tag_within(value, definitions) for key, value in node.items()}
    return _tag_union(new, definitions) if new.get("type") == "union" else new


def _tag_union(union: Schema, definitions: Mapping[str, Schema]) -> Schema:
    choices = {_find_kind(choice, definitions): choice for choice in union["choices"]}
    if None in choices or len(choices) < len(union["choices"]):
        return union
    return {"type": "tagged-union", "choices": choices, "discriminator": "kind"}


def _find_kind(choice: Schema, definitions: Mapping[str, Schema]) -> str | None:
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
