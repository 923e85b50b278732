"""Reads config files: once each, with findings that name file and line.

YAML means here what OmegaConf takes it for (`1e-4` is a number, no dates, a key twice
is refused); `${oc.eval:...}` is brought into typed form.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import yaml
from omegaconf import Container, OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import OmegaConfBaseException

from autoexp_tui.config.resolvers import OPEN, rewrite, rewrite_tree
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.sweep.points import shorten_text

MAX_DEPTH: Final = 60
"""Lists and mappings inside one another, and `${...}` inside one another."""
MAX_VALUES: Final = 500_000
"""Values of a file, each alias counted as what it stands for."""


def check_size(
    node: yaml.Node, path: str, known: dict[int, tuple[int, int]], depth: int = 1
) -> tuple[int, int]:
    """The values that a node stands for, and its levels; each node is counted once.

    `path`: as people write it; `known`: of the nodes counted so far. Raises
    CannotCompose: too deep (as what holds itself is), or too many values.
    """
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
    return f"{path}:{node.start_mark.line + 1}"


def explain_too_deep(where: str) -> Problem:
    """That something is nested too deeply."""
    hint = "keep what belongs together in one mapping, and name it"
    return Problem(f"is nested more than {MAX_DEPTH} levels deep", where, hint=hint)


def count_open(text: str) -> int:
    """How many `${` are open at once, at most; quotes are not looked at."""

    def step(depth: int, mark: str) -> int:
        return depth + 1 if mark == "${" else max(0, depth - 1)

    return max(accumulate(re.findall(r"\$\{|\}", text), step, initial=0))


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
        self.parsed = 0
        """Files parsed so far; a file that did not change is parsed once."""
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
        self.parsed += 1
        text = read_text(path)
        root, value = parse_nodes(text, path)
        tree = rewrite_tree(value, self._written) if OPEN in text else value
        config = _create_container(tree, root, path)
        loaded = ConfigText(pickle.dumps(config), text[:512], root)
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
    """The document in `text`: its tree with its lines, and as plain Python.

    None when it is empty. Raises CannotCompose for broken YAML, or a reference that
    was not quoted.
    """
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
    elif text.count("${") > MAX_DEPTH and count_open(text) > MAX_DEPTH:
        yield explain_too_deep(locate(node, path))


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
    except OmegaConfBaseException as error:
        found = _list_broken_values(root, where) if root else ()
        usual = Problem(str(error).splitlines()[0], where=where)
        raise CannotCompose(tuple(found) or (usual,)) from None


def _list_broken_values(root: yaml.Node, path: str) -> Iterator[Problem]:
    """The scalars whose interpolation does not parse, by line."""
    for node in list_nodes(root):
        if isinstance(node, yaml.ScalarNode) and "${" in node.value:
            try:
                OmegaConf.create({"value": rewrite(node.value)})
            except OmegaConfBaseException as error:
                reason = shorten_text(str(error).splitlines()[0])
                message = f"{shorten_text(node.value)!r} does not parse: {reason}"
                hint = "an interpolation is ${key}, ${.key}, or ${resolver:'text',...}"
                yield Problem(message, where=locate(node, path), hint=hint)
