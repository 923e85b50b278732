"""Consultations under way: calls that end, and what is done about their answers, as far
as it still fits and as persons approve it."""

from __future__ import annotations

from collections.abc import Sequence
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
from autoexp_tui.research.decision import Proposal, split_lines
from autoexp_tui.research.fixer import needs_person
from autoexp_tui.research.judge import end_run
from autoexp_tui.research.ports import CallResult
from autoexp_tui.research.state import PART, Consultation, Decided, Line, Research

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext
    from autoexp_tui.model.event import Event

DECISION: Final = "decision"
"""Questions are `decision/<consultation>`."""
TOO_LATE: Final = "the research has ended"


class Consultations:
    """Those of a session, in one commit."""

    def __init__(self, context: DecisionContext, research: Research) -> None:
        self.context, self.research = context, research
        self.options = research.options

    def emit(self, event: Event) -> None:
        self.context.draft.emit(event)

    def tell_no_fix(self, run: str, problem: str, consultation: str = "") -> None:
        """Have the research agent decide about a run that no fixer repairs."""
        ended = self.research.runs[run].ended
        assert ended is not None, "it failed"
        self.emit(
            events.FixDecided(
                run=run,
                mechanical=ended.mechanical,
                consultation=consultation,
                problem=problem,
            )
        )

    def follow(self, one: Consultation) -> None:
        """One step of a consultation that is not decided yet."""
        if one.ended_lived is None:
            self._follow_call(one)
        elif one.role == "fixer":
            self._decide_fix(one)
        else:
            self._decide(one)

    def _follow_call(self, one: Consultation) -> None:
        state = self.context.state
        job = state.jobs.get(one.job)
        if job is None:
            if refused := state.refused_joins.get(one.asker):
                told = sentence(refused, self.context.now.t)
                result = CallResult(
                    outcome=Outcome.AGENT_ERROR, problem=told, is_sent=False
                )
                effects.take_result(self.context, one.id, result)
            return
        is_unwanted = bool(one.ending) or self.research.stopped is not None
        if not job.ended:
            if is_unwanted:
                end_jobs(self.context, [job], why("ended_by_hand"), Cause.USER)
            return
        # However it ended: what it paid for may be there. What led to it is not lost.
        emit_order_once(self.context, effects.ReadCall(consultation=one.id))

    @property
    def _granted_kinds(self) -> frozenset[str]:
        """Kinds of lines that `--approve` names."""
        return self.context.policy.auto_approve

    def _decide(self, one: Consultation) -> None:
        """Apply the lines of an answer that no person need see, at once; the others as
        a person answers. Each is checked against the state as it is then."""
        if not one.decided:
            proposed = self._void_late(self._list_lines(one))
            applied, asked = split_lines(proposed, self.options, self._granted_kinds)
            void = [line for line in proposed if line.void]
            self._apply(one, applied, asked, void=void)
            return
        proposal = self._make_proposal(one)
        lines = self._void_late(proposal.recheck(one.asked))
        if all(line.void for line in lines):
            self._withdraw(one, "nothing of it can be done any more")
            self._apply(one, (), (), void=lines)
            return
        title = f"What {one.id} proposes"
        shown = [format_line(line) for line in lines]
        ask = ask_person(self.context, f"{DECISION}/{one.id}", title, shown)
        if ask.approved is None:
            return
        kept = [line for at, line in enumerate(lines) if at not in ask.dropped]
        kept = kept if ask.approved else []
        refused = [line for line in lines if line not in kept]
        kept = [*proposal.recheck(kept)]  # some need others
        void = [line for line in kept if line.void]
        good = [line for line in kept if not line.void]
        who = {"by": ask.by, "reason": ask.reason}
        self._apply(one, good, (), void=void, refused=refused, **who)

    def _make_proposal(self, one: Consultation) -> Proposal:
        context = self.context
        return Proposal(self.research, one, context.state.jobs, context.now.t)

    def _withdraw(self, one: Consultation, reason: str) -> None:
        withdraw_question(self.context, f"{DECISION}/{one.id}", PART, reason)

    def _void_late(self, lines: Sequence[Line]) -> list[Line]:
        """When the research has ended nothing is done any more, and nobody asked."""
        late = TOO_LATE if self.research.stopped else ""
        return [replace(line, void=line.void or late) for line in lines]

    def _list_lines(self, one: Consultation) -> list[Line]:
        research, now = self.research, self.context.now
        uses = measure_uses(research, self.context.state.jobs, now.t, now.lived)
        over = ""
        hours = next((use for use in uses if use.name == "gpu_hours"), None)
        items = one.answer.items if one.answer else None
        if hours is not None and items:
            new = [item for item in items if not research.is_known(item.id)]
            wanted = sum(estimate_item(research, item) for item in new)
            left = hours.limit - hours.used
            if wanted > left:
                over = (
                    f"{wanted:.2f} GPU hours are wanted, {max(0.0, left):.2f} are left"
                )
        return [*self._make_proposal(one).list_lines(over)]

    def _apply(
        self,
        one: Consultation,
        lines: Sequence[Line],
        asked: Sequence[Line],
        *,
        void: Sequence[Line] = (),
        refused: Sequence[Line] = (),
        by: str = "",
        reason: str = "",
    ) -> None:
        proposal, answer = self._make_proposal(one), one.answer
        order, taken = proposal.order_items(lines)
        is_first = not one.decided  # what it thinks is taken over once
        is_code = any(line.op == "code" for line in lines)
        decided = Decided(
            applied=tuple(line.text for line in lines),
            refused=tuple(line.text for line in refused),
            void=tuple(f"{line.text}: {line.void}" for line in void),
            by=by,
            reason=reason,
        )
        person = "" if by == "--approve" else by
        self.emit(
            events.DecisionApplied(
                consultation=one.id,
                order=None if order is None else tuple(order),
                taken=tuple(taken),
                hypotheses=proposal.merge_hypotheses() if is_first else None,
                reflection=(answer.reflection or None) if answer and is_first else None,
                code_approved=person if is_code else None,
                decided=decided,
                asked=tuple(asked),
            )
        )
        reasoned = answer.reasoning.partition("\n")[0] if answer else ""
        told = f"{one.id}: {reasoned}"
        cause = why("ended_by_agent", consultation=one.id, reason=told)
        for line in lines:
            if line.op == "kill":
                run = self.research.runs[line.id]
                end_run(self.context, run, f"ended by {one.id}", cause)
        if is_code:
            emit_order_once(self.context, effects.KeepCode(consultation=one.id))

    def _decide_fix(self, one: Consultation) -> None:
        run = self.research.runs[one.run]
        if run.ended is None or not run.ended.mechanical:
            told = "a person had it run again"
            self._withdraw(one, told)
            fixed = events.FixDecided(run=run.id, mechanical="", problem=told)
            self.emit(replace(fixed, consultation=one.id))
            return
        items = one.answer.items if one.answer else None
        if one.fix is None or not items:
            told = one.problem or "the fixer gave up"
            self.tell_no_fix(run.id, told, one.id)
            return
        if self.research.stopped:
            self._withdraw(one, TOO_LATE)
            self.tell_no_fix(run.id, TOO_LATE, one.id)
            return
        (item,) = items
        is_asked = needs_person(one.fix, self.options.fixer)
        is_granted_kinds = {
            "*",
            "code",
        } & self._granted_kinds or self.options.approve.code == "auto"
        if is_asked and not is_granted_kinds:
            text = f"{item.id}: {run.id} again with {' '.join(one.fix.overrides)}"
            title = f"A fix for {run.id}: {one.fix.fix_applied}"
            ask = ask_person(self.context, f"{DECISION}/{one.id}", title, [text])
            if ask.approved is None:
                return
            if not ask.approved or ask.dropped:
                told = f"{ask.by} refused: {ask.reason}".rstrip(": ")
                self.tell_no_fix(run.id, told, one.id)
                return
        self.emit(
            events.FixDecided(
                run=run.id,
                mechanical=run.ended.mechanical,
                consultation=one.id,
                fix_applied=one.fix.fix_applied,
                item=replace(item, jobs=()),
            )
        )


def format_line(line: Line) -> str:
    """A line as a person is asked about it."""
    told = f"{line.kind}: {line.text}"
    return f"{VOID}{told} ({line.void})" if line.void else told
