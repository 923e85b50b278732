"""What the research loop orders outside: calls, plans, files. All of it may be done
again after a kill at any step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from autoexp_tui.effects.effects import (
    PATIENCE_SECONDS,
    UNTOLD_SECONDS,
    AdapterEffect,
    Call,
    find_resumption,
)
from autoexp_tui.events.session import MessageLogged
from autoexp_tui.model.agents import Outcome
from autoexp_tui.model.event import pick
from autoexp_tui.model.masking import NO_RULES
from autoexp_tui.model.states import why
from autoexp_tui.research import events
from autoexp_tui.research.items import find_ring
from autoexp_tui.research.jobs import build_call_job
from autoexp_tui.research.ports import (
    ADAPTER,
    CallResult,
    Laboratory,
    PlannedItems,
    View,
    build_plan_request,
)
from autoexp_tui.research.state import HOPELESS, PART, Item, Research, research_of

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext
    from autoexp_tui.model.state import PendingEffect, SessionState


class _OfResearch(AdapterEffect):
    """An order that goes to `Laboratory`."""

    __slots__ = ()
    adapter: ClassVar[str] = ADAPTER
    patience_seconds: ClassVar[float] = PATIENCE_SECONDS


def make_view(state: SessionState) -> View:
    """The session as it is now: what is read of it elsewhere must not change."""
    state = state.fork()
    return View(
        research=research_of(state),
        jobs=state.jobs,
        t=state.t,
        lived=state.lived,
        mask=state.plan.mask if state.plan else NO_RULES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenResearch(_OfResearch, kind="open_research"):
    """Check what the research needs, and make its directory."""

    patience_seconds: ClassVar[float] = 0.0

    def name_object(self) -> str:
        return PART

    def build_call(self, laboratory: Laboratory, state: SessionState) -> Call:
        return partial(laboratory.open, research_of(state).options)

    def take(self, context: DecisionContext, value: object) -> None:
        assert isinstance(value, tuple)
        opened, notes = value
        for note in notes:
            context.draft.emit(MessageLogged(text=note, level="warning"))
        context.draft.emit(opened)

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        reason = why("research_broken", problem=problem)
        context.draft.emit(events.ResearchStopped(why=reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfConsultation(_OfResearch):
    consultation: str

    def name_object(self) -> str:
        return self.consultation

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        one = research_of(context.state).consultations[self.consultation]
        job = context.state.jobs.get(one.job)
        is_sent = job is not None and any(a.began_at for a in job.attempts)
        failed = CallResult(
            outcome=Outcome.AGENT_ERROR, problem=problem, is_sent=is_sent
        )
        take_result(context, self.consultation, failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCall(_OfConsultation, kind="write_call"):
    """Write the context and the request of a call, then have its job join."""

    def build_call(self, laboratory: Laboratory, state: SessionState) -> Call:
        view = make_view(state)
        one = view.research.consultations[self.consultation]
        return partial(laboratory.write_call, one, view)

    def take(self, context: DecisionContext, value: object) -> None:
        one = research_of(context.state).consultations[self.consultation]
        written = events.PromptWritten(consultation=one.id, sha256=str(value))
        context.draft.emit(written)
        job = build_call_job(research_of(context.state), one)
        context.add_jobs(PART, one.asker, (job,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCall(_OfConsultation, kind="read_call"):
    """See what came of a call, and plan what it wants to try."""

    def build_call(self, laboratory: Laboratory, state: SessionState) -> Call:
        view = make_view(state)
        one = view.research.consultations[self.consultation]
        return partial(laboratory.read_call, one, view)

    def take(self, context: DecisionContext, value: object) -> None:
        assert isinstance(value, CallResult)
        take_result(context, self.consultation, value)


def take_result(
    context: DecisionContext, consultation: str, result: CallResult
) -> None:
    """Record what came of a call; after a rate limit, or failures in a row, no agent is
    called for a while. Where that is over one call is tried, and tells."""
    research = research_of(context.state)
    one = research.consultations[consultation]
    is_ok = result.outcome is Outcome.OK and not one.ending
    is_unwanted = one.ending or (research.stopped and not is_ok)
    outcome = Outcome.CANCELLED if is_unwanted else result.outcome
    answer = result.answer
    if answer is not None and answer.items is not None:
        items = (events.leave_out_jobs(research, item) for item in answer.items)
        answer = replace(answer, items=tuple(items))
    context.draft.emit(
        events.AnswerRead(
            consultation=consultation,
            outcome=outcome,
            **pick(result, "problem", "usage", "cost", "is_sent"),
            **(pick(result, "fix", "code") | {"answer": answer} if is_ok else {}),
        )
    )
    is_failed = not is_ok and outcome is not Outcome.CANCELLED
    if is_failed and research.pauses(one.role):
        _pause_calls(context, outcome, result)


def _pause_calls(
    context: DecisionContext, outcome: Outcome, result: CallResult
) -> None:
    research = research_of(context.state)
    options = research.options
    is_limited = outcome is Outcome.RATE_LIMIT
    is_broken = research.failures >= max(1, options.breaker_failures)
    if not (is_limited or is_broken or outcome in HOPELESS):
        return
    untold = UNTOLD_SECONDS if is_limited else options.breaker_seconds
    until = find_resumption(context.now, result.resume_at, untold)
    reason = why("agents_wait", at=until, problem=result.problem or outcome.value)
    paused = events.CallsPaused(why=reason, resume_at=until, outcome=outcome)
    context.draft.emit(paused)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItem(_OfResearch, kind="plan_item"):
    """Plan an item of a person's; then it is in the list."""

    item: Item
    place: int | None = None
    """Where it is put, from 0; None: it takes the place of the item of its id."""
    patience_seconds: ClassVar[float] = 0.0

    def name_object(self) -> str:
        return self.item.id

    def build_call(self, laboratory: Laboratory, state: SessionState) -> Call:
        request = build_plan_request([self.item], research_of(state), state.jobs)
        return partial(laboratory.plan_items, request)

    def take(self, context: DecisionContext, value: object) -> None:
        assert isinstance(value, PlannedItems)
        research = research_of(context.state)
        problem = next(iter(value.problems.values()), "")
        # The list may have changed while it was planned.
        problem = problem or find_objection(research, self.item, self.place)
        if problem:
            self.take_failure(context, problem)
            return
        (item,) = value.items
        what = f"{item.id} {'edited' if self.place is None else 'inserted'}"
        edit_list(context, item, self.place, what, item.by)

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        told = f"{self.item.id} is not in the list: {problem}"
        context.draft.emit(MessageLogged(text=told, level="warning"))


