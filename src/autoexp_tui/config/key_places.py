"""In which file, and at which line, a key of a config stands.

Findings of planning name keys: of the composed config, of the sweep, or of what the
sweep sets. Looked for are the primary config and the files that its defaults choose.
What is found is the key itself, or as much of its path as there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from autoexp_tui.config.default_files import ConfigFile, config_files
from autoexp_tui.config.sweep_places import SweepPlaces
from autoexp_tui.model.errors import Problem
from autoexp_tui.probes.yaml_files import shown
from autoexp_tui.probes.yaml_walk import Found, parts_of, walk
from autoexp_tui.sweep.provenance import Entries, Origins

_PLACED: Final = re.compile(r"^(?P<path>.+?\.ya?ml):(?P<line>\d+)")
_OVERRIDE: Final = "override "
"""What findings about one begin their place with."""

_MOST_JOBS: Final = 1000
"""Jobs with the same finding whose places are looked for."""
_MOST_PLACES: Final = 6
"""Further places that are told."""
_UNKNOWN: Final[Origins] = {}

Place: TypeAlias = tuple[str, int]
"""A file as people write it, and a line from 1 on."""


class KeyPlaces:
    """The places of keys of one config; its files are read once."""

    def __init__(
        self, roots: Sequence[Path], config_ref: str, overrides: Sequence[str] = ()
    ) -> None:
        """`roots`: where configs are looked for, first to last.

        `overrides`: of the command line; they may choose other files.
        """
        pairs = (text.lstrip("+").partition("=") for text in overrides)
        choices = {key: name for key, _, name in pairs}
        self.files = tuple(config_files(roots, config_ref, choices))
        self._sweeps = SweepPlaces(self.files)

    def placed(
        self, problems: Iterable[Problem], origins: Origins = _UNKNOWN
    ) -> tuple[Problem, ...]:
        """The findings with their places; whose `where` begins with one keep that."""
        return tuple(self._placed(problem, origins) for problem in problems)

    def of(
        self, problem: Problem, entries: Entries | None = None, *, of_value: bool = True
    ) -> Place | None:
        """Where a finding belongs; None when no file has anything of its key.

        `entries`: what its job chose in the sweep, where that is known; `of_value`: of
        several values, the line of the job's own, not that of the key.
        """
        written = _PLACED.match(problem.where)
        if written:
            return written["path"], int(written["line"])
        key = problem.where.removeprefix(_OVERRIDE).partition("=")[0].lstrip("+~")
        parts = parts_of(key)
        if not self.files or not parts:
            return None
        swept = self._swept(parts, problem.job, entries, of_value=of_value)
        if problem.where.startswith(_OVERRIDE):  # without a job: of the command line
            return swept if problem.job else None
        if swept and problem.job:
            return swept
        best = max(
            ((self._walked(file, parts), file) for file in self.files),
            key=lambda found: found[0][0],
        )
        (depth, line), file = best
        if depth == len(parts) or not swept:
            return (shown(str(file.path)), line) if depth else None
        return swept

    def _placed(self, problem: Problem, origins: Origins) -> Problem:
        if _PLACED.match(problem.where):
            return problem
        jobs = (problem.job, *problem.others[:_MOST_JOBS])
        having = [one for job in jobs for one in origins.get(job, ())][:_MOST_JOBS]
        places = self._of_jobs(problem, having or [None], of_value=True)
        if len(places) > 1:  # what several values have in common is of the key
            places = self._of_jobs(problem, having, of_value=False)
        if not places:
            return problem
        (path, line), *others = places
        hint = _hint(problem.hint, path, others)
        return replace(problem, place=f"{path}:{line}", hint=hint)

    def _of_jobs(
        self,
        problem: Problem,
        having: Iterable[Entries | None],
        *,
        of_value: bool,
    ) -> Sequence[Place]:
        """The places of what several jobs have, in their order, each once."""
        found = (self.of(problem, one, of_value=of_value) for one in having)
        return list(dict.fromkeys(place for place in found if place is not None))

    def _swept(
        self,
        parts: Sequence[str],
        job: str,
        entries: Entries | None,
        *,
        of_value: bool,
    ) -> Place | None:
        """Where a sweep sets a key."""
        if parts[0] == "sweep":
            return None
        if entries is None:
            spot = self._sweeps.of_job(parts, job)
        else:
            spot = self._sweeps.of_entries(parts, entries, of_value=of_value)
        return None if spot is None else (shown(str(self.files[spot[0]].path)), spot[1])

    def _walked(self, file: ConfigFile, parts: Sequence[str]) -> Found:
        package = file.package
        if tuple(parts[: len(package)]) != package:
            return 0, 0
        depth, line = walk(file.root, parts[len(package) :])
        return (depth + len(package), line) if depth else (0, 0)


def _hint(hint: str, path: str, besides: Sequence[Place]) -> str:
    """A hint, with the other places where the same has to be mended."""
    if not besides:
        return hint
    told = [
        f"line {line}" if other == path else f"{other}:{line}"
        for other, line in besides[:_MOST_PLACES]
    ]
    if len(besides) > _MOST_PLACES:
        told.append(f"{len(besides) - _MOST_PLACES} places more")
    also = f"the same at {', '.join(told)}"
    return f"{hint}; {also}" if hint else also
