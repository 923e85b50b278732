"""What jobs wait for, in sentences that hold for a whole stage.

A sibling is called by its stage and a file by its place below a job's directory, so
that jobs of one stage that wait alike say the same words. Exact rather than short:
who reads them checks a plan. How a condition stands at run time is not told here.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from autoexp_tui.model.wording import clock_time, duration, plural, size, spell_float
from autoexp_tui.planning.chart_text import UNBROKEN, said

Purpose: TypeAlias = Literal["start", "cancel"]
"""Whether a condition holds a job back, or ends it."""

_NAMED: Final = 2
"""Jobs named one by one before the rest is only counted."""
_EPOCH: Final = 0.0
"""A present on another day than any moment that is told: dates are always shown."""


class Words:
    """The jobs of a plan, and how one speaks of them from within another."""

    def __init__(self, plan: Plan) -> None:
        self._jobs = {job.name: job for job in plan.jobs}
        self._sizes = Counter(job.stage for job in plan.jobs)
        self._alike = Counter((job.family, job.stage) for job in plan.jobs)
        self._outputs = {normpath(job.output_dir): job for job in plan.jobs}
        self._logs = {normpath(job.log_dir): job for job in plan.jobs}

    # ------------------------------------------------------------------ sentences
    def sentence(self, spec: Condition, me: JobSpec, purpose: Purpose) -> str:
        """When `spec`, a condition of `me`, holds; with its limits in brackets.

        It reads after "when", "if", "and" and "or".
        """
        about = f"{said(spec.description)}: " if spec.description else ""
        text = f"{about}{self._plain(spec, me, purpose)}"
        notes = "; ".join(_notes(spec, purpose))
        return f"{text} ({notes})" if notes else text

    def _plain(self, spec: Condition, me: JobSpec, purpose: Purpose) -> str:
        match spec:
            case FileExists() | FileContent() | LogPattern():
                return self._of_files(spec, me)
            case MetadataIs():
                return f"{said(spec.key)}{self._of(spec.job, me)} {_compared(spec)}"
            case MetricIs():
                after = f" from step {spec.after_step} on" if spec.after_step else ""
                whose = self._of(spec.job, me)
                return f"{said(spec.name)}{whose} {_compared(spec)}{after}"
            case JobStateIs():
                return self._states(spec, me)
            case Composite():
                return self._several(spec, me, purpose)
            case Not():
                return f"not so: {self.sentence(spec.condition, me, purpose)}"
            case _:
                return _alone(spec)

    def _of_files(
        self, spec: FileExists | FileContent | LogPattern, me: JobSpec
    ) -> str:
        match spec:
            case FileExists():
                path = self._path(spec.path, me)
                least = f" with at least {size(spec.min_size)}" if spec.min_size else ""
                head = "a match of " if spec.glob else ""
                return f"{head}{path} exists{least}"
            case FileContent():
                verb = "contains" if spec.mode == "contains" else "matches"
                return f"{self._path(spec.path, me)} {verb} {_quoted(spec.pattern)}"
            case LogPattern():
                log = self._path(spec.log_path, me)
                every = "every" if spec.check_mode == "all" else "a"
                head = f"{every} match of " if spec.glob else ""
                return f"{head}{log} shows {_quoted(spec.pattern)}"
            case _:
                assert_never(spec)

    def _states(self, spec: JobStateIs, me: JobSpec) -> str:
        verb = "is" if len(set(spec.jobs)) == 1 else "are"
        return f"{self.jobs(spec.jobs, me)} {verb} {said(spec.state)}"

    def _several(self, spec: Composite, me: JobSpec, purpose: Purpose) -> str:
        joint = " and " if spec.mode == "all" else " or "
        parts = [self.sentence(part, me, purpose) for part in spec.conditions]
        return f"({joint.join(parts)})" if len(parts) > 1 else joint.join(parts)

    # ------------------------------------------------------------ who, and where
    def jobs(self, names: Iterable[str], me: JobSpec | None = None) -> str:
        """Several jobs: a stage as a whole, or the first ones and how many more.

        Args:
            names: of the jobs, and of any that the plan does not have.
            me: the job that speaks of its siblings; None: every job by its name.
        """
        siblings: list[str] = []
        others: list[str] = []
        for stage, members in self._by_stage(names).items():
            if stage and len(members) == self._sizes[stage] > 1:
                others.append(f"all {len(members)} {said(stage)} jobs")
            elif len(members) == 1 and self._is_sibling(members[0], me):
                siblings.append(said(stage))
            else:
                others += _first(members)
        noun = "jobs" if len(siblings) > 1 else "job"
        own = [f"its {_listed(siblings)} {noun}"] if siblings else []
        return _listed([*own, *others])

    def _by_stage(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        grouped: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            stage = self._jobs[name].stage if name in self._jobs else ""
            grouped.setdefault(stage, []).append(name)
        return grouped

    def _job(self, name: str, me: JobSpec) -> str:
        """`its stable job` when that says which one; else the name."""
        if self._is_sibling(name, me):
            return f"its {said(self._jobs[name].stage)} job"
        return said(name)

    def _is_sibling(self, name: str, me: JobSpec | None) -> bool:
        """Whether a job's stage alone says which one it is, to `me`."""
        other = self._jobs.get(name)
        if me is None or other is None or not other.stage or not me.family:
            return False
        place = (me.family, other.stage)
        return other.family == me.family and self._alike[place] == 1

    def _of(self, name: str, me: JobSpec) -> str:
        return f" of {self._job(name, me)}" if name and name != me.name else ""

    def _path(self, path: str, me: JobSpec) -> str:
        """A path by whose directory it lies in; whole when it is nobody's."""
        for directory, rest in _splits(path):
            if directory in self._logs and rest == "current.log":
                return self._log(self._logs[directory], me)
            owner = self._outputs.get(directory) or self._logs.get(directory)
            if owner is not None:
                if owner is me:
                    return f"its own {said(rest)}"
                return f"{said(rest)} of {self._job(owner.name, me)}"
        return said(path)

    def _log(self, owner: JobSpec, me: JobSpec) -> str:
        if owner is me:
            return "its own log"
        return f"the log of {self._job(owner.name, me)}"


