"""Conditions, actions and rules from plain mappings to specs.

`class_name` is one of our names, with or without its suffix. What is wrong with a
mapping is found all at once, broken patterns too. References in braces stay: planning
resolves them, or they are read when a rule fires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from autoexp_tui.actions.kinds import (
    AppendToFile,
    Cancel,
    Finish,
    Log,
    NewJob,
    Notify,
    QuarantineCheckpoint,
    Restart,
    RunAutoexp,
    RunCommand,
)
from autoexp_tui.backends.base import format_word
from autoexp_tui.conditions import kinds as condition_kinds
from autoexp_tui.conditions.custom_conditions import OwnFailed, make
from autoexp_tui.config.spec_reader import (
    Fields,
    Findings,
    Kind,
    Parse,
    compile_pattern,
    flatten_texts,
    move_alias,
    parse_list,
    read_mapping,
    refuse_text,
    require_one,
)
from autoexp_tui.executors.slurm.script import parse_options, parse_seconds
from autoexp_tui.model import rules as rule_kinds
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.kinds import is_ours
from autoexp_tui.model.rules import Action
from autoexp_tui.model.specs import count_gpus
from autoexp_tui.model.states import JobState
from autoexp_tui.planning.overrides import is_number
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.sweep.points import format_in_name
from autoexp_tui.telemetry.metric_files import PATH_FIELDS, find_unknown_fields
from autoexp_tui.text.did_you_mean import did_you_mean

JOB_STATES: Final = (
    *(state.value for state in JobState),
    *sorted(condition_kinds.RAW_CAUSES),
)
_GPUS: Final = frozenset(
    {
        *("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"),
        *("gres", "tres-per-task"),
    }
)
_NESTED: Final = ("script", "config_path", "config_ref", "overrides")
"""What `action:` may hold of a RunAutoexp."""
_OWN_BASE: Final = ("timeout_seconds", "blocking", "description")
_BY_SUFFIX: Final = {"jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "tsv": "csv"}


def parse_condition(value: object, where: str) -> condition_kinds.Condition:
    """The condition that a mapping describes; SpecRefused tells all that is wrong."""
    fields = read_mapping(value, where)
    if ":" in str(fields.get("class_name", "")):
        return _parse_own_condition(fields, where)
    kind = _find_kind(fields.pop("class_name", None), where, CONDITIONS, Condition)
    made: condition_kinds.Condition = kind.build(fields, where)
    return made


def parse_action(value: object, where: str) -> Action:
    """The action that a mapping describes; SpecRefused tells all that is wrong."""
    fields = read_mapping(value, where)
    kind = _find_kind(fields.pop("class_name", None), where, ACTIONS, Action)
    made: Action = kind.build(fields, where)
    return made


def _find_kind(
    name: object,
    where: str,
    kinds: Mapping[str, Kind],
    base: type[Condition] | type[Action],
) -> Kind:
    """The kind of a `class_name`; those of installed packages too."""
    suffix = base.__name__
    noun = suffix.lower()
    if not isinstance(name, str) or not name:
        hint = did_you_mean("", kinds, f"{noun}s")
        raise SpecRefused((Problem("has no class_name", where, hint=hint),))
    short = name.removesuffix(suffix)
    if short in kinds:
        return kinds[short]
    usable = filter(None, map(base.kinds.find, base.kinds))
    theirs = {kind.__name__: kind for kind in usable if not is_ours(kind)}
    for found in (name, short):
        if found in theirs:
            return Kind(theirs[found], lists=_GATED if base is Action else {})
    message = f"there is no {noun} `{name}`"
    hint = did_you_mean(short, [*kinds, *theirs], f"{noun}s")
    raise SpecRefused((Problem(message, f"{where}.class_name", hint=hint),))


def _parse_own_condition(fields: Fields, where: str) -> condition_kinds.OwnCondition:
    """The condition of a class of the user's, which is made once to see that it can."""
    class_path = str(fields.pop("class_name"))
    ours: Fields = {name: fields.pop(name) for name in _OWN_BASE if name in fields}
    findings, kept = Findings(where), {}
    try:
        kept = json.loads(json.dumps(fields, allow_nan=False))
        make(class_path, kept)
    except OwnFailed as error:
        hint = "it must be importable: installed, or on PYTHONPATH; it takes its fields"
        findings.add(f"`{class_path}` cannot be used: {error}", "class_name", hint)
    except (TypeError, ValueError) as error:
        findings.add(f"has a field that cannot be kept: {error}")
    findings.settle()
    given = {**ours, "class_path": class_path, "fields": kept}
    kind = Kind(condition_kinds.OwnCondition)
    made: condition_kinds.OwnCondition = kind.build(given, where)
    return made


