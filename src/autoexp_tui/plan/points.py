"""The points of a sweep: parameters as written, and the place each has in it.

Values only; how they are made is `sweep`, how they find each other is `families`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

STAGE: Final = "stage"
STAGE_KEYS: Final = ("stage", "_stage", "_meta.stage")
"""The ways of saying to which stage a point belongs."""
NOTES: Final = "_meta"
"""Notes that are shown with the job; `stage` in it is the stage."""
NOT_OVERRIDES: Final = frozenset(
    {
        *STAGE_KEYS,
        NOTES,
        "aux",
        "start_conditions",
        "cancel_conditions",
        "start_condition_cmd",
    }
)
"""Keys of a point that are ours, and no override of the config."""


A_KEY: Final = (
    "a key is names of letters, digits, _ and - joined by dots: backend.args.lr"
)
"""What a person may write as a key."""
_WORD: Final = r"[A-Za-z_$][\w$-]*"
_NAME: Final = r"[A-Za-z_][\w-]*"
_KEY: Final = re.compile(
    rf"(?:(?:\d+\.)*{_WORD}(?:\.(?:{_WORD}|\d+))*|{_NAME}(?:/{_NAME})+)"
    rf"(?:@{_WORD}(?:\.(?:{_WORD}|\d+))*)?",
    re.ASCII,
)
"""A key of Hydra's override grammar, or a group with the package it goes to."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One place in the sweep where a choice is made."""

    address: str
    """The path of the choice: `groups.0.params.optim.lr`, `groups.1.configs`."""
    label: str = ""
    """The parameter that is chosen; empty when a whole entry is."""
    carries: frozenset[str] = frozenset()
    """Keys that some choice sets."""
    common: frozenset[str] = frozenset()
    """Labels of axes that lie below every choice."""


@dataclass(frozen=True, slots=True, eq=False)
class Coordinate:
    """What a point chose on one axis."""

    axis: Axis
    position: int
    value: object = None
    """The parameter's value, on an axis with a label."""
    varies: frozenset[str] = frozenset()
    """Keys that axes below this choice set to several values."""

    def carries(self, keys: frozenset[str]) -> bool:
        """Whether another choice here means other `keys`, and no deeper axis does."""
        return bool(keys & self.axis.carries) and not keys & self.varies

    def __repr__(self) -> str:
        return f"{self.axis.address}={self.position}"


@dataclass(frozen=True, slots=True)
class DeferredFilter:
    """A filter that needs the composed config of each job."""

    text: str
    where: str


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One job to be: its parameters as written, and where in the sweep it lies."""

    index: int = 0
    parameters: Mapping[str, object] = field(default_factory=dict)
    coordinates: tuple[Coordinate, ...] = ()
    """One for each axis on the way; empty for a point made by hand."""
    deferred: tuple[DeferredFilter, ...] = ()
    base: int | None = None
    """The index of the base job of a derived one."""

    @property
    def stage(self) -> str:
        """The stage, however it is written; empty when there is none."""
        return stage_of(self.parameters)


@dataclass(frozen=True, slots=True)
class RemovedPoint:
    """A point, or a part of one, that a filter took away."""

    parameters: Mapping[str, object]
    coordinates: tuple[Coordinate, ...]
    filter: str
    where: str

    @property
    def stage(self) -> str:
        """The stage that it would have had."""
        return stage_of(self.parameters)


def stage_of(parameters: Mapping[str, object]) -> str:
    """The stage that parameters name; empty when none."""
    for key in ("stage", "_stage", "_meta.stage"):
        if parameters.get(key) is not None:
            return str(parameters[key])
    notes = parameters.get(NOTES)
    found = notes.get(STAGE) if isinstance(notes, Mapping) else None
    return "" if found is None else str(found)


def plain_key(key: str) -> str:
    """`key` without Hydra's `+`, `++` and `~`; every spelling of stage as `stage`."""
    bare = key.lstrip("+~")
    return STAGE if bare in STAGE_KEYS else bare


def is_key(text: str) -> bool:
    """Whether Hydra can set `text`, written with or without `+`, `++` and `~`."""
    return _KEY.fullmatch(re.sub(r"^(?:\+{1,2}|~)", "", text)) is not None


def keys_of(parameters: Mapping[str, object]) -> frozenset[str]:
    """The plain keys that parameters set; notes that name a stage set the stage."""
    keys = {plain_key(key) for key in parameters}
    if stage_of(parameters):
        keys.add(STAGE)
    return frozenset(keys)


def points_to_json(points: Sequence[SweepPoint]) -> dict[str, object]:
    """What `autoexp-plan --points --json` prints."""
    return {
        "points": [
            {"index": point.index, "parameters": dict(point.parameters)}
            for point in points
        ]
    }
