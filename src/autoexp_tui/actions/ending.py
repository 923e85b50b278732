"""How a job ends: the event, and what becomes of actions that were put off for it."""

from __future__ import annotations

from autoexp_tui.actions.orders import order_effect
from autoexp_tui.actions.triggered_action import outlives_its_job
from autoexp_tui.effects.errands import NoteDone
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState, Why, why


def end_job(
    context: DecisionContext,
    job: JobRecord,
    state: JobState,
    cause: Cause | None,
    reason: Why | None,
) -> None:
    """Let a job reach an end state; actions on its run are dropped with it.

    One that completed leaves word, so that sessions to come need not do its work again.
    """
    keeps: list[str] = []
    for key, put_off in job.deferred.items():
        if outlives_its_job(context, job.name, key, put_off):
            keeps.append(key)
        else:
            drop(context, job.name, key, put_off.trigger, why("job_is_over"))
    context.draft.emit(
        events.JobEnded(
            job=job.name, state=state, cause=cause, why=reason, keeps=tuple(keeps)
        )
    )
    if state is JobState.COMPLETED and job.spec.fingerprint:
        order_effect(context, NoteDone(job=job.name))


def drop(
    context: DecisionContext, job: str, action: str, trigger: str, reason: Why
) -> None:
    """Say that an action will not be carried out for this trigger."""
    context.draft.emit(
        events.ActionDropped(job=job, action=action, trigger=trigger, why=reason)
    )
