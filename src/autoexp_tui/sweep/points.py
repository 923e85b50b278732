"""The points of a sweep: parameters as written, and the place each has in it.

Values only; how they are made is `sweep`, how they find each other is `families`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from autoexp_tui.model.errors import Problem

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
    varies: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Key that axes below this choice set to several values -> these, as words."""
    own_stages: bool = False
    """Stages vary below this choice, and other choices of the axis have others."""

    def carries(self, keys: frozenset[str]) -> bool:
        """Whether another choice here means other `keys`, and no deeper axis does."""
        return bool(keys & self.axis.carries) and not keys & self.varies.keys()

    def may_lead_to(self, wanted: Mapping[str, frozenset[str]]) -> bool:
        """Whether another choice here may mean what is wanted (key -> words for it).

        Not where axes below this choice can set it: then it is looked for there.
        """
        if not wanted.keys() & self.axis.carries:
            return False
        below = wanted.keys() & self.varies.keys()
        return not below or not all(wanted[key] & self.varies[key] for key in below)

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
        return find_stage(self.parameters)


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
        return find_stage(self.parameters)


@dataclass(eq=False)
class SweepRefused(ValueError):
    """A sweep that cannot be expanded; carries every finding."""

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def find_stage(parameters: Mapping[str, object]) -> str:
    """The stage that parameters name; empty when none."""
    for key in ("stage", "_stage", "_meta.stage"):
        if parameters.get(key) is not None:
            return str(parameters[key])
    notes = parameters.get(NOTES)
    found = notes.get(STAGE) if isinstance(notes, Mapping) else None
    return "" if found is None else str(found)


def list_stages_named(parameters: Mapping[str, object]) -> dict[str, str]:
    """Each way in which parameters say the stage -> what it says."""
    found = {
        key: str(value)
        for key, value in parameters.items()
        if value is not None and plain_key(key) == STAGE
    }
    notes = parameters.get(NOTES)
    named = notes.get(STAGE) if isinstance(notes, Mapping) else None
    return found if named is None else {**found, f"{NOTES}.{STAGE}": str(named)}


def format_word(value: object) -> str:
    """A value as patterns are compared with it: numbers that are equal are one word."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        try:
            return repr(float(value))
        except OverflowError:
            return str(value)
    return str(value)


def list_words(text: str) -> frozenset[str]:
    """The words of all values that `text` may spell."""
    try:
        number = {repr(float(text))}
    except ValueError:
        number = set()
    return frozenset({text, text.lower(), *number})


@lru_cache(maxsize=4096)  # some sixty times a job, of a few keys
def plain_key(key: str) -> str:
    """`key` without Hydra's `+`, `++` and `~`; every spelling of stage as `stage`."""
    bare = key.lstrip("+~")
    return STAGE if bare in STAGE_KEYS else bare


def is_key(text: str) -> bool:
    """Whether Hydra can set `text`, written with or without `+`, `++` and `~`."""
    return _KEY.fullmatch(re.sub(r"^(?:\+{1,2}|~)", "", text)) is not None


def list_plain_keys(parameters: Mapping[str, object]) -> frozenset[str]:
    """The plain keys that parameters set; notes that name a stage set the stage."""
    keys = {plain_key(key) for key in parameters}
    if find_stage(parameters):
        keys.add(STAGE)
    return frozenset(keys)


def list_chosen_keys(key: str, values: Iterable[object]) -> frozenset[str]:
    """The plain keys that values of one parameter set; notes may name the stage."""
    if key == NOTES and any(find_stage({key: value}) for value in values):
        return frozenset({key, STAGE})
    return frozenset({plain_key(key)})


def points_to_json(points: Sequence[SweepPoint]) -> dict[str, object]:
    """What `autoexp-plan --points --json` prints."""
    return {
        "points": [
            {"index": point.index, "parameters": dict(point.parameters)}
            for point in points
        ]
    }
