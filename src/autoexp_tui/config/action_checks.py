"""What actions name and what is there: configs, files, programs, override grammar.

A rule is not to turn out to be broken in the night when it fires. What holds a
reference is known only then, and passed over.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException

from autoexp_tui.actions.kinds import NewJob, Restart, RunAutoexp, RunCommand
from autoexp_tui.conditions.bindings import (
    USE_ARGUMENT,
    Lacking,
    bind,
    explain_never,
    is_joining_words,
    list_own_fields,
)
from autoexp_tui.config.hydra_errors import explain_unreadable
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import Action, Monitoring
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.validate import list_rule_sets, list_rules
from autoexp_tui.probes.config_files import list_configs
from autoexp_tui.text.did_you_mean import did_you_mean, find_slip

_REFERENCE: Final = re.compile(r"\{[^{}]*\}")
_PLACEHOLDER: Final = "x"
_LINE: Final = "line"


class ActionChecks:
    """Looks at the actions of all rules of a plan; what it finds is kept."""

    def __init__(self, plan: Plan, roots: Iterable[Path], cwd: Path) -> None:
        """`roots`: where configs are looked for."""
        self._plan = plan
        self._jobs = {job.name: job for job in plan.jobs}
        groups = (
            event.extract_groups
            for _, rules in list_rule_sets(plan)
            for event in rules.log_events
        )
        self._extracted = {_LINE, *(key for group in groups for key in group)}
        """What log events have; of any, the line that triggers a rule."""
        self.errors: list[Problem] = []
        """A rule that cannot do what it says, whatever happens."""
        self.warnings: list[Problem] = []
        """Something that is not there yet, and may still come."""
        self._configs = list_configs(roots)
        self._cwd = cwd
        self._parser = OverridesParser.create()

    def check_plan(self) -> None:
        """Check every rule that any job of the plan is under."""
        for job, rules in list_rule_sets(self._plan):
            for rule in list_rules(rules, job):
                for at, action in enumerate(rule.event.actions):
                    where = f"{rule.where}.actions.{at}"
                    match action:
                        case RunAutoexp():
                            self._check_config(action, where, job)
                            self._check_overrides(action, where, job)
                        case Restart():
                            self._check_overrides(action, where, job)
                        case RunCommand(command=words) | NewJob(command=words):
                            self._check_program(words[0], f"{where}.command", job)
                    self._check_references(action, where, job)
            self._check_notify(rules, job)
        for spec in self._plan.jobs:
            # What its own conditions take from logs of others.
            for role in ("start_conditions", "cancel_conditions"):
                for at, part in enumerate(getattr(spec, role)):
                    _, lacking = bind(part, lambda _job, _key: _PLACEHOLDER, self._jobs)
                    self._refuse_values(lacking, f"{role}.{at}", spec.name)

    def _check_references(self, action: Action, where: str, job: str) -> None:
        """What a rule asks for when it fires, and nothing will ever have told."""

        def look_up(_job: str, key: str) -> str | None:
            return _PLACEHOLDER if key in self._extracted else None

        fields = set(list_own_fields(self._jobs[job], 1)) if job else self._fields
        own = dict.fromkeys([*fields, _LINE], _PLACEHOLDER)
        _, lacking = bind(action, look_up, self._jobs, own)
        self._refuse_values(lacking, where, job)
        for one in sorted({one for one in lacking if not one.problem}):
            hint = did_you_mean(one.key, sorted(self._extracted | fields), "names")
            message = (
                f"{{{one.key}}} is told by nothing: no log event extracts `{one.key}`"
            )
            self.warnings.append(Problem(message, where, job, hint))

    @cached_property
    def _fields(self) -> set[str]:
        """Of any job: the rules are those of the plan."""
        return {key for job in self._jobs.values() for key in list_own_fields(job, 1)}

    def _refuse_values(self, lacking: Iterable[Lacking], where: str, job: str) -> None:
        for one in sorted({one for one in lacking if one.problem}):
            message = f"{{{one.key}}}: {one.problem}"
            hint = USE_ARGUMENT.replace("key", one.key)
            self.errors.append(Problem(message, where, job, hint))

    def _check_notify(self, rules: Monitoring, job: str) -> None:
        """The message, which may hold a log's text, becomes the last word."""
        words = rules.notify_command
        if not words:
            return
        never = explain_never((*words, "{m}"), len(words), 0, 3)
        if never or is_joining_words(words):
            hint = "use a program that takes the message as its last word"
            never = never or "in a text for a shell"
            message = f"the message, which may hold a log's text, would stand {never}"
            self.errors.append(Problem(message, "notify.command", job, hint))

    def _check_config(self, action: RunAutoexp, where: str, job: str) -> None:
        ref, path = action.config_ref, action.config_path
        known = ref.removesuffix(".yaml") in self._configs or _REFERENCE.search(ref)
        if ref and not known:
            meant = find_slip(ref, self._configs) or ref
            message, place = f"there is no config `{ref}`", f"{where}.config_ref"
            hint = did_you_mean(meant, self._configs, "configs")
            self.errors.append(Problem(message, place, job, hint))
        if path and not _REFERENCE.search(path) and not self._find(path).is_file():
            hint = "it is read when the rule fires, and must be there by then"
            place = f"{where}.config_path"
            self.warnings.append(Problem(f"{path} is not there", place, job, hint))

    def _check_overrides(
        self, action: RunAutoexp | Restart, where: str, job: str
    ) -> None:
        for at, text in enumerate(action.overrides):
            try:
                self._parser.parse_overrides([_REFERENCE.sub(_PLACEHOLDER, text)])
            except OverrideParseException:
                found = explain_unreadable(text)
                place = f"{where}.overrides.{at}"
                self.errors.append(Problem(found.message, place, job, found.hint))

    def _check_program(self, program: str, where: str, job: str) -> None:
        if _REFERENCE.search(program):
            return
        path = str(self._find(program)) if "/" in program else program
        if shutil.which(path) is None:
            hint = "give its path, or install it where the engine runs"
            message = f"there is no program {program} here"
            self.warnings.append(Problem(message, where, job, hint))

    def _find(self, path: str) -> Path:
        return self._cwd / Path(path).expanduser()
