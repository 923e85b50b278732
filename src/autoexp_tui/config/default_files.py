"""Which files a primary config is made of, by its defaults list, and where each goes.

A reading of the defaults alone, as far as it is certain: a choice that is interpolated
is not followed, and of the roots in `hydra.searchpath` those are that are directories
and stand before any other. Composing is Hydra's; this only tells people in which file
a key stands, and which of Hydra's own settings the files have.
The rules of packages: https://hydra.cc/docs/advanced/overriding_packages/
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from autoexp_tui.config.sweep_places import find_child
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.override_checks import check_hydra_key
from autoexp_tui.probes.yaml_limits import MAX_DEPTH

_HEADER: Final = re.compile(r"^\s*#\s*@package\s+(\S+)\s*$", re.MULTILINE)
_MOST_BYTES: Final = 1 << 20
_MOST_FILES: Final = 200
_GLOBAL: Final = "_global_"
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Package: TypeAlias = tuple[str, ...]
"""The keys under which a file's own keys lie."""
Choices: TypeAlias = Mapping[str, str]
"""Group, as an override names it -> what is chosen of it."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config file, and where its keys go in the composed config."""

    path: Path
    package: Package
    root: yaml.Node


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of a defaults list."""

    group: str
    """As written; empty for a file beside this one, or below the root."""
    name: str
    package: str | None
    """What stands behind the `@`."""
    overrides: bool = False

    def find_group(self, config: str) -> str:
        """The group's path below the root; relative ones begin at the file's own."""
        if self.group.startswith("/"):
            return self.group.strip("/")
        return posixpath.join(posixpath.dirname(config), self.group).strip("/")

    def find_package(self, around: Package) -> Package | None:
        """What is said behind the `@`; None: nothing."""
        if self.package is None:
            return None
        if self.package.startswith(_GLOBAL):
            return _read_package(self.package)
        bare = "" if self.package == "_here_" else self.package
        return (*around, *bare.split(".")) if bare else around


def list_config_files(
    roots: Sequence[Path], primary: str, choices: Choices
) -> Iterator[ConfigFile]:
    """The primary config, and the files that defaults lists choose below it.

    `roots`: where files are looked for, first to last; `choices`: of the command line.
    A file that does not read is passed over, with all that it would choose.
    """
    around = tuple(posixpath.dirname(primary).split("/")) if "/" in primary else ()
    yield from _DefaultsWalk(roots, choices).follow(primary, around, None)


class _DefaultsWalk:
    """Follows defaults lists; what is chosen further out counts."""

    def __init__(self, roots: Sequence[Path], choices: Choices) -> None:
        self._roots = list(roots)
        self._choices = dict(choices)
        self._seen: set[tuple[str, Package]] = set()

    def follow(
        self, config: str, around: Package, package: Package | None
    ) -> Iterator[ConfigFile]:
        """A file and what it chooses; `package` None: as the file itself says.

        `around`: the package where it says nothing.
        """
        places = (root / f"{config}.yaml" for root in self._roots)
        path = next((place for place in places if place.is_file()), None)
        root, text = (None, "") if path is None else _read_tree(path)
        if path is None or root is None:
            return
        if not self._seen and "hydra.searchpath" not in self._choices:
            self._roots[1:1] = _list_search_path(root)
        header = _HEADER.search(text[:512])
        if package is None and header is not None and header[1] != "_group_":
            package = _read_package(header[1])
        place = around if package is None else package
        if (config, place) in self._seen or len(self._seen) >= _MOST_FILES:
            return
        self._seen.add((config, place))
        yield ConfigFile(path, place, root)
        entries = list(_list_entries(root))
        for one in entries:
            if one.overrides:
                self._choices.setdefault(one.find_group(config), one.name)
        for one in entries:
            if not one.overrides:
                yield from self._follow_entry(one, config, place)

    def _follow_entry(
        self, entry: _Entry, config: str, around: Package
    ) -> Iterator[ConfigFile]:
        group, name = entry.find_group(config), entry.name
        for key in (f"{group}@{entry.package}", group):
            name = self._choices.get(key, name)
        relative = entry.group.strip("/")
        usual = (*around, *relative.split("/")) if relative else around
        chosen = f"{group}/{name}".lstrip("/")
        yield from self.follow(chosen, usual, entry.find_package(around))


def _read_tree(path: Path) -> tuple[yaml.Node | None, str]:
    """The tree of a file with its lines, and its text; None without one that reads."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8-sig")
        # Of one that is nested beyond all bounds, composing would need too much stack.
        changes = map(_change_depth, yaml.parse(text, Loader=_Loader))
        if any(depth > MAX_DEPTH for depth in accumulate(changes)):
            return None, ""
        return yaml.compose(text, Loader=_Loader), text
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None, ""


