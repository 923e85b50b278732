"""The one safe evaluator: what it computes, and what it refuses, how fast."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.sweep.expression import (
    ExpressionError,
    NoneOperand,
    compile_expression,
)


def value(text: str, **names: object) -> object:
    return compile_expression(text).evaluate(names)


@pytest.mark.parametrize(("text", "expected"), [
    ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("7 // 2", 3), ("7 % 4", 3), ("7 / 2", 3.5),
    ("2 ** 10", 1024), ("2 ** -1", 0.5), ("2 ** 0.5", 2**0.5), ("0 ** 99999999999", 0),
    ("(-1) ** 999999999999", -1), ("9.5 ** 0", 1.0), ("-3 + +4", 1), ("not 1", False),
    ("1 < 2 <= 2 != 3", True), ("1 < 2 > 5", False), ("'b' in 'abc'", True),
    ("3 in (1, 2)", False), ("1 in 'a1'", False), ("3 not in [1, 2]", True),
    ("[1] in {1, 2}", False), ("'a' < 'b'", True), ("None is None", True), ('"#"', "#"),
    ("1 is not None", True), ("1 if 0 else 2", 2), ("0 or 'x'", "x"), ("round(2.5)", 2),
    ("0 and fails", 0), ("'a' + 'b'", "ab"), ("int('12') + int(3.9)", 15),
    ("float('1e-4')", 1e-4), ("round(2.567, 1)", 2.6), ("abs(-3)", 3), ("str(5)", "5"),
    ("min(3, 1, 2)", 1), ("max([3, 1, 2])", 3), ("sum([1, 2.5])", 3.5), ("True + 1", 2),
    ("len('abc') + len([1])", 4), ("{1, 2} == {2, 1}", True), ("1\n + 2", 3),
    ("1  # one\n+ 2", 3), ("1  # it's one\r\n+ 2  # and two", 3), ("# a head\n1", 1),
    ("'a # b'  # c", "a # b"), ("'it\\'s # b' + \"#\"", "it's # b#"),
])  # fmt: skip
def test_computes_as_python_does(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_names_are_read_and_listed_in_order_and_dotted_ones_are_one() -> None:
    assert value("lr * batch <= 0.1", lr=1e-3, batch=64)
    assert compile_expression("b + a * b").names == ("b", "a")
    expression = compile_expression('optim.lr < p["a b"]', dotted=True)
    assert expression.names == ("optim.lr", "a b")
    assert expression.keys == {"a b"}
    assert expression.evaluate({"optim.lr": 1, "a b": 2}) is True
    assert compile_expression("p > 1", dotted=True).evaluate({"p": 2}) is True


@pytest.mark.parametrize(("text", "message"), [
    ("", "is empty"), ("   ", "is empty"), ("1 +", "does not parse"),
    ("a && b", "write `and` for `&&`"), ("a || b", "write `or` for `||`"),
    ("a.b", "values have no attributes"), ("a[0]", "there are no indices"),
    ("p['x']", "there are no indices"), ("a & b", "write `and`"), ("~a", "write `not`"),
    ("a @ b", "an operator that is not allowed"), ("a is b", "write `==`"),
    ("int(x=1)", "may be called"), ("(lambda: 1)()", "may be called"),
    ("{x for x in y}", "comprehensions are not allowed"), ("x\0", "does not parse"),
    ("{x: 1 for x in y}", "comprehensions are not allowed"),
    ("sum(x for x in y)", "comprehensions are not allowed"),
    ("...", "not a value for configs"), ("int()", "`int` takes one value"),
    ("round(1, 2, 3)", "`round` takes 1 to 2 values"),
    ("min()", "`min` takes 1 or more values"),
    ("x" * 5000, "longer than 4096 characters"),
])  # fmt: skip
def test_refuses_what_is_not_listed(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message.replace("(", r"\(")):
        compile_expression(text)
    with pytest.raises(ExpressionError, match=r'only p\["key"\] takes brackets'):
        compile_expression("q['a']", dotted=True)


@pytest.mark.parametrize(("text", "message"), [
    ("1 / 0", "divides by zero"), ("[1] + [2]", "wants numbers"), ("min([])", "empty"),
    ("'a' < 1", "orders str and int"), ("1 in 2", "holds nothing"),
    ("int('x')", "invalid literal"), ("int(1e999)", "too large for a number"),
    ("int([1])", "not 'list'"), ("len(5)", "has no len"), ("round('a')", "__round__"),
    ("abs('a')", "bad operand type"), ("sum(['a'])", "unsupported operand"),
    ("sum(5)", "wants a list, or several values"), ("(-8) ** 0.5", "has no real value"),
    ("max(1, 'a')", "not supported between"), ("1e200 ** 2", "too large"),
    ("{[1]}", "unhashable"), ("nothing", "`nothing` is not known"),
    ("true", "write `True`"), ("int", r"write `int\(...\)`"),
    ("bacth > 1", "did you mean `batch`"),
])  # fmt: skip
def test_says_why_it_fails(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        value(text, batch=3)


@pytest.mark.parametrize("text", ["x < 1", "1 + x", "-x", "x in 'a'", "1 in x"])
def test_none_is_named_when_it_is_ordered_or_calculated_with(text: str) -> None:
    with pytest.raises(NoneOperand) as caught:
        value(text, x=None)
    assert caught.value.operand == "x"
    assert value("x == None and x != 1 and x not in [1]", x=None) is True


PARTS = ["a", "b", "1", "2.5", "'s'", "None", "(", ")", "[", "]", ",", " "]
SIGNS = ["+", "-", "*", "**", "//", "<", "==", " in ", " and ", " not ", "int(", "p["]
ROWS = st.lists(st.sampled_from(PARTS + SIGNS), max_size=30).map("".join)


@settings(max_examples=100)
@given(st.one_of(st.text(max_size=200), ROWS))
def test_any_text_is_evaluated_or_refused(text: str) -> None:
    with suppress(ExpressionError):
        compile_expression(text, dotted=True).evaluate({"a": 7, "b": None})


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_numbers_behave_as_in_python(a: int, b: int) -> None:
    assert value("a * b - (a + b) // 7", a=a, b=b) == a * b - (a + b) // 7
