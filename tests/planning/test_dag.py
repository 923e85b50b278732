"""Order and rings among jobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.model.specs import Edge
from autoexp_tui.planning import dag
from tests.planning.plans import job, plan, ten_jobs


def test_rings_apart_are_all_named() -> None:
    # 1 waits for 3, 3 waits for 2, 2 waits for 1.
    assert dag.find_rings(4, [(3, 1), (2, 3), (1, 2), (1, 0)]) == [[1, 3, 2]]
    apart = [(0, 1), (1, 0), (2, 3), (3, 2), (3, 4)]
    assert dag.find_rings(6, apart) == [[0, 1], [2, 3]]


def test_a_long_chain_is_no_trouble() -> None:
    chain = [(at, at + 1) for at in range(20_000)]
    assert list(dag.sort_topologically(20_001, chain)) == list(range(20_001))
    assert len(dag.find_rings(20_001, [*chain, (20_000, 0)])[0]) == 20_001
    assert dag.sort_topologically(5, [(3, 0), (1, 0), (4, 2)]) == [1, 3, 0, 4, 2]


EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)


@given(EDGES)
def test_order_and_rings_account_for_every_job(edges: list[tuple[int, int]]) -> None:
    order = dag.sort_topologically(7, edges)
    place = {at: n for n, at in enumerate(order)}
    assert all(place[one] < place[other] for one, other in edges if other in place)
    rings = dag.find_rings(7, edges)
    assert bool(rings) == (len(order) < 7)
    for ring in rings:
        assert set(zip([*ring[1:], ring[0]], ring, strict=True)) <= set(edges)


def test_a_ring_comes_back_to_where_it_began_and_its_middle_is_counted() -> None:
    assert dag.format_rings("ring", [["a", "b"]]) == "ring: a -> b -> a"
    assert dag.format_rings("ring", [list("abcdefghijkl")]).count("->") == 12
    head = "s0 -> s1 -> s2 -> s3 -> s4 -> s5 -> (3,988 more) -> "
    tail = "s3994 -> s3995 -> s3996 -> s3997 -> s3998 -> s3999 -> s0"
    told = dag.format_rings("ring", [[f"s{at}" for at in range(4000)]])
    assert told == f"ring: {head}{tail}"


def edge(before: str, after: str, mode: str) -> Edge:
    """An edge; `mode` is its first letter."""
    return Edge(before=before, after=after, mode="reads" if mode == "r" else "waits")


Edges = tuple[Edge, ...]


@pytest.mark.parametrize(("edges", "depends_on", "waits", "reads"), [
    ((edge("a", "b", "r"), edge("a", "b", "w")), "", "a", ""),
    ((), "a", "a", ""), ((edge("a", "b", "r"),), "a", "", "a"),
], ids=["waits win", "no edge", "only read"])  # fmt: skip
def test_what_a_job_waits_for_and_only_reads_are_told_apart(
    edges: Edges, depends_on: str, waits: str, reads: str
) -> None:
    made = plan([job("a"), job("b", 1, depends_on=tuple(depends_on))], edges=edges)
    links = dag.find_links(made)
    assert (links.waits["b"], links.reads["b"]) == (tuple(waits), tuple(reads))


@pytest.mark.parametrize(("of", "edges", "waits", "reads"), [
    ("ss", (edge("a", "b", "w"),), "", ""),
    ("xyz", (edge("a", "c", "w"), edge("b", "c", "r")), "x", "y"),
    ("xyy", (edge("a", "b", "w"), edge("a", "c", "r")), "x", ""),
], ids=["itself", "both", "once"])  # fmt: skip
def test_stages_follow_jobs(of: str, edges: Edges, waits: str, reads: str) -> None:
    jobs = [job("abc"[at], at, stage=stage) for at, stage in enumerate(of)]
    made = plan(jobs, edges=edges)
    last = dag.list_stages(made, dag.find_links(made))[-1]
    assert (last.waits, last.reads) == (tuple(waits), tuple(reads))


@pytest.mark.parametrize(("before", "order"), [
    ({"c": [], "a": [], "b": []}, ["c", "a", "b"]),
    ({"late": ["first"], "first": [], "other": []}, ["first", "late", "other"]),
    ({"a": ["a"], "b": []}, ["a", "b"]), ({"a": ["gone"], "b": []}, ["a", "b"]),
    ({"a": ["c"], "b": ["a"], "c": ["b"], "d": []}, ["d", "a", "b", "c"]),
], ids=["as they are", "free again", "after itself", "unknown", "a ring"])  # fmt: skip
def test_stages_come_in_order(before: dict[str, list[str]], order: list[str]) -> None:
    assert dag.order_stages(before) == order


NAMES = st.sampled_from("abcdefghij")


@settings(deadline=None)
@given(st.dictionaries(NAMES, st.lists(NAMES, max_size=3), max_size=10))
def test_every_stage_comes_exactly_once(before: dict[str, list[str]]) -> None:
    assert sorted(dag.order_stages(before)) == sorted(before)


def test_the_first_family_goes_with_all_its_stages_and_what_it_waits_for() -> None:
    made = ten_jobs()
    first = made.jobs[0].family
    together = tuple(one.name for one in made.jobs if one.family == first)
    assert dag.find_first_family(made) == together
    jobs = [
        job("a", 0, family="f0", depends_on=("base",)), job("b", 1, family="f1"),
        job("base", 2, depends_on=("data",)), job("data", 3),
    ]  # fmt: skip
    assert dag.find_first_family(plan(jobs)) == ("a", "base", "data")
    assert dag.find_first_family(plan([job("a"), job("b", 1)])) == ("a",)
    assert dag.find_first_family(plan([])) == ()
    befores: tuple[tuple[str, ...], ...] = ((), ("a",), ())
    jobs = [
        job("abc"[at], at, family=f"f{at}", depends_on=befores[at]) for at in range(3)
    ]
    assert dag.find_first_family(plan(jobs), done=("a",)) == ("a", "b")
