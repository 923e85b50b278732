"""What becomes of runs: criteria that end them, and what their ends have shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from autoexp_tui.actions.orders import cancel_attempts, end_job
from autoexp_tui.model.states import ACTIVE, Cause, JobState, Why, why
from autoexp_tui.model.wording import format_cause_of_end
from autoexp_tui.research import events
from autoexp_tui.research.budgets import measure_gpu_seconds
from autoexp_tui.research.criteria import (
    describe_status,
    judge_criteria,
    judge_expectation,
    parse_criteria,
    parse_expectation,
    read_facts,
)
from autoexp_tui.research.fixer import classify_failure, plan_next
from autoexp_tui.research.readings import build_facts, recall
from autoexp_tui.research.state import Item, Run, RunEnd, list_jobs
from autoexp_tui.research.warnings import judge_hypothesis
from autoexp_tui.telemetry.results import Measure, read_value

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.research.state import Research

_KILLED: Final = frozenset(
    {
        Cause.NAN,
        Cause.STALL,
        Cause.KILL_CRITERION,
        Cause.CANCEL_CONDITION,
        Cause.BUDGET,
    }
)


def watch_run(context: DecisionContext, research: Research, run: Run) -> None:
    """End a run of which a kill criterion came true."""
    if not run.item.kill_criteria or run.kill_shown:
        return
    criteria = parse_criteria(run.item.kill_criteria)
    for job in list_jobs(run, context.state.jobs):
        live, seconds = context.find_run(job.name), context.measure_run(job.name)
        if live is None or seconds is None:
            continue
        facts = read_facts(live, seconds, research.metric, research.mode)
        status = judge_criteria(criteria, facts)
        if status.is_triggered:
            shown = describe_status(status)
            end_run(context, run, shown, why("kill_criterion", text=shown))
            return


def end_run(
    context: DecisionContext,
    run: Run,
    shown: str,
    reason: Why,
    cause: Cause = Cause.KILL_CRITERION,
) -> None:
    """Order the end of all that a run still does."""
    context.draft.emit(events.KillTriggered(run=run.id, shown=shown))
    jobs = list_jobs(run, context.state.jobs)
    cancel_attempts(
        context, [job for job in jobs if job.state in ACTIVE], reason, cause
    )
    for job in jobs:
        if not job.ended and job.state not in ACTIVE:
            end_job(context, job, JobState.CANCELLED, cause, reason)


def judge_run(
    context: DecisionContext, research: Research, run: Run, problem: str = ""
) -> None:
    """Say what the end of a run has shown; `problem`: why its jobs never joined."""
    jobs = list_jobs(run, context.state.jobs)
    ended = _find_end(context, research, run, jobs, problem)
    known = research.hypotheses.get(run.item.hypothesis)
    is_best = (
        ended.outcome == "completed"
        and ended.result is not None
        and research.is_better(ended.result, research.best)
    )
    rounds = _find_closed_round(research, run)
    best_run = research.runs.get(research.best_run)
    best_round = best_run.item.consultation if best_run else ""
    mechanical = ended.mechanical
    context.draft.emit(
        events.RunJudged(
            run=run.id,
            ended=ended,
            hypothesis=judge_hypothesis(known, run, ended) if known else None,
            is_best=is_best,
            to_fixer=bool(mechanical) and plan_next(research, run, mechanical) == "fix",
            rounds=rounds,
            improved=is_best or best_round in rounds,
        )
    )


def _find_end(
    context: DecisionContext,
    research: Research,
    run: Run,
    jobs: Sequence[JobRecord],
    problem: str,
) -> RunEnd:
    bad = [job for job in jobs if job.state is not JobState.COMPLETED]
    last = bad[0] if bad else None
    cause, mechanical = last.cause if last else None, ""
    ended = RunEnd(
        outcome="failed",
        at=context.now.t,
        cause=cause.value if cause else "",
        problem=problem,
        result=_read_result(research, jobs),
        step=max((job.noted.step for job in jobs if job.noted), default=None),
        gpu_seconds=measure_gpu_seconds(run, context.state.jobs, context.now.t),
    )
    if not problem and last is None:
        ended = replace(ended, outcome="completed")
    elif last is not None:
        told = format_cause_of_end(cause, last.state) if cause else last.state.value
        evidence = last.attempt.evidence if last.attempt else ""
        told = f"{told}: {evidence}" if evidence else told
        problem = run.kill_shown or told
        if cause in _KILLED:
            ended = replace(ended, outcome="killed")
        elif cause is Cause.USER:
            ended = replace(ended, outcome="cancelled")
        else:
            live = context.find_run(last.name)
            tail = live.tail if live else ""
            mechanical = classify_failure(ended.cause, tail or evidence)
        ended = replace(ended, problem=problem, mechanical=mechanical)
    return _judge_expected(research, run, jobs, ended)


def _read_result(research: Research, jobs: Iterable[JobRecord]) -> float | None:
    """The mean of what its jobs came to; None where one of them told nothing."""
    measure = Measure(research.metric, research.mode)
    found = [read_value(job, None, measure, measure).number for job in jobs]
    numbers = [one for one in found if one is not None and math.isfinite(one)]
    return (
        sum(numbers) / len(numbers) if numbers and len(numbers) == len(found) else None
    )


def _judge_expected(
    research: Research, run: Run, jobs: Sequence[JobRecord], ended: RunEnd
) -> RunEnd:
    """With what was expected of it. What a person ended, what used up a budget, and
    what fails mechanically, says nothing of a hypothesis."""
    known = research.hypotheses.get(run.item.hypothesis)
    expects = run.item.expects or (known.expects if known else "")
    is_void = ended.outcome == "cancelled" or ended.mechanical
    if is_void or ended.cause == Cause.BUDGET.value or not jobs:
        return ended
    if expects:
        clause = parse_expectation(expects)
        facts = [build_facts(recall(job), research) for job in jobs]
        found = [judge_expectation(clause, one) for one in facts]
        met = None if None in found else all(found)
        if met is None and ended.outcome != "completed":
            met = False
        return replace(ended, met=met, shown=f"expected {expects}")
    baseline = research.runs.get(run.item.baseline_run)
    other = baseline.ended.result if baseline and baseline.ended else None
    is_failed = ended.outcome != "completed"
    if baseline is None or other is None:
        is_against = run.item.hypothesis and is_failed
        return replace(ended, met=False if is_against else None)
    result = None if is_failed else ended.result  # half a run has beaten nothing
    is_met = result is not None and research.is_better(result, other)
    return replace(ended, met=is_met, shown=f"{baseline.id} came to {other:.4g}")


def _find_closed_round(research: Research, run: Run) -> tuple[str, ...]:
    """The consultation of which the last run ends with this one; empty: none."""
    name = run.item.consultation
    if not name or name in research.judged_rounds or name in research.open:
        return ()
    waits = any(one.consultation == name for one in research.items)
    runs = (research.runs[one] for one in research.live)
    is_live = any(one.item.consultation == name for one in runs if one.id != run.id)
    return () if waits or is_live else (name,)


def follow_planned(context: DecisionContext, research: Research) -> None:
    """Take in jobs of the session's own plan that have begun: they are runs too."""
    # What was done before it began is looked for once.
    names = context.roster.active if research.runs else context.state.jobs.keys()
    for name in sorted(names - research.runs.keys()):
        job = context.job(name)
        has_begun = job.state in ACTIVE or job.ended
        if has_begun and job.is_planned and job.spec.place == "main":
            item = Item(id=name, overrides=job.spec.overrides)
            gpus = job.spec.resources.gpus
            run = Run(id=name, item=item, jobs=(name,), gpus=gpus)
            context.draft.emit(events.RunStarted(run=run))
