"""Which key a filter's name means, and whether a point stays."""

from __future__ import annotations

import pytest

from autoexp_tui.sweep import filters
from autoexp_tui.sweep.expression import ExpressionError


def holds(text: str, point: dict[str, object], *others: dict[str, object]) -> bool:
    known = filters.list_names((point, *others))
    return filters.PointFilter(text, known).holds(point)


@pytest.mark.parametrize(("text", "point"), [
    ("backend.megatron.lr < 1", {"backend.megatron.lr": 0.1}), ("lr < 1", {"+lr": 0.1}),
    ("megatron.lr < 1", {"backend.megatron.lr": 0.1}), ('p["a-b"] == 1', {"++a-b": 1}),
    ("lr < 1", {"backend.megatron.lr": 0.1}), ("lr < 1", {"++backend.lr": 0.1}),
    ("lr < 1", {"lr": 0.1, "backend.megatron.lr": 9}), ("stage == 'x'", {"stage": "x"}),
    ("aux.tokens == 6", {"aux": {"tokens": 6}}), ("aux.tokens == 6", {"aux.tokens": 6}),
    ("tokens == 6", {"aux": {"tokens": 6}}), ("opt == 'adam'", {"backend/opt": "adam"}),
    ("backend == 'a' and backend.lr == 1", {"backend": "a", "backend.lr": 1}),
    ('p["model.lambda"] == 1', {"model.lambda": 1}), ("_stage == 'x'", {"stage": "x"}),
    ("stage == 'x'", {"_stage": "x"}), ("stage == 'x'", {"_meta": {"stage": "x"}}),
    ("stage == 'x'", {"_meta.stage": "x"}), ("lr in [0.1, 0.2]", {"optim.lr": 0.1}),
])  # fmt: skip
def test_a_name_finds_its_key(text: str, point: dict[str, object]) -> None:
    assert holds(text, point) is True


def test_a_key_that_only_other_points_have_is_none() -> None:
    assert holds("lr is None", {"stage": "a"}, {"lr": 1})
    assert holds("tokens is None", {"aux": {}}, {"aux": {"tokens": 1}})
    assert holds("stage is None", {"lr": 1}, {"stage": "a"})
    assert not holds("lr is not None and lr < 1", {"stage": "a"}, {"lr": 1})


@pytest.mark.parametrize(("text", "said"), [
    ("{sibling.s.lr} > 1", "reads another job"), ("{all.s.x} > 1", "reads another job"),
    ("{sibling[stage=s].x} > 1", "reads another job"), ("${lr < 1", "does not close"),
    ("'a_${lr}' == 'a_1'", "inside a longer text"), ("open(${lr})", "may be called"),
])  # fmt: skip
def test_a_filter_is_checked_before_there_are_jobs(text: str, said: str) -> None:
    with pytest.raises(ExpressionError, match=said):
        filters.check_filter(text)
    filters.check_filter("lr < 1  # what {sibling.stable.lr} is not")


@pytest.mark.parametrize(("text", "stays"), [
    ("${lr} < 1", True), ("${lr} < ${most}", True), ("${lr} < a", True),
    ("'${lr}' < 1", True), (r"\${lr} < 1", True), ("${lr} < 1 and ${lr} > 0", True),
    ("${lr} < 1  # not ${limit}\n  and ${lr} > 0", True),
    ("${oc.eval:'${lr} < 1'}", False), ("${name} == 'x'", False),
])  # fmt: skip
def test_interpolations_are_typed_operands(text: str, *, stays: bool) -> None:
    values = {"${lr}": 0.5, "${most}": 1, "${name}": "x' or True or '"}
    values |= {"${oc.eval:'${lr} < 1'}": False}
    known = filters.list_names(({"a": 1},))
    assert filters.is_kept_by(text, {"a": 1}, known, values.__getitem__) is stays
