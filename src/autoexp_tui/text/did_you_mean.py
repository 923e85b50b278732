"""The near miss of a word that nobody knows, and what there was to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Final

_LISTED = 12
"""Candidates named before the rest is only counted."""
_LONG_WORD = 8
"""Letters from which on two edits still count as a slip."""


_CUTOFF: Final = 0.72
"""How much of two words has to agree, of 1, that one may be meant by the other."""
_LETTERS: Final = 64
"""Bits of a set of letters; two letters that share one count as the same."""


class Words:
    """Candidates, arranged so that of thousands only a few are compared with a word."""

    def __init__(self, candidates: Iterable[str]) -> None:
        """The candidates, each once, in their order."""
        self.names = tuple(dict.fromkeys(candidates))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def nearest(self, word: str) -> str | None:
        """The candidate that `word` most likely meant; None when none is near."""
        folded = word.casefold()
        matcher = SequenceMatcher()
        matcher.set_seq2(folded)
        best = (0.0, "")
        letters, length = _find_letters(folded), len(folded)
        promising = []  # candidates that may be near, by how near they can be
        for (theirs, long), names in self._alike.items():
            missing = (letters & ~theirs).bit_count()
            most = min(long - (theirs & ~letters).bit_count(), length - missing)
            bound = 2.0 * most / (long + length) if long + length else 1.0
            if bound >= _CUTOFF:
                promising.append((bound, names))
        for bound, names in sorted(promising, key=lambda one: -one[0]):
            if bound < best[0]:
                break
            for name in names:
                matcher.set_seq1(name)
                if matcher.quick_ratio() >= max(best[0], _CUTOFF):
                    best = max(best, (matcher.ratio(), name))
        return self._folded[best[1]] if best[0] >= _CUTOFF else None

    @cached_property
    def _folded(self) -> Mapping[str, str]:
        return {name.casefold(): name for name in self.names}

    @cached_property
    def _alike(self) -> Mapping[tuple[int, int], Sequence[str]]:
        """The candidates by their letters and their length."""
        found: dict[tuple[int, int], list[str]] = {}
        for name in self._folded:
            found.setdefault((_find_letters(name), len(name)), []).append(name)
        return found


def _find_letters(word: str) -> int:
    """The letters of a word, as bits."""
    found = 0
    for letter in word:
        found |= 1 << (ord(letter) % _LETTERS)
    return found


def find_nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` most likely meant; None when none is near."""
    return _find_words(candidates).nearest(word)


def did_you_mean(word: str, candidates: Iterable[str], noun: str) -> str:
    """A hint: ``did you mean `x`?``, else the candidates, as `noun` (plural)."""
    known = _find_words(candidates)
    found = known.nearest(word)
    return f"did you mean `{found}`?" if found is not None else list_names(known, noun)


def _find_words(candidates: Iterable[str]) -> Words:
    return (
        candidates if isinstance(candidates, Words) else _build_words(tuple(candidates))
    )


@lru_cache(maxsize=16)  # each job with a mistake is asked about the same few
def _build_words(candidates: tuple[str, ...]) -> Words:
    return Words(candidates)


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
