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

import yaml

from autoexp_tui.config.default_files import ConfigFile, list_config_files
from autoexp_tui.config.sweep_places import (
    NOTHING,
    find_child,
    find_in_sweep,
    split_path,
    walk,
)
from autoexp_tui.model.errors import Problem
from autoexp_tui.probes.yaml_files import show_path
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
_Spot: TypeAlias = tuple[int, Place]
"""How many parts of a path were found, and where."""


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
        self.files = tuple(list_config_files(roots, config_ref, choices))

    def add_places(
        self, problems: Iterable[Problem], origins: Origins = _UNKNOWN
    ) -> tuple[Problem, ...]:
        """The findings with their places; whose `where` begins with one keep that."""
        return tuple(self._add_place(problem, origins) for problem in problems)

    def find(
        self, problem: Problem, entries: Entries | None = None, *, of_value: bool = True
    ) -> Place | None:
        """Where a finding belongs; None when no file has anything of its key.

        `entries`: what its job chose in the sweep, where that is known; `of_value`: of
        several values, the line of the job's own, not that of the key.
        """
        if written := _PLACED.match(problem.where):
            return written["path"], int(written["line"])
        parts = split_path(problem.where.removeprefix(_OVERRIDE).partition("=")[0])
        if not parts:
            return None
        swept = self._find_swept(parts, entries, of_value=of_value)
        if problem.where.startswith(_OVERRIDE):  # without a job: of the command line
            return swept if problem.job else None
        if swept and entries is not None:
            return swept
        depth, place = self._find_in_files(parts)
        return place if depth == len(parts) or not swept else swept

    def _add_place(self, problem: Problem, origins: Origins) -> Problem:
        if _PLACED.match(problem.where):
            return problem
        jobs = (problem.job, *problem.others[:_MOST_JOBS])
        having = [one for job in jobs for one in origins.get(job, ())][:_MOST_JOBS]
        places = self._find_all(problem, having or [None], of_value=True)
        if len(places) > 1:  # what several values have in common is of the key
            places = self._find_all(problem, having, of_value=False)
        if not places:
            return problem
        (path, line), *others = places
        hint = _list_places(problem.hint, path, others)
        return replace(problem, place=f"{path}:{line}", hint=hint)

    def _find_all(
        self, problem: Problem, having: Iterable[Entries | None], *, of_value: bool
    ) -> Sequence[Place]:
        """The places of what several jobs have, in their order, each once."""
        found = (self.find(problem, one, of_value=of_value) for one in having)
        return list(dict.fromkeys(place for place in found if place is not None))

    def _find_swept(
        self, parts: Sequence[str], entries: Entries | None, *, of_value: bool
    ) -> Place | None:
        """Where a sweep sets a key."""
        spots = [
            (found[0], (show_path(str(file.path)), found[1]))
            for file in self.files
            if parts[0] != "sweep" and (root := _sweep_of(file)) is not None
            for found in [find_in_sweep(root, parts, entries, of_value=of_value)]
        ]
        return _deepest(spots)[1]

    def _find_in_files(self, parts: Sequence[str]) -> tuple[int, Place | None]:
        spots: list[_Spot] = []
        for file in self.files:
            size = len(file.package)
            if tuple(parts[:size]) == file.package:
                depth, line = walk(file.root, parts[size:])
                if depth:
                    spots.append((depth + size, (show_path(str(file.path)), line)))
        return _deepest(spots)


def _deepest(spots: Sequence[_Spot]) -> tuple[int, Place | None]:
    """The first of those that lead furthest."""
    return max(
        (spot for spot in spots if spot[0]),
        key=lambda spot: spot[0],
        default=(NOTHING[0], None),
    )


def _sweep_of(file: ConfigFile) -> yaml.MappingNode | None:
    """The sweep that a file holds, or is."""
    found = None if file.package else find_child(file.root, "sweep")
    root = file.root if file.package == ("sweep",) else found
    return root if isinstance(root, yaml.MappingNode) else None


def _list_places(hint: str, path: str, besides: Sequence[Place]) -> str:
    """A hint, with the other places where the same has to be mended."""
    if not besides:
        return hint
    places = [
        f"line {line}" if other == path else f"{other}:{line}"
        for other, line in besides[:_MOST_PLACES]
    ]
    if len(besides) > _MOST_PLACES:
        places.append(f"{len(besides) - _MOST_PLACES} places more")
    also = f"the same at {', '.join(places)}"
    return f"{hint}; {also}" if hint else also
