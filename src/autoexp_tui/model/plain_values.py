"""Records of ours from plain values, as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def build_record(model: type[T], plain: Mapping[str, Any]) -> T:
    """A dataclass by its fields; those that are records too, in lists and by names as
    well, are made of theirs, and lists become tuples. Types are not looked at, for who
    wrote it had checked them: a validator would take longer to build than most steps
    of a search last. Raises TypeError for a field of a later version."""
    hints = _read_hints(cast(Any, model))
    made = {name: _build(hints.get(name), value) for name, value in plain.items()}
    return model(**made)


@cache
def _read_hints(model: Any) -> Mapping[str, Any]:
    return get_type_hints(model)


def _build(hint: Any, value: Any) -> Any:
    parts = get_args(hint)
    if isinstance(value, list | tuple):
        return tuple(_build(parts[0] if parts else None, one) for one in value)
    if not isinstance(value, Mapping):
        return value
    if get_origin(hint) is Mapping:
        return {name: _build(parts[1], one) for name, one in value.items()}
    record = next((one for one in (hint, *parts) if is_dataclass(one)), None)
    return build_record(record, value) if isinstance(record, type) else value