def _read_file_exists(fields: Fields, findings: Findings) -> None:
    if isinstance(fields.get("glob"), str):
        move_alias(fields, findings, "glob", "path")
        fields["glob"] = True


def _read_file_content(fields: Fields, findings: Findings) -> None:
    if fields.get("mode") == "regex":
        compile_pattern(fields.get("pattern"), findings)


def _read_metadata(fields: Fields, findings: Findings) -> None:
    move_alias(fields, findings, "job_name", "job")
    move_alias(fields, findings, "equals", "value")
    if fields.get("op") != "known" and fields.get("value") is None:
        findings.add("has nothing to compare with", hint="equals: VALUE, or op+value")


def _read_job_state(fields: Fields, findings: Findings) -> None:
    names = flatten_texts(fields.pop("job_name", None))
    if names is None or names == [] or (isinstance(names, list) and "" in names):
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


def _read_command(fields: Fields, findings: Findings) -> None:
    refuse_text(fields, findings, "command")
    command = fields.get("command")
    if isinstance(command, list):
        fields["command"] = [format_in_name(w) if is_number(w) else w for w in command]
        if not command or command[0] == "":
            findings.add("names no program", "command")


def _read_log_pattern(fields: Fields, findings: Findings) -> None:
    if fields.get("log_pattern") is not None:
        fields["glob"] = True
    move_alias(fields, findings, "log_pattern", "log_path")
    compile_pattern(fields.get("pattern"), findings)


def _read_time(fields: Fields, findings: Findings) -> None:
    require_one(fields, findings, ("after_seconds", "at"))
    after, at = fields.get("after_seconds"), fields.get("at")
    if isinstance(after, int | float) and after < 0:
        findings.add(f"is {after}; it must not be less than 0", "after_seconds")
    if isinstance(at, str):
        moment = None
        with suppress(ValueError):
            moment = datetime.fromisoformat(at)
        if moment is None or moment.tzinfo is None:
            hint = "write it like 2030-05-01T08:00+02:00, or 2030-05-01T06:00Z"
            findings.add(f"{at!r} is no date and time with a time zone", "at", hint)
            moment = None
        fields["at"] = moment and moment.timestamp()


def _read_approval(fields: Fields, findings: Findings) -> None:
    if "show_files" in fields:
        fields["show_files"] = flatten_texts(fields["show_files"])


def _read_composite(fields: Fields, findings: Findings) -> None:
    if fields.get("conditions") == () and not findings.problems:
        findings.add("is empty: it would pass at once", "conditions")


def _read_not(fields: Fields, findings: Findings) -> None:
    if "condition" in fields:
        found = findings.inherit(parse_condition, fields["condition"], "condition")
        # Refused anyway where there is none.
        fields["condition"] = found or condition_kinds.MaxAttempts(max_attempts=1)


_GATED: Final[dict[str, Parse]] = {"conditions": parse_condition}
_WRITER: Final = ("writer",)
_JOB_STATE: Final = Kind(
    condition_kinds.JobStateIs, _read_job_state, also=("job_name",), hidden=("jobs",)
)
CONDITIONS: Final[Mapping[str, Kind]] = {
    "FileExists": Kind(condition_kinds.FileExists, _read_file_exists, hidden=_WRITER),
    "FileContent": Kind(
        condition_kinds.FileContent, _read_file_content, hidden=_WRITER
    ),
    "Metadata": Kind(
        condition_kinds.MetadataIs, _read_metadata, also=("equals", "job_name")
    ),
    "Metric": Kind(condition_kinds.MetricIs),
    "SlurmState": _JOB_STATE,
    "JobState": _JOB_STATE,
    "Command": Kind(condition_kinds.CommandPasses, _read_command),
    "LogPattern": Kind(
        condition_kinds.LogPattern,
        _read_log_pattern,
        also=("log_pattern",),
        hidden=(*_WRITER, "skip"),
    ),
    "Time": Kind(condition_kinds.TimeReached, _read_time),
    "Approval": Kind(condition_kinds.Approval, _read_approval),
    "MaxAttempts": Kind(condition_kinds.MaxAttempts),
    "Cooldown": Kind(condition_kinds.Cooldown),
    "Composite": Kind(condition_kinds.Composite, _read_composite, lists=_GATED),
    "Not": Kind(condition_kinds.Not, _read_not),
}


def _read_overrides(fields: Fields, findings: Findings) -> None:
    fields["overrides"] = flatten_texts(fields.get("overrides", []))


def _read_run_command(fields: Fields, findings: Findings) -> None:
    _read_command(fields, findings)
    env = fields.get("env")
    if isinstance(env, Mapping):
        fields["env"] = {str(key): format_word(value) for key, value in env.items()}


