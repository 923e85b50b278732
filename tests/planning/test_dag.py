"""Order and rings among jobs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.planning.dag import find_rings, format_ring, sort_topologically


def test_jobs_come_after_those_they_wait_for_ties_by_position() -> None:
    assert sort_topologically(5, [(3, 0), (1, 0), (4, 2)]) == [1, 3, 0, 4, 2]


def test_a_ring_is_named_from_its_lowest_job_in_waiting_order() -> None:
    # 1 waits for 3, 3 waits for 2, 2 waits for 1.
    assert find_rings(4, [(3, 1), (2, 3), (1, 2), (1, 0)]) == [[1, 3, 2]]


def test_a_job_may_wait_for_itself() -> None:
    assert find_rings(2, [(1, 1)]) == [[1]]


def test_rings_apart_are_all_named() -> None:
    assert find_rings(6, [(0, 1), (1, 0), (2, 3), (3, 2), (3, 4)]) == [[0, 1], [2, 3]]


def test_without_rings_there_are_none() -> None:
    assert find_rings(3, [(0, 1), (1, 2), (0, 2)]) == []


def test_a_long_chain_is_no_trouble() -> None:
    chain = [(at, at + 1) for at in range(20_000)]
    assert list(sort_topologically(20_001, chain)) == list(range(20_001))
    assert len(find_rings(20_001, [*chain, (20_000, 0)])[0]) == 20_001


EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)


@given(EDGES)
def test_order_and_rings_account_for_every_job(edges: list[tuple[int, int]]) -> None:
    order = sort_topologically(7, edges)
    place = {at: n for n, at in enumerate(order)}
    for before, after in edges:
        if after in place:
            assert place[before] < place[after]
    assert bool(find_rings(7, edges)) == (len(order) < 7)


@given(EDGES)
def test_a_ring_is_made_of_edges(edges: list[tuple[int, int]]) -> None:
    for ring in find_rings(7, edges):
        for at, waited in zip(ring, [*ring[1:], ring[0]], strict=True):
            assert (waited, at) in edges


def test_a_ring_comes_back_to_where_it_began() -> None:
    assert format_ring(["a", "b"]) == "a -> b -> a"
    assert format_ring(list("abcdefghijkl")).count("->") == 12


def test_of_a_long_ring_the_middle_is_counted() -> None:
    told = format_ring([f"s{at}" for at in range(4000)])
    head = "s0 -> s1 -> s2 -> s3 -> s4 -> s5 -> (3,988 more) -> "
    assert told == f"{head}s3994 -> s3995 -> s3996 -> s3997 -> s3998 -> s3999 -> s0"
