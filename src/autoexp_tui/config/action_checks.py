"""What actions name and what is there: configs, files, programs, override grammar.

Looked at while planning, in its process, so that a rule does not turn out to be broken
in the night when it fires. What holds a reference is known only then, and passed over.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import OverrideParseException

from autoexp_tui.actions.kinds import (
    Action,
    NewJob,
    Restart,
    RunAutoexp,
    RunCommand,
)
from autoexp_tui.actions.log_values import USE_ARGUMENT, joins_words, why_never
from autoexp_tui.conditions.bindings import RefusedValue, bind, own_fields
from autoexp_tui.config.hydra_errors import unreadable_override
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.lint_rules import list_rule_sets, list_rules
from autoexp_tui.probes.config_files import list_configs
from autoexp_tui.text.did_you_mean import did_you_mean, slip_of

_REFERENCE: Final = re.compile(r"\{[^{}]*\}")
_PLACEHOLDER: Final = "x"
_LINE: Final = "line"


class ActionChecks:
    """Looks at the actions of all rules of a plan; what it finds is kept."""

    def __init__(self, roots: Iterable[Path], cwd: Path) -> None:
        """`roots`: where configs are looked for."""
        self.errors: list[Problem] = []
        """A rule that cannot do what it says, whatever happens."""
        self.warnings: list[Problem] = []
        """Something that is not there yet, and may still come."""
        self._configs = list_configs(roots)
        self._cwd = cwd
        self._parser = OverridesParser.create()

    def look_at(self, plan: Plan) -> None:
        """Check every rule that any job of the plan is under."""
        known = _Known(plan)
        for job, rules in list_rule_sets(plan):
            for where, action in _actions(rules):
                self._check(action, where, job)
                self._references(action, known, where, job)
            self._notify(rules, job)
        for spec in plan.jobs:
            self._conditions(spec, known)

    def _references(self, action: Action, known: _Known, where: str, job: str) -> None:
        """What a rule asks for when it fires, and nothing will ever have told."""

        def told(_job: str, key: str) -> str | None:
            return _PLACEHOLDER if key in known.extracted else None

        _, lacking = bind(action, told, known.jobs, known.own(job))
        for one in sorted(set(lacking)):
            if isinstance(one, RefusedValue):
                self.errors.append(_tell_refusal(one, where, job))
                continue
            key = one.key
            hint = did_you_mean(key, sorted(known.names(job)), "names")
            message = f"{{{key}}} is told by nothing: no log event extracts `{key}`"
            self.warnings.append(Problem(message, where, job, hint))

    def _conditions(self, job: JobSpec, known: _Known) -> None:
        """What a job's own conditions take from logs of others."""
        roles = (
            ("start_conditions", job.start_conditions),
            ("cancel_conditions", job.cancel_conditions),
        )
        for role, specs in roles:
            for at, spec in enumerate(specs):
                _, lacking = bind(spec, _always, known.jobs)
                self.errors += [
                    _tell_refusal(one, f"{role}.{at}", job.name)
                    for one in lacking
                    if isinstance(one, RefusedValue)
                ]

    def _notify(self, rules: Monitoring, job: str) -> None:
        """The message, which may hold a log's text, becomes the last word."""
        words = rules.notify_command
        if not words:
            return
        never = why_never((*words, "{m}"), len(words), 0, 3)
        if never or joins_words(words):
            hint = "use a program that takes the message as its last word"
            never = never or "in a text for a shell"
            message = f"the message, which may hold a log's text, would stand {never}"
            self.errors.append(Problem(message, "notify.command", job, hint))

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


def _extracted(rules: Monitoring) -> Iterator[str]:
    """What the rules read from logs."""
    for event in rules.log_events:
        yield from event.extract_groups


def _always(_job: str, _key: str) -> str:
    return _PLACEHOLDER


def _tell_refusal(value: RefusedValue, where: str, job: str) -> Problem:
    message = f"{{{value.key}}}: {value.problem}"
    return Problem(message, where, job, USE_ARGUMENT.replace("key", value.key))


class _Known:
    """What references in actions may mean, looked up once it is asked for."""

    def __init__(self, plan: Plan) -> None:
        self.jobs = {job.name: job for job in plan.jobs}
        rules = (rules for _, rules in list_rule_sets(plan))
        self.extracted = {_LINE}.union(*map(_extracted, rules))
        """What log events have."""

    def own(self, job: str) -> dict[str, str]:
        """Fields of the job; the line that triggers a rule is beside them."""
        return dict.fromkeys([*self._fields(job), _LINE], _PLACEHOLDER)

    def names(self, job: str) -> set[str]:
        """All that a reference may name."""
        return self.extracted | self._fields(job)

    def _fields(self, job: str) -> set[str]:
        """Of one job; of any, where the rules are those of the plan."""
        return set(own_fields(self.jobs[job], 1)) if job else self._any

    @cached_property
    def _any(self) -> set[str]:
        return {key for job in self.jobs.values() for key in own_fields(job, 1)}


def _actions(rules: Monitoring) -> Iterator[tuple[str, Action]]:
    for rule in list_rules(rules, ""):
        for at, action in enumerate(rule.event.actions):
            yield f"{rule.where}.actions.{at}", action
