"""Which jobs may have an output directory by now: most of a new plan have none.

A parent that many jobs share is listed once, instead of a look at each of them, which
a file system over a network answers slowly. It never says no of a job whose directory
is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from autoexp_tui.model.specs import JobSpec

_MANY: Final = 16
"""Jobs in one directory for which it is listed."""


def perhaps_there(jobs: Iterable[JobSpec]) -> Sequence[JobSpec]:
    """The jobs whose output directory is there, or cannot be known not to be."""
    siblings: dict[str, list[tuple[str, JobSpec]]] = {}
    order: dict[str, int] = {}
    for at, job in enumerate(jobs):
        parent, name = os.path.split(job.output_dir)
        siblings.setdefault(parent, []).append((name, job))
        order[job.name] = at
    found = [
        job for parent, named in siblings.items() for job in _of_parent(parent, named)
    ]
    return sorted(found, key=lambda job: order[job.name])


def _of_parent(parent: str, named: Sequence[tuple[str, JobSpec]]) -> Iterable[JobSpec]:
    names = _listed(parent) if len(named) >= _MANY else None
    if names is None:
        return [job for _, job in named]
    return [job for name, job in named if _may_be(name, names)]


def _listed(directory: str) -> frozenset[str] | None:
    """What is in a directory, without the case of letters; None: it cannot be known."""
    try:
        return frozenset(name.casefold() for name in os.listdir(directory or os.curdir))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return None


def _may_be(name: str, names: frozenset[str]) -> bool:
    # Some file systems take names for one that differ in case, or in how accents are
    # written, and some parts of a path are no names.
    return name in ("", ".", "..") or not name.isascii() or name.casefold() in names
