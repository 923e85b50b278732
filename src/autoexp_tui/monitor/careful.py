"""Searches that no line can hold up: a linear engine is asked before Python's own.

Python's regexes try one way after the other. On a line that does not match, `(a+)+b`
takes years and `x.*y.*z` minutes, during which nothing else of the process runs, not
even a signal's handler. So whether a pattern occurs at all is asked of an engine whose
time only grows with the text, and Python looks only where it does: for the groups.

A pattern that such an engine does not have, or means otherwise, is searched by Python
alone, in a shorter piece of each line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from autoexp_tui.monitor.sieve import Test

Linear: TypeAlias = Callable[[str], Test | None]
"""A pattern -> its test, in time that grows with the text; None: there is none."""

UNTESTED_CHARS: Final = 4096
"""Of a line, where no linear test of the pattern is to be had."""
_TRUSTED_CHARS: Final = 1024
_OTHERWISE: Final = re.compile(
    r"\\[1-9AZ<>]"  # back references; anchors that are spelled otherwise
    r"|\(\?(?:[=!<#(>]|P[=>])"  # looks around, comments, choices, atoms
    r"|\(\?[a-z]*[aLux]"  # what letters and blanks mean
    r"|&&|--|~~|\{,"
)
_CLASS_IN_CLASS: Final = re.compile(r"\[[^\]]*\[")
_WORDS: Final = re.compile(r"\\[wWbB]")
_NESTED: Final = re.compile(r"\)[+*{]")


def no_linear(_pattern: str) -> Test | None:
    """Where no linear engine is to be had."""
    return None


def linear_test(pattern: str, linear: Linear) -> Test | None:
    """The test of a pattern that both engines mean alike; None: there is none."""
    bare = re.sub(r"\\[^1-9AZ<>]", "_", pattern)
    if _OTHERWISE.search(bare) or _CLASS_IN_CLASS.search(bare):
        return None
    return linear(pattern)


@dataclass(frozen=True, slots=True)
class CarefulRegex:
    """A regex whose searches end soon, whatever the text is."""

    regex: re.Pattern[str]
    test: Test | None
    is_loose: bool
    """Engines differ on which letters beyond ASCII make words: for short texts that
    have some, Python's answer counts."""

    def search(self, line: str) -> re.Match[str] | None:
        """The first match in one line."""
        if self.test is None:
            return self.regex.search(line[:UNTESTED_CHARS])
        if self._is_trusted(line) and not self.test(line):
            return None
        return self.regex.search(line)

    def _is_trusted(self, line: str) -> bool:
        return not self.is_loose or line.isascii() or len(line) > _TRUSTED_CHARS


def careful(regex: re.Pattern[str], linear: Linear) -> CarefulRegex:
    """`regex`, made safe by the engine that `linear` asks."""
    is_loose = bool(_WORDS.search(regex.pattern) and not _NESTED.search(regex.pattern))
    return CarefulRegex(regex, linear_test(regex.pattern, linear), is_loose)


# ------------------------------------------------------------------- without an end
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_CLASS: Final = re.compile(r"\[\^?\]?[^\]]*\]")
_INNERMOST: Final = re.compile(r"\((?:\?[^()]*?[:=!>])?([^()]*)\)([*+]|\{\d*,\d*\})?")
_REPEATED: Final = re.compile(r"[*+]|\{\d*,\d*\}")


def may_never_end(pattern: str, linear: Linear) -> bool:
    """Whether a search can take longer than any run, even in a short line.

    It repeats what repeats within, as `(a+)+`, in a pattern that no linear engine has.
    """
    return linear_test(pattern, linear) is None and _repeats_within(pattern)


def _repeats_within(pattern: str) -> bool:
    left = _CLASS.sub("_", _ESCAPED.sub("_", pattern))
    while (group := _INNERMOST.search(left)) is not None:
        repeats = _REPEATED.search(group[1]) is not None
        if repeats and group[2]:
            return True
        left = left[: group.start()] + ("_+" if repeats else "_") + left[group.end() :]
    return False


# ---------------------------------------------------------------------- whole texts
def narrowed(pattern: str, text: str, linear: Linear) -> str | None:
    """The few lines of `text` that hold the first match; None: there is none.

    Python's search alone would try every line before them, and may take years for one.
    For patterns whose `^` and `$` are about lines.
    """
    test = linear_test(f"(?m){pattern}", linear)
    lines = text.split("\n")
    if test is None:
        return "\n".join(line[:UNTESTED_CHARS] for line in lines)
    if not test(text):
        return None
    stop = _least(len(lines), lambda n: test("\n".join(lines[:n])))
    start = stop - _least(stop, lambda n: test("\n".join(lines[stop - n : stop])))
    return "\n".join(lines[start:stop])


def _least(most: int, holds: Callable[[int], bool]) -> int:
    """The least number up to `most` for which `holds`, which stays true from there."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
