"""Directories of a plan that lie where another one's files would be.

By their names alone, links are not followed: the plan may be for another machine.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import JobSpec, Plan

WHERE = "project.name"
_ROOTS = frozenset({"", "/", "."})


@dataclass(frozen=True, slots=True)
class _Place:
    """A directory that is not for what jobs write."""

    path: str
    what: str
    key: str
    """Where it is set."""
    job: str = ""
    """Whose it is; empty: the plan's."""


def shared(jobs: Sequence[JobSpec]) -> Iterator[Problem]:
    """Jobs that write into one directory."""
    owners: dict[str, str] = {}
    for job in jobs:
        path = posixpath.normpath(job.output_dir)
        other = owners.setdefault(path, job.name)
        if other != job.name:
            message = f"writes into the same directory as {other}: {path}"
            yield Problem(message, where=WHERE, job=job.name)


def overlaps(plan: Plan) -> Iterator[Problem]:
    """Output directories that overlap logs, scripts or the state of sessions.

    A job's own logs may lie inside its output directory, or the other way round.
    """
    places: dict[str, _Place] = {}
    for place in _places(plan):
        places.setdefault(place.path, place)
    outputs = _outputs(plan.jobs)
    for path, job in outputs.items():
        for outer in _upwards(path):
            if outer in places and places[outer].job != job:
                yield _overlap(job, path, places[outer])
    for place in places.values():
        for outer in _upwards(posixpath.dirname(place.path)):
            if outer in outputs and outputs[outer] != place.job:
                yield _overlap(outputs[outer], outer, place)


def _overlap(job: str, path: str, place: _Place) -> Problem:
    if path == place.path:
        message = f"its output directory is {place.what}: {path}"
    elif path.startswith(place.path):
        message = f"its output directory lies inside {place.what}: {path}"
    else:
        message = f"its output directory holds {place.what}: {place.path}"
    hint = f"choose another name, or another {place.key}"
    return Problem(message, where=WHERE, job=job, hint=hint)


def nested(jobs: Sequence[JobSpec]) -> Iterator[Problem]:
    """Jobs whose directory lies inside another one's."""
    outputs = _outputs(jobs)
    for path, job in outputs.items():
        inside = (up for up in _upwards(posixpath.dirname(path)) if up in outputs)
        outer = next(inside, None)
        if outer is not None:
            message = f"its directory lies inside the one of {outputs[outer]}: {path}"
            hint = "a name with `/` is a directory for each part"
            yield Problem(message, where=WHERE, job=job, hint=hint)


def _outputs(jobs: Iterable[JobSpec]) -> dict[str, str]:
    """Output directory -> its first job."""
    found: dict[str, str] = {}
    for job in jobs:
        found.setdefault(posixpath.normpath(job.output_dir), job.name)
    return found


def _places(plan: Plan) -> Iterator[_Place]:
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


def _upwards(path: str) -> Iterator[str]:
    """A directory and those above it, the root left out."""
    if path not in _ROOTS:
        yield path
        yield from _upwards_from(posixpath.dirname(path))


@lru_cache(maxsize=4096)
def _upwards_from(path: str) -> tuple[str, ...]:
    """The same, remembered: most directories lie side by side in a few."""
    found: list[str] = []
    while path not in _ROOTS:
        found.append(path)
        path = posixpath.dirname(path)
    return tuple(found)
