"""Conditions from plain mappings to core specs.

`class_name` is one of our names, with or without its suffix. What a mapping lacks, has
too much of, or has wrong is found all at once; patterns are compiled here so that a
broken one is known before anything is submitted. Nothing is evaluated, no reference
is resolved: planning does that before and after.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from autoexp_tui.conditions import kinds as condition_kinds
from autoexp_tui.conditions.custom_conditions import OwnFailed, make
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
from autoexp_tui.model.action import Action
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.kinds import is_ours
from autoexp_tui.model.states import JobState
from autoexp_tui.planning.override_checks import is_number
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.sweep.points import format_in_name
from autoexp_tui.text.did_you_mean import did_you_mean

Prepare: TypeAlias = Callable[[Fields, Findings], None]
RAW_STATES: Final = frozenset({"TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED"})
"""Slurm's own words that mean FAILED with that cause."""
JOB_STATES: Final = (*(state.value for state in JobState), *sorted(RAW_STATES))


def parse_condition(value: object, where: str) -> condition_kinds.Condition:
    """The condition that a mapping describes.

    Raises:
        SpecRefused: with everything that is wrong with it.
    """
    if isinstance(value, Mapping) and ":" in str(value.get("class_name", "")):
        return parse_own_condition(read_mapping(value, where), where)
    made: condition_kinds.Condition = parse_kind(value, where, CONDITIONS, Condition)
    return made


def parse_own_condition(fields: Fields, where: str) -> condition_kinds.OwnCondition:
    """The condition of a class of the user's, which is made once to see that it can.

    Raises:
        SpecRefused: it cannot be imported or made, or a field of ours is wrong.
    """
    class_path = str(fields.pop("class_name"))
    ours: Fields = {name: fields.pop(name) for name in _OWN_BASE if name in fields}
    findings = Findings(where)
    for place, key in _keys_of_no_text(fields):
        findings.add(f"has the key {key!r}, which is no text", place, "quote it")
    try:
        make(class_path, fields)
    except OwnFailed as error:
        hint = "it must be importable: installed, or on PYTHONPATH; it takes its fields"
        findings.add(f"`{class_path}` cannot be used: {error}", "class_name", hint)
    try:
        kept = json.loads(json.dumps(fields, allow_nan=False))
    except (TypeError, ValueError) as error:
        findings.add(f"has a field that cannot be kept: {error}")
        kept = {}
    findings.settle()
    given: Fields = {**ours, "class_path": class_path, "fields": kept}
    made: condition_kinds.OwnCondition = build_spec(
        Kind(condition_kinds.OwnCondition), given, where
    )
    return made


