"""What a search does next. Nothing here knows how fast anybody was: ideas are numbered
in the order of nodes and files, calls know closed depths alone, and a depth is ranked
when all of it has ended. It costs what is under way, not what was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from autoexp_tui.actions.orders import (
    ask_person,
    emit_order,
    emit_order_once,
    end_jobs,
    is_ordered,
)
from autoexp_tui.events.jobs import JobRevived
from autoexp_tui.model.policy import End, Policy
from autoexp_tui.model.states import ACTIVE, Cause, JobState, Why, why
from autoexp_tui.model.wording import sentence, short
from autoexp_tui.text.spelling import join_some
from autoexp_tui.tree import effects, events
from autoexp_tui.tree.ideas import dedupe_ideas
from autoexp_tui.tree.jobs import (
    IMPLEMENT,
    INFRASTRUCTURE,
    describe_end,
    list_job_names,
    measure_runs,
)
from autoexp_tui.tree.questions import (
    BEAM,
    SEARCH,
    apply_answer,
    find_breaker,
    list_beam_lines,
)
from autoexp_tui.tree.ranking import rank_evaluations
from autoexp_tui.tree.state import (
    BASELINE,
    PART,
    ROOT,
    Evaluation,
    Idea,
    Node,
    Ranked,
    SkippedIdea,
    Tree,
    tree_of,
)

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.model.state import JobRecord

VIEWS_SECONDS: Final = 30.0
"""Between two writes of the files of a search, but for ends of depths."""


class TreePolicy(Policy):
    """The beam tree."""

    title: ClassVar[str] = "Tree"
    asks: ClassVar[tuple[str, ...]] = (BEAM, SEARCH)

    def decide(self, context: DecisionContext) -> float | None:
        tree = tree_of(context.state)
        search = _Search(context, tree)
        if tree.root_commit:
            return search.go_on()
        if not tree.stopped:
            emit_order_once(context, effects.OpenTree(run=tree.run))
        return None

    def is_open(self, part: Any) -> str:
        tree: Tree = part
        is_closed = not (tree.open or tree.is_listed or tree.is_cleaning)
        is_shown = not tree.root_commit or tree.shown == tree.stamp
        if tree.stopped and is_closed and is_shown:
            return ""
        most = tree.options.max_depth
        told = f"depth {min(tree.depth + 1, most)} of {most}"
        if tree.agents_wait:
            told += f": {short(tree.agents_wait)}"
        return f"{told}: waits for an answer" if tree.held else told

    def find_exit(self, part: Any) -> End | None:
        tree: Tree = part
        if tree.held is not None:
            return End(_GUARD, f"paused: {sentence(tree.held, 0.0)}")
        if tree.stopped is None or self.is_open(tree):
            return None
        code = _EXITS.get(tree.stopped.code, 0)
        return End(code, f"ended: {sentence(tree.stopped, 0.0)}")

    def list_lines(self, snapshot: Snapshot) -> Sequence[str]:
        tree: Tree = snapshot.parts[PART]
        lines = [f"ended: {short(tree.stopped)}"] if tree.stopped else []
        lines += [f"paused: {short(tree.held)}"] if tree.held else []
        counts = f"{len(tree.open)} open, {len(tree.waiting)} waiting"
        lines.append(f"depth {tree.depth}, {counts}")
        for one in tree.list_here():
            reason = one.judgement.reason if one.judgement else None
            title, told = one.idea.title if one.idea else "", reason and short(reason)
            lines.append(f"{one.id} on {one.node}: {title} {told or ''}")
        return lines


_GUARD: Final = 6
_EXITS: Final = {
    **dict.fromkeys(("tree_broken", "no_baseline", "no_ideas", "agent_login"), 1),
    "search_refused": _GUARD,
}
"""Exit codes of a search that ended, where they are not 0."""


class _Search:
    """A tree in one commit."""

    def __init__(self, context: DecisionContext, tree: Tree) -> None:
        self.context, self.tree, self.options = context, tree, tree.options
        self.wake: float | None = None

    def go_on(self) -> float | None:
        """One step of each thing that there is to do; when to look again (lived)."""
        tree = self.tree
        for name in tree.open:
            self._follow(tree.evaluations[name])
        self._work_in_git()
        self._write_views()
        if self._measure_root():
            return self.wake
        is_waiting = self._wait_for_agents()
        is_paused = is_waiting or self.context.state.paused is not None
        if not (tree.stopped or self._is_held() or is_paused):
            if not tree.is_listed:
                self._list_depth()
            self._open_next()
        if tree.is_listed and not (tree.open or tree.waiting or tree.held):
            self._close_depth()
        return self.wake

    # An evaluation that is open

    def _follow(self, evaluation: Evaluation) -> None:
        jobs = self._list_jobs(evaluation)
        if not jobs:
            self._follow_join(evaluation)
        elif not all(job.ended for job in jobs):
            self._watch_time(evaluation, jobs)
        elif evaluation.id in self.tree.blocked and not evaluation.ending:
            pass  # until its agent may be called again
        elif failed := self._find_failed(jobs):
            if not self._try_again(evaluation, failed):
                self._collect(evaluation, self._tell_end(evaluation, failed))
        else:
            self._collect(evaluation, evaluation.ending)

    def _tell_end(self, evaluation: Evaluation, job: JobRecord) -> Why | None:
        """Why an evaluation has no result; None: rows of a plan may be there. A step
        may take as long as all together: which limit is met first says nothing."""
        if evaluation.ending or (self.tree.sweep and job.spec.place == "main"):
            return evaluation.ending
        limit = self.options.eval_timeout_seconds
        if limit and job.cause is Cause.TIMEOUT:
            return why("eval_timeout", seconds=limit)
        return why("step_failed", step=job.spec.stage, problem=describe_end(job))

    def _list_jobs(self, evaluation: Evaluation) -> list[JobRecord]:
        known = self.context.state.jobs
        names = list_job_names(self.tree, evaluation)
        return [known[name] for name in names if name in known]

    def _follow_join(self, evaluation: Evaluation) -> None:
        """Its jobs are not there yet: they may have been refused."""
        if problem := self.context.state.refused_joins.get(evaluation.asker):
            self._collect(evaluation, problem)

    def _find_failed(self, jobs: Sequence[JobRecord]) -> JobRecord | None:
        """The job that ended the evaluation: the others were skipped with it. Of jobs
        of a plan, whose rows tell how they ended, only one that may be tried again."""
        failed = [job for job in jobs if job.state is not JobState.COMPLETED]
        steps = [job for job in failed if job.spec.place == "beside"]
        if self.tree.sweep and not steps:
            failed = [job for job in failed if job.cause in INFRASTRUCTURE]
        return next(iter(failed), None)

    def _try_again(self, evaluation: Evaluation, job: JobRecord) -> bool:
        """Whether it ended by what is not its own, and is run again."""
        is_own = not self._is_lost(job) or evaluation.ending
        if is_own or evaluation.retries >= self.options.eval_retries:
            return False
        if job.spec.stage == IMPLEMENT and self._is_calling_enough():
            return True  # once another call has ended
        self.context.draft.emit(events.EvaluationRetried(evaluation=evaluation.id))
        self._revive(self._list_jobs(evaluation), evaluation.asker)
        return True

    def _is_lost(self, job: JobRecord) -> bool:
        """Whether its end is not its own. A signal ends no step by itself: what it runs
        and how that ended, it tells."""
        is_step = not self.tree.sweep or job.spec.place == "beside"
        return job.cause in INFRASTRUCTURE or (is_step and job.cause is Cause.SIGNAL)

    def _revive(self, jobs: Iterable[JobRecord], by: str) -> None:
        reason = why("revived_by", by=by)
        for one in jobs:
            if one.ended and one.state is not JobState.COMPLETED:
                revived = JobRevived(job=one.name, from_checkpoint=False, why=reason)
                self.context.draft.emit(revived)

    def _wait_for_agents(self) -> bool:
        """Whether no agent may be called; those whose calls met that go on after it."""
        tree, now = self.tree, self.context.now
        if tree.agents_wait is None:
            return False
        if now.t < tree.resume_at:
            self._wake_at(now.lived + tree.resume_at - now.t)
            return True
        for name in tree.blocked:
            one = tree.evaluations.get(name)
            if one is None:
                node = tree.nodes[name]
                self._revive([self.context.state.jobs[node.ideas_job]], node.asker)
            elif one.judgement is None and not one.ending:
                self._revive(self._list_jobs(one), one.asker)
        self.context.draft.emit(events.AgentsResumed())
        return False

    def _wake_at(self, lived: float) -> None:
        self.wake = lived if self.wake is None else min(self.wake, lived)

    def _watch_time(self, evaluation: Evaluation, jobs: Sequence[JobRecord]) -> None:
        """End what takes longer than all its steps may take together."""
        limit, reason = self.options.eval_timeout_seconds, evaluation.ending
        live = [job for job in jobs if job.state in ACTIVE]
        if limit and not reason:
            now = self.context.now
            used = measure_runs(jobs, now)
            if used >= limit:
                reason = why("eval_timeout", seconds=limit)
                stopped = events.EvaluationStopped(evaluation=evaluation.id, why=reason)
                self.context.draft.emit(stopped)
            elif live:
                self._wake_at(now.lived + limit - used)
        if reason is not None:
            end_jobs(self.context, jobs, reason, Cause.BUDGET)

    def _collect(self, evaluation: Evaluation, ending: Why | None) -> None:
        emit_order_once(
            self.context, effects.CollectResult(evaluation=evaluation.id, ending=ending)
        )

    def _is_held(self) -> bool:
        """Whether nothing is opened before a person says that the depth goes on."""
        tree, reason = self.tree, self.tree.held
        is_excused = reason is not None or tree.excused == tree.depth
        if not is_excused and (reason := find_breaker(tree)):
            self.context.draft.emit(events.DepthHeld(why=reason))
        if reason is None:
            return False
        problem = sentence(reason, self.context.now.t)
        title = f"{problem}. Go on with the search?"
        ask = ask_person(self.context, f"{SEARCH}/{tree.depth}", title)
        if ask.approved:
            self.context.draft.emit(events.DepthResumed(depth=tree.depth))
        elif ask.approved is False:
            self._stop("search_refused", by=ask.by, reason=ask.reason, problem=problem)
        return not ask.approved

    # What there is to open

    def _measure_root(self) -> bool:
        """Whether the root and its noise are still to be measured: nothing is compared
        before."""
        tree, known = self.tree, self.tree.evaluations
        is_measured = tree.nodes[ROOT].baseline is not None
        if tree.stopped:
            return not is_measured
        names = tree.repeats if is_measured else [BASELINE]
        for name in names:
            if name not in known and not (self._is_full or self.context.state.paused):
                effects.open_evaluation(self.context, name, ROOT, None)
        judged = [known[name].judgement for name in names if name in known]
        if not is_measured and (root := next(filter(None, judged), None)):
            problem = sentence(root.why, self.context.now.t) if root.why else ""
            self._stop("no_baseline", problem=problem)
        return not is_measured or len([*filter(None, judged)]) < len(names)

    @property
    def _is_full(self) -> bool:
        return len(self.tree.open) >= max(1, self.options.max_parallel_evals)

    def _list_depth(self) -> None:
        """See to ideas for each node of the beam; then say which are tried."""
        tree = self.tree
        if not tree.frontier:
            self._stop_without_nodes()
            return
        if tree.depth >= self.options.max_depth:
            self._stop("max_depth_reached", depths=self.options.max_depth)
            return
        nodes = [tree.nodes[name] for name in tree.frontier]
        for node in nodes:
            if node.ready and node.ideas is None:
                self._seek_ideas(node)
        if all(node.ready and node.ideas is not None for node in nodes):
            kept, skipped = self._sort_ideas(nodes)
            listed = events.DepthListed(depth=tree.depth, ideas=kept, skipped=skipped)
            self.context.draft.emit(listed)

    def _stop_without_nodes(self) -> None:
        """A depth without an idea that is new is another end than one that brought
        nothing good; and a failure, where nobody could propose any."""
        last = self.tree.closed[-1]
        problems = [self.tree.nodes[name].ideas_problem for name in last.expanded]
        if last.ranking:
            self._stop("empty_frontier")
        elif told := join_some([*dict.fromkeys(filter(None, problems))], 3):
            self._stop("no_ideas", problem=told)
        else:
            self._stop("ideas_used_up", depth=last.depth)

    def _seek_ideas(self, node: Node) -> None:
        job = self.context.state.jobs.get(node.ideas_job)
        is_free = not self._is_calling_enough()
        if job is None:
            refused = self.context.state.refused_joins.get(node.asker)
            if refused:
                told = sentence(refused, self.context.now.t)
                found = events.IdeasFound(node=node.id, ideas=(), problem=told)
                self.context.draft.emit(found)
            elif is_free:
                emit_order_once(self.context, effects.WritePack(node=node.id))
        elif job.ended and node.id not in self.tree.blocked:
            if not self._is_lost(job) or len(job.attempts) > self.options.eval_retries:
                problem = "" if job.state is JobState.COMPLETED else describe_end(job)
                emit_order_once(
                    self.context, effects.ReadIdeas(node=node.id, problem=problem)
                )
            elif is_free:
                self._revive([job], node.asker)

    def _is_calling_enough(self) -> bool:
        """Of ideas and of implementations, under way or about to be."""
        tree, most = self.tree, self.options.llm_max_inflight
        if most is None:
            return False
        jobs, waits = self.context.state.jobs, map(tree.evaluations.get, tree.open)
        made = (one.name_job(IMPLEMENT) for one in waits if one and one.idea)
        count = sum(name not in jobs or not jobs[name].ended for name in made)
        for name in tree.frontier:
            job = jobs.get(tree.nodes[name].ideas_job)
            is_packed = is_ordered(self.context, effects.WritePack, name)
            count += is_packed or (job is not None and not job.ended)
        return count >= most

    def _sort_ideas(
        self, nodes: Sequence[Node]
    ) -> tuple[tuple[Idea, ...], tuple[SkippedIdea, ...]]:
        """In the order of nodes and files, without what was tried before."""
        tree, scope = self.tree, self.options.dedupe
        here = [idea for node in nodes for idea in node.ideas or ()]
        paths = {node.id: [*tree.list_ancestors(node.id)][1:] for node in nodes}
        known = {one.id: one for path in paths.values() for one in path}
        known = known if scope != "global" else {**tree.nodes}
        tried = [idea for node in nodes for idea in node.earlier]
        for name, one in known.items():
            tried += one.list_ideas() if name not in paths else ()
        above = {name: [one.id for one in path] for name, path in paths.items()}
        kept, repeats = dedupe_ideas(here, tried, scope, above)
        skipped = (SkippedIdea(idea=one, same_as=same.id) for one, same in repeats)
        return tuple(kept), tuple(skipped)

    def _open_next(self) -> None:
        """Open ideas in their order, as many as may be under way at once."""
        tree, options = self.tree, self.options
        while tree.waiting:
            most = options.max_total_idea_evals
            if most and tree.opened >= most:
                self._stop("max_total_idea_evals_reached", most=most)
                return
            if self._is_full or self._is_calling_enough():
                return
            idea, name = tree.waiting[0], f"e{tree.next_evaluation}"
            effects.open_evaluation(self.context, name, idea.node, idea)

    # The end of a depth

    def _close_depth(self) -> None:
        tree = self.tree
        ranking = self._ask_beam(rank_evaluations(tree.list_here(), self.options))
        if ranking is None:
            return
        number = tree.next_node + sum(one.promoted for one in ranking)
        nodes = tuple(f"n{at}" for at in range(tree.next_node, number))
        closed = events.DepthClosed(depth=tree.depth, ranking=ranking, nodes=nodes)
        self.context.draft.emit(closed)

    def _ask_beam(self, ranking: tuple[Ranked, ...]) -> tuple[Ranked, ...] | None:
        """The ranking as a person leaves it; None: the answer is waited for."""
        tree, promoted = self.tree, [one for one in ranking if one.promoted]
        if self.options.approve != "beam" or not promoted:
            return ranking
        name, title = f"{BEAM}/{tree.depth}", f"Which of depth {tree.depth} go on?"
        lines = list_beam_lines(tree, promoted)
        ask = ask_person(self.context, name, title, lines)
        if ask.approved is None:
            return None
        if not ask.approved and not tree.stopped:
            who = {"by": ask.by, "reason": ask.reason}
            self._stop("beam_refused", depth=tree.depth, **who)
        return apply_answer(ranking, ask)

    def _work_in_git(self) -> None:
        """Make promoted nodes real, and remove what was not promoted."""
        tree = self.tree
        if tree.is_broken or is_ordered(self.context, effects.WorkInGit):
            return
        left = tuple(self._list_due())
        if tree.pruned < len(tree.closed):
            depth = tree.closed[tree.pruned]
            rejected = [one.name for one in depth.ranking if not one.promoted]
            if not tree.pruned:  # and where the root was measured
                known = tree.evaluations.values()
                rejected += [one.id for one in known if one.idea is None]
            out = tuple(rejected)
            work = effects.WorkInGit(nodes=depth.nodes, rejected=out, leftovers=left)
            emit_order(self.context, work)
        elif left:
            work = effects.WorkInGit(leftovers=left, leftovers_only=True)
            emit_order(self.context, work)

    def _list_due(self) -> Iterator[str]:
        """What is tried to be removed again now."""
        now = self.context.now
        for path, one in self.tree.leftovers.items():
            if one.is_given_up:
                continue
            if one.next_retry_at <= now.t:
                yield path
            else:
                self._wake_at(now.lived + one.next_retry_at - now.t)

    def _write_views(self) -> None:
        """The files, as far as they are behind: at the end of a depth and of the search
        at once, in between now and then."""
        tree, lived = self.tree, self.context.now.lived
        stamp = tree.stamp
        if stamp == tree.shown:
            return
        due = tree.shown_lived + VIEWS_SECONDS
        if stamp[:2] != tree.shown[:2] or tree.stopped or lived >= due:
            emit_order_once(self.context, effects.WriteViews(stamp=stamp))
        else:
            self._wake_at(due)

    def _stop(self, code: str, **args: str | float) -> None:
        self.context.draft.emit(events.TreeStopped(why=why(code, **args)))
