"""What can be said against a plan as a whole, before anything is submitted.

Looks at the plan alone, so that it holds for one read from a manifest too. What a
single value has wrong is found while the plan is built (see `build`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from autoexp_tui.conditions.kinds import (
    Approval,
    Composite,
    Condition,
    MetadataIs,
    TimeReached,
)
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.wording import plural
from autoexp_tui.planning import (
    approvals,
    directories,
    estimate,
    idle_rules,
    oversights,
    unreachable,
)
from autoexp_tui.planning.dag import rings, spelled_ring
from autoexp_tui.sweep.names import fault_of_name, spell
from autoexp_tui.sweep.points import NOT_OVERRIDES, STAGE, plain_key
from autoexp_tui.sweep.schema import MOST_OF_A_FILTER, shown
from autoexp_tui.text.did_you_mean import Words, did_you_mean

_NO_NAMES: Final = (NOT_OVERRIDES - {STAGE}) | {"project.name"}
"""Parameters that cannot stand in a name."""
_MOST_FILTERS: Final = 3


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The findings of a plan."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedJob:
    """A job of a plan that is not finished: what can be said against it by then."""

    name: str
    stage: str
    parameters: Mapping[str, object]


def validate_unfinished(
    jobs: Sequence[NamedJob], edges: Sequence[Edge]
) -> tuple[Problem, ...]:
    """What is wrong with the jobs of a plan of which others have errors.

    So that it is told with those, and not only when they are mended.
    """
    return told_once([*_named_twice(jobs), *_rings(jobs, edges)])


def validate_execution_plan(
    plan: Plan, *, known: Iterable[str] = (), empty: Sequence[str] = ()
) -> ValidationResult:
    """Everything that is wrong, or odd, about a plan.

    `known`: jobs of the session that it is to join, which conditions may name;
    `empty`: places of the empty lists for which the sweep makes no point.
    """
    errors = [
        *_no_jobs(plan, empty),
        *_names(plan.jobs),
        *directories.shared(plan.jobs),
        *directories.overlaps(plan),
        *_rings(plan.jobs, plan.edges),
        *_strangers(plan.jobs, known),
        *approvals.never_asked(plan),
        *oversights.escaped_references(plan.jobs),
        *(never := list(unreachable.contradictions(plan.jobs))),
    ]
    itself = list(oversights.waits_for_itself(plan.jobs))
    warnings = [
        *directories.nested(plan.jobs),
        *_reads_without_waits(plan),
        *_waits_without_end(plan.jobs),
        *oversights.endless_restarts(plan),
        *itself,
        *unreachable.unknown_metadata(plan, known),
        *unreachable.stages_behind(plan, [one.job for one in (*never, *itself)]),
        *oversights.unused_scripts(plan),
        *oversights.unread_references(plan.jobs),
        *oversights.secrets_in_commands(plan),
        *approvals.idle_timeouts(plan.jobs),
        *idle_rules.of_no_stage(plan),
        *idle_rules.of_strangers(plan, known),
        *estimate.above_bounds(plan),
    ]
    return ValidationResult(told_once(errors), told_once(warnings))


def told_once(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems that several jobs share, told for the first and counted."""
    groups: dict[Problem, list[str]] = {}
    for problem in problems:
        groups.setdefault(replace(problem, job=""), []).append(problem.job)
    return tuple(_counted(problem, jobs) for problem, jobs in groups.items())


def _counted(problem: Problem, jobs: Sequence[str]) -> Problem:
    # One that the config has without any job is told for the config.
    if "" in jobs:
        return replace(problem, job="")
    first, *others = dict.fromkeys(jobs)
    if not others:
        return replace(problem, job=first)
    message = f"{problem.message} (and for {plural(len(others), 'more job')})"
    return replace(problem, job=first, message=message, others=tuple(others))


# ----------------------------------------------------------------------- errors
def _no_jobs(plan: Plan, empty: Sequence[str]) -> Iterator[Problem]:
    if not plan.jobs:
        hint = "look at the points with `autoexp-plan --points`, and at the filters"
        if empty:
            told = " and ".join(f"`{where}`" for where in empty)
            noun = "is an empty list" if len(empty) == 1 else "are empty lists"
            hint = f"{told} {noun}: write at least one entry, or leave it out"
        elif plan.holes:
            hint = _removed_by(plan)
        yield Problem("makes no job", where="sweep", hint=hint)


def _removed_by(plan: Plan) -> str:
    """Which filters took everything, the first few as written."""
    filters = list(dict.fromkeys((one.filter, one.where) for one in plan.holes))
    few = [
        f"`{shown(text, MOST_OF_A_FILTER)}` at {where}"
        for text, where in filters[:_MOST_FILTERS]
    ]
    more = len(filters) - len(few)
    told = " and ".join(few) + (f" and {more} more" if more else "")
    noun = "filter" if len(filters) == 1 else "filters"
    count = len(plan.holes) + plan.holes_more
    took = "the only combination" if count == 1 else f"all {count:,} combinations"
    return f"{took} went by the {noun} {told}"


def _names(jobs: Sequence[JobSpec]) -> Iterator[Problem]:
    for job in jobs:
        fault = fault_of_name(job.name)
        if fault:
            yield Problem(f"{job.name!r}: {fault}", "project.name", job.name)
    yield from _named_twice(jobs)


