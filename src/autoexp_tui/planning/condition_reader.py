"""Conditions of a job, from the sweep to core specs.

Resolves every field but patterns, lowers what is only a way of writing (`base.KEY`,
`{runtime...}` keys, `start_condition_cmd`), and hands plain mappings to the parser.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.job_state import FAULTS, find_parameter, list_problems
from autoexp_tui.planning.ports import SpecParser
from autoexp_tui.planning.substitution import Substitution
from autoexp_tui.sweep.families import UnusableJob
from autoexp_tui.sweep.schema import shorten_text

COMMAND_KEY: Final = "start_condition_cmd"
_BASE_KEY: Final = re.compile(r"(?:base|parent)\.(?P<key>.+)")


class ConditionReader:
    """Reads the conditions of one job; findings go to `problems`."""

    def __init__(self, after: Substitution, parser: SpecParser) -> None:
        self._after = after
        self._parser = parser
        self.problems: list[Problem] = []
        self.unusable: UnusableJob | None = None
        """A job that they name has faults of its own, which are told there."""

    def read_list(
        self, parameters: Mapping[str, object], where: str
    ) -> tuple[Condition, ...]:
        """The conditions of one list; those with findings are left out."""
        raw = find_parameter(parameters, where) or ()
        if isinstance(raw, list | tuple):
            each = (self._read(item, f"{where}.{at}") for at, item in enumerate(raw))
            return tuple(condition for found in each for condition in found)
        what = shorten_text(repr(raw))
        hint = "conditions are a list: `- class_name: FileExistsCondition`"
        if isinstance(raw, Mapping):
            what = "a mapping"
            hint = "write `- ` before its class_name: conditions are a list"
        self.problems.append(Problem(f"is {what}, not a list", where, hint=hint))
        return ()

    def read_command(self, raw: object, where: str) -> tuple[Condition, ...]:
        """The condition that a `start_condition_cmd` stands for."""
        try:
            words = shlex.split(raw) if isinstance(raw, str) else raw
        except ValueError as error:
            hint = "close the quote, or write the command as a list"
            message = f"{shorten_text(repr(raw))}: {error}"
            self.problems.append(Problem(message, where=where, hint=hint))
            return ()
        return self._read({"class_name": "CommandCondition", "command": words}, where)

    def _read(self, raw: object, where: str) -> tuple[Condition, ...]:
        if not isinstance(raw, Mapping):
            hint = "class_name: FileExistsCondition, and its fields"
            shown = "null" if raw is None else shorten_text(repr(raw))
            message = f"is {shown}, not a mapping"
            self.problems.append(Problem(message, where, hint=hint))
            return ()
        try:
            return (self._parser.condition(self._resolve(raw), where),)
        except FAULTS as error:
            self.problems += list_problems(error, where)
        except UnusableJob as unusable:
            self.unusable = unusable
        return ()

    def _resolve(self, raw: Mapping[str, object]) -> dict[str, object]:
        fields = dict(raw)
        name = str(raw.get("class_name", "")).removesuffix("Condition")
        if name == "Metadata" and isinstance(key := raw.get("key"), str):
            if (runtime := self._after.find_runtime(key)) is not None:
                fields |= {"job": runtime.job, "key": runtime.key}
            elif base := _BASE_KEY.fullmatch(key):
                fields |= {"job": self._after.values.base_name(), "key": base["key"]}
        for key, value in fields.items():
            if key == "condition" and isinstance(value, Mapping):
                fields[key] = self._resolve(value)
            elif key == "conditions" and isinstance(value, list | tuple):
                fields[key] = [
                    self._resolve(item) if isinstance(item, Mapping) else item
                    for item in value
                ]
            elif key not in {"pattern", "class_name"}:
                fields[key] = self._after.value(value)
        return fields
