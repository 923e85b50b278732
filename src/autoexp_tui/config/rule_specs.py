"""Rules over logs and ends of attempts, and their actions, from mappings to specs.

What can be known before anything runs is found here: unknown fields, overrides that are
none, commands that are one text. References in braces stay; they are read when a rule
fires. Files and configs that an action names are looked for elsewhere.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Final

from autoexp_tui.actions.of_run import Cancel, Finish, QuarantineCheckpoint, Restart
from autoexp_tui.actions.outside import (
    AppendToFile,
    Log,
    NewJob,
    Notify,
    RunAutoexp,
    RunCommand,
)
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
    build_spec,
    compile_pattern,
    flatten_texts,
    move_alias,
    parse_list,
    read_mapping,
)
from autoexp_tui.executors.slurm.sbatch_options import parse_options, parse_seconds
from autoexp_tui.model import rules as rule_kinds
from autoexp_tui.model.action import Action
from autoexp_tui.model.resource_totals import count_gpus
from autoexp_tui.model.states import NOT_STARTED, TRANSITIONS, JobState
from autoexp_tui.telemetry.metric_files import PATH_FIELDS, find_unknown_fields
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.patterns import Pattern

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
    made: Action = parse_kind(value, where, ACTIONS, Action, _read_action)
    return made


# ------------------------------------------------------- what each kind makes of it
def _read_action(fields: Fields, findings: Findings) -> None:
    _read_conditions(fields, findings, "conditions")


def _read_conditions(fields: Fields, findings: Findings, key: str) -> None:
    if key in fields:
        fields[key] = parse_list(fields[key], findings, key, parse_condition)


def _read_restart(fields: Fields, findings: Findings) -> None:
    _read_action(fields, findings)
    _read_overrides(fields, findings)


def _read_overrides(fields: Fields, findings: Findings) -> None:
    overrides = flatten_texts(fields.get("overrides", []))
    fields["overrides"] = overrides
    for at, text in enumerate(overrides if isinstance(overrides, list) else ()):
        if isinstance(text, str) and not _OVERRIDE.fullmatch(text):
            hint = "an override is key=value; +key=value adds, ~key removes"
            findings.add(f"`{text}` is not an override", f"overrides.{at}", hint)


def _read_append_to_file(fields: Fields, findings: Findings) -> None:
    _read_action(fields, findings)
    move_alias(fields, findings, "content", "text")


def _read_command(fields: Fields, findings: Findings) -> None:
    _read_action(fields, findings)
    check_command(fields, findings)
    _read_env(fields)


def _read_env(fields: Fields) -> None:
    env = fields.get("env")
    if isinstance(env, Mapping):
        fields["env"] = {str(key): format_word(value) for key, value in env.items()}


def _read_new_job(fields: Fields, findings: Findings) -> None:
    _read_command(fields, findings)
    for key in ("start_conditions", "cancel_conditions"):
        _read_conditions(fields, findings, key)
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
    fields["gpus"] = count_gpus(options) if _GPUS & options.keys() else None


def _read_run_autoexp(fields: Fields, findings: Findings) -> None:
    _read_action(fields, findings)
    _unpack(fields, findings)
    _read_overrides(fields, findings)
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
    "Restart": Kind(Restart, prepare=_read_restart),
    "Cancel": Kind(Cancel, prepare=_read_action),
    "Finish": Kind(Finish, prepare=_read_action),
    "Log": Kind(Log, prepare=_read_action),
    "Notify": Kind(Notify, prepare=_read_action),
    "AppendToFile": Kind(AppendToFile, also=("content",), prepare=_read_append_to_file),
    "Command": Kind(RunCommand, prepare=_read_command),
    "QuarantineCheckpoint": Kind(QuarantineCheckpoint, prepare=_read_action),
    "NewJob": Kind(
        NewJob,
        also=("sbatch",),
        hidden=("options", "time_limit_seconds", "gpus"),
        prepare=_read_new_job,
    ),
    "RunAutoexp": Kind(RunAutoexp, also=("action",), prepare=_read_run_autoexp),
}


def parse_log_event(value: object, where: str) -> rule_kinds.LogEvent:
    """A rule over log lines; `pattern_type` is regex unless it says otherwise.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    made: rule_kinds.LogEvent = build_spec(
        _LOG_EVENT, read_mapping(value, where), where
    )
    return made


