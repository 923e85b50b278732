"""The near miss of a word that nobody knows, and what there was to choose from."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

_LISTED: Final = 12
"""Candidates named before the rest is only counted."""
_LONG_WORD: Final = 8
"""Letters from which on two edits still count as a slip."""
_CUTOFF: Final = 0.72
"""How much of two words has to agree, of 1, that one may be meant by the other."""
_MOST_COMPARED: Final = 1000
"""Of more candidates none is looked for."""


def find_nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` most likely meant; None when none is near."""
    return _find_nearest(word, tuple(dict.fromkeys(candidates)))


@lru_cache(maxsize=256)  # each job with a mistake asks the same
def _find_nearest(word: str, candidates: tuple[str, ...]) -> str | None:
    folded = {name.casefold(): name for name in candidates[: _MOST_COMPARED + 1]}
    if len(folded) > _MOST_COMPARED:
        return None
    found = get_close_matches(word.casefold(), folded, n=1, cutoff=_CUTOFF)
    return folded[found[0]] if found else None


def did_you_mean(word: str, candidates: Iterable[str], noun: str) -> str:
    """A hint: ``did you mean `x`?``, else the candidates, as `noun` (plural)."""
    known = tuple(dict.fromkeys(candidates))
    found = _find_nearest(word, known)
    return f"did you mean `{found}`?" if found is not None else list_names(known, noun)


def list_names(names: Iterable[str], noun: str) -> str:
    """`noun: a, b, c`, shortened when there are many."""
    known = list(names)
    if not known:
        return f"there are no {noun}"
    rest = len(known) - _LISTED
    tail = f" and {rest} more" if rest > 0 else ""
    return f"{noun}: {', '.join(known[:_LISTED])}{tail}"


def find_slip(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate one edit (insert, drop, replace, swap; two in a long word) away."""
    allowed = 2 if len(word) >= _LONG_WORD else 1
    near = [
        (edits, candidate)
        for candidate in candidates
        if candidate != word
        and max(len(word), len(candidate)) > 1
        and (edits := _count_edits(word, candidate, allowed)) <= allowed
    ]
    return min(near)[1] if near else None


def _count_edits(a: str, b: str, most: int) -> int:
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