# ------------------------------------------------------------------ parts of phrases
def _alone(
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
            return f"the command {said(shlex.join(spec.command))} exits 0"
        case TimeReached():
            if spec.at is not None:
                return f"it is {clock_time(spec.at, _EPOCH)}"
            return f"it has waited {duration(spec.after_seconds or 0.0)}"
        case Approval():
            asked = f": {_quoted(spec.prompt)}" if spec.prompt else ""
            return f"a person says yes{asked}"
        case MaxAttempts():
            return f"it has had fewer than {plural(spec.max_attempts, 'attempt')}"
        case OwnCondition():
            return f"{said(spec.class_path)} says so"
        case Cooldown():
            return f"the last time is {duration(spec.cooldown_seconds)} ago"
        case _:
            assert_never(spec)


def _notes(spec: Condition, purpose: Purpose) -> Iterable[str]:
    limit = spec.timeout_seconds
    held = isinstance(spec, Approval) and spec.on_timeout == "hold"
    if limit is not None and not held:
        verb = "gives up" if purpose == "start" else "looks no more"
        yield f"{verb} after {duration(limit).replace(' ', UNBROKEN)}"
    if not spec.blocking:
        does = "holds nothing back" if purpose == "start" else "cancels nothing"
        yield f"only shown, {does}"


def _compared(spec: MetadataIs | MetricIs) -> str:
    value = spec.value
    if spec.op == "known":
        return "is known"
    if isinstance(value, bool) or value is None:
        return f"{spec.op} {({True: 'true', False: 'false', None: 'null'})[value]}"
    text = spell_float(value) if isinstance(value, float) else said(value)
    return f"{spec.op} {text}"


def _quoted(text: str) -> str:
    return f'"{said(text)}"'


def _first(names: Sequence[str]) -> list[str]:
    rest = len(names) - _NAMED
    more = [f"{rest} more"] if rest > 0 else []
    return [*(said(name) for name in names[:_NAMED]), *more]


def _listed(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _splits(path: str) -> Iterable[tuple[str, str]]:
    """(directory, the rest) for every directory above `path`, the nearest first."""
    whole = normpath(path)
    at = whole.rfind("/")
    while at > 0:
        yield whole[:at], whole[at + 1 :]
        at = whole.rfind("/", 0, at)