def parse_state_event(value: object, where: str) -> rule_kinds.StateEvent:
    """A rule over ends and transitions of attempts.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    made: rule_kinds.StateEvent = build_spec(
        _STATE_EVENT, read_mapping(value, where), where
    )
    return made


def parse_metric_pattern(value: object, where: str) -> rule_kinds.MetricPattern:
    """A pattern whose one group (or the group `value`) is a metric.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    made: rule_kinds.MetricPattern = build_spec(
        _METRIC, read_mapping(value, where), where
    )
    return made


def parse_metric_file(value: object, where: str) -> rule_kinds.MetricFile:
    """A file of metrics: a mapping, or its path alone.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    fields = {"path": value} if isinstance(value, str) else read_mapping(value, where)
    made: rule_kinds.MetricFile = build_spec(_METRIC_FILE, fields, where)
    return made


# --------------------------------------------------------------------------- rules
def _read_rule(fields: Fields, findings: Findings) -> None:
    """Conditions of the rule go to each of its actions."""
    shared = fields.pop("conditions", None)
    common = (
        ()
        if shared is None
        else parse_list(shared, findings, "conditions", parse_condition)
    )
    if "actions" in fields:
        own = parse_list(fields["actions"], findings, "actions", parse_action)
        fields["actions"] = tuple(
            dataclasses.replace(one, conditions=(*common, *one.conditions))
            for one in own
        )
    elif common:
        findings.add("are there without actions: they gate nothing", "conditions")
    if "stages" in fields:
        fields["stages"] = flatten_texts(fields["stages"])


def _read_log_rule(fields: Fields, findings: Findings) -> None:
    _read_rule(fields, findings)
    form = fields.setdefault("pattern_type", "regex")
    groups = fields.get("extract_groups") or {}
    fields["extract_groups"] = groups
    _read_waiting_time(fields, findings)
    _check_one_line(fields, findings)
    if form in rule_kinds.QUIET_TYPES:
        _read_quiet_rule(fields, findings)
        return
    if fields.get("pattern") is None:
        findings.add("is missing", "pattern")
    if form == "regex":
        regex = compile_pattern(fields.get("pattern"), findings)
        if regex is not None and isinstance(groups, Mapping):
            fields["extract_groups"] = _check_groups(groups, regex, findings)
        return
    if fields.get("pattern") == "":
        findings.add("is empty and would match everything", "pattern")
    if groups:
        hint = "pattern_type: regex, with (?P<name>...) in the pattern"
        findings.add("a substring has no groups", "extract_groups", hint)


def _check_one_line(fields: Fields, findings: Findings) -> None:
    """A log is matched line by line, so a line break is in none of what is searched."""
    pattern = str(fields.get("pattern") or "")
    if "\n" in pattern:
        hint = "write it in one line between quotes; a YAML block (|) ends in a break"
        findings.add("holds a line break, which no line has", "pattern", hint)


def _read_waiting_time(fields: Fields, findings: Findings) -> None:
    """How long nothing moves, under its own name; only rules over silence have it."""
    if fields.pop("inactivity_polls", None) is not None:
        hint = "after_seconds: 1800; logs are looked at as often as they need"
        findings.add("there is no fixed number of looks", "inactivity_polls", hint)
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


def _check_groups(
    groups: Mapping[str, object], pattern: Pattern, findings: Findings
) -> dict[str, str]:
    """Metadata key -> group, every group one of the pattern."""
    for key, group in groups.items():
        text = str(group)
        known = text in pattern.names or (
            text.isdigit() and 0 <= int(text) <= pattern.groups
        )
        if not known:
            hint = did_you_mean(text, pattern.names, "named groups of the pattern")
            message = f"the pattern has no group `{text}`"
            findings.add(message, f"extract_groups.{key}", hint)
    return {str(key): str(group) for key, group in groups.items()}


def _read_state_rule(fields: Fields, findings: Findings) -> None:
    _read_rule(fields, findings)
    given = [k for k in ("state", "transition") if fields.get(k) is not None]
    if len(given) != 1:
        hint = "state: crash, or transition: [RUNNING, FAILED]"
        findings.add("needs exactly one of state and transition", hint=hint)
    if "transition" in given:
        fields["transition"] = _read_transition(fields["transition"], findings)
        _check_transition(fields, findings)
    state = fields.get("state")
    if isinstance(state, str):
        fields["state"] = state.lower()


_RESTING: Final = NOT_STARTED | {JobState.RETRYING, JobState.SKIPPED}
"""States in which there is no run that an action could end or follow on."""


def _check_transition(fields: Fields, findings: Findings) -> None:
    """Jobs go that way, and the actions have a run to act upon."""
    old, new = fields["transition"]
    states = JobState.__members__
    if new not in states or (old is not None and old not in states):
        return  # found before
    ways = [state for state in JobState if JobState(new) in TRANSITIONS[state]]
    if not ways or (old is not None and JobState(old) not in ways):
        start = "any state" if old is None else old
        hint = f"they become {new} from: {', '.join(ways)}" if ways else ""
        findings.add(f"jobs never go from {start} to {new}", "transition", hint)
    actions = fields.get("actions") or ()
    if JobState(new) in _RESTING:
        for at, one in enumerate(actions):
            if isinstance(one, Restart | Cancel | Finish):
                message = f"a job that becomes {new} has no run to act upon"
                findings.add(message, f"actions.{at}")


_CAUSES: Final = {
    "TIMEOUT": "such an end is FAILED; write state: timeout",
    "OUT_OF_MEMORY": "such an end is FAILED; write state: oom",
    "NODE_FAIL": "such an end is FAILED; write state: node_fail",
    "PREEMPTED": "such an end is FAILED; write state: preempted",
}
"""Slurm's own words -> what to write for them."""


