"""The one safe evaluator: sweep filters and `${oc.eval:...}` are read here alone.

An expression is parsed into Python's own syntax tree, checked against an allow-list
and compiled once into closures; nothing is ever handed to `eval`. There is no
attribute of a value, no call but the listed functions, no repetition of sequences,
and every length and magnitude is bounded, so that a hostile text is refused in
milliseconds instead of running. What a name means is told by `filters`.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

from autoexp_tui.text.did_you_mean import did_you_mean

MAX_TEXT: Final = 4096
"""Characters of an expression, and of a text that it makes."""
MAX_BITS: Final = 1100
"""Size of whole numbers; the largest float has 1024 bits."""
_MAX_PLACES: Final = 320
"""Places that `round` may be asked for."""

Number: TypeAlias = int | float


class ExpressionError(ValueError):
    """An expression that is refused, or that fails over the values it is given."""


def _refuse_none(sign: str, *operands: object) -> None:
    """Keys that only other points have are None."""
    if None in operands:
        hint = "write `... is not None and ...`"
        raise ExpressionError(f"`{sign}` has a value that is None; {hint}")


def _check_number(value: object, sign: str) -> Number:
    """`value` as an operand of `sign`; ExpressionError: it is not a number."""
    _refuse_none(sign, value)
    if isinstance(value, int | float):
        return value
    raise ExpressionError(f"`{sign}` wants numbers, not {type(value).__name__}")


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


def _contains(a: object, b: Any) -> bool:
    if isinstance(b, str):
        _refuse_none("in", a)
        return isinstance(a, str) and a in b
    _refuse_none("in", b)
    return any(a == item for item in b)


def _compare(op: ast.cmpop, a: object, b: object) -> bool:
    match op:
        case ast.Eq() | ast.Is():
            return a == b
        case ast.NotEq() | ast.IsNot():
            return a != b
        case ast.In() | ast.NotIn():
            return _contains(a, b) is isinstance(op, ast.In)
    sign, is_so = _ORDERINGS[type(op)]
    _refuse_none(sign, a, b)
    return is_so(a, b)


def _sum(*values: Any) -> object:
    """Of a list, or of several values."""
    return sum(values[0] if len(values) == 1 else values)


def _round(value: Any, places: Any = None) -> object:
    if isinstance(places, int) and abs(places) > _MAX_PLACES:
        raise ExpressionError(f"`round` takes up to {_MAX_PLACES} places")
    return round(value, places)


FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "int": int,
    "float": float,
    "round": _round,
    "abs": abs,
    "min": min,
    "max": max,
    "len": len,
    "str": str,
    "sum": _sum,
}
"""What may be called."""


MAX_NODES: Final = 800
MAX_DEPTH: Final = 40
"""Brackets, signs or operations inside one another."""

_NEWLINE: Final = re.compile(r"\r\n?|\n")
_COMMENT: Final = re.compile(
    r"""('(?:\\.|[^'\\])*(?:'|\\?\Z)|"(?:\\.|[^"\\])*(?:"|\\?\Z))|#[^\r\n]*""",
    re.DOTALL,
)
"""A string, which is kept, or a comment; an open string goes on to the end."""

