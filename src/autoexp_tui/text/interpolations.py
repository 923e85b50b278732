"""Where a `${...}` ends. OmegaConf's grammar nests braces and quotes inside one;
whatever reads our own `{...}`, or an expression, steps over them alike."""

from __future__ import annotations

from typing import Final

QUOTES: Final = "'\""


class Unbalanced(ValueError):
    """A quote or a `${` does not close."""


def find_end(text: str, start: int) -> int:
    """The index after the string, or the `${...}`, that begins at `start`. Raises
    Unbalanced: it does not close, or is nested beyond all measure."""
    try:
        return _find_end(text, start)
    except RecursionError:
        raise Unbalanced(text) from None


def _find_end(text: str, start: int) -> int:
    mark = text[start] if text[start] in QUOTES else ""
    at, depth = start + (1 if mark else 2), 1
    while at < len(text):
        char = text[at]
        if mark and char == "\\":
            at += 2
            continue
        if text.startswith("${", at) if mark else char in QUOTES:
            at = _find_end(text, at)
            continue
        if mark:
            depth -= char == mark
        else:
            depth += (char == "{") - (char == "}")
        at += 1
        if depth == 0:
            return at
    raise Unbalanced(text)


def is_escaped(text: str, at: int) -> bool:
    """Whether an odd number of backslashes stands before `at`."""
    before = text[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def split_tokens(text: str) -> list[str]:
    """Strings and `${...}` whole, everything else by the character; Unbalanced."""
    tokens: list[str] = []
    at = 0
    while at < len(text):
        is_open = text.startswith("${", at) and not is_escaped(text, at)
        is_whole = is_open or text[at] in QUOTES
        end = find_end(text, at) if is_whole else at + 1
        tokens.append(text[at:end])
        at = end
    return tokens


def find_whole(token: str) -> str:
    """The `${...}` that a token is, quotes apart; empty: it is something else."""
    inner = token[1:-1] if token[0] in QUOTES else token
    return inner if inner[:2] == "${" and find_end(inner, 0) == len(inner) else ""
