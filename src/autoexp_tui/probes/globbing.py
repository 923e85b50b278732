"""Matches of a path pattern, and whether something on the way could not be looked at.
Unlike the standard library's glob, a directory that cannot be read is not the same as
one without matches. Hidden names match only patterns that begin with a dot; `**` goes
down any number of directories but not through symbolic links."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
_MAGIC = re.compile(r"[*?\[]")
MOST_MATCHES = 10_000


class Glance:
    """Stats and listings of one batch of looks: each path is asked once."""

    def __init__(self) -> None:
        self._stats: dict[str, os.stat_result | OSError | None] = {}
        self._names: dict[str, list[str] | OSError | None] = {}

    def stat(self, path: str) -> os.stat_result | None:
        """As `os.stat`; None when there is nothing; raises OSError."""
        return _ask_once(self._stats, path, os.stat)

    def list_names(self, directory: str) -> list[str]:
        """What is in a directory, sorted; nothing when there is none."""
        found = _ask_once(self._names, directory or os.curdir, os.listdir)
        return sorted(found or ())


def _ask_once(
    known: dict[str, T | OSError | None], path: str, ask: Callable[[str], T]
) -> T | None:
    """The answer for a path, None when there is nothing; raises OSError."""
    if path not in known:
        try:
            known[path] = ask(path)
        except (FileNotFoundError, NotADirectoryError):
            known[path] = None
        except OSError as error:
            known[path] = error
    found = known[path]
    if isinstance(found, OSError):
        raise found
    return found


class Expansion:
    """The paths that match `pattern`, at most 10,000, in no certain order; `problem` is
    the first thing that could not be looked at. `glance`: shared with other patterns, a
    directory is listed once for all of them."""

    def __init__(self, pattern: str, glance: Glance | None = None) -> None:
        self._glance = glance or Glance()
        self.problem: OSError | None = None
        root = "/" if pattern.startswith("/") else ""
        found = self._list_below(root, [part for part in pattern.split("/") if part])
        self.paths = [*dict.fromkeys(islice(found, MOST_MATCHES))]

    def _list_below(self, base: str, parts: Sequence[str]) -> Iterator[str]:
        if not parts:
            yield base
            return
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._list_below(base, rest or ("*",))
            for name in self._ask(self._glance.list_names, base) or ():
                path = os.path.join(base, name)
                is_hidden = name.startswith(".")
                if not is_hidden and os.path.isdir(path) and not os.path.islink(path):
                    yield from self._list_below(path, parts)
        elif _MAGIC.search(first):
            matches = re.compile(translate(first)).match
            for name in self._ask(self._glance.list_names, base) or ():
                hidden = name.startswith(".") and not first.startswith(".")
                if matches(name) and not hidden:
                    yield from self._list_below(os.path.join(base, name), rest)
        else:
            path = os.path.join(base, first)
            if rest or self._ask(os.lstat, path) is not None:
                yield from self._list_below(path, rest)

    def _ask(self, look: Callable[[str], T], path: str) -> T | None:
        try:
            return look(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.problem = self.problem or error
            return None
