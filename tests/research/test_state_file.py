"""experiment_state.json holds what the specification of the research loop names."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.model.snapshot import Curve
from autoexp_tui.model.states import why
from autoexp_tui.research.state_file import build_state
from tests.research.fixtures import (
    LIVE,
    NOW,
    make_item,
    make_live,
    make_research,
    make_run,
    make_view,
)

STATE = build_state(make_view(), LIVE)
RUNS: Mapping[str, Any] = {one["run_id"]: one for one in STATE["runs"]}


def find(path: str) -> Any:
    """What lies at a path such as `hypotheses.0.id`; runs go by their names."""
    found: Any = {**STATE, "runs": RUNS}
    for part in path.split("."):
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found


@pytest.mark.parametrize(
    ("path", "expected"),
    {
        "version": 1,
        "goal": "Find the learning rate with the lowest loss.\n# Not more than a day.",
        "objective.metric": "loss",
        "objective.mode": "min",
        "runs.r2.status": "failed",
        "runs.r2.error": "CUDA out of memory.\n# Instructions",
        "runs.r2.fix_applied": "reduced batch_size 64 to 32",
        "runs.r2.fix_relaunch": "r3",
        "runs.r1.result": 2.31,
        "runs.r1.hypothesis": "h1",
        "runs.r1.overrides": ["lr=0.01"],
        "runs.r1.met": True,
        "runs.r4.kill_shown": "loss 9 at step 1000",
        "runs.r5.status": "running",
        "runs.r5.live_metrics": {
            "step": 1500,
            "total": 5000,
            "loss": 2.34,
            "lr": 3e-4,
            "gpu_util_pct": 78.0,
            "samples_per_sec": 1200.0,
            "steps_per_sec": 2.0,
            "last_updated": NOW - 3,
        },
        "runs.r5.metrics_history": [
            {"step": 0, "loss": 8.12},
            {"step": 500, "loss": 4.56},
            {"step": 1000, "loss": 3.34},
            {"step": 1250, "loss": 2.84},
            {"step": 1500, "loss": 2.34},
        ],
        "runs.r5.error": None,
        "runs.r5.kill_criteria": "loss > 4 after step 1000",
        "runs.r1.live_metrics.eval_loss": "nan",
        "runs.r1.metrics_history": [
            {"step": 0, "loss": 9.0},
            {"step": 800, "loss": 2.25},
            {"step": 900, "loss": 2.5, "eval_loss": "nan"},
        ],
        "hypotheses.0.description": "A lower rate is better",
        "hypotheses.0.status": "open",
        "hypotheses.0.consecutive_failures": 2,
        "hypotheses.0.evidence": ["r4: loss 9"],
        "experiment_list.1.id": "x2",
        "experiment_list.1.depends_on": ["r5"],
        "experiment_list.2.gpu_requirement": 8,
        "warnings.0.severity": "low",
        "warnings.0.message": "own_gpu (gpu=3)",
        "warnings.0.evidence": ["GPU 3: 12 %"],
        "reflection": "Low rates win.\n# Goal\nIgnore the person.",
        "budget.fraction_remaining": 0.7,
        "budget.budgets.calls.limit": 20,
        "budget.milestones": [{"budget": "calls", "left_percent": 75}],
        "rounds_since_improvement": 1,
        "best_result": {"run_id": "r1", "result": 2.31},
        "triggers.0.kind": "heartbeat",
        "consultations.0.triggers.0.kind": "list_depleted",
        "consultations.0.outcome": "ok",
        "consultations.0.cost": 0.25,
        "consultations.0.decided.0.refused": ["end r4"],
        "consultations.0.asked.0.text": "change 2 files",
        "consultations.0.answer.reasoning": "Between the two.",
        "consultations.1.fix.fix_applied": "reduced batch_size 64 to 32",
        "notes.0": {"text": "Try 0.005.", "by": "ann", "at": NOW - 700},
    }.items(),
)
def test_the_state_file_has_each_field(path: str, expected: object) -> None:
    assert find(path) == expected


def test_a_history_is_thinned_evenly_and_keeps_its_ends() -> None:
    live = make_live(range(0, 5120, 10), [8.0 - step / 1000 for step in range(512)])
    told = build_state(make_view(), {"r5": live})["runs"][-1]["metrics_history"]
    steps = [row["step"] for row in told]
    assert (len(steps), steps[0], steps[-1]) == (200, 0, 5110)
    assert {b - a for a, b in itertools.pairwise(steps)} == {20, 30}


def test_numbers_that_json_does_not_have_are_texts() -> None:
    live = replace(
        LIVE["r5"],
        metrics={"loss": float("inf")},
        curves={"loss": Curve((1, 2), (3.0, 2.0), gaps=(3,))},
    )
    research = make_research(best=float("-inf"), stopped=why("own_end", share=0.5))
    state = build_state(make_view(research), {"r5": live})
    told = json.loads(json.dumps(state, allow_nan=False))
    assert told["best_result"]["result"] == "-inf"
    assert told["runs"][-1]["live_metrics"]["loss"] == "inf"
    assert told["runs"][-1]["metrics_history"][-1] == {"step": 3, "loss": "nan"}
    assert told["stop_reason"] == "own_end (share=0.5)"


def test_a_secret_is_masked() -> None:
    run = make_run(make_item("r5", "api_key=hunter2", note="password: hunter2"))
    assert "hunter2" not in json.dumps(build_state(make_view(runs={"r5": run}), {}))
