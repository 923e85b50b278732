"""What follows when a run that a rule ends has been looked at: its end.

The run may have gone another way meanwhile: ended by itself, been ended by a person,
or put back into the queue. Then nothing is left to end.
"""

from __future__ import annotations

from autoexp_tui.actions.ending import drop
from autoexp_tui.actions.kinds import Restart
from autoexp_tui.actions.orders import order_cancel
from autoexp_tui.actions.triggered_action import find_armed
from autoexp_tui.effects.effects import CaptureEvidence
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import BEGUN, Why, why


def end_look(
    context: DecisionContext,
    effect: CaptureEvidence,
    captured: events.EvidenceCaptured,
    reason: Why | None,
) -> None:
    """Record what was kept, and end the run that waited for it."""
    context.draft.emit(captured)
    if effect.ends is None:
        return
    job = context.job(effect.job)
    if _is_alive(job, effect):
        told = reason or Why(effect.ends.value)
        order_cancel(
            context, job, told.having(evidence=captured.directory), effect.ends
        )
    elif not job.ended:
        _forget_restarts(context, job)


def _is_alive(job: JobRecord, effect: CaptureEvidence) -> bool:
    """Whether the run that was looked at is still the job's."""
    attempt = job.attempt
    return (
        job.state in BEGUN
        and attempt is not None
        and (attempt.number, attempt.run) == (effect.attempt, effect.run)
    )


def _forget_restarts(context: DecisionContext, job: JobRecord) -> None:
    """Restarts that were to follow on the end of a run that is no more."""
    for key, waiting in list(job.deferred.items()):
        armed = find_armed(context, job.name, key, waiting)
        follows = waiting.why.code == "restart_ordered"
        if follows and armed is not None and isinstance(armed.action, Restart):
            drop(context, job.name, key, waiting.trigger, why("ended_itself"))
