"""Rules that a slip of the pen keeps from ever acting: stages and jobs of nobody.

Warnings only: jobs that join later may have the stage, or the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autoexp_tui.actions.kinds import NewJob, RunAutoexp
from autoexp_tui.conditions.kinds import (
    Composite,
    Condition,
    JobStateIs,
    MetadataIs,
    MetricIs,
    Not,
)
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import LogEvent, StateEvent
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.oversights import all_rules, events_of
from autoexp_tui.text.did_you_mean import did_you_mean


# ----------------------------------------------------------------------------- stages
def of_no_stage(plan: Plan) -> Iterator[Problem]:
    """Rules for stages of which the plan has none, and none can join it."""
    every = [event for _, rules in all_rules(plan) for _, event in events_of(rules)]
    if any(isinstance(one, RunAutoexp) for event in every for one in event.actions):
        return
    known = {job.stage for job in plan.jobs}.union(*map(_joining, every))
    for job, rules in all_rules(plan):
        for place, event in events_of(rules):
            if event.stages and known.isdisjoint(event.stages):
                wanted = ", ".join(event.stages)
                hint = did_you_mean(event.stages[0], sorted(known - {""}), "stages")
                message = f"{event.name} applies to no job: no stage is called {wanted}"
                yield Problem(message, f"{place}.stages", job, hint)


def _joining(event: LogEvent | StateEvent) -> set[str]:
    """The stages of jobs that a rule may let join."""
    return {
        action.stage or event.name
        for action in event.actions
        if isinstance(action, NewJob)
    }


# ------------------------------------------------------------------------------- jobs
def of_strangers(plan: Plan, known: Iterable[str]) -> Iterator[Problem]:
    """Conditions of actions on jobs that nobody knows as yet."""
    every = [event for _, rules in all_rules(plan) for _, event in events_of(rules)]
    names = {*known, *(job.name for job in plan.jobs)}.union(*map(_named, every))
    for job, rules in all_rules(plan):
        for place, event in events_of(rules):
            for at, action in enumerate(event.actions):
                for name in jobs_named(action.conditions):
                    if "{" not in name and name not in names:
                        hint = did_you_mean(name, sorted(names), "jobs")
                        message = f"waits for the job {name}, which is not in the plan"
                        where = f"{place}.actions.{at}.conditions"
                        yield Problem(message, where, job, hint)


def _named(event: LogEvent | StateEvent) -> set[str]:
    """The names of jobs that a rule may let join."""
    return {action.name for action in event.actions if isinstance(action, NewJob)}


def jobs_named(conditions: Iterable[Condition]) -> Iterator[str]:
    """The other jobs that conditions are about."""
    for condition in conditions:
        match condition:
            case JobStateIs():
                yield from condition.jobs
            case MetadataIs(job=name) | MetricIs(job=name) if name:
                yield name
            case Composite():
                yield from jobs_named(condition.conditions)
            case Not():
                yield from jobs_named((condition.condition,))
