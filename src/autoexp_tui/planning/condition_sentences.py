"""What jobs wait for, in sentences that hold for a whole stage.

A sibling is called by its stage and a file by its place below a job's directory, so
that jobs of one stage that wait alike say the same words. Exact rather than short:
who reads them checks a plan. How a condition stands at run time is not told here.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from posixpath import normpath
from typing import Final, Literal, TypeAlias, assert_never

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
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import clock_time, duration, plural, size, spell_value

Purpose: TypeAlias = Literal["start", "cancel"]
"""Whether a condition holds a job back, or ends it."""

_NAMED: Final = 2
"""Jobs named one by one before the rest is only counted."""
_EPOCH: Final = 0.0
"""A present on another day than any moment that is told: dates are always shown."""


class SentenceWriter:
    """Describes conditions of a plan's jobs, as seen from one of the jobs."""

    def __init__(self, plan: Plan) -> None:
        self._jobs = {job.name: job for job in plan.jobs}
        self._sizes = Counter(job.stage for job in plan.jobs)
        self._alike = Counter((job.family, job.stage) for job in plan.jobs)
        self._outputs = {normpath(job.output_dir): job for job in plan.jobs}
        self._logs = {normpath(job.log_dir): job for job in plan.jobs}

    def describe(self, spec: Condition, me: JobSpec, purpose: Purpose) -> str:
        """When `spec`, a condition of `me`, holds; with its limits in brackets.

        It reads after "when", "if", "and" and "or".
        """
        about = f"{clean_line(spec.description)}: " if spec.description else ""
        notes = "; ".join(_notes(spec, purpose))
        text = self._describe_kind(spec, me, purpose)
        return f"{about}{text} ({notes})" if notes else f"{about}{text}"

    def _describe_kind(self, spec: Condition, me: JobSpec, purpose: Purpose) -> str:
        match spec:
            case FileExists():
                least = f" with at least {size(spec.min_size)}" if spec.min_size else ""
                head = "a match of " if spec.glob else ""
                return f"{head}{self._path(spec.path, me)} exists{least}"
            case FileContent():
                verb = "contains" if spec.mode == "contains" else "matches"
                return f"{self._path(spec.path, me)} {verb} {_quote(spec.pattern)}"
            case LogPattern():
                every = "every" if spec.check_mode == "all" else "a"
                head = f"{every} match of " if spec.glob else ""
                log = self._path(spec.log_path, me)
                return f"{head}{log} shows {_quote(spec.pattern)}"
            case MetadataIs():
                whose = self._whose(spec.job, me)
                return f"{clean_line(spec.key)}{whose} {_comparison(spec)}"
            case MetricIs():
                after = f" from step {spec.after_step} on" if spec.after_step else ""
                whose = self._whose(spec.job, me)
                return f"{clean_line(spec.name)}{whose} {_comparison(spec)}{after}"
            case JobStateIs():
                verb = "is" if len(set(spec.jobs)) == 1 else "are"
                return (
                    f"{self.name_jobs(spec.jobs, me)} {verb} {clean_line(spec.state)}"
                )
            case Composite():
                joint = " and " if spec.mode == "all" else " or "
                text = joint.join(
                    self.describe(part, me, purpose) for part in spec.conditions
                )
                return f"({text})" if len(spec.conditions) > 1 else text
            case Not():
                return f"not so: {self.describe(spec.condition, me, purpose)}"
            case _:
                return _describe_alone(spec)

    # ------------------------------------------------------------ who, and where
    def name_jobs(self, names: Iterable[str], me: JobSpec | None = None) -> str:
        """Several jobs: a stage as a whole, or the first ones and how many more.

        Args:
            names: of the jobs, and of any that the plan does not have.
            me: the job that speaks of its siblings; None: every job by its name.
        """
        grouped: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            stage = self._jobs[name].stage if name in self._jobs else ""
            grouped.setdefault(stage, []).append(name)
        siblings: list[str] = []
        others: list[str] = []
        for stage, members in grouped.items():
            if stage and len(members) == self._sizes[stage] > 1:
                others.append(f"all {len(members)} {clean_line(stage)} jobs")
            elif len(members) == 1 and self._is_sibling(members[0], me):
                siblings.append(clean_line(stage))
            else:
                others += map(clean_line, members[:_NAMED])
                rest = len(members) - _NAMED
                others += [f"{rest} more"] if rest > 0 else []
        noun = "jobs" if len(siblings) > 1 else "job"
        own = [f"its {_enumerate(siblings)} {noun}"] if siblings else []
        return _enumerate([*own, *others])

    def _name_job(self, name: str, me: JobSpec) -> str:
        """`its stable job` when that says which one; else the name."""
        if self._is_sibling(name, me):
            return f"its {clean_line(self._jobs[name].stage)} job"
        return clean_line(name)

    def _is_sibling(self, name: str, me: JobSpec | None) -> bool:
        """Whether a job's stage alone says which one it is, to `me`."""
        other = self._jobs.get(name)
        if me is None or other is None or not other.stage or not me.family:
            return False
        alike = self._alike[me.family, other.stage]
        return other.family == me.family and alike == 1

    def _whose(self, name: str, me: JobSpec) -> str:
        return f" of {self._name_job(name, me)}" if name and name != me.name else ""

    def _path(self, path: str, me: JobSpec) -> str:
        """A path by whose directory it lies in; whole when it is nobody's."""
        for directory, rest in _splits(path):
            owner = self._logs.get(directory)
            if owner is not None and rest == "current.log":
                its = "its own log"
                return its if owner is me else f"the log{self._whose(owner.name, me)}"
            owner = self._outputs.get(directory) or owner
            if owner is not None:
                own = f"its own {clean_line(rest)}"
                whose = self._whose(owner.name, me)
                return own if owner is me else f"{clean_line(rest)}{whose}"
        return clean_line(path)


