"""What single conditions say: files, values, jobs, commands, logs, time, people.

Each judge reads only the facts of its own keys and never raises. Composition and
timeouts are not here (`monitor.conditions`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from autoexp_tui.core.clean import clean
from autoexp_tui.core.condition_kinds import (
    Approval,
    CommandPasses,
    Cooldown,
    FileContent,
    FileExists,
    JobStateIs,
    LogPattern,
    MaxAttempts,
    MetadataIs,
    MetricIs,
    TimeReached,
)
from autoexp_tui.core.facts import (
    ApprovalFact,
    ApprovalKey,
    CommandKey,
    CommandResult,
    Fact,
    Facts,
    FileStat,
    FileText,
    FiredKey,
    JobFact,
    JobKey,
    LogFound,
    LogKey,
    Matches,
    MetricFact,
)
from autoexp_tui.core.states import TERMINAL, Cause, JobState
from autoexp_tui.core.verdicts import Result, Verdict, Why
from autoexp_tui.monitor.careful import Linear, narrowed, no_linear
from autoexp_tui.monitor.comparing import compare
from autoexp_tui.monitor.fact_keys import file_key, log_key, look_key, value_key

T = TypeVar("T")

_ARG_LIMIT: Final = 1000
"""Characters of an argument that are kept."""

UNTIMED: Final = frozenset({"not_looked", "look_failed", "no_answer"})
"""Codes of a WAIT that no timeout ends: nobody knows what there is."""
UNKNOWN: Final = UNTIMED | {"bad_condition", "own_failed", "no_metric", "metric_held"}
"""Codes of a WAIT that says nothing about the world; `Not` passes them on."""

RAW_CAUSES: Final = {
    "TIMEOUT": Cause.TIMEOUT,
    "OUT_OF_MEMORY": Cause.OUT_OF_MEMORY,
    "NODE_FAIL": Cause.NODE_FAIL,
    "PREEMPTED": Cause.PREEMPTED,
}
"""Slurm's words for a failure, each with its cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalContext:
    """For whom a condition is judged."""

    job: str
    waiting_since: float | None = None
    """Start of the waiting clock; None while the job does not wait: no timeout runs."""
    action: str = ""
    """`<rule>/<index>` of the action whose condition it is, for `Cooldown`."""
    attempts: int | None = None
    """What `MaxAttempts` counts instead of the job's own attempts."""
    grace_seconds: float = 60.0
    """How long after its writer's end a file may still appear."""
    asked_at: float | None = None
    """When the approval was asked: its timeout runs from then on."""
    linear: Linear = no_linear
    """Asked before a regex of the user's is searched in a file."""


# ----------------------------------------------------------------------- helpers
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


def _seen(fact: Fact | None, kind: type[T], what: str) -> T | Verdict:
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


def _job(facts: Facts, name: str) -> JobFact | Verdict:
    return _seen(facts.get(JobKey(name)), JobFact, name)


def ended_job(facts: Facts, name: str) -> JobFact | None:
    """A job that is known to have ended for good."""
    job = _job(facts, name) if name else None
    return job if isinstance(job, JobFact) and job.state in TERMINAL else None


def _held(
    facts: Facts, name: str, what: str, code: str = "upstream_held"
) -> Verdict | None:
    """WAIT for what only a job can bring that nobody has asked to run."""
    job = _job(facts, name) if name else None
    if isinstance(job, JobFact) and job.state in _NOT_CHOSEN:
        return say_wait(code, what=what, job=name)
    return None


_NOT_CHOSEN: Final = frozenset({JobState.PLANNED, JobState.HELD})


def grace_ends(job: JobFact, ctx: EvalContext) -> float:
    """Until when what an ended job wrote may still appear."""
    return (job.ended_at or 0.0) + ctx.grace_seconds


