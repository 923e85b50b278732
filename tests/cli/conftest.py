"""What tests of the commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.adapters import planning
from autoexp_tui.adapters.planning_main import answered
from autoexp_tui.adapters.planning_words import (
    PlanningRequest,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)


def _plan_here(request: PlanningRequest) -> planning.PlanningResult:
    told = encode_request(replace(request, cwd=request.cwd or os.getcwd()))
    said = encode_answer(answered(decode_request(told)))
    return planning.result_of(decode_answer(said))


@pytest.fixture
def planned_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands plan in this process: for tests of what they make of the answer.

    Question and answer go through the words of the planning process all the same. What
    that process is to a command, `test_plan.py` sees, which has a real one.
    """
    monkeypatch.setattr(planning, "plan_in_child", _plan_here)
    yield
    GlobalHydra.instance().clear()
