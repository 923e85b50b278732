"""Sends what is pending *and* synced, each effect once at a time. Of one that a former
engine ordered, its recovery decides. What came of it returns as an observation.

Plans that join a running session: what is asked of planning, and what may join.
Pure. A plan joins in one commit, or is refused with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from autoexp_tui.conditions.bindings import bind
from autoexp_tui.conditions.files import FileCondition, Places, group_awaited
from autoexp_tui.effects import effects
from autoexp_tui.effects.outside import OutsideEffect, PoolName
from autoexp_tui.engine import executor_port as port
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import ports
from autoexp_tui.engine.observations import Observation
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext, rules_of
from autoexp_tui.model.effect import Effect, TaskId
from autoexp_tui.model.errors import AutoexpError, EnvironmentFailed, Problem
from autoexp_tui.model.facts import Fact, FileStat, Matches, OutsideKey
from autoexp_tui.model.ids import digest, format_filename
from autoexp_tui.model.outputs import FileIdentity
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.state import JobRecord, PendingEffect, SessionState
from autoexp_tui.model.wording import sentence
from autoexp_tui.planning.validate import (
    find_shared_directories,
    validate_execution_plan,
)
from autoexp_tui.telemetry.metric_files import locate_files

PROBE_SECONDS = 2.0
"""Between questions about a submission in doubt."""
MOST_SENDING = 4
"""Submissions at a time whose directories lie on one file system, which may hang."""


@dataclass(slots=True)
class Dispatcher:
    """Keeps which effects are under way; holds no state that must survive."""

    outside: ports.Parts
    post: Callable[[Observation], None]
    monotonic: Callable[[], float]
    in_flight: set[str] = field(default_factory=set)
    in_doubt: set[str] = field(default_factory=set)
    not_before: dict[str, float] = field(default_factory=dict)
    """Effect -> monotonic seconds before which it is left alone."""
    refused: Counter[str] = field(default_factory=Counter)
    """How often in a row a submission that is pending came to nothing, by effect."""
    wall_ahead: float = 0.0
    """Of the session, as its tasks have it."""
    _tasks: dict[TaskId, port.Task] = field(default_factory=dict)
    _sending: dict[str, str] = field(default_factory=dict)
    """Submission under way -> the file system that it is prepared on."""
    _awaited: Mapping[str, Sequence[FileCondition]] = field(default_factory=dict)
    """Job -> what others wait for that it writes."""
    _awaited_for: Plan | None = None
    looking: dict[str, float] = field(default_factory=dict)
    """Effect -> monotonic seconds at which a look at a run was first sent."""

    def dispatch(self, state: SessionState, now: float) -> None:
        """Send every pending effect that is neither under way nor told to rest."""
        wall_ahead = state.utc - state.t
        if abs(wall_ahead - self.wall_ahead) >= 1.0:
            self._tasks.clear()  # they tell when they were ordered, by that clock
            self.wall_ahead = wall_ahead
        for pending in list(state.pending.values()):
            effect, effect_id = pending.effect, pending.effect_id
            if effect_id in self.in_flight or self.not_before.get(effect_id, now) > now:
                continue
            if isinstance(effect, effects.SubmitTasks):
                place = self.outside.place_of(
                    state.jobs[effect.tasks[0][0]].spec.output_dir
                )
                if [*self._sending.values()].count(place) >= MOST_SENDING:
                    continue
                self._sending[effect_id] = place
            if isinstance(effect, effects.CaptureEvidence):
                self.looking.setdefault(effect_id, now)
            self._send(state, pending)

    def next_at(self, state: SessionState) -> float | None:
        """When a resting effect wants to be sent again, monotonic seconds."""
        resting = [
            at
            for effect, at in self.not_before.items()
            if effect in state.pending and effect not in self.in_flight
        ]
        return min(resting, default=None)

    def note_answer(self, effect_id: str) -> None:
        """An effect's answer is in."""
        self.in_flight.discard(effect_id)
        self._sending.pop(effect_id, None)
        self.not_before.pop(effect_id, None)

    def rest(self, effect_id: str, seconds: float) -> float:
        """The effect is not over: leave it alone so long; returns until when."""
        self.note_answer(effect_id)
        until = self.not_before[effect_id] = self.monotonic() + seconds
        return until

    def rest_alike(self, state: SessionState, job: str, until: float) -> None:
        """Leave alone all submissions that ask for the same: they share its limit."""
        key = state.jobs[job].spec.resources.key
        for pending in state.pending.values():
            effect, effect_id = pending.effect, pending.effect_id
            if (
                isinstance(effect, effects.SubmitTasks)
                and effect_id not in self.in_doubt
                and effect_id not in self.in_flight
                and state.jobs[effect.tasks[0][0]].spec.resources.key == key
            ):
                self.not_before[effect_id] = until

    def settle(
        self, context: DecisionContext, effect_id: str, outcome: str, detail: str
    ) -> None:
        """The effect is over; `outcome`: `ok`, or else it failed."""
        came: Literal["ok", "failed"] = "ok" if outcome == "ok" else "failed"
        context.draft.emit(
            events.EffectSettled(effect_id=effect_id, outcome=came, detail=detail)
        )
        self.forget(effect_id)

    def forget(self, effect_id: str) -> None:
        """The effect is settled."""
        self.note_answer(effect_id)
        self.in_doubt.discard(effect_id)
        self.looking.pop(effect_id, None)

    def find_task(self, job: JobRecord, number: int) -> port.Task:
        """One attempt as the executor sees it."""
        attempt = job.attempts[number - 1]
        known = self._tasks.get((job.name, number))
        current = (attempt.executor_id, attempt.token)
        if known is not None and (known.executor_id, known.token) == current:
            return known
        made = port.task_of(
            job.spec,
            number,
            str(self.outside.attempt_dir(job.name, number)),
            resume=attempt.resume,
            token=attempt.token,
            executor_id=attempt.executor_id,
            ordered_at=attempt.ordered_at + self.wall_ahead,
        )
        self._tasks[job.name, number] = made
        return made

    def _send(self, state: SessionState, pending: PendingEffect) -> None:
        outside = self.outside
        match pending.effect:
            case effects.SubmitTasks() as submit:
                call = self._make_submit(state, pending.effect_id, submit)
                self._run("executor", pending, call, "submit")
            case effects.CancelTasks() as cancel:
                jobs = ((state.jobs[job], number) for job, number in cancel.tasks)
                tasks = [self.find_task(job, number) for job, number in jobs]
                self._run("executor", pending, lambda: outside.executor.cancel(tasks))
            case effects.ComposeJob(job=job, overrides=overrides):
                plan = state.plan_of(job)
                if plan is not None:
                    self._find(
                        "planner",
                        pending,
                        lambda: outside.planner.compose(plan, job, overrides),
                        is_planning=True,
                    )
            case effects.LookForCheckpoint() as look:
                self._find("executor", pending, lambda: outside.checkpoints.find(look))
            case effects.LookAtFiles() as files:
                keys = self._list_awaited_keys(state, files.job)
                self._find("executor", pending, lambda: self._find_files(keys))
            case effects.MoveCheckpoint() as move:
                self._find("executor", pending, lambda: outside.checkpoints.move(move))
            case effects.CaptureEvidence() as capture:
                self._send_capture(state, pending, capture)
            case effects.PlanJobs() | effects.AddJob() as further:
                self._send_further(state, pending, further)
            case effect:
                self._send_other(state, pending, effect)

    def _run(
        self,
        pool: ports.PoolKey,
        pending: PendingEffect,
        call: Callable[[], object],
        what: str = "",
    ) -> None:
        """Have `call` made in the pool; what it gives is the answer."""
        effect_id, what = pending.effect_id, what or pending.effect.kind

        def done(answer: object, problem: BaseException | None) -> None:
            if problem is not None:
                self.post(seen.call_failed(what, problem, effect_id))
            else:
                self.post(seen.EffectAnswered(effect_id=effect_id, answer=answer))

        self.in_flight.add(effect_id)
        if not self.outside.pools[pool].submit(effect_id, call, done):
            self.in_flight.discard(effect_id)
            self._sending.pop(effect_id, None)

    def _find(
        self,
        pool: ports.PoolKey,
        pending: PendingEffect,
        call: Callable[[], object],
        *,
        is_planning: bool = False,
    ) -> None:
        """Run a call whose value is the answer; `is_planning`: problems have hints."""

        def answer() -> object:
            try:
                return call()
            except AutoexpError as error:
                return seen.Problem(str(error) if is_planning else error.line)

        self._run(pool, pending, answer)

    def _send_other(
        self, state: SessionState, pending: PendingEffect, effect: Effect
    ) -> None:
        """Send what says itself how; where it cannot be sent, that is its answer."""
        try:
            assert isinstance(effect, OutsideEffect), f"nobody sends a {effect.kind}"
            call, pool = effect.send(self.outside, state), effect.pool
            assert pool in get_args(PoolName), f"there is no pool `{pool}`"
        except Exception as bug:  # noqa: BLE001 - somebody else's may raise anything
            self.in_flight.add(pending.effect_id)
            self.post(seen.call_failed(effect.kind, bug, pending.effect_id))
            return
        self._run(pool, pending, call)

    def _make_submit(
        self, state: SessionState, effect_id: str, submit: effects.SubmitTasks
    ) -> Callable[[], port.SubmitAnswer | port.AdoptAnswer]:
        """The call that sends a submission, or asks for one that is in doubt."""
        outside, tasks = self.outside, []
        jobs = [state.jobs[job] for job, _ in submit.tasks]
        for job, (_, number) in zip(jobs, submit.tasks, strict=True):
            task = self.find_task(job, number)  # and what counts only while it is sent
            if places := locate_files(rules_of(state, job.spec), job.spec):
                task = replace(task, metric_places=places)
            if nodes := state.excluded_nodes:
                task = replace(task, resources=task.resources.exclude(nodes))
            tasks.append(task)
        attempt = jobs[0].attempts[submit.tasks[0][1] - 1]
        submission = port.Submission(
            token=submit.token,
            session=state.session,
            tasks=tuple(tasks),
            ordered_at=attempt.ordered_at + state.wall_ahead,
        )
        specs = [job.spec for job in jobs]
        plans = [state.plan_of(job.name) for job in jobs]

        def adopt() -> port.AdoptAnswer:
            try:
                return outside.executor.adopt([submission])
            except OSError as error:
                return port.AdoptAnswer(error=str(error))

        def send() -> port.SubmitAnswer:
            try:
                outside.preparation.prepare(submission, specs, plans)
            except AutoexpError as error:
                return port.not_prepared(error)
            try:
                return outside.executor.submit(submission)
            except OSError as error:  # it may have been sent before this
                return port.Uncertain(message=str(error))

        return adopt if effect_id in self.in_doubt else send

    def _send_further(
        self,
        state: SessionState,
        pending: PendingEffect,
        effect: effects.PlanJobs | effects.AddJob,
    ) -> None:
        """Make and store a plan that is to join; it joins when that is known."""
        at, outside = pending.ordered_utc, self.outside
        request = one = None
        if isinstance(effect, effects.PlanJobs):
            request = build_planning_request(state, effect, at)
        else:
            one = build_job_plan(state, pending.effect_id, effect, at)

        def call() -> StoredPlan | None:
            plan = outside.planner.plan(request) if request else one
            return StoredPlan(plan, outside.store_plan(plan)) if plan else None

        self._find("planner", pending, call, is_planning=True)

    def _send_capture(
        self,
        state: SessionState,
        pending: PendingEffect,
        capture: effects.CaptureEvidence,
    ) -> None:
        effect_id, source = pending.effect_id, self.outside.evidence
        job = state.jobs[capture.job]
        task, attempt = self.find_task(job, capture.attempt), job.attempts
        termination = ports.TerminationContext(
            task=task,
            run=capture.run,
            node=attempt[capture.attempt - 1].node,
            log_path=attempt[capture.attempt - 1].log_path,
            directory=find_evidence_directory(task.attempt_dir, capture),
            reason=sentence(pending.why, pending.ordered_utc) if pending.why else "",
            log_only=capture.log_only,
            seconds=capture.seconds,
        )

        def call() -> ports.Kept:
            if source is not None and effect_id in self.in_flight:
                return source.capture(termination)
            return ports.Kept(directory="", summary="nothing was looked at")

        self._find("evidence", pending, call)

    def _find_files(self, keys: Sequence[OutsideKey]) -> tuple[FileIdentity, ...]:
        """The files that lie there; blocks; raises EnvironmentFailed."""
        files: dict[str, FileIdentity] = {}
        for fact in self.outside.facts.observe_all(keys):
            if fact.error:
                raise EnvironmentFailed(fact.error)
            files |= {file.path: file for file in list_files(fact)}
        return tuple(files.values())

    def _list_awaited_keys(self, state: SessionState, job: str) -> list[OutsideKey]:
        """What tells which files lie there of what others wait for."""
        if state.plan is not None and state.plan is not self._awaited_for:
            self._awaited_for = state.plan
            self._awaited = group_awaited(state.plan.jobs)

        def value(name: str, key: str) -> str | None:
            return state.jobs[name].metadata.get(key)

        found = [
            bind(part, value, state.jobs)[0] for part in self._awaited.get(job, ())
        ]
        keys: list[OutsideKey] = [part.file_key for part in found if part is not None]
        return list(dict.fromkeys(keys))


