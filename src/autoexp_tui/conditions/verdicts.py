"""How judges of conditions speak: verdicts with reasons, and what each may know."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from autoexp_tui.model.facts import Fact, Facts, JobFact, JobKey
from autoexp_tui.model.states import TERMINAL, JobState
from autoexp_tui.model.verdicts import Result, Verdict, Why
from autoexp_tui.text.sanitize import clean

T = TypeVar("T")


_ARG_LIMIT: Final = 1000
"""Characters of an argument that are kept."""


UNTIMED: Final = frozenset(
    {"not_looked", "look_failed", "no_answer", "bad_condition", "files_unsure"}
)
"""Codes of a WAIT that no timeout ends: nobody knows what there is."""


UNKNOWN: Final = UNTIMED | {"own_failed", "no_metric", "metric_held"}
"""Codes of a WAIT that says nothing about the world; `Not` passes them on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalContext:
    """For whom a condition is judged."""

    job: str
    waiting_lived: float | None = None
    """Start of the waiting clock, in seconds that engines lived; None while the job
    does not wait: no timeout runs."""
    action: str = ""
    """`<rule>/<index>` of the action whose condition it is, for `Cooldown`."""
    attempts: int | None = None
    """What `MaxAttempts` counts instead of the job's own attempts."""
    grace_seconds: float = 60.0
    """How long after its writer's end a file may still appear."""
    asked_lived: float | None = None
    """When the approval was asked: its timeout runs from then on."""


def _why(code: str, **args: str | float | None) -> Why:
    """A reason without the arguments that are not known."""
    known = ((k, _arg(v)) for k, v in args.items() if v is not None and v != "")
    return Why(code, tuple(known))


def _arg(value: str | float) -> str | float:
    """An argument as a journal can hold it: bounded clean text, or a finite number."""
    if isinstance(value, str):
        return clean(value, limit=_ARG_LIMIT)
    return value if math.isfinite(value) else str(value)


def said(verdict: Verdict) -> Verdict:
    """A verdict of a user's class with a reason that a journal can hold."""
    return Verdict(verdict.result, _why(verdict.why.code, **dict(verdict.why.args)))


def say_pass(code: str, **args: str | float | None) -> Verdict:
    """PASS, with its reason; arguments that are None or empty are left out."""
    return Verdict(Result.PASS, _why(code, **args))


def say_wait(code: str, **args: str | float | None) -> Verdict:
    """WAIT, with its reason; arguments that are None or empty are left out."""
    return Verdict(Result.WAIT, _why(code, **args))


def say_fail(code: str, **args: str | float | None) -> Verdict:
    """FAIL, with its reason; arguments that are None or empty are left out."""
    return Verdict(Result.FAIL, _why(code, **args))


def seen_as(fact: Fact | None, kind: type[T], what: str) -> T | Verdict:
    """A fact's value, or the WAIT of one that is unknown."""
    if fact is None:
        return say_wait("not_looked", what=what)
    if fact.silence is not None:
        silence = fact.silence
        return say_wait(
            "no_answer", place=silence.place, since=silence.since, what=what
        )
    if fact.error:
        return say_wait("look_failed", error=fact.error, what=what)
    if not isinstance(fact.value, kind):
        return say_wait("look_failed", error="the answer is of another kind", what=what)
    return fact.value


def job_fact(facts: Facts, name: str) -> JobFact | Verdict:
    """What is known of a job, or the WAIT of one that is unknown."""
    return seen_as(facts.get(JobKey(name)), JobFact, name)


def ended_job(facts: Facts, name: str) -> JobFact | None:
    """A job that is known to have ended for good."""
    job = job_fact(facts, name) if name else None
    return job if isinstance(job, JobFact) and job.state in TERMINAL else None


def held_back(
    facts: Facts, name: str, what: str, code: str = "upstream_held"
) -> Verdict | None:
    """WAIT for what only a job can bring that nobody has asked to run."""
    job = job_fact(facts, name) if name else None
    if isinstance(job, JobFact) and job.state in _NOT_CHOSEN:
        return say_wait(code, what=what, job=name)
    return None


_NOT_CHOSEN: Final = frozenset({JobState.PLANNED, JobState.HELD})


def grace_ends(job: JobFact, ctx: EvalContext) -> float:
    """Until when (lived) what an ended job wrote may still appear."""
    return (job.ended_lived or 0.0) + ctx.grace_seconds


def all_of(verdicts: Iterable[Verdict], passed: Verdict) -> Verdict:
    """One that fails decides; then one that is surely not so; then an unknown one."""
    verdicts = list(verdicts)
    waiting = [verdict for verdict in verdicts if verdict.result is Result.WAIT]
    known = [verdict for verdict in waiting if verdict.why.code not in UNKNOWN]
    return first(verdicts, Result.FAIL) or next(iter(known + waiting), passed)


def first(verdicts: Iterable[Verdict], result: Result) -> Verdict | None:
    """The first verdict with this result."""
    return next((verdict for verdict in verdicts if verdict.result is result), None)


def end_of(job: JobFact) -> dict[str, str | float | None]:
    """How a job ended, as the arguments of a reason."""
    return {"state": job.state, "cause": job.cause, "step": job.step}
