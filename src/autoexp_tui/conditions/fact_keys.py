"""Which facts a condition reads: the keys that the engine has to look for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from autoexp_tui.conditions.custom_conditions import own_needs
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
from autoexp_tui.model.facts import (
    ApprovalKey,
    CommandKey,
    FactKey,
    FiredKey,
    GlobKey,
    JobKey,
    LogKey,
    MetadataKey,
    MetricKey,
    OutsideKey,
    StatKey,
    TextKey,
)
from autoexp_tui.text.metric_names import canonical_name


def needs(spec: Condition, job: str, action: str = "") -> frozenset[FactKey]:
    """Every fact that judging `spec` for `job` (and one of its actions) may read."""
    return frozenset(_keys(spec, job, action))


def _keys(spec: Condition, job: str, action: str) -> Iterator[FactKey]:
    match spec:
        case FileExists() | FileContent():
            yield file_key(spec)
            if spec.writer:
                yield JobKey(spec.writer)
        case MetadataIs() | MetricIs():
            yield value_key(spec, job)
            if spec.job and spec.job != job:
                yield JobKey(spec.job)
        case JobStateIs():
            yield from (JobKey(name) for name in spec.jobs)
        case CommandPasses():
            yield CommandKey(spec.command, spec.timeout)
        case LogPattern():
            yield log_key(spec)
            if spec.writer:
                yield JobKey(spec.writer)
        case Approval():
            yield ApprovalKey(job)
        case MaxAttempts():
            yield JobKey(job)
        case Cooldown():
            yield FiredKey(job, action)
        case Composite():
            for part in spec.conditions:
                yield from _keys(part, job, action)
        case Not():
            yield from _keys(spec.condition, job, action)
        case OwnCondition():
            yield from own_needs(spec, job)
        case TimeReached():
            pass
        case _:
            assert_never(spec)


def file_key(spec: FileExists | FileContent) -> StatKey | GlobKey | TextKey:
    """The key of the file that `spec` asks about."""
    if isinstance(spec, FileContent):
        return TextKey(spec.path, spec.pattern if spec.mode == "regex" else "")
    return GlobKey(spec.path) if spec.glob else StatKey(spec.path)


def look_key(spec: FileExists | FileContent | LogPattern) -> OutsideKey:
    """The key of the file or log that `spec` looks at."""
    return log_key(spec) if isinstance(spec, LogPattern) else file_key(spec)


def value_key(spec: MetadataIs | MetricIs, job: str) -> MetadataKey | MetricKey:
    """The key of the value that `spec` compares; `job` is the one that asks."""
    if isinstance(spec, MetadataIs):
        return MetadataKey(spec.job or job, spec.key)
    return MetricKey(spec.job or job, canonical_name(spec.name))


def log_key(spec: LogPattern) -> LogKey:
    """The key of the log that `spec` searches."""
    return LogKey(
        spec.log_path,
        spec.pattern,
        spec.glob,
        spec.check_mode,
        spec.tail_bytes,
        spec.skip,
    )
