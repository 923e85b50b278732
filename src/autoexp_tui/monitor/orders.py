"""Orders to the outside, as the deciders give them."""

from __future__ import annotations

from collections.abc import Iterable

from autoexp_tui.core import events, ids
from autoexp_tui.core.effects import CancelTasks, Effect
from autoexp_tui.core.state import JobRecord
from autoexp_tui.core.states import Cause
from autoexp_tui.core.verdicts import Why
from autoexp_tui.monitor.desk import Desk


def order_effect(
    desk: Desk,
    effect: Effect,
    reason: Why | None = None,
    cause: Cause | None = None,
    *,
    finish: bool = False,
) -> None:
    """Journal an order to the outside."""
    draft = desk.draft
    ordered = events.EffectOrdered(
        effect_id=ids.effect_id(desk.state.session, draft.next_event_id(), 0),
        effect=effect,
        why=reason,
        cause=cause,
        finish=finish,
    )
    draft.emit(ordered)


def order_cancels(
    desk: Desk, jobs: Iterable[JobRecord], reason: Why, cause: Cause
) -> None:
    """Order the end of several jobs' live attempts, as one order."""
    tasks = tuple((job.name, len(job.attempts)) for job in jobs if _may_cancel(job))
    if tasks:
        order_effect(desk, CancelTasks(tasks=tasks), reason, cause)


def order_cancel(desk: Desk, job: JobRecord, reason: Why, cause: Cause) -> bool:
    """Order the end of a job's live attempt; False when it was ordered already."""
    if not _may_cancel(job):
        return False
    order_cancels(desk, (job,), reason, cause)
    return True


def order_finish(desk: Desk, job: JobRecord, reason: Why) -> bool:
    """Order the end of a job's live attempt as done; False when it ends already."""
    if not _may_cancel(job):
        return False
    tasks = ((job.name, len(job.attempts)),)
    order_effect(desk, CancelTasks(tasks=tasks), reason, finish=True)
    return True


def _may_cancel(job: JobRecord) -> bool:
    attempt = job.attempt
    return not (attempt is None or attempt.outcome or attempt.told_to_end)