def _keys_of_no_text(value: object, place: str = "") -> Iterator[tuple[str, object]]:
    """The keys that JSON would give back as texts: `{1: a}` as `{"1": "a"}`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, str):
                yield from _keys_of_no_text(inner, f"{place}.{key}".lstrip("."))
            else:
                yield place, key
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from _keys_of_no_text(inner, f"{place}.{at}")


_OWN_BASE: Final = ("timeout_seconds", "blocking", "description")


def parse_kind(
    value: object,
    where: str,
    kinds: Mapping[str, Kind],
    base: type[Condition] | type[Action],
    prepare: Prepare = lambda fields, findings: None,
) -> Any:
    """The spec that a mapping's `class_name` and fields stand for.

    `prepare`: what is done to the fields of a kind that is none of ours.

    Raises:
        SpecRefused: with everything that is wrong with them.
    """
    fields = read_mapping(value, where)
    name = fields.pop("class_name", None)
    return build_spec(_find_kind(name, where, kinds, base, prepare), fields, where)


def _find_kind(
    name: object,
    where: str,
    kinds: Mapping[str, Kind],
    base: type[Condition] | type[Action],
    prepare: Prepare,
) -> Kind:
    findings, suffix = Findings(where), base.__name__
    if not isinstance(name, str) or not name:
        hint = did_you_mean("", kinds, f"{suffix.lower()}s")
        findings.add("has no class_name", hint=hint)
        raise SpecRefused(tuple(findings.problems))
    short = name.removesuffix(suffix)
    if short in kinds:
        return kinds[short]
    usable = (kind for _, kind in base.kinds.list_usable())
    theirs = {kind.__name__: kind for kind in usable if not is_ours(kind)}
    for found in (name, short):
        if found in theirs:
            return Kind(theirs[found], prepare=prepare)
    known = [*kinds, *theirs]
    if ":" in name:
        message = f"{suffix.lower()}s of one's own are not available in this version"
        findings.add(
            f"{message}: `{name}`", "class_name", f"listed: {', '.join(known)}"
        )
    else:
        hint = did_you_mean(short, known, f"{suffix.lower()}s")
        findings.add(f"there is no {suffix.lower()} `{name}`", "class_name", hint)
    raise SpecRefused(tuple(findings.problems))


# ------------------------------------------------------- what each kind makes of it
def _read_file_exists(fields: Fields, findings: Findings) -> None:
    pattern = fields.get("glob")
    if not isinstance(pattern, str):
        return
    fields["glob"] = True
    if fields.setdefault("path", pattern) != pattern:
        findings.add("`path` and `glob` are both given", hint="keep one of the two")


def _read_file_content(fields: Fields, findings: Findings) -> None:
    if fields.get("mode") == "regex":
        compile_pattern(fields.get("pattern"), findings)


def _read_metadata(fields: Fields, findings: Findings) -> None:
    move_alias(fields, findings, "job_name", "job")
    if fields.get("op") == "known":
        if fields.keys() & {"equals", "value"}:
            findings.add("`known` compares with nothing", "op", hint="leave out value")
        return
    if "equals" not in fields:
        if "value" not in fields:
            findings.add(
                "has nothing to compare with", hint="equals: VALUE, or op+value"
            )
        return
    expected = fields.pop("equals")
    if expected is None:
        findings.add("is null: it would wait for nothing", "equals")
    if "value" in fields or fields.get("op", "==") != "==":
        findings.add("`equals` and `op`/`value` are both given", hint="keep one")
    fields["value"] = expected


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


def check_command(fields: Fields, findings: Findings) -> None:
    """A command is a list of words: a text would ask for a shell."""
    command = fields.get("command")
    if isinstance(command, str):
        hint = 'write its words as a list: ["test", "-f", "x"]; no shell is used'
        findings.add("is text, not a list", "command", hint)
        fields["command"] = [command]
    elif command == []:
        findings.add("is empty", "command")
    elif isinstance(command, list):
        fields["command"] = [format_in_name(w) if is_number(w) else w for w in command]
        if command[0] == "":
            findings.add("is empty: the first word is the program", "command.0")


def _read_log_pattern(fields: Fields, findings: Findings) -> None:
    if fields.get("log_pattern") is not None:
        fields["glob"] = True
    move_alias(fields, findings, "log_pattern", "log_path")
    compile_pattern(fields.get("pattern"), findings)


def _read_time(fields: Fields, findings: Findings) -> None:
    given = [name for name in ("after_seconds", "at") if fields.get(name) is not None]
    if len(given) != 1:
        findings.add("needs exactly one of after_seconds and at")
    after = fields.get("after_seconds")
    if isinstance(after, int | float) and after < 0:
        findings.add(f"is {after}; it must not be less than 0", "after_seconds")
    at = fields.get("at")
    if isinstance(at, str):
        fields["at"] = _parse_moment(at, findings)


def _parse_moment(text: str, findings: Findings) -> float | None:
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


def _read_approval(fields: Fields, findings: Findings) -> None:
    if "show_files" in fields:
        fields["show_files"] = flatten_texts(fields["show_files"])


def _read_composite(fields: Fields, findings: Findings) -> None:
    if "conditions" in fields:
        fields["conditions"] = parse_list(
            fields["conditions"], findings, "conditions", parse_condition
        )
        if not fields["conditions"] and not findings.problems:
            findings.add("is empty: it would pass at once", "conditions")


def _read_not(fields: Fields, findings: Findings) -> None:
    if "condition" not in fields:
        return
    try:
        fields["condition"] = parse_condition(
            fields["condition"], f"{findings.where}.condition"
        )
    except SpecRefused as error:
        findings.inherit(error)
        fields["condition"] = condition_kinds.MaxAttempts(
            max_attempts=1
        )  # refused anyway


_JOB_STATE: Final = Kind(
    condition_kinds.JobStateIs,
    also=("job_name",),
    hidden=("jobs",),
    prepare=_read_job_state,
)
CONDITIONS: Final[Mapping[str, Kind]] = {
    "FileExists": Kind(
        condition_kinds.FileExists, hidden=("writer",), prepare=_read_file_exists
    ),
    "FileContent": Kind(
        condition_kinds.FileContent, hidden=("writer",), prepare=_read_file_content
    ),
    "Metadata": Kind(
        condition_kinds.MetadataIs, also=("equals", "job_name"), prepare=_read_metadata
    ),
    "Metric": Kind(condition_kinds.MetricIs),
    "SlurmState": _JOB_STATE,
    "JobState": _JOB_STATE,
    "Command": Kind(condition_kinds.CommandPasses, prepare=check_command),
    "LogPattern": Kind(
        condition_kinds.LogPattern,
        also=("log_pattern",),
        hidden=("writer", "skip"),
        prepare=_read_log_pattern,
    ),
    "Time": Kind(condition_kinds.TimeReached, prepare=_read_time),
    "Approval": Kind(condition_kinds.Approval, prepare=_read_approval),
    "MaxAttempts": Kind(condition_kinds.MaxAttempts),
    "Cooldown": Kind(condition_kinds.Cooldown),
    "Composite": Kind(condition_kinds.Composite, prepare=_read_composite),
    "Not": Kind(condition_kinds.Not, prepare=_read_not),
}