def list_files(fact: Fact) -> Sequence[FileIdentity]:
    """The files that a look has found."""
    value = fact.value
    if isinstance(value, Matches):
        return value.files
    file = value.file if isinstance(value, FileStat) else None
    return (file,) if file is not None else ()


def find_evidence_directory(attempt_dir: str, capture: effects.CaptureEvidence) -> str:
    """Where it is kept: `evidence/<number>-<name>` beside the attempt's records."""
    name = f"{capture.number}-{format_filename(capture.name)}"
    return str(Path(attempt_dir, "evidence", name))


MOST_TOLD = 3
"""Problems of a plan that are told where it is refused."""


class StoredPlan(NamedTuple):
    """A plan that is to join, beside the journal."""

    plan: Plan
    sha: str


def build_planning_request(
    state: SessionState, effect: effects.PlanJobs, ordered_at: float
) -> ports.FurtherPlan | None:
    """What planning is asked; None when the session has no plan to start from."""
    base = state.plan_of(effect.job)
    if base is None:
        return None
    trigger = state.jobs[effect.job].spec
    return ports.FurtherPlan(
        base=base,
        config_ref=effect.config_ref,
        config_path=effect.config_path,
        overrides=effect.overrides,
        known=tuple(_list_known_jobs(state)),
        stage=trigger.stage,
        family=trigger.family,
        families=len({job.spec.family for job in state.jobs.values()}),
        now=ordered_at,
    )


