"""Events of the research loop. What was decided is here, whole: a replay never
decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Final, Literal

from autoexp_tui.model.agents import Outcome, Usage
from autoexp_tui.model.event import Event, Headline, Recorded, join_parts, pick
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import Topic, Why
from autoexp_tui.research.options import read_options
from autoexp_tui.research.state import (
    HOPELESS,
    PART,
    Answer,
    CodeChange,
    Consultation,
    Decided,
    Fix,
    Hypothesis,
    Item,
    Line,
    Milestone,
    Note,
    Research,
    Role,
    Run,
    RunEnd,
    Severity,
    Trigger,
    TriggerKind,
    Warned,
    research_of,
)
from autoexp_tui.text.spelling import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfResearch(Event):
    topic: ClassVar[Topic] = "state"
    matters: ClassVar[bool] = True

    def apply(self, state: SessionState, record: Recorded) -> None:
        research = research_of(state)
        research.changes += 1
        research.lived, research.unseen = state.lived, state.unseen
        self.fold(research, record)

    def fold(self, research: Research, record: Recorded) -> None:
        """What is another from now on, and is to be shown."""


def _leave_out(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(one for one in names if one != name)


def _trigger(research: Research, kind: TriggerKind, about: str, t: float) -> None:
    research.triggers = (*research.triggers, Trigger(kind, about, t))


def _note_end(research: Research, run: str, t: float) -> None:
    """A run has an end that the agent is told: a list that is low counts anew."""
    research.was_low = False
    _trigger(research, "run_finished", run, t)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchBegun(_OfResearch, verb="research began"):
    """Somebody started the research loop of the session's plan."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        assert state.base is not None, "research belongs to a plan"
        assert state.base.research, "which has a section for it"
        options = read_options(state.base.research)
        state.parts[PART] = Research(options, last_call_lived=state.lived)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchOpened(_OfResearch, verb="research opened"):
    """Its directory is there, and what it needs was checked."""

    directory: str
    """Absolute: where it keeps its files."""
    python: str
    """What runs the programs of its calls."""
    gpus: int
    """That items share; 0: none are counted."""
    metric: str
    """Of the objective, by its canonical name."""
    mode: Literal["min", "max"]
    base_commit: str = ""

    def fold(self, research: Research, record: Recorded) -> None:
        for one in fields(self):
            setattr(research, one.name, getattr(self, one.name))
        research.has_gpus = self.gpus > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFired(_OfResearch):
    """Something to consult the agent about, that no other event tells of."""

    kind: TriggerKind
    what: str = ""
    items: tuple[str, ...] = ()
    """Of `stranded` and `deadlock`: those that cannot begin."""

    def fold(self, research: Research, record: Recorded) -> None:
        _trigger(research, self.kind, self.what, record.t)
        if self.kind == "list_depleted":
            research.was_low = True
        if self.items:
            research.told_stuck = self.items

    def format_headline(self, now: float) -> Headline:
        return Headline(self.kind.replace("_", " "), self.what)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsultationOpened(
    _OfResearch, verb="consultation", about=("consultation", "run")
):
    """An agent is to be called; the triggers so far are the reason."""

    consultation: str
    role: Role
    run: str = ""
    """Of the fixer: the one that failed."""

    def fold(self, research: Research, record: Recorded) -> None:
        made = Consultation(
            id=self.consultation,
            **pick(self, "role", "run"),
            triggers=research.triggers if self.role == "research" else (),
            opened_at=record.t,
            opened_lived=research.lived,
            listed=tuple(one.id for one in research.items),
        )
        research.consultations[made.id] = made
        research.open = (*research.open, made.id)
        research.next_consultation = made.number + 1
        research.last_call_lived = research.lived
        if self.role == "research":
            research.triggers, research.last_opened_lived = (), research.lived
        else:
            research.to_fix = _leave_out(research.to_fix, self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptWritten(_OfResearch, verb="prompt written", about=("consultation",)):
    """What the agent is told lies on the disk."""

    matters: ClassVar[bool] = False
    consultation: str
    sha256: str
    """Of the prompt."""

    def fold(self, research: Research, record: Recorded) -> None:
        research.change_call(self.consultation, prompt_sha256=self.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStopped(_OfResearch, verb="call is ended", about=("consultation", "by")):
    """A person ends a call; it changes nothing."""

    consultation: str
    by: str

    def fold(self, research: Research, record: Recorded) -> None:
        research.change_call(self.consultation, ending=self.by)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRead(_OfResearch):
    """A call is over: what came of it. Nothing is done about it yet."""

    is_progress: ClassVar[bool] = True
    consultation: str
    outcome: Outcome
    problem: str = ""
    usage: Usage | None = None
    cost: float | None = None
    answer: Answer | None = None
    fix: Fix | None = None
    code: CodeChange | None = None
    is_sent: bool = True
    """Whether an agent was called at all."""

    def fold(self, research: Research, record: Recorded) -> None:
        one = research.consultations[self.consultation]
        if self.is_sent:
            usage, calls, costs = research.usage, research.calls, research.costs
            used = usage.get(one.role, Usage()) + (self.usage or Usage())
            usage[one.role], calls[one.role] = used, calls.get(one.role, 0) + 1
            costs[one.role] = costs.get(one.role, 0.0) + (self.cost or 0.0)
        research.last_call_lived = research.lived
        is_ok = self.outcome is Outcome.OK
        if self.outcome is not Outcome.CANCELLED and research.pauses(one.role):
            research.failures = 0 if is_ok else research.failures + 1
        if not is_ok and one.role == "research":
            research.open = _leave_out(research.open, one.id)
            if self.outcome is not Outcome.CANCELLED:  # what led to it is still there
                research.triggers = (*one.triggers, *research.triggers)
        if is_ok and one.role == "research":
            research.told_notes = sum(
                note.at <= one.opened_at for note in research.notes
            )
        same = ("outcome", "problem", "usage", "cost", "fix", "code")
        answer = _complete_answer(research, one, self.answer)
        research.change_call(
            one.id, **pick(self, *same), answer=answer, ended_lived=research.lived
        )

    def format_headline(self, now: float) -> Headline:
        left = self.answer.left_out if self.answer else ()
        more = f"left out {len(left)}, the first {left[0]}" if left else ""
        told = join_parts(self.consultation, self.outcome.value, self.problem, more)
        return Headline("no answer" if self.is_error() else "answered", told)

    def is_error(self) -> bool:
        return self.outcome is not Outcome.OK


def leave_out_jobs(research: Research, item: Item) -> Item:
    """An item for a journal: jobs that the list has under its id are in there."""
    known = research.find_item(item.id)
    return replace(item, jobs=()) if known and known.jobs == item.jobs else item


def _fill_in_jobs(research: Research, item: Item) -> Item:
    known = research.find_item(item.id)
    return item if item.jobs or known is None else replace(item, jobs=known.jobs)


def _complete_answer(
    research: Research, one: Consultation, answer: Answer | None
) -> Answer | None:
    if answer is None or answer.items is None:
        return answer
    items = tuple(_fill_in_jobs(research, item) for item in answer.items)
    if answer.order is None and one.role == "research":  # a journal of before
        order = tuple(item.id for item in items)
        items = tuple(item for item in items if item not in research.items)
        answer = replace(answer, order=order)
    return replace(answer, items=items)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfList(_OfResearch):
    """The list is another."""

    order: tuple[str, ...] | None = None
    """It, by the ids of its items; None: it stays."""
    items: tuple[Item, ...] | None = None
    """Only in journals of before: it, whole."""

    def list_items(self, research: Research) -> tuple[Item, ...] | None:
        """The list that follows; None: it stays."""
        if self.order is None:
            return self.items
        known = {one.id: one for one in research.items}
        for one in self.list_changed(research):
            known[one.id] = _fill_in_jobs(research, one)
        return tuple(known[name] for name in self.order)

    def list_changed(self, research: Research) -> Iterable[Item]:
        """Items that are new, or others than in the list."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionApplied(_OfList):
    """What is done about an answer, whole and at once: the list as it is from now on,
    the hypotheses, and the lines. The ends of runs are orders of the same commit."""

    is_progress: ClassVar[bool] = True
    consultation: str
    taken: tuple[str, ...] = ()
    """Of the items those that are as the answer has them."""
    hypotheses: tuple[Hypothesis, ...] | None = None
    """All of them; None: they stay."""
    reflection: str | None = None
    code_approved: str | None = None
    """Who approved the change of code (empty: no person had to); None: nobody did."""
    decided: Decided
    asked: tuple[Line, ...] = ()
    """What a person is asked about; empty: the consultation is decided."""

    def fold(self, research: Research, record: Recorded) -> None:
        one = research.consultations[self.consultation]
        if (items := self.list_items(research)) is not None:
            _set_items(research, items)
            # The agent knows how few it has left.
            research.was_low = len(items) < research.options.refill_below
        if self.hypotheses is not None:
            research.hypotheses = {known.id: known for known in self.hypotheses}
        if self.reflection is not None:
            research.reflection = self.reflection
        if self.code_approved is not None:
            research.code_approved[self.consultation] = self.code_approved
        answer, decided = one.answer, (*one.decided, self.decided)
        if not self.asked:
            research.open = _leave_out(research.open, one.id)
            # Of its items those that were taken are in the list.
            answer = replace(answer, items=None) if answer else None
        research.change_call(one.id, answer=answer, decided=decided, asked=self.asked)

    def list_changed(self, research: Research) -> Iterable[Item]:
        answer = research.consultations[self.consultation].answer
        stated = (answer.items or ()) if answer else ()
        return (item for item in stated if item.id in self.taken)

    def format_headline(self, now: float) -> Headline:
        done, lost = len(self.decided.applied), len(self.decided.void)
        told = [self.consultation, f"{plural(done, 'line')} applied"]
        told += [f"{plural(lost, 'line')} void"] if lost else []
        told += [f"asks about {plural(len(self.asked), 'line')}"] if self.asked else []
        told += [f"by {self.decided.by}"] if self.decided.by else []
        return Headline("decided", join_parts(*told))


def _set_items(research: Research, items: tuple[Item, ...]) -> None:
    """Give the list another content; who was told to be stuck may be told again."""
    names = {one.id for one in items}
    known = research.overtaken.items()
    research.overtaken = {name: count for name, count in known if name in names}
    if names - {one.id for one in research.items}:
        research.told_stuck = ()
    if len(items) >= research.options.refill_below:
        research.was_low = False
    research.items = items


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsEdited(_OfList, verb="list changed", about=("what", "by")):
    """A person changed the list."""

    item: Item | None = None
    """The one that is new or another."""
    what: str
    """What was changed, in words."""
    by: str = ""

    def fold(self, research: Research, record: Recorded) -> None:
        _set_items(research, self.list_items(research) or ())

    def list_changed(self, research: Research) -> Iterable[Item]:
        return () if self.item is None else (self.item,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(_OfResearch):
    """An item left the list; its jobs are to join. Or a job of the session's own plan
    is followed as a run."""

    run: Run

    def fold(self, research: Research, record: Recorded) -> None:
        run = self.run
        run = replace(run, began_at=record.t, began_lived=research.lived)
        research.runs[run.id] = run
        research.live = (*research.live, run.id)
        items = research.items
        place = next((at for at, one in enumerate(items) if one.id == run.id), 0)
        for before in items[:place]:
            count = research.overtaken.get(before.id, 0) + 1
            research.overtaken[before.id] = count
        _set_items(research, tuple(one for one in items if one.id != run.id))
        research.told_stuck = ()
        round_name = run.item.consultation
        if round_name and round_name not in research.judged_rounds:
            research.open_rounds.setdefault(round_name, False)
        known = research.hypotheses.get(run.item.hypothesis)
        if known is not None:  # what a fix repeats has shown nothing
            others = (name for name in known.runs if name != run.item.fixes)
            named = replace(known, runs=(*others, run.id))
            research.hypotheses[known.id] = named

    def format_headline(self, now: float) -> Headline:
        return Headline("run started", join_parts(self.run.id, self.run.item.note))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRevived(_OfResearch, verb="run goes on", about=("run",)):
    """A run that had ended is live: a person had its jobs run again, or one that was
    lost has told how it ended. It is judged anew."""

    run: str

    def fold(self, research: Research, record: Recorded) -> None:
        if (ended := research.runs[self.run].ended) is not None:
            research.gpu_seconds -= ended.gpu_seconds  # counted whole at its end
        research.change_run(self.run, ended=None, kill_shown="", killed_at=0.0)
        research.live = (*research.live, self.run)
        research.to_fix = _leave_out(research.to_fix, self.run)
        research.told_stuck = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KillTriggered(_OfResearch, verb="kill criterion", about=("run", "shown")):
    """A criterion of a run came true; the end of its jobs is ordered with it."""

    run: str
    shown: str
    """With its numbers."""

    def fold(self, research: Research, record: Recorded) -> None:
        killed = {"kill_shown": self.shown, "killed_at": record.t}
        research.change_run(self.run, **killed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJudged(_OfResearch):
    """A run is over, with all that follows for its hypothesis and for the best."""

    is_progress: ClassVar[bool] = True
    run: str
    ended: RunEnd
    hypothesis: Hypothesis | None = None
    """Its hypothesis as it is from now on; None: it has none."""
    is_best: bool = False
    to_fixer: bool = False
    """It waits for the fixer: no call of the research agent is made for it."""
    gained: bool = False
    """Whether it is better than the newest that gained, by `objective.min_delta`."""

    def fold(self, research: Research, record: Recorded) -> None:
        research.change_run(self.run, ended=self.ended)
        research.live = _leave_out(research.live, self.run)
        research.gpu_seconds += self.ended.gpu_seconds
        if self.hypothesis is not None:
            research.hypotheses[self.hypothesis.id] = self.hypothesis
        if self.is_best:
            research.best_run, research.best = self.run, self.ended.result
        if self.gained:
            research.gained_from = self.ended.result
        round_name = research.runs[self.run].item.consultation
        if self.gained and round_name in research.open_rounds:
            research.open_rounds[round_name] = True
        if self.ended.outcome in ("completed", "killed"):  # it could run
            research.fix_streaks = {}
        research.told_stuck = ()
        if self.to_fixer:  # he may be at it still, as it was run again meanwhile
            is_new = self.run not in research.list_fixing()
            research.to_fix += (self.run,) if is_new else ()
        else:
            _note_end(research, self.run, record.t)

    def format_headline(self, now: float) -> Headline:
        met = {True: "as expected", False: "not as expected", None: ""}
        end = self.ended
        told = join_parts(self.run, end.outcome, met[end.met], end.problem)
        return Headline("run ended", told)

    def is_error(self) -> bool:
        return self.ended.outcome == "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersJudged(_OfResearch, verb="answers judged", about=("rounds",)):
    """All that became of these answers is known."""

    matters: ClassVar[bool] = False
    rounds: tuple[str, ...]
    """Consultations, in the order in which their runs began."""

    def fold(self, research: Research, record: Recorded) -> None:
        for name in self.rounds:
            has_gained = research.open_rounds.pop(name, False)
            more = research.rounds_since_improvement + 1
            research.rounds_since_improvement = 0 if has_gained else more
        research.judged_rounds = (*research.judged_rounds, *self.rounds)


_NO_TRIES: Final = frozenset(
    {*HOPELESS, Outcome.RATE_LIMIT, Outcome.UNAVAILABLE, Outcome.CANCELLED}
)
"""Calls of the fixer in which nobody looked at the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixDecided(_OfResearch):
    """What was done about a run that failed mechanically."""

    run: str
    mechanical: str
    consultation: str = ""
    """That brought it; empty: the fixer was not called."""
    fix_applied: str = ""
    item: Item | None = None
    """The run again, with the fix; it is first in the list, with the jobs that the
    answer has. None: there is no fix."""
    problem: str = ""
    """Why there is none: the research agent is told of the failure."""

    def fold(self, research: Research, record: Recorded) -> None:
        item = self.item
        call = research.consultations.get(self.consultation)
        if call is not None and call.outcome not in _NO_TRIES:
            streaks = research.fix_streaks
            streaks[self.mechanical] = streaks.get(self.mechanical, 0) + 1
        research.to_fix = _leave_out(research.to_fix, self.run)
        done = self.consultation
        research.open = _leave_out(research.open, done)
        if item is None:
            if self.run not in research.live:
                _note_end(research, self.run, record.t)
            return
        relaunch = {"fix_applied": self.fix_applied, "fix_relaunch": item.id}
        research.change_run(self.run, **relaunch)
        planned = (call.answer.items or ()) if call and call.answer else ()
        item = next((one for one in planned if one.id == item.id), item)
        _set_items(research, (item, *research.items))

    def format_headline(self, now: float) -> Headline:
        told = self.fix_applied or f"no fix: {self.problem}"
        again = f"as {self.item.id}" if self.item else ""
        return Headline("fix", join_parts(self.run, told, again))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionFound(_OfResearch, verb="research warning", about=("severity", "why")):
    """The agent should know of something; a warning is made once for its cause."""

    is_progress: ClassVar[bool] = True
    key: str
    severity: Severity
    why: Why
    evidence: tuple[str, ...] = ()

    def fold(self, research: Research, record: Recorded) -> None:
        same = pick(self, "key", "severity", "why", "evidence")
        research.warnings[self.key] = Warned(**same, raised_at=record.t)
        _trigger(research, "warning_fired", self.key, record.t)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionAcknowledged(_OfResearch, verb="warning seen", about=("key", "by")):
    """A person has seen a warning: no agent is told of it any more."""

    key: str
    by: str

    def fold(self, research: Research, record: Recorded) -> None:
        known = research.warnings
        known[self.key] = replace(known[self.key], acknowledged_by=self.by)


@dataclass(frozen=True, slots=True, kw_only=True)
class MilestoneCrossed(_OfResearch):
    """So much of a budget is left, or less; once each."""

    milestone: Milestone

    def fold(self, research: Research, record: Recorded) -> None:
        research.milestones = (*research.milestones, self.milestone)
        _trigger(
            research, "budget_milestone", self.format_headline(0.0).about, record.t
        )

    def format_headline(self, now: float) -> Headline:
        name, left = self.milestone.budget, self.milestone.left_percent
        return Headline("budget", f"{name.replace('_', ' ')}: {left} % left")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReached(_OfResearch, verb="budget reached"):
    """Nothing more begins; what runs finishes, or its end is ordered with this."""

    is_progress: ClassVar[bool] = True
    why: Why

    def fold(self, research: Research, record: Recorded) -> None:
        research.budget_reached = self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteAdded(_OfResearch, verb="note to the agent", about=("text", "by")):
    """A person tells the agent something: each context has it from now on."""

    text: str
    by: str = ""

    def fold(self, research: Research, record: Recorded) -> None:
        note = Note(self.text, self.by, record.t)
        research.notes = (*research.notes, note)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsPaused(_OfResearch, verb="agents wait", about=("why",)):
    """No agent is called before `resume_at`."""

    is_progress: ClassVar[bool] = True
    why: Why
    resume_at: float
    """Seconds of Unix time."""
    outcome: Outcome = Outcome.AGENT_ERROR
    """Of the call that led to it."""

    def fold(self, research: Research, record: Recorded) -> None:
        research.agents_wait, research.resume_at = self.why, self.resume_at
        research.wait_outcome = self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsResumed(_OfResearch, verb="agents are called again"):
    """The time of the pause is over, or a person wants a call."""

    is_progress: ClassVar[bool] = True

    def fold(self, research: Research, record: Recorded) -> None:
        research.agents_wait, research.resume_at = None, 0.0
        research.wait_outcome = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchStopped(_OfResearch, verb="research ended"):
    """Nothing more is begun, and nobody is consulted."""

    why: Why

    def fold(self, research: Research, record: Recorded) -> None:
        research.stopped, research.triggers = self.why, ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWritten(_OfResearch, verb="state file written"):
    """The file shows the research as it was when that was ordered."""

    matters: ClassVar[bool] = False
    stamp: int
    """`Research.changes` then."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        research = research_of(state)
        research.shown_changes, research.shown_lived = self.stamp, state.lived
