"""What becomes of an ordered effect: it is settled for good, or rests before more.

And warnings that stand in a session: raised once, cleared when their cause is gone.
"""

from __future__ import annotations

from collections.abc import Callable
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


@dataclass(frozen=True, slots=True)
class EffectSettler:
    """Tells the draft and the dispatcher alike."""

    dispatcher: Dispatcher
    monotonic: Callable[[], float]

    def settle(
        self, context: DecisionContext, effect_id: str, outcome: str, detail: str
    ) -> None:
        """The effect is over; `outcome`: `ok`, or else it failed."""
        settled = events.EffectSettled(
            effect_id=effect_id,
            outcome="ok" if outcome == "ok" else "failed",
            detail=detail,
        )
        context.draft.emit(settled)
        self.dispatcher.forget(effect_id)

    def rest(self, effect_id: str, seconds: float) -> float:
        """The effect is not over: leave it alone so long; returns until when."""
        until = self.monotonic() + seconds
        self.dispatcher.note_answer(effect_id, rest_until=until)
        return until


@dataclass(frozen=True, slots=True)
class Settlement:
    """Of one effect."""

    settler: EffectSettler
    pending: PendingEffect

    def settle(self, context: DecisionContext, outcome: str, detail: str) -> None:
        """The effect is over; `outcome`: `ok`, or else it failed."""
        self.settler.settle(context, self.pending.effect_id, outcome, detail)

    def rest(self, seconds: float) -> float:
        """The effect is not over: leave it alone so long; returns until when."""
        return self.settler.rest(self.pending.effect_id, seconds)


def format_exchange(sent: str, said: str) -> str:
    """The command that was sent and the answer to it, as people read them."""
    return "\n".join(part for part in (f"$ {sent}" if sent else "", said) if part)


# ------------------------------------------------------------------------- warnings
Severity: TypeAlias = Literal["info", "warning", "error"]


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
