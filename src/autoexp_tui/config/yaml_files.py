"""Reads config files: once each, with findings that name file and line; and tells in
which file, and at which line, a key of a config stands.

YAML means here what OmegaConf takes it for (`1e-4` is a number, no dates, a key twice
is refused); `${oc.eval:...}` is brought into typed form. What is found of a key is the
key itself, or as much of its path as there is; what a job chose in its sweep leads to
the one entry, or the one value, that it has.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml
from omegaconf import Container, OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import GrammarParseError, OmegaConfBaseException

from autoexp_tui.config.resolvers import OPEN, rewrite_tree
from autoexp_tui.model.errors import Problem, find_written_place
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.sweep.points import Entries, Origins, shorten_text
from autoexp_tui.sweep.schema import BODIES
from autoexp_tui.text.plain_tree import map_texts

MAX_DEPTH: Final = 60
"""Lists and mappings inside one another."""
MAX_VALUES: Final = 500_000
"""Values of a file, each alias counted as what it stands for."""


def check_size(
    node: yaml.Node, path: str, known: dict[int, tuple[int, int]], depth: int = 1
) -> tuple[int, int]:
    """The values that a node stands for, and its levels; each node is counted once.
    `known`: of the nodes counted so far. Raises CannotCompose: too deep (as what holds
    itself is), or too many values."""
    if depth > MAX_DEPTH:
        raise CannotCompose((explain_too_deep(locate(node, path)),))
    if id(node) not in known:
        below = [check_size(one, path, known, depth + 1) for one in children(node)]
        values = 1 + sum(size for size, _ in below)
        levels = 1 + max((deep for _, deep in below), default=0)
        if levels > MAX_DEPTH:
            raise CannotCompose((explain_too_deep(locate(node, path)),))
        if values > MAX_VALUES:
            message = f"stands for more than {MAX_VALUES:,} values, aliases followed"
            hint = "a sweep of params makes many jobs of few lines; "
            hint += "aliases repeat values"
            raise make_refusal(message, locate(node, path), hint)
        known[id(node)] = values, levels
    return known[id(node)]


def children(node: yaml.Node) -> Sequence[yaml.Node]:
    """The nodes directly below one: items, or keys and values."""
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return ()


def list_nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Every node, each once (aliases share nodes), in the order of the file."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack += reversed(children(node))


def locate(node: yaml.Node, path: str) -> str:
    """The file and line at which a node begins."""
    return f"{path}:{_find_line(node)}"


def _find_line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def explain_too_deep(where: str) -> Problem:
    """That something is nested too deeply."""
    hint = "keep what belongs together in one mapping, and name it"
    return Problem(f"is nested more than {MAX_DEPTH} levels deep", where, hint=hint)


SCHEME: Final = "autoexp"
_REFERENCE: Final = re.compile(
    r"(?:[A-Za-z_]\w*[.\[=].*"
    r"|stage|index|family|name|output_dir|log_dir|log_path|log_path_current|script_path)"
)
"""What stands between single braces when it is one of our references."""
_OPEN_REFERENCE: Final = re.compile(
    r"(?:^|[\s:,\[-])\{(?:sibling|base|parent|all|aux|runtime|any|project)[.\[]"
)
"""The start of a reference in YAML text that does not parse."""
_Loader: Final[Any] = get_yaml_loader()
"""Private to OmegaConf, which has no other way to say what YAML means to it."""


@dataclass(frozen=True, slots=True)
class ConfigText:
    """A config file as read: `blob` unpickles to a fresh container each time."""

    blob: bytes
    head: str
    """The first characters, where Hydra looks for `# @package`."""
    root: yaml.Node | None
    """With the lines of its keys; None of an empty file."""


class YamlFiles:
    """A cache of parsed files by path, size and time of change."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int], ConfigText]] = {}
        self._written: dict[str, str] = {}

    def load(self, path: str) -> ConfigText:
        """The file at `path`; raises CannotCompose with file and line."""
        stamp = (0, 0)
        with suppress(OSError):  # what cannot be read is told by `read_text`
            found = os.stat(path)
            stamp = found.st_mtime_ns, found.st_size
        known = self._read.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        text = read_text(path)
        root, value = parse_nodes(text, path)
        tree = rewrite_tree(value, self._written) if OPEN in text else value
        config = _create_container(tree, root, path)
        loaded = ConfigText(pickle.dumps(config), text[:512], root)
        self._read[path] = (stamp, loaded)
        return loaded

    def as_written(self, value: object) -> object:
        """`value` with its texts as they stand in the files, before they were typed."""
        return map_texts(value, lambda text: self._written.get(text, text))


FILES: Final = YamlFiles()
"""Those of this process: Hydra reads them again and again."""


def show_path(path: str) -> str:
    """`path` as people write it: relative when it lies below the working directory."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def make_refusal(message: str, where: str, hint: str = "") -> CannotCompose:
    """An error with one finding."""
    return CannotCompose((Problem(message, where=where, hint=hint),))


def read_text(path: str) -> str:
    """The file's text; raises CannotCompose where it is unreadable, or not UTF-8."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        message, hint = f"byte {error.start} is not UTF-8", "save it as UTF-8 text"
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        hint = "check the path and its mode"
    raise make_refusal(message, show_path(path), hint)


