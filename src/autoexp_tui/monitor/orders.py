"""Orders to the outside, as the deciders give them."""

from __future__ import annotations

from autoexp_tui.core import events, ids
from autoexp_tui.core.effects import CancelTasks, Effect
from autoexp_tui.core.state import JobRecord
from autoexp_tui.core.states import Cause
from autoexp_tui.core.verdicts import Why
from autoexp_tui.monitor.desk import Desk


def order_effect(
    desk: Desk, effect: Effect, reason: Why | None = None, cause: Cause | None = None
) -> None:
    """Journal an order to the outside."""
    draft = desk.draft
    ordered = events.EffectOrdered(
        effect_id=ids.effect_id(desk.state.session, draft.next_event_id(), 0),
        effect=effect,
        why=reason,
        cause=cause,
    )
    draft.emit(ordered)


def order_cancel(desk: Desk, job: JobRecord, reason: Why, cause: Cause) -> bool:
    """Order the end of a job's live attempt; False when it was ordered already."""
    attempt = job.attempt
    if attempt is None or attempt.outcome or attempt.cancel_cause:
        return False
    order_effect(desk, CancelTasks(tasks=((job.name, attempt.number),)), reason, cause)
    return True
