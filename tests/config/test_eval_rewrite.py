from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import InterpolationResolutionError

from autoexp_tui.config.resolvers import (
    Environment,
    register_resolvers,
    rewrite,
    rewrite_override,
)
from autoexp_tui.planning.overrides import format_override


@pytest.mark.parametrize(("written", "typed"), [
    ("${oc.eval:int(${a}*0.2)}", "${oc.eval:'int(_0*0.2)',${a}}"),
    ("${oc.eval:'int(${a}*0.2)'}", "${oc.eval:'int(_0*0.2)',${a}}"),
    ("${oc.eval:(${.aux.tokens}//${.seq}//${.batch})}",
     "${oc.eval:'(_0//_1//_2)',${.aux.tokens},${.seq},${.batch}}"),
    ("${oc.eval:${a} + ${a}}", "${oc.eval:'_0 + _0',${a}}"),
    ("x ${oc.eval:1+2} y", "x ${oc.eval:'1+2'} y"),
    (r"${oc.eval:\(${a}\ +\ 1\)*2}", "${oc.eval:'(_0 + 1)*2',${a}}"),
    (r"${oc.eval:max\(1\,${a}\)}", "${oc.eval:'max(1,_0)',${a}}"),
    ("${oc.eval:${oc.eval:${b}+1}*2}", "${oc.eval:'_0*2',${oc.eval:'_0+1',${b}}}"),
    ("${oc.eval:2${k}}", "${oc.eval:'2 _0',${k}}"),
    ("${oc.eval:'${mode}_s' == 'fast_s'}",
     """${oc.eval:"_0 == 'fast_s'",'${mode}_s'}"""),
    ("${oc.eval:'${m}' == 'x'}", """${oc.eval:"_0 == 'x'",${m}}"""),
    (r"\${oc.eval:1+1}", r"\${oc.eval:1+1}"),
    ("${oc.eval:${oc.env:'HOME'}}", "${oc.eval:'_0',${oc.env:'HOME'}}"),
])  # fmt: skip
def test_operands_become_typed_arguments(written: str, typed: str) -> None:
    assert rewrite(written) == rewrite(typed) == typed


@pytest.mark.parametrize("mixed", [
    "${oc.eval:_0 + 1,${a}}", "${oc.eval:(_0 + 1), ${a}, ${b}}", "${oc.eval:${a} + _0}",
    "${oc.eval:'${a} + _0'}", "${oc.eval:'${a} + _0',${b}}",
    "${oc.eval:True or _0 + ${a}}", "${oc.eval:_0 * 2,${oc.eval:${a} + 1}}",
    "${oc.eval:1 + ${oc.eval:_0 * 2,${a}}}",
    "${oc.eval:${a} + 1} ${oc.eval:_0 * 2,${a}}",
])  # fmt: skip
def test_an_argument_by_hand_beside_an_operand_is_refused(mixed: str) -> None:
    register_resolvers(Environment({}), 0.0)
    config = OmegaConf.create({"a": 5, "b": 7, "k": rewrite(mixed)})
    with pytest.raises(InterpolationResolutionError, match="quote the expression"):
        _ = config.k


@pytest.mark.parametrize("broken", ["${oc.eval:1", "${oc.eval:'a}", "${oc.eval:{1}"])
def test_text_that_is_not_well_formed_is_handed_on(broken: str) -> None:
    assert rewrite(broken) == broken
    assert rewrite_override(f"k={broken}") == f"k={broken}"


@pytest.mark.parametrize("value", ["${oc.eval:1}}", "${oc.eval:1}',", "[${oc.eval:1}"])
def test_an_override_with_a_stray_quote_or_brace_is_refused_by_hydra(
    value: str,
) -> None:
    with pytest.raises(HydraException):
        OverridesParser.create().parse_override(rewrite_override(f"k={value}"))


@pytest.mark.parametrize(("override", "value"), [
    ("a=${oc.eval:int(${x}*0.2)}", "${oc.eval:'int(_0*0.2)',${x}}"),
    ("a='${oc.eval:int(${x}*0.2)}'", "${oc.eval:'int(_0*0.2)',${x}}"),
    ("+a=foo_${oc.eval:1+2}", "foo_${oc.eval:'1+2'}"),
    ("a=[1,${oc.eval:max(1, 2)}]", [1, "${oc.eval:'max(1, 2)'}"]),
    ("++a={b: ${oc.eval:1+2}, c: x}", {"b": "${oc.eval:'1+2'}", "c": "x"}),
    ("a=plain", "plain"),
])  # fmt: skip
def test_an_override_reaches_hydra_in_typed_form(override: str, value: object) -> None:
    parsed = OverridesParser.create().parse_override(rewrite_override(override))
    assert parsed.value() == value


@pytest.mark.parametrize(("written", "value"), [
    ("${oc.eval:'_0 + 1',${a}}", 6),
    ("${oc.eval:'_0 + _1',${a},${oc.eval:${b} + 1}}", 13),
    ("${oc.eval:${oc.eval:'_0 * 2',${a}} + ${b}}", 17),
    ("${oc.eval:str(${a}) + '_0'}", "5_0"),
    ("${oc.eval:'${note} == \"hi\"'}", True), ('${oc.eval:(${note} == "hi")}', True),
    ("${oc.eval:${note} == 'hi'}", True), ('${oc.eval:${note} + "\'"}', "hi'"),
    ("${oc.eval:${note} + '\"'}", 'hi"'),
    ("${oc.eval:${note} + \"'\" + '\"{,}'}", "hi'\"{,}"),
    (r"""${oc.eval:${note} + "\\" + '"'}""", 'hi\\"'),
    ("""${oc.eval:${note}+"'"} ${oc.eval:${note}+'"'}""", "hi' hi\""),
    ("""${oc.eval:"_0 == 'hi'",${oc.select:'note'}}""", True),
    ("""${oc.eval:"_0 + 'a'",'${oc.select:"note"}s'}""", "hisa"),
    ("""it's "${oc.eval:${note} + 'x'}\"""", """it's "hix\""""),
])  # fmt: skip
def test_an_expression_gives_its_value_also_in_an_override(
    written: str, value: object
) -> None:
    given = rewrite_override(format_override("k", written))
    read = OverridesParser.create().parse_override(given).value()
    register_resolvers(Environment({}), 0.0)
    config = OmegaConf.create({"a": 5, "b": 7, "note": "hi", "k": read})
    assert config.k == value
