"""Whatever a sweep says, planning ends in a plan or in findings, and soon.

`AUTOEXP_FUZZ` is the number of sweeps tried on each road; `make fuzz` tries 1,000.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from autoexp_tui.model.errors import Problem
from tests.planning.sweeps_at_random import in_time, pure_road, sweeps, whole_road

TRIED = int(os.environ.get("AUTOEXP_FUZZ", "0"))
PATIENT = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
]
LONGEST = 3000
"""Characters of a message that a person may still read."""


def assert_clear(found: Sequence[Problem]) -> None:
    """Every finding says what, and where or for which job; none is endless."""
    for problem in found:
        assert problem.message.strip()
        assert problem.where or problem.job
        assert len(str(problem)) < LONGEST, str(problem)


@settings(max_examples=TRIED or 150, suppress_health_check=PATIENT)
@given(text=sweeps(bound=5000))
def test_any_sweep_expands_or_is_refused(text: str) -> None:
    with in_time():
        found = pure_road(text)
    assert_clear(found)


@settings(max_examples=TRIED or 25, suppress_health_check=PATIENT)
@given(text=sweeps(bound=12))
def test_any_config_plans_or_is_refused(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place: Path = tmp_path_factory.getbasetemp() / "fuzzed"
    place.mkdir(exist_ok=True)
    with in_time():
        found = whole_road(text, place)
    assert_clear(found)
