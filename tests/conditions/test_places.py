"""Whose directory a path lies in, whom a condition waits for, and what is looked up."""

from __future__ import annotations

import pytest

from autoexp_tui.conditions.files import Places
from autoexp_tui.model.decision_context import Watch
from autoexp_tui.model.facts import JobKey, MetricKey, StatKey

PLACES = Places([
    ("a.1", "/out/a.1", "/logs/a.1"), ("a", "out/a", "/logs/a"), ("b", "/out/b", "l/b"),
])  # fmt: skip


@pytest.mark.parametrize(("path", "owner"), [
    ("/out/a.1/checkpoints/done.txt", "a.1"), ("/out/a.1", "a.1"),
    ("/out/./b//x/*", "b"), ("/out/b/../a.1/x", "a.1"), ("out/a/x", "a"),
    ("/logs/a/current.log", "a"), ("/out/a.12/x", ""), ("/out", ""), ("", ""),
    ("..", ""),
])  # fmt: skip
def test_a_path_belongs_to_the_job_whose_directory_holds_it(
    path: str, owner: str
) -> None:
    assert PLACES.owner(path) == owner


def test_what_a_job_reads_is_looked_up_in_one_order_until_nobody_reads_it() -> None:
    many = frozenset(StatKey(f"/ckpt/{number}") for number in range(40))
    watch, in_order = Watch(), sorted(many, key=repr)
    for _ in range(2):  # judged again, looked up again
        watch.set("a", many | {JobKey("b")})
        assert list(watch.take_wanted()) == in_order
    watch.set("a", frozenset())
    assert not watch.take_wanted()
    assert list(watch.take_dropped()) == in_order
    assert not watch.is_read(in_order[0])


def test_a_job_is_measured_as_long_as_anybody_reads_one_of_its_metrics() -> None:
    watch, loss, rate = Watch(), MetricKey("a", "loss"), MetricKey("a", "lr")
    for reader, keys, is_measured in (
        ("b", {loss, rate}, True), ("c", {loss}, True), ("b", {rate}, True),
        ("b", set[MetricKey](), True), ("c", set[MetricKey](), False),
    ):  # fmt: skip
        watch.set(reader, frozenset(keys))
        assert (watch.measured["a"] > 0) is is_measured
        assert not watch.measured["b"]