def _change_depth(event: yaml.Event) -> int:
    if isinstance(event, yaml.CollectionStartEvent):
        return 1
    return -1 if isinstance(event, yaml.CollectionEndEvent) else 0


def _read_package(package: str) -> Package:
    bare = package.removeprefix(_GLOBAL).strip(".")
    return tuple(bare.split(".")) if bare else ()


def _list_search_path(root: yaml.Node) -> Iterator[Path]:
    """The directories of `hydra.searchpath`, up to what is none for certain."""
    entries = find_child(find_child(root, "hydra"), "searchpath")
    for entry in entries.value if isinstance(entries, yaml.SequenceNode) else ():
        place = str(entry.value).removeprefix("file://")
        if not isinstance(entry, yaml.ScalarNode) or "://" in place or "${" in place:
            return
        yield Path(place)


def _list_entries(root: yaml.Node) -> Iterator[_Entry]:
    """Every entry of the defaults list that names a file."""
    entries = find_child(root, "defaults")
    for entry in entries.value if isinstance(entries, yaml.SequenceNode) else ():
        if isinstance(entry, yaml.MappingNode):
            for key, value in entry.value:
                yield from _list_choices(str(key.value), value)
        elif isinstance(entry, yaml.ScalarNode) and entry.value != "_self_":
            place, at, package = str(entry.value).partition("@")
            group, slash, name = place.rpartition("/")
            yield _Entry(group or slash, name, package if at else None)


def _list_choices(key: str, value: yaml.Node) -> Iterator[_Entry]:
    """`override /optim@train: adam`: flags, group and package of an entry."""
    *flags, word = key.split() or [""]
    group, at, package = word.partition("@")
    for node in value.value if isinstance(value, yaml.SequenceNode) else [value]:
        if isinstance(node, yaml.ScalarNode):
            name = str(node.value)
            yield _Entry(group, name, package if at else None, "override" in flags)


# ------------------------------------------------------------- Hydra's own settings
def check_hydra_settings(
    files: Iterable[ConfigFile], overrides: Sequence[str]
) -> Iterator[tuple[Problem, bool]]:
    """Findings of config files and of the command line; whether each is an error.

    Hydra's sweepers and launchers are replaced by `sweep` and `slurm`: a config that
    sets them would run one job where many were meant, so they are refused. Of the rest
    only `hydra.searchpath` has an effect.
    """
    keys = dict.fromkeys(key for file in files for key in _list_hydra_keys(file))
    given = (text.partition("=")[0].lstrip("+~") for text in overrides)
    wheres = {**{key: key for key in keys}, **{key: f"override {key}" for key in given}}
    for key, where in wheres.items():
        found = check_hydra_key(key, where)
        if found is not None:
            yield found


def _list_hydra_keys(file: ConfigFile) -> Iterator[str]:
    """Keys below `hydra` and groups of Hydra's own that a file sets."""
    of_hydra = file.package == ("hydra",)
    node = file.root if of_hydra else find_child(file.root, "hydra")
    if isinstance(node, yaml.MappingNode) and not file.package[1:]:
        yield from (f"hydra.{key.value}" for key, _ in node.value)
    groups = (entry.group.strip("/") for entry in _list_entries(file.root))
    yield from (group for group in groups if group.startswith("hydra/"))
