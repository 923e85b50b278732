"""In which file, and at which line, a key of a config stands.

What is found is the key itself, or as much of its path as there is; what a job chose in
its sweep leads to the one entry, or the one value, that it has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import yaml

from autoexp_tui.config.hydra_source import AutoexpSource
from autoexp_tui.config.yaml_files import list_nodes, show_path
from autoexp_tui.model.errors import Problem, find_written_place
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.sweep.points import Entries, Origins
from autoexp_tui.sweep.schema import BODIES

_PART: Final = re.compile(r"[^.\[\]]+")
_OVERRIDE: Final = "override "
"""What findings about one begin their place with."""
_MOST_JOBS: Final = 1000
"""Jobs with the same finding whose places are looked for."""
_MOST_PLACES: Final = 6
"""Further places that are told."""
_COVERED: Final = ("base_values", "defaults")
"""Keys of a node of a sweep whose values its body covers."""
_UNKNOWN: Final[Origins] = {}

Place: TypeAlias = tuple[str, int]
"""A file as people write it, and a line from 1 on."""
Package: TypeAlias = tuple[str, ...]
"""The keys under which a file's own keys lie."""
Found: TypeAlias = tuple[int, int]
"""How many parts of a path were found, and the line (from 1 on) of the last."""
NOTHING: Final[Found] = (0, 0)


class KeyPlaces:
    """The places of keys of one config."""

    def __init__(self, files: Iterable[tuple[Path, Package]]) -> None:
        """`files`: the config is made of these; one that does not read has no keys."""
        self._files: list[tuple[str, Package, yaml.Node]] = []
        for path, package in files:
            with suppress(CannotCompose):
                root = AutoexpSource.files.load(os.path.realpath(path)).root
                if root is not None:
                    self._files.append((show_path(str(path)), package, root))

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
        if place := find_written_place(problem.where):
            return place
        parts = split_path(problem.where.removeprefix(_OVERRIDE).partition("=")[0])
        if not parts:
            return None
        swept = None
        if parts[0] != "sweep":
            _, swept = _choose_deepest(
                (find_in_sweep(root, parts, entries, of_value=of_value), path)
                for path, root in self._list_sweeps()
            )
        if problem.where.startswith(_OVERRIDE):  # without a job: of the command line
            return swept if problem.job else None
        if swept and entries is not None:
            return swept
        spots = []
        for path, package, root in self._files:
            size = len(package)
            if parts[:size] == package:
                depth, line = walk(root, parts[size:])
                spots.append(((depth and depth + size, line), path))
        depth, place = _choose_deepest(spots)
        return place if depth == len(parts) or not swept else swept

    def list_hydra_keys(self) -> Iterator[str]:
        """Keys below `hydra`, and groups of Hydra's own, that the files set."""
        for _, package, root in self._files:
            node = root if package == ("hydra",) else find_child(root, "hydra")
            if isinstance(node, yaml.MappingNode) and not package[1:]:
                yield from (f"hydra.{key.value}" for key, _ in node.value)
            defaults = find_child(root, "defaults")
            if not isinstance(defaults, yaml.SequenceNode):
                continue
            for entry in defaults.value:
                is_choice = isinstance(entry, yaml.MappingNode)
                for name in [key for key, _ in entry.value] if is_choice else [entry]:
                    word = (str(name.value).split() or [""])[-1]
                    group = word.partition("@")[0].strip("/")
                    if group.startswith("hydra/"):
                        yield group if is_choice else group.rpartition("/")[0]

    def _list_sweeps(self) -> Iterator[tuple[str, yaml.Node]]:
        """The sweeps that the files hold, or are."""
        for path, package, root in self._files:
            of_root = None if package else find_child(root, "sweep")
            sweep = root if package == ("sweep",) else of_root
            if isinstance(sweep, yaml.MappingNode):
                yield path, sweep

    def _add_place(self, problem: Problem, origins: Origins) -> Problem:
        if find_written_place(problem.where):
            return problem
        jobs = (problem.job, *problem.others[:_MOST_JOBS])
        chosen = [one for job in jobs for one in origins.get(job, ())][:_MOST_JOBS]
        places = self._find_all(problem, chosen or [None], of_value=True)
        if len(places) > 1:  # what several values have in common is of the key
            places = self._find_all(problem, chosen, of_value=False)
        if not places:
            return problem
        (path, line), *others = places
        also = [
            f"line {at}" if other == path else f"{other}:{at}" for other, at in others
        ]
        if len(also) > _MOST_PLACES:
            more = f"{len(also) - _MOST_PLACES} places more"
            also = [*also[:_MOST_PLACES], more]
        hints = [problem.hint, f"the same at {', '.join(also)}" if also else ""]
        hint = "; ".join(filter(None, hints))
        return replace(problem, place=f"{path}:{line}", hint=hint)

    def _find_all(
        self, problem: Problem, chosen: Iterable[Entries | None], *, of_value: bool
    ) -> Sequence[Place]:
        """The places of what several jobs have, in their order, each once."""
        found = (self.find(problem, one, of_value=of_value) for one in chosen)
        return list(dict.fromkeys(place for place in found if place is not None))


