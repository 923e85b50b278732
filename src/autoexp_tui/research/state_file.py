"""experiment_state.json: all that the research loop knows, as plain data for programs
and agents. It is a view: nothing is ever read back from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.model.masking import mask_values
from autoexp_tui.model.states import JobState, Why
from autoexp_tui.model.wording import sentence
from autoexp_tui.research.budgets import measure_uses
from autoexp_tui.research.readings import (
    choose_main,
    find_log,
    measure_seconds,
    read_jobs,
)
from autoexp_tui.telemetry.curves import BUSY
from autoexp_tui.text.log_lines import EVAL_LOSS, LEARNING_RATE, LOSS

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.research.ports import View
    from autoexp_tui.research.state import Consultation, Item, Run

VERSION: Final = 1
MOST_POINTS: Final = 200
"""Of the history of one run."""
_NAMES: Final = {
    LOSS: "loss",
    EVAL_LOSS: "eval_loss",
    LEARNING_RATE: "lr",
    BUSY: "gpu_util_pct",
    "samples_per_second": "samples_per_sec",
}
"""Metrics that have another name in the file; all others have their own."""


def build_state(view: View, live: Mapping[str, Live]) -> dict[str, Any]:
    """The content of experiment_state.json, of values that JSON has: a number that is
    not finite is a text. `live`: of jobs that are watched. Times are seconds of Unix
    time, as the session counts them."""
    research = view.research
    objective = _list_fields(research.options.objective)
    best = {"run_id": research.best_run, "result": research.best}
    made = {
        "version": VERSION,
        "as_of": view.t,
        "goal": research.options.goal,
        "objective": objective | {"metric": research.metric, "mode": research.mode},
        "best_result": None if research.best is None else best,
        "rounds_since_improvement": research.rounds_since_improvement,
        "reflection": research.reflection,
        "hypotheses": [*research.hypotheses.values()],
        "experiment_list": [_list_item(one) for one in research.items],
        "runs": [_list_run(one, view, live) for one in research.runs.values()],
        "warnings": [
            {**_list_fields(one, "why"), "message": one.why}
            for one in research.warnings.values()
        ],
        "budget": _list_budget(view),
        "triggers": research.triggers,
        "consultations": [_list_call(one) for one in research.consultations.values()],
        "notes": research.notes,
        "agents_wait": research.agents_wait,
        "stop_reason": research.stopped,
    }
    return mask_values(_thaw(made, view.t), view.mask)


def _thaw(value: Any, t: float) -> Any:
    """As JSON has it: reasons are sentences, records objects."""
    if isinstance(value, Why):
        return sentence(value, t, keys=False)
    if is_dataclass(value):
        return _thaw(_list_fields(value), t)
    if isinstance(value, Mapping):
        return {str(key): _thaw(part, t) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_thaw(part, t) for part in value]
    is_odd = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_odd else value


def _list_fields(record: Any, *without: str) -> dict[str, Any]:
    names = (one.name for one in fields(record))
    return {name: getattr(record, name) for name in names if name not in without}


def _list_item(item: Item) -> dict[str, Any]:
    rest = _list_fields(item, "jobs", "gpus")
    return {**rest, "gpu_requirement": item.wanted_gpus}


def _list_run(run: Run, view: View, live: Mapping[str, Live]) -> dict[str, Any]:
    readings, research = read_jobs(run, view, live), view.research
    main, end = choose_main(readings), run.ended
    running = {JobState.RUNNING, JobState.SUSPENDED}
    is_begun = any(one.job.state in running for one in readings)
    return {
        **_list_fields(run.item, "id", "jobs", "gpus"),
        **_list_fields(run, "id", "item", "ended"),
        "gpu_requirement": run.item.wanted_gpus,
        **(_list_fields(end, "outcome", "problem") if end else {}),
        "run_id": run.id,
        "status": end.outcome if end else "running" if is_begun else "queued",
        "error": (end.problem or None) if end else None,
        "seconds": measure_seconds(run, view),
        "log_path": find_log(main.job) if main else None,
        "live_metrics": _list_metrics(main.live) if main else {},
        "metrics_history": _list_history(main.live, research.metric) if main else [],
    }


def _list_metrics(live: Live) -> dict[str, Any]:
    """The newest values of a run; what is not known is left out."""
    values = {_NAMES.get(name, name): it for name, it in sorted(live.metrics.items())}
    steps = {"step": live.step, "total": live.total, "steps_per_sec": live.rate}
    known = {**steps, **values, "last_updated": live.last_step_at}
    return {name: value for name, value in known.items() if value is not None}


def _list_history(live: Live, metric: str) -> list[dict[str, Any]]:
    """A run's metrics over its steps, evenly thinned, the first and the last among
    them; where one was no finite number, nan."""
    told = [it for it in dict.fromkeys((metric, LOSS, EVAL_LOSS)) if it in live.metrics]
    rows: dict[int, dict[str, Any]] = {}
    for name in told:
        points, most = _list_points(live, name), MOST_POINTS // len(told)
        if (last := len(points) - 1) >= most:
            points = [points[round(at * last / (most - 1))] for at in range(most)]
        for step, value in points:
            rows.setdefault(step, {"step": step})[_NAMES.get(name, name)] = value
    return [rows[step] for step in sorted(rows)]


def _list_points(live: Live, metric: str) -> list[tuple[int, float]]:
    """By steps; without a curve its extremes and the newest."""
    if curve := live.curves.get(metric):
        known = dict.fromkeys(curve.gaps, math.nan)
        known |= zip(curve.steps, curve.values, strict=True)
    else:
        ends = (live.lows.get(metric), live.highs.get(metric))
        known = {step: value for value, step in filter(None, ends)}
        known[live.step or 0] = live.metrics[metric]
    return sorted(known.items())


def _list_budget(view: View) -> dict[str, Any]:
    research = view.research
    uses = measure_uses(research, view.jobs, view.t, view.lived)
    return {
        "fraction_remaining": min((one.left for one in uses), default=None),
        "budgets": {
            one.name: {**_list_fields(one, "name"), "fraction_remaining": one.left}
            for one in uses
        },
        "milestones": research.milestones,
        "reached": research.budget_reached,
        "calls": research.calls,
        "costs": research.costs,
        "usage": research.usage,
    }


def _list_call(one: Consultation) -> dict[str, Any]:
    """What led to a call, what came of it, and what was done about that. The items of
    its answer are left out: the list and the runs have them."""
    answer = _list_fields(one.answer, "items", "hypotheses") if one.answer else None
    return _list_fields(one) | {"answer": answer}
