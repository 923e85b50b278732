"""What is found ill about a loss, and when it is well again."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.rules import Anomalies
from autoexp_tui.model.sentences import CODES
from autoexp_tui.model.states import Why
from autoexp_tui.model.wording import sentence
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
        for finding in watch.observe(step, value, TOTAL)
    ]


def falling(end: int) -> list[tuple[int, float]]:
    return [(step, 10.0 * 0.9 ** (step / 10)) for step in range(0, end, 10)]


def flat(begin: int, end: int) -> list[tuple[int, float]]:
    return [(step, 2.0) for step in range(begin, end, 10)]


def swap_pairs(dots: list[tuple[int, float]]) -> list[tuple[int, float]]:
    pairs = zip(dots[1::2], dots[::2], strict=True)
    return [dot for pair in pairs for dot in pair]


def number(*values: float) -> list[tuple[int, float]]:
    """Values at steps 1, 2, 3 ..."""
    return list(enumerate(values, 1))


@pytest.mark.parametrize(
    ("dots", "found"),
    [(falling(500), []), (number(2.0, math.nan, math.nan), [(2, "nan")]),
     (number(2.0, math.inf, math.inf), [(2, "nan")]),
     (number(2.0, -math.inf, -math.inf), [(2, "nan")]),
     (number(math.nan, 2.0, math.nan), [(1, "nan"), (2, "-nan"), (3, "nan")]),
     ([(9, 2.0), (8, math.nan)], [(8, "nan")]),
     ([*flat(0, 150), (150, 1.97)], [(100, "plateau"), (150, "-plateau")]),
     ([(n, 2.0 * 0.985 ** (n / 90)) for n in range(0, 1000, 10)], []),
     ([(n, -1.0 - n / 100) for n in range(0, 1000, 10)], []),
     ([*flat(0, 160), *flat(50, 160)],
      [(100, "plateau"), (60, "-plateau"), (150, "plateau")]),
     (swap_pairs(flat(0, 300)), [(110, "plateau")]),
     (number(2.0, 2.0, 2.9, 3.1, 3.2), [(4, "divergence")]),
     (number(2.0, 2.0, 3.1, 2.6, 2.4), [(3, "divergence"), (5, "-divergence")]),
     (number(1.0, 9.0), []),
     ([*((n, 1.0) for n in range(50)), *((n, 1.6) for n in range(10, 14))], []),
     ([*((n, 1.0) for n in range(100, 104)),
       *((50, 3.0), (51, 3.0), (52, 3.0), (53, 5.0))], [(53, "divergence")])],
    ids=["a healthy loss", "nan is found once", "inf is found once",
         "-inf is found once", "a loss that is a number again clears",
         "a late line that is no number",
         "a flat loss is found once and clears when it falls",
         "a loss that falls just enough", "a negative loss that falls",
         "a flat loss is measured from the step that a run returns to",
         "lines that come late begin nothing anew",
         "a loss far above its minimum is found once",
         "a divergence clears half way down", "few observations",
         "a resumed run is measured by itself",
         "a rise is measured from the minimum since a return"],
)  # fmt: skip
def test_what_is_ill_is_found(
    dots: list[tuple[int, float]], found: list[tuple[int, str]]
) -> None:
    assert said(dots) == found


@pytest.mark.parametrize(("dots", "settings", "found"), [
    (number(math.nan), Anomalies(min_points=99), [(1, "nan")]),
    (number(math.nan, 2.0, 2.0), Anomalies(nan="off", min_points=1), []),
    (number(2.0, 9.0), Anomalies(divergence="off", min_points=1), []),
    (flat(0, 500), Anomalies(flat_share=None, min_points=1), []),
])  # fmt: skip
def test_settings_say_what_is_ill(
    dots: list[tuple[int, float]], settings: Anomalies, found: list[tuple[int, str]]
) -> None:
    assert said(dots, settings) == found


def test_a_finding_tells_its_numbers() -> None:
    watch = AnomalyWatch(QUICK, "objective")
    watch.observe(9, 2.5)
    (finding,) = watch.observe(10, math.nan)
    assert dict(finding.args) == {
        "metric": "objective", "step": 10, "value": "nan", "last": 2.5,
    }  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 300), st.floats()), max_size=60))
def test_findings_alternate_and_can_be_told(dots: list[tuple[int, float]]) -> None:
    watch = AnomalyWatch(Anomalies(min_points=1, flat_share=0.02))
    active: set[str] = set()
    for step, value in dots:
        for finding in watch.observe(step, value, TOTAL):
            assert (finding.code in active) == finding.cleared
            active ^= {finding.code}
            assert finding.code in CODES
            assert sentence(Why(finding.code, finding.args), 0.0)
            json.dumps(finding.args, allow_nan=False)
