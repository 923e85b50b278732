"""At which line of a YAML tree a dotted path stands; which line gives a job its value.

What a job chose in its sweep leads to the one entry, or the one value, that it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import yaml

from autoexp_tui.probes.yaml_limits import list_nodes
from autoexp_tui.sweep.provenance import Entries
from autoexp_tui.sweep.schema import BODIES

_PART: Final = re.compile(r"[^.\[\]]+")
_COVERED: Final = ("base_values", "defaults")
"""Keys of a node whose values its body covers."""

Found: TypeAlias = tuple[int, int]
"""How many parts of a path were found, and the line (from 1 on) of the last."""
NOTHING: Final[Found] = (0, 0)


# ---------------------------------------------------------------------- paths of a tree
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


def walk(node: yaml.Node, parts: Sequence[str]) -> Found:
    """As far as a path leads; a literal dotted key is taken whole."""
    best = NOTHING
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            own = split_path(str(name.value))
            if own and tuple(parts[: len(own)]) == own:
                found = walk(value, parts[len(own) :])
                best = max(best, _add_parts(len(own), found, _line_of(name)))
    elif isinstance(node, yaml.SequenceNode) and parts and parts[0].isdigit():
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
        return max((walk(node, parts) for node in list_nodes(root)), key=_depth)
    found = [*_SweepSearch(parts, entries, of_value).search_root(root)]
    # What comes later covers what was before.
    return max(reversed(found), key=_depth, default=NOTHING)


def _depth(found: Found) -> int:
    return found[0]


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
            yield from self._walk_children(derived, "parameter_overrides")

    def _find_derived(self, root: yaml.Node) -> yaml.Node | None:
        """The entry that made a derived job."""
        jobs = find_child(root, "derived_jobs")
        at = self.entries.get("derived_jobs", 0)  # of the base job it is 0
        if isinstance(jobs, yaml.SequenceNode) and 0 < at <= len(jobs.value):
            return jobs.value[at - 1]  # type: ignore[no-any-return]
        return None

    def _search_node(self, node: yaml.Node, address: str) -> Iterator[Found]:
        yield from self._walk_children(node, *_COVERED)
        yield self._search_params(find_child(node, "params"), _join(address, "params"))
        for key in ("configs", "groups"):
            place = _join(address, key)
            for at, entry in self._list_chosen(find_child(node, key), place):
                if any(find_child(entry, body) is not None for body in BODIES):
                    yield from self._search_node(entry, f"{place}.{at}")
                else:
                    yield walk(entry, self.parts)

    def _walk_children(self, node: yaml.Node, *keys: str) -> Iterator[Found]:
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
        for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
            own = split_path(str(name.value))
            if own and tuple(self.parts[: len(own)]) == own:
                at = self.entries.get(_join(address, str(name.value)))
                found = self._search_value(value, at, self.parts[len(own) :])
                best = max(best, _add_parts(len(own), found, _line_of(name)))
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
