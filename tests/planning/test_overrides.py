"""Parameters as Hydra overrides: spelling that reads back, and what keys mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from autoexp_tui.planning.overrides import (
    CannotSpell,
    OverrideWriter,
    escape_dollars,
    format_override,
    format_value,
)
from tests.planning.composed import CountingComposer

PARSER = OverridesParser.create()


def read_back(value: object) -> object:
    return PARSER.parse_override(f"k={format_value(value)}").value()


TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(alphabet="'\"\\${}[](),:=# \n\tab1~.+-", max_size=12),
    st.sampled_from(["null", "True", "nan", "inf", "+inf", "1e-4", "1_0", "0x1", ""]),
)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False))
KEYS = st.from_regex(r"[A-Za-z_][\w./\-]{0,6}( [:=,\[\]{}()\\]{1,3}x)?", fullmatch=True)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=6,
)


SPELT = [
    "it's", "both ' and \"", "ends with \\", "\\'", "a,b", "key=value", "sum(1)", ".5",
    "${a.b} and ${oc.eval:'${x}*2'}", {"a b": [1, {"c": None}]}, -0.0, 1e16, math.inf,
    "nan",
]  # fmt: skip


@settings(max_examples=150)
@given(VALUES)
@example(SPELT)
def test_what_is_written_is_what_hydra_reads(value: object) -> None:
    try:
        found = read_back(value)
    except CannotSpell:
        return
    assert found == value
    assert type(found) is type(value)
    for one in SPELT if value == SPELT else ():
        assert read_back(one) == one


@pytest.mark.parametrize(("value", "text"), [
    (None, "null"), (True, "true"), (5, "5"), (math.nan, "nan"), (1e-4, "0.0001"),
    (5e-5, "5e-05"), ("megatron_fsdp", "megatron_fsdp"), ("1e-4", "'1e-4'"),
    ("/out/lr1e-4_stable/iter_1", "/out/lr1e-4_stable/iter_1"), (".5", "'.5'"),
    ("null", "'null'"), ("a b", "'a b'"), ("it's", '"it\'s"'), ("${a.x}", "'${a.x}'"),
    ([1, "a b"], "[1,'a b']"), ({"a": 1, "b": [None]}, "{a:1,b:[null]}"),
])  # fmt: skip
def test_values_are_spelled_as_a_person_would(value: object, text: str) -> None:
    assert format_value(value) == text
    assert format_override("a.b", value) == f"a.b={text}"
    assert format_override("~a", value) == ("~a" if value is None else f"~a={text}")


def test_what_the_grammar_lacks_is_refused() -> None:
    for value in (object(), {1, 2}, {"'": 1}, {"a ": 1}, {"null": 1}, {(): 1}):
        with pytest.raises(CannotSpell):
            format_value(value)


@given(st.text(alphabet="\\${}ab", max_size=12))
@example("${a}")
@example(r"\${a}")
@example(r"a\\${b}")
def test_a_literal_reads_as_itself_in_a_config(text: str) -> None:
    config = OmegaConf.create({"k": escape_dollars(text)})
    assert config.k == text


BACKEND = {"class_name": "Null", "lr": 1e-3, "batch_size": 64, "args": {"save": None},
           "betas": [0.9, 0.95]}  # fmt: skip
Parameters = Mapping[str, object]


@cache
def base() -> CountingComposer:
    slurm = {"log_dir": "logs", "held": True}
    return CountingComposer(backend=BACKEND, slurm=slurm)


def write(parameters: Parameters, others: Sequence[Parameters] = ()) -> Any:
    return OverrideWriter(base(), others).write(parameters)


@pytest.mark.parametrize(("parameters", "texts"), [
    ({"backend.lr": 0.1, "slurm.log_dir": "/x"}, "backend.lr=0.1 slurm.log_dir=/x"),
    ({"backend": "other"}, "backend=other"), ({"ui.first_run": 1}, "++ui.first_run=1"),
    ({"backend": "other", "backend.momentum": 1}, "backend=other backend.momentum=1"),
    ({"backend": {"lr": 2, "args": {"save": 3}}}, "backend.lr=2 backend.args={save:3}"),
    ({"+backend.lrr": 1}, "+backend.lrr=1"), ({"++backend.lrr": 1}, "++backend.lrr=1"),
    ({"~backend.lrr": 1}, "~backend.lrr=1"),
    ({"slurm.log_dir": "a,b"}, "slurm.log_dir='a,b'"),
    ({"++backend.lr": "1e-3,3e-3"}, "++backend.lr='1e-3,3e-3'"),
    ({"backend.lr": "${backend.batch_size}"}, "backend.lr='${backend.batch_size}'"),
    ({"slurm": {"sbatch": 1, "held": 2}, "++slurm": {"new": 3}},
     "++slurm.sbatch=1 slurm.held=2 ++slurm.new=3"),
    ({"backend.args": {"save": "x"}}, "backend.args={save:x}"),
    ({"backend.args.save": {"type": "cosine"}}, "backend.args.save={type:cosine}"),
    ({"backend.args.save": [1, 2]}, "backend.args.save=[1,2]"),
    ({"backend.betas": [0.8, 0.9]}, "backend.betas=[0.8,0.9]"),
    ({"++backend.lr": [1, 2]}, "++backend.lr=[1,2]"),
    ({"++backend.lr": {"values": [1]}}, "++backend.lr={values:[1]}"),
    ({"slurm.log_dir": ["a", "b"]}, "slurm.log_dir=[a,b]"),
])  # fmt: skip
def test_what_is_meant_is_written_with_no_finding(parameters: Any, texts: str) -> None:
    made = write(parameters)
    assert list(made.texts.values()) == texts.split()
    assert (made.errors, made.warnings) == ([], [])


@pytest.mark.parametrize(("key", "value", "said"), [
    ("backend.lr", object(), "write it as text"),
    ("hydra.sweeper.params.lr", "1,2", "is not used"), ("hydra.launcher", 1, "is not"),
    ("hydra/launcher", "basic", "is not used"),
    ("backend.lr", "1e-3, 3e-3", "is the text `1e-3, 3e-3`, and was the number `1e-3`"),
])  # fmt: skip
def test_what_cannot_be_set_is_an_error(key: str, value: object, said: str) -> None:
    error = write({key: value}).errors[0]
    assert error.where == key
    assert said in error.message
    brackets = "values to try have brackets: `backend.lr: [1e-3, 3e"
    assert value != "1e-3, 3e-3" or error.hint.startswith(brackets)


ADDED = "is not in the config, and is added to it"
AS_IT_WAS = "and was the number `1e-3`"
MEANT = "`++backend.lr` says that it is meant"
TRIED = (
    "values to try are a list right below `params`: `backend.lr: [1, 2]`; "
    "`++backend.lr` says that it is meant"
)


@pytest.mark.parametrize(("key", "value", "said", "hint"), [
    ("backend.momentum", 0.9, ADDED, "write `++backend.momentum` to say that"),
    ("logger", {"class_name": "WandbLogger"}, ADDED, "write `++logger` to say"),
    ("hydra.run.dir", "x", "has no effect here", "take it out"),
    ("backend.lr", {"a": 1}, "is set to a mapping, and was `1e-3`", "values to try"),
    ("slurm.log_dir", {"a": 1}, "is set to a mapping, and was `logs`", "values to"),
    ("slurm.held", {"a": 1}, "is set to a mapping, and was `true`", "values to try"),
    ("backend.lr", [1, 2], "is set to a list, and was `1e-3`", TRIED),
    ("backend.lr", "0o17", f"is the text `0o17`, {AS_IT_WAS}", MEANT),
    ("backend.lr", "1e-4", f"is the text `1e-4`, {AS_IT_WAS}", MEANT),
    ("backend.lr", "2024-01-01", f"is the text `2024-01-01`, {AS_IT_WAS}", MEANT),
    ("backend.lr", True, f"is `true`, {AS_IT_WAS}", MEANT),
])  # fmt: skip
def test_doubts_are_warned_about(key: str, value: object, said: str, hint: str) -> None:
    made = write({key: value})
    assert not made.errors
    warning = made.warnings[0]
    assert (warning.where, warning.message) == (key, said)
    assert warning.hint.startswith(hint)
    if key == "backend.momentum":
        assert made.texts == {key: "++backend.momentum=0.9"}
    if value == [1, 2]:
        assert write({"backend": {"lr": [1, 2]}}).warnings == made.warnings


def test_numbers_of_other_points_tell_where_the_config_has_no_key() -> None:
    points: list[dict[str, object]] = [{"backend.new": "0o17"}, {"backend.new": 3}]
    message = write(points[0], points).warnings[0].message
    assert message == "is the text `0o17`, where other jobs have the number `3`"
