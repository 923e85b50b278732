"""Which parameters tell the jobs of a plan apart, and how their values are spelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.text.spelling import Notation, choose_notation, format_yaml_value

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


class _Own(NamedTuple):
    """A value that is not the plan's."""

    value: object


@dataclass(frozen=True, slots=True)
class Parameter:
    """A swept parameter: its key, its short label, its values as spelled."""

    key: str
    label: str
    values: tuple[str, ...] = ()
    notation: Notation = "shorter"
    """In which its floats are spelled, all alike."""

    def spell(self, value: object) -> str:
        return outside(format_yaml_value(value, self.notation), limit=80)


class PlanWords:
    """What a plan says about its parameters, without those that stand for the stage or
    are the same within each; `changed`: the jobs that run with other values; `only`:
    what these jobs, of other plans too, say in the place of the plan's own."""

    def __init__(
        self,
        plan: Plan | None,
        changed: Sequence[JobSpec] = (),
        only: Sequence[JobSpec] | None = None,
    ) -> None:
        self.plan = plan
        self.changed = changed
        specs = (plan.jobs if plan else ()) if only is None else only
        seen = _collect_values(specs, changed)
        self.swept: Mapping[str, Parameter] = _build_parameters(seen)
        """All that hold values, by key: those that vary, in the sweep's order, and
        then what is the same in every job of a stage."""
        varying = [self.swept[key] for key in seen if _varies(key, seen)]
        several = len({spec.stage for spec in specs}) > 1
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
            value = find_value(specs[0], entry)
            if value != "-" and all(find_value(it, entry) == value for it in specs):
                return f"{entry.label}={value}"
        return ""

    def find(self, key: str) -> Parameter:
        """The parameter of a key, one that was not swept too."""
        return self.swept.get(key) or Parameter(key, _format_key(key, 1))

    def is_of(self, session: SessionView) -> bool:
        """Whether it says what holds for the jobs of `session`."""
        same = len(session.changed) == len(self.changed)
        same = same and all(map(is_, session.changed, self.changed))
        return session.snapshot.plan is self.plan and same


def is_value(key: str) -> bool:
    """Whether a key holds a value, not the stage or conditions, shown elsewhere."""
    return key.lstrip("+") not in _NO_COLUMN


def _collect_values(specs: Sequence[JobSpec], changed: Sequence[JobSpec]) -> _Seen:
    sources = [(spec.stage, spec.parameters) for spec in specs]
    sources += [(spec.stage, spec.planned or {}) for spec in changed]
    sources += [
        (spec.stage, {key: _Own(spec.parameters[key]) for key in spec.own_values})
        for spec in changed
    ]
    seen: dict[str, dict[str, dict[str, object]]] = {}
    for stage, parameters in sources:
        for key, value in parameters.items():
            seen.setdefault(key, {}).setdefault(stage, {})[repr(value)] = value
    return seen


def _varies(key: str, seen: _Seen) -> bool:
    """Whether a key has several values in a stage."""
    return is_value(key) and any(len(values) > 1 for values in seen[key].values())


def _build_parameters(seen: _Seen) -> Mapping[str, Parameter]:
    varying = [key for key in seen if _varies(key, seen)]
    others = [key for key in seen if is_value(key) and key not in {*varying}]
    tails = Counter(_format_key(key, 1) for key in varying)
    found = {}
    for key in [*varying, *others]:
        tail = _format_key(key, 1)
        label = tail if tails[tail] <= 1 else _format_key(key, 2)
        known = [one for values in seen[key].values() for one in values.values()]
        plain = [one.value if isinstance(one, _Own) else one for one in known]
        entry = Parameter(key, label, notation=choose_notation(plain))
        spelled = dict.fromkeys(
            f"{entry.spell(value)}{CHANGED * isinstance(one, _Own)}"
            for one, value in zip(known, plain, strict=True)
        )
        found[key] = replace(entry, values=tuple(spelled))
    return found


def _format_key(key: str, parts: int) -> str:
    return outside(".".join(key.split(".")[-parts:]).lstrip("+~"))


def format_value(value: object) -> str:
    return outside(format_yaml_value(value), limit=80)


def find_value(spec: JobSpec, entry: Parameter) -> str:
    """The job's value of a parameter, marked where it is not the plan's; `-` when it
    has none."""
    if entry.key not in spec.parameters:
        return "-"
    mark = CHANGED if entry.key in spec.own_values else ""
    return f"{entry.spell(spec.parameters[entry.key])}{mark}"


def find_planned(spec: JobSpec, entry: Parameter) -> str:
    """The plan's value of a parameter that was changed since."""
    planned = spec.planned or {}
    return entry.spell(planned[entry.key]) if entry.key in planned else "not set"


def describe_job(
    spec: JobSpec, parameters: Sequence[Parameter], others: Sequence[JobSpec] = ()
) -> str:
    """`lr=1e-3|2e-4* bsz=256`: what tells a job from its siblings, or its family from
    others, with the values of those that do not run with the plan's."""
    specs = [spec, *(one for one in others if one.planned is not None)]
    parts = []
    for entry in parameters:
        having = [one for one in specs if entry.key in one.parameters]
        if values := dict.fromkeys(find_value(one, entry) for one in having):
            parts.append(f"{entry.label}={'|'.join(values)}")
    return " ".join(parts)
