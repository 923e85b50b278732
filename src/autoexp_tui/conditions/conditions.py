"""Judging conditions: which facts one needs, what it says, when that may change.

Three pure functions over a bound condition (`conditions.bindings`): `needs`,
`evaluate`, `wake_at`. `evaluate` reads only the keys in `needs` and never raises. It
says what is so; whoever asks decides what follows from it: a condition with `blocking`
False is left out of what holds a job back, and FAIL of a cancel condition means
"never".

What nobody could look at is *unknown*: WAIT, and neither a timeout, nor `Not`, nor the
end of a writer turns that into an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from autoexp_tui.conditions.custom_conditions import own_verdict, own_wake
from autoexp_tui.conditions.describe import describe
from autoexp_tui.conditions.fact_keys import look_key, needs
from autoexp_tui.conditions.judging import (
    cool_at,
    judge_approval,
    judge_command,
    judge_cooldown,
    judge_job_states,
    judge_max_attempts,
    judge_metadata,
    judge_metric,
    judge_time,
    reached_at,
)
from autoexp_tui.conditions.judging_files import (
    judge_file_content,
    judge_file_exists,
    judge_log_pattern,
    looked_after_grace,
)
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
from autoexp_tui.conditions.verdicts import (
    UNKNOWN,
    UNTIMED,
    EvalContext,
    all_of,
    ended_job,
    first,
    grace_ends,
    said,
    say_fail,
    say_pass,
    say_wait,
)
from autoexp_tui.model.facts import Facts, FiredKey
from autoexp_tui.model.moment import Moment
from autoexp_tui.model.states import TERMINAL, JobState
from autoexp_tui.model.verdicts import Result, Verdict, Why
from autoexp_tui.model.wording import short

__all__ = [
    "UNKNOWN",
    "UNTIMED",
    "EvalContext",
    "describe",
    "evaluate",
    "needs",
    "wake_at",
]


# ---------------------------------------------------------------------- evaluate
def evaluate(spec: Condition, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
    """What `spec` says, given `facts`, at `now`. Never raises.

    WAIT becomes FAIL `start_timeout` once `timeout_seconds` of waiting have passed
    (for an approval: `approval_timeout`, counted from when it was asked, and only
    with `on_timeout: reject`), unless the facts are unknown.
    """
    verdict = _judge(spec, facts, now, ctx)
    deadline = _deadline(spec, ctx)
    if verdict.result is not Result.WAIT or verdict.why.code in UNTIMED:
        return verdict
    if deadline is None or now.lived < deadline:
        return verdict
    code = "approval_timeout" if isinstance(spec, Approval) else "start_timeout"
    seen = _seen(verdict.why)
    return say_fail(code, seconds=spec.timeout_seconds, what=describe(spec), seen=seen)


_TELLING = frozenset(
    {
        *("command_failed", "command_error", "own_says", "own_failed", "file_small"),
        *("metadata_is_not", "metric_is_not", "metric_early", "bad_condition"),
    }
)
"""Reasons to wait that say more than what is waited for."""


def _seen(why: Why) -> str | None:
    """What the last look told, where it told something."""
    if why.code not in _TELLING:
        return None
    detail = why.arg("detail") or why.arg("problem")
    return f"{short(why)}: {detail}" if detail else short(why)


def _deadline(spec: Condition, ctx: EvalContext) -> float | None:
    """When (lived) its time-out ends the wait."""
    start = ctx.waiting_lived
    if isinstance(spec, Approval):
        if spec.on_timeout == "hold":
            return None
        start = ctx.asked_lived if ctx.asked_lived is not None else start
    if spec.timeout_seconds is None or start is None:
        return None
    return start + spec.timeout_seconds


def _judge(spec: Condition, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
    match spec:
        case FileExists():
            return judge_file_exists(spec, facts, now, ctx)
        case FileContent():
            return judge_file_content(spec, facts, now, ctx)
        case MetadataIs():
            return judge_metadata(spec, facts, now, ctx)
        case MetricIs():
            return judge_metric(spec, facts, now, ctx)
        case JobStateIs():
            return judge_job_states(spec, facts)
        case CommandPasses():
            return judge_command(spec, facts)
        case LogPattern():
            return judge_log_pattern(spec, facts, now, ctx)
        case TimeReached():
            return judge_time(spec, now, ctx)
        case Approval():
            return judge_approval(spec, facts, ctx)
        case MaxAttempts():
            return judge_max_attempts(spec, facts, ctx)
        case Cooldown():
            return judge_cooldown(spec, facts, now, ctx)
        case OwnCondition():
            return said(own_verdict(spec, facts, now.utc, ctx.job))
        case Composite():
            return _composite(spec, facts, now, ctx)
        case Not():
            return _not(spec, facts, now, ctx)
        case _:
            assert_never(spec)


# -------------------------------------------------------------------- composition
def _composite(spec: Composite, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
    """Parts that do not block do not count, unless none does."""
    blocking = [part for part in spec.conditions if part.blocking]
    parts = blocking or spec.conditions
    verdicts = [evaluate(part, facts, now, ctx) for part in parts]
    if spec.mode == "all":
        holds = say_pass("all_hold", count=len(verdicts), what=_listed(parts))
        return all_of(verdicts, holds)
    return first(verdicts, Result.PASS) or _any_open(verdicts)


def _listed(parts: Sequence[Condition]) -> str | None:
    """What holds, as far as a line has room for it."""
    named = [describe(part) for part in parts[:_NAMED]]
    more = len(parts) - len(named)
    return ", ".join([*named, *([f"{more} more"] if more else [])]) or None


_NAMED = 4


def _any_open(verdicts: list[Verdict]) -> Verdict:
    """None passes: an unknown one may yet, then one that waits, else all failed."""
    waiting = [verdict for verdict in verdicts if verdict.result is Result.WAIT]
    unknown = [verdict for verdict in waiting if verdict.why.code in UNKNOWN]
    none = say_fail("none_holds", count=len(verdicts))
    return next(iter(unknown + waiting + verdicts), none)


def _not(spec: Not, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
    inner = evaluate(spec.condition, facts, now, ctx)
    if inner.result is Result.WAIT and inner.why.code in UNKNOWN:
        return inner
    what = describe(spec.condition)
    if inner.result is Result.PASS:
        for_good = _holds_for_good(spec.condition, facts, now, ctx)
        return (say_fail if for_good else say_wait)("is_so", what=what)
    return say_pass("not_so", what=what)


def _holds_for_good(
    spec: Condition, facts: Facts, now: Moment, ctx: EvalContext
) -> bool:
    """Whether a condition that holds cannot cease to.

    A file may go, a value change, a command say something else; but a line that was
    logged, an hour that has struck, a word that was given and a job's end stay.
    """
    match spec:
        case LogPattern() | TimeReached() | Approval():
            return True
        case JobStateIs():
            return spec.state.strip().upper() not in _PASSING_STATES
        case Composite():
            parts = [part for part in spec.conditions if part.blocking]
            for_good = [
                _holds_for_good(part, facts, now, ctx)
                for part in parts or spec.conditions
                if evaluate(part, facts, now, ctx).result is Result.PASS
            ]
            return (all if spec.mode == "all" else any)(for_good)
        case Not():
            inner = evaluate(spec.condition, facts, now, ctx)
            return inner.result is Result.FAIL
        case _:
            return False


_PASSING_STATES = frozenset(state.value for state in JobState) - TERMINAL


# ----------------------------------------------------------------------- wake_at
def wake_at(
    spec: Condition, facts: Facts, now: Moment, ctx: EvalContext
) -> float | None:
    """When (lived) the verdict may next change although no fact does; None: never.

    Always later than `now`; until then `evaluate` says the same of the same facts,
    while nobody sets the wall clock.
    """
    moments = (at for at in _moments(spec, facts, now, ctx) if at > now.lived)
    return min(moments, default=None)


def _moments(
    spec: Condition, facts: Facts, now: Moment, ctx: EvalContext
) -> Iterator[float]:
    deadline = _deadline(spec, ctx)
    if deadline is not None:
        yield deadline
    match spec:
        case FileExists() | FileContent() | LogPattern():
            yield from _doom_moments(spec, facts, now, ctx)
        case MetadataIs() | MetricIs():
            owner = spec.job or ctx.job
            job = ended_job(facts, owner) if owner != ctx.job else None
            yield from () if job is None else (grace_ends(job, ctx),)
        case TimeReached():
            at = reached_at(spec, now, ctx)
            yield from () if at is None else (at,)
        case Cooldown():
            at = cool_at(spec, facts.get(FiredKey(ctx.job, ctx.action)))
            yield from () if at is None else (at,)
        case OwnCondition():
            own = own_wake(spec, facts, now.utc, ctx.job)
            yield from () if own is None else (now.lived_of(own),)
        case Composite():
            for part in spec.conditions:
                yield from _moments(part, facts, now, ctx)
        case Not():
            yield from _moments(spec.condition, facts, now, ctx)
        case _:
            pass


_LOOK_SECONDS: Final = 5.0
"""Until it is asked again whether a file was looked at."""


def _doom_moments(
    spec: FileExists | FileContent | LogPattern,
    facts: Facts,
    now: Moment,
    ctx: EvalContext,
) -> Iterator[float]:
    writer = ended_job(facts, spec.writer)
    if writer is None:
        return
    ends = grace_ends(writer, ctx)
    looked = looked_after_grace(facts.get(look_key(spec)), writer, ctx)
    yield now.lived + _LOOK_SECONDS if now.lived >= ends and not looked else ends
