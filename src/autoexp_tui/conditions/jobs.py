"""On a job's state, attempts, time and values; on a command, and a person's yes."""

from __future__ import annotations

import operator
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    NameJobs,
    all_of,
    end_of,
    find_ended_job,
    find_grace_end,
    held_back,
    job_fact,
    read_fact,
    say_fail,
    say_pass,
    say_wait,
)
from autoexp_tui.model.facts import (
    ApprovalFact,
    ApprovalKey,
    CommandKey,
    CommandResult,
    FactKey,
    Facts,
    FiredKey,
    JobKey,
    MetadataKey,
    MetricFact,
    MetricKey,
    Moment,
)
from autoexp_tui.model.specs import Scalar
from autoexp_tui.model.states import TERMINAL, Cause, JobState, Verdict
from autoexp_tui.text.log_lines import find_canonical_name
from autoexp_tui.text.spelling import clock_time, duration

RAW_CAUSES: Final = {
    "TIMEOUT": Cause.TIMEOUT,
    "OUT_OF_MEMORY": Cause.OUT_OF_MEMORY,
    "NODE_FAIL": Cause.NODE_FAIL,
    "PREEMPTED": Cause.PREEMPTED,
}
"""Slurm's words for a failure, each with its cause."""

_FAILED: Final = frozenset({JobState.FAILED, JobState.LOST})
_PASSING_STATES: Final = frozenset(state.value for state in JobState) - TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStateIs(Condition, kind="job_state"):
    """Every named job is in a state; FAILs when one ended for good otherwise."""

    jobs: tuple[str, ...]
    state: str
    """One of ours, or a raw one of Slurm's that means FAILED with that cause."""

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield from map(JobKey, self.jobs)

    def name_subject(self, name_jobs: NameJobs) -> str:
        return f"{name_jobs(self.jobs)} {self.state}"

    def list_sources(self) -> Iterator[str]:
        yield from (f"the state of {name}" for name in self.jobs)

    def name_object(self) -> str:
        return self.name_subject(", ".join)

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        wanted = self.state.strip().upper()
        if wanted not in RAW_CAUSES and wanted not in JobState.__members__:
            return say_wait("bad_condition", problem=f"{self.state!r} is no state")
        holds = say_pass("all_hold", count=0)
        if self.jobs:
            more = len(self.jobs) - 1 or None
            holds = say_pass("job_ok", job=self.jobs[0], state=wanted, more=more)
        return all_of((_judge_job(name, wanted, facts) for name in self.jobs), holds)

    def is_final(self, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
        return self.state.strip().upper() not in _PASSING_STATES


def _judge_job(name: str, wanted: str, facts: Facts) -> Verdict:
    job = job_fact(facts, name)
    if isinstance(job, Verdict):
        return job
    args: dict[str, Any] = {"job": name, "state": job.state, "cause": job.cause}
    holds = job.state == wanted
    if wanted in RAW_CAUSES:
        holds = job.state in _FAILED and job.cause is RAW_CAUSES[wanted]
    elif wanted == JobState.FAILED:  # a LOST job is over, and did not complete
        holds = job.state in _FAILED
    if holds:
        return say_pass("job_ok", **args, wanted=wanted)
    if job.state in TERMINAL:
        return say_fail("upstream", **args, wanted=wanted, step=job.step)
    waits = say_wait("job_waits", job=name, wanted=wanted)
    return held_back(facts, name, f"{name} to be {wanted}") or waits


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxAttempts(Condition, kind="max_attempts"):
    max_attempts: int

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield JobKey(job)

    def name_object(self) -> str:
        return f"fewer than {self.max_attempts} attempts"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        job = job_fact(facts, ctx.job)
        if isinstance(job, Verdict):
            return job
        attempts = job.attempts if ctx.attempts is None else ctx.attempts
        args = {"attempts": attempts, "max": self.max_attempts}
        if attempts < self.max_attempts:
            return say_pass("attempts_left", **args)
        spent = "attempts_spent" if ctx.attempts is None else "firings_spent"
        return say_fail(spent, **args)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeReached(Condition, kind="time", lasts=True):
    """Seconds since WAITING was entered have passed, or a moment is reached."""

    after_seconds: float | None = None
    at: float | None = None
    """UTC, seconds since the epoch."""

    def name_object(self) -> str:
        if self.at is not None:
            return clock_time(self.at)
        return f"{duration(self.after_seconds or 0.0)} of waiting"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        if self.after_seconds is not None and ctx.waiting_lived is None:
            return say_wait("time_unset", seconds=self.after_seconds)
        at = next(self.list_moments(facts, now, ctx), None)
        if at is None or now.lived >= at:
            told = None if at is None else now.convert_to_t(at)
            return say_pass("time_reached", at=told)
        return say_wait("time_until", at=now.convert_to_t(at))

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        """When both of the moments that it names are reached."""
        moments = [] if self.at is None else [now.convert_to_lived(self.at)]
        if self.after_seconds is not None and ctx.waiting_lived is not None:
            moments.append(ctx.waiting_lived + self.after_seconds)
        yield from sorted(moments)[-1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown(Condition, kind="cooldown"):
    """So many seconds have passed since this action last fired for this job."""

    cooldown_seconds: float

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield FiredKey(job, action)

    def name_object(self) -> str:
        return "a cooldown"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        fact = facts.get(FiredKey(ctx.job, ctx.action))
        if fact is None or fact.error:
            unknown = read_fact(fact, float, f"the last time of {ctx.action}")
            return unknown if isinstance(unknown, Verdict) else say_pass("cooled_down")
        for until in self.list_moments(facts, now, ctx):
            if now.lived < until:
                return say_wait("cooling_down", until=now.convert_to_t(until))
        return say_pass("cooled_down")

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        """When it is over, if the action ever fired."""
        fact = facts.get(FiredKey(ctx.job, ctx.action))
        if fact is not None and isinstance(fact.value, int | float):
            yield fact.value + self.cooldown_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPasses(Condition, kind="command"):
    command: tuple[str, ...]
    timeout: float = 30.0
    """Seconds for one run."""

    @property
    def key(self) -> CommandKey:
        """The run that answers it."""
        return CommandKey(self.command, self.timeout)

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield self.key

    def name_object(self) -> str:
        return " ".join(self.command)

    def name_subject(self, name_jobs: NameJobs) -> str:
        name = posixpath.basename(self.command[0]) if self.command else "command"
        return f"{name} exits 0"

    def list_sources(self) -> Iterator[str]:
        yield f"$ {shlex.join(self.command)}"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        words = " ".join(self.command)
        done = read_fact(facts.get(self.key), CommandResult, words)
        if isinstance(done, Verdict):
            return done
        if done.exit_code == 0:
            return say_pass("command_ok", command=words)
        code = "command_error" if done.exit_code is None else "command_failed"
        return say_wait(code, command=words, exit=done.exit_code, detail=done.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Condition, kind="approval", timeout_code="approval_timeout", lasts=True):
    """A person says yes; bound to what will be done."""

    prompt: str = ""
    show_files: tuple[str, ...] = ()
    """Files whose text is shown with the prompt, when they exist."""
    on_timeout: Literal["hold", "reject"] = "hold"

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield ApprovalKey(job)

    def name_object(self) -> str:
        return "your approval"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        fact = facts.get(ApprovalKey(ctx.job))
        if fact is None or (fact.value is None and not fact.error):
            return say_wait("asks_later", prompt=self.prompt)
        answer = read_fact(fact, ApprovalFact, f"approval of {ctx.job}")
        if isinstance(answer, Verdict):
            return answer
        if answer.approved is None:
            return say_wait("asks_you", prompt=self.prompt)
        if answer.approved:
            return say_pass("approved", by=answer.by, reason=answer.reason)
        return say_fail("refused", by=answer.by, reason=answer.reason)

    def find_deadline(self, ctx: EvalContext) -> float | None:
        if self.on_timeout == "hold":
            return None
        asked = ctx.waiting_lived if ctx.asked_lived is None else ctx.asked_lived
        return Condition.find_deadline(self, replace(ctx, waiting_lived=asked))


Op: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]

_NUMBER: Final = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf|infinity)",
    re.ASCII | re.IGNORECASE,
)
_INTEGER: Final = re.compile(r"[-+]?\d{1,300}", re.ASCII)

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare(left: Scalar, op: Op, right: Scalar) -> bool:
    """Whether `left op right` holds.

    Two numbers, also written as text (`"8000"`, `8e3`), compare as numbers; anything
    else as text, where only `==` and `!=` can hold. Case is nothing to booleans.
    """
    one, two = (str("" if value is None else value).strip() for value in (left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        one, two = one.lower(), two.lower()
    else:
        numbers = as_number(left), as_number(right)
        if None not in numbers:
            return bool(_OPERATORS[op](*numbers))
    return op in ("==", "!=") and _OPERATORS[op](one, two)


def as_number(value: Scalar) -> int | float | None:
    """The number that `value` is or spells; None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfValue(Condition):
    job: str = ""
    """Empty: the job that has the condition."""

    def value_key(self, job: str) -> MetadataKey | MetricKey:
        """The value; `job` is the one that asks."""
        raise NotImplementedError(type(self).__name__)

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield self.value_key(job)
        if self.job and self.job != job:
            yield JobKey(self.job)

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        owner = find_ended_job(facts, self._find_other(ctx))
        if owner is not None:
            yield find_grace_end(owner, ctx)

    def _find_other(self, ctx: EvalContext) -> str:
        """Whose value it is, when that is not the job that asks."""
        return self.job if self.job != ctx.job else ""

    def judge_wait(
        self,
        waits: Verdict,
        facts: Facts,
        now: Moment,
        ctx: EvalContext,
        held: str | None = "upstream_held",
    ) -> Verdict:
        """FAIL when another job, whose value it is, ended for good without it: a job
        ends once its log is read to the end, so there is nothing left to look at.
        `held`: the reason to wait for one that nobody asked to run."""
        name, other = self.name_wanted()[0], self._find_other(ctx)
        owner = find_ended_job(facts, other)
        if owner is not None and now.lived >= find_grace_end(owner, ctx):
            return say_fail("doomed_value", job=self.job, key=name, **end_of(owner))
        return (held and held_back(facts, other, name, held)) or waits

    def name_wanted(self) -> tuple[str, str]:
        raise NotImplementedError(type(self).__name__)

    def name_object(self) -> str:
        name, wanted = self.name_wanted()
        return f"{name} of {self.job} {wanted}" if self.job else f"{name} {wanted}"

    def name_subject(self, name_jobs: NameJobs) -> str:
        return " ".join(self.name_wanted())

    def list_sources(self) -> Iterator[str]:
        yield f"{self.name_wanted()[0]} of {self.job or 'its own log'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataIs(_OfValue, kind="metadata"):
    """A job's logged metadata compares to a value; numbers compare as numbers."""

    key: str
    """The metadata key (`base.` and `{runtime...}` forms are lowered by planning)."""
    op: Op | Literal["known"] = "=="
    """`known`: whatever the value is."""
    value: Scalar = None

    def value_key(self, job: str) -> MetadataKey:
        return MetadataKey(self.job or job, self.key)

    def name_wanted(self) -> tuple[str, str]:
        known = self.op == "known"
        return self.key, "is known" if known else f"{self.op} {self.value}"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        job = self.job or ctx.job
        fact = facts.get(self.value_key(ctx.job))
        if fact is not None and fact.error:
            what = f"{self.key} of {job}"
            return say_wait("look_failed", error=fact.error, what=what)
        value = fact.value if fact is not None else None
        args: dict[str, Any] = {"job": job, "key": self.key}
        if not isinstance(value, str):
            waits = say_wait("no_metadata", **args)
        elif self.op == "known" or compare(value, self.op, self.value):
            return say_pass("metadata_ok", **args, value=value)
        else:
            wanted = "" if self.value is None else str(self.value)
            args |= {"value": value, "wanted": wanted, "op": self.op}
            waits = say_wait("metadata_is_not", **args)
        return self.judge_wait(waits, facts, now, ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricIs(_OfValue, kind="metric"):
    """A job's last observed metric compares to a value, after a step."""

    name: str
    op: Op = "<"
    value: float
    after_step: int = 0

    def value_key(self, job: str) -> MetricKey:
        return MetricKey(self.job or job, find_canonical_name(self.name))

    def name_wanted(self) -> tuple[str, str]:
        return self.name, f"{self.op} {self.value:g}"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        args: dict[str, Any] = {"job": self.job or ctx.job, "name": self.name}
        fact = facts.get(self.value_key(ctx.job))
        if fact is None or (fact.value is None and not fact.error):
            waits = say_wait("no_metric", **args)
            return self.judge_wait(waits, facts, now, ctx, "metric_held")
        metric = read_fact(fact, MetricFact, "{name} of {job}".format(**args))
        if isinstance(metric, Verdict):
            return metric
        args |= {"value": metric.value, "step": metric.step}
        args |= {"op": self.op, "wanted": self.value}
        if metric.step < self.after_step:
            waits = say_wait("metric_early", **args, after_step=self.after_step)
        elif compare(metric.value, self.op, self.value):
            return say_pass("metric_ok", **args)
        else:
            waits = say_wait("metric_is_not", **args)
        return self.judge_wait(waits, facts, now, ctx, None)
