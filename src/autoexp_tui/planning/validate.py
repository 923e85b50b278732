"""What can be said against a plan as a whole, before anything is submitted.

Looks at the plan alone, so that it holds for one read from a manifest too. What a
single value has wrong is found while the plan is built (see `build`). Directories are
compared by their names, links are not followed: the plan may be for another machine.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning import estimate
from autoexp_tui.planning.lint_rules import lint_plan
from autoexp_tui.sweep.points import (
    MOST_OF_A_FILTER,
    NOT_OVERRIDES,
    STAGE,
    find_fault_of_name,
    format_in_name,
    plain_key,
    shorten_text,
)
from autoexp_tui.text.spelling import join_some, plural

_NO_NAMES: Final = (NOT_OVERRIDES - {STAGE}) | {"project.name"}
"""Parameters that cannot stand in a name."""
_MOST_FILTERS: Final = 3
_MOST_IN_A_RING: Final = 12


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The findings of a plan."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def validate_execution_plan(
    plan: Plan, *, known: Iterable[str] = ()
) -> ValidationResult:
    """Everything that is wrong, or odd, about a plan.

    `known`: jobs of the session that it is to join, which conditions may name.
    """
    linted_errors, linted_warnings = lint_plan(plan, known)
    overlaps, nested = _find_overlaps(plan)
    errors = [
        *_check_any_jobs(plan),
        *_check_names(plan.jobs),
        *find_shared_directories(plan.jobs),
        *overlaps,
        *_check_ring(plan),
        *linted_errors,
    ]
    warnings = [
        *nested,
        *linted_warnings,
        *estimate.check_bounds(plan),
    ]
    return ValidationResult(fold_problems(errors), fold_problems(warnings))


def fold_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems that several jobs share, told for the first and counted."""
    groups: dict[Problem, list[str]] = {}
    for problem in problems:
        groups.setdefault(replace(problem, job=""), []).append(problem.job)
    folded = []
    for problem, jobs in groups.items():
        first, *others = dict.fromkeys(jobs)
        if "" in jobs:  # the config has it without any job
            first = ""
        elif others:
            more = plural(len(others), "more job")
            message = f"{problem.message} (and for {more})"
            problem = replace(problem, message=message, others=tuple(others))
        folded.append(replace(problem, job=first))
    return tuple(folded)


def _check_any_jobs(plan: Plan) -> Iterator[Problem]:
    if plan.jobs:
        return
    hint = "look at the points with `autoexp-plan --points`, and for empty lists"
    if plan.holes:
        places = dict.fromkeys(
            f"`{shorten_text(one.filter, MOST_OF_A_FILTER)}` at {one.where}"
            for one in plan.holes
        )
        count = plural(len(plan.holes) + plan.holes_more, "combination")
        hint = f"{count} went by filters: {join_some(list(places), _MOST_FILTERS)}"
    yield Problem("makes no job", where="sweep", hint=hint)


def _check_names(jobs: Sequence[JobSpec]) -> Iterator[Problem]:
    for job in jobs:
        if fault := find_fault_of_name(job.name):
            yield Problem(f"{job.name!r}: {fault}", "project.name", job.name)
    named: dict[str, list[JobSpec]] = {}
    for job in jobs:
        named.setdefault(job.name, []).append(job)
    for name, shared in named.items():
        if len(shared) == 1:
            continue
        differing = [
            plain_key(key)
            for key in dict.fromkeys(key for job in shared for key in job.parameters)
            if len({format_in_name(job.parameters.get(key)) for job in shared}) > 1
        ]
        hint = "they set the same values: take one out, or add ${index} to the name"
        if differing:
            choices = [f"${{{key}}}" for key in differing if key not in _NO_NAMES]
            hint = f"add what tells them apart: {', '.join(choices[:4]) or '${index}'}"
        message = f"{len(shared)} jobs have the name {name}"
        yield Problem(message, where="project.name", job=name, hint=hint)