def _list_known_jobs(state: SessionState) -> Iterator[tuple[str, str, str]]:
    for job in state.jobs.values():
        yield job.name, job.spec.output_dir, job.spec.log_dir


def build_job_plan(
    state: SessionState, effect_id: str, effect: effects.AddJob, ordered_at: float
) -> Plan | None:
    """The plan of a job that a rule made; None when there is none to be like."""
    base = state.plan_of(effect.job)
    if base is None:
        return None
    spec = effect.spec
    whose = Places(
        [*_list_known_jobs(state), (spec.name, spec.output_dir, spec.log_dir)]
    )
    start = tuple(map(whose.with_writers, spec.start_conditions))
    cancel = tuple(map(whose.with_writers, spec.cancel_conditions))
    waits = {name for condition in start for name in whose.list_awaited(condition)}
    before = [name for name in state.order if name in waits]
    made = replace(
        spec,
        start_conditions=start,
        cancel_conditions=cancel,
        depends_on=tuple(before),
    )
    return replace(
        base,
        plan_id=digest(effect_id, spec.name),
        config_ref="",
        overrides=(),
        created_at=ordered_at,
        jobs=(made,),
        edges=tuple(Edge(before=b, after=spec.name, mode="waits") for b in before),
        monitoring=rules_of(state, state.jobs[effect.job].spec),
        rule_sets={},
        warnings=(),
        environment={},
    )


def find_hindrance(state: SessionState, plan: Plan) -> str:
    """Why a plan cannot join; empty when it can."""
    new = {job.name for job in plan.jobs if job.name not in state.jobs}
    specs: list[JobSpec] = [job.spec for job in state.jobs.values()]
    specs += [job for job in plan.jobs if job.name in new]
    shared = find_shared_directories(specs)  # that two jobs would write into
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
        *(problem for problem in shared if problem.job in new),
        *validate_execution_plan(plan, known=state.jobs).errors,
    ]
    more = f" (and {len(found) - MOST_TOLD} more)" if len(found) > MOST_TOLD else ""
    return "; ".join(str(problem) for problem in found[:MOST_TOLD]) + more
