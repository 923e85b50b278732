"""In which file, and at which line, a key of a config stands.

Findings of planning name keys: of the composed config, of the sweep, or of what the
sweep sets. Looked for are the primary config and the files that its defaults choose.
What is found is the key itself, or as much of its path as there is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

import yaml

from autoexp_tui.adapters.default_files import ConfigFile, child, config_files
from autoexp_tui.adapters.yaml_files import shown
from autoexp_tui.core.errors import Problem

_PLACED: Final = re.compile(r"^(?P<path>.+?\.ya?ml):(?P<line>\d+)")
_PART: Final = re.compile(r"[^.\[\]]+")
_OVERRIDE: Final = "override "
"""What findings about one begin their place with."""

Place: TypeAlias = tuple[str, int]
"""A file as people write it, and a line from 1 on."""
_Found: TypeAlias = tuple[int, int]
"""How many parts of a path were found, and the line of the last."""
_Node: TypeAlias = tuple[int, yaml.MappingNode, str | None]
_Set: TypeAlias = tuple[int, int, int]
"""How many parts of a path were found, the number of the file, and the line; these
two below 0, so that the larger of two is the one to be told."""


class KeyPlaces:
    """The places of keys of one config; its files are read once."""

    def __init__(
        self, config_dir: Path, config_ref: str, overrides: Sequence[str] = ()
    ) -> None:
        """`overrides`: of the command line; they may choose other files."""
        pairs = (text.lstrip("+").partition("=") for text in overrides)
        choices = {key: name for key, _, name in pairs}
        self._files = tuple(config_files(config_dir, config_ref, choices))
        self._sets: dict[tuple[str, ...], Mapping[str | None, _Set]] = {}

    def placed(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The findings with their places; whose `where` begins with one keep that."""
        return tuple(
            replace(problem, place=f"{place[0]}:{place[1]}")
            if (place := self.of(problem)) and not _PLACED.match(problem.where)
            else problem
            for problem in problems
        )

    def of(self, problem: Problem) -> Place | None:
        """Where a finding belongs; None when no file has anything of its key."""
        written = _PLACED.match(problem.where)
        if written:
            return written["path"], int(written["line"])
        key = problem.where.removeprefix(_OVERRIDE).partition("=")[0].lstrip("+~")
        parts = tuple(_PART.findall(key))
        if not self._files or not parts:
            return None
        swept = self._in_sweep(parts, problem.job)
        if problem.where.startswith(_OVERRIDE):  # without a job: of the command line
            return swept if problem.job else None
        if swept and problem.job:
            return swept
        best = max(
            ((self._walked(file, parts), file) for file in self._files),
            key=lambda found: found[0][0],
        )
        (depth, line), file = best
        if depth == len(parts) or not swept:
            return (shown(str(file.path)), line) if depth else None
        return swept

    def _walked(self, file: ConfigFile, parts: Sequence[str]) -> _Found:
        package = file.package
        if tuple(parts[: len(package)]) != package:
            return 0, 0
        depth, line = _walk(file.root, parts[len(package) :])
        return (depth + len(package), line) if depth else (0, 0)

    # ------------------------------------------------------------------------ sweep
    def _in_sweep(self, parts: Sequence[str], job: str) -> Place | None:
        """Where a sweep sets a key; of several places the one of the job's stage."""
        if parts[0] == "sweep":
            return None
        own = {stage for stage in self._stages if stage and _is_held(stage, job)}
        found = [
            (depth, stage in own, at, line)
            for stage, (depth, at, line) in self._set_at(tuple(parts)).items()
            if not (own and stage is not None and stage not in own)
        ]
        if not found:
            return None
        *_, at, line = max(found)
        return shown(str(self._files[-at].path)), -line

    @cached_property
    def _nodes(self) -> Sequence[_Node]:
        """The mappings of sweeps: number of the file, the mapping, its stage."""
        return [
            (at, node, _stage_of(node))
            for at, file in enumerate(self._files)
            if (sweep := child(file.root, "sweep")) is not None
            for node in _mappings(sweep, set())
        ]

    @cached_property
    def _stages(self) -> Collection[str | None]:
        return {stage for *_, stage in self._nodes}

    def _set_at(self, parts: tuple[str, ...]) -> Mapping[str | None, _Set]:
        """Stage -> where a sweep sets a key; findings of many jobs are of few keys."""
        if parts not in self._sets:
            best: dict[str | None, _Set] = {}
            for at, node, stage in self._nodes:
                depth, line = _walk(node, parts)
                if depth:
                    found = (depth, -at, -line)
                    best[stage] = max(found, best.get(stage, found))
            self._sets[parts] = best
        return self._sets[parts]


# ------------------------------------------------------------------------------ trees
def _walk(node: yaml.Node, parts: Sequence[str]) -> _Found:
    """As far as a path leads; a literal dotted key is taken whole."""
    best: _Found = (0, 0)
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            own = _PART.findall(str(name.value).lstrip("+~"))
            size = len(own)
            if size and list(parts[:size]) == own:
                deeper, line = _walk(value, parts[size:])
                here = line if deeper else name.start_mark.line + 1
                best = max(best, (size + deeper, here))
    elif isinstance(node, yaml.SequenceNode) and parts and parts[0].isdigit():
        at = int(parts[0])
        if at < len(node.value):
            item = node.value[at]
            deeper, line = _walk(item, parts[1:])
            best = (1 + deeper, line if deeper else item.start_mark.line + 1)
    return best


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