# ------------------------------------------------------------------ parts of phrases
def _describe_alone(
    spec: CommandPasses
    | TimeReached
    | Approval
    | MaxAttempts
    | Cooldown
    | OwnCondition,
) -> str:
    """Conditions that speak of no other job."""
    match spec:
        case CommandPasses():
            return f"the command {clean_line(shlex.join(spec.command))} exits 0"
        case TimeReached():
            if spec.at is not None:
                return f"it is {clock_time(spec.at, _EPOCH)}"
            return f"it has waited {duration(spec.after_seconds or 0.0)}"
        case Approval():
            asked = f": {_quote(spec.prompt)}" if spec.prompt else ""
            return f"a person says yes{asked}"
        case MaxAttempts():
            return f"it has had fewer than {plural(spec.max_attempts, 'attempt')}"
        case OwnCondition():
            return f"{clean_line(spec.class_path)} says so"
        case Cooldown():
            return f"the last time is {duration(spec.cooldown_seconds)} ago"
        case _:
            assert_never(spec)


def _notes(spec: Condition, purpose: Purpose) -> Iterator[str]:
    limit = spec.timeout_seconds
    held = isinstance(spec, Approval) and spec.on_timeout == "hold"
    if limit is not None and not held:
        verb = "gives up" if purpose == "start" else "looks no more"
        yield f"{verb} after {duration(limit)}"
    if not spec.blocking:
        does = "holds nothing back" if purpose == "start" else "cancels nothing"
        yield f"only shown, {does}"


def _comparison(spec: MetadataIs | MetricIs) -> str:
    return "is known" if spec.op == "known" else f"{spec.op} {spell_value(spec.value)}"


def _quote(text: str) -> str:
    return f'"{clean_line(text)}"'


def _enumerate(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _splits(path: str) -> Iterator[tuple[str, str]]:
    """(directory, the rest) for every directory above `path`, the nearest first."""
    whole = normpath(path)
    at = whole.rfind("/")
    while at > 0:
        yield whole[:at], whole[at + 1 :]
        at = whole.rfind("/", 0, at)
