"""Interpolations over plain trees: what OmegaConf gives, or none at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from autoexp_tui.config.config_view import ConfigTree
from autoexp_tui.config.job_template import Absent, Doubtful, Place, Template, Values
from autoexp_tui.config.resolvers import Environment, register_resolvers
from autoexp_tui.text.plain_tree import Path, unpatched, with_values

TREE: dict[str, Any] = {
    "size": "small", "table": {"small": 1, "large": 4}, "n": 3, "x": 0.5, "flag": True,
    "none": None, "words": ["a", "${size}"],
    "model": {"width": 8, "ffn": "${oc.eval:'4*_0',${.width}}", "up": "${..n}"},
    "alias": "${model}", "far": "${alias.width}", "missing": "???", "ring": "${gnir}",
    "gnir": "${ring}",
}  # fmt: skip

SURE = (
    "${n}", "${x}", "${flag}", "${none}", "${size}", "${table.${size}}",
    "pre-${n}-${x}-${flag}-${none}", "${model.ffn}", "${model.up}", "${far}",
    "${alias.ffn}", "${words.0}", "${words[1]}", "${oc.eval:'_0*2',${n}}",
    "${oc.eval:'_0+_1',${n},${x}}", "${oc.env:AUTOEXP_HERE}",
    "${oc.env:NOWHERE,${size}}", "${oc.select:n}", "${oc.select:no.where,7}",
    "a: ${n}, 'quoted' \"${size}\" $5",
)  # fmt: skip
UNSURE = (
    "${missing}", "${no.where}", "${ring}", "${model} in a text",
    "${oc.select:no.where}", "${unknown:1}", "${oc.create:{a: 1}}",
    "${oc.eval:'_0/0',${n}}", "${n", r"\${n}", r"\${n} and ${n}", "${..n}",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _resolvers() -> None:
    register_resolvers(Environment({"AUTOEXP_HERE": "here"}), 0.0)


def asked(text: str, tree: Any = TREE) -> object:
    return Values(tree).evaluate(text)


def by_omegaconf(text: str, tree: Any = TREE) -> object:
    return OmegaConf.create({**tree, "asked": text}).asked


@pytest.mark.parametrize("text", SURE)
def test_a_value_is_omegaconf_s_with_its_type(text: str) -> None:
    found = asked(text)
    assert (type(found), found) == (type(by_omegaconf(text)), by_omegaconf(text))


@pytest.mark.parametrize("text", UNSURE)
def test_what_is_not_certain_is_left_to_omegaconf(text: str) -> None:
    with pytest.raises(Doubtful):
        asked(text)


def test_a_dict_is_a_place_and_not_copied() -> None:
    assert asked("${alias}") == Place(("model",))


def test_a_key_that_is_not_there_is_told_from_other_doubts() -> None:
    with pytest.raises(Absent):
        Values(TREE).get_value(("no", "where"))


def test_a_default_is_not_taken_for_a_key_that_is_there_and_does_not_resolve() -> None:
    tree = {**TREE, "broken": "${no.where}"}
    with pytest.raises(Doubtful) as raised:
        asked("${oc.select:broken,7}", tree)
    assert not isinstance(raised.value, Absent)


def test_a_node_s_own_parents_are_refused_as_omegaconf_refuses_them() -> None:
    tree = {"a": {"b": "${a}"}}
    with pytest.raises(Doubtful):
        Values(tree).get_value(("a", "b"))


@pytest.mark.parametrize(("text", "read"), [
    ("${oc.eval:'_0*2',${n}}", ("n",)), ("${table.${size}}", ("size",)),
    ("${table.${size}}", ("table", "small")), ("${oc.select:late,7}", ("late",)),
    ("${alias.width}", ("alias",)), ("${far}", ("model", "width")),
])  # fmt: skip
def test_what_a_value_was_made_of_is_noted(text: str, read: Path) -> None:
    values = Values(TREE)
    values.evaluate("${far}")  # noted though it is known by now
    with values.note_reads() as reads:
        values.evaluate(text)
    assert read in reads


WORDS = st.text(alphabet="ab ${}.:'\\\"5-", max_size=6)
KEYS = st.sampled_from(["n", "x", "size", "flag", "none", "model.width", "words.1"])
TEXTS = st.lists(st.one_of(WORDS, KEYS.map("${{{}}}".format)), max_size=5).map("".join)


@given(TEXTS)
def test_what_is_certain_is_what_omegaconf_says(text: str) -> None:
    try:
        found = asked(text)
    except Doubtful:
        return
    assert found == by_omegaconf(text)


CHANGES = st.dictionaries(
    st.sampled_from([("n",), ("x",), ("size",), ("model", "width"), ("words", 0),
                     ("table", "small")]),
    st.sampled_from(["small", "large", 1, 2.5, True]), max_size=4,
)  # fmt: skip
SOUND = {k: v for k, v in TREE.items() if k not in {"missing", "ring", "gnir"}}


def refuse(tree: Any) -> Any:
    raise Doubtful(tree)


@given(CHANGES)
def test_a_job_s_values_are_those_of_its_own_tree(changes: dict[Path, object]) -> None:
    tree: Any = SOUND
    for path, value in changes.items():
        tree = with_values(tree, {path: value})
    try:
        ours = with_values(SOUND, changes)
        found = ConfigTree(ours, refuse, Template(SOUND), tuple(changes)).to_dict()
    except Doubtful:
        return
    wanted = OmegaConf.to_container(OmegaConf.create(unpatched(tree)), resolve=True)
    assert repr(found) == repr(wanted)
