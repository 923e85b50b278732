"""What remains of a backlog of metrics: the ends, the extremes, all that is unlike."""

from __future__ import annotations

import random
from contextlib import nullcontext
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.adapters.fast_search import fast_test
from autoexp_tui.monitor import metric_backlog, metrics
from autoexp_tui.monitor.metrics import MetricReader, Point
from autoexp_tui.monitor.sieve import AnyTest, MakeTest, by_re

ENGINES = pytest.mark.parametrize("make_test", [by_re, fast_test])
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


@pytest.mark.parametrize(
    ("data", "size", "end"),
    [
        (b"aa\nbb\ncc", 7, 6),
        (b"aa\rbb\rcc", 7, 6),
        (b"aa\nbb\rcc", 7, 3),
        (b"aaaa\rbb\n", 3, 5),
        (b"aaaa\nbb\r", 3, 5),
        (b"aaaa", 3, 4),
    ],
)
def test_a_part_of_a_backlog_ends_where_a_line_does(
    data: bytes, size: int, end: int
) -> None:
    assert metric_backlog.span_end(data, 0, size) == end


def losses(points: list[Point]) -> list[float]:
    return [point.values["loss"] for point in points if "loss" in point.values]


@ENGINES
def test_of_a_stretch_of_a_backlog_three_lines_remain(make_test: MakeTest) -> None:
    data = backlog(2000)
    first = data.count(b"\n", 0, EVERY)  # what the layout is learned from
    points = MetricReader((), make_test).feed(data, 0, every=EVERY)
    assert len(points) <= first + 3 * (len(data) / EVERY + 1)


def test_the_last_line_of_a_backlog_remains() -> None:
    data = backlog(2000)
    assert MetricReader().feed(data, 0, every=EVERY)[-1].step == 1999


@ENGINES
@pytest.mark.parametrize(
    "line",
    [
        b"iteration     1000/ 9999 | lm loss: nan | nan iterations: 1 |",
        b"iteration     1000/ 9999 | lm loss: inf | nan iterations: 0 |",
        b"iteration     1000/ 9999 | lm loss: 1e999 | nan iterations: 0 |",
        b"iteration     1000/ 9999 | lm loss: 9.0E+00 | nan iterations: 0 |",
        b"iteration     1000/ 9999 | lm loss: 0.5E+00 | nan iterations: 0 |",
        b"iteration     1000/ 9999 | val loss: 2.0 | nan iterations: 0 |",
        b"validation loss at iteration 1000 | lm loss value: 2.0E+00 |",
        b"{'eval_loss': 2.0}",
    ],
)
@pytest.mark.parametrize("talk", [b"", b"some text\n"])
def test_what_must_be_seen_is_never_passed_over(
    line: bytes, talk: bytes, make_test: MakeTest
) -> None:
    (alone,) = MetricReader().feed(line + b"\n")
    data = backlog(2000, n1000=line).replace(b" 0 |\n", b" 0 |\n" + talk)
    read = MetricReader((), make_test).feed(data, 0, every=EVERY)
    assert any(repr(point.values) == repr(alone.values) for point in read)


def test_text_between_the_lines_keeps_none_of_them_from_being_passed_over() -> None:
    data = b"".join(b"step %d loss 2.5\nsome text\n" % n for n in range(2000))
    assert len(MetricReader().feed(data, 0, every=1024)) < 250


@ENGINES
def test_a_value_without_a_step_keeps_the_step_of_the_line_before_it(
    make_test: MakeTest,
) -> None:
    data = backlog(2000, n1234=b"  val loss: 2.0")
    read = MetricReader((), make_test).feed(data, 0, every=EVERY)
    assert [p.step for p in read if "eval_loss" in p.values] == [1234]


@ENGINES
def test_the_points_of_a_log_without_steps_are_counted_whether_read_or_not(
    make_test: MakeTest,
) -> None:
    rng = random.Random(1)
    lines = [b"{'loss': %.4f, 'epoch': 0.1}\n" % rng.random() for _ in range(2000)]
    lines[700] += b"{'eval_loss': 2.5, 'epoch': 0.2}\n"
    data = b"".join(lines)
    whole = {p.offset: p for p in MetricReader().feed(data)}
    thinned = MetricReader((), make_test).feed(data, 0, every=EVERY)
    assert len(thinned) < 400
    assert thinned == [whole[point.offset] for point in thinned]


KINDS = [
    b"iteration %d/ 9999 | lm loss: %.3f | grad norm: 1.0 |\n",
    b"iteration %d/ 9999 | lm loss: %.3f | grad norm: 1.0 |\n",
    b"iteration %d/ 9999 | lm loss: %.3f | grad norm: 1.0 |\n",
    b"iter %d: val loss %.2f\n",
    b"{'loss': %d, 'x': %.1f}\n",
    b"text %d %.1f without any\n",
    b"step %d of text %.1f\n",
    b"iteration %d/ 9999 | lm loss: nan | grad norm: %.1f |\n",
    b"\xff\xfe %d loss: %.1f\n",
    b"\r 7%%|@| %d/9999 [00:01<00:09, 9.1it/s, loss=%.3f]",
    b"\r 7%%|@| %d/9999 [00:01<00:09, 9.1it/s, loss=%.3f]",
    b"\rEpoch 1: 7%%|@| %d/9999 [00:01<00:09, loss=%.3f]\n",
]
FILLS = [b"#5  ", b"##", b"", "██▌ ".encode(), "███".encode()]


def filled(kind: bytes, n: int, value: float) -> bytes:
    """A line; how full its bar is goes with its number."""
    return (kind % (n, value)).replace(b"@", FILLS[n % len(FILLS)])


