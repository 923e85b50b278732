"""What an agent is told of a run, an item, a hypothesis: a few lines each, of bounded
length. Names and texts of others stand behind words of ours."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from statistics import fmean, linear_regression
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.masking import (
    NO_RULES,
    MaskRules,
    mask_override,
    may_hold_secret,
)
from autoexp_tui.model.snapshot import Curve, Live
from autoexp_tui.model.states import ACTIVE, JobState
from autoexp_tui.model.wording import sentence
from autoexp_tui.research.criteria import RunFacts, judge_criteria, parse_criteria
from autoexp_tui.research.readings import (
    Reading,
    choose_main,
    find_log,
    measure_seconds,
    read_jobs,
)
from autoexp_tui.research.sections import clean_words, count_kinds, write_block
from autoexp_tui.research.state import list_jobs
from autoexp_tui.text.log_lines import EVAL_LOSS, LEARNING_RATE, LOSS
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import (
    duration,
    format_metric,
    format_number,
    join_some,
    plural,
    size,
)

if TYPE_CHECKING:
    from autoexp_tui.model.states import Why
    from autoexp_tui.research.ports import View
    from autoexp_tui.research.state import Hypothesis, Item, Research, Run

_MOST_ROW: Final = 400
_MOST_POINTS: Final = 50
"""Of a curve, by which its trend is told."""
_FLAT_SHARE: Final = 0.01
"""Of its value: a metric that changed by less in the newer half of its steps is flat.
"""


def say(view: View, reason: Why) -> str:
    """A reason as a sentence; a cockpit's keys are not for agents."""
    return clean_words(sentence(reason, view.t, keys=False))


def list_purpose(
    item: Item, research: Research, rules: MaskRules = NO_RULES
) -> dict[str, str]:
    """What an item is for, and what it sets."""
    known = research.hypotheses.get(item.hypothesis)
    return {
        "Hypothesis": f"{known.id}: {known.description}" if known else item.hypothesis,
        "Config": item.config_ref,
        "Overrides": tell_overrides(item, rules),
        "Expects": item.expects,
        "Note": item.note,
    }


def tell_overrides(item: Item, rules: MaskRules) -> str:
    text = " ".join(item.overrides)
    if not may_hold_secret(text, rules):
        return text
    return " ".join(mask_override(one, rules) for one in item.overrides)


def name_hypothesis(item: Item) -> str:
    return item.hypothesis or "of no hypothesis"


def list_running(run: Run, view: View, live: Mapping[str, Live]) -> Mapping[str, str]:
    """Where a run that goes on stands, and where its criteria do."""
    metric = view.research.metric
    details = list_purpose(run.item, view.research, view.mask)
    main = choose_main(readings := read_jobs(run, view, live))
    if main is None:
        return details | {"Progress": "its jobs have not joined yet"}
    states = count_kinds(one.job.state.lower() for one in readings)
    return details | {
        "Jobs": f"{states}; below {main.job.name}" if readings[1:] else "",
        "Progress": _tell_progress(main, metric),
        "Trend": _tell_trend(main.live.curves.get(metric)),
        "GPU util": describe_gpus([main]),
        "Kill criteria": _tell_criteria(view, run, main),
        "Log": find_log(main.job),
    }


def describe_running(run: Run, view: View, live: Mapping[str, Live]) -> str:
    """A run that goes on."""
    jobs, spent = list_jobs(run, view.jobs), measure_seconds(run, view)
    attempts = (job.attempt for job in jobs if job.state in ACTIVE)
    ids = dict.fromkeys(gpu for one in attempts if one for gpu in one.gpus)
    gpus = plural(run.gpus, "GPU") + (f": {', '.join(ids)}" if ids else "")
    began = duration(spent) if spent else "not begun"
    details = list_running(run, view, live).items()
    return write_block(f"→ {run.id} ({gpus}, {began})", details)


def _tell_progress(one: Reading, metric: str) -> str:
    live = one.live
    if live.step is None:
        return f"no step yet, {one.job.state.lower()}"
    told = [f"step {live.step}/{live.total}" if live.total else f"step {live.step}"]
    for name in dict.fromkeys((metric, LOSS, EVAL_LOSS, LEARNING_RATE)):
        if (value := live.metrics.get(name)) is not None:
            change = _tell_change(value, live.curves.get(name))
            told.append(f"{name} {format_number(value)}{change}")
    if live.rate and live.total and live.total > live.step:
        told.append(f"about {duration((live.total - live.step) / live.rate)} left")
    return ", ".join(told)


