"""The hint after an unknown word: the near miss, else what there is to choose from."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LISTED = 12
"""Candidates named before the rest is only counted."""


def nearest(word: str, candidates: Iterable[str], cutoff: float = 0.75) -> str | None:
    """The candidate that `word` most likely meant; None when none is near."""
    folded = {candidate.casefold(): candidate for candidate in candidates}
    found = get_close_matches(word.casefold(), folded, n=1, cutoff=cutoff)
    return folded[found[0]] if found else None


def nearest_key(key: str, keys: Iterable[str]) -> str | None:
    """The dotted key that `key` most likely meant: misspelled, or elsewhere."""
    known = [other for other in keys if other != key]
    parent, _, tail = key.rpartition(".")
    beside = {
        other.rpartition(".")[2]: other for other in known if _parent(other) == parent
    }
    found = nearest(tail, beside)
    if found is not None:
        return beside[found]
    same_tail = [other for other in known if other.rpartition(".")[2] == tail]
    if len(same_tail) == 1:
        return same_tail[0]
    return nearest(key, known, cutoff=0.88)


def _parent(key: str) -> str:
    return key.rpartition(".")[0]


def did_you_mean(word: str, candidates: Iterable[str], noun: str) -> str:
    """A hint: `did you mean X?`, else the candidates, as `noun` (plural)."""
    known = sorted(set(candidates))
    found = nearest(word, known)
    if found is not None:
        return f"did you mean `{found}`?"
    return listed(known, noun)


def listed(names: Iterable[str], noun: str) -> str:
    """`noun: a, b, c`, shortened when there are many."""
    known = list(names)
    if not known:
        return f"there are no {noun}"
    rest = len(known) - _LISTED
    tail = f" and {rest} more" if rest > 0 else ""
    return f"{noun}: {', '.join(known[:_LISTED])}{tail}"