def _read_new_job(fields: Fields, findings: Findings) -> None:
    _read_run_command(fields, findings)
    written = fields.pop("sbatch", None)
    if isinstance(written, Mapping):
        options, problems = parse_options(written, f"{findings.where}.sbatch")
        findings.problems += problems
        fields["options"] = options
        fields["time_limit_seconds"] = parse_seconds(options.get("time"))
        fields["gpus"] = count_gpus(options) if _GPUS & options.keys() else None
    elif written is not None:
        hint = "as slurm.sbatch: {time: 30, gpus: 1}"
        findings.add(f"is {written!r}, not a mapping", "sbatch", hint)


def _read_run_autoexp(fields: Fields, findings: Findings) -> None:
    """`action: {script, config_path, overrides}` may hold the fields themselves."""
    nested = fields.pop("action", None)
    if nested is not None and not isinstance(nested, Mapping):
        hint = "action: {config_path: ..., overrides: [...]}"
        findings.add(f"is {nested!r}, not a mapping", "action", hint)
        nested = None
    for key, value in (nested or {}).items():
        if key not in _NESTED:
            hint = f"it takes {', '.join(_NESTED)}"
            findings.add("is no key here", f"action.{key}", hint)
        fields.setdefault(key, value)
    _read_overrides(fields, findings)
    hint = "config_ref: NAME as on the command line, or config_path: a YAML file"
    require_one(fields, findings, ("config_ref", "config_path"), hint)


_STARTING: Final = dict.fromkeys(
    ("start_conditions", "cancel_conditions"), parse_condition
)
ACTIONS: Final[Mapping[str, Kind]] = {
    name: replace(kind, lists={**_GATED, **kind.lists})
    for name, kind in {
        "Restart": Kind(Restart, _read_overrides),
        "Cancel": Kind(Cancel),
        "Finish": Kind(Finish),
        "Log": Kind(Log),
        "Notify": Kind(Notify),
        "AppendToFile": Kind(
            AppendToFile,
            lambda fields, findings: move_alias(fields, findings, "content", "text"),
            also=("content",),
        ),
        "Command": Kind(RunCommand, _read_run_command),
        "QuarantineCheckpoint": Kind(QuarantineCheckpoint),
        "NewJob": Kind(
            NewJob,
            _read_new_job,
            also=("sbatch",),
            hidden=("options", "time_limit_seconds", "gpus"),
            lists=_STARTING,
        ),
        "RunAutoexp": Kind(RunAutoexp, _read_run_autoexp, also=("action",)),
    }.items()
}


def _read_rule(fields: Fields, findings: Findings) -> None:
    """Conditions of the rule go to each of its actions."""
    shared = fields.pop("conditions", None)
    common = parse_list(
        () if shared is None else shared, findings, "conditions", parse_condition
    )
    if "actions" in fields:
        fields["actions"] = tuple(
            replace(one, conditions=(*common, *one.conditions))
            for one in fields["actions"]
        )
    elif common:
        findings.add("are there without actions: they gate nothing", "conditions")
    if "stages" in fields:
        fields["stages"] = flatten_texts(fields["stages"])


def _read_log_rule(fields: Fields, findings: Findings) -> None:
    """A log is matched line by line, so a line break is in none of what is searched."""
    _read_rule(fields, findings)
    form = fields.setdefault("pattern_type", "regex")
    groups = fields["extract_groups"] = fields.get("extract_groups") or {}
    _read_waiting_time(fields, findings)
    if "\n" in str(fields.get("pattern") or ""):
        hint = "write it in one line between quotes; a YAML block (|) ends in a break"
        findings.add("holds a line break, which no line has", "pattern", hint)
    if form in rule_kinds.QUIET_TYPES:
        _read_quiet_rule(fields, findings)
        return
    if fields.get("pattern") is None:
        findings.add("is missing", "pattern")
    if form == "regex":
        _read_groups(fields, groups, findings)
        return
    if fields.get("pattern") == "":
        findings.add("is empty and would match everything", "pattern")
    if groups:
        hint = "pattern_type: regex, with (?P<name>...) in the pattern"
        findings.add("a substring has no groups", "extract_groups", hint)


def _read_waiting_time(fields: Fields, findings: Findings) -> None:
    """How long nothing moves, under its own name; only rules over silence have it."""
    move_alias(fields, findings, "inactivity_timeout_s", "after_seconds")
    after = fields.get("after_seconds")
    if after is None:
        return
    if fields["pattern_type"] not in rule_kinds.QUIET_TYPES:
        hint = "pattern_type: inactivity waits for lines that do not come"
        findings.add("only inactivity and progress wait", "after_seconds", hint)
    elif isinstance(after, int | float) and after <= 0:
        findings.add(f"is {after}; it must be more than 0", "after_seconds")


