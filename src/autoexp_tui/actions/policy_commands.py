"""What orders to a policy have in common: one that cannot be carried out is refused
with its reason, and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

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
    part: ClassVar[str]
    """Of the session's state, which is the policy's."""
    absent: ClassVar[str]
    """Why it is refused where that is not there."""

    def handle(self, context: DecisionContext, order: Order) -> None:
        part = context.state.parts.get(self.part)
        problem = self.absent if part is None else self.find_refusal(part)
        try:
            if not problem:
                self.change(context, part, order.asker)
        except OrderRefused as refused:
            problem = str(refused)
        if problem:
            context.draft.emit(CommandRefused(why=why("notice", text=problem)))

    def find_refusal(self, part: Any) -> str:
        """Why none of the policy's orders is carried out any more; empty: they are."""
        return ""

    def change(self, context: DecisionContext, part: Any, by: str) -> None:
        """Carry it out; raises OrderRefused."""
        raise NotImplementedError(self.kind)
