"""The invariants of a simulated research, beside those of every campaign. What it may
do next is counted here anew, by other code than the policy's own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from autoexp_tui.effects.effects import CancelTasks
from autoexp_tui.events import events
from autoexp_tui.model.agents import Outcome
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.policy import find_end
from autoexp_tui.model.state import Attempt, JobRecord, SessionState
from autoexp_tui.model.states import ACTIVE, Cause, JobState
from autoexp_tui.research import events as told
from autoexp_tui.research.state import (
    Consultation,
    Item,
    Research,
    Run,
    Trigger,
    find_research,
    research_of,
)
from tests.support.memory_journal import MemorySession
from tests.support.sim_checks import Checks, Violation
from tests.support.sim_research import SimLaboratory

_BEGINS: Final = 3
"""Commits in which an engine takes over, before it decides."""
_MANY: Final = 10**6
PERCENT: Final = (75, 50, 25, 10)
_EXITS: Final = {
    "budget_reached": 6,
    "calls_spent": 6,
    "call_unaffordable": 6,
    "research_stuck": 1,
    "research_broken": 1,
    "runs_failed": 1,
    "nothing_left": 0,
    "target_reached": 0,
    "research_ended": 0,
}
_KILLED: Final = frozenset(
    {
        Cause.NAN,
        Cause.STALL,
        Cause.KILL_CRITERION,
        Cause.CANCEL_CONDITION,
        Cause.BUDGET,
    }
)
_EDITS: Final = (
    told.RunStarted,
    told.FixDecided,
    told.ItemsEdited,
    told.DecisionApplied,
)
"""All that changes the list."""


class ResearchChecks(Checks):
    """Holds a campaign with a research to its invariants."""

    laboratory: SimLaboratory
    granted: frozenset[str]

    def __init__(
        self, session: MemorySession, truth: Any, elapsed: Callable[[], float]
    ) -> None:
        super().__init__(session, truth, elapsed)
        self._fired: set[tuple[str, str]] = set()
        """What may lead to a call once alone."""
        self._answered: dict[int, Trigger] = {}
        """What an answered call was for, each by itself: a person may ask twice."""
        self._is_news = True
        """Whether something happened since it was told that the list is low."""
        self._has_moved = True
        """Whether the list or the runs changed since items were told to be stuck."""
        self._overtaken: Counter[str] = Counter()
        self._shown: dict[str, Mapping[str, int]] = {}
        """Consultation -> the attempts that ran as its kills were shown last."""
        self._told: dict[str, Mapping[str, int]] = {}
        """Consultation -> the attempts that ran as its agent was called."""
        self._asked: dict[str, bool] = {}
        """Consultation -> whether its newest lines were applied by a person."""
        self._read: set[str] = set()
        self._judged: set[str] = set()
        self._fixed: set[str] = set()
        self._revived: set[str] = set()
        """Runs that a person had go on, whatever is free."""
        self.carried_out: Counter[str] = Counter()
        """Commands that were carried out, or refused."""
        self._after: set[str] = set()
        """Jobs of runs that were live as a budget was reached."""
        self._is_uneasy = False
        """Whether the last commit left something undone: some only tell something."""
        self._of_epoch, self._commits = 0, 0
        """The newest engine, and its commits."""

    # ------------------------------------------------------------------- the records
    def _take(self, record: Recorded) -> None:
        known = find_research(self.shadow)
        before = known.items if known else ()
        super()._take(record)
        research = find_research(self.shadow)
        if research is None:
            return
        if research.items != before:
            self._has_moved = True
            if not isinstance(record.event, _EDITS):
                raise Violation(f"{record.event!r} changed the list")
            if len(research.items) >= research.options.refill_below:
                self._is_news = True
        ids = [one.id for one in research.items]
        for name in self._overtaken.keys() - {*ids}:  # another may come by its name
            del self._overtaken[name]
        if len({*ids}) < len(ids) or research.runs.keys() & {*ids}:
            raise Violation(f"the list has a name twice, or a run's: {ids}")
        if not record.more:
            problem = next(self._look_at_rest(research, record), "")
            if problem and self._is_uneasy:
                raise Violation(f"after record {record.seq}: {problem}")
            self._is_uneasy = bool(problem)

    def _problems(self, record: Recorded) -> Iterator[str]:
        yield from super()._problems(record)
        research = find_research(self.shadow)
        if research is None:
            return
        event: Any = record.event
        match event:
            case told.TriggerFired():
                yield from self._fire(event, research, record)
            case told.ConditionFound(key=key):
                yield from self._happen_once("warning", key)
            case told.ConsultationOpened(consultation=name):
                self._told[name] = self._list_attempts()
                yield from self._open(event, research, record)
            case told.AnswerRead():
                yield from self._read_answer(event, research)
            case told.DecisionApplied():
                yield from self._decide(event, research)
            case told.ItemsEdited():
                yield from _edit(event, research)
            case told.RunStarted(run=run):
                yield from self._start(run, research)
            case told.RunJudged():
                yield from self._judge(event, research)
            case events.JobRevived(job=name):
                self._after.discard(name)  # as a person wants it
            case told.RunRevived(run=name):
                self._revived.add(name)
                self._judged.discard(name)
                self._fixed.discard(name)
                self._after -= {*research.runs[name].jobs}
                self._has_moved = True
                if research.runs[name].ended is None:
                    yield "it has not ended"
            case told.KillTriggered(run=name) if research.runs[name].ended:
                yield "the run has ended"
            case told.FixDecided():
                yield from self._fix(event, research)
            case told.MilestoneCrossed(milestone=one):
                yield from self._happen_once("milestone", repr(one))
                if not self._is_used(one.budget, 100 - one.left_percent, record):
                    yield "so much is not used"
            case told.BudgetReached(why=reason):
                yield from self._happen_once("budget", "reached")
                ended = (self._is_used(n, 100, record) for n in _ENDING)
                if not any(ended):
                    yield f"no budget is used up: {reason}"
                live = research.list_live()
                self._after = {name for run in live for name in run.jobs}
            case told.CallsResumed() if record.t < research.resume_at:
                if not record.command_id:
                    yield f"the pause is not over before {research.resume_at}"
            case told.ResearchStopped():
                yield from self._stop(event, research, record)
            case events.AskRaised(ask=name) if name.startswith("decision/"):
                self._shown[name.removeprefix("decision/")] = self._list_attempts()
            case events.EffectOrdered(effect=CancelTasks()):
                yield from self._cancel(event)
            case told.NoteAdded() | events.CommandRefused():
                self.carried_out[record.command_id] += 1
            case events.WarningRaised(why=reason) if reason.code == "policy_failed":
                yield "the research met a bug"

    def _happen_once(self, kind: str, about: str) -> Iterator[str]:
        if (kind, about) in self._fired:
            yield f"{kind} {about} was told before"
        self._fired.add((kind, about))

    def _list_attempts(self) -> Mapping[str, int]:
        """Of each job, the number of its newest attempt."""
        return {name: len(job.attempts) for name, job in self.shadow.jobs.items()}

    # ---------------------------------------------------------------------- the calls
    def _fire(
        self, event: told.TriggerFired, research: Research, record: Recorded
    ) -> Iterator[str]:
        lived = record.lived or 0.0
        match event.kind:
            case "list_depleted":
                if not self._is_news:
                    yield "nothing happened since it was told before"
                if len(research.items) >= research.options.refill_below:
                    yield "the list is long enough"
                self._is_news = False
            case "stranded" | "deadlock":
                if not self._has_moved:
                    yield "nothing moved since it was told before"
                self._has_moved = False
            case "heartbeat":
                since = lived - research.last_call_lived
                if since < research.options.heartbeat_seconds - 1e-6:
                    yield f"the last call was {since} s ago"

    def _open(
        self, event: told.ConsultationOpened, research: Research, record: Recorded
    ) -> Iterator[str]:
        calls = [one for one in research.list_open(event.role) if not one.outcome]
        if calls:
            yield f"{[one.id for one in calls]} is under way"
        if event.consultation in research.consultations:
            yield "its number is taken"
        if research.stopped or research.budget_reached:
            yield "nobody is to be called any more"
        if research.agents_wait or self.shadow.paused:
            yield "agents wait, or the session is paused"
        yield from self._list_unpaid(event.role, research)
        if event.role == "fixer":
            if event.run not in research.to_fix:
                yield f"{event.run} does not wait for the fixer"
            return
        if all(id(one) in self._answered for one in research.triggers):
            yield f"nothing new led to it: {research.triggers}"
        last, lived = research.last_opened_lived, record.lived or 0.0
        least = research.options.min_interval_seconds
        if last is not None and lived < last + least - 1e-6:
            yield f"the last one began {lived - last} s before"

    def _list_unpaid(self, role: str, research: Research) -> Iterator[str]:
        budgets: Any = research.options.budgets
        under_way = [
            research.consultations[name].role
            for name in research.open
            if not research.consultations[name].outcome
        ]
        made = research.calls.get(role, 0) + under_way.count(role)  # type: ignore[call-overload, arg-type]
        own = getattr(budgets, role).calls
        if own is not None and made >= own:
            yield f"{own} calls of the {role} are allowed"
        total = research.total_calls + len(under_way)
        if budgets.calls is not None and total >= budgets.calls:
            yield f"{budgets.calls} calls are allowed"
        for name, used in _count_used(research).items():
            limit = getattr(budgets, name)
            if limit is not None and used >= limit:
                yield f"{used} of {limit} {name} are used"

    def _read_answer(self, event: told.AnswerRead, research: Research) -> Iterator[str]:
        one = research.consultations[event.consultation]
        if one.id in self._read:
            yield "it was read before"
        self._read.add(one.id)
        if event.is_sent != (one.job in self.laboratory.begun):
            yield f"agents were called {self.laboratory.begun[one.job]} times"
        job = self.shadow.jobs.get(one.job)
        if job is not None and not job.ended:
            yield f"{one.job} has not ended"
        if event.outcome is Outcome.OK:
            self._answered |= {id(trigger): trigger for trigger in one.triggers}

    # ----------------------------------------------------------------------- the list
    def _decide(self, event: told.DecisionApplied, research: Research) -> Iterator[str]:
        one = research.consultations[event.consultation]
        if one.id not in research.open or (one.decided and not one.asked):
            yield "it is decided already"
        if one.outcome is not Outcome.OK:
            yield f"its call came to {one.outcome}"
        is_asked = self._asked[one.id] = bool(one.decided)
        texts = event.decided.applied
        if is_asked:
            yield from self._check_shown(one, texts)
            if event.asked:
                yield "a person is asked again"
        is_code = event.code_approved is not None
        if is_code and not (is_asked or self._is_free("code", research)):
            yield "nobody approved its code"
        listed = event.list_items(research)
        said = self.laboratory.left.get(one.job)
        if listed is not None and said and '"list_unchanged": true' in said.words:
            yield "the list was to stay as it is"
        if listed is None:
            return
        gone, new, other = _compare(research.items, listed)
        if not is_asked and new and not self._is_free("experiments", research):
            yield f"nobody approved {new}"
        for name in (*gone, *new, *other):
            if not any(_names(text, name) for text in texts):
                yield f"{name} is changed, and no line says so: {texts}"
        if wrong := [name for name in new if name in research.runs]:
            yield f"{wrong} are runs"
        for item in research.items:
            is_known = item.id in one.listed or item.consultation == one.id
            is_persons = bool(item.by) or not item.consultation
            if item.id in other and (is_persons or not is_known):
                yield f"{item.id} is not its to change"
            if item.id in gone and is_persons:
                if not any(text.startswith(f"remove {item.id}") for text in texts):
                    yield f"{item.id} is a person's"
                if not is_asked and not self._is_free("experiments", research):
                    yield f"nobody was asked about {item.id}"
            if item.id in gone and not is_known:
                yield f"the agent did not know of {item.id}"
        before, after = (
            [i.id for i in items if (i.by or not i.consultation) and i.id not in gone]
            for items in (research.items, listed)
        )
        if before != after:
            yield f"persons' items are moved: {before}, {after}"
        if len(listed) < research.options.refill_below:
            self._is_news = False

    def _check_shown(self, one: Consultation, texts: Collection[str]) -> Iterator[str]:
        if not texts:
            return
        ask = self.shadow.asks.get(f"decision/{one.id}")
        if ask is None or not ask.approved:
            yield f"nobody approved {texts}"
            return
        shown = {text.partition(": ")[2] for text in ask.list_kept(ask.dropped)}
        for text in texts:
            if text not in shown:
                yield f"{text!r} is done, and was not shown: {sorted(shown)}"

    def _is_free(self, kind: str, research: Research) -> bool:
        """Whether lines of a kind are applied without a person."""
        is_granted = bool({"*", kind} & self.granted)
        return is_granted or getattr(research.options.approve, kind) == "auto"

    def _cancel(self, event: events.EffectOrdered) -> Iterator[str]:
        """An agent's kill ends the attempt that was shown, and no other."""
        if event.why is None or event.why.code != "ended_by_agent":
            return
        name = str(event.why.arg("consultation"))
        if not self._asked[name] and not self._is_free("kills", _of(self.shadow)):
            yield "nobody approved it"
        assert isinstance(event.effect, CancelTasks)
        for job, attempt in event.effect.tasks:
            for seen in (self._told[name], self._shown.get(name, {})):
                if attempt != (shown := max(1, seen.get(job, attempt))):
                    yield f"attempt {attempt} of {job} is ended, and {shown} was shown"

    def _fix(self, event: told.FixDecided, research: Research) -> Iterator[str]:
        run = research.runs[event.run]
        if event.run in self._fixed:
            yield f"{event.run} was decided before"
        self._has_moved = True
        if run.ended is not None:  # else a person had it run again meanwhile
            self._fixed.add(event.run)
        if event.item is None:
            self._is_news = True
            return
        if run.ended is None or not run.ended.mechanical:
            yield f"{event.run} has not failed mechanically"
        if research.is_known(event.item.id):
            yield f"{event.item.id} is there"
        one = research.consultations[event.consultation]
        keys = [text.partition("=")[0] for text in one.fix.overrides if one.fix]  # type: ignore[union-attr]
        is_plain = {*keys} <= {*research.options.fixer.may_override}
        ask = self.shadow.asks.get(f"decision/{one.id}")
        is_approved = ask is not None and bool(ask.approved) and not ask.dropped
        if not (is_plain or is_approved or self._is_free("code", research)):
            yield f"nobody approved {keys}"

    # ----------------------------------------------------------------------- the runs
    def _start(self, run: Run, research: Research) -> Iterator[str]:
        if run.id in research.runs:
            yield "it was started before"
        self._has_moved = True
        item = research.find_item(run.id)
        if item is None:
            if not self.shadow.jobs[run.id].is_planned:
                yield "it is in no list"
            return
        if research.stopped or research.budget_reached or self.shadow.paused:
            yield "nothing is to begin"
        if run.item.overrides != item.overrides or run.item.gpus != item.gpus:
            yield f"{item} was to be started"
        if not _is_ready(item, research):
            yield "it is not to begin yet"
        slots, gpus = self._count_free(research)
        if item.wanted_gpus > gpus or self._count_slots(item) > slots:
            yield f"{gpus} GPUs and {slots} slots are free"
        for other in research.items:
            if other.id == item.id:
                break
            if item.wanted_gpus and self._may_begin(other, research):
                self._overtaken[other.id] += 1
                if self._overtaken[other.id] > research.options.starve_after:
                    yield f"{other.id} was overtaken {self._overtaken[other.id]} times"

    def _may_begin(self, item: Item, research: Research) -> bool:
        """Whether nothing but room keeps it from it, and there can be enough."""
        return item.wanted_gpus <= research.gpus and _is_ready(item, research)

    def _count_slots(self, item: Item) -> int:
        """One for each job, but that the jobs of one item may take turns."""
        return max(1, min(len(item.jobs), self.slots["main"] or _MANY))

    def _count_free(self, research: Research) -> tuple[int, int]:
        """Slots and GPUs that nothing holds."""
        jobs = self.shadow.jobs
        live = research.list_live()
        mine = {name for run in live for name in run.jobs}
        busy = self._active("main") | {
            name for name in mine if name not in jobs or not jobs[name].ended
        }
        others = self._active("main") - mine
        held = sum(run.gpus for run in live)
        held += sum(jobs[name].spec.resources.gpus for name in others)
        slots = self.slots["main"] or _MANY
        return max(0, slots - len(busy)), max(0, research.gpus - held)

    def _judge(self, event: told.RunJudged, research: Research) -> Iterator[str]:
        run, end = research.runs[event.run], event.ended
        if event.run in self._judged:
            yield "it was judged before"
        self._judged.add(event.run)
        self._has_moved = True
        if not event.to_fixer:
            self._is_news = True
        asker = run.item.asker
        known = self.shadow.jobs
        jobs = [known[name] for name in run.jobs if name in known]
        jobs = [job for job in jobs if job.asked_by in ("", asker)]
        if alive := [job.name for job in jobs if not job.ended]:
            yield f"{alive} have not ended"
        if not jobs:
            if asker not in self.shadow.refused_joins:
                yield "it is lost: no job of it has joined, and nothing refused them"
            if end.outcome != "failed":
                yield "nothing of it has run"
            return
        bad = [job for job in jobs if job.state is not JobState.COMPLETED]
        wanted = _find_outcome(bad[0].cause if bad else None, is_bad=bool(bad))
        if wanted != end.outcome:
            yield f"its jobs say {wanted}"
        if end.outcome == "completed":
            yield from self._judge_result(run, end.result, jobs)

    def _judge_result(
        self, run: Run, result: float | None, jobs: list[JobRecord]
    ) -> Iterator[str]:
        fates = {self.laboratory.find_fate(job.name) for job in jobs}
        if "mute" in fates or any(len(job.attempts) > 1 for job in jobs):
            return
        losses = [self.laboratory.losses[job.name] for job in jobs]
        true = sum(losses) / len(losses)
        if "worse" not in fates and (result is None or abs(result - true) > 1e-6):
            yield f"it told {true}"

    # --------------------------------------------------------------------- the budgets
    def _is_used(
        self, name: str, percent: float, record: Recorded, *, surely: bool = False
    ) -> bool:
        """Whether so much of a budget may be used; or surely is."""
        research = research_of(self.shadow)
        limit = getattr(research.options.budgets, name)
        if limit is None:
            return False
        used = self._measure(name, research, record, surely=surely)
        return bool(used * 100 >= percent * limit + (1e-6 if surely else -1e-6))

    def _measure(
        self, name: str, research: Research, record: Recorded, *, surely: bool
    ) -> float:
        if name == "wall_seconds":
            return record.lived or 0.0
        if name == "gpu_hours":
            runs = research.runs.values()
            return sum(self._hold(run, record.t, surely=surely) for run in runs) / 3600
        return float(_count_used(research)[name])

    def _hold(self, run: Run, t: float, *, surely: bool) -> float:
        """GPU seconds of a run: at least, or at most."""
        if run.ended is not None:
            return run.ended.gpu_seconds
        total = 0.0
        for name in run.jobs:
            if job := self.shadow.jobs.get(name):
                gpus = job.spec.resources.gpus if surely else run.gpus
                total += gpus * sum(
                    _hold_attempt(job, one, t, surely=surely) for one in job.attempts
                )
        return total

    # ------------------------------------------------------------------------- at rest
    def _look_at_rest(self, research: Research, record: Recorded) -> Iterator[str]:
        """After a commit."""
        if not research.directory or research.stopped:
            return
        self._commits = self._commits + 1 if record.epoch == self._of_epoch else 1
        self._of_epoch = record.epoch
        if self._commits <= _BEGINS:
            return
        yield from self._find_untold(research, record)
        if research.budget_reached:
            if research.options.budgets.on_reached == "kill":
                yield from self._find_spared(research)
            return
        if not self.shadow.paused:
            yield from self._find_idle(research)

    def _find_untold(self, research: Research, record: Recorded) -> Iterator[str]:
        told_ = {(one.budget, one.left_percent) for one in research.milestones}
        for name in _BUDGETS:
            for percent in PERCENT:
                is_told = (name, percent) in told_
                if not is_told and self._is_used(
                    name, 100 - percent, record, surely=True
                ):
                    yield f"{name}: {percent} % are left, and nobody said so"
        for name in _ENDING:
            is_used = self._is_used(name, 100, record, surely=True)
            if is_used and not research.budget_reached:
                yield f"{name} is used up, and all goes on"

    def _find_spared(self, research: Research) -> Iterator[str]:
        """Runs that are to be ended, and are not told to."""
        for run in research.list_live():
            for name in run.jobs:
                job = self.shadow.jobs.get(name)
                if name not in self._after or job is None or job.state not in ACTIVE:
                    continue
                newest = job.attempts[-1]
                if newest.outcome is None and not newest.is_told_to_end:
                    yield f"{name} goes on, and a budget is reached"

    def _find_idle(self, research: Research) -> Iterator[str]:
        """A ready item that fits, unless room is kept for one that starves."""
        slots, gpus = self._count_free(research)
        ready = [one for one in research.items if self._may_begin(one, research)]
        fits = [
            one
            for one in ready
            if one.wanted_gpus <= gpus and self._count_slots(one) <= slots
        ]
        most = research.options.starve_after
        starved = [one for one in ready if research.overtaken.get(one.id, 0) >= most]
        if fits and (not starved or starved[0] in fits):
            yield f"{gpus} GPUs and {slots} slots are free, and {fits[0].id} waits"

    def _note_begun(self, task: TaskId, run: int, start: str) -> None:
        super()._note_begun(task, run, start)
        research = find_research(self.shadow)
        if research is None:
            return
        attempt = self.shadow.jobs[task[0]].attempts[task[1] - 1]
        live = {name for run in research.list_live() for name in run.jobs}
        is_late = task[0] in self._after & live and not attempt.is_told_to_end
        if is_late and research.options.budgets.on_reached == "kill":
            raise Violation(f"{task} was begun after a budget was reached")
        self._check_crowd(research)

    def _check_crowd(self, research: Research) -> None:
        """The GPUs of all that runs, in truth; a person may bring back what has ended
        at any time, and the session's own jobs begin when they can."""
        known = self.shadow.jobs
        live = (run for run in research.list_live() if run.id not in self._revived)
        mine = {name for run in live for name in run.jobs}
        living = [known[name] for name, _ in self._truth.living() if name in mine]
        gpus = sum(job.spec.resources.gpus for job in living if job.asked_by)
        if gpus > research.gpus > 0:
            names = [job.name for job in living]
            raise Violation(f"{names} hold {gpus} of {research.gpus} GPUs")

    # -------------------------------------------------------------------------- the end
    def _stop(
        self, event: told.ResearchStopped, research: Research, record: Recorded
    ) -> Iterator[str]:
        if research.stopped is not None:
            yield "it was stopped before"
        code = event.why.code
        known = [*research.consultations.values()]
        last = next((c for c in reversed(known) if c.role == "research"), None)
        is_quiet = not research.live and not any(
            not research.consultations[name].outcome for name in research.open
        )
        match code:
            case "budget_reached":
                if not research.budget_reached or not is_quiet:
                    yield "no budget is reached, or something runs"
            case "nothing_left" | "runs_failed" | "research_stuck":
                if not is_quiet or research.triggers or research.to_fix:
                    yield "there is something to wait for"
                if bool(research.items) != (code == "research_stuck"):
                    yield f"the list has {len(research.items)} items"
                if last is None or last.outcome is not Outcome.OK:
                    yield "the last call came to nothing"
                elif not any(one.kind == "heartbeat" for one in last.triggers):
                    yield "the last call was no heartbeat's"
                if ready := self._list_ready(research):
                    yield f"{ready} may begin"
            case "target_reached":
                results = [
                    run.ended.result
                    for run in research.runs.values()
                    if run.ended and run.ended.outcome == "completed"
                ]
                target = research.options.objective.target
                good = (r for r in results if r is not None and target is not None)
                if target is None or min(good, default=target + 1) > target:
                    yield f"no run came to {target}: {results}"
            case "calls_spent" | "call_unaffordable":
                if not is_quiet or self._list_ready(research):
                    yield "there is something to do without a call"
                if not self._is_spent(research):
                    yield "a call can be paid"
            case "research_ended":
                if not record.command_id:
                    yield "nobody ended it"
            case _:
                yield "that is no reason"

    def _list_ready(self, research: Research) -> list[str]:
        return [one.id for one in research.items if self._may_begin(one, research)]

    def _is_spent(self, research: Research) -> bool:
        """Whether a budget of calls has no room for a mean call."""
        budgets, calls = research.options.budgets, max(1, research.total_calls)
        for name, used in _count_used(research).items():
            limit = getattr(budgets, name)
            if limit is not None and used + used / calls >= limit - 1e-9:
                return True
        own = budgets.research.calls
        return own is not None and research.calls.get("research", 0) >= own

    def check_end(self, state: SessionState, notes: Collection[str]) -> None:
        """What is there when a research is over; `notes`: the commands that told the
        agent something; raises Violation."""
        research = research_of(state)
        assert research.stopped is not None
        end = find_end(state.parts)
        wanted = _EXITS[research.stopped.code]
        if end is None or end.code != wanted:
            raise Violation(f"it ends with {end}, and is to end with {wanted}")
        if research.live or {*research.runs} != self._judged:
            raise Violation(f"runs were never judged: {research.live}")
        sent = [one for one in research.consultations.values() if one.outcome]
        called = [one for one in sent if one.job in self.laboratory.begun]
        if research.total_calls != len(called):
            raise Violation(f"{len(called)} calls, {research.total_calls} are counted")
        times = self.carried_out
        if wrong := [name for name in notes if times[name] != 1]:
            raise Violation(f"notes were lost, or taken twice: {wrong}")
        (view,) = self.laboratory.views[-1:]
        if not view.research.stopped:
            raise Violation("experiment_state.json does not show the end")