def list_planned(pending: Iterable[PendingEffect]) -> frozenset[str]:
    """Items of persons that are being planned, by their ids."""
    effects = (one.effect for one in pending)
    return frozenset(one.item.id for one in effects if isinstance(one, PlanItem))


def find_objection(research: Research, item: Item, place: int | None) -> str:
    """Why an item cannot be put into the list; empty: it can."""
    if research.stopped:
        return "the research has ended"
    if place is None and research.find_item(item.id) is None:
        return f"{item.id} is no longer in the list"
    if place is not None and research.is_known(item.id):
        return f"there is an item or a run {item.id}"
    after = {one.id: one.depends_on for one in (*research.items, item)}
    if ring := find_ring(item.id, after):
        return f"it would wait for itself: {' -> '.join((*ring, item.id))}"
    unknown = [name for name in item.depends_on if not research.is_known(name)]
    if unknown:
        return f"it depends on {unknown[0]}, which is not there"
    baseline = item.baseline_run
    is_there = baseline != item.id and (not baseline or research.is_known(baseline))
    return "" if is_there else f"the run to beat, {baseline}, is no other run or item"


def edit_list(
    context: DecisionContext, item: Item, place: int | None, what: str, by: str
) -> None:
    """Put an item to a place, from 0; None: in place of the one of its id."""
    research = research_of(context.state)
    order = [one.id for one in research.items]
    if place is not None:
        order = [name for name in order if name != item.id]
        order.insert(max(0, place), item.id)
    item = events.leave_out_jobs(research, item)
    edited = events.ItemsEdited(order=tuple(order), item=item, what=what, by=by)
    context.draft.emit(edited)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepCode(_OfConsultation, kind="keep_code"):
    """Give an approved change of code its ref."""

    def build_call(self, laboratory: Laboratory, state: SessionState) -> Call:
        one = research_of(state).consultations[self.consultation]
        return partial(laboratory.keep_code, one)

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        told = f"the code of {self.consultation} has no ref: {problem}"
        context.draft.emit(MessageLogged(text=told, level="warning"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState(_OfResearch, kind="write_research_state"):
    """Write experiment_state.json."""

    stamp: int = 0
    """`Research.changes`, as it is to be shown."""

    def name_object(self) -> str:
        return "experiment_state.json"

    def build_call(self, laboratory: Laboratory, state: SessionState) -> Call:
        return partial(laboratory.write_state, make_view(state))

    def take(self, context: DecisionContext, value: object) -> None:
        context.draft.emit(events.StateWritten(stamp=self.stamp))

    def take_failure(self, context: DecisionContext, problem: str) -> None:
        text = f"experiment_state.json: {problem}"
        context.draft.emit(MessageLogged(text=text, level="warning"))
        self.take(context, None)  # what comes next is written again
