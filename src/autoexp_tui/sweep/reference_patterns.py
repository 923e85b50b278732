"""How a reference names another point: `stable`, `[lr=1e-3]`, `index=0`.

A pattern is a row of conditions, all of which must hold; which of the points that fit
is meant is decided by `families`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from autoexp_tui.sweep.points import (
    STAGE,
    STAGE_KEYS,
    RemovedPoint,
    SweepPoint,
    list_words,
    plain_key,
)

INDEX = "index"
_MOST_DIGITS = 9
"""Of an index; a longer one is no job's."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the other point must be."""

    text: str
    wanted: tuple[tuple[str, str], ...]
    """(key, value as written) pairs; `stage` and `index` are keys like others."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys it names."""
        return frozenset(key for key, _ in self.wanted)

    @property
    def words(self) -> Mapping[str, frozenset[str]]:
        """Each key it names -> the words of all values that are written there."""
        return {key: list_words(value) for key, value in self.wanted}

    @property
    def stage(self) -> str | None:
        """The stage it names, if it names one."""
        return dict(self.wanted).get(STAGE)

    @property
    def index(self) -> int | None:
        """The index it names, if it names one."""
        text = dict(self.wanted).get(INDEX, "")
        return int(text) if text.isdecimal() else None

    def bound(self, known: Collection[str]) -> Pattern:
        """The pattern with every key that is the end of one `known` key spelled out."""
        wanted = tuple((_expand_key(key, known), value) for key, value in self.wanted)
        return Pattern(self.text, wanted)

    def fits(self, point: SweepPoint | RemovedPoint) -> bool:
        """Whether a point is what is wanted; an index is not looked at."""
        return all(
            point.stage == value
            if key == STAGE
            else key == INDEX or _is_at(point.parameters, key, value)
            for key, value in self.wanted
        )


def build_stage_pattern(stage: str) -> Pattern:
    """The pattern of a stage."""
    return Pattern(stage, ((STAGE, stage),))


def parse_pattern(text: str) -> Pattern:
    """The pattern that `text` writes.

    Raises:
        ValueError: it writes none.
    """
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    pairs = [_read_pair(part.strip()) for part in inner.split(",")]
    if not all(key and value for key, value in pairs):
        raise ValueError(f"`{text}` is no pattern: write a stage, or key=value")
    for key, value in pairs:
        if key == INDEX and not (value.isdecimal() and len(value) <= _MOST_DIGITS):
            raise ValueError("an index is a whole number: 0 is the first job's")
    return Pattern(text, tuple(pairs))


def _read_pair(text: str) -> tuple[str, str]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        return STAGE, key
    return (STAGE if key in STAGE_KEYS else key), value


def _expand_key(key: str, known: Collection[str]) -> str:
    if key in {STAGE, INDEX} or key in known:
        return key
    ends = [name for name in known if name.endswith(f".{key}")]
    return ends[0] if len(ends) == 1 else key


def _is_at(parameters: Mapping[str, object], key: str, text: str) -> bool:
    """Whether the parameter is there, and has the value that is written."""
    spellings = (name for name in parameters if plain_key(name) == key)
    return any(is_spelled(parameters[name], text) for name in spellings)


def is_spelled(value: object, text: str) -> bool:
    """Whether `text` writes `value`; numbers compare as numbers."""
    if isinstance(value, bool) or value is None:
        words = {True: "true", False: "false", None: "null"}
        return text.lower() == words[value] or text == str(value)
    if isinstance(value, int | float):
        try:
            return float(text) == value
        except ValueError:
            return False
    return str(value) == text
