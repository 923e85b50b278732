"""Which files a primary config is made of, by its defaults list, and where each goes.

A reading of the defaults alone, as far as it is certain: a choice is interpolated by
names of groups alone (`${optim}`), and of the roots in `hydra.searchpath` those are
followed that are directories and stand before any other. Composing is Hydra's; this
only tells people in which file a key stands.
The rules of packages: https://hydra.cc/docs/advanced/overriding_packages/
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from autoexp_tui.probes.yaml_limits import MAX_DEPTH

_HEADER: Final = re.compile(r"^\s*#\s*@package\s+(\S+)\s*$", re.MULTILINE)
_MOST_BYTES: Final = 1 << 20
_MOST_FILES: Final = 200
_CHOSEN: Final = re.compile(r"\$\{(\w+)\}")
"""Another group's choice, inside one."""
_SEARCHED: Final = "hydra.searchpath"
_FILE: Final = "file://"
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
class DefaultsEntry:
    """One entry of a defaults list."""

    group: str
    """As written; empty for a file beside this one, or below the root."""
    name: str
    package: str | None
    """What stands behind the `@`."""
    overrides: bool


def config_files(
    roots: Sequence[Path], primary: str, choices: Choices
) -> Iterator[ConfigFile]:
    """The primary config, and the files that defaults lists choose below it.

    `roots`: where files are looked for, first to last; `choices`: of the command line.
    A file that does not read is passed over, with all that it would choose.
    """
    folder = posixpath.dirname(primary)
    around = tuple(folder.split("/")) if folder else ()
    yield from _Walk(roots, dict(choices)).below(primary, around, None)


def node_of(path: Path) -> tuple[yaml.Node | None, str]:
    """The tree of a file with its lines, and its text; None without one that reads."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8-sig")
        if _is_too_deep(text):
            return None, ""
        return yaml.compose(text, Loader=_Loader), text
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None, ""


def _is_too_deep(text: str) -> bool:
    """Whether no config may be nested so: composing it would need too much stack."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            return True
    return False


def child(node: yaml.Node, key: str) -> yaml.Node | None:
    """The value of a key of a mapping; None where there is none."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                return value  # type: ignore[no-any-return]
    return None


class _Walk:
    """Follows defaults lists; what is chosen further out counts."""

    def __init__(self, roots: Sequence[Path], choices: dict[str, str]) -> None:
        self._roots = list(roots)
        self._choices = choices
        self._seen: set[tuple[str, Package]] = set()
        self._named_groups: dict[str, str] = {}
        """Group -> choice, in the primary config."""

    def below(
        self, config: str, around: Package, package: Package | None
    ) -> Iterator[ConfigFile]:
        """A file and what it chooses; `package` None: as the file itself says.

        `around`: the package where it says nothing.
        """
        path, node, text = self._found(f"{config}.yaml")
        if node is None:
            return
        if not self._seen and _SEARCHED not in self._choices:
            self._roots[1:1] = _searched(node)
        header = _HEADER.search(text[:512])
        if package is None and header is not None:
            package = _absolute(header[1])
        place = around if package is None else package
        if (config, place) in self._seen or len(self._seen) >= _MOST_FILES:
            return
        self._seen.add((config, place))
        yield ConfigFile(path, place, node)
        entries = list(defaults_entries(node))
        for one in entries:
            if one.overrides:
                self._choices.setdefault(_named(one, config), one.name)
        if not self._named_groups:
            plain = (one for one in entries if not one.overrides and not one.package)
            self._named_groups = {_named(one, config): one.name for one in plain}
        for one in entries:
            if not one.overrides:
                yield from self._chosen(one, config, place)

    def _chosen(
        self, one: DefaultsEntry, config: str, around: Package
    ) -> Iterator[ConfigFile]:
        group = _named(one, config)
        name = one.name
        for key in (f"{group}@{one.package}", group):
            name = self._choices.get(key, name)
        name = _CHOSEN.sub(self._choice, name)
        relative = one.group.strip("/")
        usual = (*around, *relative.split("/")) if relative else around
        given = None if one.package is None else _packaged(one.package, around)
        yield from self.below(f"{group}/{name}".lstrip("/"), usual, given)

    def _found(self, name: str) -> tuple[Path, yaml.Node | None, str]:
        """The file of the first root that has it."""
        for root in self._roots:
            if (root / name).is_file():
                return (root / name, *node_of(root / name))
        return self._roots[0] / name, None, ""

    def _choice(self, match: re.Match[str]) -> str:
        """What the primary config, or the command line, chooses of a group."""
        group = match[1]
        return self._choices.get(group, self._named_groups.get(group, match[0]))


def _searched(root: yaml.Node) -> Iterator[Path]:
    """The directories of `hydra.searchpath`, up to what is none for certain."""
    hydra = child(root, "hydra")
    entries = child(hydra, "searchpath") if hydra is not None else None
    for entry in entries.value if isinstance(entries, yaml.SequenceNode) else ():
        place = str(entry.value).removeprefix(_FILE)
        if not isinstance(entry, yaml.ScalarNode) or "://" in place or "${" in place:
            return
        yield Path(place)


def _named(one: DefaultsEntry, config: str) -> str:
    """The group's path below the root; relative ones begin at the file's own."""
    if one.group.startswith("/"):
        return one.group.strip("/")
    return posixpath.join(posixpath.dirname(config), one.group).strip("/")


def _absolute(package: str) -> Package | None:
    """What a file's first line says; None: that it lies where it is chosen."""
    if package == "_group_":
        return None
    bare = package.removeprefix(_GLOBAL).strip(".")
    return tuple(bare.split(".")) if bare else ()


def _packaged(package: str, around: Package) -> Package:
    if package.startswith(_GLOBAL):
        return _absolute(package) or ()
    bare = "" if package == "_here_" else package
    return (*around, *bare.split(".")) if bare else around


def defaults_entries(root: yaml.Node) -> Iterator[DefaultsEntry]:
    """Every entry of the defaults list that names a file."""
    entries = child(root, "defaults")
    if not isinstance(entries, yaml.SequenceNode):
        return
    for entry in entries.value:
        if isinstance(entry, yaml.MappingNode):
            for key, value in entry.value:
                yield from _of_group(str(key.value), _names(value))
        elif isinstance(entry, yaml.ScalarNode) and entry.value != "_self_":
            place, at, package = str(entry.value).partition("@")
            group, slash, name = place.rpartition("/")
            group = group or slash
            yield DefaultsEntry(group, name, package if at else None, overrides=False)


def _names(value: yaml.Node) -> Sequence[str]:
    nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
    return [str(node.value) for node in nodes if isinstance(node, yaml.ScalarNode)]


def _of_group(key: str, names: Sequence[str]) -> Iterator[DefaultsEntry]:
    """`override /optim@train: adam`: flags, group and package of an entry."""
    words = key.split()
    if not words:
        return
    group, at, package = words[-1].partition("@")
    flags = words[:-1]
    for name in names:
        yield DefaultsEntry(group, name, package if at else None, "override" in flags)
