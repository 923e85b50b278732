"""Sends what is pending *and* synced, each effect once at a time. Of one that a former
engine ordered, its recovery decides. What came of it returns as an observation. Of
plans that join, what is asked of planning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from autoexp_tui.conditions.bindings import bind
from autoexp_tui.conditions.files import FileCondition, group_awaited
from autoexp_tui.effects import effects
from autoexp_tui.effects.effects import OutsideEffect, PoolName
from autoexp_tui.engine import executor_port as port
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import ports
from autoexp_tui.engine.joining import JoinChecks, StoredPlan, read_stored
from autoexp_tui.engine.observations import Observation
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext, rules_of
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.errors import AutoexpError, EnvironmentFailed
from autoexp_tui.model.event import pick
from autoexp_tui.model.facts import FileStat, Matches, OutsideKey
from autoexp_tui.model.ids import format_filename
from autoexp_tui.model.outputs import FileIdentity
from autoexp_tui.model.specs import Place, Plan
from autoexp_tui.model.state import JobRecord, PendingEffect, SessionState
from autoexp_tui.model.wording import sentence
from autoexp_tui.telemetry.metric_files import locate_files

PROBE_SECONDS = 2.0
"""Between questions about a submission in doubt."""
MOST_SENDING = 4
"""Submissions at a time of one place whose directories lie on one file system, which
may hang."""


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
    _sending: dict[str, tuple[Place, str]] = field(default_factory=dict)
    """Submission under way -> where it goes, and the file system that it is prepared
    on."""
    _awaited: Mapping[str, Sequence[FileCondition]] = field(default_factory=dict)
    """Job -> what others wait for that it writes."""
    _awaited_for: Plan | None = None
    joining: JoinChecks = field(default_factory=JoinChecks)
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
                spec = state.jobs[effect.tasks[0][0]].spec
                room = spec.place, self.outside.place_of(spec.output_dir)
                if [*self._sending.values()].count(room) >= MOST_SENDING:
                    continue
                self._sending[effect_id] = room
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
        wants = state.jobs[job].spec.wants
        for pending in state.pending.values():
            effect, effect_id = pending.effect, pending.effect_id
            if (
                isinstance(effect, effects.SubmitTasks)
                and effect_id not in self.in_doubt
                and effect_id not in self.in_flight
                and state.jobs[effect.tasks[0][0]].spec.wants == wants
            ):
                self.not_before[effect_id] = until

    def forget(self, effect_id: str) -> None:
        self.note_answer(effect_id)
        self.in_doubt.discard(effect_id)
        self.looking.pop(effect_id, None)

    def find_task(self, job: JobRecord, number: int) -> port.Task:
        attempt = job.attempts[number - 1]
        known = self._tasks.get((job.name, number))
        current = (attempt.executor_id, attempt.token)
        if known is not None and (known.executor_id, known.token) == current:
            return known
        made = port.task_of(
            job.spec,
            number,
            str(self.outside.attempt_dir(job.name, number)),
            ordered_at=attempt.ordered_at + self.wall_ahead,
            **pick(attempt, "resume", "token", "executor_id"),
        )
        self._tasks[job.name, number] = made
        return made

    def _send(self, state: SessionState, pending: PendingEffect) -> None:
        """Have the effect's call made in its pool; what it gives is the answer, and so
        is that it cannot be sent."""
        effect, effect_id = pending.effect, pending.effect_id
        self.in_flight.add(effect_id)
        try:
            pool, call = self._make_call(state, pending)
        except Exception as bug:  # noqa: BLE001 - somebody else's may raise anything
            self.post(seen.call_failed(effect.kind, bug, effect_id))
            return

        def answer() -> object:
            try:
                return call()
            except AutoexpError as error:
                if isinstance(effect, _ANSWERED):
                    raise
                return seen.Problem(str(error) if pool == "planner" else error.line)

        def done(answer: object, problem: BaseException | None) -> None:
            if problem is not None:
                self.post(seen.call_failed(effect.kind, problem, effect_id))
            else:
                self.post(seen.EffectAnswered(effect_id=effect_id, answer=answer))

        if not self.outside.pools[pool].submit(effect_id, answer, done):
            self.in_flight.discard(effect_id)
            self._sending.pop(effect_id, None)

    def _make_call(
        self, state: SessionState, pending: PendingEffect
    ) -> tuple[ports.PoolKey, Callable[[], object]]:
        outside, effect, at = self.outside, pending.effect, pending.ordered_utc
        match effect:
            case effects.SubmitTasks():
                return "executor", self._make_submit(state, pending.effect_id, effect)
            case effects.CancelTasks():
                jobs = ((state.jobs[job], number) for job, number in effect.tasks)
                tasks = [self.find_task(job, number) for job, number in jobs]
                return "executor", partial(outside.executor.cancel, tasks)
            case effects.ComposeJob(job=job, overrides=overrides):
                plan = state.plan_of(job)
                assert plan is not None, "a session without a plan has no jobs"
                return "planner", lambda: outside.planner.compose(plan, job, overrides)
            case effects.LookForCheckpoint():
                return "executor", partial(outside.checkpoints.find, effect)
            case effects.LookAtFiles():
                keys = self._list_awaited_keys(state, effect.job)
                return "executor", partial(self._find_files, keys)
            case effects.MoveCheckpoint():
                return "executor", partial(outside.checkpoints.move, effect)
            case effects.CaptureEvidence():
                return "evidence", self._make_capture(state, pending, effect)
            case effects.PlanJobs():
                base, trigger = state.plan_of(effect.job), state.jobs[effect.job].spec
                assert base is not None, "a session without a plan has no jobs"
                there = self.joining.follow(state)
                asked = ports.FurtherPlan(
                    base=base,
                    known=tuple(there.known),
                    **pick(effect, "config_ref", "config_path", "overrides"),
                    **pick(trigger, "stage", "family"),
                    families=len(there.families),
                    now=at,
                )
                return "planner", lambda: self._store(outside.planner.plan(asked))
            case effects.AddJobs():
                return "planner", lambda: None
            case effects.AddJob():
                plan = self.joining.build_job_plan(state, pending, effect)
                return "planner", partial(self._store, plan)
            case effects.JoinJobs():
                return "planner", partial(read_stored, outside, state, effect)
        assert isinstance(effect, OutsideEffect), f"nobody sends a {effect.kind}"
        assert effect.pool in get_args(PoolName), f"there is no pool `{effect.pool}`"
        return effect.pool, effect.send(outside, state)

    def _store(self, plan: Plan) -> StoredPlan:
        return StoredPlan(plan, self.outside.store_plan(plan))

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

    def _make_capture(
        self,
        state: SessionState,
        pending: PendingEffect,
        capture: effects.CaptureEvidence,
    ) -> Callable[[], ports.Kept]:
        job, source = state.jobs[capture.job], self.outside.evidence
        task = self.find_task(job, capture.attempt)
        attempt = job.attempts[capture.attempt - 1]
        termination = ports.TerminationContext(
            task=task,
            directory=find_evidence_directory(task.attempt_dir, capture),
            reason=sentence(pending.why, pending.ordered_utc) if pending.why else "",
            **pick(capture, "run", "log_only", "seconds"),
            **pick(attempt, "node", "log_path"),
        )

        def call() -> ports.Kept:
            if source is not None and pending.effect_id in self.in_flight:
                return source.capture(termination)
            return ports.Kept(directory="", summary="nothing was looked at")

        return call

    def _find_files(self, keys: Sequence[OutsideKey]) -> tuple[FileIdentity, ...]:
        """The files that lie there; blocks; raises EnvironmentFailed."""
        files: dict[str, FileIdentity] = {}
        for fact in self.outside.facts.observe_all(keys):
            if fact.error:
                raise EnvironmentFailed(fact.error)
            value = fact.value
            file = value.file if isinstance(value, FileStat) else None
            found = value.files if isinstance(value, Matches) else (file,)
            files |= {one.path: one for one in found if one is not None}
        return tuple(files.values())

    def _list_awaited_keys(self, state: SessionState, job: str) -> list[OutsideKey]:
        """What tells which files lie there of what others wait for."""
        plan = state.plan
        if plan is not None and plan is not self._awaited_for:
            self._awaited_for = plan
            self._awaited = group_awaited(plan.jobs)

        def value(name: str, key: str) -> str | None:
            return state.jobs[name].metadata.get(key)

        found = [
            bind(part, value, state.jobs)[0] for part in self._awaited.get(job, ())
        ]
        keys: list[OutsideKey] = [part.file_key for part in found if part is not None]
        return list(dict.fromkeys(keys))


@dataclass(frozen=True, slots=True)
class Settlement:
    """What becomes of one effect in a commit; see `effects.effects.Settlement`."""

    dispatcher: Dispatcher
    context: DecisionContext
    pending: PendingEffect

    def end(self, outcome: str, detail: str) -> None:
        """The effect is over; `outcome`: `ok`, or else it failed."""
        effect_id = self.pending.effect_id
        came: Literal["ok", "failed"] = "ok" if outcome == "ok" else "failed"
        self.context.draft.emit(
            events.EffectSettled(effect_id=effect_id, outcome=came, detail=detail)
        )
        self.dispatcher.forget(effect_id)

    def rest(self, seconds: float) -> float:
        """The effect is not over: leave it alone so long; returns until when."""
        return self.dispatcher.rest(self.pending.effect_id, seconds)


def find_evidence_directory(attempt_dir: str, capture: effects.CaptureEvidence) -> str:
    """Where it is kept: `evidence/<number>-<name>` beside the attempt's records."""
    name = f"{capture.number}-{format_filename(capture.name)}"
    return str(Path(attempt_dir, "evidence", name))


_ANSWERED = (effects.SubmitTasks, effects.CancelTasks, OutsideEffect)
"""What tells itself what went wrong."""