@ENGINES
@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.floats(0, 99)), max_size=80),
    st.integers(60, 600),
    st.sampled_from([200, 1 << 18]),
)
def test_what_remains_is_as_it_was_with_all_extremes(
    make_test: MakeTest, drawn: list[tuple[bytes, float]], every: int, part: int
) -> None:
    data = b"".join(filled(kind, n, value) for n, (kind, value) in enumerate(drawn, 1))
    whole = MetricReader().feed(data, 7)
    with patch.object(metrics, "_PART", part):
        thinned = MetricReader((), make_test).feed(data, 7, every)
    known = {point.offset: repr(point) for point in whole}
    assert all(known[point.offset] == repr(point) for point in thinned)
    finite = [loss for loss in losses(whole) if loss == loss]
    kept = losses(thinned)
    if finite:
        assert min(finite) in kept
        assert max(finite) in kept
    assert sum(v != v for v in kept) == sum(v != v for v in losses(whole))
    assert [p for p in thinned if "eval_loss" in p.values] == [
        p for p in whole if "eval_loss" in p.values
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.lists(st.floats(0, 99, width=16), min_size=1, max_size=60),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_what_remains_of_runs_is_as_it_was_with_all_extremes(
    drawn: list[tuple[bytes, list[float]]],
    by_runs: bool,
) -> None:
    lines = [(kind, value) for kind, values in drawn for value in values]
    data = b"".join(filled(kind, n, value) for n, (kind, value) in enumerate(lines, 1))
    head = b"".join(filled(KINDS[0], n, 50.0) for n in range(2))
    whole = MetricReader().feed(head + data)
    reader = MetricReader((), fast_test)
    without = patch.object(metric_backlog, "line_runs", lambda *_: None)
    with nullcontext() if by_runs else without:
        thinned = reader.feed(head) + reader.feed(data, len(head), 1 << 16)
    known = {point.offset: repr(point) for point in whole}
    assert all(known[point.offset] == repr(point) for point in thinned)
    finite = [loss for loss in losses(whole) if loss == loss]
    assert {min(finite), max(finite)} <= set(losses(thinned))
    assert repr(whole[-1]) == repr(thinned[-1])
    assert [p for p in thinned if "eval_loss" in p.values] == [
        p for p in whole if "eval_loss" in p.values
    ]


def test_lines_that_differ_in_their_digits_alone_are_put_to_no_regex() -> None:
    tested = 0

    def counting(pattern: str) -> AnyTest:
        test = by_re(pattern)

        def counted(text: str | bytes) -> bool:
            nonlocal tested
            tested += len(text) if "iter" in pattern and "loss:" in pattern else 0
            return test(text)

        return counted

    data = backlog(4000, n1000=b"validation loss at iteration 1 | lm loss value: 2.0 |")
    MetricReader((), counting).feed(data, 0, every=1 << 17)
    assert tested == 0


@pytest.mark.parametrize("evaluations", [False, True])
def test_the_states_of_a_bar_without_steps_are_counted_whether_read_or_not(
    evaluations: bool,
) -> None:
    rng = random.Random(1)
    bar = "\rEpoch 0:%3d%%|%-10s| %d/2000 [00:12<00:14, loss=%.3f]"
    states = [
        bar % (n // 20, "█" * (n // 3 % 10), n, rng.random()) for n in range(2000)
    ]
    if evaluations:
        for n in (10, 20, *range(300, 2000, 300)):
            states[n] += "\nvalidation at the end of an epoch: loss 2.5"
    head, rest = ("".join(some).encode() for some in (states[:30], states[30:]))
    whole = {point.offset: point for point in MetricReader().feed(head + rest)}
    reader = MetricReader((), fast_test)
    reader.feed(head)
    thinned = reader.feed(rest, len(head), every=1 << 20)
    assert len(thinned) < 100
    assert thinned == [whole[point.offset] for point in thinned]
    read = losses([point for point in whole.values() if point.offset >= len(head)])
    assert {min(read), max(read)} <= set(losses(thinned))


@ENGINES
def test_the_states_of_a_progress_bar_are_passed_over_however_full_it_is(
    make_test: MakeTest,
) -> None:
    bar = "\r%3d%%|%-10s| %d/2000 [00:12<00:14, 38.1it/s, loss=%.3f]"
    states = [
        bar % (n // 20, "█" * (n // 200), n, 3 - n / 1e3) for n in range(200, 2000)
    ]
    data = "".join(states).encode() + b"\n"
    points = MetricReader((), make_test).feed(data, 0, every=EVERY)
    assert len(points) <= 64 + 3 * (len(data) / EVERY + 1)
    assert points[-1].step == 1999
    assert {2.8, 1.001} <= set(losses(points))


@ENGINES
def test_evaluations_between_the_lines_keep_none_of_them_from_being_passed_over(
    make_test: MakeTest,
) -> None:
    lines = []
    for n in range(2000):
        if n % 50 == 0:
            lines.append(b"step %d: train loss 2.5, val loss %.4f\n" % (n, 3 - n / 1e3))
        lines.append(b"iter %d: loss %.4f, time 23.41ms\n" % (n, 3 - n / 1e3))
    data = b"".join(lines)
    whole = {point.offset: point for point in MetricReader().feed(data)}
    thinned = MetricReader((), make_test).feed(data, 0, every=1 << 14)
    assert all(whole[point.offset] == point for point in thinned)
    assert sum("eval_loss" in point.values for point in thinned) == 40
    assert len(thinned) < 700  # the first stretch, and a few lines of each other one
