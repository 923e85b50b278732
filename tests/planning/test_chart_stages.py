"""Which stages follow from which, and the order in which they are drawn."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.model.specs import Edge
from autoexp_tui.planning.chart_stages import in_a_ring, in_order, links_of, stages_of
from tests.planning.chart_plans import job, plan


def edge(before: str, after: str, mode: str) -> Edge:
    """An edge; `mode` is its first letter."""
    return Edge(before=before, after=after, mode="reads" if mode == "r" else "waits")


def test_a_job_that_is_read_and_waited_for_is_waited_for() -> None:
    edges = (edge("a", "b", "r"), edge("a", "b", "w"))
    links = links_of(plan([job("a"), job("b", 1)], edges=edges))
    assert (links.waits["b"], links.reads["b"]) == (("a",), ())


def test_a_dependency_without_an_edge_is_a_wait() -> None:
    links = links_of(plan([job("a"), job("b", 1, depends_on=("a",))], edges=()))
    assert links.waits["b"] == ("a",)


def test_a_dependency_that_only_reads_is_no_wait() -> None:
    jobs = [job("a"), job("b", 1, depends_on=("a",))]
    links = links_of(plan(jobs, edges=(edge("a", "b", "r"),)))
    assert (links.waits["b"], links.reads["b"]) == ((), ("a",))


def test_jobs_that_wait_within_their_stage_do_not_make_it_follow_itself() -> None:
    made = plan([job("a", stage="s"), job("b", 1, stage="s", depends_on=("a",))])
    assert [one.follows for one in stages_of(made, links_of(made))] == [()]


def test_a_stage_that_waits_and_reads_elsewhere_tells_the_two_apart() -> None:
    jobs = [job(name, at, stage=name) for at, name in enumerate("abc")]
    edges = (edge("a", "c", "w"), edge("b", "c", "r"))
    made = plan(jobs, edges=edges)
    last = stages_of(made, links_of(made))[-1]
    assert (last.waits, last.reads) == (("a",), ("b",))


def test_a_stage_that_is_waited_for_and_read_from_is_named_once() -> None:
    jobs = [job("a", stage="s"), job("b", 1, stage="t"), job("c", 2, stage="t")]
    edges = (edge("a", "b", "w"), edge("a", "c", "r"))
    made = plan(jobs, edges=edges)
    assert stages_of(made, links_of(made))[-1].follows == ("s",)


# -------------------------------------------------------------------------- order
def test_keys_that_nothing_orders_keep_their_order() -> None:
    assert in_order({"c": [], "a": [], "b": []}) == ["c", "a", "b"]


def test_a_key_that_becomes_free_goes_before_later_ones() -> None:
    before: dict[str, list[str]] = {"late": ["first"], "first": [], "other": []}
    assert in_order(before) == ["first", "late", "other"]


def test_a_key_after_itself_is_not_held_back() -> None:
    before: dict[str, list[str]] = {"a": ["a"], "b": []}
    assert in_order(before) == ["a", "b"]


def test_a_ring_is_entered_at_its_first_key() -> None:
    assert in_order({"a": ["c"], "b": ["a"], "c": ["b"]}) == ["a", "b", "c"]


graphs = st.dictionaries(
    st.integers(0, 9), st.lists(st.integers(0, 9), max_size=3), max_size=10
)


@settings(deadline=None)
@given(graphs)
def test_every_key_comes_exactly_once(before: dict[int, list[int]]) -> None:
    assert sorted(in_order(before)) == sorted(before)


@settings(deadline=None)
@given(graphs)
def test_without_a_ring_each_key_comes_after_those_before_it(
    before: dict[int, list[int]],
) -> None:
    smaller = {
        key: [one for one in others if one < key] for key, others in before.items()
    }
    place = {key: at for at, key in enumerate(in_order(smaller))}
    assert all(
        place[one] < place[key]
        for key, others in smaller.items()
        for one in others
        if one in place
    )


@settings(deadline=None)
@given(graphs)
def test_a_graph_that_only_goes_down_has_no_ring(before: dict[int, list[int]]) -> None:
    smaller = {
        key: [one for one in others if one < key] for key, others in before.items()
    }
    assert not in_a_ring(smaller)


@settings(deadline=None)
@given(st.integers(1, 6))
def test_a_ring_of_any_length_is_one(length: int) -> None:
    assert in_a_ring({at: [(at + 1) % length] for at in range(length)})
