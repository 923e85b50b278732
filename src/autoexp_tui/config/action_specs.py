"""Actions of rules from plain mappings to core specs.

What can be known before anything runs is found here: unknown fields, overrides that are
none, commands that are one text. References in braces stay; they are read when a rule
fires. Files and configs that an action names are looked for elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from autoexp_tui.actions.errands import AppendToFile, RunCommand
from autoexp_tui.actions.new_job import NewJob
from autoexp_tui.actions.notices import Log, Notify
from autoexp_tui.actions.quarantine import QuarantineCheckpoint
from autoexp_tui.actions.restart import Restart
from autoexp_tui.actions.run_autoexp import RunAutoexp
from autoexp_tui.actions.stopping import Cancel, Finish
from autoexp_tui.backends.base import format_word
from autoexp_tui.config.condition_specs import (
    check_command,
    parse_condition,
    parse_kind,
)
from autoexp_tui.config.spec_building import (
    Fields,
    Findings,
    Kind,
    flatten_texts,
    move_alias,
    parse_list,
)
from autoexp_tui.executors.slurm.sbatch_options import parse_options, parse_seconds
from autoexp_tui.model.action import Action
from autoexp_tui.model.resource_totals import gpus_of

_OVERRIDE: Final = re.compile(r"~\S+|[^=\s]+=.*", re.DOTALL)
_GPUS: Final = frozenset(
    {
        *("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"),
        *("gres", "tres-per-task"),
    }
)
_NESTED: Final = ("script", "config_path", "config_ref", "overrides")
"""What `action:` may hold of a RunAutoexp."""


def parse_action(value: object, where: str) -> Action:
    """The action that a mapping describes.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    made: Action = parse_kind(value, where, ACTIONS, Action, _action)
    return made


# ------------------------------------------------------- what each kind makes of it
def _action(fields: Fields, findings: Findings) -> None:
    _conditions(fields, findings, "conditions")


def _conditions(fields: Fields, findings: Findings, key: str) -> None:
    if key in fields:
        fields[key] = parse_list(fields[key], findings, key, parse_condition)


def _restart(fields: Fields, findings: Findings) -> None:
    _action(fields, findings)
    _overrides(fields, findings)


def _overrides(fields: Fields, findings: Findings) -> None:
    overrides = flatten_texts(fields.get("overrides", []))
    fields["overrides"] = overrides
    for at, text in enumerate(overrides if isinstance(overrides, list) else ()):
        if isinstance(text, str) and not _OVERRIDE.fullmatch(text):
            hint = "an override is key=value; +key=value adds, ~key removes"
            findings.add(f"`{text}` is not an override", f"overrides.{at}", hint)


def _append_to_file(fields: Fields, findings: Findings) -> None:
    _action(fields, findings)
    move_alias(fields, findings, "content", "text")


def _command(fields: Fields, findings: Findings) -> None:
    _action(fields, findings)
    check_command(fields, findings)
    _env(fields)


def _env(fields: Fields) -> None:
    env = fields.get("env")
    if isinstance(env, Mapping):
        fields["env"] = {str(key): format_word(value) for key, value in env.items()}


def _new_job(fields: Fields, findings: Findings) -> None:
    _command(fields, findings)
    for key in ("start_conditions", "cancel_conditions"):
        _conditions(fields, findings, key)
    written = fields.pop("sbatch", None)
    if written is None:
        return
    if not isinstance(written, Mapping):
        hint = "as slurm.sbatch: {time: 30, gpus: 1}"
        findings.add(f"is {written!r}, not a mapping", "sbatch", hint)
        return
    options, problems = parse_options(written, f"{findings.where}.sbatch")
    findings.problems += problems
    fields["options"] = options
    fields["time_limit_seconds"] = parse_seconds(options.get("time"))
    fields["gpus"] = gpus_of(options) if _GPUS & options.keys() else None


def _run_autoexp(fields: Fields, findings: Findings) -> None:
    _action(fields, findings)
    _unpack(fields, findings)
    _overrides(fields, findings)
    given = [key for key in ("config_ref", "config_path") if fields.get(key)]
    if len(given) != 1:
        hint = "config_ref: NAME as on the command line, or config_path: a YAML file"
        findings.add("needs exactly one of config_ref and config_path", hint=hint)


def _unpack(fields: Fields, findings: Findings) -> None:
    """`action: {script, config_path, overrides}` as the fields themselves."""
    nested = fields.pop("action", None)
    if nested is None:
        return
    if not isinstance(nested, Mapping):
        hint = "action: {config_path: ..., overrides: [...]}"
        findings.add(f"is {nested!r}, not a mapping", "action", hint)
        return
    for key, value in nested.items():
        if key not in _NESTED:
            hint = f"it takes {', '.join(_NESTED)}"
            findings.add("is no field here", f"action.{key}", hint)
        elif fields.setdefault(key, value) != value:
            hint = "keep one of the two"
            findings.add("is given here and beside `action`", f"action.{key}", hint)


ACTIONS: Final[Mapping[str, Kind]] = {
    "Restart": Kind(Restart, prepare=_restart),
    "Cancel": Kind(Cancel, prepare=_action),
    "Finish": Kind(Finish, prepare=_action),
    "Log": Kind(Log, prepare=_action),
    "Notify": Kind(Notify, prepare=_action),
    "AppendToFile": Kind(AppendToFile, also=("content",), prepare=_append_to_file),
    "Command": Kind(RunCommand, prepare=_command),
    "QuarantineCheckpoint": Kind(QuarantineCheckpoint, prepare=_action),
    "NewJob": Kind(
        NewJob,
        also=("sbatch",),
        hidden=("options", "time_limit_seconds", "gpus"),
        prepare=_new_job,
    ),
    "RunAutoexp": Kind(RunAutoexp, also=("action",), prepare=_run_autoexp),
}
