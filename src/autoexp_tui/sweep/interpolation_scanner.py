"""Where a `${...}` ends: the one scanner for texts that hold interpolations.

OmegaConf's grammar nests braces and quotes inside an interpolation; everything that
reads our own `{...}` beside them has to step over them alike.
"""

from __future__ import annotations

from collections.abc import Iterator

_QUOTES = "'\""


def find_interpolation_end(text: str, start: int) -> int:
    """The index after the `}` that closes the `${` at `start`; -1: none does."""
    try:
        return _end(text, start)
    except RecursionError:
        return -1


def _end(text: str, start: int) -> int:
    depth, at = 0, start
    while 0 <= at < len(text):
        char = text[at]
        if char in _QUOTES:
            at = _quote_end(text, at)
            continue
        depth += (char == "{") - (char == "}")
        at += 1
        if char == "}" and depth == 0:
            return at
    return -1


def _quote_end(text: str, start: int) -> int:
    """The index after the quote that closes the one at `start`; -1: none does."""
    at = start + 1
    while 0 <= at < len(text):
        if text[at] == "\\":
            at += 2
        elif text.startswith("${", at):
            at = _end(text, at)
        elif text[at] == text[start]:
            return at + 1
        else:
            at += 1
    return -1


def is_escaped(text: str, at: int) -> bool:
    """Whether an odd number of backslashes stands before `at`."""
    before = text[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def split_interpolations(text: str) -> Iterator[tuple[str, bool]]:
    """`text` in pieces: (piece, whether it is a whole, unescaped `${...}`)."""
    done = at = 0
    while (found := text.find("${", at)) >= 0:
        end = find_interpolation_end(text, found)
        if end < 0:
            break
        if is_escaped(text, found):
            at = found + 2
            continue
        if found > done:
            yield text[done:found], False
        yield text[found:end], True
        done = at = end
    if done < len(text):
        yield text[done:], False
