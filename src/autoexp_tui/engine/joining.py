"""Plans that join a session: what is checked before they may, at the cost of what
joins. Names and directories of the jobs that are there are kept as those come."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from autoexp_tui.conditions.bindings import find_unsafe
from autoexp_tui.conditions.files import Places
from autoexp_tui.effects import effects
from autoexp_tui.effects.effects import Settlement
from autoexp_tui.engine.command_handlers import complete_done, kill_jobs
from autoexp_tui.engine.ports import FoundWork, Parts
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext, rules_of
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.event import list_names
from autoexp_tui.model.ids import digest
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.state import Joined, PendingEffect, SessionState, list_newer
from autoexp_tui.model.states import NOT_STARTED, JobState, Why, why
from autoexp_tui.planning.growth import LEFT_OUT
from autoexp_tui.planning.validate import validate_execution_plan

NOT_IN_SCRIPTS = "a value from a log may not come into a script"
MOST_TOLD = 3
"""Problems of a plan that are told where it is refused."""


class StoredPlan(NamedTuple):
    """A plan that is to join, beside the journal."""

    plan: Plan
    sha: str
    work: FoundWork = FoundWork()
    """What there is of it, where that was looked for."""


@dataclass(slots=True)
class JoinChecks:
    """What of a session's jobs those that join are held against. Jobs never leave a
    session, so that it grows as the session does."""

    known: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, output and log directory of each job."""
    families: set[str] = field(default_factory=set)
    _places: Places = field(default_factory=Places)
    _outputs: dict[str, str] = field(default_factory=dict)
    """Output directory -> the job that writes it."""

    def restart(self) -> None:
        """What was followed may not have come to be."""
        self.known, self.families = [], set()
        self._places, self._outputs = Places(), {}

    def follow(self, state: SessionState) -> JoinChecks:
        """Itself, with the jobs that have joined meanwhile."""
        for name in list_newer(state.jobs, len(self.known)):
            spec = state.jobs[name].spec
            self.known.append((name, spec.output_dir, spec.log_dir))
            self.families.add(spec.family)
            self._places.add(*self.known[-1])
            self._outputs.setdefault(posixpath.normpath(spec.output_dir), name)
        return self

    def build_job_plan(
        self,
        state: SessionState,
        pending: PendingEffect,
        effect: effects.AddJob,
    ) -> Plan:
        """The plan of the job that a rule makes."""
        base = state.plan_of(effect.job)
        assert base is not None, "a session without a plan has no jobs"
        joined = self._build_jobs(state, (effect.spec,))
        return replace(
            base.blank(),
            plan_id=digest(pending.effect_id, effect.spec.name),
            created_at=pending.ordered_utc,
            monitoring=rules_of(state, state.jobs[effect.job].spec),
            **joined._asdict(),
        )

    def add_jobs(
        self,
        context: DecisionContext,
        policy: str,
        asked_by: str,
        jobs: Sequence[JobSpec],
    ) -> None:
        """As `DecisionContext.add_jobs`."""
        state, whose = context.state, {"policy": policy, "asked_by": asked_by}
        assert state.base is not None, "a session without a plan has no policy"
        joined = self._build_jobs(state, jobs)
        plan = replace(state.base.blank(), **joined._asdict())
        if problem := self.find_hindrance(state, plan):
            refused = why("not_joined", problem=problem)
            context.draft.emit(events.JoinRefused(why=refused, **whose))
            return
        first = state.highest + 1
        specs = (replace(job, index=at) for at, job in enumerate(joined.jobs, first))
        added = events.JobsAdded(
            specs=tuple(specs), edges=joined.edges, released=True, **whose
        )
        context.draft.emit(added)

    def _build_jobs(self, state: SessionState, specs: Sequence[JobSpec]) -> Joined:
        """The jobs with what they wait for, and the edges of that."""
        self.follow(state)
        own = [(spec.name, spec.output_dir, spec.log_dir) for spec in specs]
        whose = Places(own, beside=self._places)
        places = {spec.name: (1, at) for at, spec in enumerate(specs)}
        jobs, edges = list[JobSpec](), list[Edge]()

        def find_place(name: str) -> tuple[int, int]:
            known = state.jobs.get(name)
            return places[name] if known is None else (0, known.spec.index)

        for spec in specs:
            start = tuple(map(whose.with_writers, spec.start_conditions))
            waits = {name for one in start for name in whose.list_awaited(one)}
            known = (name for name in waits if name in state.jobs or name in places)
            before = sorted(known, key=find_place)
            made = replace(
                spec,
                start_conditions=start,
                cancel_conditions=tuple(
                    map(whose.with_writers, spec.cancel_conditions)
                ),
                depends_on=tuple(before),
                family=spec.family or specs[0].name,
            )
            jobs.append(made)
            edges += (Edge(before=b, after=spec.name, mode="waits") for b in before)
        return Joined(tuple(jobs), tuple(edges))

    def find_hindrance(
        self, state: SessionState, plan: Plan, log_values: tuple[str, ...] = ()
    ) -> str:
        """Why a plan cannot join; empty when it can. `log_values`: what logs have told,
        which must not come into its commands."""
        for job in plan.jobs:
            if value := find_unsafe(job.command, log_values):
                return f"{job.name}: {NOT_IN_SCRIPTS}: {value!r}"
        found = [
            *(
                Problem(
                    "the session has a job of this name",
                    where="project.name",
                    job=job.name,
                    hint="put what differs into it: {checkpoint_iteration}, {attempt}",
                )
                for job in plan.jobs
                if job.name in state.jobs
            ),
            *self._find_shared(state, plan),
            *validate_execution_plan(plan, known=state.jobs).errors,
        ]
        more = f" (and {len(found) - MOST_TOLD} more)" if len(found) > MOST_TOLD else ""
        return "; ".join(str(problem) for problem in found[:MOST_TOLD]) + more

    def _find_shared(self, state: SessionState, plan: Plan) -> Iterator[Problem]:
        """Directories that a new job and one of the session would both write into."""
        self.follow(state)
        for job in plan.jobs:
            path = posixpath.normpath(job.output_dir)
            other = self._outputs.get(path, job.name)
            if other != job.name and job.name not in state.jobs:
                message = f"writes into the same directory as {other}: {path}"
                yield Problem(message, where="project.name", job=job.name)


