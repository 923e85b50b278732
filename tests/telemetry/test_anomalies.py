"""What is found ill about a loss, and when it is well again."""

from __future__ import annotations

import json
import math
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import Anomalies
from autoexp_tui.model.states import Why
from autoexp_tui.model.wording import CODES, sentence
from autoexp_tui.telemetry.inactivity import AnomalyWatch

QUICK = Anomalies(min_points=3, flat_share=0.1)
TOTAL = 1000
Dots: TypeAlias = list[tuple[int, float]]


def said(dots: Dots, settings: Anomalies = QUICK) -> list[tuple[int, str]]:
    """(step, code) of every finding; a cleared one has a `-`."""
    watch = AnomalyWatch(settings)
    return [
        (step, f"{'-' if finding.cleared else ''}{finding.code}")
        for step, value in dots
        for finding in watch.observe(step, value, TOTAL)
    ]


def falling(end: int) -> Dots:
    return [(step, 10.0 * 0.9 ** (step / 10)) for step in range(0, end, 10)]


def flat(begin: int, end: int) -> Dots:
    return [(step, 2.0) for step in range(begin, end, 10)]


def swap_pairs(dots: Dots) -> Dots:
    pairs = zip(dots[1::2], dots[::2], strict=True)
    return [dot for pair in pairs for dot in pair]


def number(*values: float) -> Dots:
    """Values at steps 1, 2, 3 ..."""
    return list(enumerate(values, 1))


@pytest.mark.parametrize(("dots", "found"), [
    (falling(500), []), ([(n, -1.0 - n / 100) for n in range(0, 1000, 10)], []),
    *((number(2.0, value, value), [(2, "nan")])
      for value in (math.nan, math.inf, -math.inf)),
    (number(math.nan, 2.0, math.nan), [(1, "nan"), (2, "-nan"), (3, "nan")]),
    ([(9, 2.0), (8, math.nan)], [(8, "nan")]),  # a late line
    # a flat loss clears when it falls; one that falls just enough is none
    ([*flat(0, 150), (150, 1.97)], [(100, "plateau"), (150, "-plateau")]),
    ([(n, 2.0 * 0.985 ** (n / 90)) for n in range(0, 1000, 10)], []),
    # it is measured from the step that a run returns to; late lines begin nothing anew
    ([*flat(0, 160), *flat(50, 160)],
     [(100, "plateau"), (60, "-plateau"), (150, "plateau")]),
    (swap_pairs(flat(0, 300)), [(110, "plateau")]),
    # a loss far above its minimum is found once, and clears half way down
    (number(2.0, 2.0, 2.9, 3.1, 3.2), [(4, "divergence")]),
    (number(2.0, 2.0, 3.1, 2.6, 2.4), [(3, "divergence"), (5, "-divergence")]),
    (number(1.0, 9.0), []),  # few observations
    # a resumed run is measured by itself, from the minimum since its return
    ([*((n, 1.0) for n in range(50)), *((n, 1.6) for n in range(10, 14))], []),
    ([*((n, 1.0) for n in range(100, 104)),
      *((50, 3.0), (51, 3.0), (52, 3.0), (53, 5.0))], [(53, "divergence")]),
])  # fmt: skip
def test_what_is_ill_is_found(dots: Dots, found: list[tuple[int, str]]) -> None:
    assert said(dots) == found


def test_settings_say_what_is_ill() -> None:
    assert said(number(math.nan), Anomalies(min_points=99)) == [(1, "nan")]
    off = Anomalies(nan="off", divergence="off", flat_share=None, min_points=1)
    assert said([*number(math.nan, 2.0, 9.0), *flat(0, 500)], off) == []


@given(st.lists(st.tuples(st.integers(0, 300), st.floats()), max_size=60))
def test_findings_alternate_and_can_be_told(dots: Dots) -> None:
    watch = AnomalyWatch(Anomalies(min_points=1, flat_share=0.02))
    active: set[str] = set()
    for step, value in dots:
        for finding in watch.observe(step, value, TOTAL):
            assert (finding.code in active) == finding.cleared
            active ^= {finding.code}
            assert finding.code in CODES
            assert sentence(Why(finding.code, finding.args), 0.0)
            json.dumps(finding.args, allow_nan=False)
