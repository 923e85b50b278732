"""In which file, and at which line, a key of a config stands.

Findings of planning name keys: of the composed config, of the sweep, or of what the
sweep sets. What is found is the key itself, or as much of its path as there is; what a
job chose in its sweep leads to the one entry, or the one value, that it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from autoexp_tui.config.yaml_files import MAX_DEPTH, list_nodes, show_path
from autoexp_tui.model.errors import Problem, find_written_place
from autoexp_tui.sweep.points import Entries, Origins
from autoexp_tui.sweep.schema import BODIES

_PART: Final = re.compile(r"[^.\[\]]+")
_OVERRIDE: Final = "override "
"""What findings about one begin their place with."""
_MOST_JOBS: Final = 1000
"""Jobs with the same finding whose places are looked for."""
_MOST_PLACES: Final = 6
"""Further places that are told."""
_MOST_BYTES: Final = 1 << 20
"""Of a file."""
_COVERED: Final = ("base_values", "defaults")
"""Keys of a node of a sweep whose values its body covers."""
_UNKNOWN: Final[Origins] = {}
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Place: TypeAlias = tuple[str, int]
"""A file as people write it, and a line from 1 on."""
Package: TypeAlias = tuple[str, ...]
"""The keys under which a file's own keys lie."""
Found: TypeAlias = tuple[int, int]
"""How many parts of a path were found, and the line (from 1 on) of the last."""
NOTHING: Final[Found] = (0, 0)


@dataclass(frozen=True, slots=True)
class _ConfigFile:
    path: str
    """As people write it."""
    package: Package
    root: yaml.Node

    def find_sweep(self) -> yaml.Node | None:
        """The sweep that the file holds, or is."""
        found = None if self.package else find_child(self.root, "sweep")
        root = self.root if self.package == ("sweep",) else found
        return root if isinstance(root, yaml.MappingNode) else None


class KeyPlaces:
    """The places of keys of one config; its files are read once."""

    def __init__(self, files: Iterable[tuple[Path, Package]]) -> None:
        """`files`: the config is made of these; one that does not read has no keys."""
        trees = ((path, package, _read_tree(path)) for path, package in files)
        self._files = [
            _ConfigFile(show_path(str(path)), package, root)
            for path, package, root in trees
            if root is not None
        ]

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
        swept = self._find_in_sweeps(parts, entries, of_value=of_value)
        if problem.where.startswith(_OVERRIDE):  # without a job: of the command line
            return swept if problem.job else None
        if swept and entries is not None:
            return swept
        depth, place = self._find_in_files(parts)
        return place if depth == len(parts) or not swept else swept

    def list_hydra_keys(self) -> Iterator[str]:
        """Keys below `hydra`, and groups of Hydra's own, that the files set."""
        for file in self._files:
            of_hydra = file.package == ("hydra",)
            node = file.root if of_hydra else find_child(file.root, "hydra")
            if isinstance(node, yaml.MappingNode) and not file.package[1:]:
                yield from (f"hydra.{key.value}" for key, _ in node.value)
            defaults = find_child(file.root, "defaults")
            if not isinstance(defaults, yaml.SequenceNode):
                continue
            for entry in defaults.value:
                is_choice = isinstance(entry, yaml.MappingNode)
                for name in [key for key, _ in entry.value] if is_choice else [entry]:
                    word = (str(name.value).split() or [""])[-1]
                    group = word.partition("@")[0].strip("/")
                    if group.startswith("hydra/"):
                        yield group if is_choice else group.rpartition("/")[0]

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
        hint = _add_others(problem.hint, path, others)
        return replace(problem, place=f"{path}:{line}", hint=hint)

    def _find_all(
        self, problem: Problem, chosen: Iterable[Entries | None], *, of_value: bool
    ) -> Sequence[Place]:
        """The places of what several jobs have, in their order, each once."""
        found = (self.find(problem, one, of_value=of_value) for one in chosen)
        return list(dict.fromkeys(place for place in found if place is not None))

    def _find_in_sweeps(
        self, parts: Sequence[str], entries: Entries | None, *, of_value: bool
    ) -> Place | None:
        """Where a sweep sets a key."""
        if parts[0] == "sweep":
            return None
        search = partial(find_in_sweep, parts=parts, entries=entries, of_value=of_value)
        spots = (
            (search(root), file.path)
            for file in self._files
            if (root := file.find_sweep()) is not None
        )
        return _choose_deepest(spots)[1]

    def _find_in_files(self, parts: Sequence[str]) -> tuple[int, Place | None]:
        spots = []
        for file in self._files:
            size = len(file.package)
            if tuple(parts[:size]) == file.package:
                depth, line = walk(file.root, parts[size:])
                spots.append(((depth and depth + size, line), file.path))
        return _choose_deepest(spots)


