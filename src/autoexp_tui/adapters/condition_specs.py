"""Conditions and actions from plain mappings to core specs.

`class_name` is one of our names, with or without its suffix. What a mapping lacks, has
too much of, or has wrong is found all at once; patterns are compiled here so that a
broken one is known before anything is submitted. Nothing is evaluated, no reference
is resolved: planning does that before and after.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from autoexp_tui.adapters.backends import spelled
from autoexp_tui.adapters.spec_building import (
    Fields,
    Findings,
    Kind,
    built,
    compiled,
    each,
    mapping,
    texts,
)
from autoexp_tui.core import specs
from autoexp_tui.core.states import JobState
from autoexp_tui.plan.near import did_you_mean
from autoexp_tui.plan.ports import SpecRefused

RAW_STATES: Final = frozenset({"TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED"})
"""Slurm's own words that mean FAILED with that cause."""
JOB_STATES: Final = frozenset(state.value for state in JobState) | RAW_STATES

_LATER: Final = frozenset({"RunAutoexp", "NewJob"})
"""Actions of the design that this version does not carry out."""
_OVERRIDE: Final = re.compile(r"~\S+|[^=\s]+=.*", re.DOTALL)


def condition(value: object, where: str) -> specs.Condition:
    """The condition that a mapping describes.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    made: specs.Condition = _member(value, where, CONDITIONS, "Condition")
    return made


def action(value: object, where: str) -> specs.Action:
    """The action that a mapping describes.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    made: specs.Action = _member(value, where, ACTIONS, "Action")
    return made


def _member(value: object, where: str, kinds: Mapping[str, Kind], suffix: str) -> Any:
    fields = mapping(value, where)
    name = fields.pop("class_name", None)
    return built(_kind(name, where, kinds, suffix), fields, where)


def _kind(name: object, where: str, kinds: Mapping[str, Kind], suffix: str) -> Kind:
    findings = Findings(where)
    if not isinstance(name, str) or not name:
        hint = did_you_mean("", kinds, f"{suffix.lower()}s")
        findings.add("has no class_name", hint=hint)
        raise SpecRefused(tuple(findings.problems))
    short = name.removesuffix(suffix)
    if short in kinds:
        return kinds[short]
    if suffix == "Action" and short in _LATER:
        hint = f"available: {', '.join(kinds)}"
        findings.add(f"{short} is not available in this version", "class_name", hint)
    elif ":" in name:
        message = f"a {suffix.lower()} of one's own is not available in this version"
        findings.add(
            f"{message}: `{name}`", "class_name", f"listed: {', '.join(kinds)}"
        )
    else:
        hint = did_you_mean(short, kinds, f"{suffix.lower()}s")
        findings.add(f"there is no {suffix.lower()} `{name}`", "class_name", hint)
    raise SpecRefused(tuple(findings.problems))


# ------------------------------------------------------- what each kind makes of it
def _file_exists(fields: Fields, findings: Findings) -> None:
    pattern = fields.get("glob")
    if not isinstance(pattern, str):
        return
    fields["glob"] = True
    if fields.setdefault("path", pattern) != pattern:
        findings.add("`path` and `glob` are both given", hint="keep one of the two")


def _file_content(fields: Fields, findings: Findings) -> None:
    if fields.get("mode") == "regex":
        compiled(fields.get("pattern"), findings)


def _metadata(fields: Fields, findings: Findings) -> None:
    if "job_name" in fields:
        fields["job"] = fields.pop("job_name")
    if "equals" not in fields:
        if "value" not in fields:
            findings.add(
                "has nothing to compare with", hint="equals: VALUE, or op+value"
            )
        return
    expected = fields.pop("equals")
    if "value" in fields or fields.get("op", "==") != "==":
        findings.add("`equals` and `op`/`value` are both given", hint="keep one")
    fields["value"] = expected


def _job_state(fields: Fields, findings: Findings) -> None:
    names = texts(fields.pop("job_name", None))
    if names is None or names == []:
        hint = 'job_name: "{sibling.STAGE.name}", or a list: "{all.STAGE.name}"'
        findings.add("names no job", "job_name", hint)
        names = []
    fields["jobs"] = names
    state = fields.get("state")
    if isinstance(state, str):
        fields["state"] = state.upper()
        if state.upper() not in JOB_STATES:
            hint = did_you_mean(state, JOB_STATES, "states")
            findings.add(f"there is no state `{state}`", "state", hint)


def _command(fields: Fields, findings: Findings) -> None:
    command = fields.get("command")
    if isinstance(command, str):
        hint = 'write its words as a list: ["test", "-f", "x"]; no shell is used'
        findings.add("is text, not a list", "command", hint)
        fields["command"] = [command]
    elif command == []:
        findings.add("is empty", "command")


def _log_pattern(fields: Fields, findings: Findings) -> None:
    globbed = fields.pop("log_pattern", None)
    if globbed is not None:
        fields["glob"] = True
        if fields.setdefault("log_path", globbed) != globbed:
            findings.add("`log_path` and `log_pattern` are both given", hint="keep one")
    compiled(fields.get("pattern"), findings)