def format_ring(what: str, names: Sequence[str]) -> str:
    """`what: a -> b -> a`; of a long ring, both ends."""
    half = _MOST_IN_A_RING // 2
    more = [f"({len(names) - 2 * half:,} more)"]
    if len(names) > _MOST_IN_A_RING:
        names = [*names[:half], *more, *names[-half:]]
    return f"{what}: {' -> '.join([*names, names[0]])}"


def _check_ring(plan: Plan) -> Iterator[Problem]:
    """The first ring of waits."""
    names = {job.name for job in plan.jobs}
    waits = TopologicalSorter[str]()
    for edge in plan.edges:
        if edge.mode == "waits" and {edge.before, edge.after} <= names:
            waits.add(edge.after, edge.before)
    try:
        waits.prepare()
    except CycleError as error:
        first, *ring = reversed(error.args[1])
        message = format_ring("jobs wait for each other in a ring", [first, *ring[:-1]])
        hint = "one of these conditions has to go: nothing could ever start"
        yield Problem(message, where="start_conditions", job=first, hint=hint)


def find_shared_directories(jobs: Sequence[JobSpec]) -> Iterator[Problem]:
    """Jobs that write into one directory."""
    owners: dict[str, str] = {}
    for job in jobs:
        path = posixpath.normpath(job.output_dir)
        other = owners.setdefault(path, job.name)
        if other != job.name:
            message = f"writes into the same directory as {other}: {path}"
            yield Problem(message, where="project.name", job=job.name)


def _find_overlaps(plan: Plan) -> tuple[list[Problem], list[Problem]]:
    """Errors: outputs that overlap logs (its own may), scripts or the state of
    sessions; warnings: outputs inside another job's."""
    outputs: dict[str, str] = {}
    scripts = plan.executor.settings.get("script_dir")
    if not scripts and plan.base_output_dir:
        scripts = posixpath.join(plan.base_output_dir, "scripts")
    listed = [
        (plan.state_dir, "the directory of sessions", "--state-dir", ""),
        (scripts, "the directory of scripts", "slurm.script_dir", ""),
    ]
    for job in plan.jobs:
        outputs.setdefault(posixpath.normpath(job.output_dir), job.name)
        what = f"the log directory of {job.name}"
        listed.append((job.log_dir, what, "slurm.log_dir", job.name))
    places: dict[str, tuple[str, str, str]] = {}
    for directory, *entry in listed:
        if directory:
            what, key, owner = entry
            places.setdefault(posixpath.normpath(str(directory)), (what, key, owner))
    errors, warnings = [], []

    def refuse(name: str, message: str, key: str) -> None:
        hint = f"choose another name, or another {key}"
        message = f"its output directory {message}"
        errors.append(Problem(message, "project.name", name, hint))

    for path, name in outputs.items():
        for outer in _list_upwards(path):
            what, key, owner = places.get(outer, ("", "", name))
            if owner != name:
                verb = "is" if path == outer else "lies inside"
                refuse(name, f"{verb} {what}: {path}", key)
        above = (up for up in _list_upwards(posixpath.dirname(path)) if up in outputs)
        if (found := next(above, None)) is not None:
            message = f"its directory lies inside the one of {outputs[found]}: {path}"
            hint = "a name with `/` is a directory for each part"
            warnings.append(Problem(message, "project.name", name, hint))
    for path, (what, key, owner) in places.items():
        for outer in _list_upwards(posixpath.dirname(path)):
            if outputs.get(outer, owner) != owner:
                refuse(outputs[outer], f"holds {what}: {path}", key)
    return errors, warnings


@lru_cache(maxsize=4096)  # most directories lie side by side in a few
def _list_upwards(path: str) -> tuple[str, ...]:
    """A directory and those above it, the root left out."""
    if path in {"", "/", "."}:
        return ()
    return (path, *_list_upwards(posixpath.dirname(path)))