def _choose_deepest(spots: Iterable[tuple[Found, str]]) -> tuple[int, Place | None]:
    """The first of those that lead furthest: how far, and where."""
    (depth, line), path = max(spots, key=lambda s: s[0][0], default=(NOTHING, ""))
    return depth, ((path, line) if depth else None)


def _add_others(hint: str, path: str, besides: Sequence[Place]) -> str:
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


# ---------------------------------------------------------------------- YAML trees
def _read_tree(path: Path) -> yaml.Node | None:
    """The tree of a file with its lines; None without one that reads."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8-sig")
        # Of one that is nested beyond all bounds, composing would need too much stack.
        changes = map(_change_depth, yaml.parse(text, Loader=_Loader))
        if any(depth > MAX_DEPTH for depth in accumulate(changes)):
            return None
        return yaml.compose(text, Loader=_Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None


def _change_depth(event: yaml.Event) -> int:
    if isinstance(event, yaml.CollectionStartEvent):
        return 1
    return -1 if isinstance(event, yaml.CollectionEndEvent) else 0


def split_path(path: str) -> tuple[str, ...]:
    """The names and numbers of `sweep.groups[1].params.optim.lr`; `+`, `~` left out."""
    return tuple(_PART.findall(path.lstrip("+~")))


def find_child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """The value of a key of a mapping; None where there is none."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                return value  # type: ignore[no-any-return]
    return None


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


# ---------------------------------------------------------------------------- a sweep
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
        derived = self._find_derived(root)
        if derived is None or not _is_alone(derived):
            yield from self._search_node(root, "")
            for at, grid in self._list_chosen(find_child(root, "grids"), "groups"):
                yield self._search_params(grid, f"groups.{at}.params")
        if derived is not None:
            yield walk(derived, self.parts)
            yield from self._search_children(derived, "parameter_overrides")

    def _find_derived(self, root: yaml.Node) -> yaml.Node | None:
        """The entry that made a derived job."""
        jobs = find_child(root, "derived_jobs")
        at = self.entries.get("derived_jobs", 0)  # of the base job it is 0
        if isinstance(jobs, yaml.SequenceNode) and 0 < at <= len(jobs.value):
            return jobs.value[at - 1]  # type: ignore[no-any-return]
        return None

    def _search_node(self, node: yaml.Node, address: str) -> Iterator[Found]:
        yield from self._search_children(node, *_COVERED)
        yield self._search_params(find_child(node, "params"), _join(address, "params"))
        for key in ("configs", "groups"):
            place = _join(address, key)
            for at, entry in self._list_chosen(find_child(node, key), place):
                if any(find_child(entry, body) is not None for body in BODIES):
                    yield from self._search_node(entry, f"{place}.{at}")
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
        best = NOTHING
        for name, value, size in _list_keys(node, self.parts):
            at = self.entries.get(_join(address, str(name.value)))
            found = self._search_value(value, at, self.parts[size:])
            best = max(best, _add_parts(size, found, _line_of(name)))
        return best

    def _search_value(
        self, value: yaml.Node, at: int | None, parts: Sequence[str]
    ) -> Found:
        """As far as a path leads in what was chosen; 0 and its line: not at all."""
        if not isinstance(value, yaml.SequenceNode) or at is None:
            return walk(value, parts)
        if at >= len(value.value):
            return NOTHING
        item = value.value[at]
        several = self.of_value and len(value.value) > 1
        return _add_parts(0, walk(item, parts), _line_of(item) if several else 0)


def _is_alone(derived: yaml.Node) -> bool:
    """Whether a derived job has no base of which it takes parameters."""
    each = find_child(derived, "for_each_base_job")
    return each is not None and str(each.value).lower() == "false"


def _join(address: str, part: str) -> str:
    return f"{address}.{part}" if address else part
