"""What rules do when a job goes from one state to another: sent, begun, requeued, held.

The end of an attempt is `reactions`' concern, which decides it in the same step; here
is every other move, an end without an attempt included.
"""

from __future__ import annotations

from autoexp_tui.actions.action_runner import carry_out
from autoexp_tui.actions.triggered_action import OF_THE_RUN, Armed
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.draft import Move
from autoexp_tui.model.rules import StateEvent, applies_to_stage


def react_to_moves(context: DecisionContext) -> None:
    """Carry out rules over the moves of jobs that nobody has looked at yet."""
    while moves := context.draft.take_moves():
        for move in moves:
            _react(context, move)


def _react(context: DecisionContext, move: Move) -> None:
    for rule in context.rules_of(move.job).state_events:
        if not _applies(context, rule, move):
            continue
        for index, action in enumerate(rule.actions):
            armed = Armed(f"{rule.name}/{index}", action, _trigger(move))
            if not (context.job(move.job).ended and isinstance(action, OF_THE_RUN)):
                carry_out(context, armed, move.job, None)


def _applies(context: DecisionContext, rule: StateEvent, move: Move) -> bool:
    if rule.transition is None or not applies_to_stage(
        rule, context.job(move.job).spec.stage
    ):
        return False
    old, new = rule.transition
    return new == move.new.value and old in (None, move.old.value)


def _trigger(move: Move) -> str:
    """Names the move in the session."""
    return f"{move.old.value} to {move.new.value} ({move.seq})"
