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
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.planning import estimate
from autoexp_tui.planning.dag import find_rings, format_rings
from autoexp_tui.planning.lint_rules import lint_plan
from autoexp_tui.sweep.points import (
    NOT_OVERRIDES,
    STAGE,
    find_fault_of_name,
    format_in_name,
    plain_key,
)
from autoexp_tui.sweep.schema import MOST_OF_A_FILTER, shorten_text
from autoexp_tui.text.spelling import plural

_NO_NAMES: Final = (NOT_OVERRIDES - {STAGE}) | {"project.name"}
"""Parameters that cannot stand in a name."""
_MOST_FILTERS: Final = 3


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The findings of a plan."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def validate_execution_plan(
    plan: Plan, *, known: Iterable[str] = (), empty: Sequence[str] = ()
) -> ValidationResult:
    """Everything that is wrong, or odd, about a plan.

    `known`: jobs of the session that it is to join, which conditions may name;
    `empty`: places of the empty lists for which the sweep makes no point.
    """
    linted_errors, linted_warnings = lint_plan(plan, known)
    errors = [
        *_check_any_jobs(plan, empty),
        *_check_names(plan.jobs),
        *find_shared_directories(plan.jobs),
        *_find_overlaps(plan),
        *_check_rings(plan.jobs, plan.edges),
        *linted_errors,
    ]
    warnings = [
        *_find_nested_directories(plan.jobs),
        *linted_warnings,
        *estimate.check_bounds(plan),
    ]
    return ValidationResult(fold_problems(errors), fold_problems(warnings))


def fold_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems that several jobs share, told for the first and counted."""
    groups: dict[Problem, list[str]] = {}
    for problem in problems:
        groups.setdefault(replace(problem, job=""), []).append(problem.job)
    told = []
    for problem, jobs in groups.items():
        first, *others = dict.fromkeys(jobs)
        if "" in jobs:  # the config has it without any job
            first = ""
        elif others:
            more = plural(len(others), "more job")
            message = f"{problem.message} (and for {more})"
            problem = replace(problem, message=message, others=tuple(others))
        told.append(replace(problem, job=first))
    return tuple(told)


def _check_any_jobs(plan: Plan, empty: Sequence[str]) -> Iterator[Problem]:
    if plan.jobs:
        return
    hint = "look at the points with `autoexp-plan --points`, and at the filters"
    if empty:
        told = " and ".join(f"`{where}`" for where in empty)
        noun = "is an empty list" if len(empty) == 1 else "are empty lists"
        hint = f"{told} {noun}: write at least one entry, or leave it out"
    elif plan.holes:
        filters = list(dict.fromkeys((one.filter, one.where) for one in plan.holes))
        few = [
            f"`{shorten_text(text, MOST_OF_A_FILTER)}` at {where}"
            for text, where in filters[:_MOST_FILTERS]
        ]
        more = len(filters) - len(few)
        told = " and ".join(few) + (f" and {more} more" if more else "")
        noun = "filter" if len(filters) == 1 else "filters"
        count = len(plan.holes) + plan.holes_more
        took = "the only combination" if count == 1 else f"all {count:,} combinations"
        hint = f"{took} went by the {noun} {told}"
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
            told = [f"${{{key}}}" for key in differing if key not in _NO_NAMES]
            hint = f"add what tells them apart: {', '.join(told[:4]) or '${index}'}"
        message = f"{len(shared)} jobs have the name {name}"
        yield Problem(message, where="project.name", job=name, hint=hint)


def _check_rings(jobs: Sequence[JobSpec], edges: Sequence[Edge]) -> Iterator[Problem]:
    """Rings of waits; of the same stages in many families, the first and how many."""
    place = {job.name: at for at, job in enumerate(jobs)}
    waits = [
        (place[edge.before], place[edge.after])
        for edge in edges
        if edge.mode == "waits" and edge.before in place and edge.after in place
    ]
    alike: dict[tuple[str, ...], list[list[str]]] = {}
    for ring in find_rings(len(jobs), waits):
        stages = tuple(jobs[at].stage or jobs[at].name for at in ring)
        alike.setdefault(stages, []).append([jobs[at].name for at in ring])
    for rings in alike.values():
        message = format_rings("jobs wait for each other in a ring", rings)
        hint = "one of these conditions has to go: nothing could ever start"
        yield Problem(message, where="start_conditions", job=rings[0][0], hint=hint)


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    what: str
    key: str
    """Where it is set."""
    job: str = ""
    """Whose it is; empty: the plan's."""