def all_of(verdicts: Iterable[Verdict], passed: Verdict) -> Verdict:
    """One that fails decides; then one that is surely not so; then an unknown one."""
    verdicts = list(verdicts)
    waiting = [verdict for verdict in verdicts if verdict.result is Result.WAIT]
    known = [verdict for verdict in waiting if verdict.why.code not in UNKNOWN]
    return first(verdicts, Result.FAIL) or next(iter(known + waiting), passed)


def first(verdicts: Iterable[Verdict], result: Result) -> Verdict | None:
    """The first verdict with this result."""
    return next((verdict for verdict in verdicts if verdict.result is result), None)


# ------------------------------------------------------------------------- files
def judge_file_exists(
    spec: FileExists, facts: Facts, now: float, ctx: EvalContext
) -> Verdict:
    """Whether the path, or any match, is there and large enough."""
    fact = facts.get(file_key(spec))
    if spec.glob:
        found = _seen(fact, Matches, spec.path)
        if isinstance(found, Verdict):
            return found
        there, size = bool(found.paths), found.largest
    else:
        stat = _seen(fact, FileStat, spec.path)
        if isinstance(stat, Verdict):
            return stat
        there, size = stat.exists, stat.size
    if there and size >= spec.min_size:
        return say_pass("file_there", path=spec.path, size=size)
    waits = _file_waits(spec, size if there else None)
    held = _held(facts, spec.writer, spec.path)
    return _doomed(spec, facts, now, ctx) or held or waits


def _file_waits(spec: FileExists, size: int | None) -> Verdict:
    args = {"path": spec.path, "writer": spec.writer}
    if size is None:
        return say_wait("file_missing", **args)
    return say_wait("file_small", **args, size=size, min_size=spec.min_size)


def judge_file_content(
    spec: FileContent, facts: Facts, now: float, ctx: EvalContext
) -> Verdict:
    """Whether the file has the text."""
    file = _seen(facts.get(file_key(spec)), FileText, spec.path)
    if isinstance(file, Verdict):
        return file
    holds = False if file.text is None else _holds_text(spec, file.text, ctx)
    if isinstance(holds, Verdict):
        return holds
    if holds:
        return say_pass("text_there", path=spec.path, pattern=spec.pattern)
    code = "file_missing" if file.text is None else "text_missing"
    pattern = "" if file.text is None else spec.pattern
    waits = say_wait(code, path=spec.path, writer=spec.writer, pattern=pattern)
    held = _held(facts, spec.writer, spec.path)
    return _doomed(spec, facts, now, ctx) or held or waits


def _holds_text(spec: FileContent, text: str, ctx: EvalContext) -> bool | Verdict:
    if spec.mode == "contains":
        return spec.pattern in text
    try:
        piece = narrowed(spec.pattern, text, ctx.linear)
        return piece is not None and bool(re.search(spec.pattern, piece, re.MULTILINE))
    except (re.error, RecursionError, OverflowError) as error:
        return say_wait("bad_condition", problem=f"{spec.pattern!r}: {error}")


def _doomed(
    spec: FileExists | FileContent, facts: Facts, now: float, ctx: EvalContext
) -> Verdict | None:
    """FAIL when the file can never come: looked for after its writer's end."""
    writer = _gone_writer(spec, facts, now, ctx)
    if writer is None:
        return None
    end = _end_of(writer)
    return say_fail("doomed_file", path=spec.path, writer=spec.writer, **end)


def _gone_writer(
    spec: FileExists | FileContent | LogPattern,
    facts: Facts,
    now: float,
    ctx: EvalContext,
) -> JobFact | None:
    """The writer, when it ended for good and somebody looked after its end."""
    writer = ended_job(facts, spec.writer)
    if writer is None or now < grace_ends(writer, ctx):
        return None
    return writer if looked_since(facts.get(look_key(spec)), writer) else None


def _end_of(job: JobFact) -> dict[str, str | float | None]:
    """How a job ended, as the arguments of a reason."""
    return {"state": job.state, "cause": job.cause, "step": job.step}


