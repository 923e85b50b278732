"""Conditions, actions and rules from plain mappings to core specs.

`class_name` is one of our names, with or without its suffix. What a mapping lacks, has
too much of, or has wrong is found all at once; patterns are compiled here so that a
broken one is known before anything is submitted. Nothing is evaluated, no reference
is resolved: planning does that before and after.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from autoexp_tui.adapters.validation_words import problems_of
from autoexp_tui.core import specs
from autoexp_tui.core.errors import Problem
from autoexp_tui.core.states import JobState
from autoexp_tui.plan.near import did_you_mean
from autoexp_tui.plan.ports import SpecRefused

Fields = dict[str, Any]

RAW_STATES: Final = frozenset({"TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED"})
"""Slurm's own words that mean FAILED with that cause."""
JOB_STATES: Final = frozenset(state.value for state in JobState) | RAW_STATES

_LATER: Final = frozenset({"RunAutoexp", "NewJob", "Finish", "AppendToFile", "Command"})
"""Actions of the design that this version does not carry out."""
_POSITIVE: Final = ("timeout_seconds", "timeout", "cooldown_seconds", "max_attempts")
_OVERRIDE: Final = re.compile(r"~\S+|[^=\s]+=.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Kind:
    """How one `class_name` becomes a spec."""

    spec: Any
    """A dataclass of core."""
    also: tuple[str, ...] = ()
    """Fields of the config that the spec does not have."""
    hidden: tuple[str, ...] = ()
    """Fields of the spec that planning sets."""
    prepare: Callable[[Fields, Findings], None] = lambda fields, findings: None

    def accepted(self) -> tuple[str, ...]:
        """The fields that a mapping may have."""
        own = (f.name for f in dataclasses.fields(self.spec))
        held = {"kind", *self.hidden}
        return (*(name for name in own if name not in held), *self.also)


class Findings:
    """What is wrong with one mapping, collected."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: list[Problem] = []

    def add(self, message: str, field: str = "", hint: str = "") -> None:
        """One finding, at a field of the mapping."""
        where = f"{self.where}.{field}" if field else self.where
        self.problems.append(Problem(message, where=where, hint=hint))

    def inherit(self, error: SpecRefused) -> None:
        """The findings of something nested."""
        self.problems += error.problems

    def settle(self) -> None:
        """Raise what was found.

        Raises:
            SpecRefused: anything at all was found.
        """
        if self.problems:
            raise SpecRefused(tuple(self.problems))


# ---------------------------------------------------------------- the public four
def condition(value: object, where: str) -> specs.Condition:
    """The condition that a mapping describes.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    built: specs.Condition = _member(value, where, CONDITIONS, "Condition")
    return built


def action(value: object, where: str) -> specs.Action:
    """The action that a mapping describes.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    built: specs.Action = _member(value, where, ACTIONS, "Action")
    return built


def log_event(value: object, where: str) -> specs.LogEvent:
    """A rule over log lines; `pattern_type` is regex unless it says otherwise.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    built: specs.LogEvent = _built(_LOG_EVENT, _mapping(value, where), where)
    return built


def state_event(value: object, where: str) -> specs.StateEvent:
    """A rule over ends and transitions of attempts.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    built: specs.StateEvent = _built(_STATE_EVENT, _mapping(value, where), where)
    return built


def metric_pattern(value: object, where: str) -> specs.MetricPattern:
    """A pattern whose one group (or the group `value`) is a metric.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    built: specs.MetricPattern = _built(_METRIC, _mapping(value, where), where)
    return built


# ------------------------------------------------------------------------ building
def _mapping(value: object, where: str) -> Fields:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    problem = Problem(f"is {value!r}, not a mapping", where=where, hint="")
    raise SpecRefused((problem,))


def _member(value: object, where: str, kinds: Mapping[str, Kind], suffix: str) -> Any:
    fields = _mapping(value, where)
    name = fields.pop("class_name", None)
    return _built(_kind(name, where, kinds, suffix), fields, where)


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


def _built(kind: Kind, fields: Fields, where: str) -> Any:
    findings = Findings(where)
    _refuse_unknown(kind, fields, findings)
    kind.prepare(fields, findings)
    _refuse_small(fields, findings)
    try:
        built = _adapter(kind.spec).validate_python(fields)
    except ValidationError as error:
        known = {problem.where for problem in findings.problems}
        found = problems_of(error, where)
        findings.problems += [p for p in found if p.where not in known]
        built = None
    findings.settle()
    return built


@cache
def _adapter(spec: Any) -> TypeAdapter[Any]:
    return TypeAdapter(spec)


def _refuse_unknown(kind: Kind, fields: Fields, findings: Findings) -> None:
    accepted = kind.accepted()
    for name in [name for name in fields if name not in accepted]:
        del fields[name]
        hint = did_you_mean(name, accepted, "fields")
        findings.add("is no field here", name, hint)


def _refuse_small(fields: Fields, findings: Findings) -> None:
    for name in _POSITIVE:
        value = fields.get(name)
        if isinstance(value, int | float) and value <= 0:
            findings.add(f"is {value}; it must be more than 0", name)


def compiled(
    pattern: object, findings: Findings, field: str = "pattern"
) -> re.Pattern[str] | None:
    """The pattern as a regex; None, with a finding, when it is none."""
    if not isinstance(pattern, str):
        return None  # the type is found wrong by the model
    if not pattern:
        findings.add("is empty and would match everything", field)
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        place = "" if error.pos is None else f" at character {error.pos + 1}"
        hint = "it is a Python regex; in YAML put it between single quotes"
        findings.add(f"{pattern!r} does not compile: {error.msg}{place}", field, hint)
        return None


def _each(
    value: object, findings: Findings, field: str, parse: Callable[[object, str], Any]
) -> tuple[Any, ...]:
    """A list of nested things, each parsed at its own place."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        findings.add(f"is {value!r}, not a list", field)
        return ()
    built: list[Any] = []
    for at, item in enumerate(value):
        try:
            built.append(parse(item, f"{findings.where}.{field}.{at}"))
        except SpecRefused as error:
            findings.inherit(error)
    return tuple(built)


def _texts(value: object) -> object:
    """One text or a list of texts (also of lists) as a flat list."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Sequence):
        return value
    flat: list[object] = []
    for item in value:
        nested = isinstance(item, Sequence) and not isinstance(item, str)
        flat += item if nested else [item]
    return flat


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
    names = _texts(fields.pop("job_name", None))
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
        fields["show_files"] = _texts(fields["show_files"])


def _composite(fields: Fields, findings: Findings) -> None:
    if "conditions" in fields:
        fields["conditions"] = _each(
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
        del fields["condition"]
        fields["condition"] = specs.MaxAttempts(max_attempts=1)  # refused anyway


def _action(fields: Fields, findings: Findings) -> None:
    if "conditions" in fields:
        fields["conditions"] = _each(
            fields["conditions"], findings, "conditions", condition
        )


def _restart(fields: Fields, findings: Findings) -> None:
    _action(fields, findings)
    overrides = _texts(fields.get("overrides", []))
    fields["overrides"] = overrides
    for at, text in enumerate(overrides if isinstance(overrides, list) else ()):
        if isinstance(text, str) and not _OVERRIDE.fullmatch(text):
            hint = "an override is key=value; +key=value adds, ~key removes"
            findings.add(f"`{text}` is not an override", f"overrides.{at}", hint)


# --------------------------------------------------------------------------- rules
def _rule(fields: Fields, findings: Findings) -> None:
    """Conditions of the rule go to each of its actions."""
    shared = fields.pop("conditions", None)
    common = () if shared is None else _each(shared, findings, "conditions", condition)
    if "actions" in fields:
        own = _each(fields["actions"], findings, "actions", action)
        fields["actions"] = tuple(
            dataclasses.replace(one, conditions=(*common, *one.conditions))
            for one in own
        )
    elif common:
        findings.add("are there without actions: they gate nothing", "conditions")
    if "stages" in fields:
        fields["stages"] = _texts(fields["stages"])


def _log_rule(fields: Fields, findings: Findings) -> None:
    _rule(fields, findings)
    form = fields.setdefault("pattern_type", "regex")
    groups = fields.get("extract_groups") or {}
    fields["extract_groups"] = groups
    if form in ("inactivity", "progress"):
        hint = "stalls are found by monitoring.stall_after_seconds and progress.metric"
        message = f"`{form}` is not available in this version"
        findings.add(message, "pattern_type", hint)
        fields["pattern_type"] = "regex"
    elif form == "regex":
        regex = compiled(fields.get("pattern"), findings)
        if regex is not None and isinstance(groups, Mapping):
            fields["extract_groups"] = _checked_groups(groups, regex, findings)
    elif groups:
        hint = "pattern_type: regex, with (?P<name>...) in the pattern"
        findings.add("a substring has no groups", "extract_groups", hint)


def _checked_groups(
    groups: Mapping[str, object], regex: re.Pattern[str], findings: Findings
) -> dict[str, str]:
    """Metadata key -> group, every group one of the pattern."""
    for key, group in groups.items():
        text = str(group)
        known = text in regex.groupindex or (
            text.isdigit() and 0 <= int(text) <= regex.groups
        )
        if not known:
            hint = did_you_mean(text, regex.groupindex, "named groups of the pattern")
            message = f"the pattern has no group `{text}`"
            findings.add(message, f"extract_groups.{key}", hint)
    return {str(key): str(group) for key, group in groups.items()}


def _state_rule(fields: Fields, findings: Findings) -> None:
    _rule(fields, findings)
    given = [k for k in ("state", "transition") if fields.get(k) is not None]
    if len(given) != 1:
        hint = "state: crash, or transition: [RUNNING, FAILED]"
        findings.add("needs exactly one of state and transition", hint=hint)
    if "transition" in given:
        fields["transition"] = _transition(fields["transition"], findings)
    state = fields.get("state")
    if isinstance(state, str):
        fields["state"] = state.lower()


def _transition(value: object, findings: Findings) -> object:
    pair = list(value) if isinstance(value, Sequence) else []
    if isinstance(value, str) or len(pair) != 2 or pair[1] is None:
        hint = "transition: [RUNNING, FAILED]; null in the first place means any"
        findings.add(f"is {value!r}, not two states", "transition", hint)
        return ("", "FAILED")
    for at, name in enumerate(pair):
        if name is None:
            continue
        pair[at] = str(name).upper()
        if pair[at] not in JobState.__members__:
            hint = did_you_mean(str(name), JobState.__members__, "states")
            findings.add(f"there is no state `{name}`", f"transition.{at}", hint)
    return tuple(pair)


def _metric(fields: Fields, findings: Findings) -> None:
    regex = compiled(fields.get("pattern"), findings)
    if regex is None or "value" in regex.groupindex or regex.groups == 1:
        return
    hint = "put the number between ( ), once; or name its group (?P<value>...)"
    findings.add(f"has {regex.groups} groups, not one", "pattern", hint)


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
    "LogPattern": Kind(specs.LogPattern, also=("log_pattern",), prepare=_log_pattern),
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
}

_LOG_EVENT: Final = Kind(specs.LogEvent, also=("conditions",), prepare=_log_rule)
_STATE_EVENT: Final = Kind(specs.StateEvent, also=("conditions",), prepare=_state_rule)
_METRIC: Final = Kind(specs.MetricPattern, prepare=_metric)
