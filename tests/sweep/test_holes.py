"""What a plan keeps of the points that filters took."""

from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.model.specs import Hole
from autoexp_tui.sweep.expand import MOST_HOLES, expand, list_holes
from autoexp_tui.sweep.points import DeferredFilter


def holes(sweep: Any, dropped: Any = None) -> tuple[tuple[Hole, ...], int]:
    return list_holes(expand(sweep), dropped or {})


def test_a_hole_keeps_its_values_its_stage_and_its_filter() -> None:
    text = 'not (optim.lr > 0.2 and stage == "b")'
    params = {"optim.lr": [0.1, 0.5], "stage": ["a", "b"]}
    where = "sweep.filter"
    hole = Hole(parameters={"optim.lr": 0.5}, stage="b", filter=text, where=where)
    assert holes({"params": params, "filter": text}) == ((hole,), 0)
    config = {"lr": 1, "start_conditions": [], "_meta": {"note": "x"}}
    found, _ = holes({"configs": [config], "filter": "lr > 1"})
    assert dict(found[0].parameters) == {"lr": 1}


def test_a_filter_that_needed_the_config_leaves_a_hole_too() -> None:
    mark = DeferredFilter("${x} > 1", "sweep.filter")
    found, _ = holes({"params": {"lr": [1, 2]}}, {1: mark})
    assert [(one.parameters, one.filter) for one in found] == [({"lr": 2}, "${x} > 1")]


@pytest.mark.parametrize("count", [MOST_HOLES + 5, 10_050])
def test_no_more_are_kept_than_fit_a_plan_and_the_rest_is_counted(count: int) -> None:
    found, more = holes({"params": {"a": list(range(count))}, "filter": "a < 0"})
    assert (len(found), more) == (MOST_HOLES, count - MOST_HOLES)
