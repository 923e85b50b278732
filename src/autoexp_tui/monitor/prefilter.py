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
        self.caseless = not substring and _ignores_case(pattern)
        """The literals are in lower case, and stand for either."""
        self.literals = _plain(pattern) if substring else required_literals(pattern)
        """One of these is in every line that matches; empty: nothing is known."""

    def lines(
        self, data: bytes, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, int]]:
        """(start, end) of each line to look at, in order; `data` has no `\\r`.

        `start`, `end`: only the lines between, which are whole.
        """
        stop = len(data) if end is None else end
        if not self.literals:
            return _every_line(data, start, stop)
        if self.caseless:
            return self._caseless(data, start, stop)
        return _lines_with_any(data, self.literals, start, stop)

    def _caseless(
        self, data: bytes, start: int, stop: int
    ) -> Iterator[tuple[int, int]]:
        some = data[start:stop]
        if not some.isascii():  # letters beyond ASCII have cases of their own
            return _every_line(data, start, stop)
        found = _lines_with_any(some.lower(), self.literals, 0, len(some))
        return ((start + one, start + two) for one, two in found)


def _every_line(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    while start < stop:
        end = data.find(b"\n", start, stop)
        end = stop if end < 0 else end
        yield start, end
        start = end + 1


def _lines_with_any(
    data: bytes, literals: tuple[bytes, ...], start: int, stop: int
) -> Iterator[tuple[int, int]]:
    if len(literals) == 1:
        return _lines_with(data, literals[0], start, stop)
    spans = {
        span for literal in literals for span in _lines_with(data, literal, start, stop)
    }
    return iter(sorted(spans))


def _lines_with(
    data: bytes, literal: bytes, start: int, stop: int
) -> Iterator[tuple[int, int]]:
    found = data.find(literal, start, stop)
    while found >= 0:
        begin = data.rfind(b"\n", start, found) + 1 or start
        end = data.find(b"\n", found, stop)
        end = stop if end < 0 else end
        yield begin, end
        found = data.find(literal, end, stop)


# ---------------------------------------------------------------------- literals
def required_literals(pattern: str) -> tuple[bytes, ...]:
    """Literals of which every match of a regex holds at least one; () if unknown.

    Patterns without fixed text have none. Of a pattern that ignores case throughout
    they are in lower case, and only sure for lines of ASCII.
    """
    parsed = _parsed(pattern)
    if parsed is None:
        return ()
    literals = _best(list(parsed))
    if not parsed.state.flags & re.IGNORECASE:
        return _encoded(literals)
    ascii_only = all(text.isascii() for text in literals)
    return _encoded(tuple(text.lower() for text in literals)) if ascii_only else ()


def _ignores_case(pattern: str) -> bool:
    parsed = _parsed(pattern)
    return parsed is not None and bool(parsed.state.flags & re.IGNORECASE)


def _parsed(pattern: str) -> Any:
    """The parse tree of a regex; None when it is none."""
    try:
        return _parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


def _parse(pattern: str) -> Any:
    """The parse tree of a regex, as `re` itself builds it."""
    from re import _parser  # type: ignore[attr-defined]

    return _parser.parse(pattern)


def _plain(text: str) -> tuple[bytes, ...]:
    return _encoded((text,)) if text else ()


def _encoded(literals: tuple[str, ...]) -> tuple[bytes, ...]:
    """As bytes; none when one of them may stand for other bytes, or for no line."""
    if any(not text or _STRANGE & set(text) for text in literals):
        return ()
    try:
        return tuple(text.encode() for text in literals)
    except UnicodeEncodeError:
        return ()


def _best(items: list[Any]) -> tuple[str, ...]:
    """The most telling set of literals of a sequence: its shortest member longest."""
    candidates: list[tuple[str, ...]] = []
    run: tuple[str, ...] = ("",)
    for item in items:
        spellings = _spellings(item)
        joined = _product(run, spellings) if spellings else None
        if joined is None:
            candidates += [run, _inside(item)]
            run = spellings or ("",)
        else:
            run = joined
    candidates.append(run)
    return max(candidates, key=_tells)


def _tells(literals: tuple[str, ...]) -> tuple[int, int]:
    """How telling a set of literals is."""
    return min(map(len, literals), default=0), -len(literals)


def _product(heads: tuple[str, ...], tails: tuple[str, ...]) -> tuple[str, ...] | None:
    """Each head with each tail; None when they are too many."""
    if len(heads) * len(tails) > _MOST_SPELLINGS:
        return None
    return tuple(dict.fromkeys(one + two for one in heads for two in tails))


_MOST_SPELLINGS: Final = 16


def _spellings(item: Any) -> tuple[str, ...]:
    """Every text that an item matches; () when they are many, or unknown."""
    op, argument = item
    match str(op):
        case "LITERAL":
            return (chr(argument),)
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return ("",)
        case "IN" if all(str(kind) == "LITERAL" for kind, _ in argument):
            return tuple(chr(char) for _, char in argument)[: _MOST_SPELLINGS + 1]
        case "SUBPATTERN":
            _, added, _, body = argument
            return () if added & re.IGNORECASE else _of_sequence(list(body))
        case "ATOMIC_GROUP":
            return _of_sequence(list(argument))
        case "BRANCH":
            branches = [_of_sequence(list(branch)) for branch in argument[1]]
            return _of_branches(branches)
        case _:
            return ()


def _of_sequence(items: list[Any]) -> tuple[str, ...]:
    run: tuple[str, ...] = ("",)
    for item in items:
        spellings = _spellings(item)
        joined = _product(run, spellings) if spellings else None
        if joined is None:
            return ()
        run = joined
    return run


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
