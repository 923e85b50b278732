"""Expressions that want the machine, or all of it, are refused at once.

In a filter, in `${oc.eval:...}` of a config, and in an override of the command line:
one evaluator reads them all, and none of its sentences depends on where it stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.resolvers import evaluate
from autoexp_tui.planning.overrides import format_override
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.sweep.expression import ExpressionError, compile_expression
from autoexp_tui.sweep.filters import PointFilter, check_filter
from tests.config.config_trees import write_tree

CPU_SECONDS = 0.010
CALLED = "only int, float, round, abs, min, max, len, str, sum may be called"
DEEP = "is nested too deeply"
ATTRIBUTES = "values have no attributes here"
HOSTILE = [
    ("__import__('os').system('x')", f"`__import__('os').system('x')`: {CALLED}"),
    ("__import__('os')", f"`__import__('os')`: {CALLED}"),
    ("open('/etc/passwd')", f"`open('/etc/passwd')`: {CALLED}"),
    ("eval('1')", f"`eval('1')`: {CALLED}"),
    ("9**9**9", "`**` makes a number of more than 1100 bits"),
    ("2**2**20", "`**` makes a number of more than 1100 bits"),
    ("10**200*10**200", "`*` makes a number of more than 1100 bits"),
    ("9" * 4000, "makes a number of more than 1100 bits"),
    ("'a'*10**9", "`'a'` is str, and `*` wants numbers"),
    ("[0]*10**9", "`[0]` is list, and `*` wants numbers"),
    ("'a' + " * 500 + "'a'", "has more than 800 parts"), ("(" * 4000, DEEP),
    ("(" * 41 + "1" + ")" * 41, DEEP), ("not " * 1000 + "1", "has more than 800 parts"),
    ("-" * 4000 + "1", DEEP), ("1" * 5000, "is longer than 4096 characters"),
    ("[x for x in y]", "`[x for x in y]`: comprehensions are not allowed here"),
    ("{1: 2}", "`{1: 2}`: mappings are not allowed here"),
    ("lambda: 1", "`lambda: 1`: functions are not allowed here"),
    ("(x := 1)", "`(x := 1)`: assignments are not allowed here"),
    ("f'{1}'", "`f'{1}'`: f-strings are not allowed here"),
    ("min(*[1, 2])", "`*[1, 2]`: stars are not allowed here"),
    ("1 | 2", "`1 | 2` uses an operator that is not allowed; write `or`"),
    ("1 << 10000", "`1 << 10000` uses an operator that is not allowed"),
    ("b'a'", "`b'a'` is not a value for configs"),
    ("1j", "`1j` is not a value for configs"),
    ("round(10**200, -10**9)", "`round` takes up to 320 places"),
    ("'%s' % 1", "`'%s'` is str, and `%` wants numbers"),
    ("().__class__.__bases__[0].__subclasses__()", CALLED),
    ("''.__class__.__mro__", ATTRIBUTES), ("(1).__class__", ATTRIBUTES),
    ("'a'.format(1)", CALLED),
]  # fmt: skip


def in_a_filter(text: str) -> None:
    check_filter(text)
    PointFilter(text, ()).holds({})


def in_an_expression(text: str) -> None:
    compile_expression(text).evaluate({})


def refused(run: Callable[[str], None], text: str) -> str:
    """What is said, in next to no time; the quickest of some tries counts."""
    spent = []
    for _ in range(5):
        compile_expression.cache_clear()
        begun = time.thread_time()
        with pytest.raises(ExpressionError) as caught:
            run(text)
        spent.append(time.thread_time() - begun)
        said = str(caught.value)
    assert min(spent) < CPU_SECONDS
    return said


@pytest.mark.parametrize("run", [in_a_filter, in_an_expression])
@pytest.mark.parametrize(("text", "message"), HOSTILE, ids=lambda text: text[:16])
def test_it_is_refused_in_milliseconds_with_a_sentence(
    run: Callable[[str], None], text: str, message: str
) -> None:
    said = refused(run, text)
    assert said == message or (message in (ATTRIBUTES, CALLED) and message in said)


LONG = [
    "10**4000", "*".join(["9" * 300] * 12), "[" * 200 + "]" * 200, "{" * 100,
    "- " * 2000 + "1", "1" + "+1" * 2000, "2" + "**2" * 1300, "a" + ".a" * 2000,
    "1 if 1 else " * 300 + "1", "(1," * 41 + ")" * 41, "a" + "(a" * 200,
    "'" + "\\" * 4001 + "'", "'" + "\\'" * 2000 + "#",
    "str(10**300)" + "+str(10**300)" * 60, "round(10**300, -10**9)",
    "max(" * 41 + "1" + ")" * 41, "lambda:" * 500 + "1",
    "[[" * 19 + "x" + " for x in x]" * 19, "{" + "{1:" * 39,
    "f" + "'" * 3 + "{" * 39 + "1" + "}" * 39 + "'" * 3,
]  # fmt: skip


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:12])
def test_a_long_text_is_refused_in_milliseconds(text: str) -> None:
    assert refused(in_an_expression, text)


@pytest.mark.parametrize(("text", "message"), HOSTILE[:9:2], ids=lambda text: text[:16])
def test_the_command_line_refuses_it(text: str, message: str, tmp_path: Path) -> None:
    tree = write_tree(tmp_path, exp="{x: 1, project: {name: a}}")
    override = format_override("x", f"${{oc.eval:{text}}}")
    with (
        closing(HydraComposer("exp", tree, (override,))) as composer,
        pytest.raises(CannotCompose) as caught,
    ):
        composer.base().select("x")
    (problem,) = caught.value.problems
    assert problem.where == "x"
    assert problem.message.startswith("oc.eval `")
    assert problem.message.endswith(f"`: {message}")


def test_oc_eval_names_the_expression_that_it_refuses() -> None:
    said = r"oc\.eval `9\*\*_0` with _0 = 9000: `\*\*` makes"
    with pytest.raises(ValueError, match=said):
        evaluate("9**_0", 9000)
