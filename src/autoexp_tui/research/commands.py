"""What a person may order of the research loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from autoexp_tui.actions.orders import emit_order
from autoexp_tui.actions.policy_commands import OrderRefused, PolicyCommand
from autoexp_tui.model.agents import Outcome
from autoexp_tui.model.event import pick
from autoexp_tui.model.states import why
from autoexp_tui.model.wording import sentence
from autoexp_tui.research import effects, events
from autoexp_tui.research.answer import Unusable, find_name_problem, read_criteria
from autoexp_tui.research.budgets import find_refusal, measure_uses
from autoexp_tui.research.state import PART, Item, Research
from autoexp_tui.text.sanitize import clean_line

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext

MOST_NOTE: int = 4096
"""Characters of a note."""


class _OfResearch(PolicyCommand):
    __slots__ = ()
    part: ClassVar[str] = PART
    absent: ClassVar[str] = "the session has no research"

    def find_refusal(self, part: Research) -> str:
        return "the research has ended" if part.stopped else ""


def _require_item(research: Research, name: str) -> Item:
    if (item := research.find_item(name)) is None:
        raise OrderRefused(f"{name} is not in the list")
    return item


def check_item(research: Research, item: Item, place: int | None) -> Item:
    """An item of a person's with its criteria in canonical text; raises OrderRefused:
    it cannot be put to that place, as `PutItem.place` has it."""
    try:
        read = read_criteria(pick(item, "kill_criteria", "expects"))
    except Unusable as unusable:
        raise OrderRefused(str(unusable)) from None
    problem = effects.find_objection(research, item, place)
    if problem := problem or find_name_problem(item.id):
        raise OrderRefused(problem)
    return replace(item, **dict[str, Any](read))


@dataclass(frozen=True, slots=True, kw_only=True)
class PutItem(_OfResearch, kind="put_item"):
    """Insert an item into the list, or give the one of its id another content. It is
    planned first; what does not plan is told, and changes nothing."""

    item: Item
    place: int | None = None
    """Where it is inserted, from 0; None: it replaces the one of its id."""

    def change(self, context: DecisionContext, research: Research, by: str) -> None:
        item = replace(self.item, by=by or "a person", jobs=())
        item = check_item(research, item, self.place)
        if item.id in effects.list_planned(context.state.pending.values()):
            raise OrderRefused(f"{item.id} is being planned already")
        emit_order(context, effects.PlanItem(item=item, place=self.place))


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveItem(_OfResearch, kind="move_item"):
    """Put an item elsewhere in the list."""

    item: str
    place: int
    """From 0."""

    def change(self, context: DecisionContext, research: Research, by: str) -> None:
        item = replace(_require_item(research, self.item), by=by or "a person")
        place = min(max(0, self.place), len(research.items) - 1)
        what = f"{item.id} moved to {place + 1}"
        effects.edit_list(context, item, place, what, by)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveItem(_OfResearch, kind="remove_item"):
    """Take an item out of the list."""

    item: str

    def change(self, context: DecisionContext, research: Research, by: str) -> None:
        item = _require_item(research, self.item)
        order = tuple(one.id for one in research.items if one.id != item.id)
        edited = events.ItemsEdited(order=order, what=f"{item.id} removed", by=by)
        context.draft.emit(edited)


@dataclass(frozen=True, slots=True, kw_only=True)
class TellAgent(_OfResearch, kind="tell_agent"):
    """A note that each context has from now on."""

    text: str

    def change(self, context: DecisionContext, research: Research, by: str) -> None:
        text = " ".join(map(clean_line, self.text.splitlines())).strip()
        if not text:
            raise OrderRefused("the note is empty")
        if len(text) > MOST_NOTE:
            raise OrderRefused(
                f"the note has {len(text)} characters, at most {MOST_NOTE}"
            )
        context.draft.emit(events.NoteAdded(text=text, by=by))


@dataclass(frozen=True, slots=True, kw_only=True)
class Consult(_OfResearch, kind="consult"):
    """Call the research agent, as soon as the least interval is over. Failures are no
    reason any more not to call it: somebody may have mended what they were due to."""

    def change(self, context: DecisionContext, research: Research, by: str) -> None:
        now = context.now
        uses = measure_uses(research, context.state.jobs, now.t, now.lived)
        if refusal := find_refusal(research, "research", uses):
            raise OrderRefused(sentence(refusal, now.t))
        is_limited = research.wait_outcome is Outcome.RATE_LIMIT
        if research.agents_wait is not None and not is_limited:
            context.draft.emit(events.CallsResumed())
        context.draft.emit(events.TriggerFired(kind="person", what=by))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCall(_OfResearch, kind="end_call"):
    """End a call that is under way; it changes nothing."""

    consultation: str

    def change(self, context: DecisionContext, research: Research, by: str) -> None:
        one = research.consultations.get(self.consultation)
        if one is None or one.ended_lived is not None:
            raise OrderRefused(f"no call {self.consultation} is under way")
        if not one.ending:
            stopped = events.CallStopped(consultation=one.id, by=by or "a person")
            context.draft.emit(stopped)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeCondition(_OfResearch, kind="acknowledge_condition"):
    """A warning to the agent is told to it no more."""

    key: str

    def change(self, context: DecisionContext, research: Research, by: str) -> None:
        known = research.warnings.get(self.key)
        if known is None or known.acknowledged_by:
            raise OrderRefused(f"no warning {self.key} waits for it")
        seen = events.ConditionAcknowledged(key=self.key, by=by or "a person")
        context.draft.emit(seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndResearch(_OfResearch, kind="end_research"):
    """Begin nothing more; what runs finishes."""

    reason: str = ""

    def change(self, context: DecisionContext, research: Research, by: str) -> None:
        reason = why("research_ended", by=by, reason=self.reason)
        context.draft.emit(events.ResearchStopped(why=reason))
