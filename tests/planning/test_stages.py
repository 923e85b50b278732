"""Which stages follow from which, and the order in which they are drawn."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.model.specs import Edge
from autoexp_tui.planning.dag import find_links, list_stages, order_stages
from tests.planning.plans import job, plan


def edge(before: str, after: str, mode: str) -> Edge:
    """An edge; `mode` is its first letter."""
    return Edge(before=before, after=after, mode="reads" if mode == "r" else "waits")


def test_a_job_that_is_read_and_waited_for_is_waited_for() -> None:
    edges = (edge("a", "b", "r"), edge("a", "b", "w"))
    links = find_links(plan([job("a"), job("b", 1)], edges=edges))
    assert (links.waits["b"], links.reads["b"]) == (("a",), ())


def test_a_dependency_without_an_edge_is_a_wait() -> None:
    links = find_links(plan([job("a"), job("b", 1, depends_on=("a",))], edges=()))
    assert links.waits["b"] == ("a",)


def test_a_dependency_that_only_reads_is_no_wait() -> None:
    jobs = [job("a"), job("b", 1, depends_on=("a",))]
    links = find_links(plan(jobs, edges=(edge("a", "b", "r"),)))
    assert (links.waits["b"], links.reads["b"]) == ((), ("a",))


def test_jobs_that_wait_within_their_stage_do_not_make_it_follow_itself() -> None:
    made = plan([job("a", stage="s"), job("b", 1, stage="s", depends_on=("a",))])
    (stage,) = list_stages(made, find_links(made))
    assert (stage.waits, stage.reads) == ((), ())


def test_a_stage_that_waits_and_reads_elsewhere_tells_the_two_apart() -> None:
    jobs = [job(name, at, stage=name) for at, name in enumerate("abc")]
    edges = (edge("a", "c", "w"), edge("b", "c", "r"))
    made = plan(jobs, edges=edges)
    last = list_stages(made, find_links(made))[-1]
    assert (last.waits, last.reads) == (("a",), ("b",))


def test_a_stage_that_is_waited_for_and_read_from_is_named_once() -> None:
    jobs = [job("a", stage="s"), job("b", 1, stage="t"), job("c", 2, stage="t")]
    edges = (edge("a", "b", "w"), edge("a", "c", "r"))
    made = plan(jobs, edges=edges)
    last = list_stages(made, find_links(made))[-1]
    assert (last.waits, last.reads) == (("s",), ())


# -------------------------------------------------------------------------- order
@pytest.mark.parametrize(
    ("before", "order"),
    [
        ({"c": [], "a": [], "b": []}, ["c", "a", "b"]),
        ({"late": ["first"], "first": [], "other": []}, ["first", "late", "other"]),
        ({"a": ["a"], "b": []}, ["a", "b"]),
        ({"a": ["c"], "b": ["a"], "c": ["b"], "d": []}, ["d", "a", "b", "c"]),
        ({"a": ["gone"], "b": []}, ["a", "b"]),
    ],
    ids=["as they are", "free again", "after itself", "a ring", "unknown"],
)
def test_stages_come_after_those_before_them_and_rings_last(
    before: dict[str, list[str]], order: list[str]
) -> None:
    assert order_stages(before) == order


NAMES = st.sampled_from("abcdefghij")


@settings(deadline=None)
@given(st.dictionaries(NAMES, st.lists(NAMES, max_size=3), max_size=10))
def test_every_stage_comes_exactly_once(before: dict[str, list[str]]) -> None:
    assert sorted(order_stages(before)) == sorted(before)