def read_stored(
    outside: Parts, state: SessionState, effect: effects.JoinJobs
) -> StoredPlan:
    """Read a plan that a person has asked for; blocks."""
    plan = outside.load_plan(effect.sha)
    upstream = tuple(_list_upstream(state, plan))
    work = outside.preparation.find_work(plan, upstream, force=effect.force)
    return StoredPlan(plan, effect.sha, work)


def _list_upstream(state: SessionState, plan: Plan) -> Iterator[JobSpec]:
    """Jobs of the session that those of a plan build on, and so on."""
    found: dict[str, None] = {}
    waiting = [name for job in plan.jobs for name in job.depends_on]
    while waiting:
        name = waiting.pop()
        record = state.jobs.get(name)
        if record is not None and name not in found:
            found[name] = None
            waiting += record.spec.depends_on
            yield record.spec


def join_jobs(
    context: DecisionContext,
    settlement: Settlement,
    checks: JoinChecks,
    effect: effects.JoinJobs,
    made: StoredPlan | None,
    problem: str,
) -> None:
    """Let a plan that a person asked for join, with all that was said of it, in this
    commit; or refuse it, and change nothing."""
    refused = why("not_joined", problem=problem)
    if made is not None:
        refused = _find_refusal(context, checks, effect, made.plan) or why("ok")
    if made is None or refused.code != "ok":
        settlement.end("failed", problem or refused.code)
        context.draft.emit(events.CommandRefused(why=refused))
        return
    context.state.plans[made.sha] = made.plan
    emit, first = context.draft.emit, context.state.highest + 1
    added = events.PlanAdded(sha=made.sha, asked_by=effect.asked_by, first_index=first)
    emit(added)
    if made.work.done:
        emit(events.DoneFound(works=made.work.done))
    if made.work.foreign:
        emit(events.ForeignFilesFound(jobs=made.work.foreign))
    names = tuple(job.name for job in made.plan.jobs)
    done = [context.job(work.job) for work in made.work.done]
    chosen = {*effect.run, *(job.name for job in done)}
    if run := tuple(name for name in names if name in chosen):
        emit(events.JobsReleased(jobs=run))
    if rest := tuple(name for name in names if name not in chosen):
        emit(events.JobsHeld(jobs=rest))
    complete_done(context, done)
    _leave_out(context, effect)
    settlement.end("ok", f"joined: {list_names(names) or 'no job'}")


def _find_refusal(
    context: DecisionContext, checks: JoinChecks, effect: effects.JoinJobs, plan: Plan
) -> Why | None:
    """Why the plan may not join, now that it is there; None: nothing has changed."""
    state = context.state
    moved = [
        name for name, seen in effect.seen if len(state.jobs[name].attempts) != seen
    ]
    moved += [
        name
        for name in effect.hold
        if state.jobs[name].state not in NOT_STARTED and name not in moved
    ]
    if effect.sha in state.joined:
        return why("joined_before")
    if moved:
        return why("stale", jobs=", ".join(moved))
    if unknown := [*{*effect.run} - {job.name for job in plan.jobs}]:
        return why("no_such_job", jobs=", ".join(sorted(unknown)))
    if plan.jobs and (problem := checks.find_hindrance(state, plan)):
        return why("not_joined", problem=problem)
    return None


def _leave_out(context: DecisionContext, effect: effects.JoinJobs) -> None:
    """Hold or end jobs that are no longer planned."""
    reason = why(LEFT_OUT, by=effect.asked_by)
    hold = tuple(
        name for name in effect.hold if context.job(name).state is not JobState.HELD
    )
    if hold:
        context.draft.emit(events.JobsHeld(jobs=hold, why=reason))
    kill_jobs(context, effect.end, reason)
