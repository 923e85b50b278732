"""The one safe evaluator: what it computes, and what it refuses, how fast.

It reads filters, `${oc.eval:...}` of a config, and overrides of the command line; none
of its sentences depends on where an expression stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.sweep.expression import ExpressionError, compile_expression
from autoexp_tui.sweep.filters import PointFilter, check_filter

CPU_SECONDS = 0.010


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
    for brackets, dotted, said in (
        ("q['a']", True, r'only p\["key"\] takes brackets'),
        ("p['a']", False, "there are no indices"),
        ("a[0]", False, "there are no indices"),
    ):
        with pytest.raises(ExpressionError, match=said):
            compile_expression(brackets, dotted=dotted)


BITS = "makes a number of more than 1100 bits"
CALLED = "only int, float, round, abs, min, max, len, str, sum may be called"
ALLOWED, INSIDE = "is not allowed here", "ListComp is not allowed here"
MANY, DEEP = "has more than 800 parts", "is nested too deeply"
HOSTILE = [
    ("__import__('os').system('x')", f"`__import__('os').system('x')`: {CALLED}"),
    ("open('/etc/passwd')", f"`open('/etc/passwd')`: {CALLED}"),
    ("9**9**9", f"`**` {BITS}"), ("[0]*10**9", "`*` wants numbers, not list"),
    ("eval('1')", f"`eval('1')`: {CALLED}"), ("2**2**20", f"`**` {BITS}"),
    ("10**200*10**200", f"`*` {BITS}"), ("9" * 4000, BITS), ("10**4000", BITS),
    ("'a'*10**9", "`*` wants numbers, not str"), ("x\0", "does not parse"),
    ("'%s' % 1", "`%` wants numbers, not str"), ("(" * 4000, "does not parse"),
    ("1" * 5000, "is longer than 4096 characters"), ("'a' + " * 500 + "'a'", MANY),
    ("not " * 1000 + "1", MANY), ("-" * 4000 + "1", ""), ("{" * 100, ""),
    ("-" * 41 + "1", DEEP), ("[" * 200 + "]" * 200, ""),
    ("*".join(["9" * 300] * 12), ""), ("2" + "**2" * 1300, ""),
    ("- " * 2000 + "1", ""), ("1" + "+1" * 2000, ""), ("a" + ".a" * 2000, ""),
    ("1 if 1 else " * 300 + "1", ""), ("(1," * 41 + ")" * 41, ""),
    ("a" + "(a" * 200, ""), ("'" + "\\" * 4001 + "'", ""), ("lambda:" * 500 + "1", ""),
    ("'" + "\\'" * 2000 + "#", ""), ("max(" * 41 + "1" + ")" * 41, ""),
    ("str(10**300)" + "+str(10**300)" * 60, ""), ("round(10**300, -10**9)", ""),
    ("[[" * 19 + "x" + " for x in x]" * 19, ""), ("{" + "{1:" * 39, ""),
    ("f" + "'" * 3 + "{" * 39 + "1" + "}" * 39 + "'" * 3, ""),
    ("round(10**200, -10**9)", "`round` takes up to 320 places"),
    ("[x for x in y]", f"`[x for x in y]`: {INSIDE}"), ("{x for x in y}", ALLOWED),
    ("{x: 1 for x in y}", ALLOWED), ("sum(x for x in y)", ALLOWED),
    ("{1: 2}", f"Dict {ALLOWED}"), ("lambda: 1", f"Lambda {ALLOWED}"),
    ("(lambda: 1)()", CALLED), ("(x := 1)", f"NamedExpr {ALLOWED}"),
    ("f'{1}'", f"`f'{{1}}'`: JoinedStr {ALLOWED}"), ("1 @ 2", "that is not allowed"),
    ("min(*[1, 2])", f"`*[1, 2]`: Starred {ALLOWED}"), ("int(x=1)", "may be called"),
    ("1 | 2", "`1 | 2` uses an operator that is not allowed; write `or`"),
    ("1 & 2", "write `and`"), ("~1", "write `not`"), ("1 is 1", "write `==`"),
    ("1 << 10000", "`1 << 10000` uses an operator that is not allowed"),
    ("b'a'", "`b'a'` is not a value for configs"), ("...", "not a value for configs"),
    ("1j", "`1j` is not a value for configs"), ("'a'.format(1)", CALLED),
    ("().__class__.__bases__[0].__subclasses__()", CALLED),
    ("''.__class__.__mro__", "attributes here"), ("(1).__class__", "attributes here"),
    ("1 +", "does not parse"), ("", "is empty"), ("   ", "is empty"),
    ("a && b", "write `and` for `&&`"), ("a || b", "write `or` for `||`"),
    ("abs()", "takes exactly one argument"), ("min()", "expected at least 1"),
    ("round(1, 2, 3)", "takes from 1 to 2 positional arguments"),
]  # fmt: skip


def judge_filter(text: str) -> None:
    check_filter(text)
    PointFilter(text, ()).holds({})


@pytest.mark.parametrize("judge", [judge_filter, value])
@pytest.mark.parametrize(("text", "said"), HOSTILE, ids=lambda text: str(text)[:16])
def test_it_is_refused_in_milliseconds_with_a_sentence(
    text: str, said: str, judge: Callable[[str], object]
) -> None:
    spent = []
    for _ in range(5):  # the quickest of some tries counts
        compile_expression.cache_clear()
        begun = time.thread_time()
        with pytest.raises(ExpressionError) as caught:
            judge(text)
        spent.append(time.thread_time() - begun)
        assert said in str(caught.value) != ""
    assert min(spent) < CPU_SECONDS


@pytest.mark.parametrize(("text", "message"), [
    ("1 / 0", "division by zero"), ("[1] + [2]", "wants numbers"), ("min([])", "empty"),
    ("'a' < 1", "'<' not supported"), ("1 in 2", "is not iterable"),
    ("int('x')", "invalid literal"), ("int(1e999)", "too large for a number"),
    ("int([1])", "not 'list'"), ("len(5)", "has no len"), ("round('a')", "__round__"),
    ("abs('a')", "bad operand type"), ("sum(['a'])", "unsupported operand"),
    ("sum(5)", "is not iterable"), ("(-8) ** 0.5", "has no real value"),
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
    with pytest.raises(ExpressionError, match="has a value that is None"):
        value(text, x=None)
    assert value("x == None and x != 1 and x not in [1]", x=None) is True


PARTS = [*"ab1()[], +-*<", "2.5", "'s'", "None", "**", "//", "==", " in ", " and ",
         " not ", "int(", "p["]  # fmt: skip
ROWS = st.lists(st.sampled_from(PARTS), max_size=30).map("".join)


@settings(max_examples=100)
@given(st.one_of(st.text(max_size=200), ROWS), st.integers(-(10**6), 10**6))
def test_any_text_is_evaluated_or_refused(text: str, a: int) -> None:
    with suppress(ExpressionError):
        compile_expression(text, dotted=True).evaluate({"a": 7, "b": None})
    assert value("a * b - (a + b) // 7", a=a, b=9) == a * 9 - (a + 9) // 7
