"""What deciders order and say: effects, ends of runs and jobs, warnings, waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from autoexp_tui.effects.effects import CancelTasks, CaptureEvidence
from autoexp_tui.effects.errands import NoteDone
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import BEGUN, Cause, JobState, Why, why

Severity: TypeAlias = Literal["info", "warning", "error"]


def emit_order(
    context: DecisionContext,
    effect: Effect,
    reason: Why | None = None,
    cause: Cause | None = None,
    *,
    finish: bool = False,
) -> None:
    """Journal an order to the outside."""
    draft, session = context.draft, context.state.session
    cause_event = ids.event_id(session, draft.epoch, context.state.seq + 1)
    order_id = "e" + ids.digest(session, cause_event, 0)
    draft.emit(
        events.EffectOrdered(
            effect_id=order_id, effect=effect, why=reason, cause=cause, finish=finish
        )
    )


def cancel_attempts(
    context: DecisionContext,
    jobs: Iterable[JobRecord],
    reason: Why,
    cause: Cause | None,
) -> bool:
    """Order the end of jobs' live attempts, as one order, without a `cause` as done;
    False when all of it was ordered already."""
    tasks = tuple((job.name, len(job.attempts)) for job in jobs if _can_cancel(job))
    if tasks:
        cancel, finish = CancelTasks(tasks=tasks), cause is None
        emit_order(context, cancel, reason, cause, finish=finish)
    return bool(tasks)


_LOOKED_AT: Final = frozenset({Cause.STALL, Cause.KILL_CRITERION})
"""Ends before which it is kept what the run was doing; after a NaN the log tells."""


def request_end(
    context: DecisionContext, job: JobRecord, reason: Why, cause: Cause, name: str
) -> bool:
    """End a job's live run because a rule says so; False when that is under way. A run
    that hangs is ended once what can be seen of it has been kept, or after the time for
    that. `name` says for people what it is evidence of."""
    if not _can_cancel(job) or _is_ending(context, job):
        return False
    seconds, attempt = context.rules_of(job.name).evidence_seconds, job.attempts[-1]
    looks = cause in _LOOKED_AT and seconds > 0 and job.state in BEGUN
    if not looks:
        cancel_attempts(context, (job,), reason, cause)
    if looks or (cause is Cause.NAN and seconds > 0):
        capture = CaptureEvidence(
            job=job.name,
            attempt=attempt.number,
            run=attempt.run,
            name=name,
            number=len(attempt.captures) + 1,
            log_only=not looks,
            ends=cause if looks else None,
            seconds=seconds,
        )
        emit_order(context, capture, reason)
    return True


def _can_cancel(job: JobRecord) -> bool:
    attempt = job.attempt
    return not (attempt is None or attempt.outcome or attempt.is_told_to_end)


def _is_ending(context: DecisionContext, job: JobRecord) -> bool:
    """Whether its run is looked at before it is ended."""
    looks = (one.effect for one in context.state.pending.values())
    return any(
        isinstance(look, CaptureEvidence)
        and look.ends is not None
        and (look.job, look.attempt) == (job.name, len(job.attempts))
        for look in looks
    )


def end_look(
    context: DecisionContext,
    effect: CaptureEvidence,
    captured: events.EvidenceCaptured,
    reason: Why | None,
) -> None:
    """Record what was kept, and end the run that waited for it. The run may have gone
    another way meanwhile: ended by itself, been ended by a person, or put back into the
    queue. Then nothing is left to end."""
    context.draft.emit(captured)
    if effect.ends is None:
        return
    job = context.job(effect.job)
    attempt, looked_at = job.attempt, (effect.attempt, effect.run)
    if job.state in BEGUN and attempt and (attempt.number, attempt.run) == looked_at:
        ended_why = reason or Why(effect.ends.value)
        ended_why = ended_why.add_args(evidence=captured.directory)
        cancel_attempts(context, (job,), ended_why, effect.ends)
    elif not job.ended:  # nothing follows on the end of a run that is no more
        for key, waiting in context.list_restarts(job.name):
            if waiting.why.code == "restart_ordered":
                drop(context, job.name, key, waiting.trigger, why("ended_itself"))


def end_job(
    context: DecisionContext,
    job: JobRecord,
    state: JobState,
    cause: Cause | None,
    reason: Why | None,
) -> None:
    """Let a job reach an end state; actions on its run are dropped with it. One that
    completed leaves word, so that sessions to come need not do its work again."""
    keeps: list[str] = []
    for key, put_off in job.deferred.items():
        armed = context.find_action(job.name, key, put_off)
        if armed is not None and not armed.action.is_of_run:
            keeps.append(key)
        else:
            drop(context, job.name, key, put_off.trigger, why("job_is_over"))
    context.draft.emit(
        events.JobEnded(
            job=job.name, state=state, cause=cause, why=reason, keeps=tuple(keeps)
        )
    )
    if state is JobState.COMPLETED and job.spec.fingerprint:
        emit_order(context, NoteDone(job=job.name))


def explain_wait(context: DecisionContext, job: JobRecord, reason: Why) -> None:
    """Say why a job waits, once for each reason."""
    if job.why is None or job.why.code != reason.code:
        context.draft.emit(events.WaitExplained(job=job.name, why=reason))


def raise_warning(
    context: DecisionContext,
    warning_id: str,
    reason: Why,
    job: str = "",
    severity: Severity = "warning",
    evidence: str = "",
) -> None:
    """Warn, unless that warning stands already."""
    warned = events.WarningRaised(
        warning_id=warning_id, why=reason, job=job, severity=severity, evidence=evidence
    )
    if warning_id not in context.state.warnings:
        context.draft.emit(warned)


def clear_warning(context: DecisionContext, warning_id: str, by: str = "") -> None:
    """Take a warning back, if it stands."""
    if warning_id in context.state.warnings:
        context.draft.emit(events.WarningCleared(warning_id=warning_id, by=by))


def drop(
    context: DecisionContext, job: str, action: str, trigger: str, reason: Why
) -> None:
    """Say that an action will not be carried out for this trigger."""
    context.draft.emit(
        events.ActionDropped(job=job, action=action, trigger=trigger, why=reason)
    )
