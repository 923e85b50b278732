"""Deliberate bugs, so that the simulator is seen to catch what it is made for.

Each replaces one part of a campaign by one that is wrong in a way that engines of this
kind have been wrong. None of it can be reached from outside a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar, Final
from unittest import mock

from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine.executor_port import (
    Executor,
    PollAnswer,
    Task,
    TaskPhase,
    TaskReport,
)
from autoexp_tui.engine.loop import Engine
from autoexp_tui.engine.ports import Clock, Parts
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext, Draft, Roster
from autoexp_tui.model.event import Recorded
from autoexp_tui.model.rules import Storm
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.model.states import why
from autoexp_tui.research import decide as research_loop
from autoexp_tui.research import decision
from autoexp_tui.research.items import choose_now
from autoexp_tui.research.judge import judge_run
from autoexp_tui.research.state import Consultation, Milestone, Research, find_research
from autoexp_tui.research.triggers import list_fired
from autoexp_tui.scheduling import circuit_breaker
from autoexp_tui.tree import decide
from autoexp_tui.tree.state import Evaluation, Idea, Node, Tree
from tests.support.memory_journal import MemoryJournal
from tests.support.remembering import AroundExecutor
from tests.support.sim_research import SimLaboratory
from tests.support.sim_slurm import SlurmCluster
from tests.support.sim_trees import SimTrees


class Bug:
    """What a deliberate bug replaces; this one replaces nothing."""

    kind: ClassVar[str] = ""
    """Of the campaigns that it shows in; empty: of any but searches."""

    def executor(self, inner: Executor) -> Executor:
        return inner

    def journal(self, journal: MemoryJournal) -> None:
        """Spoil what an engine writes to."""

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return Engine(state, parts)

    def cluster(self, cluster: SlurmCluster) -> None:
        """Spoil what runs the jobs."""

    def trees(self, trees: SimTrees) -> SimTrees:
        """Spoil what a search reaches outside."""
        return trees

    def laboratory(self, laboratory: SimLaboratory) -> SimLaboratory:
        """Spoil what a research reaches outside."""
        return laboratory


class DropIntent(Bug):
    """A submission is sent, and nothing on the disk says that it was meant to be."""

    def journal(self, journal: MemoryJournal) -> None:
        append = journal.append

        def forget(records: Sequence[Recorded]) -> None:
            append([*map(_drop_intent, records)])

        journal.append = forget  # type: ignore[method-assign]


def _drop_intent(record: Recorded) -> Recorded:
    ordered = getattr(record.event, "effect", None)
    said = events.MessageLogged(text="something was sent")
    return replace(record, event=said) if isinstance(ordered, SubmitTasks) else record


class TrustEmpty(Bug):
    """Whatever an answer does not name is gone for good."""

    def executor(self, inner: Executor) -> Executor:
        return _Credulous(inner)


class _Credulous(AroundExecutor):
    def poll(self, tasks: Sequence[Task]) -> PollAnswer:
        answer = self.inner.poll(tasks)
        if answer.error:
            return answer
        told = {(report.job, report.attempt): report for report in answer.reports}
        reports = (told.get(task.id) or _nothing(task) for task in tasks)
        return replace(answer, reports=tuple(map(self._believe, reports)))

    def _believe(self, report: TaskReport) -> TaskReport:
        if report.phase is not TaskPhase.ENDED or report.exited is not None:
            return report
        return replace(report, gone_for=self.lost_after_seconds, unclaimed=False)


def _nothing(task: Task) -> TaskReport:
    return TaskReport(job=task.job, attempt=task.attempt, phase=TaskPhase.ENDED)


class ForgetClaim(Bug):
    """A start does not look whether another has begun the attempt."""

    def cluster(self, cluster: SlurmCluster) -> None:
        cluster.forget_claims()


class ApplyBeforeJournal(Bug):
    """Events count, and are acted on, before they are on the disk."""

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return _Hasty(state, parts)


class _Hasty(Engine):
    def _write(self, records: list[Recorded]) -> bool:
        if records is not self._unwritten:
            self._make_true(records)
        return self._append(records)


class IgnoreEpoch(Bug):
    """Nobody asks whether the engine that writes still owns the session."""

    def journal(self, journal: MemoryJournal) -> None:
        journal.is_fenced = False


class TimeByWall(Bug):
    """What lasts goes by the wall clock, and stands still while that is behind."""

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return Engine(state, replace(parts, clock=_WallAlone(parts.clock)))


class _WallAlone:
    def __init__(self, inner: Clock) -> None:
        self.utc = inner.utc
        self._latest = 0.0

    def monotonic(self) -> float:
        self._latest = max(self._latest, self.utc())
        return self._latest

    boottime = monotonic


class _Patched(Engine):
    """Decides with one function of ours replaced."""

    patch: ClassVar[tuple[Any, str, Callable[..., Any]]]

    def _decide_all(self, *inputs: Any) -> Draft:
        with mock.patch.object(*self.patch):
            return super()._decide_all(*inputs)


class CountTrials(Bug):
    """A trial that fails counts among the quick failures that pause a session."""

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return _TrialsCount(state, parts)


_count_failure: Final = circuit_breaker._count_failure


def _count_all(
    context: DecisionContext, ended: events.AttemptEnded, rules: Storm
) -> events.AttemptEnded:
    def find_job(name: str) -> JobRecord:
        record = context.job(name)
        return replace(record, spec=replace(record.spec, trial=False))

    blind: Any = SimpleNamespace(job=find_job, state=context.state, now=context.now)
    return _count_failure(blind, ended, rules)


class _TrialsCount(_Patched):
    patch = (circuit_breaker, "_count_failure", _count_all)


class CrowdSlots(Bug):
    """What runs beside takes a slot of the others, and the other way round."""

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return _Crowded(state, parts)


class _Crowded(_Patched):
    patch = (Roster, "count_active", lambda roster, _place: len(roster.active))


class LoseQueued(Bug):
    """An engine that goes on with a search gives up what was opened, and has no jobs
    yet."""

    kind = "tree"

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return _Forgetful(state, parts) if state.session else Engine(state, parts)


def _give_up(search: decide._Search, evaluation: Evaluation) -> None:
    search._collect(evaluation, why("step_failed", step="implement", problem="gone"))


class _Forgetful(_Patched):
    patch = (decide._Search, "_follow_join", _give_up)


class NumberBySpeed(Bug):
    """Ideas are numbered in the order in which they came."""

    kind = "tree"

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return _ByArrival(state, parts)


_sort_ideas: Final = decide._Search._sort_ideas


def _sort_by_arrival(search: decide._Search, nodes: Sequence[Node]) -> Any:
    def find_end(idea: Idea) -> float:
        job = search.context.state.jobs[f"{idea.node}_ideas"]
        return job.attempts[-1].ended_at or 0.0

    kept, skipped = _sort_ideas(search, nodes)
    return tuple(sorted(kept, key=find_end)), skipped


class _ByArrival(_Patched):
    patch = (decide._Search, "_sort_ideas", _sort_by_arrival)


class PromoteTwice(Bug):
    """All that was ever evaluated is ranked again at the end of each depth."""

    kind = "tree"

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        return _RanksAll(state, parts)


class _RanksAll(_Patched):
    patch = (
        Tree,
        "list_here",
        lambda tree: [one for one in tree.evaluations.values() if one.idea],
    )


class CountTrialsOfTrees(CountTrials):
    """The same, of a search: its candidates fail as a matter of course."""

    kind = "tree"


class MoveRefs(Bug):
    """Refs are moved whatever they hold."""

    kind = "tree"

    def trees(self, trees: SimTrees) -> SimTrees:
        trees.git.compares = False
        return trees


class OfResearch(Bug):
    """One function of the research loop is another one."""

    kind = "research"
    patch: ClassVar[tuple[Any, str, Callable[..., Any]]]

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        kind = type(type(self).__name__, (_Patched,), {"patch": self.patch})
        made: Engine = kind(state, parts)
        return made


_list_open: Final = Research.list_open


class DecideTwice(OfResearch):
    """An engine that takes over does once more what was done about answers."""

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        taken = set[str]()

        def list_more(research: Research, *roles: Any) -> list[Consultation]:
            if roles:
                return _list_open(research, *roles)
            known = research.consultations.values()
            done = [one for one in known if one.decided and one.id not in taken]
            taken.update(research.consultations)
            return [*_list_open(research), *done]

        self.patch = (Research, "list_open", list_more)  # type: ignore[misc]
        return super().engine(state, parts)


class LoseStarted(OfResearch):
    """An engine that goes on gives up the runs that it finds."""

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        lost = {*known.live} if (known := find_research(state)) else set[str]()

        def follow(loop: research_loop._Loop) -> None:
            for run in loop.research.list_live():
                if run.id in lost:
                    judge_run(loop.context, loop.research, run, "it is gone")
            lost.clear()
            _follow_runs(loop)

        self.patch = (research_loop._Loop, "_follow_runs", follow)  # type: ignore[misc]
        return super().engine(state, parts)


_follow_runs: Final = research_loop._Loop._follow_runs


class LoseListed(OfResearch):
    """An engine that goes on has the list without its last item."""

    def engine(self, state: SessionState, parts: Parts) -> Engine:
        lost = find_research(state)
        names = [one.id for one in lost.items[-1:]] if lost else []

        def choose(research: Research, *more: Any) -> Any:
            left = tuple(one for one in research.items if one.id not in names)
            return choose_now(_change(research, items=left), *more)

        self.patch = (research_loop, "choose_now", choose)  # type: ignore[misc]
        return super().engine(state, parts)


_MILESTONES: Final = (75, 50, 25, 10)


class MissMilestone(OfResearch):
    """A milestone is told only while just so much is left."""

    patch = (
        research_loop,
        "list_crossed",
        lambda research, uses: [
            one
            for use in uses
            for percent in _MILESTONES
            if abs(100 * use.left - percent) < 1
            and (one := Milestone(use.name, percent)) not in research.milestones
        ],
    )


class AskForEver(OfResearch):
    """An empty answer is a reason to ask for another one."""

    patch = (
        research_loop,
        "list_fired",
        lambda research, *more: list_fired(
            _change(research, was_low=bool(research.triggers)), *more
        ),
    )


class Starve(OfResearch):
    """No room is kept for an item that others overtake."""

    patch = (
        research_loop,
        "choose_now",
        lambda research, *more: choose_now(_change(research, overtaken={}), *more),
    )


def _change(research: Research, **fields: Any) -> Research:
    made = copy(research)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class KillAnother(OfResearch):
    """A run is ended that was started anew since the agent was told of it."""

    patch = (decision.Proposal, "_is_anew", lambda _proposal, _run: False)


class ApplyVoid(OfResearch):
    """Nobody looks whether a line still can be done."""

    patch = (decision.Proposal, "_find_reason", lambda _proposal, _line, _lines: "")


BUGS: Final[Mapping[str, Callable[[], Bug]]] = {
    "drop_intent": DropIntent,
    "trust_empty": TrustEmpty,
    "forget_claim": ForgetClaim,
    "apply_before_journal": ApplyBeforeJournal,
    "ignore_epoch": IgnoreEpoch,
    "time_by_wall": TimeByWall,
    "count_trials": CountTrials,
    "crowd_slots": CrowdSlots,
    "lose_queued": LoseQueued,
    "number_by_speed": NumberBySpeed,
    "promote_twice": PromoteTwice,
    "count_candidates": CountTrialsOfTrees,
    "move_refs": MoveRefs,
    "decide_twice": DecideTwice,
    "lose_started": LoseStarted,
    "lose_listed": LoseListed,
    "miss_milestone": MissMilestone,
    "ask_for_ever": AskForEver,
    "starve": Starve,
    "kill_another": KillAnother,
    "apply_void": ApplyVoid,
}
