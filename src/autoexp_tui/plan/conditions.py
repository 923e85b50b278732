"""Conditions of a job, from the sweep to core specs.

Resolves every field but patterns, lowers what is only a way of writing (`base.KEY`,
`{runtime...}` keys, `start_condition_cmd`), and hands plain mappings to the parser.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from autoexp_tui.core.condition_kinds import Condition
from autoexp_tui.core.errors import Problem
from autoexp_tui.plan.families import SiblingNotFound
from autoexp_tui.plan.ports import CannotCompose, SpecParser, SpecRefused
from autoexp_tui.plan.reference_syntax import NotAReference
from autoexp_tui.plan.references import UnknownKey, UnusableJob
from autoexp_tui.plan.substitution import After
from autoexp_tui.plan.sweep_nodes import shown

FAULTS: Final = (
    CannotCompose,
    NotAReference,
    SiblingNotFound,
    SpecRefused,
    UnknownKey,
)
"""What may be wrong with a value of the config."""
COMMAND_KEY: Final = "start_condition_cmd"
_BASE_KEY: Final = re.compile(r"(?:base|parent)\.(?P<key>.+)")
_UNTOUCHED: Final = frozenset({"pattern", "class_name"})


def problems_of(error: Exception, where: str, job: str = "") -> tuple[Problem, ...]:
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


class ConditionReader:
    """Reads the conditions of one job; findings go to `problems`."""

    def __init__(
        self, after: After, parser: SpecParser, base_name: Callable[[], str]
    ) -> None:
        self._after = after
        self._parser = parser
        self._base_name = base_name
        self.problems: list[Problem] = []
        self.unusable: UnusableJob | None = None
        """A job that they name has faults of its own, which are told there."""

    def read(self, raw: object, where: str) -> tuple[Condition, ...]:
        """The conditions of one list; those with findings are left out."""
        if isinstance(raw, Mapping):
            hint = "write `- ` before its class_name: conditions are a list"
            self.problems.append(Problem("is a mapping, not a list", where, hint=hint))
            return ()
        if not isinstance(raw, list | tuple):
            hint = "conditions are a list: `- class_name: FileExistsCondition`"
            message = f"is {shown(repr(raw))}, not a list"
            self.problems.append(Problem(message, where, hint=hint))
            return ()
        found = (
            self._condition(entry, f"{where}.{at}") for at, entry in enumerate(raw)
        )
        return tuple(condition for condition in found if condition is not None)

    def read_command(self, raw: object) -> tuple[Condition, ...]:
        """The condition that `start_condition_cmd` stands for."""
        try:
            words = shlex.split(raw) if isinstance(raw, str) else raw
        except ValueError as error:
            hint = "close the quote, or write the command as a list"
            message = f"{shown(repr(raw))}: {error}"
            self.problems.append(Problem(message, where=COMMAND_KEY, hint=hint))
            return ()
        entry = {"class_name": "CommandCondition", "command": words}
        found = self._condition(entry, COMMAND_KEY)
        return () if found is None else (found,)

    def _condition(self, raw: object, where: str) -> Condition | None:
        if not isinstance(raw, Mapping):
            hint = "class_name: FileExistsCondition, and its fields"
            self.problems.append(
                Problem(f"is {_said(raw)}, not a mapping", where, hint=hint)
            )
            return None
        try:
            return self._parser.condition(self._lowered(raw), where)
        except FAULTS as error:
            self.problems += problems_of(error, where)
        except UnusableJob as unusable:
            self.unusable = unusable
        return None

    def _lowered(self, raw: Mapping[str, object]) -> dict[str, object]:
        """The mapping resolved, nested conditions included."""
        if _short(raw) == "Metadata":
            raw = self._metadata(raw)
        return {key: self._field(key, value) for key, value in raw.items()}

    def _field(self, key: str, value: object) -> object:
        if key in _UNTOUCHED:
            return value
        if key == "condition" and isinstance(value, Mapping):
            return self._lowered(value)
        if key == "conditions" and isinstance(value, Sequence):
            return [
                self._lowered(item) if isinstance(item, Mapping) else item
                for item in value
            ]
        return self._after.value(value)

    def _metadata(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """`base.KEY` and `{runtime.JOB.KEY}` as a job and its key."""
        key = raw.get("key")
        if not isinstance(key, str):
            return raw
        runtime = self._after.runtime(key)
        if runtime is not None:
            return {**raw, "job": runtime.job, "key": runtime.key}
        base = _BASE_KEY.fullmatch(key)
        if base:
            return {**raw, "job": self._base_name(), "key": base["key"]}
        return raw


def _said(raw: object) -> str:
    return "null" if raw is None else shown(repr(raw))


def _short(raw: Mapping[str, object]) -> str:
    return str(raw.get("class_name", "")).removesuffix("Condition")
