"""Who is to be looked at again, and what is to be looked up for them."""

from __future__ import annotations

from autoexp_tui.model.facts import JobKey, MetricKey, StatKey
from autoexp_tui.model.indexes import Watch

LOSS, RATE = MetricKey("a", "loss"), MetricKey("a", "lr")
MANY = frozenset(StatKey(f"/ckpt/{number}") for number in range(40))


def in_order(keys: frozenset[StatKey]) -> list[StatKey]:
    return sorted(keys, key=repr)


def test_what_a_job_reads_is_looked_up_in_one_order_until_nobody_reads_it() -> None:
    watch = Watch()
    for _ in range(2):  # judged again, looked up again
        watch.set("a", MANY | {JobKey("b")})
        assert list(watch.take_wanted()) == in_order(MANY)
    watch.set("a", frozenset())
    assert not watch.take_wanted()
    assert list(watch.take_dropped()) == in_order(MANY)
    assert not watch.is_read(next(iter(MANY)))


def test_a_job_is_measured_as_long_as_anybody_reads_one_of_its_metrics() -> None:
    watch = Watch()
    watch.set("b", frozenset({LOSS, RATE}))
    watch.set("c", frozenset({LOSS}))
    watch.set("b", frozenset({RATE}))
    assert watch.is_measured("a")
    assert not watch.is_measured("b")
    watch.set("b", frozenset())
    assert watch.is_measured("a")
    watch.set("c", frozenset())
    assert not watch.is_measured("a")
