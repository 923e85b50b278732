"""What an agent is told of a run, an item, a hypothesis: a few lines each, of bounded
length. Names and texts of others stand behind words of ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import linear_regression
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.snapshot import Curve, GpuLoad, Live
from autoexp_tui.model.wording import sentence
from autoexp_tui.research.criteria import (
    CriteriaRefused,
    describe_status,
    judge_criteria,
    parse_criteria,
)
from autoexp_tui.research.readings import (
    Reading,
    choose_main,
    find_log,
    measure_busy,
    measure_seconds,
    read_jobs,
)
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
    from autoexp_tui.research.state import Hypothesis, Item, Research, Run, Warned

_MOST_OVERRIDES: Final = 400
"""Characters of those of one run."""
_MOST_EVIDENCE: Final = 5
"""Newest lines."""
_FLAT_SHARE: Final = 0.01
"""Of its value: a metric that changed by less in the newest quarter of its steps is
flat."""


def clean_words(text: object, limit: int = 300) -> str:
    """A text of others as one harmless line, secrets masked."""
    return mask_text(clean_line(text, limit))


def join_overrides(overrides: Iterable[str], limit: int = _MOST_OVERRIDES) -> str:
    """Overrides of one run on one line; `-`: there are none."""
    return clean_words(" ".join(overrides), limit) or "-"


def describe_running(run: Run, view: View, live: Mapping[str, Live]) -> str:
    """A run that goes on: where it stands, and where its criteria do."""
    lines = [f"→ {clean_words(run.id)} ({_tell_use(run, view)})"]
    lines += _tell_purpose(run.item, view.research)
    readings = read_jobs(run, view, live)
    main = choose_main(readings)
    if main is None:
        return "\n".join([*lines, "  Progress: its jobs have not joined yet"])
    if len(readings) > 1:
        states = Counter(one.job.state.lower() for one in readings)
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        lines.append(f"  Jobs: {told}; below {clean_words(main.job.name)}")
    lines.append(f"  Progress: {_tell_progress(main, view.research.metric)}")
    lines += _tell_trend(main.find_curve(view.research.metric))
    if used := describe_gpus(main.gpus):
        lines.append(f"  GPU util: {used}")
    lines += _tell_criteria(run, main, view)
    return "\n".join([*lines, f"  Log: {clean_words(find_log(main.job))}"])


def _tell_use(run: Run, view: View) -> str:
    spent = measure_seconds(run, view)
    return f"{plural(run.gpus, 'GPU')}, {duration(spent) if spent else 'not begun'}"


def _tell_purpose(item: Item, research: Research) -> Iterator[str]:
    if item.hypothesis:
        known = research.hypotheses.get(item.hypothesis)
        said = f"{known.id}: {known.description}" if known else item.hypothesis
        yield f"  Hypothesis: {clean_words(said)}"
    if item.config_ref:
        yield f"  Config: {clean_words(item.config_ref)}"
    if item.overrides:
        yield f"  Overrides: {join_overrides(item.overrides)}"
    if item.expects:
        yield f"  Expects: {clean_words(item.expects)}"
    if item.note:
        yield f"  Note: {clean_words(item.note)}"


def _tell_progress(one: Reading, metric: str) -> str:
    live, state = one.live, one.job.state.lower()
    if live.step is None:
        return f"no step yet, {state}"
    total = f"/{live.total}" if live.total else ""
    told = [f"step {live.step}{total}"]
    for name in dict.fromkeys((metric, LOSS, EVAL_LOSS, LEARNING_RATE)):
        fact = one.find_value(name)
        if fact is not None:
            change = _tell_change(fact.value, one.find_curve(name))
            told.append(f"{name} {format_number(fact.value)}{change}")
    if live.rate and live.total and live.total > live.step:
        told.append(f"about {duration((live.total - live.step) / live.rate)} left")
    return ", ".join(told)


def _tell_change(value: float, curve: Curve | None) -> str:
    """Against the first point of its curve."""
    if curve is None or not curve.values or not math.isfinite(value):
        return ""
    first = curve.values[0]
    arrow = "↓" if value < first else "↑"
    return f" ({arrow} from {format_number(first)})" if value != first else ""


def _tell_trend(curve: Curve | None) -> Iterator[str]:
    """How the metric moved over the newest quarter of its steps."""
    if curve is None or len(curve.steps) < 2:
        return
    last = curve.steps[-1]
    since = last - (last - curve.steps[0]) / 4
    points = list(zip(curve.steps, curve.values, strict=True))
    newest = [one for one in points if one[0] >= since]
    newest = newest if len(newest) > 2 else points
    (begin, old), (end, new) = newest[0], newest[-1]
    slope = linear_regression(*zip(*newest, strict=True)).slope
    if abs(slope) * (end - begin) < _FLAT_SHARE * max(abs(old), abs(new)):
        yield "  Trend: flat"
        return
    pace = format_number(float(f"{abs(slope):.3g}"))
    yield f"  Trend: {'decreasing' if slope < 0 else 'rising'}, {pace} a step"


def describe_gpus(loads: Sequence[GpuLoad]) -> str:
    """`78 %, memory 36 GB of 85 GB`: the mean of GPUs; empty: none told anything."""
    busy = measure_busy(loads)
    told = [] if busy is None else [f"{busy:.0f} %"]
    used = [one.used_mib for one in loads if one.used_mib is not None]
    total = [one.total_mib for one in loads if one.total_mib is not None]
    if used:
        of = f" of {size(math.fsum(total) * 2**20)}" if total else ""
        told.append(f"memory {size(math.fsum(used) * 2**20)}{of}")
    return ", ".join(told)


def _tell_criteria(run: Run, main: Reading, view: View) -> Iterator[str]:
    text = run.item.kill_criteria
    if run.kill_shown:
        yield f"  Kill criteria: TRIGGERED, it is being ended: {run.kill_shown}"
    elif text:
        try:
            status = judge_criteria(parse_criteria(text), main.read_facts(view))
        except CriteriaRefused:
            yield f"  Kill criteria: {clean_words(text)}"
        else:
            yield f"  Kill criteria: {describe_status(status)}"


def describe_completed(run: Run, view: View) -> str:
    """A row of the table, for a run that has ended."""
    end, item = run.ended, run.item
    assert end is not None
    result = format_metric(end.result)
    step = "-" if end.step is None else str(end.step)
    seconds = str(round(measure_seconds(run, view)))
    met = {True: "yes", False: "no", None: "-"}[end.met]
    named, given = item.hypothesis[:60] or "-", " ".join(item.overrides) or "-"
    cells = (run.id, result, step, seconds, met, named, given)
    return clean_words(" | ".join(cells), _MOST_OVERRIDES)


def describe_failed(run: Run, view: View) -> str:
    """A run that did not complete, and what was done about it."""
    end = run.ended
    assert end is not None
    cause = f" by {end.cause.replace('_', ' ')}" if end.cause else ""
    kind = f" ({end.mechanical})" if end.mechanical else ""
    spent = duration(measure_seconds(run, view))
    step = f" at step {end.step}" if end.step is not None else ""
    result = f", result {format_number(end.result)}" if end.result is not None else ""
    head = f"- {clean_words(run.id)}: {end.outcome}{cause}{kind}{step} after {spent}"
    lines = [f"{head}{result}", *_tell_purpose(run.item, view.research)]
    if problem := clean_words(run.kill_shown or end.problem):
        lines.append(f"  Problem: {problem}")
    if run.fix_applied:
        again = f", as {clean_words(run.fix_relaunch)}" if run.fix_relaunch else ""
        lines.append(f"  Fixed: {clean_words(run.fix_applied)}{again}")
    jobs = list_jobs(run, view.jobs)[-1:]
    lines += [f"  Log: {clean_words(find_log(job))}" for job in jobs]
    return "\n".join(lines)


def describe_fix(run: Run, research: Research) -> str:
    """What was done about a run, and what came of that."""
    again = research.runs.get(run.fix_relaunch)
    became = "not started yet"
    if again is not None:
        end = again.ended
        became = "runs" if end is None else f"{end.outcome} {end.mechanical}".strip()
    fix = clean_words(run.fix_applied)
    given = f" ({join_overrides(again.item.overrides)})" if again else ""
    return f"- {clean_words(run.id)}: {fix} -> {became}{given}"


def describe_item(item: Item, research: Research) -> str:
    """An item of the list on one line: what it is, and what it waits for."""
    gpus = f" ({plural(item.wanted_gpus, 'GPU')})" if research.has_gpus else ""
    told = [f"{clean_words(item.id)}{gpus}"]
    if item.by:
        told.append(f"put there by {clean_words(item.by)}")
    if item.hypothesis:
        told.append(f"for {clean_words(item.hypothesis, 100)}")
    if item.overrides:
        told.append(join_overrides(item.overrides))
    if item.depends_on:
        names = [clean_words(one) for one in item.depends_on]
        told.append(f"depends on {join_some(names, 8)}")
    return ", ".join(told)


def count_free_gpus(research: Research) -> int:
    return research.gpus - sum(one.gpus for one in research.list_live())


def describe_hypothesis(one: Hypothesis) -> str:
    failed = one.consecutive_failures
    row = f", {plural(failed, 'failure')} in a row" if failed else ""
    expects = f"; expects {clean_words(one.expects)}" if one.expects else ""
    runs = [clean_words(run) for run in one.runs[-12:]]
    older = len(one.runs) - len(runs)
    more = f" and {older} older" if older else ""
    head = (
        f"- {clean_words(one.id)} [{one.status}{row}]: {clean_words(one.description)}"
    )
    lines = [head + expects]
    lines += [f"  Runs: {', '.join(runs)}{more}"] if runs else []
    lines += [f"  > {clean_words(it)}" for it in one.evidence[-_MOST_EVIDENCE:]]
    return "\n".join(lines)


def say(reason: Why, t: float) -> str:
    """A reason as a sentence of one line; a cockpit's keys are not for agents."""
    return clean_words(sentence(reason, t, keys=False), 600)


