"""What the research agent should know without being asked: patterns in results and in
what live runs tell; and what follows for a hypothesis from the end of a run.

A warning is made once for its cause, which its key names. A cause begins anew with a
hypothesis that failed again after it held, and with further rounds without a gain; a
live run is warned of once for each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.model.states import Why, why
from autoexp_tui.research.budgets import LOW_PERCENT, USED_WARNINGS
from autoexp_tui.research.events import ConditionFound
from autoexp_tui.research.state import Hypothesis, Research, Run, RunEnd
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import format_number

if TYPE_CHECKING:
    from autoexp_tui.events.rules import WarningRaised
    from autoexp_tui.model.state import Warned
    from autoexp_tui.research.budgets import Use
    from autoexp_tui.research.state import Severity

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
LOW_GPU_SECONDS: Final = 120.0
"""For which the GPUs of a run must be little used."""
MOST_EVIDENCE: Final = 20
"""Lines of a hypothesis, the newest."""
_SHOWN: Final = 10
"""Lines of a warning, the newest."""
_LINE_LIMIT: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFacts:
    """What was measured of a live run."""

    seconds: float
    """That it has run; engines lived."""
    has_metric: bool = True
    """Whether it has told any."""
    idle_gpu_seconds: float | None = None
    """For how long its GPUs were below 20 %, as `GpuView.low_seconds` has it; None: no
    sample was read."""


def list_conditions(
    research: Research,
    runs: Mapping[str, LiveFacts] = _NOTHING,
    session_warnings: Iterable[Warned | WarningRaised] = (),
    uses: tuple[Use, ...] = (),
) -> list[ConditionFound]:
    """What is to be warned of and was not yet; the gravest first. `runs`: live ones;
    `session_warnings`: the monitor's findings about losses are among them."""
    found = (
        *_find_falsified(research),
        *_find_no_gain(research),
        *_find_used(uses),
        *_find_ill_losses(research, session_warnings),
        *_find_little_use(research, runs),
    )
    fresh = {one.key: one for one in found if one.key not in research.warnings}
    return list(fresh.values())


def _warn(
    key: str, severity: Severity, reason: Why, evidence: Sequence[str] = ()
) -> ConditionFound:
    told = tuple(evidence[-_SHOWN:])
    return ConditionFound(key=key, severity=severity, why=reason, evidence=told)


def _find_falsified(research: Research) -> Iterator[ConditionFound]:
    """Hypotheses that failed too often in a row, once for each such row. One that the
    agent has given up is none."""
    least = max(1, research.options.falsified_after)
    for known in research.hypotheses.values():
        if (count := known.consecutive_failures) < least or known.status == "rejected":
            continue
        failed = _list_failures(research, known)
        lines = [_describe_end(run, end) for run, end in failed]
        results = [end.result for _, end in failed if end.result is not None]
        is_worse = (research.is_better(*both) for both in pairwise(results))
        if len(results) == len(failed) > 1 and all(is_worse):
            lines.append(f"{research.metric} got worse with each of these runs")
        words = {"name": known.id, "what": known.description}
        reason = why("hypothesis_falsified", **words, failures=count)
        key = f"hypothesis:{known.id}:{failed[0][0].id if failed else ''}"
        yield _warn(key, "high", reason, lines)


def _list_failures(research: Research, known: Hypothesis) -> list[tuple[Run, RunEnd]]:
    """The runs of its failures in a row, in the order in which they ended."""
    runs = [research.runs[name] for name in known.runs if name in research.runs]
    ends = [(run, run.ended) for run in runs if run.ended and run.ended.met is False]
    ends.sort(key=lambda one: one[1].at)
    return ends[-known.consecutive_failures :]