def _read_transition(value: object, findings: Findings) -> object:
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
            hint = _CAUSES.get(pair[at]) or did_you_mean(
                str(name), JobState.__members__, "states"
            )
            findings.add(f"there is no state `{name}`", f"transition.{at}", hint)
    return tuple(pair)


def _check_one_group(fields: Fields, findings: Findings) -> None:
    """The pattern yields one number."""
    regex = compile_pattern(fields.get("pattern"), findings)
    if regex is None or "value" in regex.names or regex.groups == 1:
        return
    hint = "put the number between ( ), once; or name its group (?P<value>...)"
    findings.add(f"has {regex.groups} groups, not one", "pattern", hint)


_LOG_EVENT: Final = Kind(
    rule_kinds.LogEvent,
    also=("conditions", "inactivity_timeout_s", "inactivity_polls"),
    prepare=_read_log_rule,
)
_STATE_EVENT: Final = Kind(
    rule_kinds.StateEvent, also=("conditions",), prepare=_read_state_rule
)


def _read_metric_file(fields: Fields, findings: Findings) -> None:
    path = fields.get("path")
    if not isinstance(path, str):
        return  # the type is found wrong by the model
    if not path.strip():
        findings.add("is empty", "path")
    for name in find_unknown_fields(path):
        hint = did_you_mean(name, PATH_FIELDS, "fields of a job")
        findings.add(f"there is no field `{name}` in paths of metrics", "path", hint)
    suffix = path.rpartition(".")[2].lower()
    form = fields.get("format") or _BY_SUFFIX.get(suffix)
    if form is None:
        hint = "format: jsonl (a JSON object a line), or csv"
        findings.add("its name does not tell the format", "path", hint)
        form = "jsonl"
    fields["format"] = form


_BY_SUFFIX: Final = {"jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "tsv": "csv"}
_METRIC_FILE: Final = Kind(rule_kinds.MetricFile, prepare=_read_metric_file)
_METRIC: Final = Kind(rule_kinds.MetricPattern, prepare=_check_one_group)
