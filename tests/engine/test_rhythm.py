"""How often things are looked at."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.engine.adaptive_poller import Rhythm


def slower(seconds: float, changed: bool) -> float:
    return 1.0 if changed else min(seconds * 2, 16.0)


def anyone(_key: str) -> bool:
    return True


def looks(rhythm: Rhythm[str], values: Iterable[object], most: int = 40) -> list[float]:
    """The moments at which `a` is looked at, when it says these values."""
    times: list[float] = []
    given_values = iter(values)
    for _ in range(most):
        at = rhythm.next_at()
        assert at is not None
        assert list(rhythm.take_due(at, anyone)) == ["a"]
        times.append(at)
        try:
            rhythm.rest("a", next(given_values), at, slower)
        except StopIteration:
            return times
    return times


def test_what_is_new_is_looked_at_at_once() -> None:
    rhythm: Rhythm[str] = Rhythm()
    rhythm.want(["a"], 5.0, 1.0)
    assert list(rhythm.take_due(5.0, anyone)) == ["a"]


def test_what_is_under_way_is_not_looked_at_again() -> None:
    rhythm: Rhythm[str] = Rhythm()
    rhythm.want(["a"], 5.0, 1.0)
    list(rhythm.take_due(5.0, anyone))
    rhythm.want(["a"], 6.0, 1.0)
    rhythm.hurry(6.0)
    assert list(rhythm.take_due(100.0, anyone)) == []
    assert rhythm.next_at() is None


def test_what_rests_is_looked_at_ever_more_seldom_up_to_a_limit() -> None:
    rhythm: Rhythm[str] = Rhythm()
    rhythm.want(["a"], 0.0, 1.0)
    times = looks(rhythm, ["same"] * 12)
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps[0] == 1.0
    assert 12.0 <= gaps[-1] <= 16.0
    assert max(gaps) <= 16.0


def test_a_change_makes_it_hot_again() -> None:
    rhythm: Rhythm[str] = Rhythm()
    rhythm.want(["a"], 0.0, 1.0)
    times = looks(rhythm, ["same"] * 8 + ["other"])
    assert times[-1] - times[-2] == 1.0


def test_who_asks_anew_waits_no_longer_than_the_shortest_time() -> None:
    rhythm: Rhythm[str] = Rhythm()
    rhythm.want(["a"], 0.0, 1.0)
    last = looks(rhythm, ["same"] * 8)[-1]
    list(rhythm.take_due(last, anyone))
    rhythm.rest("a", "same", last, slower)
    rhythm.want(["a"], last + 0.25, 1.0)
    assert rhythm.next_at() == last + 1.0


def test_what_nobody_wants_is_forgotten_when_its_time_comes() -> None:
    rhythm: Rhythm[str] = Rhythm()
    rhythm.want(["a", "b"], 0.0, 1.0)
    assert list(rhythm.take_due(0.0, lambda key: key == "b")) == ["b"]
    assert len(rhythm) == 1


def test_a_hurry_makes_everything_due() -> None:
    rhythm: Rhythm[str] = Rhythm()
    rhythm.want(["a"], 0.0, 1.0)
    last = looks(rhythm, ["same"] * 8)[-1]
    list(rhythm.take_due(last, anyone))
    rhythm.rest("a", "same", last, slower)
    rhythm.hurry(last + 0.1)
    assert rhythm.next_at() == last + 0.1


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
def test_nothing_is_lost_and_nothing_is_twice_under_way(keys: list[str]) -> None:
    rhythm: Rhythm[str] = Rhythm()
    under_way: set[str] = set()
    for now, key in enumerate(keys):
        rhythm.want([key], float(now), 1.0)
        taken = list(rhythm.take_due(float(now), anyone))
        assert len(taken) == len(set(taken))
        assert not under_way & set(taken)
        under_way |= set(taken)
        if now % 2 and under_way:
            done = min(under_way)
            under_way.discard(done)
            rhythm.rest(done, None, float(now), slower)
    for done in under_way:
        rhythm.rest(done, None, 100.0, slower)
    assert set(rhythm.take_due(1_000.0, anyone)) == set(keys)