_ENDING: Final = ("wall_seconds", "gpu_hours")
_BUDGETS: Final = (*_ENDING, "calls", "tokens", "money")


def _hold_attempt(job: JobRecord, one: Attempt, t: float, *, surely: bool) -> float:
    """Seconds that an attempt has run: at least, or at most."""
    if one.began_at is None:
        return 0.0
    if one.ended_at is not None:
        return max(0.0, one.ended_at - one.began_at)
    if surely:
        return t - job.since if job.state is JobState.RUNNING else 0.0
    return max(0.0, t - min(job.since, one.began_at))


def _of(state: SessionState) -> Research:
    return research_of(state)


def _count_used(research: Research) -> dict[str, float]:
    usages = research.usage.values()
    return {
        "calls": research.total_calls,
        "tokens": sum(one.input_tokens + one.output_tokens for one in usages),
        "money": sum(research.costs.values()),
    }


def _is_ready(item: Item, research: Research) -> bool:
    """Whether all that it waits for has ended, and its code is approved."""
    is_approved = item.code_ref in ("", *research.code_approved)
    return all(map(research.is_settled, item.depends_on)) and is_approved


def _compare(
    before: tuple[Item, ...], after: tuple[Item, ...]
) -> tuple[list[str], list[str], list[str]]:
    """The items that are gone, new, and others than before, by their ids."""
    known, now = ({one.id: one for one in items} for items in (before, after))
    gone = [name for name in known if name not in now]
    new = [name for name in now if name not in known]
    return gone, new, [n for n in now if n in known and now[n] != known[n]]


def _names(text: str, name: str) -> bool:
    """Whether a line is about an item."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None


def _edit(event: told.ItemsEdited, research: Research) -> Iterator[str]:
    """A person changes one item at a time."""
    listed = event.list_items(research) or ()
    gone, new, other = _compare(research.items, listed)
    name = event.what.split()[0]
    if {*gone, *new, *other} - {name}:
        yield f"{gone}, {new} and {other} are changed"
    before, after = (
        [one.id for one in items if one.id != name]
        for items in (research.items, listed)
    )
    if before != after:
        yield f"others are moved: {before}, {after}"


def _find_outcome(cause: Cause | None, *, is_bad: bool) -> str:
    """What a run came to, of whose jobs the first bad one ended so."""
    if not is_bad:
        return "completed"
    if cause in _KILLED:
        return "killed"
    return "cancelled" if cause is Cause.USER else "failed"
