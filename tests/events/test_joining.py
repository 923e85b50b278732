"""A plan and one that joins it: the jobs in their places, under their own rules."""

from __future__ import annotations

import pytest

from autoexp_tui.events.session import join_plans
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Edge, JobSpec
from tests.model.builders import job, plan

FIRST = plan(job("a"), job("b", 1, depends_on=("a",)))
OTHER = Monitoring(loss="perplexity")


@pytest.mark.parametrize(
    ("further", "places"),
    [
        ([job("x"), job("y", 1)], [("x", 2), ("y", 3)]),
        ([job("x", 5)], [("x", 5)]),  # a place that is free
        ([job("b", 1, stage="other"), job("x", 2)], [("x", 2)]),  # b is there already
    ],
)
def test_what_joins_stands_behind_in_its_own_order(
    further: list[JobSpec], places: list[tuple[str, int]]
) -> None:
    merged, new = join_plans(FIRST, plan(*further), "s")
    assert [(one.name, one.index) for one in new] == places
    assert merged.jobs == (*FIRST.jobs, *new)


def test_waits_of_both_are_kept_once() -> None:
    further = plan(job("x", 2), edges=(*FIRST.edges, edge := wait("b", "x")))
    merged, _ = join_plans(FIRST, further, "s")
    assert merged.edges == (*FIRST.edges, edge)


def wait(before: str, after: str) -> Edge:
    return Edge(before=before, after=after, mode="waits")


def test_each_job_is_under_the_rules_of_the_plan_that_it_came_with() -> None:
    further = plan(
        job("x", 2),
        job("y", 3, rules="own"),
        monitoring=OTHER,
        rule_sets={"own": Monitoring(loss="mine")},
    )
    merged, new = join_plans(FIRST, further, "s")
    losses = [merged.rules_of(one).loss for one in (FIRST.jobs[0], *new)]
    assert losses == ["loss", "perplexity", "mine"]


def test_several_plans_join_one_after_the_other() -> None:
    merged, _ = join_plans(FIRST, plan(job("x"), monitoring=OTHER), "s")
    merged, new = join_plans(merged, plan(job("y")), "t")
    assert new[0].index == 3
    assert merged.rules_of(merged.jobs[2]) == OTHER
    assert merged.rules_of(new[0]) == FIRST.monitoring
