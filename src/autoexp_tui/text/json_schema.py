"""Checks JSON against the part of JSON Schema (draft 2020-12) that answers need. Other
keywords are refused beforehand: what is not checked must not look as if it were."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, cast

from autoexp_tui.text.sanitize import clean_line

_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: _is_number(value) and cast(float, value) % 1 == 0,
    "number": lambda value: _is_number(value),
}
_BOUNDS: Final[Mapping[str, tuple[str, int, str]]] = {
    "minimum": ("number", 1, "is less than"),
    "maximum": ("number", -1, "is more than"),
    "minLength": ("string", 1, "is shorter than"),
    "maxLength": ("string", -1, "is longer than"),
    "minItems": ("array", 1, "has fewer items than"),
    "maxItems": ("array", -1, "has more items than"),
}
"""The type that each is about, and the sign of what is too much."""
_BELOW: Final = ("properties", "$defs")
"""Keywords whose values are named schemas."""
_ASIDE: Final = frozenset({"title", "description", "default", "examples", "$schema"})
_KNOWN: Final = frozenset(
    {
        *("type", "enum", "const", "required", "items", "anyOf", "$ref"),
        *("additionalProperties", *_BELOW, *_BOUNDS, *_ASIDE),
    }
)


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def read_strictly(data: bytes) -> Any:
    """JSON as its standard has it, with no key twice; raises ValueError: `is no JSON: `
    and the reason."""
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            parse_constant=_refuse_constant,
            object_pairs_hook=_read_object,
        )
    except RecursionError:
        raise ValueError("is no JSON: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is no JSON: {clean_line(error, 200)}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _read_object(pairs: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'the key "{twice:.64}" stands twice in one object')
    return made


def list_unknown(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """What a schema has that `find_mistake` does not know."""
    named = {f"#/$defs/{name}" for name in schema.get("$defs", ())}
    return tuple(sorted(set(_find_unknown(schema, named))))


def _find_unknown(schema: Any, named: Set[str]) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    yield from (key for key in schema if key not in _KNOWN)
    yield from (f"type {name}" for name in _list_types(schema) if name not in _TYPES)
    if schema.get("$ref", "") not in {"", *named}:
        yield f"$ref {schema['$ref']}"
    parts = [schema.get("items"), schema.get("additionalProperties")]
    parts += schema.get("anyOf", ())
    for key in _BELOW:
        parts += schema.get(key, {}).values()
    for part in parts:
        yield from _find_unknown(part, named)


def _list_types(schema: Mapping[str, Any]) -> Sequence[str]:
    wanted = schema.get("type", ())
    return (wanted,) if isinstance(wanted, str) else tuple(wanted)


def find_mistake(value: object, schema: Mapping[str, Any]) -> str:
    """What is wrong first, as `path: reason`; empty: nothing is."""
    return next(_find_mistakes(value, schema, "$", schema.get("$defs", {})), "")


def _find_mistakes(
    value: Any, schema: Any, place: str, named: Mapping[str, Any]
) -> Iterator[str]:
    """All that is wrong with `value`, at `place` of the answer."""
    if schema is False:
        yield f"{place}: is no key here"
    if isinstance(schema, bool):
        return
    if name := str(schema.get("$ref", "")):
        yield from _find_mistakes(
            value, named[name.removeprefix("#/$defs/")], place, named
        )
    types = _list_types(schema)
    if types and not any(_TYPES[name](value) for name in types):
        yield f"{place}: is {value!r:.60}, not of type {' or '.join(types)}"
        return
    if value not in schema.get("enum", (value,)):
        yield f"{place}: is {value!r:.60}, not one of {schema['enum']}"
    if value != schema.get("const", value):
        yield f"{place}: is {value!r:.60}, not {schema['const']!r}"
    for key, (name, sign, what) in _BOUNDS.items():
        if key in schema and _TYPES[name](value):
            measure = value if name == "number" else len(value)
            if sign * measure < sign * schema[key]:
                yield f"{place}: {what} {schema[key]}"
    for part, inner, below in _list_parts(value, schema, place):
        yield from _find_mistakes(part, inner, below, named)
    if isinstance(value, dict):
        missing = (key for key in schema.get("required", ()) if key not in value)
        yield from (f"{place}.{key}: is missing" for key in missing)
    choices = schema.get("anyOf", ())
    found = [next(_find_mistakes(value, one, place, named), "") for one in choices]
    if found and all(found):
        yield found[0] if len(found) == 1 else f"{place}: fits none of its forms"


def _list_parts(
    value: object, schema: Mapping[str, Any], place: str
) -> Iterator[tuple[object, Any, str]]:
    """What is within a value, with its schema and its place."""
    if isinstance(value, dict):
        own = schema.get("properties", {})
        rest = schema.get("additionalProperties", True)
        for key, part in value.items():
            yield part, own.get(key, rest), f"{place}.{key:.60}"
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield part, schema.get("items", True), f"{place}[{number}]"
