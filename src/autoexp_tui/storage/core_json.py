"""Core values as JSON, and back: what all that this program keeps has in common.

Encoding is standard library alone; decoding checks with pydantic (`validators`), which
is imported at the first use. No file is touched here. What is kept is in `plan_codec`
and in `codec`.

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
from functools import cache, partial
from typing import Any, TypeVar, cast

from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.storage.validators import complaint, validator

T = TypeVar("T")

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


def _plain(value: object) -> object:
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
    default=_plain,
)
LOOSE = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_plain
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
        data = _COMPACT.encode(mended(value)).encode()
    try:
        check(data)
    except (Undecodable, JournalDamaged) as error:
        raise Unencodable(str(error)) from error
    return data


def mended(value: object) -> object:
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
        return [mended(part) for part in value]
    tree = cast("Mapping[object, object]", _plain(value))
    return {_mended_key(key): mended(part) for key, part in tree.items()}


def _mended_key(key: object) -> str:
    if not isinstance(key, str):
        raise Unencodable(f"a key that is not text: {key!r:.80}")
    return _SURROGATES.sub("\ufffd", key)


@cache
def json_reader() -> Callable[[bytes], Any]:
    """What reads JSON; imported at the first use. It raises ValueError."""
    from pydantic_core import from_json

    return partial(from_json, allow_inf_nan=False)


def decode(model: type[T], data: bytes, where: str, *, finite: bool = True) -> T:
    """A dataclass of the core from its JSON; `finite`: without nan and infinities.

    Raises:
        JournalDamaged: it does not read; names `where` and what is wrong.
    """
    check = validator(cast(Any, model), finite=finite)
    try:
        value = check.validate_json(data, strict=True)
    except ValueError as error:
        raise JournalDamaged(complaint(error), where) from error
    if value is None:
        raise JournalDamaged("it is null", where)
    return cast(T, value)
