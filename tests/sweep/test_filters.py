"""Which key a filter's name means, and whether a point stays."""

from __future__ import annotations

import pytest

from autoexp_tui.sweep.expression import ExpressionError
from autoexp_tui.sweep.filters import (
    PointFilter,
    check_filter,
    is_deferred,
    is_kept_by,
    list_names,
)


def holds(text: str, point: dict[str, object], *others: dict[str, object]) -> bool:
    known = list_names((point, *others))
    return PointFilter(text, known).holds(point)


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("backend.megatron.lr < 1", {"backend.megatron.lr": 0.1}),
        ("megatron.lr < 1", {"backend.megatron.lr": 0.1}),
        ("lr < 1", {"backend.megatron.lr": 0.1}),
        ("lr < 1", {"lr": 0.1, "backend.megatron.lr": 9}),
        ("lr < 1", {"++backend.lr": 0.1}),
        ("lr < 1", {"+lr": 0.1}),
        ("aux.tokens == 6", {"aux": {"tokens": 6}}),
        ("tokens == 6", {"aux": {"tokens": 6}}),
        ("aux.tokens == 6", {"aux.tokens": 6}),
        ("opt == 'adam'", {"backend/opt": "adam"}),
        ("backend == 'a' and backend.lr == 1", {"backend": "a", "backend.lr": 1}),
        ('p["model.lambda"] == 1', {"model.lambda": 1}),
        ('p["a-b"] == 1', {"++a-b": 1}),
        ("stage == 'x'", {"stage": "x"}),
        ("_stage == 'x'", {"stage": "x"}),
        ("stage == 'x'", {"_stage": "x"}),
        ("stage == 'x'", {"_meta": {"stage": "x"}}),
        ("stage == 'x'", {"_meta.stage": "x"}),
        ("lr in [0.1, 0.2]", {"optim.lr": 0.1}),
    ],
)
def test_a_name_finds_its_key(text: str, point: dict[str, object]) -> None:
    assert holds(text, point) is True


def test_a_key_that_only_other_points_have_is_none() -> None:
    assert holds("lr is None", {"stage": "a"}, {"lr": 1}) is True
    assert holds("tokens is None", {"aux": {}}, {"aux": {"tokens": 1}}) is True
    assert holds("stage is None", {"lr": 1}, {"stage": "a"}) is True


def test_ordering_none_suggests_to_ask_first() -> None:
    with pytest.raises(ExpressionError, match=r"write `lr is not None and \.\.\.`"):
        holds("lr < 1", {"stage": "a"}, {"lr": 1})


def test_asking_first_works() -> None:
    assert holds("lr is not None and lr < 1", {"stage": "a"}, {"lr": 1}) is False


def test_a_tail_of_several_keys_is_refused_with_them() -> None:
    with pytest.raises(ExpressionError, match=r"end of a\.lr, b\.lr; write one"):
        holds("lr < 1", {"a.lr": 1, "b.lr": 2})


@pytest.mark.parametrize("text", ["learning < 1", "backend.lrr < 1", 'p["r"] == 1'])
def test_an_unknown_name_is_answered_with_candidates(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"is not known; (did you|names:)"):
        holds(text, {"backend.lr": 1})


def test_brackets_want_the_whole_key() -> None:
    with pytest.raises(ExpressionError, match="is not known"):
        holds('p["lr"] == 1', {"backend.lr": 1})


def test_stage_is_unknown_when_no_point_has_one() -> None:
    with pytest.raises(ExpressionError, match="`stage` is not known"):
        holds("stage == 'x'", {"lr": 1})


def test_a_filter_must_say_true_or_false() -> None:
    with pytest.raises(ExpressionError, match="gives 3, and a filter says"):
        holds("a + 2", {"a": 1})


@pytest.mark.parametrize("reference", ["sibling.s.lr", "sibling[stage=s].x", "all.s.x"])
def test_a_filter_cannot_read_other_jobs(reference: str) -> None:
    with pytest.raises(ExpressionError, match="reads another job"):
        check_filter(f"{{{reference}}} > 1")


# --------------------------------------------------------------------- deferred
def kept(text: str, values: dict[str, object], **point: object) -> bool:
    return is_kept_by(text, point, list_names((point,)), values.__getitem__)


def test_only_a_filter_with_an_interpolation_is_deferred() -> None:
    assert is_deferred("${lr} < 1")
    assert not is_deferred("lr < 1")


@pytest.mark.parametrize(
    ("text", "deferred"),
    [
        ("lr < 1  # as ${limit}", False),
        ("# it isn't ${limit}\nlr < 1", False),
        ("lr < 1  # ${a}\n  and lr > ${b}", True),
        ("name != '# ${a}'", True),
        ('name != "it\'s"  # ${a}', False),
        ("name == '# ${ open'", True),
        ('${oc.select:"a#b"} < 1', True),
    ],
)
def test_what_stands_in_a_comment_defers_no_filter(
    text: str, *, deferred: bool
) -> None:
    assert is_deferred(text) is deferred


def test_a_comment_may_speak_of_other_jobs() -> None:
    check_filter("lr < 1  # what {sibling.stable.lr} is not")


def test_of_a_deferred_filter_what_a_comment_names_is_not_asked_for() -> None:
    assert kept("${lr} < 1  # not ${limit}\n  and ${lr} > 0", {"${lr}": 0.5}) is True


@pytest.mark.parametrize(
    "text",
    [
        "${lr} < 1",
        "${lr} < ${most}",
        "${lr} < a",
        "'${lr}' < 1",
        r"\${lr} < 1",
        "${lr} < 1 and ${lr} > 0",
    ],
)
def test_interpolations_are_typed_operands(text: str) -> None:
    assert kept(text, {"${lr}": 0.5, "${most}": 1}, a=1) is True


def test_a_whole_interpolation_may_be_the_filter() -> None:
    text = "${oc.eval:'${lr} < 1'}"
    assert kept(text, {text: False}) is False


def test_a_value_cannot_rewrite_the_expression() -> None:
    assert kept("${name} == 'x'", {"${name}": "x' or True or '"}) is False


def test_an_interpolation_within_a_text_is_refused() -> None:
    with pytest.raises(ExpressionError, match="inside a longer text"):
        check_filter("'a_${lr}' == 'a_1'")


def test_an_interpolation_that_does_not_close_is_refused() -> None:
    with pytest.raises(ExpressionError, match="does not close"):
        check_filter("${lr < 1")


def test_a_deferred_filter_is_checked_before_there_are_jobs() -> None:
    with pytest.raises(ExpressionError, match="may be called"):
        check_filter("open(${lr})")
