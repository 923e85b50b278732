"""How often things are looked at."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.engine.adaptive_poller import AdaptivePoller

LONGEST = 16.0


def settle(poller: AdaptivePoller[str], key: str, outcome: object, now: float) -> None:
    changed = poller.is_news(key, outcome)
    poller.settle(key, now, changed=changed, shortest=1.0, longest=LONGEST, factor=2)


def looks(poller: AdaptivePoller[str], values: Iterable[object]) -> list[float]:
    """The moments at which `a` is looked at, when it says these values."""
    times: list[float] = []
    for value in values:
        at = poller.next_at()
        assert at is not None
        assert list(poller.take_due(at)) == ["a"]
        times.append(at)
        settle(poller, "a", value, at)
    return times


def watching(*keys: str, now: float = 0.0) -> AdaptivePoller[str]:
    poller: AdaptivePoller[str] = AdaptivePoller()
    for key in keys:
        poller.want(key, now, 1.0)
    return poller


def test_what_is_under_way_is_not_looked_at_again() -> None:
    poller = watching("a")
    assert list(poller.take_due(5.0)) == ["a"]
    poller.want("a", 6.0, 1.0)
    poller.hurry(6.0, "a")
    assert list(poller.take_due(100.0)) == []
    assert poller.next_at() is None


def test_what_rests_is_looked_at_ever_more_seldom_up_to_a_limit() -> None:
    gaps = [b - a for a, b in pairwise(looks(watching("a"), ["same"] * 9))]
    assert gaps == [1.0, 2.0, 4.0, 8.0, 16.0, 16.0, 16.0, 16.0]


def test_what_changes_is_looked_at_again_after_the_shortest_time() -> None:
    poller = watching("a")
    last = looks(poller, ["same"] * 8 + ["other"])[-1]
    assert poller.next_at() == last + 1.0


def test_who_asks_anew_waits_no_longer_than_the_shortest_time() -> None:
    poller = watching("a")
    last = looks(poller, ["same"] * 8)[-1]
    poller.want("a", last + 0.25, 1.0)
    assert poller.next_at() == last + 1.0


def test_a_hurry_makes_due_what_it_names() -> None:
    poller = watching("a", "b")
    for key in poller.take_due(0.0):
        settle(poller, key, None, 0.0)
    poller.hurry(0.1, "a")
    poller.hurry(0.1, "unknown")
    assert list(poller.take_due(0.1)) == ["a"]


def test_what_nobody_wants_is_forgotten_when_its_time_comes() -> None:
    poller = watching("a", "b")
    assert list(poller.take_due(0.0, lambda key: key == "b")) == ["b"]
    assert list(poller.entries) == ["b"]


def test_what_is_due_soon_after_the_first_is_looked_at_with_it() -> None:
    poller = watching("b", now=1.0)
    poller.want("c", 1.2, 1.0)
    poller.want("a", 1.3, 1.0)
    assert list(poller.take_due(0.9, slack=0.25)) == []
    assert list(poller.take_due(1.0, slack=0.25)) == ["b", "c"]


def test_what_is_more_than_most_comes_with_the_next_call() -> None:
    poller = watching(*"abc")
    assert list(poller.take_due(0.0, most=2)) == ["a", "b"]
    assert list(poller.take_due(0.0, most=2)) == ["c"]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
def test_nothing_is_lost_and_nothing_is_twice_under_way(keys: list[str]) -> None:
    poller: AdaptivePoller[str] = AdaptivePoller()
    under_way: set[str] = set()
    for now, key in enumerate(keys):
        poller.want(key, float(now), 1.0)
        taken = list(poller.take_due(float(now)))
        assert len(taken) == len(set(taken))
        assert not under_way & set(taken)
        under_way |= set(taken)
        if now % 2 and under_way:
            done = min(under_way)
            under_way.discard(done)
            settle(poller, done, None, float(now))
    for done in under_way:
        settle(poller, done, None, 100.0)
    assert set(poller.take_due(1_000.0)) == set(keys)
