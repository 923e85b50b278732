"""Conditions on values that jobs report: metadata of their logs, and metrics."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    NameJobs,
    end_of,
    find_ended_job,
    find_grace_end,
    held_back,
    read_fact,
    say_fail,
    say_pass,
    say_wait,
)
from autoexp_tui.model.facts import (
    FactKey,
    Facts,
    JobKey,
    MetadataKey,
    MetricFact,
    MetricKey,
    Moment,
)
from autoexp_tui.model.specs import Scalar
from autoexp_tui.model.states import Verdict
from autoexp_tui.text.log_lines import find_canonical_name

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
    """A condition on a value of a job."""

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
        """The value's name, and what it is to be."""
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
