"""What is found ill about a loss, and when it is well again."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import Anomalies
from autoexp_tui.model.verdicts import Why
from autoexp_tui.model.wording import CODES, sentence
from autoexp_tui.telemetry.anomalies import AnomalyWatch

QUICK = Anomalies(min_points=3, flat_share=0.1)
TOTAL = 1000


def said(
    dots: list[tuple[int, float]], settings: Anomalies = QUICK
) -> list[tuple[int, str]]:
    """(step, code) of every finding; a cleared one has a `-`."""
    watch = AnomalyWatch(settings)
    return [
        (step, f"{'-' if finding.cleared else ''}{finding.code}")
        for step, value in dots
        for finding in watch.feed(step, value, TOTAL)
    ]


def falling(end: int) -> list[tuple[int, float]]:
    return [(step, 10.0 * 0.9 ** (step / 10)) for step in range(0, end, 10)]


def test_a_healthy_loss_gives_no_finding() -> None:
    assert said(falling(500)) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_found_once(value: float) -> None:
    assert said([(1, 2.0), (2, value), (3, value)]) == [(2, "nan")]


def test_a_first_loss_that_is_no_number_is_found() -> None:
    assert said([(1, math.nan)]) == [(1, "nan")]


def test_a_loss_that_is_a_number_again_clears() -> None:
    assert said([(1, math.nan), (2, 2.0), (3, math.nan)]) == [
        (1, "nan"),
        (2, "-nan"),
        (3, "nan"),
    ]


def test_a_flat_loss_is_found_once_and_clears_when_it_falls() -> None:
    flat = [(step, 2.0) for step in range(0, 150, 10)]
    assert said([*flat, (150, 1.97)]) == [(100, "plateau"), (150, "-plateau")]


def test_a_loss_that_falls_just_enough_is_not_flat() -> None:
    dots = [(step, 2.0 * 0.985 ** (step / 90)) for step in range(0, 1000, 10)]
    assert said(dots) == []


def test_a_negative_loss_that_falls_is_not_flat() -> None:
    assert said([(step, -1.0 - step / 100) for step in range(0, 1000, 10)]) == []


def test_a_loss_far_above_its_minimum_is_found_once() -> None:
    dots = [(1, 2.0), (2, 2.0), (3, 2.9), (4, 3.1), (5, 3.2)]
    assert said(dots) == [(4, "divergence")]


def test_a_divergence_clears_half_way_down() -> None:
    dots = [(1, 2.0), (2, 2.0), (3, 3.1), (4, 2.6), (5, 2.4)]
    assert said(dots) == [(3, "divergence"), (5, "-divergence")]


def test_few_observations_are_not_judged() -> None:
    assert said([(1, 1.0), (2, 9.0)], Anomalies(min_points=3)) == []


def test_a_loss_that_is_no_number_is_found_from_the_first_observation() -> None:
    assert said([(1, math.nan)], Anomalies(min_points=99)) == [(1, "nan")]


def test_a_resumed_run_is_measured_by_itself() -> None:
    low = [(step, 1.0) for step in range(50)]
    assert said([*low, (10, 1.6), (11, 1.6), (12, 1.6), (13, 1.6)]) == []


@pytest.mark.parametrize(
    "settings",
    [
        Anomalies(nan="off", min_points=1),
        Anomalies(flat_share=None, min_points=1, nan="off"),
    ],
)
def test_what_is_switched_off_is_not_found(settings: Anomalies) -> None:
    assert said([(1, math.nan), (2, 2.0), (3, 2.0)], settings) == []


def test_a_rise_is_not_found_when_switched_off() -> None:
    settings = Anomalies(divergence="off", min_points=1)
    assert said([(1, 2.0), (2, 9.0)], settings) == []


def test_a_finding_tells_its_numbers() -> None:
    watch = AnomalyWatch(QUICK, "objective")
    watch.feed(9, 2.5)
    (finding,) = watch.feed(10, math.nan)
    assert dict(finding.args) == {
        "metric": "objective",
        "step": 10,
        "value": "nan",
        "last": 2.5,
    }


@given(st.lists(st.tuples(st.integers(0, 300), st.floats()), max_size=60))
def test_findings_alternate_and_can_be_told(dots: list[tuple[int, float]]) -> None:
    watch = AnomalyWatch(Anomalies(min_points=1, flat_share=0.02))
    active: set[str] = set()
    for step, value in dots:
        for finding in watch.feed(step, value, TOTAL):
            assert (finding.code in active) == finding.cleared
            active ^= {finding.code}
            assert finding.code in CODES
            assert sentence(Why(finding.code, finding.args), 0.0)
            json.dumps(finding.args, allow_nan=False)


def flat(begin: int, end: int) -> list[tuple[int, float]]:
    return [(step, 2.0) for step in range(begin, end, 10)]


def test_a_flat_loss_is_measured_from_the_step_that_a_run_returns_to() -> None:
    found = said([*flat(0, 160), *flat(50, 160)])
    assert found == [(100, "plateau"), (60, "-plateau"), (150, "plateau")]


def test_lines_that_come_late_begin_nothing_anew() -> None:
    early, late = flat(0, 300)[::2], flat(0, 300)[1::2]
    swapped = [dot for pair in zip(late, early, strict=True) for dot in pair]
    assert [code for _, code in said(swapped)] == ["plateau"]


def test_a_rise_is_measured_from_the_minimum_since_a_return() -> None:
    before = [(step, 1.0) for step in range(100, 104)]
    after = [(50, 3.0), (51, 3.0), (52, 3.0), (53, 5.0)]
    assert said([*before, *after]) == [(53, "divergence")]


def test_a_late_line_that_is_no_number_is_found() -> None:
    assert said([(9, 2.0), (8, math.nan)]) == [(8, "nan")]
