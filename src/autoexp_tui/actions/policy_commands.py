"""What orders to a policy have in common: one that cannot be carried out is refused
with its reason, and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoexp_tui.events.session import CommandRefused
from autoexp_tui.model.commands import Command
from autoexp_tui.model.states import why

if TYPE_CHECKING:
    from autoexp_tui.model.commands import Order
    from autoexp_tui.model.decision_context import DecisionContext


class OrderRefused(Exception):
    """Why an order is not carried out, for people."""


class PolicyCommand(Command, is_personal=True):
    """An order of a person's to a policy."""

    __slots__ = ()

    def handle(self, context: DecisionContext, order: Order) -> None:
        try:
            self.carry_out(context, order)
        except OrderRefused as refused:
            problem = why("notice", text=str(refused))
            context.draft.emit(CommandRefused(why=problem))

    def carry_out(self, context: DecisionContext, order: Order) -> None:
        """Raises OrderRefused."""
        raise NotImplementedError(self.kind)
