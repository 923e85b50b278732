"""What differs between two configs as planning records them, found in their text.

Reads the block style that `probes.yaml_text` writes and no other YAML: a key or a
list's item on each line. Of two plans with thousands of jobs most configs share most of
their text, so only top-level sections that differ are taken apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Final


class Absent(Enum):
    """Stands where one side has no such key; `null` is a value."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT

_SECTION: Final = re.compile(r"^(?=[^ \n-]|-[^ \n])", re.MULTILINE)
_KEY: Final = re.compile(r'("(?:[^"\\]|\\.)*"|[^:]*):(?: (.*))?')
_WORDS: Final[Mapping[str, object]] = {"null": None, "true": True, "false": False}
_HEXADECIMAL: Final = re.compile(r"\\x([0-9a-f]{2})")


def differing(old: str, new: str) -> dict[str, tuple[object, object]]:
    """Dotted key -> (old value, new value), ABSENT where one side has no such key.

    A list of plain values is one value; of nested ones each item has its number.
    """
    found: dict[str, tuple[object, object]] = {}
    before, after = _sections(old), _sections(new)
    for name in dict.fromkeys((*after, *before)):
        theirs, ours = before.get(name, ""), after.get(name, "")
        if theirs != ours:
            found |= _unequal(_leaves(theirs), _leaves(ours))
    return found


def _unequal(
    old: Mapping[str, object], new: Mapping[str, object]
) -> Iterator[tuple[str, tuple[object, object]]]:
    for key in dict.fromkeys((*new, *old)):
        pair = old.get(key, ABSENT), new.get(key, ABSENT)
        if repr(pair[0]) != repr(pair[1]):
            yield key, pair


@lru_cache(maxsize=256)
def _sections(text: str) -> Mapping[str, str]:
    """Each top-level key with all the lines that belong to it."""
    parts = (part for part in _SECTION.split(text) if part.strip())
    return {part.partition(":")[0]: part for part in parts}


# ---------------------------------------------------------------------- one section
@dataclass(slots=True)
class _Reader:
    """Where reading stands, and what was read."""

    leaves: dict[str, object] = field(default_factory=dict)
    lists: dict[str, list[object]] = field(default_factory=dict)
    stack: list[tuple[int, str]] = field(default_factory=list)
    """(level, dotted path) of what the next line may belong to."""

    def take(self, line: str) -> None:
        """Read one line."""
        body = line.lstrip(" ")
        level = 2 * (len(line) - len(body))
        if body == "-" or body.startswith("- "):
            self._item(level + 1, body[2:])
        elif found := _KEY.match(body):
            self._key(level, str(_value(found[1])), found[2])

    def _key(self, level: int, name: str, rest: str | None) -> None:
        path = self._below(level, name)
        if rest is not None:
            self.leaves[path] = _value(rest)
        self.stack.append((level, path))

    def _item(self, level: int, rest: str) -> None:
        """An item of the list that the key at the same indent holds."""
        parent = self._parent(level)
        items = self.lists.setdefault(parent, [])
        items.append(_value(rest) if rest else ABSENT)
        self.stack.append((level, f"{parent}.{len(items) - 1}"))

    def _below(self, level: int, name: str) -> str:
        parent = self._parent(level)
        return f"{parent}.{name}" if parent else name

    def _parent(self, level: int) -> str:
        while self.stack and self.stack[-1][0] >= level:
            self.stack.pop()
        return self.stack[-1][1] if self.stack else ""

    def settled(self) -> Mapping[str, object]:
        """Every leaf, lists put together."""
        for path, items in self.lists.items():
            if not any(item is ABSENT for item in items):
                self.leaves[path] = tuple(items)
                continue
            for at, item in enumerate(items):
                if item is not ABSENT:
                    self.leaves[f"{path}.{at}"] = item
        return MappingProxyType(self.leaves)


@lru_cache(maxsize=1024)
def _leaves(section: str) -> Mapping[str, object]:
    """Dotted key -> value of everything in a section."""
    reader = _Reader()
    for line in section.split("\n"):
        if line.strip(" "):
            reader.take(line)
    return reader.settled()


def _value(text: str) -> object:
    """A scalar as it was before it was written; what is no scalar stays text."""
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith('"'):
        return _unquoted(text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(_HEXADECIMAL.sub(r"\\u00\1", text)))
    except ValueError:
        return text
