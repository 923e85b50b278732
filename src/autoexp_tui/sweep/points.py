"""The points of a sweep: parameters as written, the place of each, and names of jobs.

Values only; how points are made is `expand`, how they find each other is `families`. A
name becomes a directory, a log's directory and a Slurm job name, so it must stay below
where it is put.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias

from autoexp_tui.model.errors import Findings
from autoexp_tui.text.spelling import format_float

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


_MOST_NAMES: Final = 40
A_KEY: Final = (
    f"a key is up to {_MOST_NAMES} names of letters, digits, _ and - joined by dots: "
    "backend.args.lr"
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


Entries: TypeAlias = Mapping[str, int]
"""Address of a choice, below `sweep` (`groups.0.params.optim.lr`, `groups.1.configs`)
-> the number of what was chosen there. Grids have the addresses of the groups that they
stand for; at `derived_jobs`, 0 is the base job."""
Origins: TypeAlias = Mapping[str, Entries]
"""A job, as findings call it -> what it chose; the first, if several share a name."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One place in the sweep where a choice is made."""

    address: str
    """The path of the choice: `groups.0.params.optim.lr`, `groups.1.configs`."""
    label: str = ""
    """The parameter that is chosen; empty when a whole entry is."""
    carries: frozenset[str] = frozenset()
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
        """Whether another choice here, none deeper, may mean what is wanted."""
        if not wanted.keys() & self.axis.carries:
            return False
        below = wanted.keys() & self.varies.keys()
        return not below or not all(wanted[key] & self.varies[key] for key in below)

    def __repr__(self) -> str:
        return f"{self.axis.address}={self.position}"


@dataclass(frozen=True, slots=True)
class SweepFilter:
    text: str
    where: str

    def __str__(self) -> str:
        return f"the filter `{self.text}` at {self.where}"


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One job to be: its parameters as written, and where in the sweep it lies."""

    index: int = 0
    parameters: Mapping[str, object] = field(default_factory=dict)
    coordinates: tuple[Coordinate, ...] = ()
    """One for each axis on the way; empty for a point made by hand."""
    deferred: tuple[SweepFilter, ...] = ()
    """Those that need the job's config."""
    base: int | None = None
    """The index of the base job of a derived one, unless a filter took that."""

    @property
    def stage(self) -> str:
        """The stage, however it is written; empty when there is none."""
        return find_stage(self.parameters)

    @property
    def entries(self) -> Entries:
        """What it chose, at each place of the sweep where it had a choice."""
        return {one.axis.address: one.position for one in self.coordinates}


Removed: TypeAlias = tuple[SweepPoint, SweepFilter]
"""A point, or a part of one, and what took it away."""


class SweepRefused(Findings, ValueError):
    """A sweep that cannot be expanded."""


def find_stage(parameters: Mapping[str, object]) -> str:
    for key in STAGE_KEYS:
        if parameters.get(key) is not None:
            return str(parameters[key])
    notes = parameters.get(NOTES)
    found = notes.get(STAGE) if isinstance(notes, Mapping) else None
    return "" if found is None else str(found)


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
    words = {text, _SPELLINGS.get(text.lower(), text)}
    with suppress(ValueError):
        words.add(repr(float(text)))
    return frozenset(words)


_SPELLINGS: Final = {"true": "true", "false": "false", "null": "null", "none": "null"}


@lru_cache(maxsize=4096)  # some sixty times a job, of a few keys
def plain_key(key: str) -> str:
    """`key` without Hydra's `+`, `++` and `~`; every spelling of stage as `stage`."""
    bare = key.lstrip("+~")
    return STAGE if bare in STAGE_KEYS else bare


def is_named(key: str, name: str) -> bool:
    """Whether a plain key is meant by a name: all of it, or its last parts."""
    wanted = plain_key(name)
    return key == wanted or key.endswith(f".{wanted}")


def is_key(text: str) -> bool:
    """Whether Hydra can set `text`, written with or without `+`, `++` and `~`."""
    bare = re.sub(r"^(?:\+{1,2}|~)", "", text)
    return text.count(".") < _MOST_NAMES and _KEY.fullmatch(bare) is not None


OURS: Final = frozenset({".autoexp", "provenance"})
"""Directories inside each output directory that are ours."""
_MOST_BYTES: Final = 255
"""Of one path component, on all common file systems."""


def format_in_name(value: object) -> str:
    """A value inside a text: floats the short way, the rest as OmegaConf does."""
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(format_in_name(item) for item in value)}]"
    if isinstance(value, Mapping):
        items = (f"{key}: {format_in_name(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    return str(value)


_OUR_PARTS: Final = "|".join(map(re.escape, sorted(OURS)))
_FAULTS: Final = (
    (r"\s*\Z", "is empty"),
    (r".*[\x00-\x1f\x7f]", "holds a control character"),
    (r".*[{}]", "holds braces, which mean references everywhere else"),
    (r"[/~]", "is a path from the root; it must stay below base_output_dir"),
    (r"(?:.*/)?\.\.(?:/|\Z)", "holds `..`; it must stay below base_output_dir"),
    (r"(?:.*/)?\.?(?:/|\Z)", "has an empty part between slashes"),
    (rf"(?:.*/)?(?:{_OUR_PARTS})(?:/|\Z)", "leads to where we keep our own files"),
)
"""What a name may not begin with, and why."""


def find_fault_of_name(name: str) -> str:
    """What is wrong with a job's name; empty when nothing is."""
    for pattern, fault in _FAULTS:
        if re.match(pattern, name, re.DOTALL):
            return f"the name {fault}"
    parts = name.encode("utf-8", "replace").split(b"/")
    too_long = max(map(len, parts)) > _MOST_BYTES
    return f"the name is longer than {_MOST_BYTES} bytes" if too_long else ""


MOST_OF_A_FILTER: Final = 300
"""Characters of a filter that messages show."""


def shorten_text(text: str, most: int = 60) -> str:
    """A text of the config as messages show it: at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
