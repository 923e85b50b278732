"""Which parameters tell the jobs of a plan apart, and how their values are spelled."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.model.wording import spell_float

if TYPE_CHECKING:
    from autoexp_tui.model.specs import JobSpec, Plan


_NO_COLUMN = frozenset(
    {"stage", "_stage", "_meta.stage", "start_conditions", "cancel_conditions"}
)
"""What stands for the stage, and what is shown as conditions."""


_ABSENT = object()


CHANGED: Final = "*"
"""Follows a value that differs from the plan's."""


Seen: TypeAlias = Mapping[str, Mapping[str, Mapping[str, None]]]
"""By key, then by stage: its different values as spelled, in order."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that varies: its key, its short label, its values as spelled."""

    key: str
    label: str
    values: tuple[str, ...] = ()


def is_value(key: str) -> bool:
    """Whether a key holds a value, not the stage or conditions, shown elsewhere."""
    return key.lstrip("+") not in _NO_COLUMN


def find_varying(plan: Plan | None, seen: Seen | None = None) -> tuple[Parameter, ...]:
    """The parameters that vary over the plan's jobs, in the sweep's order.

    Those that stand for the stage are left out, and so are those that are one and the
    same within each stage, or that only one stage has: they tell no families apart.
    `seen`: the plan's `values_seen`, where they are at hand.
    """
    seen = collect_values(plan) if seen is None else seen
    own = _of_one_stage(plan, seen)
    return tuple(entry for entry in _all_varying(seen) if entry.key not in own)


def find_telling(plan: Plan | None, seen: Seen | None = None) -> tuple[Parameter, ...]:
    """The parameters that tell jobs apart: those that tell families apart come first,
    then those that only one stage has.
    """
    seen = collect_values(plan) if seen is None else seen
    own = _of_one_stage(plan, seen)
    return tuple(sorted(_all_varying(seen), key=lambda entry: entry.key in own))


def _all_varying(seen: Seen) -> tuple[Parameter, ...]:
    keys = {
        key: tuple(
            dict.fromkeys(spelled for values in stages.values() for spelled in values)
        )
        for key, stages in seen.items()
        if is_value(key) and any(len(values) > 1 for values in stages.values())
    }
    labels = _labels(tuple(keys))
    return tuple(Parameter(key, labels[key], values) for key, values in keys.items())


def _of_one_stage(plan: Plan | None, seen: Seen) -> frozenset[str]:
    """The keys that one of several stages has alone."""
    if plan is None or len({spec.stage for spec in plan.jobs}) < 2:
        return frozenset()
    return frozenset(key for key, stages in seen.items() if len(stages) == 1)


_PATH: Final = re.compile(r"\{[^{}]*\b(?:output_dir|log_dir|log_path(?:_current)?)\}")
"""A reference to a path of a job, its own or another's."""


def find_paths(plan: Plan | None, seen: Seen | None = None) -> frozenset[str]:
    """The parameters that are, as written, one and the same within each stage and name
    a path of a job: they differ from job to job in that path alone.
    """
    return frozenset(
        key
        for key, stages in (collect_values(plan) if seen is None else seen).items()
        if all(
            len(values) == 1 and _PATH.search(next(iter(values)))
            for values in stages.values()
        )
    )


def collect_values(plan: Plan | None, changed: Sequence[JobSpec] = ()) -> Seen:
    """Every parameter's different values in each stage: one look at all jobs.

    `changed`: jobs that run with other values than the plan's.
    """
    seen: dict[str, dict[str, dict[str, object]]] = {}
    values = [(spec.stage, spec.parameters) for spec in (plan.jobs if plan else ())]
    values += [(spec.stage, spec.planned or {}) for spec in changed]
    values += [
        (spec.stage, {key: find_value(spec, key) for key in spec.own_values})
        for spec in changed
    ]
    for stage, parameters in values:
        for key, value in parameters.items():
            seen.setdefault(key, {}).setdefault(stage, {})[repr(value)] = value
    return {
        key: {stage: _spelled(values) for stage, values in stages.items()}
        for key, stages in seen.items()
    }


def _spelled(values: Mapping[str, object]) -> Mapping[str, None]:
    return dict.fromkeys(format_value(value) for value in values.values())


def _labels(keys: Sequence[str]) -> Mapping[str, str]:
    tails = Counter(_tail(key) for key in keys)
    return {
        key: _tail(key) if tails[_tail(key)] == 1 else _two_tails(key) for key in keys
    }


def _tail(key: str) -> str:
    return outside(key.rsplit(".", 1)[-1].lstrip("+~"))


def _two_tails(key: str) -> str:
    return outside(".".join(key.split(".")[-2:]).lstrip("+~"))


def format_value(value: object) -> str:
    """A parameter's value as a person writes it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return spell_float(value)
    return outside(value, limit=80)


def find_value(spec: JobSpec, key: str) -> str:
    """The job's value of a parameter, marked where it is not the plan's; `-` when it
    has none."""
    value = spec.parameters.get(key, _ABSENT)
    if value is _ABSENT:
        return "-"
    return (
        f"{format_value(value)}{CHANGED}"
        if key in spec.own_values
        else format_value(value)
    )


def find_planned(spec: JobSpec, key: str) -> str:
    """The plan's value of a parameter that was changed since."""
    planned = spec.planned or {}
    return format_value(planned[key]) if key in planned else "not set"


def describe_job(spec: JobSpec, parameters: Sequence[Parameter]) -> str:
    """`lr=1e-3 bsz=256`: what tells this job from its siblings."""
    return " ".join(
        f"{entry.label}={find_value(spec, entry.key)}"
        for entry in parameters
        if entry.key in spec.parameters
    )


def describe_family(specs: Sequence[JobSpec], parameters: Sequence[Parameter]) -> str:
    """`lr=1e-3|2e-4* bsz=256`: what tells a family from others, by its first job and
    those that run with other values than the plan's."""
    telling = [specs[0], *(spec for spec in specs[1:] if spec.planned is not None)]
    values = {
        entry.label: dict.fromkeys(
            find_value(spec, entry.key)
            for spec in telling
            if entry.key in spec.parameters
        )
        for entry in parameters
    }
    return " ".join(
        f"{key}={'|'.join(found)}" for key, found in values.items() if found
    )


def find_common(specs: Sequence[JobSpec], parameters: Sequence[Parameter]) -> str:
    """`bsz=1024` when all of `specs` share it although the plan varies it.

    The parameter with the most values, shared by all of several jobs, says most.
    """
    if len(specs) < 2:
        return describe_job(specs[0], parameters) if specs else ""
    for entry in sorted(parameters, key=lambda entry: -len(entry.values)):
        value = find_value(specs[0], entry.key)
        if value != "-" and all(find_value(one, entry.key) == value for one in specs):
            return f"{entry.label}={value}"
    return ""
