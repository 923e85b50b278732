"""Colours for the chart: laid over its finished lines, so that widths stay as they are.

Only what is a word or a mark anyway is coloured; nothing is told by colour alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_BOLD, _DIM, _GREEN, _YELLOW, _RED = "1", "2", "32", "33", "31"
_MARKS: Final = {"✓": _GREEN, "!": _YELLOW, "✗": _RED}
_HEAD: Final = re.compile(r"^(┌─ )(.*?)( ─*(?: \d.*)?─┐)$")
_FOLDED: Final = re.compile(r"(\.\.\. and .*? more\b)")


def painted(text: str) -> str:
    """The chart with ANSI's own colours, which every terminal theme has set."""
    title, *lines = text.split("\n")
    return "\n".join([_in(_BOLD, title), *map(_line, lines)])


def _line(line: str) -> str:
    mark = _MARKS.get(line[:1])
    if mark and line[1:2] == " ":
        return _in(mark, line[0]) + line[1:]
    head = _HEAD.match(line)
    if head:
        return f"{head[1]}{_in(_BOLD, head[2])}{head[3]}"
    return _FOLDED.sub(_each(_DIM), line)


def _each(code: str) -> Callable[[re.Match[str]], str]:
    return lambda match: _in(code, match[1])


def _in(code: str, text: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if text else ""