def looked_since(fact: Fact | None, writer: JobFact) -> bool:
    """Whether somebody looked after the writer's end: older looks prove nothing."""
    return fact is not None and fact.observed_at >= (writer.ended_at or 0.0)


# ------------------------------------------------------------------------ values
def judge_metadata(
    spec: MetadataIs, facts: Facts, now: float, ctx: EvalContext
) -> Verdict:
    """Whether a job's metadata compares as asked."""
    job = spec.job or ctx.job
    fact = facts.get(value_key(spec, ctx.job))
    if fact is not None and fact.error:
        return say_wait("look_failed", error=fact.error, what=f"{spec.key} of {job}")
    value = fact.value if fact is not None else None
    if not isinstance(value, str):
        waits = say_wait("no_metadata", job=job, key=spec.key)
    elif compare(value, spec.op, spec.value):
        return say_pass("metadata_ok", job=job, key=spec.key, value=value)
    else:
        wanted = "" if spec.value is None else str(spec.value)
        args = {"job": job, "key": spec.key, "value": value, "wanted": wanted}
        waits = say_wait("metadata_is_not", **args, op=spec.op)
    held = _held(facts, job if job != ctx.job else "", spec.key)
    return _doomed_value(job, spec.key, facts, now, ctx) or held or waits


def judge_metric(spec: MetricIs, facts: Facts, now: float, ctx: EvalContext) -> Verdict:
    """Whether a job's last metric compares as asked, from a step on."""
    job = spec.job or ctx.job
    fact = facts.get(value_key(spec, ctx.job))
    if fact is None or (fact.value is None and not fact.error):
        waits = say_wait("no_metric", job=job, name=spec.name)
        other = job if job != ctx.job else ""
        held = _held(facts, other, spec.name, code="metric_held")
        return _doomed_value(job, spec.name, facts, now, ctx) or held or waits
    metric = _seen(fact, MetricFact, f"{spec.name} of {job}")
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
    name: str, key: str, facts: Facts, now: float, ctx: EvalContext
) -> Verdict | None:
    """FAIL when another job, whose value it is, ended for good without it.

    A job ends once its log is read to the end, so there is nothing left to look at.
    """
    job = ended_job(facts, name) if name != ctx.job else None
    if job is None or now < grace_ends(job, ctx):
        return None
    return say_fail("doomed_value", job=name, key=key, **_end_of(job))


# -------------------------------------------------------------------------- jobs
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
    job = _job(facts, name)
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
    return _held(facts, name, f"{name} to be {wanted}") or waits


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


# ------------------------------------------------------------ commands, logs, time
def judge_command(spec: CommandPasses, facts: Facts) -> Verdict:
    """Whether the command's last run ended with 0."""
    words = " ".join(spec.command)
    key = CommandKey(spec.command, spec.timeout)
    done = _seen(facts.get(key), CommandResult, words)
    if isinstance(done, Verdict):
        return done
    if done.exit_code is None:
        return say_wait("command_error", command=words, detail=done.detail)
    if done.exit_code == 0:
        return say_pass("command_ok", command=words)
    exit_code = done.exit_code
    return say_wait("command_failed", command=words, exit=exit_code, detail=done.detail)


def judge_log_pattern(
    spec: LogPattern, facts: Facts, now: float, ctx: EvalContext
) -> Verdict:
    """Whether any, or all, of the logs have the pattern."""
    found = _seen(facts.get(log_key(spec)), LogFound, spec.log_path)
    if isinstance(found, Verdict):
        return found
    if is_found(log_key(spec), found):
        path = found.path or spec.log_path
        return say_pass("log_matched", line=found.line, path=path)
    held = _held(facts, spec.writer, spec.log_path)
    return _doomed_log(spec, facts, now, ctx) or held or _log_waits(spec, found)


