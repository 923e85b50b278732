"""In which file, and at which line, a key of a config stands.

What is found is the key itself, or as much of its path as there is; what a job chose in
its sweep leads to the one entry, or the one value, that it has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import yaml

from autoexp_tui.config.hydra_source import AutoexpSource
from autoexp_tui.config.yaml_files import list_nodes, show_path
from autoexp_tui.model.errors import Problem, find_written_place
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.sweep.expand import BODIES
from autoexp_tui.sweep.points import Entries, Origins

_PART: Final = re.compile(r"[^.\[\]]+")
_OVERRIDE: Final = "override "
"""What findings about one begin their place with."""
_MOST_JOBS: Final = 1000
"""Jobs with the same finding whose places are looked for."""
_MOST_PLACES: Final = 6
"""Further places that are told."""
_ORDER: Final = {"base_values": 0, "defaults": 0, "derived_jobs": 2}
"""Keys of a node of a sweep that its body covers, and the last, which covers all."""
_UNKNOWN: Final[Origins] = {}

Place: TypeAlias = tuple[str, int]
"""A file as people write it, and a line from 1 on."""
Package: TypeAlias = tuple[str, ...]
"""The keys under which a file's own keys lie."""
Found: TypeAlias = tuple[int, int]
"""How many parts of a path were found, and the line (from 1 on) of the last."""
NOTHING: Final[Found] = (0, 0)
_NO_CHOICE: Final[Entries] = {}


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
        self._sweeps: list[tuple[str, yaml.Node]] = []
        """Of files that hold a sweep, or are one."""
        for shown, package, root in self._files:
            inside = None if package else find_child(root, "sweep")
            node = root if package == ("sweep",) else inside
            if isinstance(node, yaml.MappingNode):
                self._sweeps.append((shown, node))

    def find(self, problem: Problem, entries: Entries | None = None) -> Place | None:
        """Where a finding belongs; None when no file has anything of its key.

        `entries`: what its job chose in the sweep, where that is known.
        """
        parts = split_path(problem.where.removeprefix(_OVERRIDE).partition("=")[0])
        if not parts:
            return None
        sweeps = self._sweeps if parts[0] != "sweep" else ()
        found = [(find_in_sweep(node, parts, entries), path) for path, node in sweeps]
        _, swept = _choose_deepest(found)
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
            entries = defaults.value if isinstance(defaults, yaml.SequenceNode) else ()
            for entry in entries:
                is_choice = isinstance(entry, yaml.MappingNode)
                for name in [key for key, _ in entry.value] if is_choice else [entry]:
                    word = (str(name.value).split() or [""])[-1]
                    group = word.partition("@")[0].strip("/")
                    if group.startswith("hydra/"):
                        yield group if is_choice else group.rpartition("/")[0]

    def add_place(self, problem: Problem, origins: Origins = _UNKNOWN) -> Problem:
        """A finding with its place; one whose `where` begins with one keeps that."""
        if find_written_place(problem.where):
            return problem
        jobs = (problem.job, *problem.others[:_MOST_JOBS])
        chosen = [one for job in jobs for one in origins.get(job, ())][:_MOST_JOBS]
        choices: Sequence[Entries | None] = chosen or [None]
        places = (self.find(problem, entries) for entries in choices)
        found = list(dict.fromkeys(place for place in places if place))
        if not found:
            return problem
        (path, line), *others = found
        also = ", ".join(f"{other}:{at}" for other, at in others[:_MOST_PLACES])
        more = f" and {len(others) - _MOST_PLACES} places more"
        same = f"the same at {also}{more if others[_MOST_PLACES:] else ''}"
        hint = "; ".join(filter(None, (problem.hint, same if others else "")))
        return replace(problem, place=f"{path}:{line}", hint=hint)


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


def walk(
    node: yaml.Node | None, parts: Sequence[str], chosen: Entries = _NO_CHOICE
) -> Found:
    """As far as a path leads; a literal dotted key is taken whole.

    `chosen`: keys with several values -> which of them is meant.
    """
    best = NOTHING
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        own = split_path(str(name.value))
        if not own or tuple(parts[: len(own)]) != own:
            continue
        line, at = _line_of(name), chosen.get(str(name.value))
        if at is not None and isinstance(value, yaml.SequenceNode):
            items, value = value.value, next(iter(value.value[at : at + 1]), None)
            line = _line_of(value) if value and len(items) > 1 else line
        depth, below = walk(value, parts[len(own) :])
        best = max(best, (len(own) + depth, below or line))
    if isinstance(node, yaml.SequenceNode) and parts and parts[0].isdigit():
        for item in node.value[int(parts[0]) :][:1]:
            depth, below = walk(item, parts[1:])
            best = max(best, (1 + depth, below or _line_of(item)))
    return best


def _line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def find_in_sweep(
    root: yaml.Node, parts: Sequence[str], entries: Entries | None
) -> Found:
    """Where a sweep sets a key for a job that chose `entries`.

    Without them, the first place where it is set at all.
    """
    if entries is None:
        found = [walk(node, parts) for node in list_nodes(root)]
    else:  # what comes later covers what was before
        found = [*_search_sweep(root, parts, entries)][::-1]
    return max(found, key=lambda one: one[0], default=NOTHING)


def _search_sweep(
    node: yaml.Node, parts: Sequence[str], entries: Entries, address: str = ""
) -> Iterator[Found]:
    """What one job chose, in the order in which it counts.

    `address`: of the node; empty, or with a dot at its end.
    """
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    if not any(name.value in BODIES for name, _ in pairs):
        choices = {  # keys of the node -> which of their values was chosen
            place.removeprefix(address): at
            for place, at in entries.items()
            if place.startswith(address)
        }
        yield walk(node, parts, choices)
    for name, value in sorted(pairs, key=lambda pair: _ORDER.get(pair[0].value, 1)):
        place, below = f"{address}{name.value}", ""
        if place == "grids":
            place, below = "groups", "params."
        chosen = entries.get(place)
        if place == "derived_jobs":  # the base job is 0
            chosen = (chosen or 0) - 1
        if isinstance(value, yaml.SequenceNode):
            items = [*enumerate(value.value)]
            if chosen is not None:
                items = items[chosen : chosen + 1] if chosen >= 0 else []
            for at, item in items:
                inner = f"{place}.{at}.{below}"
                yield from _search_sweep(item, parts, entries, inner)
        elif isinstance(value, yaml.MappingNode):
            yield from _search_sweep(value, parts, entries, f"{place}.")
