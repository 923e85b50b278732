"""In which file, and at which line, a key of a config stands.

Findings of planning name keys: of the composed config, of the sweep, or of what the
sweep sets. Looked for are the primary config and the group files that its defaults
choose. What is found is the key itself, or as much of its path as there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from autoexp_tui.adapters.yaml_files import shown
from autoexp_tui.core.errors import Problem

_PLACED: Final = re.compile(r"^(?P<path>[^\s:]+\.ya?ml):(?P<line>\d+)")
_PART: Final = re.compile(r"[^.\[\]]+")
_MOST_BYTES: Final = 1 << 20
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Place: TypeAlias = tuple[str, int]
"""A file as people write it, and a line from 1 on."""
_Found: TypeAlias = tuple[int, int]
"""How many parts of a path were found, and the line of the last."""


@dataclass(frozen=True, slots=True)
class _File:
    """A config file, and where its keys go in the composed config."""

    path: Path
    package: tuple[str, ...]
    root: yaml.Node


class KeyPlaces:
    """The places of keys of one config; its files are read once."""

    def __init__(self, config_dir: Path, config_ref: str) -> None:
        self._dir = config_dir
        self._files = tuple(self._read(config_ref))

    def of(self, problem: Problem) -> Place | None:
        """Where a finding belongs; None when no file has anything of its key."""
        written = _PLACED.match(problem.where)
        if written:
            return written["path"], int(written["line"])
        parts = tuple(_PART.findall(problem.where))
        if not self._files or not parts:
            return None
        swept = self._in_sweep(parts, problem.job)
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

    # ------------------------------------------------------------------------ files
    def _read(self, config_ref: str) -> Iterator[_File]:
        primary = _composed(self._dir / f"{config_ref}.yaml")
        if primary is None:
            return
        yield _File(self._dir / f"{config_ref}.yaml", (), primary)
        for group, name in _defaults(primary):
            path = self._dir / group / f"{name}.yaml"
            found = _composed(path)
            if found is not None:
                yield _File(path, tuple(group.split("/")) if group else (), found)

    def _walked(self, file: _File, parts: Sequence[str]) -> _Found:
        package = file.package
        if tuple(parts[: len(package)]) != package:
            return 0, 0
        depth, line = _walk(file.root, parts[len(package) :])
        return (depth + len(package), line) if depth else (0, 0)

    # ------------------------------------------------------------------------ sweep
    def _in_sweep(self, parts: Sequence[str], job: str) -> Place | None:
        """Where the sweep sets a key; of several places the one of the job's stage."""
        primary = self._files[0]
        sweep = _child(primary.root, "sweep")
        if sweep is None or parts[0] == "sweep":
            return None
        found = [
            (depth, _speaks_of(node, job), -line)
            for node in _mappings(sweep, set())
            for depth, line in [_walk(node, parts)]
            if depth
        ]
        if not found:
            return None
        return shown(str(primary.path)), -max(found)[2]


def _composed(path: Path) -> yaml.Node | None:
    """The tree of a file with its lines; None without one that reads."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8")
        root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    return root


def _defaults(root: yaml.Node) -> Iterator[tuple[str, str]]:
    """Group and choice of each entry of the defaults list that names a file."""
    entries = _child(root, "defaults")
    if not isinstance(entries, yaml.SequenceNode):
        return
    for entry in entries.value:
        if isinstance(entry, yaml.MappingNode):
            for key, value in entry.value:
                words = str(key.value).split()
                group = words[-1].partition("@")[0] if words else ""
                if isinstance(value, yaml.ScalarNode):
                    yield group.strip("/"), str(value.value)
        elif isinstance(entry, yaml.ScalarNode) and entry.value != "_self_":
            group, _, name = str(entry.value).strip("/").rpartition("/")
            yield group, name


# ------------------------------------------------------------------------------ trees
def _child(node: yaml.Node, key: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                return value  # type: ignore[no-any-return]
    return None


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


def _speaks_of(node: yaml.MappingNode, job: str) -> bool:
    """Whether a mapping names a stage that the job's own name, or label, holds."""
    for name, value in node.value:
        if str(name.value) in ("stage", "_stage", "name"):
            return str(value.value) in job
    return False
