"""What single conditions say of values, jobs, commands, time and people.

Each judge reads only the facts of its own keys and never raises. Files and logs have
`conditions.judging_files`. Composition and timeouts are in `conditions.conditions`.
"""

from __future__ import annotations

from typing import Final

from autoexp_tui.conditions.comparing import compare
from autoexp_tui.conditions.fact_keys import value_key
from autoexp_tui.conditions.kinds import (
    Approval,
    CommandPasses,
    Cooldown,
    JobStateIs,
    MaxAttempts,
    MetadataIs,
    MetricIs,
    TimeReached,
)
from autoexp_tui.conditions.verdicts import (
    EvalContext,
    all_of,
    end_of,
    ended_job,
    grace_ends,
    held_back,
    job_fact,
    say_fail,
    say_pass,
    say_wait,
    seen_as,
)
from autoexp_tui.model.facts import (
    ApprovalFact,
    ApprovalKey,
    CommandKey,
    CommandResult,
    Fact,
    Facts,
    FiredKey,
    JobFact,
    MetricFact,
)
from autoexp_tui.model.moment import Moment
from autoexp_tui.model.states import TERMINAL, Cause, JobState
from autoexp_tui.model.verdicts import Verdict

RAW_CAUSES: Final = {
    "TIMEOUT": Cause.TIMEOUT,
    "OUT_OF_MEMORY": Cause.OUT_OF_MEMORY,
    "NODE_FAIL": Cause.NODE_FAIL,
    "PREEMPTED": Cause.PREEMPTED,
}
"""Slurm's words for a failure, each with its cause."""


def judge_metadata(
    spec: MetadataIs, facts: Facts, now: Moment, ctx: EvalContext
) -> Verdict:
    """Whether a job's metadata compares as asked."""
    job = spec.job or ctx.job
    fact = facts.get(value_key(spec, ctx.job))
    if fact is not None and fact.error:
        return say_wait("look_failed", error=fact.error, what=f"{spec.key} of {job}")
    value = fact.value if fact is not None else None
    if not isinstance(value, str):
        waits = say_wait("no_metadata", job=job, key=spec.key)
    elif spec.op == "known" or compare(value, spec.op, spec.value):
        return say_pass("metadata_ok", job=job, key=spec.key, value=value)
    else:
        wanted = "" if spec.value is None else str(spec.value)
        args = {"job": job, "key": spec.key, "value": value, "wanted": wanted}
        waits = say_wait("metadata_is_not", **args, op=spec.op)
    held = held_back(facts, job if job != ctx.job else "", spec.key)
    return _doomed_value(job, spec.key, facts, now, ctx) or held or waits


def judge_metric(
    spec: MetricIs, facts: Facts, now: Moment, ctx: EvalContext
) -> Verdict:
    """Whether a job's last metric compares as asked, from a step on."""
    job = spec.job or ctx.job
    fact = facts.get(value_key(spec, ctx.job))
    if fact is None or (fact.value is None and not fact.error):
        waits = say_wait("no_metric", job=job, name=spec.name)
        other = job if job != ctx.job else ""
        held = held_back(facts, other, spec.name, code="metric_held")
        return _doomed_value(job, spec.name, facts, now, ctx) or held or waits
    metric = seen_as(fact, MetricFact, f"{spec.name} of {job}")
    if isinstance(metric, Verdict):
        return metric
    args: dict[str, str | float | None] = {
        "job": job,
        "name": spec.name,
        "value": metric.value,
        "step": metric.step,
        "op": spec.op,
        "wanted": spec.value,
    }
    if metric.step >= spec.after_step and compare(metric.value, spec.op, spec.value):
        return say_pass("metric_ok", **args)
    early = metric.step < spec.after_step
    after = spec.after_step if early else None
    waits = say_wait(
        "metric_early" if early else "metric_is_not", **args, after_step=after
    )
    return _doomed_value(job, spec.name, facts, now, ctx) or waits


def _doomed_value(
    name: str, key: str, facts: Facts, now: Moment, ctx: EvalContext
) -> Verdict | None:
    """FAIL when another job, whose value it is, ended for good without it.

    A job ends once its log is read to the end, so there is nothing left to look at.
    """
    job = ended_job(facts, name) if name != ctx.job else None
    if job is None or now.lived < grace_ends(job, ctx):
        return None
    return say_fail("doomed_value", job=name, key=key, **end_of(job))


def judge_job_states(spec: JobStateIs, facts: Facts) -> Verdict:
    """Whether every named job is in the state."""
    wanted = spec.state.strip().upper()
    if wanted not in RAW_CAUSES and wanted not in JobState.__members__:
        return say_wait("bad_condition", problem=f"{spec.state!r} is no state")
    verdicts = [_job_state(name, wanted, facts) for name in spec.jobs]
    return all_of(verdicts, _states_agree(spec, wanted))


