"""Comparing what a log said with what a config asks: numbers as numbers, else text."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from autoexp_tui.model.specs import Scalar

Op: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]

_NUMBER: Final = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf|infinity)",
    re.ASCII | re.IGNORECASE,
)
_INTEGER: Final = re.compile(r"[-+]?\d{1,300}", re.ASCII)

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)


def compare(left: Scalar, op: Op, right: Scalar) -> bool:
    """Whether `left op right` holds.

    Two numbers, also written as text (`"8000"`, `8e3`), compare as numbers; anything
    else as text, where only `==` and `!=` can hold. Booleans are spelled `true` and
    `false` in any case.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return _equal_only(_text(left).lower(), op, _text(right).lower())
    one, two = as_number(left), as_number(right)
    if one is not None and two is not None:
        return bool(_OPERATORS[op](one, two))
    return _equal_only(_text(left), op, _text(right))


def _equal_only(left: str, op: Op, right: str) -> bool:
    return op in ("==", "!=") and _OPERATORS[op](left, right)


def _text(value: Scalar) -> str:
    return "" if value is None else str(value).strip()


def as_number(value: Scalar) -> int | float | None:
    """The number that `value` is or spells; None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else None