def _time(fields: Fields, findings: Findings) -> None:
    given = [name for name in ("after_seconds", "at") if fields.get(name) is not None]
    if len(given) != 1:
        findings.add("needs exactly one of after_seconds and at")
    at = fields.get("at")
    if isinstance(at, str):
        fields["at"] = _moment(at, findings)


def _moment(text: str, findings: Findings) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        hint = "write it like 2030-05-01T08:00+02:00"
        findings.add(f"{text!r} is no date and time", "at", hint)
        return None
    if moment.tzinfo is None:
        hint = f"say which: {text}Z for UTC, or {text}+02:00"
        findings.add(f"{text!r} has no time zone", "at", hint)
        return None
    return moment.timestamp()


def _approval(fields: Fields, findings: Findings) -> None:
    if "show_files" in fields:
        fields["show_files"] = texts(fields["show_files"])


def _composite(fields: Fields, findings: Findings) -> None:
    if "conditions" in fields:
        fields["conditions"] = each(
            fields["conditions"], findings, "conditions", condition
        )
        if not fields["conditions"] and not findings.problems:
            findings.add("is empty: it would pass at once", "conditions")


def _not(fields: Fields, findings: Findings) -> None:
    if "condition" not in fields:
        return
    try:
        fields["condition"] = condition(
            fields["condition"], f"{findings.where}.condition"
        )
    except SpecRefused as error:
        findings.inherit(error)
        fields["condition"] = specs.MaxAttempts(max_attempts=1)  # refused anyway


def _action(fields: Fields, findings: Findings) -> None:
    if "conditions" in fields:
        fields["conditions"] = each(
            fields["conditions"], findings, "conditions", condition
        )


def _restart(fields: Fields, findings: Findings) -> None:
    _action(fields, findings)
    _not_negative("quarantine_after", fields, findings)
    overrides = texts(fields.get("overrides", []))
    fields["overrides"] = overrides
    for at, text in enumerate(overrides if isinstance(overrides, list) else ()):
        if isinstance(text, str) and not _OVERRIDE.fullmatch(text):
            hint = "an override is key=value; +key=value adds, ~key removes"
            findings.add(f"`{text}` is not an override", f"overrides.{at}", hint)


def _quarantine(fields: Fields, findings: Findings) -> None:
    _action(fields, findings)
    _not_negative("keep", fields, findings)


def _not_negative(name: str, fields: Fields, findings: Findings) -> None:
    value = fields.get(name)
    if isinstance(value, int) and value < 0:
        findings.add(f"is {value}; it must not be less than 0", name)


def _append_to_file(fields: Fields, findings: Findings) -> None:
    _action(fields, findings)
    if "content" in fields:
        content = fields.pop("content")
        if fields.setdefault("text", content) != content:
            findings.add("`text` and `content` are both given", hint="keep one")


def _action_command(fields: Fields, findings: Findings) -> None:
    _action(fields, findings)
    _command(fields, findings)
    env = fields.get("env")
    if isinstance(env, Mapping):
        fields["env"] = {str(key): spelled(value) for key, value in env.items()}


CONDITIONS: Final[Mapping[str, Kind]] = {
    "FileExists": Kind(specs.FileExists, hidden=("writer",), prepare=_file_exists),
    "FileContent": Kind(specs.FileContent, hidden=("writer",), prepare=_file_content),
    "Metadata": Kind(specs.MetadataIs, also=("equals", "job_name"), prepare=_metadata),
    "Metric": Kind(specs.MetricIs),
    "SlurmState": Kind(
        specs.JobStateIs, also=("job_name",), hidden=("jobs",), prepare=_job_state
    ),
    "JobState": Kind(
        specs.JobStateIs, also=("job_name",), hidden=("jobs",), prepare=_job_state
    ),
    "Command": Kind(specs.CommandPasses, prepare=_command),
    "LogPattern": Kind(
        specs.LogPattern,
        also=("log_pattern",),
        hidden=("writer",),
        prepare=_log_pattern,
    ),
    "Time": Kind(specs.TimeReached, prepare=_time),
    "Approval": Kind(specs.Approval, prepare=_approval),
    "MaxAttempts": Kind(specs.MaxAttempts),
    "Cooldown": Kind(specs.Cooldown),
    "Composite": Kind(specs.Composite, prepare=_composite),
    "Not": Kind(specs.Not, prepare=_not),
}

ACTIONS: Final[Mapping[str, Kind]] = {
    "Restart": Kind(specs.Restart, prepare=_restart),
    "Cancel": Kind(specs.Cancel, prepare=_action),
    "Log": Kind(specs.Log, prepare=_action),
    "Notify": Kind(specs.Notify, prepare=_action),
    "Finish": Kind(specs.Finish, prepare=_action),
    "AppendToFile": Kind(
        specs.AppendToFile, also=("content",), prepare=_append_to_file
    ),
    "Command": Kind(specs.RunCommand, prepare=_action_command),
    "QuarantineCheckpoint": Kind(specs.QuarantineCheckpoint, prepare=_quarantine),
}