def _states_agree(spec: JobStateIs, wanted: str) -> Verdict:
    if not spec.jobs:
        return say_pass("all_hold", count=0)
    more = len(spec.jobs) - 1
    return say_pass("job_ok", job=spec.jobs[0], state=wanted, more=more or None)


def _job_state(name: str, wanted: str, facts: Facts) -> Verdict:
    job = job_fact(facts, name)
    if isinstance(job, Verdict):
        return job
    args: dict[str, str | float | None] = {
        "job": name,
        "state": job.state,
        "cause": job.cause,
        "wanted": wanted,
    }
    if is_in_state(job, wanted):
        return say_pass("job_ok", **args)
    if job.state in TERMINAL:
        return say_fail("upstream", **args, step=job.step)
    waits = say_wait("job_waits", job=name, wanted=wanted)
    return held_back(facts, name, f"{name} to be {wanted}") or waits


def is_in_state(job: JobFact, wanted: str) -> bool:
    """Whether a job is in `wanted`: one of our states, or a raw word for a failure.

    A LOST job counts as FAILED too: it is over and did not complete. Asked for by
    name, LOST means only LOST.
    """
    if wanted in RAW_CAUSES:
        return job.state in _FAILED and job.cause is RAW_CAUSES[wanted]
    if wanted == JobState.FAILED:
        return job.state in _FAILED
    return job.state == wanted


_FAILED: Final = frozenset({JobState.FAILED, JobState.LOST})


def judge_command(spec: CommandPasses, facts: Facts) -> Verdict:
    """Whether the command's last run ended with 0."""
    words = " ".join(spec.command)
    key = CommandKey(spec.command, spec.timeout)
    done = seen_as(facts.get(key), CommandResult, words)
    if isinstance(done, Verdict):
        return done
    if done.exit_code is None:
        return say_wait("command_error", command=words, detail=done.detail)
    if done.exit_code == 0:
        return say_pass("command_ok", command=words)
    exit_code = done.exit_code
    return say_wait("command_failed", command=words, exit=exit_code, detail=done.detail)


def judge_time(spec: TimeReached, now: Moment, ctx: EvalContext) -> Verdict:
    """Whether the moment is reached."""
    if spec.after_seconds is not None and ctx.waiting_lived is None:
        return say_wait("time_unset", seconds=spec.after_seconds)
    at = reached_at(spec, now, ctx)
    if at is None or now.lived >= at:
        return say_pass("time_reached", at=None if at is None else now.t_of(at))
    return say_wait("time_until", at=now.t_of(at))


def reached_at(spec: TimeReached, now: Moment, ctx: EvalContext) -> float | None:
    """When (lived) both of the moments that the condition names are reached."""
    moments = [] if spec.at is None else [now.lived_of(spec.at)]
    if spec.after_seconds is not None and ctx.waiting_lived is not None:
        moments.append(ctx.waiting_lived + spec.after_seconds)
    return max(moments, default=None)


def judge_approval(spec: Approval, facts: Facts, ctx: EvalContext) -> Verdict:
    """What the person said."""
    fact = facts.get(ApprovalKey(ctx.job))
    if fact is None or (fact.value is None and not fact.error):
        return say_wait("asks_later", prompt=spec.prompt)
    answer = seen_as(fact, ApprovalFact, f"approval of {ctx.job}")
    if isinstance(answer, Verdict):
        return answer
    if answer.approved is None:
        return say_wait("asks_you", prompt=spec.prompt)
    if answer.approved:
        return say_pass("approved", by=answer.by, reason=answer.reason)
    return say_fail("refused", by=answer.by, reason=answer.reason)


def judge_max_attempts(spec: MaxAttempts, facts: Facts, ctx: EvalContext) -> Verdict:
    """Whether the job has had fewer attempts, or the action fired less often."""
    job = job_fact(facts, ctx.job)
    if isinstance(job, Verdict):
        return job
    attempts = job.attempts if ctx.attempts is None else ctx.attempts
    args = {"attempts": attempts, "max": spec.max_attempts}
    if attempts < spec.max_attempts:
        return say_pass("attempts_left", **args)
    spent = "attempts_spent" if ctx.attempts is None else "firings_spent"
    return say_fail(spent, **args)


def judge_cooldown(
    spec: Cooldown, facts: Facts, now: Moment, ctx: EvalContext
) -> Verdict:
    """Whether the action last fired long enough ago."""
    fact = facts.get(FiredKey(ctx.job, ctx.action))
    if fact is None or fact.error:
        unknown = seen_as(fact, float, f"the last time of {ctx.action}")
        return unknown if isinstance(unknown, Verdict) else say_pass("cooled_down")
    until = cool_at(spec, fact)
    if until is None or now.lived >= until:
        return say_pass("cooled_down")
    return say_wait("cooling_down", until=now.t_of(until))


def cool_at(spec: Cooldown, fact: Fact | None) -> float | None:
    """When (lived) a cooldown is over; None when its action never fired."""
    fired = fact.value if fact is not None else None
    return fired + spec.cooldown_seconds if isinstance(fired, (int, float)) else None
