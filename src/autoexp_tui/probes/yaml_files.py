"""Reads config files: once each, with findings that name file and line.

YAML means here what OmegaConf takes it for (`1e-4` is a number, no dates, a key twice
is refused). After parsing, `${oc.eval:...}` is brought into typed form and the entries
of `hydra.searchpath` are sent through our own source. Composing is done elsewhere.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from omegaconf import Container, OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import OmegaConfBaseException

from autoexp_tui.config.eval_rewrite import rewrite, rewrite_tree
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.probes.yaml_limits import (
    NOT_READ,
    children,
    excess,
    strangers,
    too_deep,
    unreadable,
)

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
_QUOTE_IT: Final = 'quote it: "{...}". Without quotes, braces are a YAML mapping.'
_TAB: Final = "indent with spaces; YAML does not take tabs"
_UTF8: Final = "save it as UTF-8 text"
_HINTS: Final = {
    "duplicate key": "keep one of the two",
    "another document": "a file is one document: take out the second `---`",
    "undefined alias": "name it before with `&`; text that begins with * wants quotes",
    "unknown escape character": "double the backslash, or use single quotes",
    "for merging": "`<<` takes a mapping: `<<: *name`",
}
"""What to do, by words of YAML's own complaint."""
_MOST_SHOWN: Final = 100
"""Characters of a faulty line, or value, that are shown."""

_Loader: Final[Any] = get_yaml_loader()


@dataclass(frozen=True, slots=True)
class ConfigText:
    """A config file as read: `blob` unpickles to a fresh container each time."""

    blob: bytes
    head: str
    """The first characters, where Hydra looks for `# @package`."""

    def container(self) -> Container:
        """A container of one's own; the caller may change it."""
        found: Container = pickle.loads(self.blob)
        return found


class YamlFiles:
    """A cache of parsed files by path, size and time of change."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int], ConfigText]] = {}
        self.parsed = 0
        """Files parsed so far; a file that did not change is parsed once."""
        self._written: dict[str, str] = {}

    def load(self, path: str) -> ConfigText:
        """The file at `path`.

        Raises:
            CannotCompose: it cannot be read or is no YAML; names file and line.
        """
        stamp = _stamp(path)
        known = self._read.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        self.parsed += 1
        text = read_text(path)
        tree = _routed(rewrite_tree(parse_yaml(text, path), self._written))
        config = _created(tree, text, path)
        loaded = ConfigText(pickle.dumps(config), text[:512])
        self._read[path] = (stamp, loaded)
        return loaded

    def as_written(self, value: object) -> object:
        """`value` with its texts as they stand in the files, before they were typed."""
        if isinstance(value, str):
            return self._written.get(value, value)
        if isinstance(value, dict):
            return {key: self.as_written(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.as_written(item) for item in value]
        return value


def shown(path: str) -> str:
    """`path` as people write it: relative when it lies below the working directory."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def refused(message: str, where: str, hint: str = "") -> CannotCompose:
    """An error with one finding."""
    return CannotCompose((Problem(message, where=where, hint=hint),))


def read_text(path: str) -> str:
    """The file's text.

    Raises:
        CannotCompose: unreadable, or not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not UTF-8"
        raise refused(message, shown(path), _UTF8) from None
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise refused(message, shown(path), "check the path and its mode") from None


def parse_yaml(text: str, path: str) -> object:
    """The document in `text` as plain Python; None when it is empty.

    Raises:
        CannotCompose: broken YAML, or a reference that was not quoted.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_excess(node, path)
        _refuse_unquoted(node, path)
        return _constructed(loader, node, path)
    except yaml.YAMLError as error:
        raise CannotCompose((_yaml_problem(error, text, path),)) from None
    except RecursionError:
        raise CannotCompose((too_deep(shown(path)),)) from None


def _constructed(loader: Any, node: yaml.Node, path: str) -> object:
    try:
        return loader.construct_document(node)
    except NOT_READ:
        problems = tuple(unreadable(_nodes(node), shown(path)))
        if not problems:
            raise
        raise CannotCompose(problems) from None


def _refuse_excess(node: yaml.Node, path: str) -> None:
    """Refuse what would run away, and what no config holds."""
    found = excess(node, shown(path))
    odd = () if found else strangers(_nodes(node), shown(path))
    problems = (found,) if found else tuple(sorted(odd, key=_line))
    if problems:
        raise CannotCompose(problems)


def _line(problem: Problem) -> int:
    return int(problem.where.rpartition(":")[2])


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise refused(f"cannot be read: {error.strerror}", shown(path)) from None
    return found.st_mtime_ns, found.st_size


# ----------------------------------------------------------- references in braces
def _refuse_unquoted(node: yaml.Node, path: str) -> None:
    """Refuse what YAML reads as something that nobody means here."""
    problems = tuple(
        Problem(
            message,
            where=f"{shown(path)}:{found.start_mark.line + 1}",
            hint=f'quote it: "{text}"',
        )
        for found, message, text in _unquoted(node)
    )
    if problems:
        raise CannotCompose(problems)


