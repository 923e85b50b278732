"""Interpolations over plain trees: what OmegaConf gives, or none at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from autoexp_tui.config.fast_values import JobValues, Template, Values
from autoexp_tui.config.interpolations import (
    Absent,
    Doubtful,
    Evaluations,
    Place,
    Trace,
    evaluate,
)
from autoexp_tui.config.plain_tree import Path, unpatched, with_values
from autoexp_tui.config.quick_texts import quick
from autoexp_tui.config.resolvers import Environment, register_resolvers

TREE: dict[str, Any] = {
    "size": "small",
    "table": {"small": 1, "large": 4},
    "n": 3,
    "x": 0.5,
    "flag": True,
    "none": None,
    "words": ["a", "${size}"],
    "model": {"width": 8, "ffn": "${oc.eval:'4*_0',${.width}}", "up": "${..n}"},
    "alias": "${model}",
    "far": "${alias.width}",
    "missing": "???",
    "ring": "${gnir}",
    "gnir": "${ring}",
}

SURE = (
    "${n}",
    "${x}",
    "${flag}",
    "${none}",
    "${size}",
    "${table.${size}}",
    "pre-${n}-${x}-${flag}-${none}",
    "${model.ffn}",
    "${model.up}",
    "${far}",
    "${alias.ffn}",
    "${words.0}",
    "${words[1]}",
    "${oc.eval:'_0*2',${n}}",
    "${oc.eval:'_0+_1',${n},${x}}",
    "${oc.env:AUTOEXP_HERE}",
    "${oc.env:NOWHERE,${size}}",
    "${oc.select:n}",
    "${oc.select:no.where,7}",
    "a: ${n}, 'quoted' \"${size}\" $5",
)
UNSURE = (
    "${missing}",
    "${no.where}",
    "${ring}",
    "${model} in a text",
    "${oc.select:no.where}",
    "${unknown:1}",
    "${oc.create:{a: 1}}",
    "${oc.eval:'_0/0',${n}}",
    "${n",
    r"\${n}",
    r"\${n} and ${n}",
    "${..n}",
)


@pytest.fixture(autouse=True)
def _resolvers() -> None:
    register_resolvers(Environment({"AUTOEXP_HERE": "here"}), 0.0)


class Job(Values):
    """A tree whose values are made with one memory."""

    def __init__(self, tree: Any, evaluations: Evaluations) -> None:
        super().__init__(tree)
        self.evaluations = evaluations

    def _evaluated(self, text: str, path: Path) -> object:
        return self.evaluations.value(self, text, path[:-1])


def asked(text: str, tree: Any = TREE) -> object:
    return evaluate(Job(tree, Evaluations()), text, (), Trace())


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
        Job(TREE, Evaluations()).value(("no", "where"))


def test_a_default_is_not_taken_for_a_key_that_is_there_and_does_not_resolve() -> None:
    tree = {**TREE, "broken": "${no.where}"}
    with pytest.raises(Doubtful) as raised:
        asked("${oc.select:broken,7}", tree)
    assert not isinstance(raised.value, Absent)


def test_a_node_s_own_parents_are_refused_as_omegaconf_refuses_them() -> None:
    tree = {"a": {"b": "${a}"}}
    with pytest.raises(Doubtful):
        Job(tree, Evaluations()).value(("a", "b"))


# ---------------------------------------------------------------------- remembering
def test_a_text_is_evaluated_once_for_equal_values_behind_it() -> None:
    known = Evaluations()
    for seed in (1, 2, 1, 2):
        tree = {**TREE, "n": seed}
        assert known.value(Job(tree, known), "${oc.eval:'_0*2',${n}}", ()) == seed * 2
    assert known.made == 2


def test_a_change_of_what_chose_the_key_is_seen() -> None:
    known = Evaluations()
    small = Job(TREE, known)
    large = Job({**TREE, "size": "large"}, known)
    assert known.value(small, "${table.${size}}", ()) == 1
    assert known.value(large, "${table.${size}}", ()) == 4
    assert known.value(small, "${table.${size}}", ()) == 1


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0, False)])
def test_equal_values_of_different_types_are_not_the_same(
    one: object, other: object
) -> None:
    known = Evaluations()
    for value in (one, other):
        found = known.value(Job({**TREE, "n": value}, known), "is ${n}", ())
        assert found == f"is {value}"


def test_a_key_that_appears_is_seen_where_a_default_was_taken() -> None:
    known = Evaluations()
    text = "${oc.select:late,7}"
    assert known.value(Job(TREE, known), text, ()) == 7
    assert known.value(Job({**TREE, "late": 8}, known), text, ()) == 8


def test_a_change_of_the_way_is_seen() -> None:
    known = Evaluations()
    assert known.value(Job(TREE, known), "${alias.width}", ()) == 8
    other = {**TREE, "alias": "${table}", "table": {"width": 9}}
    assert known.value(Job(other, known), "${alias.width}", ()) == 9


# ---------------------------------------------------------------- without a grammar
WORDS = st.text(alphabet="ab ${}.:'\\\"5-", max_size=6)
KEYS = st.sampled_from(["n", "x", "size", "flag", "none", "model.width", "words.1"])
TEXTS = st.lists(st.one_of(WORDS, KEYS.map("${{{}}}".format)), max_size=5).map("".join)


@given(TEXTS)
def test_what_is_read_without_the_grammar_is_read_as_by_it(text: str) -> None:
    parts = quick(text)
    if parts is None or "${" not in text:
        return
    assert asked(text) == by_omegaconf(text)


@pytest.mark.parametrize("text", ["${n}", "a ${n} b ${x}", "${oc.eval:'_0+1',${n}}"])
def test_plain_texts_need_no_grammar(text: str) -> None:
    assert quick(text) is not None


# ------------------------------------------------------------------------ templates
CHANGES = st.dictionaries(
    st.sampled_from(
        [
            ("n",),
            ("x",),
            ("size",),
            ("model", "width"),
            ("words", 0),
            ("table", "small"),
        ]
    ),
    st.sampled_from(["small", "large", 1, 2.5, True]),
    max_size=4,
)
SOUND = {k: v for k, v in TREE.items() if k not in {"missing", "ring", "gnir"}}


@given(CHANGES)
def test_a_job_s_values_are_those_of_its_own_tree(changes: dict[Path, object]) -> None:
    tree: Any = SOUND
    for path, value in changes.items():
        tree = with_values(tree, {path: value})
    job = JobValues(tree, Template(SOUND), frozenset(changes))
    try:
        found = job.whole(())
    except Doubtful:
        return
    wanted = OmegaConf.to_container(OmegaConf.create(unpatched(tree)), resolve=True)
    assert repr(found) == repr(wanted)
