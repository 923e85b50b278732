"""Which parameters tell the jobs of a plan apart, and how their values are spelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.text.spelling import format_yaml_value

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.specs import JobSpec, Plan

_NO_COLUMN = frozenset(
    {"stage", "_stage", "_meta.stage", "start_conditions", "cancel_conditions"}
)
"""What stands for the stage, and what is shown as conditions."""
CHANGED: Final = "*"
"""Follows a value that differs from the plan's."""

_Seen: TypeAlias = Mapping[str, Mapping[str, Mapping[str, object]]]
"""By key, then by stage: its different values, in order."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that varies: its key, its short label, its values as spelled."""

    key: str
    label: str
    values: tuple[str, ...] = ()


class PlanWords:
    """What a plan says about its parameters, without those that stand for the stage or
    are the same within each; `changed`: the jobs that run with other values."""

    def __init__(self, plan: Plan | None, changed: Sequence[JobSpec] = ()) -> None:
        self.plan = plan
        self.changed = changed
        seen = _collect_values(plan, changed)
        varying = _find_varying(seen)
        several = plan is not None and len({spec.stage for spec in plan.jobs}) > 1
        own = [one for one in varying if several and len(seen[one.key]) == 1]
        self.of_families = tuple(one for one in varying if one not in own)
        """Those that tell families apart: not what only one stage has."""
        self.parameters: tuple[Parameter, ...] = (*self.of_families, *own)
        """Those that tell jobs apart."""

    def find_common(self, jobs: Sequence[JobView]) -> str:
        """`bsz=1024` when all of `jobs` share it although the plan varies it: of such
        parameters the one with the most values; empty without one."""
        specs = [job.record.spec for job in jobs]
        if len(specs) == 1:
            return describe_job(specs[0], self.parameters)
        for entry in sorted(self.parameters, key=lambda entry: -len(entry.values)):
            value = find_value(specs[0], entry.key)
            if value != "-" and all(find_value(it, entry.key) == value for it in specs):
                return f"{entry.label}={value}"
        return ""

    def is_of(self, session: SessionView) -> bool:
        """Whether it says what holds for the jobs of `session`."""
        same = len(session.changed) == len(self.changed)
        same = same and all(map(is_, session.changed, self.changed))
        return session.snapshot.plan is self.plan and same


def is_value(key: str) -> bool:
    """Whether a key holds a value, not the stage or conditions, shown elsewhere."""
    return key.lstrip("+") not in _NO_COLUMN


def _collect_values(plan: Plan | None, changed: Sequence[JobSpec]) -> _Seen:
    sources = [(spec.stage, spec.parameters) for spec in (plan.jobs if plan else ())]
    sources += [(spec.stage, spec.planned or {}) for spec in changed]
    sources += [
        (spec.stage, {key: find_value(spec, key) for key in spec.own_values})
        for spec in changed
    ]
    seen: dict[str, dict[str, dict[str, object]]] = {}
    for stage, parameters in sources:
        for key, value in parameters.items():
            seen.setdefault(key, {}).setdefault(stage, {})[repr(value)] = value
    return seen


def _find_varying(seen: _Seen) -> Sequence[Parameter]:
    """Those with several values in a stage, in the sweep's order."""
    varying = {
        key: stages
        for key, stages in seen.items()
        if is_value(key) and any(len(values) > 1 for values in stages.values())
    }
    tails = Counter(_format_key(key, 1) for key in varying)
    found = []
    for key, stages in varying.items():
        tail = _format_key(key, 1)
        label = tail if tails[tail] == 1 else _format_key(key, 2)
        values = [one for known in stages.values() for one in known.values()]
        spelled = dict.fromkeys(map(format_value, values))
        found.append(Parameter(key, label, tuple(spelled)))
    return found


def _format_key(key: str, parts: int) -> str:
    return outside(".".join(key.split(".")[-parts:]).lstrip("+~"))


def format_value(value: object) -> str:
    return outside(format_yaml_value(value), limit=80)


def find_value(spec: JobSpec, key: str) -> str:
    """The job's value of a parameter, marked where it is not the plan's; `-` when it
    has none."""
    if key not in spec.parameters:
        return "-"
    mark = CHANGED if key in spec.own_values else ""
    return f"{format_value(spec.parameters[key])}{mark}"


def find_planned(spec: JobSpec, key: str) -> str:
    """The plan's value of a parameter that was changed since."""
    planned = spec.planned or {}
    return format_value(planned[key]) if key in planned else "not set"


def describe_job(
    spec: JobSpec, parameters: Sequence[Parameter], others: Sequence[JobSpec] = ()
) -> str:
    """`lr=1e-3|2e-4* bsz=256`: what tells a job from its siblings, or its family from
    others, with the values of those that do not run with the plan's."""
    specs = [spec, *(one for one in others if one.planned is not None)]
    parts = []
    for entry in parameters:
        having = [one for one in specs if entry.key in one.parameters]
        if values := dict.fromkeys(find_value(one, entry.key) for one in having):
            parts.append(f"{entry.label}={'|'.join(values)}")
    return " ".join(parts)
