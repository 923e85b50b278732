"""Of a job's state, its attempts, and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    NameJobs,
    all_of,
    held_back,
    job_fact,
    read_fact,
    say_fail,
    say_pass,
    say_wait,
)
from autoexp_tui.model.facts import (
    Fact,
    FactKey,
    Facts,
    FiredKey,
    JobKey,
    Moment,
)
from autoexp_tui.model.states import TERMINAL, Cause, JobState, Verdict
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
class JobStateIs(Condition):
    """Every named job is in a state; FAILs when one ended for good otherwise."""

    kind: Literal["job_state"] = "job_state"
    jobs: tuple[str, ...]
    state: str
    """One of ours, or a raw one of Slurm's that means FAILED with that cause."""

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield from (JobKey(name) for name in self.jobs)

    def name_subject(self, name_jobs: NameJobs) -> str:
        return f"{name_jobs(self.jobs)} {self.state}"

    def list_sources(self) -> Iterator[str]:
        yield from (f"the state of {name}" for name in self.jobs)

    def list_awaited_jobs(self) -> Iterator[str]:
        yield from self.jobs

    def name_object(self) -> str:
        return f"{', '.join(self.jobs)} {self.state}"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        wanted = self.state.strip().upper()
        if wanted not in RAW_CAUSES and wanted not in JobState.__members__:
            return say_wait("bad_condition", problem=f"{self.state!r} is no state")
        verdicts = [_evaluate_job(name, wanted, facts) for name in self.jobs]
        more = max(0, len(self.jobs) - 1)
        holds = say_pass("all_hold", count=0)
        if self.jobs:
            args = {"job": self.jobs[0], "state": wanted, "more": more or None}
            holds = say_pass("job_ok", **args)
        return all_of(verdicts, holds)

    def is_final(self, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
        return self.state.strip().upper() not in _PASSING_STATES


def _evaluate_job(name: str, wanted: str, facts: Facts) -> Verdict:
    job = job_fact(facts, name)
    if isinstance(job, Verdict):
        return job
    args: dict[str, str | float | None] = {
        "job": name,
        "state": job.state,
        "cause": job.cause,
        "wanted": wanted,
    }
    holds = job.state == wanted
    if wanted in RAW_CAUSES:
        holds = job.state in _FAILED and job.cause is RAW_CAUSES[wanted]
    elif wanted == JobState.FAILED:  # a LOST job is over, and did not complete
        holds = job.state in _FAILED
    if holds:
        return say_pass("job_ok", **args)
    if job.state in TERMINAL:
        return say_fail("upstream", **args, step=job.step)
    waits = say_wait("job_waits", job=name, wanted=wanted)
    return held_back(facts, name, f"{name} to be {wanted}") or waits


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxAttempts(Condition):
    """The job has had fewer attempts than this."""

    kind: Literal["max_attempts"] = "max_attempts"
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
class TimeReached(Condition):
    """Seconds since WAITING was entered have passed, or a moment is reached."""

    kind: Literal["time"] = "time"
    after_seconds: float | None = None
    at: float | None = None
    """UTC, seconds since the epoch."""

    def name_object(self) -> str:
        return "a time"

    def name_subject(self, name_jobs: NameJobs) -> str:
        if self.at is not None:
            return clock_time(self.at)
        return f"{duration(self.after_seconds or 0.0)} of waiting"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        if self.after_seconds is not None and ctx.waiting_lived is None:
            return say_wait("time_unset", seconds=self.after_seconds)
        at = self.find_end(now, ctx)
        if at is None or now.lived >= at:
            return say_pass(
                "time_reached", at=None if at is None else now.convert_to_t(at)
            )
        return say_wait("time_until", at=now.convert_to_t(at))

    def find_end(self, now: Moment, ctx: EvalContext) -> float | None:
        """When (lived) both of the moments that it names are reached."""
        moments = [] if self.at is None else [now.convert_to_lived(self.at)]
        if self.after_seconds is not None and ctx.waiting_lived is not None:
            moments.append(ctx.waiting_lived + self.after_seconds)
        return max(moments, default=None)

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        at = self.find_end(now, ctx)
        if at is not None:
            yield at

    def is_final(self, facts: Facts, now: Moment, ctx: EvalContext) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown(Condition):
    """So many seconds have passed since this action last fired for this job."""

    kind: Literal["cooldown"] = "cooldown"
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
        until = self._ends_at(fact)
        if until is None or now.lived >= until:
            return say_pass("cooled_down")
        return say_wait("cooling_down", until=now.convert_to_t(until))

    def _ends_at(self, fact: Fact | None) -> float | None:
        """When (lived) it is over; None when the action never fired."""
        fired = fact.value if fact is not None else None
        return (
            fired + self.cooldown_seconds if isinstance(fired, (int, float)) else None
        )

    def list_moments(
        self, facts: Facts, now: Moment, ctx: EvalContext
    ) -> Iterator[float]:
        at = self._ends_at(facts.get(FiredKey(ctx.job, ctx.action)))
        if at is not None:
            yield at
