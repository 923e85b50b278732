"""Texts with references: read into pieces, and what stands for each in a job."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.planning.references import (
    Interpolation,
    NotAReference,
    Reference,
    parse_template,
    split_pattern,
)


def ref(inside: str) -> Reference:
    return Reference((inside,), f"{{{inside}}}")


NESTED = "{runtime.{sibling.a.name}.key}"


@pytest.mark.parametrize(("text", "parts"), [
    (NESTED, (Reference(("runtime.", ref("sibling.a.name"), ".key"), NESTED),)),
    ("plain", ("plain",)), ("", ()), ("{stage}", (ref("stage"),)), ("a}b", ("a}b",)),
    ("lr{lr}_{stage}", ("lr", ref("lr"), "_", ref("stage"))), ("a{{b}}c", ("a{b}c",)),
    ("{{{a}}}", ("{", ref("a"), "}")), ("${a}", (Interpolation(("${a}",)),)),
    ("{sibling[a=1, b=2].x}", (ref("sibling[a=1, b=2].x"),)), (r"\${a}", (r"\${a}",)),
    ("${a.${b}}x", (Interpolation(("${a.${b}}",)), "x")), ("${a", ("${a",)),
    ("${f:{a:1}}", (Interpolation(("${f:{a:1}}",)),)),
    ("${f:{a:{b:1}}}", (Interpolation(("${f:{a:{b:1}}}",)),)),
    ("${base.lr}", (Reference(("base.lr",), "${base.lr}"),)),
    ("${base.lr}x", (Reference(("base.lr",), "${base.lr}"), "x")),
    ("${f:int({all.x.y}*2)}", (Interpolation(("${f:int(", ref("all.x.y"), "*2)}")),)),
    ("${f:'{aux.x}'}", (Interpolation(("${f:'", ref("aux.x"), "'}")),)),
    ("${f:${base.lr}*2}",
     (Interpolation(("${f:", Reference(("base.lr",), "${base.lr}"), "*2}")),)),
])  # fmt: skip
def test_a_text_is_read_into_pieces(text: str, parts: tuple[object, ...]) -> None:
    assert parse_template(text) == parts
    own = parse_template("${base.lr}", base_is_a_key=True)
    assert own == (Interpolation(("${base.lr}",)),)


IS_NONE = r"is no reference; write \{\{ and \}\}"


@pytest.mark.parametrize(("text", "said"), [
    ("{}", IS_NONE), ("{ }", IS_NONE), ("{1}", IS_NONE), ('{"a": 1}', IS_NONE),
    ("{print $1}", IS_NONE), ("{a'}", IS_NONE),
    ("{a", "does not close"), ("x{sibling.{b}", "does not close"),
    ("{sibling.${stage}.name}", r"write \{aux\.x\}"),
    ("{{sibling.stable.name}}", r"write \{sibling\.\.\.\}$"),
    ("a/{{ base.name }}", r"write \{base\.\.\.\}$"),
    (r"\${sibling.stable.name}", r"write \{sibling\.\.\.\}$"),
    (r"x \${aux.tokens}", r"write \{aux\.\.\.\}$"),
])  # fmt: skip
def test_other_braces_are_refused_with_the_way_to_write_them(
    text: str, said: str
) -> None:
    with pytest.raises(NotAReference, match=said):
        parse_template(text)
    for literal in ("{{x}}", "{{{sibling.a.name}}}", r"\${own}", "{{siblings.x}}"):
        parse_template(literal)


@pytest.mark.parametrize("text", ["{" * 3000, "{a" * 3000, "${{a}" * 500])
def test_hostile_braces_are_refused_fast(text: str) -> None:
    began = time.thread_time()
    try:
        parse_template(text)
    except NotAReference as error:
        text = str(error)
    assert time.thread_time() - began < 0.5
    assert text


@given(st.text(alphabet="ab{}\\", max_size=20))
def test_doubled_braces_are_literal(text: str) -> None:
    quoted = text.replace("{", "{{").replace("}", "}}")
    assert "".join(map(str, parse_template(quoted))) == text


class Stages(frozenset[str]):
    """Stages through which nobody goes: there may be thousands."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError


@pytest.mark.parametrize(("rest", "pattern", "accessor"), [
    ("stable.output_dir", "stable", "output_dir"),
    ("stable.backend.lr", "stable", "backend.lr"), ("v1.5.name", "v1.5", "name"),
    ("[lr=1].name", "[lr=1]", "name"), ("[a=1,b=2].x.y", "[a=1,b=2]", "x.y"),
    ("lr=2.5e-4.backend.lr", "lr=2.5e-4", "backend.lr"), ("lr=9.5.x", "lr=9", "5.x"),
    ("index=0.name", "index=0", "name"), ("stabble.name", "stabble", "name"),
])  # fmt: skip
def test_pattern_and_accessor_are_told(rest: str, pattern: str, accessor: str) -> None:
    known = {"lr=2.5e-4", "index=0"}
    found = split_pattern(rest, Stages(["stable", "v1", "v1.5"]), known.__contains__)
    assert found == (pattern, accessor)
