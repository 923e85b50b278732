"""What becomes of an ordered effect, and warnings that stand in a session: raised once,
cleared when their cause is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from autoexp_tui.engine.dispatcher import Dispatcher
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.draft import Draft
from autoexp_tui.model.state import PendingEffect
from autoexp_tui.model.states import Why, why

FAULT_SECONDS = 5.0
"""Before an effect whose sending raised is sent again."""
Severity: TypeAlias = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Settlement:
    """Of one effect; implements `effects.outside.Settlement`."""

    dispatcher: Dispatcher
    pending: PendingEffect

    def settle(self, context: DecisionContext, outcome: str, detail: str) -> None:
        """The effect is over; `outcome`: `ok`, or else it failed."""
        self.dispatcher.settle(context, self.pending.effect_id, outcome, detail)

    def rest(self, seconds: float) -> float:
        """The effect is not over: leave it alone so long; returns until when."""
        return self.dispatcher.rest(self.pending.effect_id, seconds)


def raise_warning(
    context: DecisionContext,
    warning_id: str,
    reason: Why,
    job: str = "",
    severity: Severity = "warning",
) -> None:
    """Warn, unless that warning stands already."""
    if warning_id not in context.state.warnings:
        context.draft.emit(
            events.WarningRaised(
                warning_id=warning_id, why=reason, job=job, severity=severity
            )
        )


def clear_warning(context: DecisionContext, warning_id: str) -> None:
    """Take a warning back, if it stands."""
    if warning_id in context.state.warnings:
        context.draft.emit(events.WarningCleared(warning_id=warning_id))


def leave_in_doubt(draft: Draft, pending: PendingEffect) -> None:
    """Settle an effect of which nobody knows whether it was done, and say so."""
    draft.emit(events.EffectSettled(effect_id=pending.effect_id, outcome="uncertain"))
    effect = pending.effect
    reason = why("uncertain_effect", kind=effect.kind, what=effect.name_object())
    draft.emit(
        events.WarningRaised(
            warning_id=f"u{pending.effect_id}", why=reason, job=effect.find_job()
        )
    )
