"""Command-line overrides that reach into `sweep`, where keys may hold dots.

    sweep.groups.0.params.optim.lr=[1e-4,2e-4]

Hydra would look for `optim` inside `params`; we match the longest literal key first.
Lists are reached by position. Works on plain containers as written in the config.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from hydra.core.override_parser.types import Override

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.plain_tree import Path, at

INTO_SWEEP: Final = re.compile(r"(?:\+{0,2}|~)sweep\.")
_OPEN: Final = frozenset({"params", "configs", "grids", "defaults", "base_values"})
"""Below these, a key that is added is one literal key, dots and all."""


def apply_sweep_overrides(
    sweep: Mapping[str, object], overrides: Sequence[Override]
) -> dict[str, object]:
    """A changed `sweep`; raises CannotCompose with all overrides that reach nothing."""
    changed: dict[str, object] = copy.deepcopy(dict(sweep))
    problems: list[Problem] = []
    for override in overrides:
        text = override.key_or_group.partition(".")[2]
        by_length = sorted(_list_places(changed), key=len, reverse=True)
        places = {".".join(map(str, path)): path for path in by_length}
        if path := places.get(text, ()):
            holder = at(changed, path[:-1])
            if override.is_delete():
                del holder[path[-1]]
            else:
                holder[path[-1]] = override.value()
            continue
        above, names = text, list[str]()
        while above not in places:
            above, _, name = above.rpartition(".")
            names.insert(0, name)
        path, holder = places[above], at(changed, places[above])
        is_new = override.is_add() or override.is_force_add()
        if not is_new or not isinstance(holder, dict):
            known = sorted(filter(None, places))
            hint = did_you_mean(text, known, "keys of the sweep")
            where, hint = f"override {override.input_line}", f"{hint}; + adds"
            problems.append(Problem("names nothing in the sweep", where, hint=hint))
            continue
        if next((key for key in reversed(path) if isinstance(key, str)), "") in _OPEN:
            names = [".".join(names)]
        for name in names[:-1]:
            holder = holder.setdefault(name, {})
        holder[names[-1]] = override.value()
    if problems:
        raise CannotCompose(tuple(problems))
    return changed


def find_override(text: str, sweep: Mapping[str, object]) -> str:
    """An override whose key is a parameter of the sweep, as the one that reaches it
    there: as an override of the config it would do nothing, for the sweep's values win.
    Any other stays as it is. Raises CannotCompose: several nodes have that key."""
    key, equals, value = text.partition("=")
    plain = key.lstrip("+")
    places = [
        ".".join(map(str, path))
        for path in _list_places(dict(sweep))
        if len(path) > 1
        and isinstance(path[-1], str)
        and path[-1].lstrip("+") == plain
        and (path[-2] == "params" or path[-3:-2] == ("grids",))
    ]
    if not equals or not places:
        return text
    if len(places) > 1:
        message = f"the sweep has this parameter at {len(places)} places"
        hint = "name one of them: " + ", ".join(f"sweep.{one}=..." for one in places)
        raise CannotCompose((Problem(message, f"override {text}", hint=hint),))
    return f"sweep.{places[0]}={value}"


def _list_places(node: object, path: Path = ()) -> Iterator[Path]:
    """Every place of a tree, containers too."""
    yield path
    items: Iterable[tuple[str | int, object]] = ()
    if isinstance(node, dict):
        items = node.items()
    elif isinstance(node, list):
        items = enumerate(node)
    for key, inner in items:
        yield from _list_places(inner, (*path, key))