def _read_quiet_rule(fields: Fields, findings: Findings) -> None:
    """A rule over what does not happen: its pattern, if any, is a regex."""
    if fields["extract_groups"]:
        hint = "a further log event with this pattern extracts them"
        findings.add("there is no line to extract from", "extract_groups", hint)
    if fields.get("pattern") is None:
        fields["pattern"] = ""
    elif fields["pattern_type"] == "progress":
        _check_one_group(fields, findings)
    else:
        compile_pattern(fields["pattern"], findings)


def _read_groups(fields: Fields, groups: object, findings: Findings) -> None:
    """Metadata key -> group, every group one of the pattern."""
    pattern = compile_pattern(fields.get("pattern"), findings)
    if pattern is None or not isinstance(groups, Mapping):
        return
    for key, group in groups.items():
        text = str(group)
        is_index = text.isdigit() and int(text) <= pattern.groups
        if text not in pattern.names and not is_index:
            hint = did_you_mean(text, pattern.names, "named groups of the pattern")
            message = f"the pattern has no group `{text}`"
            findings.add(message, f"extract_groups.{key}", hint)
    fields["extract_groups"] = {str(key): str(group) for key, group in groups.items()}


def _read_state_rule(fields: Fields, findings: Findings) -> None:
    _read_rule(fields, findings)
    hint = "state: crash, or transition: [RUNNING, FAILED]"
    require_one(fields, findings, ("state", "transition"), hint)
    if fields.get("transition") is not None:
        _read_transition(fields, findings)
    state = fields.get("state")
    if isinstance(state, str):
        fields["state"] = state.lower()


def _read_transition(fields: Fields, findings: Findings) -> None:
    """Two states, of which the first may be any."""
    value, states = fields["transition"], JobState.__members__
    pair: list[Any] = list(value) if isinstance(value, Sequence) else []
    if isinstance(value, str) or len(pair) != 2 or pair[1] is None:
        hint = "transition: [RUNNING, FAILED]; null in the first place means any"
        findings.add(f"is {value!r}, not two states", "transition", hint)
        fields["transition"] = ("", "FAILED")
        return
    fields["transition"] = tuple(
        None if name is None else str(name).upper() for name in pair
    )
    for at, name in enumerate(fields["transition"]):
        if name not in (None, *states):
            hint = did_you_mean(str(pair[at]), states, "states")
            findings.add(f"there is no state `{pair[at]}`", f"transition.{at}", hint)


def _check_one_group(fields: Fields, findings: Findings) -> None:
    """The pattern yields one number."""
    regex = compile_pattern(fields.get("pattern"), findings)
    if regex is None or "value" in regex.names or regex.groups == 1:
        return
    hint = "put the number between ( ), once; or name its group (?P<value>...)"
    findings.add(f"has {regex.groups} groups, not one", "pattern", hint)


def _read_metric_file(fields: Fields, findings: Findings) -> None:
    path = fields.get("path")
    if not isinstance(path, str):
        return  # the type is found wrong by the model
    for name in find_unknown_fields(path):
        hint = did_you_mean(name, PATH_FIELDS, "fields of a job")
        findings.add(f"there is no field `{name}` in paths of metrics", "path", hint)
    suffix = path.rpartition(".")[2].lower()
    by_name = "tensorboard" if "tfevents" in path else _BY_SUFFIX.get(suffix)
    form = fields.get("format") or by_name
    if form is None:
        hint = "format: jsonl (a JSON object a line), csv, or tensorboard"
        findings.add("its name does not tell the format", "path", hint)
    fields["format"] = form or "jsonl"


def parse_metric_file(value: object, where: str) -> rule_kinds.MetricFile:
    """A file of metrics: a mapping, or its path alone; as `parse_condition`."""
    fields = {"path": value} if isinstance(value, str) else value
    made: rule_kinds.MetricFile = _METRIC_FILE.parse(fields, where)
    return made


_METRIC_FILE: Final = Kind(rule_kinds.MetricFile, _read_metric_file)
_ACTING: Final[Mapping[str, Parse]] = {"actions": parse_action}
RULES: Final[Mapping[str, Parse]] = {
    "log_events": Kind(
        rule_kinds.LogEvent,
        _read_log_rule,
        also=("conditions", "inactivity_timeout_s"),
        lists=_ACTING,
    ).parse,
    "state_events": Kind(
        rule_kinds.StateEvent, _read_state_rule, also=("conditions",), lists=_ACTING
    ).parse,
    "metrics": Kind(rule_kinds.MetricPattern, _check_one_group).parse,
    "metrics_files": parse_metric_file,
}
"""What the lists of rules in `monitoring` are made of."""