def _choose_deepest(spots: Iterable[tuple[Found, str]]) -> tuple[int, Place | None]:
    """The first of those that lead furthest: how far, and where."""
    (depth, line), path = max(spots, key=lambda s: s[0][0], default=(NOTHING, ""))
    return depth, ((path, line) if depth else None)


def split_path(path: str) -> tuple[str, ...]:
    """The names and numbers of `sweep.groups[1].params.optim.lr`; `+`, `~` left out."""
    return tuple(_PART.findall(path.lstrip("+~")))


def find_child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """The value of a key of a mapping; None where there is none."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    # Of a key that a merge (`<<`) brought, too, its own stands last.
    return next((value for name, value in reversed(pairs) if name.value == key), None)


def _list_keys(
    node: yaml.Node | None, parts: Sequence[str]
) -> Iterator[tuple[yaml.Node, yaml.Node, int]]:
    """Keys of a mapping that a path begins with, their values, and their lengths.

    A literal dotted key is taken whole.
    """
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        own = split_path(str(name.value))
        if own and tuple(parts[: len(own)]) == own:
            yield name, value, len(own)


def walk(node: yaml.Node, parts: Sequence[str]) -> Found:
    """As far as a path leads."""
    best = NOTHING
    for name, value, size in _list_keys(node, parts):
        best = max(best, _add_parts(size, walk(value, parts[size:]), _line_of(name)))
    if isinstance(node, yaml.SequenceNode) and parts and parts[0].isdigit():
        for item in node.value[int(parts[0]) :][:1]:
            best = _add_parts(1, walk(item, parts[1:]), _line_of(item))
    return best


def _add_parts(size: int, found: Found, line: int) -> Found:
    """What was found behind the first `size` parts, which stand in `line`."""
    return size + found[0], found[1] or line


def _line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def find_in_sweep(
    root: yaml.Node, parts: Sequence[str], entries: Entries | None, *, of_value: bool
) -> Found:
    """Where a sweep sets a key for a job that chose `entries`.

    Without them, the first place where it is set at all. `of_value`: of several
    values, the line of the job's own, not that of the key.
    """
    if entries is None:
        found = [walk(node, parts) for node in list_nodes(root)]
    else:  # what comes later covers what was before
        found = [*_SweepSearch(parts, entries, of_value).search_root(root)][::-1]
    return max(found, key=lambda one: one[0], default=NOTHING)


@dataclass(frozen=True, slots=True)
class _SweepSearch:
    """Looks for one key along what one job chose."""

    parts: Sequence[str]
    entries: Entries
    of_value: bool

    def search_root(self, root: yaml.Node) -> Iterator[Found]:
        """What is found, in the order in which it counts."""
        jobs = find_child(root, "derived_jobs")
        made = jobs.value if isinstance(jobs, yaml.SequenceNode) else []
        at = self.entries.get("derived_jobs", 0)  # of the base job it is 0
        derived = made[at - 1] if 0 < at <= len(made) else None
        each = find_child(derived, "for_each_base_job")
        if each is None or str(each.value).lower() != "false":
            yield from self._search_node(root, "")
            for at, grid in self._list_chosen(find_child(root, "grids"), "groups"):
                yield self._search_params(grid, f"groups.{at}.params")
        if derived is not None:
            yield walk(derived, self.parts)
            yield from self._search_children(derived, "parameter_overrides")

    def _search_node(self, node: yaml.Node, address: str) -> Iterator[Found]:
        """`address`: empty, or with a dot at its end."""
        yield from self._search_children(node, *_COVERED)
        yield self._search_params(find_child(node, "params"), f"{address}params")
        for key in ("configs", "groups"):
            place = f"{address}{key}"
            for at, entry in self._list_chosen(find_child(node, key), place):
                if any(find_child(entry, body) is not None for body in BODIES):
                    yield from self._search_node(entry, f"{place}.{at}.")
                else:
                    yield walk(entry, self.parts)

    def _search_children(self, node: yaml.Node, *keys: str) -> Iterator[Found]:
        children = (find_child(node, key) for key in keys)
        return (walk(child, self.parts) for child in children if child is not None)

    def _list_chosen(
        self, node: yaml.Node | None, address: str
    ) -> Iterator[tuple[int, yaml.Node]]:
        """The entries that the job has: the one it chose, or all that are crossed."""
        items = node.value if isinstance(node, yaml.SequenceNode) else ()
        at = self.entries.get(address)
        return enumerate(items) if at is None else enumerate(items[at : at + 1], at)

    def _search_params(self, node: yaml.Node | None, address: str) -> Found:
        """As far as a path leads in the values that were chosen."""
        best = NOTHING
        for name, value, size in _list_keys(node, self.parts):
            at = self.entries.get(f"{address}.{name.value}")
            rest, found = self.parts[size:], NOTHING
            if not isinstance(value, yaml.SequenceNode) or at is None:
                found = walk(value, rest)
            elif at < len(value.value):
                item = value.value[at]
                several = self.of_value and len(value.value) > 1
                line = _line_of(item) if several else 0
                found = _add_parts(0, walk(item, rest), line)
            best = max(best, _add_parts(size, found, _line_of(name)))
        return best
