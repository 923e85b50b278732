"""Finding the few lines of a log that can matter, before any regex looks at them.

`LineFinder` yields the lines that hold what a pattern cannot match without: literals
that `bytes.find` looks for at memory speed. It may yield lines too many, never too
few. Lines end at `\\n` or `\\r`, so each state of a progress bar is a line; offsets
are bytes in the file, so they do not depend on how it was cut into chunks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

MAX_LINE: Final = 64 * 1024
"""Bytes of a line that are looked at; the rest of a longer one is not."""
_STRANGE: Final = frozenset("\n\r\ufffd")


def with_newlines(data: bytes) -> bytes:
    """`data` with `\\r` as `\\n`: the same length, so offsets stay."""
    return data.replace(b"\r", b"\n") if b"\r" in data else data


def line_text(data: bytes, start: int, end: int) -> str:
    """A line as text: bad UTF-8 replaced, bounded by `MAX_LINE` bytes."""
    return data[start : min(end, start + MAX_LINE)].decode("utf-8", "replace")


class LineFinder:
    """Finds the lines that a regex may match in."""

    def __init__(self, pattern: str, *, substring: bool = False) -> None:
        """`pattern`: a regex, or (with `substring`) plain text."""
        self.literals = _plain(pattern) if substring else required_literals(pattern)
        """One of these is in every line that matches; empty: nothing is known."""

    def lines(self, data: bytes) -> Iterator[tuple[int, int]]:
        """(start, end) of each line to look at, in order; `data` has no `\\r`."""
        if not self.literals:
            return _every_line(data)
        if len(self.literals) == 1:
            return _lines_with(data, self.literals[0])
        spans = {
            span for literal in self.literals for span in _lines_with(data, literal)
        }
        return iter(sorted(spans))


def _every_line(data: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    for line in data.split(b"\n"):
        end = start + len(line)
        if end < len(data) or line:
            yield start, end
        start = end + 1


def _lines_with(data: bytes, literal: bytes) -> Iterator[tuple[int, int]]:
    found = data.find(literal)
    while found >= 0:
        start = data.rfind(b"\n", 0, found) + 1
        end = data.find(b"\n", found)
        end = len(data) if end < 0 else end
        yield start, end
        found = data.find(literal, end)


# ---------------------------------------------------------------------- literals
def required_literals(pattern: str) -> tuple[bytes, ...]:
    """Literals of which every match of a regex holds at least one; () if unknown.

    Patterns that ignore case, and those without fixed text, have none.
    """
    try:
        parsed = _parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return ()
    if parsed.state.flags & (re.IGNORECASE | re.VERBOSE):
        return ()
    return _encoded(_best(list(parsed)))


def _parse(pattern: str) -> Any:
    """The parse tree of a regex, as `re` itself builds it."""
    from re import _parser  # type: ignore[attr-defined]

    return _parser.parse(pattern)


def _plain(text: str) -> tuple[bytes, ...]:
    return _encoded((text,)) if text else ()


def _encoded(literals: tuple[str, ...]) -> tuple[bytes, ...]:
    """As bytes; none when one of them may stand for other bytes, or for no line."""
    if any(_STRANGE & set(text) for text in literals):
        return ()
    try:
        return tuple(text.encode() for text in literals)
    except UnicodeEncodeError:
        return ()


def _best(items: list[Any]) -> tuple[str, ...]:
    """The most telling set of literals of a sequence: its shortest member longest."""
    candidates: list[tuple[str, ...]] = [("".join(run),) for run in _runs(items)]
    candidates += [literals for item in items if (literals := _inside(item))]
    return max(candidates, key=lambda some: min(map(len, some)), default=())


def _runs(items: list[Any]) -> Iterator[list[str]]:
    run: list[str] = []
    for op, argument in items:
        if str(op) == "LITERAL":
            run.append(chr(argument))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _inside(item: Any) -> tuple[str, ...]:
    """Literals of a group, an alternation, or a repetition that must occur."""
    op, argument = item
    match str(op):
        case "SUBPATTERN":
            _, added, _, body = argument
            return () if added & re.IGNORECASE else _best(list(body))
        case "ATOMIC_GROUP":
            return _best(list(argument))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, _, body = argument
            return _best(list(body)) if least > 0 else ()
        case "BRANCH":
            return _of_branches([_best(list(branch)) for branch in argument[1]])
        case _:
            return ()


def _of_branches(branches: list[tuple[str, ...]]) -> tuple[str, ...]:
    if not all(branches):
        return ()
    return tuple(dict.fromkeys(text for branch in branches for text in branch))
