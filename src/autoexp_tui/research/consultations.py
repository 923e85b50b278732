"""Consultations under way: calls that end, and what is done about their answers, as far
as it still fits and as persons approve it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from autoexp_tui.actions.orders import (
    ask_person,
    emit_order_once,
    end_jobs,
    withdraw_question,
)
from autoexp_tui.model.agents import Outcome
from autoexp_tui.model.state import VOID
from autoexp_tui.model.states import Cause, why
from autoexp_tui.model.wording import sentence
from autoexp_tui.research import effects, events
from autoexp_tui.research.budgets import estimate_item, measure_uses
from autoexp_tui.research.decision import ALL, TOO_LATE, Proposal, split_lines
from autoexp_tui.research.fixer import needs_person
from autoexp_tui.research.judge import end_run
from autoexp_tui.research.ports import CallResult
from autoexp_tui.research.state import PART, Decided, research_of

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext
    from autoexp_tui.model.state import Ask
    from autoexp_tui.research.state import Consultation, Fix, Line

DECISION: Final = "decision"
"""Questions are `decision/<consultation>`."""


def follow_consultation(context: DecisionContext, one: Consultation) -> None:
    """One step of a consultation that is not decided yet."""
    step = _Step(context, one)
    if one.ended_lived is None:
        step.follow_call()
    elif one.role == "fixer":
        step.decide_fix()
    else:
        step.decide()


class _Step:
    """A consultation in one commit."""

    def __init__(self, context: DecisionContext, one: Consultation) -> None:
        self.context, self.one = context, one
        self.research = research_of(context.state)
        self.options = self.research.options

    def follow_call(self) -> None:
        one, state = self.one, self.context.state
        job, refused = state.jobs.get(one.job), state.refused_joins.get(one.asker)
        if job is None and refused:
            told = sentence(refused, self.context.now.t)
            lost = CallResult(outcome=Outcome.AGENT_ERROR, problem=told, is_sent=False)
            effects.take_result(self.context, one.id, lost)
        elif job is not None and job.ended:
            # However it ended: what it paid for may be there, and what led to it.
            emit_order_once(self.context, effects.ReadCall(consultation=one.id))
        elif job is not None and (one.ending or self.research.stopped):
            end_jobs(self.context, [job], why("ended_by_hand"), Cause.USER)

    def decide(self) -> None:
        """Apply the lines of an answer that no person need see, at once; the others as
        a person answers. Each is checked against the state as it is then."""
        one, context = self.one, self.context
        proposal = Proposal(self.research, one, context.state.jobs, context.now.t)
        if not one.decided:
            lines = proposal.list_lines(self._tell_excess())
            granted = context.policy.auto_approve
            self._apply(proposal, *split_lines(lines, self.options, granted), lines)
            return
        lines = proposal.recheck(one.asked)
        if all(line.void for line in lines):
            self._withdraw("nothing of it can be done any more")
            self._apply(proposal, (), (), lines)
            return
        ask = self._ask(f"What {one.id} proposes", map(format_line, lines))
        if ask.approved is None:
            return
        kept = [line for at, line in enumerate(lines) if at not in ask.dropped]
        kept = kept if ask.approved else []
        refused = [line for line in lines if line not in kept]
        lines = proposal.recheck(kept)  # some need others
        good = [line for line in lines if not line.void]
        self._apply(proposal, good, (), lines, refused, ask)

    def _ask(self, title: str, lines: Iterable[str]) -> Ask:
        return ask_person(self.context, f"{DECISION}/{self.one.id}", title, lines)

    def _withdraw(self, reason: str) -> None:
        withdraw_question(self.context, f"{DECISION}/{self.one.id}", PART, reason)

    def _tell_excess(self) -> str:
        """What new items would need of GPU hours beyond what is left, in words."""
        research, now = self.research, self.context.now
        uses = measure_uses(research, self.context.state.jobs, now.t, now.lived)
        hours = next((use for use in uses if use.name == "gpu_hours"), None)
        items = (self.one.answer and self.one.answer.items) or ()
        new = [item for item in items if not research.is_known(item.id)]
        if hours is None or not new:
            return ""
        wanted = sum(estimate_item(research, item) for item in new)
        left = max(0.0, hours.limit - hours.used)
        told = f"{wanted:.2f} GPU hours are wanted, {left:.2f} are left"
        return told if wanted > hours.limit - hours.used else ""

    def _apply(
        self,
        proposal: Proposal,
        lines: Sequence[Line],
        asked: Sequence[Line],
        checked: Sequence[Line],
        refused: Sequence[Line] = (),
        ask: Ask | None = None,
    ) -> None:
        """Do what `lines` say; `checked`: those, and others that are void."""
        one, answer, by = self.one, self.one.answer, ask.by if ask else ""
        order, taken = proposal.order_items(lines)
        is_first = not one.decided  # what it thinks is taken over once
        ops = {line.op for line in lines}
        person = "" if by == "--approve" else by
        decided = Decided(
            applied=tuple(line.text for line in lines),
            refused=tuple(line.text for line in refused),
            void=tuple(f"{it.text}: {it.void}" for it in checked if it.void),
            by=by,
            reason=ask.reason if ask else "",
        )
        applied = events.DecisionApplied(
            consultation=one.id,
            order=None if order is None else tuple(order),
            taken=tuple(taken),
            hypotheses=proposal.merge_hypotheses() if is_first else None,
            reflection=(answer.reflection or None) if answer and is_first else None,
            code_approved=person if "code" in ops else None,
            decided=decided,
            asked=tuple(asked),
        )
        self.context.draft.emit(applied)
        reasoned = answer.reasoning.partition("\n")[0] if answer else ""
        told = f"{one.id}: {reasoned}"
        cause = why("ended_by_agent", consultation=one.id, reason=told)
        for line in lines:
            if line.op == "kill":
                run = self.research.runs[line.id]
                end_run(self.context, run, f"ended by {one.id}", cause)
        if "code" in ops:
            emit_order_once(self.context, effects.KeepCode(consultation=one.id))

    def decide_fix(self) -> None:
        one, run = self.one, self.research.runs[self.one.run]
        mechanical = run.ended.mechanical if run.ended else ""
        items, problem = (one.answer and one.answer.items) or (), ""
        if not mechanical:
            problem = "a person had it run again"
        elif one.fix is None or not items:
            problem = one.problem or "the fixer gave up"
        elif self.research.stopped:
            problem = TOO_LATE
        elif not self._is_free(one.fix):
            text = f"{items[0].id}: {run.id} again with {' '.join(one.fix.overrides)}"
            ask = self._ask(f"A fix for {run.id}: {one.fix.fix_applied}", [text])
            if ask.approved is None:
                return
            if not ask.approved or ask.dropped:
                problem = f"{ask.by} refused: {ask.reason}".rstrip(": ")
        if problem:
            self._withdraw(problem)
        decided = events.FixDecided(
            run=run.id,
            mechanical=mechanical,
            consultation=one.id,
            fix_applied=one.fix.fix_applied if one.fix and not problem else "",
            item=None if problem else replace(items[0], jobs=()),
            problem=problem,
        )
        self.context.draft.emit(decided)

    def _is_free(self, fix: Fix) -> bool:
        """Whether a fix is done without a person."""
        granted = {ALL, "code"} & self.context.policy.auto_approve
        is_auto = bool(granted) or self.options.approve.code == "auto"
        return is_auto or not needs_person(fix, self.options.fixer)


def format_line(line: Line) -> str:
    """A line as a person is asked about it."""
    told = f"{line.kind}: {line.text}"
    return f"{VOID}{told} ({line.void})" if line.void else told