def _named_twice(jobs: Sequence[JobSpec | NamedJob]) -> Iterator[Problem]:
    named: dict[str, list[JobSpec | NamedJob]] = {}
    for job in jobs:
        named.setdefault(job.name, []).append(job)
    for name, shared in named.items():
        if len(shared) > 1:
            yield Problem(
                f"{len(shared)} jobs have the name {name}",
                where="project.name",
                job=name,
                hint=_apart(shared),
            )


def _apart(jobs: Sequence[JobSpec | NamedJob]) -> str:
    """How jobs of one name get several: by the parameters in which they differ."""
    keys = dict.fromkeys(key for job in jobs for key in job.parameters)
    differing = [
        plain_key(key)
        for key in keys
        if len({spell(job.parameters.get(key)) for job in jobs}) > 1
    ]
    if not differing:
        return "they set the same values: take one out, or add ${index} to the name"
    told = [f"${{{key}}}" for key in differing if key not in _NO_NAMES]
    return f"add what tells them apart: {', '.join(told[:4]) or '${index}'}"


def _rings(
    jobs: Sequence[JobSpec | NamedJob], edges: Sequence[Edge]
) -> Iterator[Problem]:
    """Rings of waits; of the same stages in many families, the first and how many."""
    place = {job.name: at for at, job in enumerate(jobs)}
    waits = [
        (place[edge.before], place[edge.after])
        for edge in edges
        if edge.mode == "waits" and edge.before in place and edge.after in place
    ]
    alike: dict[tuple[str, ...], list[list[int]]] = {}
    for ring in rings(len(jobs), waits):
        alike.setdefault(
            tuple(jobs[at].stage or jobs[at].name for at in ring), []
        ).append(ring)
    for ring, *others in alike.values():
        names = [jobs[at].name for at in ring]
        message = f"jobs wait for each other in a ring: {spelled_ring(names)}"
        if others:
            message += f" (and {plural(len(others), 'more ring')} of these stages)"
        hint = "one of these conditions has to go: nothing could ever start"
        yield Problem(message, where="start_conditions", job=names[0], hint=hint)


def _strangers(jobs: Sequence[JobSpec], others: Iterable[str]) -> Iterator[Problem]:
    """Conditions that name jobs which nobody knows."""
    known = dict.fromkeys((*others, *(job.name for job in jobs)))
    words = Words(known)
    for job in jobs:
        for where, conditions in (
            ("start_conditions", job.start_conditions),
            ("cancel_conditions", job.cancel_conditions),
        ):
            for name in idle_rules.jobs_named(conditions):
                if name not in known:
                    hint = did_you_mean(name, words, "jobs")
                    message = f"names the job {name}, which is not in the plan"
                    yield Problem(message, where, job.name, hint)


# --------------------------------------------------------------------- warnings
def _reads_without_waits(plan: Plan) -> Iterator[Problem]:
    """Jobs that use what another one writes, and wait for nothing.

    Told once for each stage that a job reads: it may read all of its jobs.
    """
    jobs = {job.name: job for job in plan.jobs}
    waiting = {edge.after for edge in plan.edges if edge.mode == "waits"}
    read: dict[tuple[str, str], list[JobSpec]] = {}
    for edge in plan.edges:
        if edge.mode != "reads" or edge.after in waiting:
            continue
        before = jobs.get(edge.before)
        if before and edge.after in jobs:
            stage = before.stage or before.name
            read.setdefault((edge.after, stage), []).append(before)
    for (name, stage), befores in read.items():
        if _uses(jobs[name], [before.output_dir for before in befores]):
            hint = "add a start condition, such as SlurmStateCondition: COMPLETED"
            message = f"reads what {stage} writes, and does not wait for it"
            yield Problem(message, "start_conditions", name, hint)


def _uses(job: JobSpec, directories: Sequence[str]) -> bool:
    """Whether one of the directories stands in what a job is started with."""
    # What all directories begin with, is looked for first: the texts may hold a
    # thousand of them, or nothing of the kind.
    common = _beginning(directories)
    return any(
        common in text and any(directory in text for directory in directories)
        for text in (*job.command, *job.env.values(), *job.overrides)
    )


def _beginning(texts: Sequence[str]) -> str:
    """What all texts begin with: as much as the first and the last in order share."""
    first, last = min(texts), max(texts)
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((at for at, (a, b) in pairs if a != b), len(first))]


def _waits_without_end(jobs: Sequence[JobSpec]) -> Iterator[Problem]:
    for job in jobs:
        for at, condition in enumerate(job.start_conditions):
            if _may_wait_for_ever(condition):
                hint = "timeout_seconds: 86400"
                where = f"start_conditions.{at}"
                yield Problem("waits without a time-out", where, job.name, hint)


def _may_wait_for_ever(condition: Condition) -> bool:
    if condition.timeout_seconds is not None or not condition.blocking:
        return False
    match condition:
        case Approval() | TimeReached() | MetadataIs(op="known"):
            return False
        case Composite():
            held = [_may_wait_for_ever(inner) for inner in condition.conditions]
            return any(held) if condition.mode == "all" else bool(held) and all(held)
    return True
