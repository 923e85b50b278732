"""What remains of a backlog of metrics: the ends, the extremes, all that is unlike."""

from __future__ import annotations

import random

import pytest

from autoexp_tui.model.rules import MetricPattern
from autoexp_tui.telemetry.metrics import (
    MetricReader,
    OwnMetrics,
    Point,
    compile_metric,
)

EVERY = 4096


def backlog(lines: int, **others: bytes) -> bytes:
    """A dense log; `others`: lines that stand after the line of their number."""
    dense = [
        b"iteration %8d/ 9999 | lm loss: %.3fE+00 | nan iterations: 0 |\n"
        % (n, 3 - n / 9e3)
        for n in range(lines)
    ]
    for number, line in others.items():
        dense[int(number[1:])] += line + b"\n"
    return b"".join(dense)


def losses(points: list[Point]) -> list[float]:
    return [point.values["loss"] for point in points if "loss" in point.values]


def test_of_a_stretch_of_a_backlog_three_lines_remain() -> None:
    data = backlog(2000)
    points = MetricReader().read(data, 0, every=EVERY)
    assert len(points) <= 2 + 3 * (len(data) / EVERY + 1)


def test_the_lowest_the_highest_and_the_last_loss_remain() -> None:
    rng = random.Random(3)
    some = [rng.random() for _ in range(500)]
    data = b"".join(b"step %d loss %.6f\n" % pair for pair in enumerate(some))
    kept = losses(MetricReader().read(data, 0, every=len(data)))
    assert len(kept) <= 5
    assert {round(min(some), 6), round(max(some), 6)} < set(kept)
    assert kept[-1] == round(some[-1], 6)


@pytest.mark.parametrize("line", [
    b"iteration     1000/ 9999 | lm loss: nan | nan iterations: 1 |",
    b"iteration     1000/ 9999 | lm loss: inf | nan iterations: 0 |",
    b"iteration     1000/ 9999 | lm loss: 1e999 | nan iterations: 0 |",
    b"iteration     1000/ 9999 | lm loss: 9.0E+00 | nan iterations: 0 |",
    b"iteration     1000/ 9999 | lm loss: 0.5E+00 | nan iterations: 0 |",
    b"iteration     1000/ 9999 | val loss: 2.0 | nan iterations: 0 |",
    b"validation loss at iteration 1000 | lm loss value: 2.0E+00 |",
    b"{'eval_loss': 2.0}",
])  # fmt: skip
@pytest.mark.parametrize("talk", [b"", b"some text\n"])
def test_what_must_be_seen_is_never_passed_over(line: bytes, talk: bytes) -> None:
    (alone,) = MetricReader().read(line + b"\n")
    data = backlog(2000, n1000=line).replace(b" 0 |\n", b" 0 |\n" + talk)
    read = MetricReader().read(data, 0, every=EVERY)
    assert any(repr(point.values) == repr(alone.values) for point in read)


def test_text_between_the_lines_keeps_none_of_them_from_being_passed_over() -> None:
    data = b"".join(b"step %d loss 2.5\nsome text\n" % n for n in range(2000))
    assert len(MetricReader().read(data, 0, every=1024)) < 250


def test_a_value_without_a_step_keeps_the_step_of_the_line_before_it() -> None:
    data = backlog(2000, n1234=b"  val loss: 2.0")
    read = MetricReader().read(data, 0, every=EVERY)
    assert [p.step for p in read if "eval_loss" in p.values] == [1234]


def test_the_points_of_a_log_without_steps_are_counted_whether_read_or_not() -> None:
    rng = random.Random(1)
    lines = [b"{'loss': %.4f, 'epoch': 0.1}\n" % rng.random() for _ in range(2000)]
    lines[700] += b"{'eval_loss': 2.5, 'epoch': 0.2}\n"
    data = b"".join(lines)
    whole = {p.offset: p for p in MetricReader().read(data)}
    thinned = MetricReader().read(data, 0, every=EVERY)
    assert len(thinned) < 400
    assert thinned == [whole[point.offset] for point in thinned]


def test_a_line_with_a_metric_of_the_users_is_never_passed_over() -> None:
    own = compile_metric(MetricPattern(name="ppl", pattern=r"ppl (\S+)"))
    data = backlog(2000, n1000=b"ppl 7.5", n1500=b"step 1500 loss 2.5 ppl 7.25")
    read = MetricReader(OwnMetrics([own])).read(data, 0, every=EVERY)
    assert len(read) < 400
    assert [p.values["ppl"] for p in read if "ppl" in p.values] == [7.5, 7.25]
