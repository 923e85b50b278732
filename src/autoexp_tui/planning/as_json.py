"""A plan as plain JSON for scripts: the documented answer of `autoexp-plan --json`.

Not the manifest: it shows what was resolved and cannot be read back into a plan.
Conditions are written in the words that configs use. What JSON cannot hold becomes
text: non-finite numbers, dates, characters that no encoding can write.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final

from autoexp_tui.conditions.kinds import JobStateIs, OwnCondition
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.kinds import is_ours
from autoexp_tui.model.masking import mask_override, mask_value, mask_values
from autoexp_tui.model.specs import Hole, JobSpec, Plan

_CONFIG_FIELDS: Final[Mapping[tuple[type[Condition], str], str]] = {
    (JobStateIs, "jobs"): "job_name"
}
"""Fields that configs call otherwise."""
_NOT_WRITTEN: Final = frozenset({"kind", "class_path", "fields", "skip"})
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def plan_to_json(plan: Plan) -> dict[str, object]:
    """The plan in the documented shape, safe to dump; `errors` is empty."""
    return {
        "version": 1,
        "name": json_safe(plan.name),
        "jobs": [_job(job, plan) for job in plan.jobs],
        "edges": [
            {"from": json_safe(e.before), "to": json_safe(e.after), "kind": e.mode}
            for e in plan.edges
        ],
        "holes": [hole_to_json(hole) for hole in plan.holes],
        "holes_more": plan.holes_more,
        "errors": [],
        "warnings": [finding_to_json(one) for one in plan.warnings],
    }


def _job(job: JobSpec, plan: Plan) -> dict[str, object]:
    base = job.output_dir.removesuffix(job.name).rstrip("/")
    scripts = plan.executor.settings.get("script_dir") or posixpath.join(
        base, "scripts"
    )
    return {
        "index": job.index,
        "name": json_safe(job.name),
        "stage": json_safe(job.stage),
        "family": json_safe(job.family),
        "parameters": json_safe(mask_values(job.parameters, plan.mask)),
        "overrides": [json_safe(mask_override(o, plan.mask)) for o in job.overrides],
        "output_dir": json_safe(job.output_dir),
        "log_path_current": json_safe(job.log_path_current),
        "script_path": json_safe(posixpath.join(str(scripts), f"{job.name}.sbatch")),
        "fingerprint": json_safe(job.fingerprint),
        "depends_on": json_safe(job.depends_on),
        "start_conditions": _list_conditions(job.start_conditions, plan),
        "cancel_conditions": _list_conditions(job.cancel_conditions, plan),
    }


def _list_conditions(conditions: Sequence[Condition], plan: Plan) -> list[object]:
    return [mask_value("", condition_to_json(one), plan.mask) for one in conditions]


def hole_to_json(hole: Hole) -> dict[str, object]:
    """A hole in the documented shape, safe to dump."""
    names = ("parameters", "stage", "filter", "where")
    return {name: json_safe(getattr(hole, name)) for name in names}


def finding_to_json(one: Problem) -> dict[str, object]:
    """An error or a warning in the documented shape, safe to dump."""
    names = ("job", "where", "message", "hint", "place")
    return {name: json_safe(getattr(one, name)) for name in names}


def condition_to_json(spec: Condition) -> dict[str, object]:
    """A condition as configs write it; `writer` only where planning knows one."""
    name = type(spec).__name__
    if is_ours(type(spec)):
        name = f"{spec.kind.title().replace('_', '')}Condition"
    tree: dict[str, object] = {"class_name": name}
    if isinstance(spec, OwnCondition):
        tree = {"class_name": json_safe(spec.class_path)}
        tree |= {_text(key): json_safe(value) for key, value in spec.fields.items()}
    for field in fields(spec):
        value = getattr(spec, field.name)
        if field.name in _NOT_WRITTEN or (field.name == "writer" and not value):
            continue
        name = _CONFIG_FIELDS.get((type(spec), field.name), field.name)
        tree[name] = json_safe(value)
    return tree


def json_safe(value: object) -> object:
    """`value` (nested) in what JSON can hold: what it cannot becomes text."""
    if type(value) is str and value.isascii():  # nearly all of a plan
        return value
    match value:
        case None | bool():
            return value
        case str():
            return value if value.isascii() else _SURROGATES.sub("\ufffd", value)
        case int():
            return int(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return {_text(key): json_safe(item) for key, item in value.items()}
        case Condition():
            return condition_to_json(value)
        case Sequence() if not isinstance(value, bytes | bytearray):
            return [json_safe(item) for item in value]
        case _:
            return _text(value)


def _text(value: object) -> str:
    return _SURROGATES.sub("\ufffd", str(value))
