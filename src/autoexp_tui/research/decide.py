"""What the research loop does next: start what fits, judge what ended, consult an agent
where there is something to decide, and apply what it answered as far as it still fits.
No GPU waits for an agent. It costs what is live and listed, not what was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from autoexp_tui.actions.orders import (
    ask_person,
    emit_order,
    emit_order_once,
    withdraw_question,
)
from autoexp_tui.events.rules import WarningRaised
from autoexp_tui.model.agents import Outcome
from autoexp_tui.model.policy import End, Policy
from autoexp_tui.model.states import Cause, JobState, why
from autoexp_tui.model.wording import sentence, short
from autoexp_tui.research import effects, events
from autoexp_tui.research.budgets import (
    find_next_mark,
    find_reached,
    find_refusal,
    list_crossed,
    measure_uses,
)
from autoexp_tui.research.consultations import DECISION, follow_consultation
from autoexp_tui.research.decision import TOO_LATE
from autoexp_tui.research.items import Chosen, choose_now
from autoexp_tui.research.jobs import build_item_jobs
from autoexp_tui.research.judge import (
    end_late,
    end_run,
    follow_runs,
    judge_answers,
    judge_run,
    watch_run,
)
from autoexp_tui.research.state import (
    PART,
    Consultation,
    Research,
    Run,
    list_jobs,
    research_of,
)
from autoexp_tui.research.triggers import find_call_time, find_wake, list_fired
from autoexp_tui.research.warnings import LiveFacts, list_conditions

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext
    from autoexp_tui.model.event import Event
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.model.state import Warned
    from autoexp_tui.research.budgets import Use
    from autoexp_tui.research.state import Item

END: Final = "end"
"""The question about it."""
STATE_SECONDS: Final = 5.0
"""Between two writes of the state file, where something happened."""
LIVE_SECONDS: Final = 30.0
"""The same, where only metrics moved."""


class ResearchPolicy(Policy):
    """The research loop."""

    title: ClassVar[str] = "Research"
    asks: ClassVar[tuple[str, ...]] = (
        *("experiments", "kills", "code", "budget"),
        DECISION,
        END,
    )

    def decide(self, context: DecisionContext) -> float | None:
        research = research_of(context.state)
        loop = _Loop(context, research)
        if research.directory:
            return loop.go_on()
        if not research.stopped:
            emit_order_once(context, effects.OpenResearch())
        return None

    def is_open(self, part: Any) -> str:
        research: Research = part
        is_shown = not research.directory or research.shown_changes == research.changes
        if research.stopped and not (research.live or research.open) and is_shown:
            return ""
        return f"research: {tell_wait(research)}"

    def find_exit(self, part: Any) -> End | None:
        research: Research = part
        if research.stopped is not None and not self.is_open(part):
            code = _EXITS.get(research.stopped.code, 0)
            return End(code, f"ended: {sentence(research.stopped, 0.0)}")
        if research.live:
            return None
        if any(map(_waits_for_person, research.list_open())):
            return End(_GUARD, "paused: a decision waits for a person")
        reason = research.agents_wait
        if reason and research.is_hopeless and not research.open:
            told = f"no agent can be called: {reason.arg('problem')}"
            return End(1, f"{told}; mend that first")
        return None

    def list_lines(self, snapshot: Snapshot) -> Sequence[str]:
        research: Research = snapshot.parts[PART]
        lines = [tell_wait(research)]
        lines += [f"{one.id}: {one.note or one.hypothesis}" for one in research.items]
        return lines


_GUARD: Final = 6
_EXITS: Final = {
    **dict.fromkeys(("research_broken", "research_stuck", "runs_failed"), 1),
    **dict.fromkeys(("budget_reached", "calls_spent", "call_unaffordable"), _GUARD),
}
"""Exit codes of a research that ended, where they are not 0."""


def _waits_for_person(one: Consultation) -> bool:
    """Whether its answer, or its fix, is not applied before a person has said so."""
    return bool(one.asked) or (one.role == "fixer" and one.ended_lived is not None)


def tell_wait(research: Research) -> str:
    """What it waits for, in words."""
    if research.stopped:
        return f"ended: {short(research.stopped)}"
    if research.live:
        first, more = research.live[0], len(research.live) - 1
        return f"waits for {first}" + (f" and {more} more" if more else "")
    if research.wants_mending:
        return "waits for a person: no agent can be called"
    if research.agents_wait:
        return short(research.agents_wait)
    if call := research.find_call():
        return f"waits for the answer {call.id}"
    if research.open:
        return "waits for a person"
    return "waits for something to try"


class _Loop:
    """The research loop in one commit."""

    def __init__(self, context: DecisionContext, research: Research) -> None:
        self.context, self.research = context, research
        self.options = research.options
        self.wake: float | None = None

    def go_on(self) -> float | None:
        """One step of each thing that there is to do; when to look again (lived)."""
        research = self.research
        follow_runs(self.context, research)
        self._follow_runs()
        for one in research.list_open():
            follow_consultation(self.context, one)
        judge_answers(self.context, research)
        if not research.stopped:
            self._work_on()
        else:
            withdraw_question(self.context, END, PART, TOO_LATE)
        self._write_state()
        return self.wake

    def _work_on(self) -> None:
        now, state = self.context.now, self.context.state
        uses = measure_uses(self.research, state.jobs, now.t, now.lived)
        self._find_conditions(uses)
        self._watch_budgets(uses)
        is_held = state.paused is not None or self.research.budget_reached is not None
        chosen = Chosen() if is_held else self._choose()  # nobody is stuck by it
        for item in chosen.start:
            self._start(item)
        for fired in list_fired(self.research, chosen, now.lived):
            self.emit(fired)
        if state.paused is None:  # else what a call would be told might be old
            self._call(uses)
            self._find_end(uses)

    def emit(self, event: Event) -> None:
        self.context.draft.emit(event)

    def _wake_at(self, lived: float | None) -> None:
        if lived is not None:
            self.wake = lived if self.wake is None else min(self.wake, lived)

    # Runs

    def _follow_runs(self) -> None:
        for run in self.research.list_live():
            jobs = list_jobs(run, self.context.state.jobs)
            if not jobs:
                refused = self.context.state.refused_joins.get(run.item.asker)
                if refused:
                    told = sentence(refused, self.context.now.t)
                    judge_run(self.context, self.research, run, told)
            elif all(job.ended for job in jobs):
                judge_run(self.context, self.research, run)
            else:
                end_late(self.context, self.research, run)
                watch_run(self.context, self.research, run)

    def _choose(self) -> Chosen:
        """What of the list begins now, and why the rest waits."""
        slots = self.context.policy.count_slots("main")
        busy = self.context.roster.select(self.context.roster.active, "main")
        mine = {name for run in self.research.list_live() for name in run.jobs}
        known = self.context.state.jobs
        waiting = {name for name in mine if name not in known or not known[name].ended}
        # Jobs that rules of the config let join are no runs, and take room too.
        others = sum(known[name].spec.resources.gpus for name in busy - mine)
        return choose_now(self.research, slots, len(busy | waiting), others)

    def _start(self, item: Item) -> None:
        jobs = build_item_jobs(self.research, item)
        run = Run(
            id=item.id,
            item=replace(item, jobs=()),
            jobs=tuple(job.name for job in jobs),
            gpus=item.wanted_gpus,
        )
        self.emit(events.RunStarted(run=run))
        self.context.add_jobs(PART, item.asker, jobs)

    # What the agent should know, and budgets

    def _find_conditions(self, uses: tuple[Use, ...]) -> None:
        runs = {
            run.id: found
            for run in self.research.list_live()
            if (found := self._measure_run(run)) is not None
        }
        # One look at a log may show a loss that stood, and that it moves again.
        emitted = (record.event for record in self.context.draft.records)
        raised = [one for one in emitted if isinstance(one, WarningRaised)]
        warned: list[Warned | WarningRaised] = [
            *self.context.state.warnings.values(),
            *raised,
        ]
        for condition in list_conditions(self.research, runs, warned, uses):
            self.emit(condition)
        least = self.options.no_metric_seconds
        for one in runs.values():
            if not one.has_metric and one.seconds < least:
                self._wake_at(self.context.now.lived + least - one.seconds)

    def _measure_run(self, run: Run) -> LiveFacts | None:
        """What its jobs that run just now tell; None: none does."""
        found = list[LiveFacts]()
        for job in list_jobs(run, self.context.state.jobs):
            live = self.context.find_run(job.name)
            seconds = self.context.measure_run(job.name)
            if live is not None and seconds is not None:
                gpus = live.find_gpus()
                one = LiveFacts(
                    seconds=seconds,
                    has_metric=live.find_value(self.research.metric) is not None,
                    idle_gpu_seconds=gpus.low_seconds if gpus else None,
                )
                found.append(one)
        return max(found, key=lambda one: one.seconds, default=None)

    def _watch_budgets(self, uses: tuple[Use, ...]) -> None:
        research = self.research
        for milestone in list_crossed(research, uses):
            self.emit(events.MilestoneCrossed(milestone=milestone))
        if research.budget_reached:
            return
        reason = find_reached(uses)
        if reason is None:
            self._wake_for(uses)
            return
        self.emit(events.BudgetReached(why=reason))
        if self.options.budgets.on_reached == "kill":
            for run in research.list_live():
                end_run(self.context, run, short(reason), reason, Cause.BUDGET)
            for one in research.list_calls():
                stopped = events.CallStopped(consultation=one.id, by="the budget")
                self.emit(stopped)

    def _wake_for(self, uses: tuple[Use, ...]) -> None:
        """Look again when there is something to tell of a budget that time uses up."""
        gpus = sum(run.gpus for run in self.research.list_live())
        speeds = {"wall_seconds": 1.0, "gpu_hours": gpus / 3600}
        for use in uses:
            if speed := speeds.get(use.name, 0.0):
                seconds = (find_next_mark(use) - use.used) / speed
                self._wake_at(self.context.now.lived + max(1.0, seconds))

    # Consultations

    def _call(self, uses: tuple[Use, ...]) -> None:
        research, now = self.research, self.context.now
        self._wake_at(find_wake(research, now.lived))
        if research.agents_wait is not None:
            if research.wants_mending:
                return  # each try would cost: a person has one made, with `Consult`
            if now.t < research.resume_at:
                self._wake_at(now.lived + research.resume_at - now.t)
                return
            self.emit(events.CallsResumed())
        self._call_fixer(uses)
        due = find_call_time(research, now.lived)
        is_due = due is not None and due <= now.lived and not research.budget_reached
        if is_due and not find_refusal(research, "research", uses):
            self._open("research")

    def _call_fixer(self, uses: tuple[Use, ...]) -> None:
        research = self.research
        for name in research.to_fix:
            refusal = find_refusal(research, "fixer", uses) or research.budget_reached
            if refusal is not None:
                self._leave_unfixed(name, sentence(refusal, self.context.now.t))
            elif research.find_call("fixer") is None:
                self._open("fixer", name)

    def _leave_unfixed(self, name: str, problem: str) -> None:
        """Have the research agent decide about a run that no fixer repairs."""
        ended = self.research.runs[name].ended
        assert ended is not None, "it failed"
        kind = ended.mechanical
        self.emit(events.FixDecided(run=name, mechanical=kind, problem=problem))

    def _open(self, role: Any, run: str = "") -> None:
        name = f"c{self.research.next_consultation}"
        opened = events.ConsultationOpened(consultation=name, role=role, run=run)
        self.emit(opened)
        emit_order(self.context, effects.WriteCall(consultation=name))

    # The end

    def _find_end(self, uses: tuple[Use, ...]) -> None:
        research = self.research
        if research.best is not None and research.is_at_target:
            self._stop("target_reached", run=research.best_run, value=research.best)
            return
        roster = self.context.roster
        is_busy = roster.select(roster.active, "main") or research.list_calls()
        if is_busy or research.live:
            return
        if research.budget_reached:
            self.emit(events.ResearchStopped(why=research.budget_reached))
            return
        if research.open or research.to_fix or self._has_planned():
            return
        if (last := self._find_idle()) is None:
            refusal = find_refusal(research, "research", uses)
            if refusal:  # nor can any item begin that is left
                self.emit(events.ResearchStopped(why=refusal))
            return
        is_asked = (
            self.options.approve.end == "ask"
            and not {"*", END} & self.context.policy.auto_approve
        )
        if is_asked and not self._is_end_approved(last):
            return
        ends = [run.ended for run in research.runs.values() if run.ended]
        if research.items:
            self._stop("research_stuck")
        elif ends and all(end.outcome == "failed" for end in ends):
            self._stop("runs_failed", runs=len(ends), problem=ends[-1].problem)
        else:
            self._stop("nothing_left")

    def _has_planned(self) -> bool:
        """Whether a job of the session's own plan is still to run."""
        waits = {JobState.WAITING, JobState.RETRYING}
        jobs = self.context.state.jobs.values()
        return any(job.state in waits and job.is_planned for job in jobs)

    def _is_end_approved(self, last: Consultation) -> bool:
        """Ask about the end; after a refusal once more when the agent finds again that
        nothing is left, and after an approval when something has run since."""
        known, title = self.context.state.asks.get(END), ""
        newest = next(reversed(self.research.runs), "")
        since = self.research.runs[newest].began_lived if newest else 0.0
        if known and known.approved is False:
            since = last.ended_lived or 0.0
        if known and (known.approved is None or known.asked_lived >= since):
            title = known.prompt
        title = title or f"{last.id} found nothing left to try. End the research?"
        return bool(ask_person(self.context, END, title).approved)

    def _find_idle(self) -> Consultation | None:
        """The newest consultation of the research agent, if a heartbeat led to it, its
        answer added nothing, and nothing came after it."""
        known = self.research.consultations
        found = (known[name] for name in reversed(known))
        last = next((one for one in found if one.role == "research"), None)
        if last is None or self.research.triggers or last.outcome is not Outcome.OK:
            return None
        is_heartbeat = any(one.kind == "heartbeat" for one in last.triggers)
        added = any(decided.applied for decided in last.decided)
        return last if is_heartbeat and not added else None

    def _stop(self, code: str, **args: str | float) -> None:
        self.emit(events.ResearchStopped(why=why(code, **args)))

    def _write_state(self) -> None:
        """The state file, as far as it is behind."""
        research, lived = self.research, self.context.now.lived
        is_behind = research.changes != research.shown_changes
        if not (is_behind or research.live):
            return
        wait = STATE_SECONDS if is_behind else LIVE_SECONDS
        due = research.shown_lived + wait
        is_over = research.stopped and is_behind
        if is_over or lived >= due or research.shown_changes < 0:
            emit_order_once(self.context, effects.WriteState(stamp=research.changes))
        else:
            self._wake_at(due)
