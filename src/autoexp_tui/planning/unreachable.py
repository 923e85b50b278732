"""Jobs that could never start as the plan stands, and the stages behind them.

Found in the plan alone: states that exclude each other, a wait for what cancels the
job, metadata that no rule extracts. What follows from one of them is told by stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from autoexp_tui.conditions.kinds import (
    Composite,
    Condition,
    JobStateIs,
    MetadataIs,
)
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import TERMINAL, JobState
from autoexp_tui.text.did_you_mean import did_you_mean


def contradictions(jobs: Iterable[JobSpec]) -> Iterator[Problem]:
    """Start conditions that no course of events could meet together."""
    for job in jobs:
        needed = list(_needed(job.start_conditions))
        yield from _exclusive(job, needed)
        yield from _cancelled(job, needed)


def _needed(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Conditions that all have to pass, those of `all` taken apart."""
    for condition in conditions:
        if not condition.blocking:
            continue
        if isinstance(condition, Composite) and condition.mode == "all":
            yield from _needed(condition.conditions)
        else:
            yield condition


def _exclusive(job: JobSpec, needed: Sequence[Condition]) -> Iterator[Problem]:
    before: dict[str, dict[str, None]] = {}
    for condition in needed:
        if not isinstance(condition, JobStateIs):
            continue
        for name in condition.jobs:
            states = before.setdefault(name, {})
            for other in states:
                if _exclude(other.upper(), condition.state.upper()):
                    yield _never_both(job, name, other, condition.state)
                    break
            states.setdefault(condition.state)


def _never_both(job: JobSpec, name: str, one: str, other: str) -> Problem:
    return Problem(
        f"waits for {name} to be {one} and {other}: it never is both",
        where="start_conditions",
        job=job.name,
        hint="CompositeCondition with mode: any waits for either",
    )


def _exclude(one: str, other: str) -> bool:
    """Whether a job that is in one end state never is in the other.

    Slurm's own states are ways of failing.
    """
    ends = {state.value for state in TERMINAL}
    if one == other or not (one in ends or other in ends):
        return False
    if one in ends and other in ends:
        return True
    moving = {state.value for state in JobState} - ends
    return "COMPLETED" in (one, other) and not moving.intersection((one, other))


def _cancelled(job: JobSpec, needed: Sequence[Condition]) -> Iterator[Problem]:
    fatal = {repr(_bare(condition)) for condition in job.cancel_conditions}
    for at, condition in enumerate(needed):
        if repr(_bare(condition)) in fatal:
            yield Problem(
                "waits for the very thing that cancels it",
                where=f"start_conditions.{at}",
                job=job.name,
                hint="take it out of start_conditions or of cancel_conditions",
            )


def _bare(condition: Condition) -> Condition:
    """The condition without what does not change when it passes."""
    return replace(condition, timeout_seconds=None, blocking=True, description="")


# -------------------------------------------------------------------------- metadata
def unknown_metadata(plan: Plan, known: Iterable[str] = ()) -> Iterator[Problem]:
    """Waits for metadata that no log event of the job extracts.

    `known`: jobs of the session that the plan joins; their rules are not looked at.
    """
    jobs = {job.name: job for job in plan.jobs}
    others = frozenset(known)
    for job in plan.jobs:
        for at, condition in enumerate(_needed(job.start_conditions)):
            if not isinstance(condition, MetadataIs):
                continue
            asked = jobs.get(condition.job)
            if asked is None or asked is job or asked.name in others:
                continue  # waits for itself, which is told as that; or of a session
            if "{" in condition.key:
                continue
            keys = _extracted(plan.rules_of(asked), asked.stage)
            if condition.key not in keys:
                yield Problem(
                    f"waits for `{condition.key}` of {asked.name}, which no log event "
                    "extracts there",
                    where=f"start_conditions.{at}",
                    job=job.name,
                    hint=did_you_mean(condition.key, sorted(keys), "extracted keys"),
                )


def _extracted(rules: Monitoring, stage: str) -> set[str]:
    return {
        key
        for event in rules.log_events
        if not event.stages or stage in event.stages
        for key in event.extract_groups
    }


# ------------------------------------------------------------------------ what follows
def stages_behind(plan: Plan, stuck: Iterable[str]) -> Iterator[Problem]:
    """Stages of which every job waits, over others or not, for one that never starts.

    `stuck`: jobs that never start by themselves.
    """
    first = frozenset(stuck)
    behind = _behind(plan, first)
    stages: dict[str, list[JobSpec]] = {}
    for job in plan.jobs:
        stages.setdefault(job.stage, []).append(job)
    for stage, jobs in stages.items():
        if all(job.name in behind for job in jobs):
            cause = behind[jobs[0].name]
            name = f"the stage {stage}" if stage else "it"
            yield Problem(
                f"{name} is never reached: it waits for {cause}, which never starts",
                where="start_conditions",
                job=jobs[0].name,
            )


def _behind(plan: Plan, stuck: frozenset[str]) -> Mapping[str, str]:
    """Job -> the stuck one that it waits for; the stuck ones themselves left out."""
    waiting: dict[str, list[str]] = {}
    for job in plan.jobs:
        for condition in _needed(job.start_conditions):
            if isinstance(condition, JobStateIs):
                for name in condition.jobs:
                    waiting.setdefault(name, []).append(job.name)
    found: dict[str, str] = {}
    left = [(name, name) for name in stuck]
    for name, cause in left:  # grows while it is walked
        for follower in waiting.get(name, ()):
            if follower not in found and follower not in stuck:
                found[follower] = cause
                left.append((follower, cause))
    return found
