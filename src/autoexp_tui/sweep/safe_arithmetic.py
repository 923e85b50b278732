"""What an expression may do with values: bounded arithmetic, orderings, functions.

Pure and total: an operation gives a value of bounded size or raises ExpressionError
with a sentence. Operands are named as the person wrote them, which is why the
operations take the operands' spelling. How a text becomes operations: `expression`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

MAX_TEXT: Final = 4096
"""Characters of an expression, and of a text that it makes."""
MAX_BITS: Final = 1100
"""Size of whole numbers; the largest float has 1024 bits."""
_MAX_PLACES: Final = 320
"""Places that `round` may be asked for."""

Number: TypeAlias = int | float
Test: TypeAlias = Callable[[object, object], bool]


class ExpressionError(ValueError):
    """An expression that is refused, or that fails over the values it is given."""


class NoneOperand(ExpressionError):
    """None was ordered or calculated with; `operand` is how the text spells it."""

    def __init__(self, operand: str, sign: str) -> None:
        super().__init__(f"`{operand}` is None, and None has no `{sign}`")
        self.operand = operand


def check_number(value: object, operand: str, sign: str) -> Number:
    """`value` as an operand of `sign`; ExpressionError: it is not a number."""
    if isinstance(value, int | float):
        return value
    if value is None:
        raise NoneOperand(operand, sign)
    kind = type(value).__name__
    raise ExpressionError(f"`{operand}` is {kind}, and `{sign}` wants numbers")


def check_bounds_of(value: object) -> object:
    """`value`; ExpressionError when it has grown beyond all measure."""
    if isinstance(value, complex):
        raise ExpressionError("has no real value")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ExpressionError(f"makes a number of more than {MAX_BITS} bits")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise ExpressionError(f"makes a text of more than {MAX_TEXT} characters")
    return value


def _raise_power(base: Number, exponent: Number) -> object:
    if exponent == 0:
        return base**0
    if not isinstance(base, int) or not isinstance(exponent, int) or exponent < 0:
        return float(base) ** exponent
    if abs(base) > 1 and base.bit_length() * exponent > MAX_BITS:
        raise ExpressionError(f"`**` makes a number of more than {MAX_BITS} bits")
    return base ** (exponent if abs(base) > 1 else 2 - exponent % 2)


def _multiply(left: Number, right: Number) -> object:
    whole = isinstance(left, int) and isinstance(right, int)
    if whole and int(left).bit_length() + int(right).bit_length() > MAX_BITS + 1:
        raise ExpressionError(f"`*` makes a number of more than {MAX_BITS} bits")
    return left * right


ARITHMETIC: Final[Mapping[type, tuple[str, Callable[[Number, Number], object]]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", _multiply),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", _raise_power),
}
"""Operators between numbers: how they are written, and what they do."""


_ORDERINGS: Final[Mapping[type, tuple[str, Callable[[Any, Any], bool]]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}


def build_comparison(op: ast.cmpop, left: str, right: str) -> Test:
    """The test that `left op right` makes of two values."""
    match op:
        case ast.Eq() | ast.Is():
            return lambda a, b: a == b
        case ast.NotEq() | ast.IsNot():
            return lambda a, b: a != b
        case ast.In():
            return lambda a, b: _contains(a, b, left, right)
        case ast.NotIn():
            return lambda a, b: not _contains(a, b, left, right)
    return lambda a, b: _compare(a, b, type(op), left, right)


def _contains(a: object, b: object, left: str, right: str) -> bool:
    if b is None:
        raise NoneOperand(right, "in")
    if isinstance(b, str):
        if a is None:
            raise NoneOperand(left, "in")
        return isinstance(a, str) and a in b
    if isinstance(b, list | tuple | set | frozenset | dict):
        return any(a == item for item in b)
    raise ExpressionError(f"`{right}` holds nothing: `in` wants a list or a text")


def _compare(a: object, b: object, op: type, left: str, right: str) -> bool:
    sign, is_so = _ORDERINGS[op]
    if a is None or b is None:
        raise NoneOperand(left if a is None else right, sign)
    for kinds_alike in (int | float, str):
        if isinstance(a, kinds_alike) and isinstance(b, kinds_alike):
            return is_so(a, b)
    kinds = f"{type(a).__name__} and {type(b).__name__}"
    shown = f"`{left} {sign} {right}`"
    raise ExpressionError(f"{shown} orders {kinds}, which have no common order")


def _list_items(values: Sequence[object], name: str) -> Iterable[object]:
    if len(values) != 1:
        return values
    only = values[0]
    if isinstance(only, list | tuple | set | frozenset):
        return only
    raise ExpressionError(f"`{name}` wants a list, or several values")


def _find_extreme(values: Sequence[object], name: str, op: type) -> object:
    items = list(_list_items(values, name))
    if not items:
        raise ExpressionError(f"`{name}` of no values")
    best = items[0]
    for item in items[1:]:
        if _compare(item, best, op, f"an item of {name}", f"another of {name}"):
            best = item
    return best


def _sum(*values: object) -> object:
    total: Number = 0
    for item in _list_items(values, "sum"):
        total += check_number(item, "an item of sum", "+")
    return total


def _round(value: object, places: object = None) -> object:
    operand = check_number(value, "the value", "round")
    if places is None:
        return round(operand)
    if not isinstance(places, int) or abs(places) > _MAX_PLACES:
        raise ExpressionError(f"`round` takes up to {_MAX_PLACES} places")
    return round(operand, places)


def _count_items(value: object) -> object:
    if not isinstance(value, str | list | tuple | set | frozenset | dict):
        raise ExpressionError(f"`len` wants a text or a list, not {value!r}")
    return len(value)


def _to_whole(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        raise ExpressionError(f"`int` of {value} has no value")
    return int(_check_spelled(value, "`int` wants a number or a text"))


def _to_text(value: object) -> object:
    if value is None:
        return "None"
    return str(_check_spelled(value, "`str` wants a text or a number"))


def _check_spelled(value: object, wants: str) -> Any:
    if isinstance(value, int | float | str):
        return value
    raise ExpressionError(f"{wants}, not {value!r}")


FUNCTIONS: Final[Mapping[str, tuple[Callable[..., object], int, int | None]]] = {
    "int": (_to_whole, 1, 1),
    "float": (
        lambda value: float(_check_spelled(value, "`float` wants a number or a text")),
        1,
        1,
    ),
    "round": (_round, 1, 2),
    "abs": (lambda value: abs(check_number(value, "the value", "abs")), 1, 1),
    "min": (lambda *values: _find_extreme(values, "min", ast.Lt), 1, None),
    "max": (lambda *values: _find_extreme(values, "max", ast.Gt), 1, None),
    "len": (_count_items, 1, 1),
    "str": (_to_text, 1, 1),
    "sum": (_sum, 1, None),
}
"""What may be called: the function, and its fewest and most values."""