def _find_no_gain(research: Research) -> Iterator[ConditionFound]:
    """Rounds in a row without a gain; anew after as many more."""
    count = research.rounds_since_improvement
    every = research.options.rounds_without_gain
    since, times = len(research.judged_rounds) - count, count // max(1, every)
    key = f"rounds:{since + times * every}"
    if times < 1 or key in research.warnings:
        return
    late = {*research.judged_rounds[since:]}
    lines = [
        _describe_end(run, run.ended)
        for run in research.runs.values()
        if run.ended and run.item.consultation in late
    ]
    best = {} if research.best is None else {"value": research.best}
    words = {"metric": research.metric, "run": research.best_run}
    yield _warn(key, "high", why("no_gain", rounds=count, **words, **best), lines)


def _find_used(uses: tuple[Use, ...]) -> Iterator[ConditionFound]:
    """Budgets of which much is used. Each holds from then on."""
    for use in uses:
        words, name = use.words, use.name
        told = (f"{words['spent']} of {words['limit']} used",)
        for percent, severity in USED_WARNINGS:
            if use.is_used(percent):
                reason = why("budget_used", percent=percent, **words)
                yield _warn(f"budget_used_{name}_{percent}", severity, reason, told)
        if use.left < LOW_PERCENT / 100:
            reason = why("budget_low", percent=LOW_PERCENT, **words)
            yield _warn(f"budget_low_{name}", "medium", reason, told)


_OF_LOSSES: Final = {"plateau": "run_plateau", "divergence": "run_divergence"}
"""Code of the monitor's finding -> of ours, which names the run."""


def _find_ill_losses(
    research: Research, session_warnings: Iterable[Warned | WarningRaised]
) -> Iterator[ConditionFound]:
    """Losses of live runs that are flat or rise, as the monitor found."""
    owners = {job: run.id for run in research.list_live() for job in run.jobs}
    for warned in session_warnings:
        code, run = _OF_LOSSES.get(warned.why.code), owners.get(warned.job)
        if code is None or run is None:
            continue
        reason = Why(code, (("run", run), *warned.why.args))
        yield _warn(f"{warned.why.code}:{run}", "low", reason)


def _find_little_use(
    research: Research, runs: Mapping[str, LiveFacts]
) -> Iterator[ConditionFound]:
    """Live runs that use their GPUs little, or tell nothing."""
    for run in research.live:
        if (known := runs.get(run)) is None:
            continue
        idle = known.idle_gpu_seconds or 0.0
        if idle >= LOW_GPU_SECONDS:
            yield _warn(f"gpu:{run}", "low", why("run_gpu_low", run=run, seconds=idle))
        late = known.seconds >= research.options.no_metric_seconds
        if late and not known.has_metric:
            reason = why("run_no_metric", run=run, seconds=known.seconds)
            yield _warn(f"no_metric:{run}", "low", reason)


def judge_hypothesis(known: Hypothesis, run: Run, ended: RunEnd) -> Hypothesis:
    """What follows for a hypothesis from the end of one of its runs: one that says
    nothing of it is noted, and changes no count."""
    failures = known.consecutive_failures
    if ended.met is not None:
        failures = 0 if ended.met else failures + 1
    lines = (*known.evidence, _describe_end(run, ended))[-MOST_EVIDENCE:]
    return replace(known, consecutive_failures=failures, evidence=lines)


_MET: Final = {True: "as expected: ", False: "not as expected: ", None: ""}


def _describe_end(run: Run, ended: RunEnd) -> str:
    """`r3 (lr=0.1): not as expected: came to 3.41 at step 900, expected loss < 3`."""
    values = ", ".join(run.item.overrides)
    numbers = "" if ended.result is None else f"came to {format_number(ended.result)}"
    if numbers and ended.step is not None:
        numbers += f" at step {ended.step}"
    what = "" if ended.outcome == "completed" else ended.outcome
    told = ", ".join(filter(None, (what, numbers, ended.shown, ended.problem)))
    line = f"{run.id} ({values})" if values else run.id
    return clean_line(f"{line}: {_MET[ended.met]}{told or 'no result'}", _LINE_LIMIT)
