"""What becomes of runs: criteria that end them, and what their ends have shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from autoexp_tui.actions.orders import end_jobs
from autoexp_tui.events.jobs import JobEnded, JobRevived
from autoexp_tui.model.states import Cause, JobState, Why, why
from autoexp_tui.model.wording import format_cause_of_end
from autoexp_tui.research import events
from autoexp_tui.research.budgets import measure_gpu_seconds
from autoexp_tui.research.criteria import (
    RunFacts,
    judge_criteria,
    judge_expectation,
    parse_criteria,
    parse_expectation,
)
from autoexp_tui.research.fixer import classify_failure, is_fixable
from autoexp_tui.research.readings import recall
from autoexp_tui.research.state import PART, Item, Run, RunEnd, list_jobs
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
    """End a run of which a kill criterion came true; what is told to end is left."""
    if not run.item.kill_criteria:
        return
    criteria = parse_criteria(run.item.kill_criteria)
    for job in list_jobs(run, context.state.jobs):
        live, seconds = context.find_run(job.name), context.measure_run(job.name)
        is_ending = job.attempt is None or job.attempt.is_told_to_end
        if live is None or seconds is None or is_ending:
            continue
        facts = RunFacts(live, research.metric, research.mode, seconds)
        status = judge_criteria(criteria, facts)
        if status.is_triggered:
            end_run(context, run, status.text, why("kill_criterion", text=status.text))
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
    end_jobs(context, list_jobs(run, context.state.jobs), reason, cause)


def end_late(context: DecisionContext, research: Research, run: Run) -> None:
    """End jobs that joined when the end of their run had been ordered already. What
    was begun anew since, by rules of the config, is left alone."""
    if not run.killed_at:
        return
    jobs = [
        job
        for job in list_jobs(run, context.state.jobs)
        if not any(
            one.number > 1 or one.is_told_to_end or one.ordered_at < run.killed_at
            for one in job.attempts
        )
    ]
    over = research.budget_reached
    reason = over or why("kill_criterion", text=run.kill_shown)
    end_jobs(context, jobs, reason, Cause.BUDGET if over else Cause.KILL_CRITERION)


def judge_run(
    context: DecisionContext, research: Research, run: Run, problem: str = ""
) -> None:
    """Say what the end of a run has shown; `problem`: why its jobs never joined."""
    jobs = list_jobs(run, context.state.jobs)
    ended = _find_end(context, research, run, jobs, problem)
    known = research.hypotheses.get(run.item.hypothesis)
    result = ended.result if ended.outcome == "completed" else None
    gained = result is not None and research.is_better(result, research.gained_from)
    context.draft.emit(
        events.RunJudged(
            run=run.id,
            ended=ended,
            hypothesis=judge_hypothesis(known, run, ended) if known else None,
            is_best=gained or (result is not None and research.is_best(result)),
            gained=gained,
            to_fixer=is_fixable(research, run, ended.mechanical),
        )
    )


def _find_end(
    context: DecisionContext,
    research: Research,
    run: Run,
    jobs: Sequence[JobRecord],
    problem: str,
) -> RunEnd:
    bad = next((job for job in jobs if job.state is not JobState.COMPLETED), None)
    cause = bad.cause if bad else None
    outcome, mechanical = _name_outcome(cause, is_bad=bool(bad or problem)), ""
    if bad is not None:
        told = format_cause_of_end(cause, bad.state) if cause else bad.state.value
        evidence = bad.attempt.evidence if bad.attempt else ""
        problem = run.kill_shown or ": ".join(filter(None, (told, evidence)))
        live = context.find_run(bad.name)
        if outcome == "failed":
            tail = live.tail if live else ""
            mechanical = classify_failure(cause or "", tail or evidence)
    ended = RunEnd(
        outcome=outcome,
        at=context.now.t,
        cause=cause.value if cause else "",
        problem=problem,
        mechanical=mechanical,
        result=_read_result(research, jobs),
        step=max((job.noted.step for job in jobs if job.noted), default=None),
        gpu_seconds=measure_gpu_seconds(run, context.state.jobs, context.now.t),
    )
    return _judge_expected(research, run, jobs, ended)


def _name_outcome(
    cause: Cause | None, *, is_bad: bool
) -> Literal["completed", "failed", "killed", "cancelled"]:
    if not is_bad:
        return "completed"
    if cause is Cause.USER:
        return "cancelled"
    return "killed" if cause in _KILLED else "failed"


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
        of = (research.metric, research.mode)
        facts = (RunFacts(recall(job), *of) for job in jobs)
        found = [judge_expectation(clause, one) for one in facts]
        met = None if None in found else all(found)
        if met is None and ended.outcome != "completed":
            met = False
        return replace(ended, met=met, shown=f"expected {expects}")
    baseline = research.runs.get(research.find_fixed(run.item.baseline_run))
    other = baseline.ended.result if baseline and baseline.ended else None
    is_failed = ended.outcome != "completed"
    if baseline is None or other is None:
        is_against = run.item.hypothesis and is_failed
        return replace(ended, met=False if is_against else None)
    result = None if is_failed else ended.result  # half a run has beaten nothing
    is_met = result is not None and research.is_better(result, other)
    return replace(ended, met=is_met, shown=f"{baseline.id} came to {other:.4g}")


def judge_answers(context: DecisionContext, research: Research) -> None:
    """Count the answers of which all runs have ended, and none is to come."""
    runs = (*research.live, *research.list_fixing())
    busy = {one.consultation for one in research.items} | {*research.open}
    busy |= {research.runs[name].item.consultation for name in runs}
    if rounds := tuple(name for name in research.open_rounds if name not in busy):
        context.draft.emit(events.AnswersJudged(rounds=rounds))


def follow_runs(context: DecisionContext, research: Research) -> None:
    """Take in jobs of persons' plans that have begun: they are runs too. And runs that
    had ended, of which a job runs again, or has told how it ended after all."""
    # What was there before it began is looked for once.
    names = _list_moved(context) if research.runs else context.state.jobs
    for name in sorted(names):
        job = context.job(name)
        asked = job.asked_by if job.policy == PART else ""
        run = research.runs.get(asked.removeprefix("item ") or name)
        if run is not None:
            if run.ended and (not job.ended or _is_found(context, run, run.ended)):
                context.draft.emit(events.RunRevived(run=run.id))
        elif _is_run(job):
            item = Item(id=name, overrides=job.spec.overrides)
            gpus = job.spec.resources.gpus
            run = Run(id=name, item=item, jobs=(name,), gpus=gpus)
            context.draft.emit(events.RunStarted(run=run))


def _list_moved(context: DecisionContext) -> set[str]:
    """Jobs that run, and those that ended or were begun anew just now."""
    told = (record.event for record in context.draft.records)
    moved = (one.job for one in told if isinstance(one, JobEnded | JobRevived))
    return context.roster.active.union(moved)


def _is_run(job: JobRecord) -> bool:
    """Whether it is a person's and has begun, or was done before."""
    has_begun = bool(job.attempts) or job.state is JobState.COMPLETED
    return has_begun and job.is_planned and job.spec.place == "main"


def _is_found(context: DecisionContext, run: Run, ended: RunEnd) -> bool:
    """Whether none of its jobs is lost any more."""
    jobs = list_jobs(run, context.state.jobs)
    is_lost = any(job.state is JobState.LOST for job in jobs)
    return ended.cause == Cause.LOST.value and not is_lost