def is_found(key: LogKey, found: LogFound) -> bool:
    """Whether any, or all, of the files hold what `key` looks for."""
    wanted = 1 if key.check_mode == "any" else found.files
    return found.files > 0 and found.matched >= wanted


def _doomed_log(
    spec: LogPattern, facts: Facts, now: float, ctx: EvalContext
) -> Verdict | None:
    """FAIL when nobody writes to the log any more."""
    writer = _gone_writer(spec, facts, now, ctx)
    if writer is None:
        return None
    args = {"path": spec.log_path, "writer": spec.writer, "pattern": spec.pattern}
    return say_fail("doomed_log", **args, **_end_of(writer))


def _log_waits(spec: LogPattern, found: LogFound) -> Verdict:
    if found.files == 0:
        return say_wait("log_no_files", path=spec.log_path, pattern=spec.pattern)
    several = {"matched": found.matched, "files": found.files} if spec.glob else {}
    return say_wait("log_no_match", path=spec.log_path, pattern=spec.pattern, **several)


def judge_time(spec: TimeReached, now: float, ctx: EvalContext) -> Verdict:
    """Whether the moment is reached."""
    if spec.after_seconds is not None and ctx.waiting_since is None:
        return say_wait("time_unset", seconds=spec.after_seconds)
    at = moment(spec, ctx)
    if at is None or now >= at:
        return say_pass("time_reached", at=at)
    return say_wait("time_until", at=at)


def moment(spec: TimeReached, ctx: EvalContext) -> float | None:
    """When both of the moments that the condition names are reached."""
    moments = [] if spec.at is None else [spec.at]
    if spec.after_seconds is not None and ctx.waiting_since is not None:
        moments.append(ctx.waiting_since + spec.after_seconds)
    return max(moments, default=None)


# -------------------------------------------------------------- people and counts
def judge_approval(spec: Approval, facts: Facts, ctx: EvalContext) -> Verdict:
    """What the person said."""
    fact = facts.get(ApprovalKey(ctx.job))
    if fact is None or (fact.value is None and not fact.error):
        return say_wait("asks_later", prompt=spec.prompt)
    answer = _seen(fact, ApprovalFact, f"approval of {ctx.job}")
    if isinstance(answer, Verdict):
        return answer
    if answer.approved is None:
        return say_wait("asks_you", prompt=spec.prompt)
    if answer.approved:
        return say_pass("approved", by=answer.by, reason=answer.reason)
    return say_fail("refused", by=answer.by, reason=answer.reason)


def judge_max_attempts(spec: MaxAttempts, facts: Facts, ctx: EvalContext) -> Verdict:
    """Whether the job has had fewer attempts, or the action fired less often."""
    job = _job(facts, ctx.job)
    if isinstance(job, Verdict):
        return job
    attempts = job.attempts if ctx.attempts is None else ctx.attempts
    args = {"attempts": attempts, "max": spec.max_attempts}
    if attempts < spec.max_attempts:
        return say_pass("attempts_left", **args)
    return say_fail("attempts_spent", **args)


def judge_cooldown(
    spec: Cooldown, facts: Facts, now: float, ctx: EvalContext
) -> Verdict:
    """Whether the action last fired long enough ago."""
    fact = facts.get(FiredKey(ctx.job, ctx.action))
    if fact is None or fact.error:
        unknown = _seen(fact, float, f"the last time of {ctx.action}")
        return unknown if isinstance(unknown, Verdict) else say_pass("cooled_down")
    until = cool_at(spec, fact)
    if until is None or now >= until:
        return say_pass("cooled_down")
    return say_wait("cooling_down", until=until)


def cool_at(spec: Cooldown, fact: Fact | None) -> float | None:
    """When a cooldown is over; None when its action never fired."""
    fired = fact.value if fact is not None else None
    return fired + spec.cooldown_seconds if isinstance(fired, (int, float)) else None