def _unquoted(node: yaml.Node) -> Iterator[tuple[yaml.Node, str, str]]:
    """(place, what is wrong, the text to quote) for each."""
    for found in _nodes(node):
        if isinstance(found, yaml.ScalarNode):
            if ":" in found.value and found.tag.endswith((":int", ":float")):
                value = found.value
                yield found, f"{value} is a number in base 60 to YAML", value
        elif isinstance(found, yaml.MappingNode) and found.flow_style:
            for key, value in found.value:
                if _is_bare_reference(key, value):
                    text = f"{{{key.value}}}"
                    yield key, f"{text} is a YAML mapping, not a reference", text


def _is_bare_reference(key: yaml.Node, value: yaml.Node) -> bool:
    nothing = value.start_mark.index == value.end_mark.index and value.value == ""
    plain = isinstance(key, yaml.ScalarNode) and not key.style
    return nothing and plain and bool(_REFERENCE.fullmatch(key.value))


def _nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Every node, each once (aliases share nodes), in the order of the file."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack += reversed(children(node))


# ------------------------------------------------------------------- broken YAML
def _yaml_problem(error: yaml.YAMLError, text: str, path: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    reason = str(getattr(error, "problem", None) or getattr(error, "reason", error))
    if mark is None:
        return _unreadable_character(error, reason, text, path)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    context = getattr(error, "context", None)
    begun = getattr(error, "context_mark", None)
    if context and begun is not None and begun.line != mark.line:
        context += f" that begins in line {begun.line + 1}"
    cause = f"{reason} ({context})" if context else reason
    return Problem(
        f"is not YAML: {cause}: {_cut(line.strip())!r}",
        where=f"{shown(path)}:{mark.line + 1}",
        hint=_unclosed(error, mark.line)
        or _yaml_hint(line, reason, lines[max(0, mark.line - 1) : mark.line + 1]),
    )


def _unreadable_character(
    error: yaml.YAMLError, reason: str, text: str, path: str
) -> Problem:
    """A character that YAML does not take, by line."""
    position = getattr(error, "position", None)
    where = shown(path)
    if isinstance(position, int):
        where += f":{text.count(chr(10), 0, position) + 1}"
        reason = f"the character {text[position : position + 1]!a} is not allowed"
    return Problem(f"is not YAML: {reason}", where=where, hint="take it out")


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


def _unclosed(error: yaml.YAMLError, line: int) -> str:
    """The hint for a bracket or quote of an earlier line that nothing closes."""
    begun = getattr(error, "context_mark", None)
    context = str(getattr(error, "context", None) or "")
    if begun is None or begun.line == line:
        return ""
    for word, what in (
        ("flow sequence", "["),
        ("flow mapping", "{"),
        ("scalar", "quote"),
    ):
        if word in context:
            return f"close the {what} of line {begun.line + 1}"
    return ""


def _yaml_hint(line: str, reason: str, around: list[str]) -> str:
    if "\t" in line and "\\t" in reason:
        return _TAB
    if any(_OPEN_REFERENCE.search(near) for near in around):
        return _QUOTE_IT
    for words, hint in _HINTS.items():
        if words in reason:
            return hint
    if "${" in line:
        return 'quote the value: "${...}"'
    return "check indentation, and quote text that holds : # { } [ ] or *"


# ------------------------------------------------------------------ to OmegaConf
def _routed(tree: object) -> object:
    """`hydra.searchpath` sent through our source; each entry may be interpolated."""
    hydra = tree.get("hydra") if isinstance(tree, dict) else None
    paths = hydra.get("searchpath") if isinstance(hydra, dict) else None
    if isinstance(paths, list):
        hydra["searchpath"] = [routed(entry) for entry in paths]  # type: ignore[index]
    return tree


def routed(entry: object) -> object:
    """One search path entry under our scheme, whatever it names."""
    if not isinstance(entry, str) or entry.startswith(("structured:", SCHEME)):
        return entry
    return f"{SCHEME}://{entry}"


def _created(tree: object, text: str, path: str) -> Container:
    if not isinstance(tree, dict | list | None):
        hint = "a config file is a mapping: `key: value` lines"
        raise refused(f"holds only {tree!r}", shown(path), hint)
    try:
        return OmegaConf.create({} if tree is None else tree)
    except OmegaConfBaseException as error:
        raise CannotCompose(tuple(_broken_values(error, text, path))) from None


def _broken_values(
    error: OmegaConfBaseException, text: str, path: str
) -> Iterator[Problem]:
    """The scalars whose interpolation does not parse, by line."""
    found = False
    root = yaml.compose(text, Loader=_Loader)
    for node in _nodes(root) if root else ():
        reason = _broken(node)
        if reason:
            found = True
            yield Problem(
                f"{_cut(node.value)!r} does not parse: {_cut(reason)}",
                where=f"{shown(path)}:{node.start_mark.line + 1}",
                hint="an interpolation is ${key}, ${.key}, or ${resolver:'text',...}",
            )
    if not found:
        yield Problem(str(error).splitlines()[0], where=shown(path))


def _broken(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or "${" not in node.value:
        return ""
    try:
        OmegaConf.create({"value": rewrite(node.value)})
    except OmegaConfBaseException as error:
        return str(error).splitlines()[0]
    return ""
