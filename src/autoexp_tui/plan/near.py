"""The near miss of a word that nobody knows, and what there was to choose from."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LISTED = 12
"""Candidates named before the rest is only counted."""
_LONG_WORD = 8
"""Letters from which on two edits still count as a slip."""


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` most likely meant; None when none is near."""
    folded = {candidate.casefold(): candidate for candidate in candidates}
    found = get_close_matches(word.casefold(), folded, n=1, cutoff=0.72)
    return folded[found[0]] if found else None


def did_you_mean(word: str, candidates: Iterable[str], noun: str) -> str:
    """A hint: ``did you mean `x`?``, else the candidates, as `noun` (plural)."""
    known = list(dict.fromkeys(candidates))
    found = nearest(word, known)
    return f"did you mean `{found}`?" if found is not None else listed(known, noun)


def listed(names: Iterable[str], noun: str) -> str:
    """`noun: a, b, c`, shortened when there are many."""
    known = list(names)
    if not known:
        return f"there are no {noun}"
    rest = len(known) - _LISTED
    tail = f" and {rest} more" if rest > 0 else ""
    return f"{noun}: {', '.join(known[:_LISTED])}{tail}"


def slip_of(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that differs from `word` by a slip of the fingers; None: none.

    One edit (insert, drop, replace, swap neighbours); two from eight letters on. A
    word of one letter is no slip of another.
    """
    allowed = 2 if len(word) >= _LONG_WORD else 1
    near = [
        (edits, candidate)
        for candidate in candidates
        if candidate != word
        and max(len(word), len(candidate)) > 1
        and (edits := _edits(word, candidate, allowed)) <= allowed
    ]
    return min(near)[1] if near else None


def _edits(a: str, b: str, most: int) -> int:
    """Edits between two words, swapped neighbours as one; `most` + 1 when more."""
    if abs(len(a) - len(b)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, char in enumerate(a, start=1):
        older, before, row = before, row, [i]
        for j, other in enumerate(b, start=1):
            best = min(before[j] + 1, row[-1] + 1, before[j - 1] + (char != other))
            if i > 1 and j > 1 and char == b[j - 2] and a[i - 2] == other:
                best = min(best, older[j - 2] + 1)
            row.append(best)
    return min(row[-1], most + 1)
