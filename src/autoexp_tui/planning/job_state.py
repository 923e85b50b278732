"""A job while it is made: what is known of it so far, and what may go wrong.

A config's own `family`, and a `stage` while its sweep has none, stay what they are; all
else that the plan mounts at the root of a job's config is the plan's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Resources
from autoexp_tui.planning.overrides import escape_dollars
from autoexp_tui.planning.ports import CannotCompose, ConfigView, Launch, SpecRefused
from autoexp_tui.planning.reference_syntax import NotAReference
from autoexp_tui.planning.references import Identity, Runtime, UnknownKey
from autoexp_tui.sweep.families import SiblingNotFound
from autoexp_tui.sweep.points import SweepPoint, plain_key

FAULTS: Final = (
    CannotCompose,
    NotAReference,
    SiblingNotFound,
    SpecRefused,
    UnknownKey,
)
"""What may be wrong with a value of the config."""
NAME: Final = "project.name"
DIRECTORIES: Final = (
    "project.base_output_dir",
    "slurm.log_dir",
    "slurm.script_dir",
)


@dataclass(eq=False)
class Refused(Exception):
    """A job that cannot be made; carries every finding."""

    problems: tuple[Problem, ...]


class Needs(Exception):
    """Another job must be made first."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at
        self.key = ""
        """What reads it; empty until that is told."""


@dataclass(slots=True, eq=False)
class Draft:
    """A job that is being made."""

    at: int
    point: SweepPoint
    identity: Identity
    composed: tuple[str, ...] = ()
    """The overrides as they were composed."""
    mounts: Mapping[str, object] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    """As a person would write them; equal to what was composed and put."""
    runtimes: Sequence[Runtime] = ()
    """The metadata of other jobs that its parameters hold."""
    runtime_overrides: tuple[str, ...] = ()
    """The overrides with metadata in them, to compose it with when it starts."""
    puts: dict[str, object] = field(default_factory=dict)
    """What was written into the config after composing, to do it again."""
    reads: set[int] = field(default_factory=set)
    waits: set[int] = field(default_factory=set)
    """Jobs that start conditions name."""
    start: tuple[Condition, ...] = ()
    cancel: tuple[Condition, ...] = ()
    launch: Launch = field(default_factory=lambda: Launch(command=()))
    resources: Resources = field(default_factory=Resources)
    progress_total: int | None = None
    monitoring: Monitoring = field(default_factory=Monitoring)
    """The rules by which the job is watched."""
    fingerprint: str = ""
    faults: list[Problem] = field(default_factory=list)
    """What is wrong with filters that needed its config; they were passed over."""

    def put(self, view: ConfigView, path: str, value: object) -> None:
        """Write a literal into the config, now and whenever it is composed again."""
        self.puts[path] = escape_dollars(value)
        view.put(path, self.puts[path])


def list_problems(error: Exception, where: str, job: str = "") -> tuple[Problem, ...]:
    """What a fault says, for the place where it was met."""
    if isinstance(error, CannotCompose | SpecRefused):
        return tuple(
            Problem(p.message, p.where or where, p.job or job, p.hint)
            for p in error.problems
        )
    if isinstance(error, SiblingNotFound):
        return (Problem(error.message, where, job, error.hint),)
    hint = error.hint if isinstance(error, UnknownKey) else ""
    return (Problem(str(error), where, job, hint),)


def build_mounts(
    stage: str, index: int, family: str, base: ConfigView
) -> dict[str, object]:
    """What is mounted at the root of a job's config."""
    mounts: dict[str, object] = {"index": index}
    if stage or not base.has("stage"):
        mounts["stage"] = escape_dollars(stage)
    if not base.has("family"):
        mounts["family"] = family
    return mounts


def list_own_paths(config: Mapping[str, object]) -> Sequence[str]:
    """The directories of a resolved config that do not count for the fingerprint."""
    found: list[str] = []
    for path in (*DIRECTORIES, "monitoring.state_dir"):
        section, _, key = path.partition(".")
        inner = config.get(section)
        value = inner.get(key) if isinstance(inner, Mapping) else None
        found += [] if value is None else [str(value)]
    return found


def find_parameter(parameters: Mapping[str, object], name: str) -> object:
    """The value of a parameter, however its key is written; None when not there."""
    return {plain_key(key): v for key, v in parameters.items()}.get(name)
