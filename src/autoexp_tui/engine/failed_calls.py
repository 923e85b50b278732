"""What comes of calls that raised: faults of ours, told once and tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.effect_settlement import FAULT_SECONDS, Settling
from autoexp_tui.engine.executor_port import Uncertain
from autoexp_tui.engine.health import Health
from autoexp_tui.engine.recovery_messages import leave_in_doubt
from autoexp_tui.engine.submission_answers import SubmissionAnswers
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext

TELL_AGAIN_SECONDS = 3600.0
"""Before a look that goes on failing in the same way is told of again."""


@dataclass(frozen=True, slots=True)
class FailedCalls:
    """Sends again what may be sent again, and tells of the fault."""

    settling: Settling
    submissions: SubmissionAnswers
    health: Health
    log_fault: Callable[[str], None]
    """Writes a traceback to the session's log."""

    def call_failed(self, context: DecisionContext, got: seen.CallFailed) -> None:
        """A call raised where it must not: a fault of ours."""
        if not got.effect_id and self._told_lately(got):
            return
        self.log_fault(got.trace)
        pending = context.state.pending.get(got.effect_id)
        if pending is not None and pending.effect.recovery == "once":
            leave_in_doubt(context.draft, pending)
            self.settling.dispatcher.forget(got.effect_id)
        elif pending is not None and isinstance(pending.effect, SubmitTasks):
            self._faulted_submission(context, pending.effect_id, pending.effect, got)
        elif got.effect_id:
            self.settling.rest(got.effect_id, FAULT_SECONDS)
        context.draft.emit(events.EngineFaulted(where=got.what, problem=got.problem))

    def _faulted_submission(
        self,
        context: DecisionContext,
        effect_id: str,
        effect: SubmitTasks,
        got: seen.CallFailed,
    ) -> None:
        """Nobody knows how far it came: it is asked for before it is sent again."""
        if effect_id in self.settling.dispatcher.in_doubt:
            self.settling.rest(effect_id, FAULT_SECONDS)
        else:
            message = f"a fault of ours: {got.problem}"
            self.submissions.doubt(
                context, effect_id, effect.token, Uncertain(message=message)
            )

    def _told_lately(self, got: seen.CallFailed) -> bool:
        """Whether the same was told of the same look: it goes on being tried."""
        now = self.settling.monotonic()
        problem, since = self.health.faults.get(got.what, ("", 0.0))
        if problem == got.problem and now - since < TELL_AGAIN_SECONDS:
            return True
        self.health.faults[got.what] = (got.problem, now)
        return False
