"""Checks JSON against the part of JSON Schema (draft 2020-12) that answers need. Other
keywords are refused beforehand: what is not checked must not look as if it were."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, cast

_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: _is_number(value) and cast(float, value) % 1 == 0,
    "number": lambda value: _is_number(value),
}
_BOUNDS: Final[Mapping[str, tuple[type, Callable[[Any, Any], bool], str]]] = {
    "minimum": (float, lambda value, bound: value >= bound, "is less than"),
    "maximum": (float, lambda value, bound: value <= bound, "is more than"),
    "minLength": (str, lambda value, bound: len(value) >= bound, "is shorter than"),
    "maxLength": (str, lambda value, bound: len(value) <= bound, "is longer than"),
    "minItems": (
        list,
        lambda value, bound: len(value) >= bound,
        "has fewer items than",
    ),
    "maxItems": (list, lambda value, bound: len(value) <= bound, "has more items than"),
}
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
    return next(_Check(schema).find(value, schema, "$"), "")


class _Check:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.definitions: Mapping[str, Any] = root.get("$defs", {})

    def find(self, value: object, schema: Any, place: str) -> Iterator[str]:
        """All that is wrong with `value`, at `place` of the answer."""
        if schema is False:
            yield f"{place}: is no key here"
        if isinstance(schema, bool):
            return
        if name := str(schema.get("$ref", "")):
            named = self.definitions[name.removeprefix("#/$defs/")]
            yield from self.find(value, named, place)
        types = _list_types(schema)
        if types and not any(_TYPES[name](value) for name in types):
            yield f"{place}: is {value!r:.60}, not of type {' or '.join(types)}"
            return
        if "enum" in schema and value not in schema["enum"]:
            yield f"{place}: is {value!r:.60}, not one of {schema['enum']}"
        if "const" in schema and value != schema["const"]:
            yield f"{place}: is {value!r:.60}, not {schema['const']!r}"
        yield from self._find_out_of_bounds(value, schema, place)
        yield from self._find_within(value, schema, place)
        choices = schema.get("anyOf", ())
        found = [next(self.find(value, one, place), "") for one in choices]
        if found and all(found):
            yield found[0] if len(found) == 1 else f"{place}: fits none of its forms"

    def _find_out_of_bounds(
        self, value: object, schema: Mapping[str, Any], place: str
    ) -> Iterator[str]:
        for key in _BOUNDS.keys() & schema.keys():
            kind, is_within, what = _BOUNDS[key]
            fits = _is_number(value) if kind is float else isinstance(value, kind)
            if fits and not is_within(value, schema[key]):
                yield f"{place}: {what} {schema[key]}"

    def _find_within(
        self, value: object, schema: Mapping[str, Any], place: str
    ) -> Iterator[str]:
        if isinstance(value, dict):
            own = schema.get("properties", {})
            rest = schema.get("additionalProperties", True)
            for key in schema.get("required", ()):
                if key not in value:
                    yield f"{place}.{key}: is missing"
            for key, part in value.items():
                yield from self.find(part, own.get(key, rest), f"{place}.{key:.60}")
        if isinstance(value, list):
            for number, part in enumerate(value):
                yield from self.find(
                    part, schema.get("items", True), f"{place}[{number}]"
                )
