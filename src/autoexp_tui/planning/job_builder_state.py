"""A job while it is made: what is known of it so far, and how it is finished.

A parameter that reads the job's own config, or its name, is composed with a
placeholder; `Settling` puts its value in when what it reads is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoexp_tui.conditions.kinds import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Resources
from autoexp_tui.planning.conditions import FAULTS, problems_of
from autoexp_tui.planning.overrides import literal, spell_override
from autoexp_tui.planning.ports import ConfigView, Launch
from autoexp_tui.planning.references import Identity, Runtime, World, accessed_own
from autoexp_tui.planning.substitution import finished, unfinished_in
from autoexp_tui.sweep.points import SweepPoint, plain_key


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
    overrides: tuple[str, ...]
    """As a person would write them; equal to what was composed and put."""
    composed: tuple[str, ...]
    """The overrides as they were composed."""
    mounts: Mapping[str, object]
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
        self.puts[path] = literal(value)
        view.put(path, self.puts[path])


class Settling:
    """Finishes the parameters that read the job itself, each after those it reads."""

    def __init__(
        self,
        draft: Draft,
        view: ConfigView,
        world: World,
        waiting: Mapping[str, object],
        texts: dict[str, str],
    ) -> None:
        self._draft = draft
        self._view = view
        self._world = world
        self._waiting = dict(waiting)
        self._texts = texts
        self.problems: list[Problem] = []

    def all_but(self, late: Collection[str]) -> None:
        """Finish everything that reads nothing in `late`."""
        for key in list(self._waiting):
            if key in self._waiting and not self._reads(key, late, set()):
                self._finish(key)

    def _reads(self, key: str, late: Collection[str], seen: set[str]) -> bool:
        """Whether a key reads, perhaps through others, something in `late`."""
        if key in seen:
            return False
        seen.add(key)
        return any(
            accessor in late
            or any(self._reads(other, late, seen) for other in self._behind(accessor))
            for text in unfinished_in(self._waiting[key])
            for accessor in text.accessors
        )

    def _behind(self, accessor: str) -> Iterator[str]:
        """The waiting keys that an accessor may mean."""
        for key in self._waiting:
            plain = plain_key(key)
            if (
                plain == accessor
                or plain.endswith(f".{accessor}")
                or accessor.startswith(f"{plain}.")
                or plain.startswith(f"{accessor}.")
            ):
                yield key

    def _finish(self, key: str) -> None:
        value = self._waiting.pop(key)
        path = plain_key(key)
        try:
            written = finished(value, self._read)
            resolved = self._view.interpolate(written, path)
            self._draft.put(self._view, path, resolved)
            head = self._texts[key].partition("=")[0]
            self._texts[key] = spell_override(head, written)
        except FAULTS as error:
            self.problems += problems_of(error, key, self._draft.identity.name)

    def _read(self, accessor: str) -> object:
        for key in list(self._behind(accessor)):
            if key in self._waiting:
                self._finish(key)
        keys = self._world.metadata_keys
        return accessed_own(self._draft.identity, self._view, keys, accessor)
