"""Planning in the process of the test, in the place of one of its own.

Most of what such a process costs is imports: a second of CPU. Question and answer go
through its words all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hydra.core.global_hydra import GlobalHydra

from autoexp_tui.config import planning
from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.planning import (
    PlanningAnswer,
    PlanningRequest,
    decode_answer,
    decode_requests,
    encode_answer,
    encode_request,
)
from autoexp_tui.config.planning_main import answer_request


def plan_here(
    requests: Iterable[PlanningRequest], limit_seconds: float = planning.LIMIT_SECONDS
) -> Iterator[PlanningAnswer]:
    """What a planning process would answer; nothing limits its time."""
    del limit_seconds
    shared: dict[object, HydraComposer] = {}
    for request in requests:
        told = encode_request(replace(request, cwd=request.cwd or os.getcwd()))
        said = encode_answer(answer_request(decode_requests(told)[0], shared))
        yield decode_answer(said)


@contextmanager
def planning_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever asks a planning process is answered here; gives Hydra's globals back."""
    monkeypatch.setattr(planning, "run_plannings", plan_here)
    yield
    GlobalHydra.instance().clear()
