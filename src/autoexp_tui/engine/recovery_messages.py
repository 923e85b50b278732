"""What a person is told of effects that are done once: in doubt, or failed."""

from __future__ import annotations

from autoexp_tui.events import events
from autoexp_tui.model.draft import Draft
from autoexp_tui.model.state import PendingEffect
from autoexp_tui.model.states import why


def leave_in_doubt(draft: Draft, pending: PendingEffect) -> None:
    """Settle an effect of which nobody knows whether it was done, and say so."""
    draft.emit(events.EffectSettled(effect_id=pending.effect_id, outcome="uncertain"))
    draft.emit(
        events.WarningRaised(
            warning_id=f"u{pending.effect_id}",
            why=why(
                "uncertain_effect",
                kind=pending.effect.kind,
                what=pending.effect.name_object(),
            ),
            job=pending.effect.find_job(),
        )
    )
