"""Conditions of a job, from the sweep to core specs.

Resolves every field but patterns, lowers what is only a way of writing (`base.KEY`,
`{runtime...}` keys, `start_condition_cmd`), and hands plain mappings to the parser.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final, TypeAlias

from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.job_state import FAULTS, find_parameter, list_problems
from autoexp_tui.planning.ports import SpecParser
from autoexp_tui.planning.substitution import After
from autoexp_tui.sweep.families import UnusableJob
from autoexp_tui.sweep.schema import shorten_text

COMMAND_KEY: Final = "start_condition_cmd"
MONITORING_COMMAND: Final = f"monitoring.{COMMAND_KEY}"
"""The same for all jobs of a config, where other programs have it."""
_BASE_KEY: Final = re.compile(r"(?:base|parent)\.(?P<key>.+)")
_Fields: TypeAlias = Mapping[str, object]
_UNTOUCHED: Final = frozenset({"pattern", "class_name"})


class ConditionReader:
    """Reads the conditions of one job; findings go to `problems`."""

    def __init__(self, after: After, parser: SpecParser) -> None:
        self._after = after
        self._parser = parser
        self.problems: list[Problem] = []
        self.unusable: UnusableJob | None = None
        """A job that they name has faults of its own, which are told there."""

    def read_start(self, parameters: Mapping[str, object]) -> tuple[Condition, ...]:
        """The start conditions of a point."""
        found = self.read_list(parameters, "start_conditions")
        command = find_parameter(parameters, COMMAND_KEY)
        if command is None:
            return found
        return (*found, *self.read_command(command, COMMAND_KEY))

    def read_list(
        self, parameters: Mapping[str, object], where: str
    ) -> tuple[Condition, ...]:
        """The conditions of one list; those with findings are left out."""
        raw = find_parameter(parameters, where) or ()
        if not isinstance(raw, list | tuple):
            is_mapping = isinstance(raw, Mapping)
            hint = "conditions are a list: `- class_name: FileExistsCondition`"
            if is_mapping:
                hint = "write `- ` before its class_name: conditions are a list"
            what = "a mapping" if is_mapping else shorten_text(repr(raw))
            self.problems.append(Problem(f"is {what}, not a list", where, hint=hint))
            return ()
        found = (
            self._read_condition(entry, f"{where}.{at}") for at, entry in enumerate(raw)
        )
        return tuple(condition for condition in found if condition is not None)

    def read_command(self, raw: object, where: str) -> tuple[Condition, ...]:
        """The condition that a `start_condition_cmd` stands for."""
        try:
            words = shlex.split(raw) if isinstance(raw, str) else raw
        except ValueError as error:
            hint = "close the quote, or write the command as a list"
            message = f"{shorten_text(repr(raw))}: {error}"
            self.problems.append(Problem(message, where=where, hint=hint))
            return ()
        entry = {"class_name": "CommandCondition", "command": words}
        found = self._read_condition(entry, where)
        return () if found is None else (found,)

    def _read_condition(self, raw: object, where: str) -> Condition | None:
        if not isinstance(raw, Mapping):
            hint = "class_name: FileExistsCondition, and its fields"
            shown = "null" if raw is None else shorten_text(repr(raw))
            self.problems.append(
                Problem(f"is {shown}, not a mapping", where, hint=hint)
            )
            return None
        try:
            return self._parser.condition(self._resolve(raw), where)
        except FAULTS as error:
            self.problems += list_problems(error, where)
        except UnusableJob as unusable:
            self.unusable = unusable
        return None

    def _resolve(self, raw: _Fields) -> dict[str, object]:
        """The mapping with its fields resolved, nested conditions included."""
        if str(raw.get("class_name", "")).removesuffix("Condition") == "Metadata":
            raw = self._resolve_metadata(raw)
        return {key: self._resolve_field(key, value) for key, value in raw.items()}

    def _resolve_field(self, key: str, value: object) -> object:
        if key in _UNTOUCHED:
            return value
        if key == "condition" and isinstance(value, Mapping):
            return self._resolve(value)
        if key == "conditions" and isinstance(value, list | tuple):
            return [
                self._resolve(item) if isinstance(item, Mapping) else item
                for item in value
            ]
        return self._after.value(value)

    def _resolve_metadata(self, raw: _Fields) -> _Fields:
        """`base.KEY` and `{runtime.JOB.KEY}` as a job and its key."""
        key = raw.get("key")
        if not isinstance(key, str):
            return raw
        runtime = self._after.find_runtime(key)
        if runtime is not None:
            return {**raw, "job": runtime.job, "key": runtime.key}
        base = _BASE_KEY.fullmatch(key)
        if base:
            return {**raw, "job": self._after.values.base_name(), "key": base["key"]}
        return raw