Run: TypeAlias = Callable[[Mapping[str, object]], object]


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A checked expression, ready to be evaluated any number of times."""

    text: str
    names: tuple[str, ...]
    """The names that it reads, in order; dotted ones whole, `p["k"]` as `k`."""
    keys: frozenset[str]
    """Those of `names` that were written as `p["k"]`, and mean exactly that key."""
    _run: Run = field(repr=False)

    def evaluate(self, names: Mapping[str, object]) -> object:
        """The value; ExpressionError: a name is unknown, or an operation fits not."""
        try:
            return self._run(names)
        except ExpressionError:
            raise
        except OverflowError:
            raise ExpressionError("is too large for a number") from None
        except (ArithmeticError, ValueError, TypeError) as error:
            raise ExpressionError(str(error) or type(error).__name__) from None


@lru_cache(maxsize=1024)
def compile_expression(text: str, *, dotted: bool = False) -> Expression:
    """Check and compile `text`.

    `dotted`: `a.b.c` is one name, and `p["any key"]` the name in the brackets, as in
    sweep filters; otherwise neither is allowed. ExpressionError: what is refused.
    """
    builder = _Builder(dotted=dotted)
    run = builder.build(_parse(text), 0)
    names = tuple(dict.fromkeys(builder.names))
    return Expression(text, names, frozenset(builder.keys), run)


def _parse(text: str) -> ast.expr:
    if len(text.strip()) > MAX_TEXT:
        raise ExpressionError(f"is longer than {MAX_TEXT} characters")
    # Lines as one; a comment ends with its own line, not with the last.
    line = _NEWLINE.sub(" ", strip_comments(text)).strip()
    if not line:
        raise ExpressionError("is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(line, mode="eval").body
    except SyntaxError as error:
        pairs = (("&&", "and"), ("||", "or"))
        hints = [f"; write `{good}` for `{bad}`" for bad, good in pairs if bad in line]
        place = f" at column {error.offset}" if error.offset else ""
        message = f"does not parse: {error.msg}{place}{''.join(hints)}"
        raise ExpressionError(message) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"does not parse: {error}") from None
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise ExpressionError(f"has more than {MAX_NODES} parts")
    return tree


def strip_comments(text: str) -> str:
    """An expression without its comments; `#` in a string is none."""
    return _COMMENT.sub(lambda m: m[1] or "", text) if "#" in text else text


def _format_node(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."


class _Builder:
    def __init__(self, *, dotted: bool) -> None:
        self.dotted = dotted
        self.names: list[str] = []
        self.keys: list[str] = []

    def build(self, node: ast.expr, depth: int) -> Run:
        """The closure for a node that lies `depth` operations deep."""
        if depth > MAX_DEPTH:
            raise ExpressionError("is nested too deeply")
        match node:
            case ast.Constant(value=value):
                if not isinstance(value, str | bool | int | float | None):
                    shown = f"`{_format_node(node)}`"
                    raise ExpressionError(f"{shown} is not a value for configs")
                check_bounds_of(value)
                return lambda _names: value
            case ast.Name():
                return self._build_name(node.id)
            case ast.Attribute():
                return self._build_name(self._join_attributes(node))
            case ast.Subscript():
                return self._build_key(node)
            case ast.BoolOp():
                return self._build_boolean(node, depth + 1)
            case ast.UnaryOp():
                return self._build_unary(node, depth + 1)
            case ast.BinOp():
                return self._build_binary(node, depth + 1)
            case ast.Compare():
                return self._build_comparison(node, depth + 1)
            case ast.IfExp():
                parts = (node.test, node.body, node.orelse)
                test, then, other = (self.build(part, depth + 1) for part in parts)
                return lambda names: then(names) if test(names) else other(names)
            case ast.List() | ast.Tuple() | ast.Set():
                runs = [self.build(element, depth + 1) for element in node.elts]
                kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
                return lambda names: kind(run(names) for run in runs)
            case ast.Call():
                return self._build_call(node, depth + 1)
        what = f"{type(node).__name__} is not allowed here"
        raise ExpressionError(f"`{_format_node(node)}`: {what}")

    def _build_name(self, name: str) -> Run:
        self.names.append(name)
        return _look_up(name)

    def _join_attributes(self, node: ast.Attribute) -> str:
        parts: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if not self.dotted or not isinstance(inner, ast.Name):
            raise ExpressionError(
                f"`{_format_node(node)}`: values have no attributes here; "
                "refer to a key of the config as ${...}"
            )
        return ".".join([inner.id, *reversed(parts)])

    def _build_key(self, node: ast.Subscript) -> Run:
        match node:
            case ast.Subscript(
                value=ast.Name(id="p"), slice=ast.Constant(value=str(key))
            ) if self.dotted:
                self.keys.append(key)
                return self._build_name(key)
        hint = 'only p["key"] takes brackets' if self.dotted else "there are no indices"
        raise ExpressionError(f"`{_format_node(node)}` is not allowed: {hint}")

    def _build_boolean(self, node: ast.BoolOp, depth: int) -> Run:
        runs = [self.build(value, depth) for value in node.values]
        until = isinstance(node.op, ast.Or)

        def run(names: Mapping[str, object]) -> object:
            value: object = not until
            for part in runs:
                value = part(names)
                if bool(value) is until:
                    break
            return value

        return run

    def _build_unary(self, node: ast.UnaryOp, depth: int) -> Run:
        inner = self.build(node.operand, depth)
        match node.op:
            case ast.Not():
                return lambda names: not inner(names)
            case ast.USub():
                return lambda names: -_check_number(inner(names), "-")
            case ast.UAdd():
                return lambda names: +_check_number(inner(names), "+")
        raise ExpressionError("`~` is not allowed; write `not`")

    def _build_binary(self, node: ast.BinOp, depth: int) -> Run:
        if type(node.op) not in ARITHMETIC:
            words = {ast.BitAnd: "; write `and`", ast.BitOr: "; write `or`"}
            hint = f"an operator that is not allowed{words.get(type(node.op), '')}"
            raise ExpressionError(f"`{_format_node(node)}` uses {hint}")
        sign, operate = ARITHMETIC[type(node.op)]
        left, right = self.build(node.left, depth), self.build(node.right, depth)

        def run(names: Mapping[str, object]) -> object:
            a, b = left(names), right(names)
            if sign == "+" and isinstance(a, str) and isinstance(b, str):
                return check_bounds_of(a + b)
            both = _check_number(a, sign), _check_number(b, sign)
            return check_bounds_of(operate(*both))

        return run

    def _build_comparison(self, node: ast.Compare, depth: int) -> Run:
        operands = [node.left, *node.comparators]
        runs = [self.build(operand, depth) for operand in operands]
        for op, *both in zip(node.ops, operands, operands[1:], strict=False):
            constants = [one.value for one in both if isinstance(one, ast.Constant)]
            if isinstance(op, ast.Is | ast.IsNot) and None not in constants:
                raise ExpressionError("`is` works with None alone; write `==`")

        def run(names: Mapping[str, object]) -> object:
            left = runs[0](names)
            for at, op in enumerate(node.ops):
                right = runs[at + 1](names)
                if not _compare(op, left, right):
                    return False
                left = right
            return True

        return run

    def _build_call(self, node: ast.Call, depth: int) -> Run:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS or node.keywords:
            allowed = ", ".join(FUNCTIONS)
            raise ExpressionError(
                f"`{_format_node(node)}`: only {allowed} may be called"
            )
        function = FUNCTIONS[name]
        runs = [self.build(argument, depth) for argument in node.args]
        return lambda names: check_bounds_of(function(*(run(names) for run in runs)))


_WORDS: Final = {"true": "True", "false": "False", "null": "None", "none": "None"}


def _look_up(name: str) -> Run:
    def run(names: Mapping[str, object]) -> object:
        try:
            return names[name]
        except KeyError:
            raise ExpressionError(explain_unknown_name(name, names)) from None

    return run


def explain_unknown_name(name: str, known: Iterable[str]) -> str:
    """A sentence that says so, with the near miss or the candidates."""
    if name in _WORDS:
        return f"`{name}` is no name; write `{_WORDS[name]}`"
    if name in FUNCTIONS:
        return f"`{name}` is a function: write `{name}(...)`"
    return f"`{name:.80}` is not known; {did_you_mean(name, known, 'names')}"