def describe_warning(one: Warned, t: float) -> str:
    head = f"- {one.severity}: {say(one.why, t)}"
    shown = [f"  > {clean_words(it)}" for it in one.evidence[-2 * _MOST_EVIDENCE :]]
    return "\n".join([head, *shown])


def fold_completed(runs: Sequence[Run], research: Research) -> str:
    """Older runs of the table in one row."""
    told = [(run.ended.result, run.id) for run in runs if run.ended]
    results = [(value, name) for value, name in told if value is not None]
    text = f"and {plural(len(runs), 'older run')}"
    if not results:
        return f"{text}, none with a result"
    low, high = min(results), max(results)
    best, worst = (high, low) if research.mode == "max" else (low, high)
    met = Counter(run.ended.met for run in runs if run.ended)
    return (
        f"{text}: best {format_number(best[0])} ({clean_words(best[1])}), worst "
        f"{format_number(worst[0])}; {met[True]} as expected, {met[False]} not"
    )


def fold_failed(runs: Sequence[Run]) -> str:
    ends = [run.ended for run in runs if run.ended]
    return fold_counts("runs", (it.mechanical or it.cause or it.outcome for it in ends))


def fold_counts(noun: str, kinds: Iterable[str]) -> str:
    """`and 12 older hypotheses: 3 open, 9 rejected`."""
    counts = Counter(kinds)
    told = [f"{count} {clean_words(kind)}" for kind, count in sorted(counts.items())]
    return f"and {counts.total()} older {noun}: {join_some(told, 12)}"
