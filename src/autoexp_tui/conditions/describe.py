"""What a condition waits for, in a few words, for sentences and lists."""

from __future__ import annotations

from typing import assert_never

from autoexp_tui.conditions.kinds import (
    Approval,
    CommandPasses,
    Composite,
    Condition,
    Cooldown,
    FileContent,
    FileExists,
    JobStateIs,
    LogPattern,
    MaxAttempts,
    MetadataIs,
    MetricIs,
    Not,
    OwnCondition,
    TimeReached,
)


def describe(spec: Condition) -> str:
    """What a condition waits for, in a few words; its own description if it has one."""
    return spec.description or _described(spec)


def _described(spec: Condition) -> str:
    match spec:
        case FileExists() | FileContent():
            return spec.path
        case MetadataIs():
            owner = f" of {spec.job}" if spec.job else ""
            if spec.op == "known":
                return f"{spec.key}{owner} is known"
            return f"{spec.key}{owner} {spec.op} {spec.value}"
        case MetricIs():
            owner = f" of {spec.job}" if spec.job else ""
            return f"{spec.name}{owner} {spec.op} {spec.value:g}"
        case JobStateIs():
            return f"{', '.join(spec.jobs)} {spec.state}"
        case CommandPasses():
            return " ".join(spec.command)
        case LogPattern():
            return f"{spec.pattern!r} in {spec.log_path}"
        case TimeReached():
            return "a time"
        case Approval():
            return "an approval"
        case MaxAttempts():
            return f"fewer than {spec.max_attempts} attempts"
        case Cooldown():
            return "a cooldown"
        case OwnCondition():
            return spec.class_path
        case Composite():
            joint = " and " if spec.mode == "all" else " or "
            return joint.join(describe(part) for part in spec.conditions)
        case Not():
            return f"not {describe(spec.condition)}"
        case _:
            assert_never(spec)
