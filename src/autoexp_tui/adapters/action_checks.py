"""What actions name and what is there: configs, files, programs, override grammar.

Looked at while planning, in its process, so that a rule does not turn out to be broken
in the night when it fires. What holds a reference is known only then, and passed over.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException

from autoexp_tui.adapters.hydra_compose import config_names
from autoexp_tui.adapters.hydra_errors import unreadable_override
from autoexp_tui.core.errors import Problem
from autoexp_tui.core.specs import (
    Action,
    Monitoring,
    NewJob,
    Plan,
    Restart,
    RunAutoexp,
    RunCommand,
)
from autoexp_tui.plan.near import did_you_mean, slip_of
from autoexp_tui.plan.oversights import all_rules, events_of

_REFERENCE: Final = re.compile(r"\{[^{}]*\}")
_PLACEHOLDER: Final = "x"


class ActionChecks:
    """Looks at the actions of all rules of a plan; what it finds is kept."""

    def __init__(self, config_dir: Path, cwd: Path) -> None:
        self.errors: list[Problem] = []
        """A rule that cannot do what it says, whatever happens."""
        self.warnings: list[Problem] = []
        """Something that is not there yet, and may still come."""
        self._configs = config_names(config_dir)
        self._cwd = cwd
        self._parser = OverridesParser.create()

    def look_at(self, plan: Plan) -> None:
        """Check every rule that any job of the plan is under."""
        for job, rules in all_rules(plan):
            for where, action in _actions(rules):
                self._check(action, where, job)

    def _check(self, action: Action, where: str, job: str) -> None:
        match action:
            case RunAutoexp():
                self._config(action, where, job)
                self._overrides(action, where, job)
            case Restart():
                self._overrides(action, where, job)
            case RunCommand(command=command) | NewJob(command=command):
                self._program(command[0], f"{where}.command", job)

    def _config(self, action: RunAutoexp, where: str, job: str) -> None:
        ref, path = action.config_ref, action.config_path
        known = ref.removesuffix(".yaml") in self._configs or _REFERENCE.search(ref)
        if ref and not known:
            hint = did_you_mean(
                slip_of(ref, self._configs) or ref, self._configs, "configs"
            )
            place = f"{where}.config_ref"
            self.errors.append(Problem(f"there is no config `{ref}`", place, job, hint))
        if path and not _REFERENCE.search(path) and not self._at(path).is_file():
            hint = "it is read when the rule fires, and must be there by then"
            place = f"{where}.config_path"
            message = f"{path} is not there"
            self.warnings.append(Problem(message, place, job, hint))

    def _overrides(self, action: RunAutoexp | Restart, where: str, job: str) -> None:
        for at, text in enumerate(action.overrides):
            try:
                self._parser.parse_overrides([_REFERENCE.sub(_PLACEHOLDER, text)])
            except OverrideParseException:
                found = unreadable_override(text)
                place = f"{where}.overrides.{at}"
                self.errors.append(Problem(found.message, place, job, found.hint))

    def _program(self, program: str, where: str, job: str) -> None:
        if _REFERENCE.search(program):
            return
        if "/" in program:
            there = os.access(self._at(program), os.X_OK)
        else:
            there = shutil.which(program) is not None
        if not there:
            hint = "give its path, or install it where the engine runs"
            message = f"there is no program {program} here"
            self.warnings.append(Problem(message, where, job, hint))

    def _at(self, path: str) -> Path:
        return self._cwd / Path(path).expanduser()


def _actions(rules: Monitoring) -> Iterator[tuple[str, Action]]:
    for where, event in events_of(rules):
        for at, action in enumerate(event.actions):
            yield f"{where}.actions.{at}", action
