"""Checks JSON against the part of JSON Schema that our schemas of answers use: type,
enum, required, items, properties, and `additionalProperties: false`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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


def find_mistake(value: object, schema: Mapping[str, Any]) -> str:
    """What is wrong first, as `path: reason`; empty: nothing is."""
    return next(_find_mistakes(value, schema, "$"), "")


def _find_mistakes(value: Any, schema: Mapping[str, Any], place: str) -> Iterator[str]:
    """All that is wrong with `value`, at `place` of the answer."""
    wanted = schema.get("type", ())
    types = (wanted,) if isinstance(wanted, str) else wanted
    if types and not any(_TYPES[name](value) for name in types):
        yield f"{place}: is {value!r:.60}, not of type {' or '.join(types)}"
        return
    if value not in schema.get("enum", (value,)):
        yield f"{place}: is {value!r:.60}, not one of {schema['enum']}"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key, part in value.items():
            if key in known:
                yield from _find_mistakes(part, known[key], f"{place}.{key:.60}")
            elif schema.get("additionalProperties") is False:
                yield f"{place}.{key:.60}: is no key here"
        missing = (key for key in schema.get("required", ()) if key not in value)
        yield from (f"{place}.{key}: is missing" for key in missing)
    elif isinstance(value, list):
        inner = schema.get("items", {})
        for number, part in enumerate(value):
            yield from _find_mistakes(part, inner, f"{place}[{number}]")
