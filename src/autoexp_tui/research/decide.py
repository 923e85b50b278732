"""What the research loop does next: start what fits, judge what ended, consult an agent
where there is something to decide, and apply what it answered as far as it still fits.
No GPU waits for an agent. It costs what is live and listed, not what was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from autoexp_tui.actions.orders import (
    ask_person,
    cancel_attempts,
    emit_order,
    end_job,
    withdraw_question,
)
from autoexp_tui.effects.effects import AddJobs
from autoexp_tui.model.agents import Outcome
from autoexp_tui.model.policy import End, Policy
from autoexp_tui.model.state import VOID
from autoexp_tui.model.states import ACTIVE, Cause, JobState, why
from autoexp_tui.model.wording import sentence, short
from autoexp_tui.research import effects, events
from autoexp_tui.research.budgets import (
    estimate_item,
    find_next_mark,
    find_reached,
    find_refusal,
    list_crossed,
    list_warned,
    measure_uses,
)
from autoexp_tui.research.decision import (
    build_changes,
    list_lines,
    recheck_lines,
    split_lines,
)
from autoexp_tui.research.fixer import needs_person
from autoexp_tui.research.items import Chosen, Room, choose_items
from autoexp_tui.research.jobs import build_item_jobs
from autoexp_tui.research.judge import (
    end_late,
    end_run,
    follow_runs,
    judge_answers,
    judge_run,
    watch_run,
)
from autoexp_tui.research.options import ROLES
from autoexp_tui.research.ports import CallResult
from autoexp_tui.research.state import (
    PART,
    Consultation,
    Decided,
    Line,
    Research,
    Run,
    list_jobs,
    research_of,
)
from autoexp_tui.research.triggers import find_call_time, find_wake, list_fired
from autoexp_tui.research.warnings import Facts, LiveFacts, list_conditions

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext
    from autoexp_tui.model.effect import Effect
    from autoexp_tui.model.event import Event
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.research.budgets import Use
    from autoexp_tui.research.state import Item

DECISION: Final = "decision"
END: Final = "end"
"""Questions are `decision/<consultation>`, and `end`."""
_TOO_LATE: Final = "the research has ended"
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
            loop.order(effects.OpenResearch())
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
        if any(map(_waits_for_person, _list_open(research))):
            return End(_GUARD, "paused: a decision waits for a person")
        if research.is_hopeless and research.agents_wait and not research.open:
            told = f"no agent can be called: {research.agents_wait.arg('problem')}"
            return End(1, f"{told}; when that is mended, autoexp-research --session")
        return None

    def list_lines(self, snapshot: Snapshot) -> Sequence[str]:
        research: Research = snapshot.parts[PART]
        lines = [tell_wait(research)]
        lines += [f"{one.id}: {one.note or one.hypothesis}" for one in research.items]
        return lines


_GUARD: Final = 6
_EXITS: Final = {
    **dict.fromkeys(("research_broken", "research_stuck"), 1),
    **dict.fromkeys(("budget_reached", "calls_spent", "call_unaffordable"), _GUARD),
}
"""Exit codes of a research that ended, where they are not 0."""


def _list_open(research: Research) -> list[Consultation]:
    return [research.consultations[name] for name in research.open]


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
    if research.agents_wait:
        return short(research.agents_wait)
    if call := research.find_call("research") or research.find_call("fixer"):
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
        for one in _list_open(research):
            self._follow_consultation(one)
        judge_answers(self.context, research)
        uses = self._measure()
        if not research.stopped:
            self._find_conditions(uses)
            self._watch_budgets(uses)
            is_paused = self.context.state.paused is not None
            chosen = self._choose(is_paused=is_paused)
            self._start(chosen)
            self._fire(chosen)
            self._call(uses)
            self._find_end(uses)
        else:
            withdraw_question(self.context, END, PART, _TOO_LATE)
        self._write_state()
        return self.wake

    def order(self, effect: Effect) -> None:
        """Order it, unless one on the same object is under way."""
        pending = (one.effect for one in self.context.state.pending.values())
        kind, about = type(effect), effect.name_object()
        if not any(isinstance(o, kind) and o.name_object() == about for o in pending):
            emit_order(self.context, effect)

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

    def _choose(self, *, is_paused: bool) -> Chosen:
        """What of the list begins now, and why the rest waits."""
        research = self.research
        slots = self.context.policy.count_slots("main")
        busy = self.context.roster.select(self.context.roster.active, "main")
        mine = {name for run in research.list_live() for name in run.jobs}
        known = self.context.state.jobs
        waiting = {name for name in mine if name not in known or not known[name].ended}
        gpus = sum(run.gpus for run in research.list_live())
        # Jobs that rules of the config let join are no runs, and take room too.
        others = (known[name].spec.resources for name in busy - mine)
        gpus += sum(one.gpus for one in others)
        total = Room(slots or None, research.gpus if research.has_gpus else None)
        free = Room(
            None if total.slots is None else total.slots - len(busy | waiting),
            None if total.gpus is None else total.gpus - gpus,
        )
        if is_paused or research.budget_reached:
            return Chosen()  # nobody is stuck by it
        return choose_items(research, free, total)

    def _start(self, chosen: Chosen) -> None:
        for item in chosen.start:
            self._start_item(item)

    def _start_item(self, item: Item) -> None:
        jobs = build_item_jobs(self.research, item)
        run = Run(
            id=item.id,
            item=replace(item, jobs=()),
            jobs=tuple(job.name for job in jobs),
            gpus=item.wanted_gpus,
        )
        self.emit(events.RunStarted(run=run))
        add = AddJobs(policy=PART, asked_by=item.asker, jobs=jobs)
        emit_order(self.context, add)

    # What the agent should know, and budgets

    def _measure(self) -> tuple[Use, ...]:
        now = self.context.now
        return measure_uses(self.research, self.context.state.jobs, now.t, now.lived)

    def _find_conditions(self, uses: tuple[Use, ...]) -> None:
        runs = {
            run.id: found
            for run in self.research.list_live()
            if (found := self._measure_run(run)) is not None
        }
        budgets = (
            events.ConditionFound(key=key, severity=severity, why=reason, evidence=told)
            for key, severity, reason, told in list_warned(uses)
        )
        facts = Facts(
            runs=runs,
            session_warnings=self.context.state.warnings,
            budgets=tuple(budgets),
        )
        for condition in list_conditions(self.research, facts):
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
            calls = (research.find_call(role) for role in ROLES)
            for one in filter(None, calls):
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

    def _fire(self, chosen: Chosen) -> None:
        fired = list_fired(self.research, chosen, self.context.now.lived)
        for kind, what, items in fired:
            self.emit(events.TriggerFired(kind=kind, what=what, items=items))

    def _call(self, uses: tuple[Use, ...]) -> None:
        research, now = self.research, self.context.now
        if self.context.state.paused is not None:
            return  # what it would be told might be old when the call begins
        self._wake_at(find_wake(research, now.lived))
        if research.agents_wait is not None:
            if now.t < research.resume_at:
                self._wake_at(now.lived + research.resume_at - now.t)
                return
            self.emit(events.CallsResumed())
        self._call_fixer(uses)
        due = find_call_time(research, now.lived)
        if due is None or research.budget_reached:
            return
        if due > now.lived:
            self._wake_at(due)
        elif not find_refusal(research, "research", uses):
            self._open("research")

    def _call_fixer(self, uses: tuple[Use, ...]) -> None:
        research = self.research
        for name in research.to_fix:
            refusal = find_refusal(research, "fixer", uses) or research.budget_reached
            if refusal is not None:
                self._tell_no_fix(name, sentence(refusal, self.context.now.t))
            elif research.find_call("fixer") is None:
                self._open("fixer", name)

    def _open(self, role: Any, run: str = "") -> None:
        name = f"c{self.research.next_consultation}"
        opened = events.ConsultationOpened(consultation=name, role=role, run=run)
        self.emit(opened)
        emit_order(self.context, effects.WriteCall(consultation=name))

    def _tell_no_fix(self, run: str, problem: str, consultation: str = "") -> None:
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

    def _follow_consultation(self, one: Consultation) -> None:
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
                self._end_call(job)
            return
        # However it ended: what it paid for may be there. What led to it is not lost.
        self.order(effects.ReadCall(consultation=one.id))

    def _end_call(self, job: JobRecord) -> None:
        reason = why("ended_by_hand")
        if job.state in ACTIVE:
            cancel_attempts(self.context, [job], reason, Cause.USER)
        else:
            end_job(self.context, job, JobState.CANCELLED, Cause.USER, reason)

    @property
    def _granted(self) -> frozenset[str]:
        """Kinds of lines that `--approve` names."""
        return self.context.policy.auto_approve

    def _decide(self, one: Consultation) -> None:
        """Apply the lines of an answer that no person need see, at once; the others as
        a person answers. Each is checked against the state as it is then."""
        if not one.decided:
            proposed = self._void_late(self._list_lines(one))
            applied, asked = split_lines(proposed, self.options, self._granted)
            void = [line for line in proposed if line.void]
            self._apply(one, applied, asked, void=void)
            return
        jobs = self.context.state.jobs
        lines = self._void_late(recheck_lines(self.research, one, jobs, one.asked))
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
        kept = [*recheck_lines(self.research, one, jobs, kept)]  # some need others
        void = [line for line in kept if line.void]
        good = [line for line in kept if not line.void]
        who = {"by": ask.by, "reason": ask.reason}
        self._apply(one, good, (), void=void, refused=refused, **who)

    def _withdraw(self, one: Consultation, reason: str) -> None:
        withdraw_question(self.context, f"{DECISION}/{one.id}", PART, reason)

    def _void_late(self, lines: Sequence[Line]) -> list[Line]:
        """When the research has ended nothing is done any more, and nobody asked."""
        late = _TOO_LATE if self.research.stopped else ""
        return [replace(line, void=line.void or late) for line in lines]

    def _list_lines(self, one: Consultation) -> list[Line]:
        uses, research = self._measure(), self.research
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
        jobs = self.context.state.jobs
        return [*list_lines(research, one, jobs, over_budget=over)]

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
        research = self.research
        changes = build_changes(research, one, lines, is_first=not one.decided)
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
                items=changes.items,
                hypotheses=changes.hypotheses,
                reflection=changes.reflection,
                code_approved=person if changes.code else None,
                decided=decided,
                asked=tuple(asked),
            )
        )
        for name in changes.kills:
            reasoned = one.answer.reasoning if one.answer else ""
            text = f"{one.id}: {reasoned}".partition("\n")[0]
            cause = why("ended_by_agent", consultation=one.id, reason=text)
            end_run(self.context, research.runs[name], f"ended by {one.id}", cause)
        if changes.code:
            self.order(effects.KeepCode(consultation=one.id))

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
            self._tell_no_fix(run.id, told, one.id)
            return
        if self.research.stopped:
            self._withdraw(one, _TOO_LATE)
            self._tell_no_fix(run.id, _TOO_LATE, one.id)
            return
        (item,) = items
        is_asked = needs_person(one.fix, self.options.fixer)
        is_granted = {
            "*",
            "code",
        } & self._granted or self.options.approve.code == "auto"
        if is_asked and not is_granted:
            text = f"{item.id}: {run.id} again with {' '.join(one.fix.overrides)}"
            title = f"A fix for {run.id}: {one.fix.fix_applied}"
            ask = ask_person(self.context, f"{DECISION}/{one.id}", title, [text])
            if ask.approved is None:
                return
            if not ask.approved or ask.dropped:
                told = f"{ask.by} refused: {ask.reason}".rstrip(": ")
                self._tell_no_fix(run.id, told, one.id)
                return
        self.emit(
            events.FixDecided(
                run=run.id,
                mechanical=run.ended.mechanical,
                consultation=one.id,
                fix_applied=one.fix.fix_applied,
                item=item,
            )
        )

    # The end

    def _find_end(self, uses: tuple[Use, ...]) -> None:
        research = self.research
        if self.context.state.paused is not None:
            return  # what is ready may not begin
        target, best = self.options.objective.target, research.best
        if target is not None and best is not None:
            is_met = best <= target if research.mode == "min" else best >= target
            if is_met:
                self._stop("target_reached", run=research.best_run, value=best)
                return
        roster = self.context.roster
        calls = (one for one in _list_open(research) if one.ended_lived is None)
        if any(calls) or research.live or roster.select(roster.active, "main"):
            return
        if research.budget_reached:
            self.emit(events.ResearchStopped(why=research.budget_reached))
            return
        last = self._find_last()
        if research.open or research.to_fix or self._has_planned():
            return
        if last is None or not self._is_idle(last):
            refusal = find_refusal(research, "research", uses)
            if refusal:  # nor can any item begin that is left
                self.emit(events.ResearchStopped(why=refusal))
            return
        is_asked = self.options.approve.end == "ask" and not {"*", END} & self._granted
        if is_asked and not self._is_end_approved(last):
            return
        code = "research_stuck" if research.items else "nothing_left"
        self._stop(code)

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

    def _find_last(self) -> Consultation | None:
        """The newest consultation of the research agent, if nothing came after it."""
        known = self.research.consultations
        found = (known[name] for name in reversed(known))
        last = next((one for one in found if one.role == "research"), None)
        return None if self.research.triggers else last

    def _is_idle(self, last: Consultation) -> bool:
        """Whether a heartbeat's answer added nothing."""
        is_heartbeat = any(one.kind == "heartbeat" for one in last.triggers)
        added = any(decided.applied for decided in last.decided)
        return is_heartbeat and last.outcome is Outcome.OK and not added

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
            self.order(effects.WriteState(stamp=research.changes))
        else:
            self._wake_at(due)


def format_line(line: Line) -> str:
    """A line as a person is asked about it."""
    told = f"{line.kind}: {line.text}"
    return f"{VOID}{told} ({line.void})" if line.void else told