def parse_nodes(text: str, path: str) -> tuple[yaml.Node | None, object]:
    """The document in `text`: its tree with its lines, and as plain Python. None when
    it is empty. Raises CannotCompose for broken YAML, or a reference that was not
    quoted."""
    where = show_path(path)
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return None, None
        check_size(root, where, {})
        found = (one for node in list_nodes(root) for one in _find_misread(node, where))
        if problems := tuple(found):
            raise CannotCompose(problems)
        return root, loader.construct_document(root)
    except yaml.YAMLError as error:
        raise CannotCompose((_describe_error(error, text, path),)) from None
    except RecursionError:
        raise CannotCompose((explain_too_deep(where),)) from None
    except (ValueError, LookupError, OverflowError) as error:
        message = f"has a value that cannot be read: {shorten_text(str(error))}"
        raise make_refusal(message, where, "quote it, if it is text") from None


def _find_misread(node: yaml.Node, path: str) -> Iterator[Problem]:
    """What YAML reads as something that nobody means here."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    is_flow = isinstance(node, yaml.MappingNode) and node.flow_style
    for key, value in pairs:
        is_bare = isinstance(key, yaml.ScalarNode) and not key.style
        is_alone = value.start_mark.index == value.end_mark.index and value.value == ""
        if is_bare and is_alone and is_flow and _REFERENCE.fullmatch(key.value):
            text = f"{{{key.value}}}"
            message, hint = "is a YAML mapping, not a reference", f'quote it: "{text}"'
            yield Problem(f"{text} {message}", locate(key, path), hint=hint)
    text = node.value if isinstance(node, yaml.ScalarNode) else ""
    if "\0" in text:
        hint = "take it out: no command can hold one"
        yield Problem("holds a null character", locate(node, path), hint=hint)
    elif ":" in text and node.tag.endswith((":int", ":float")):
        message = f"{text} is a number in base 60 to YAML"
        yield Problem(message, locate(node, path), hint=f'quote it: "{text}"')


def _describe_error(error: Any, text: str, path: str) -> Problem:
    """What YAML complains about, with the line and how to mend it."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        reason = f"the character {text[error.position]!a} is not allowed"
        where = f"{show_path(path)}:{line}"
        return Problem(f"is not YAML: {reason}", where, hint="take it out")
    mark, begun = error.problem_mark or error.context_mark, error.context_mark
    lines = [*text.splitlines(), "", ""]
    cause, line = error.problem, lines[mark.line]
    if error.context:
        since = begun and begun.line != mark.line
        cause += f" ({error.context}"
        cause += f" that begins in line {begun.line + 1})" if since else ")"
    around = lines[max(0, mark.line - 1) : mark.line + 1]
    if "\t" in line and "\\t" in cause:
        hint = "indent with spaces; YAML does not take tabs"
    elif any(_OPEN_REFERENCE.search(one) for one in around):
        hint = 'quote it: "{...}". Without quotes, braces are a YAML mapping.'
    elif "${" in line:
        hint = 'quote the value: "${...}"'
    else:
        hint = "check indentation, and quote text that holds : # { } [ ] or *"
    return Problem(
        f"is not YAML: {cause}: {shorten_text(line.strip())!r}",
        where=f"{show_path(path)}:{mark.line + 1}",
        hint=hint,
    )


def _create_container(tree: object, root: yaml.Node | None, path: str) -> Container:
    where = show_path(path)
    if not isinstance(tree, dict | list | None):
        hint = "a config file is a mapping: `key: value` lines"
        raise make_refusal(f"holds only {tree!r}", where, hint)
    try:
        return OmegaConf.create({} if tree is None else tree)
    except RecursionError:
        raise CannotCompose((explain_too_deep(where),)) from None
    except OmegaConfBaseException as error:
        _, line = walk(root, split_path(str(error.full_key or "")))
        message, hint = shorten_text(str(error).splitlines()[0], 200), ""
        if isinstance(error, GrammarParseError):
            message = f"does not parse: {message}"
            hint = "an interpolation is ${key}, ${.key}, or ${resolver:'text',...}"
        place = f"{where}:{line}" if line else where
        raise make_refusal(message, place, hint) from None


_PART: Final = re.compile(r"[^.\[\]]+")
_OVERRIDE: Final = "override "
"""What findings about one begin their place with."""
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
                root = FILES.load(os.path.realpath(path)).root
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
        `entries`: what its job chose in the sweep, where that is known."""
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
        place = self.find(problem, origins.get(problem.job))
        return replace(problem, place=f"{place[0]}:{place[1]}") if place else problem


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
    """As far as a path leads; a literal dotted key is taken whole. `chosen`: keys with
    several values -> which of them is meant."""
    best = NOTHING
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        own = split_path(str(name.value))
        if not own or tuple(parts[: len(own)]) != own:
            continue
        line, at = _find_line(name), chosen.get(str(name.value))
        if at is not None and isinstance(value, yaml.SequenceNode):
            items, value = value.value, next(iter(value.value[at : at + 1]), None)
            line = _find_line(value) if value and len(items) > 1 else line
        depth, below = walk(value, parts[len(own) :])
        best = max(best, (len(own) + depth, below or line))
    if isinstance(node, yaml.SequenceNode) and parts and parts[0].isdigit():
        for item in node.value[int(parts[0]) :][:1]:
            depth, below = walk(item, parts[1:])
            best = max(best, (1 + depth, below or _find_line(item)))
    return best


def find_in_sweep(
    root: yaml.Node, parts: Sequence[str], entries: Entries | None
) -> Found:
    """Where a sweep sets a key, for a job that chose `entries`, or first of all."""
    if entries is None:
        found = [walk(node, parts) for node in list_nodes(root)]
    else:  # what comes later covers what was before
        found = [*_search_sweep(root, parts, entries)][::-1]
    return max(found, key=lambda one: one[0], default=NOTHING)


def _search_sweep(
    node: yaml.Node, parts: Sequence[str], entries: Entries, address: str = ""
) -> Iterator[Found]:
    """What one job chose, in the order in which it counts. `address`: of the node."""
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
