"""At which line of which file a sweep sets a key of a job.

What a job chose leads to the one entry, or the one value, that it has. Of a job of
which that is not known, the stage is looked for in its name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import yaml

from autoexp_tui.config.default_files import ConfigFile, child
from autoexp_tui.probes.yaml_walk import (
    Found,
    behind,
    line_of,
    parts_of_key,
    walk,
)
from autoexp_tui.sweep.provenance import Entries
from autoexp_tui.sweep.schema import BODIES

_SWEEP: Final = "sweep"
_BELOW: Final = ("base_values", "defaults")
"""Keys of a node whose values its body covers."""

Spot: TypeAlias = tuple[int, int]
"""The number of a file, and a line of it, from 1 on."""
_Node: TypeAlias = tuple[int, yaml.MappingNode, str | None]
_Set: TypeAlias = tuple[int, int, int]
"""How many parts of a path were found, the number of the file, and the line; these
two below 0, so that the larger of two is the one to be told."""


class SweepPlaces:
    """The places of what the sweeps of some files set."""

    def __init__(self, files: Sequence[ConfigFile]) -> None:
        self._sweeps = [
            (at, root)
            for at, file in enumerate(files)
            if (root := _sweep_of(file)) is not None
        ]
        self._sets: dict[tuple[str, ...], Mapping[str | None, _Set]] = {}

    def of_entries(
        self, parts: Sequence[str], entries: Entries, *, of_value: bool = True
    ) -> Spot | None:
        """Where a job that chose `entries` gets a key from.

        `of_value`: of several values, the line of its own, not that of the key.
        """
        search = _Search(parts, entries, of_value)
        found = [
            (depth, rank, -at, line)
            for at, root in self._sweeps
            for rank, (depth, line) in enumerate(search.in_root(root))
            if depth
        ]
        if not found:
            return None
        *_, at, line = max(found)
        return -at, line

    # ------------------------------------------------------- of jobs known by name
    def of_job(self, parts: Sequence[str], job: str) -> Spot | None:
        """Where a key is set; of several places that of the stage in a job's name."""
        own = {stage for stage in self._stages if stage and _is_held(stage, job)}
        found = [
            (depth, stage in own, at, line)
            for stage, (depth, at, line) in self._set_at(tuple(parts)).items()
            if not (own and stage is not None and stage not in own)
        ]
        if not found:
            return None
        *_, at, line = max(found)
        return -at, -line

    @cached_property
    def _nodes(self) -> Sequence[_Node]:
        """The mappings of sweeps: number of the file, the mapping, its stage."""
        return [
            (at, node, _stage_of(node))
            for at, root in self._sweeps
            for node in _mappings(root, set())
        ]

    @cached_property
    def _stages(self) -> Collection[str | None]:
        return {stage for *_, stage in self._nodes}

    def _set_at(self, parts: tuple[str, ...]) -> Mapping[str | None, _Set]:
        """Stage -> where a sweep sets a key; findings of many jobs are of few keys."""
        if parts not in self._sets:
            best: dict[str | None, _Set] = {}
            for at, node, stage in self._nodes:
                depth, line = walk(node, parts)
                if depth:
                    found = (depth, -at, -line)
                    best[stage] = max(found, best.get(stage, found))
            self._sets[parts] = best
        return self._sets[parts]


# ---------------------------------------------------------------- what a job chose
@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for one key along what one job chose; what is found later wins."""

    parts: Sequence[str]
    entries: Entries
    of_value: bool

    def in_root(self, root: yaml.MappingNode) -> Iterator[Found]:
        derived = self._derived(root)
        if derived is None or not _is_alone(derived):
            yield from self._in_node(root, "")
            for at, grid in self._chosen(child(root, "grids"), "groups"):
                yield self._in_params(grid, f"groups.{at}.params")
        if derived is not None:
            yield walk(derived, self.parts)
            yield self._in_child(derived, "parameter_overrides")

    def _derived(self, root: yaml.MappingNode) -> yaml.Node | None:
        """The entry that made a derived job."""
        jobs = child(root, "derived_jobs")
        at = self.entries.get("derived_jobs", 0)  # of the base job it is 0
        if isinstance(jobs, yaml.SequenceNode) and 0 < at <= len(jobs.value):
            found: yaml.Node = jobs.value[at - 1]
            return found
        return None

    def _in_node(self, node: yaml.Node, address: str) -> Iterator[Found]:
        for key in _BELOW:
            yield self._in_child(node, key)
        params = child(node, "params")
        if params is not None:
            yield self._in_params(params, _join(address, "params"))
        for key in ("configs", "groups"):
            place = _join(address, key)
            for at, entry in self._chosen(child(node, key), place):
                if any(child(entry, body) is not None for body in BODIES):
                    yield from self._in_node(entry, f"{place}.{at}")
                else:
                    yield walk(entry, self.parts)

    def _in_child(self, node: yaml.Node, key: str) -> Found:
        found = child(node, key)
        return (0, 0) if found is None else walk(found, self.parts)

    def _chosen(
        self, node: yaml.Node | None, address: str
    ) -> Iterator[tuple[int, yaml.Node]]:
        """The entries that the job has: the one it chose, or all that are crossed."""
        if not isinstance(node, yaml.SequenceNode):
            return
        at = self.entries.get(address)
        if at is None:
            yield from enumerate(node.value)
        elif at < len(node.value):
            yield at, node.value[at]

    def _in_params(self, node: yaml.Node, address: str) -> Found:
        best: Found = (0, 0)
        for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
            own = parts_of_key(name)
            if own and tuple(self.parts[: len(own)]) == own:
                at = self.entries.get(_join(address, str(name.value)))
                tried = self._tried(value, at, self.parts[len(own) :])
                best = max(best, behind(len(own), tried, line_of(name)))
        return best

    def _tried(self, value: yaml.Node, at: int | None, parts: Sequence[str]) -> Found:
        """As far as a path leads in what was chosen; 0 and its line: not at all."""
        if not isinstance(value, yaml.SequenceNode) or at is None:
            return walk(value, parts)
        if at >= len(value.value):
            return 0, 0
        item = value.value[at]
        several = self.of_value and len(value.value) > 1
        return behind(0, walk(item, parts), line_of(item) if several else 0)


def _sweep_of(file: ConfigFile) -> yaml.MappingNode | None:
    """The sweep that a file holds, or is."""
    if file.package == (_SWEEP,):
        found: yaml.Node | None = file.root
    else:
        found = None if file.package else child(file.root, _SWEEP)
    return found if isinstance(found, yaml.MappingNode) else None


def _is_alone(derived: yaml.Node) -> bool:
    """Whether a derived job has no base of which it takes parameters."""
    each = child(derived, "for_each_base_job")
    return each is not None and str(each.value).lower() == "false"


def _join(address: str, part: str) -> str:
    return f"{address}.{part}" if address else part


# --------------------------------------------------------------------- by the stage
def _mappings(node: yaml.Node, seen: set[int]) -> Iterator[yaml.MappingNode]:
    """Every mapping below a node, each once: aliases share theirs."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _mappings(value, seen)


def _stage_of(node: yaml.MappingNode) -> str | None:
    """The stage that a mapping names; None when it names none."""
    for name, value in node.value:
        if str(name.value) in ("stage", "_stage", "name"):
            return str(value.value)
    return None


def _is_held(stage: str, job: str) -> bool:
    """Whether a job's own name, or label, holds a stage's."""
    whole = rf"(?<![^\W_]){re.escape(stage)}(?![^\W_])"
    return stage in job and re.search(whole, job) is not None