def find_shared_directories(jobs: Sequence[JobSpec]) -> Iterator[Problem]:
    """Jobs that write into one directory."""
    owners: dict[str, str] = {}
    for job in jobs:
        path = posixpath.normpath(job.output_dir)
        other = owners.setdefault(path, job.name)
        if other != job.name:
            message = f"writes into the same directory as {other}: {path}"
            yield Problem(message, where="project.name", job=job.name)


def _find_overlaps(plan: Plan) -> Iterator[Problem]:
    """Outputs that overlap logs (its own may), scripts or the state of sessions."""
    places: dict[str, _Place] = {}
    for place in _list_places(plan):
        places.setdefault(place.path, place)
    outputs = _find_outputs(plan.jobs)
    for path, job in outputs.items():
        for outer in _list_upwards(path):
            if outer in places and places[outer].job != job:
                yield _describe_overlap(job, path, places[outer])
    for place in places.values():
        for outer in _list_upwards(posixpath.dirname(place.path)):
            if outer in outputs and outputs[outer] != place.job:
                yield _describe_overlap(outputs[outer], outer, place)


def _describe_overlap(job: str, path: str, place: _Place) -> Problem:
    if path == place.path:
        message = f"its output directory is {place.what}: {path}"
    elif path.startswith(place.path):
        message = f"its output directory lies inside {place.what}: {path}"
    else:
        message = f"its output directory holds {place.what}: {place.path}"
    hint = f"choose another name, or another {place.key}"
    return Problem(message, where="project.name", job=job, hint=hint)


def _find_nested_directories(jobs: Sequence[JobSpec]) -> Iterator[Problem]:
    outputs = _find_outputs(jobs)
    for path, job in outputs.items():
        above = _list_upwards(posixpath.dirname(path))
        outer = next((up for up in above if up in outputs), None)
        if outer is not None:
            message = f"its directory lies inside the one of {outputs[outer]}: {path}"
            hint = "a name with `/` is a directory for each part"
            yield Problem(message, where="project.name", job=job, hint=hint)


def _find_outputs(jobs: Iterable[JobSpec]) -> dict[str, str]:
    found: dict[str, str] = {}
    for job in jobs:
        found.setdefault(posixpath.normpath(job.output_dir), job.name)
    return found


def _list_places(plan: Plan) -> Iterator[_Place]:
    scripts = plan.executor.settings.get("script_dir")
    if not scripts and plan.base_output_dir:
        scripts = posixpath.join(plan.base_output_dir, "scripts")
    if plan.state_dir:
        path = posixpath.normpath(plan.state_dir)
        yield _Place(path, "the directory of sessions", "--state-dir")
    if scripts:
        path = posixpath.normpath(str(scripts))
        yield _Place(path, "the directory of scripts", "slurm.script_dir")
    for job in plan.jobs:
        path = posixpath.normpath(job.log_dir)
        what = f"the log directory of {job.name}"
        yield _Place(path, what, "slurm.log_dir", job.name)


@lru_cache(maxsize=4096)  # most directories lie side by side in a few
def _list_upwards(path: str) -> tuple[str, ...]:
    """A directory and those above it, the root left out."""
    if path in {"", "/", "."}:
        return ()
    return (path, *_list_upwards(posixpath.dirname(path)))
