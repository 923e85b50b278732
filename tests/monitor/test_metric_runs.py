"""Runs of lines that are spelled alike: what they consist of, and their extremes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from autoexp_tui.monitor.metric_layouts import Layout, Layouts
from autoexp_tui.monitor.metric_lines import fold, read_line
from autoexp_tui.monitor.metric_runs import extremes, line_runs

LINE = "iter %d: loss %s| time 23.41ms|\n"
SPELLINGS: list[Callable[[float], str]] = [
    lambda x: f"{x:.4f}",
    lambda x: f"{x:.2f}",
    lambda x: f"{-x:.2f}",
    lambda x: f"{x:9.3f}",
    lambda x: f"{x:.3e}",
    lambda x: f"{x * 1e30:.1e}",
    lambda x: f"+{x:.1f}",
    lambda x: str(round(x)),
    lambda x: f"{round(x)}.",
    lambda x: str(x),
]
DRAWN = st.lists(
    st.tuples(
        st.sampled_from(SPELLINGS),
        st.lists(st.floats(0, 99, width=16), min_size=1, max_size=40),
    ),
    min_size=1,
    max_size=6,
)


def layout_of(line: bytes) -> Layout:
    """As it is learned from a line that comes twice."""
    layouts = Layouts()
    for _ in range(2):
        found = read_line(line, 0, len(line) - 1)
        assert found is not None
        layouts.learn(line[:-1], 0, *found)
    known = layouts.find(line, 0)
    assert known is not None
    return known[0]


LAYOUT = layout_of(fold((LINE % (1, "2.5")).encode()))


def log_of(losses: list[str]) -> bytes:
    return fold("".join(LINE % pair for pair in enumerate(losses)).encode())


def starts_of(low: bytes) -> list[int]:
    """Where each line starts."""
    return [0, *(at + 1 for at, char in enumerate(low[:-1]) if char == ord("\n"))]


@given(st.lists(st.sampled_from(["loss 1.5", "loss 22.5", "loss nan", "x", "99"])))
def test_runs_follow_on_each_other_and_hold_lines_that_differ_in_digits_alone(
    texts: list[str],
) -> None:
    low = "".join(f"iter {n}: {text}\n" for n, text in enumerate(texts)).encode()
    layout = layout_of(b"iter 7: loss 2.5\n")
    runs = line_runs(low, layout)
    assume(runs is not None)
    assert runs is not None
    assert [
        start for run in runs for start in range(run.start, run.end, run.length)
    ] == (starts_of(low) if low else [])
    for run in runs:
        lines = low[run.start : run.end].splitlines(keepends=True)
        zeros = {
            line.translate(bytes.maketrans(b"123456789", b"0" * 9)) for line in lines
        }
        assert len(zeros) == 1
        for line in lines:
            match = layout.regex.fullmatch(line)
            assert run.of_layout == (match is not None)
            if match is not None:
                assert run.spelling.loss == match.span(2)
    assert all(one.end == two.start for one, two in pairwise(runs))


@given(DRAWN)
@example([(SPELLINGS[0], [float(n % 10) for n in range(400)])])
def test_the_lowest_and_the_highest_loss_of_runs_are_among_their_extremes(
    drawn: list[tuple[Callable[[float], str], list[float]]],
) -> None:
    losses = [spell(value) for spell, values in drawn for value in values]
    low = log_of(losses)
    runs = line_runs(low, LAYOUT)
    assume(runs is not None)
    assert runs is not None
    assert all(run.of_layout for run in runs)
    found = extremes(low, runs)
    assume(found is not None)
    assert found is not None
    numbers = dict(zip(starts_of(low), map(float, losses), strict=True))
    kept = [numbers[start] for start in sorted(found)]
    assert min(kept) == min(numbers.values())
    assert max(kept) == max(numbers.values())


def test_of_lines_with_the_same_loss_the_first_is_the_extreme() -> None:
    low = log_of(["2.5", "1.5", "9.5", "1.5", "9.5", "2.5"])
    runs = line_runs(low, LAYOUT)
    assert runs is not None
    starts = starts_of(low)
    assert extremes(low, runs) == {starts[1], starts[2]}


def test_losses_whose_exponents_differ_within_a_run_are_not_compared() -> None:
    low = log_of(["2.5e-03", "1.5e-02"])
    runs = line_runs(low, LAYOUT)
    assert runs is not None
    assert extremes(low, runs) is None


def test_losses_of_runs_with_exponents_of_their_own_are_compared_apart() -> None:
    between = b"text that says nothing\n"
    low = log_of(["2.5e-03", "3.5e-03"]) + between + log_of(["1.5e-02", "1.7e-02"])
    runs = line_runs(low, LAYOUT)
    assert runs is not None
    starts = starts_of(low)
    del starts[2]
    assert extremes(low, [run for run in runs if run.of_layout]) == set(starts)


@pytest.mark.parametrize("lines", [1, 7, 8, 9, 1000, 5000])
def test_lines_that_are_spelled_alike_are_one_run_however_many_they_are(
    lines: int,
) -> None:
    low = b"".join(b"iter %05d: loss 2.5| time 23.41ms|\n" % n for n in range(lines))
    runs = line_runs(low + b"iter 1: loss 2.5|\n", LAYOUT)
    assert runs is not None
    assert [run.size for run in runs] == [lines, 1]


def test_of_lines_whose_spelling_changes_every_few_lines_nothing_is_said() -> None:
    often = ["1.5" if n % 8 < 4 else "22.5" for n in range(2000)]
    seldom = ["1.5" if n % 800 < 400 else "22.5" for n in range(2000)]
    assert line_runs(log_of(often), LAYOUT) is None
    assert line_runs(log_of(seldom), LAYOUT) is not None