def _tell_change(value: float, curve: Curve | None) -> str:
    """Against the first point of its curve."""
    first = curve.values[0] if curve and curve.values else value
    if first == value or not math.isfinite(value):
        return ""
    return f" ({'↓' if value < first else '↑'} from {format_number(first)})"


def _tell_trend(curve: Curve | None) -> str:
    """How the metric moved over the newer half of its steps."""
    if curve is None or len(curve.steps) < 2:
        return ""
    middle = (curve.steps[0] + curve.steps[-1]) / 2
    at = min(bisect_left(curve.steps, middle), len(curve.steps) - 2)
    every = 1 + (len(curve.steps) - at) // _MOST_POINTS
    steps, values = curve.steps[at::every], curve.values[at::every]
    slope = linear_regression(steps, values).slope
    least = _FLAT_SHARE * max(abs(values[0]), abs(values[-1]))
    if abs(slope) * (steps[-1] - steps[0]) < least:
        return "flat"
    pace = format_number(float(f"{abs(slope):.3g}"))
    return f"{'decreasing' if slope < 0 else 'rising'}, {pace} a step"


def describe_gpus(jobs: Iterable[Reading]) -> str:
    """`78 %, memory 36 GB of 85 GB`; empty: none told anything."""
    loads = [it for one in jobs if one.live.gpu for it in one.live.gpu.gpus]
    busy = [one.busy_percent for one in loads if one.busy_percent is not None]
    told = [f"{fmean(busy):.0f} %"] if busy else []
    if used := sum(one.used_mib or 0.0 for one in loads):
        total = sum(one.total_mib or 0.0 for one in loads)
        told.append(f"memory {size(used * 2**20)} of {size(total * 2**20)}")
    return ", ".join(told)


def _tell_criteria(view: View, run: Run, main: Reading) -> str:
    if run.kill_shown:
        return f"TRIGGERED, it is being ended: {run.kill_shown}"
    if not run.item.kill_criteria:
        return ""
    research, job = view.research, main.job
    is_running = job.state is JobState.RUNNING
    seconds = view.lived - job.since_lived if is_running else 0.0
    facts = RunFacts(main.live, research.metric, research.mode, seconds)
    return judge_criteria(parse_criteria(run.item.kill_criteria), facts).text


def describe_completed(run: Run, view: View) -> str:
    """A row of the table, for a run that has ended."""
    end, item = run.ended, run.item
    assert end is not None
    cells = (
        run.id,
        format_metric(end.result),
        "-" if end.step is None else str(end.step),
        str(round(measure_seconds(run, view))),
        {True: "yes", False: "no", None: "-"}[end.met],
        item.hypothesis[:60] or "-",
        tell_overrides(item, view.mask) or "-",
    )
    return clean_line(" | ".join(cells), _MOST_ROW)


def list_failed(run: Run, view: View) -> Mapping[str, str]:
    """Why a run did not complete, and what was done about it."""
    fixed, problem = run.fix_applied, run.ended.problem if run.ended else ""
    if fixed and (again := view.research.runs.get(run.fix_relaunch)):
        became = again.ended.outcome if again.ended else "running"
        fixed += f" ({became}), as {again.id}"
    return list_purpose(run.item, view.research, view.mask) | {
        "Problem": run.kill_shown or problem,
        "Fixed": fixed,
        "Log": "".join(map(find_log, list_jobs(run, view.jobs)[-1:])),
    }


def describe_failed(run: Run, view: View) -> str:
    """A run that did not complete."""
    end = run.ended
    assert end is not None
    told = (
        f"- {run.id}: {end.outcome}",
        f" by {end.cause.replace('_', ' ')}" if end.cause else "",
        f" ({end.mechanical})" if end.mechanical else "",
        "" if end.step is None else f" at step {end.step}",
        f" after {duration(measure_seconds(run, view))}",
        "" if end.result is None else f", result {format_number(end.result)}",
    )
    return write_block("".join(told), list_failed(run, view).items())


def count_free_gpus(research: Research) -> int:
    return research.gpus - sum(one.gpus for one in research.list_live())


def describe_hypothesis(one: Hypothesis) -> str:
    failed = one.consecutive_failures
    row = f", {plural(failed, 'failure')} in a row" if failed else ""
    expects = f"; expects {one.expects}" if one.expects else ""
    head = f"- {one.id} [{one.status}{row}]: {one.description}{expects}"
    runs = join_some(one.runs[::-1], 12)
    return write_block(head, [("Runs, newest first", runs)], one.evidence)
