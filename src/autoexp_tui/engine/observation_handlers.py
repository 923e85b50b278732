"""What answers from the outside mean: each becomes events in the draft."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from autoexp_tui.actions import checkpoints
from autoexp_tui.actions.orders import end_job, end_look
from autoexp_tui.conditions.log_values import find_unsafe
from autoexp_tui.effects.effects import (
    AddJob,
    CaptureEvidence,
    ComposeJob,
    LookAtFiles,
    LookForCheckpoint,
    MoveCheckpoint,
    PlanJobs,
)
from autoexp_tui.effects.outside import OutsideEffect, warn_of_failure
from autoexp_tui.engine import join
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.command_handlers import handle_order, revive_job
from autoexp_tui.engine.dispatcher import Dispatcher, find_evidence_directory
from autoexp_tui.engine.ephemeral_state import Health
from autoexp_tui.engine.executor_port import Task
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.ports import Kept
from autoexp_tui.engine.run_reports import RunReports
from autoexp_tui.engine.settlement import (
    EffectSettler,
    Settlement,
    clear_warning,
    raise_warning,
)
from autoexp_tui.engine.submission_answers import SubmissionAnswers
from autoexp_tui.engine.telemetry import Telemetry
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.facts import Fact, OutsideKey
from autoexp_tui.model.outputs import FileIdentity, FoundCheckpoint
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import PendingEffect, SessionState
from autoexp_tui.model.states import JobState, Why, why
from autoexp_tui.scheduling.submission_queue import set_files_aside
from autoexp_tui.text.sanitize import clean

JOIN_SECONDS = 2.0
"""Before a plan is made again that needs what is still being planned."""

LOOK_SECONDS = 10.0
"""Before files that could not be looked at are looked at again."""

MOST_TOLD = 12
"""Jobs that are named where many join."""


SUMMARY_LIMIT = 500
"""Characters that are recorded of what was obtained."""


class ObservationHandlers:
    """The one table of what was observed, and of who takes it."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        telemetry: Telemetry,
        health: Health,
        outside: dict[OutsideKey, Fact],
        monotonic: Callable[[], float],
        lived_at: Callable[[float], float],
        find_lost_seconds: Callable[[], float],
        log_fault: Callable[[str], None],
    ) -> None:
        settler = EffectSettler(dispatcher, monotonic)
        self.health = health
        self.outside = outside
        self.lived_at = lived_at
        self.submissions = SubmissionAnswers(settler, health, log_fault)
        self.effects = EffectAnswers(settler)
        self.runs = RunReports(telemetry, health, outside, find_lost_seconds)

    def handle(self, context: DecisionContext, observation: Observation) -> list[str]:
        """Turn one observation into events; returns further jobs to judge."""
        match observation:
            case seen.Submitted():
                self.submissions.note_submitted(context, observation)
            case seen.Probed():
                self.submissions.note_probed(context, observation)
            case seen.Cancelled():
                self.submissions.note_cancelled(context, observation)
            case seen.CallFailed():
                self.submissions.note_call_failed(context, observation)
            case seen.EffectAnswered():
                self.effects.note(context, observation)
            case seen.Polled():
                self.runs.note_poll(context, observation)
            case seen.LogsRead():
                return self.runs.note_logs(context, observation)
            case seen.FactsSeen():
                return self._note_facts(context, observation)
            case seen.PlaceHeard():
                _note_place(context, observation)
            case seen.OrdersTaken():
                for order in observation.orders:
                    handle_order(context, order)
            case seen.Heartbeat():
                self.health.deposed = self.health.deposed or not observation.ours
            case seen.JobsOpened():
                pass  # decides nothing: `log_poller` reads their logs
            case _:
                assert_never(observation)
        return []

    def _note_facts(self, context: DecisionContext, got: seen.FactsSeen) -> list[str]:
        touched: list[str] = []
        for key, fact in got.facts:
            if not context.watch.is_read(key):
                continue
            old = self.outside.get(key)
            began = self.lived_at(fact.observed_at)
            self.outside[key] = replace(fact, observed_at=began)
            if old is None or old.value != fact.value or old.error != fact.error:
                touched.extend(context.watch.jobs(key))
        return touched

    def forget(self, keys: Iterable[OutsideKey]) -> None:
        """Nobody reads these any more: an old look must not count as a new one."""
        for key in keys:
            self.outside.pop(key, None)


def _note_place(context: DecisionContext, got: seen.PlaceHeard) -> None:
    """A file system that is silent is a warning until it answers."""
    warning_id = "f" + ids.digest(got.place)
    if got.silence is None:
        clear_warning(context, warning_id)
    else:
        reason = why("place_silent", place=got.place, since=got.silence.since)
        raise_warning(context, warning_id, reason)


# -------------------------------------------------------------------------- effects
@dataclass(frozen=True, slots=True)
class EffectAnswers:
    """Settles effects, and goes on with what waited for them."""

    settler: EffectSettler

    def note(self, context: DecisionContext, got: seen.EffectAnswered) -> None:
        """An effect has its answer."""
        pending = context.state.pending.get(got.effect_id)
        if pending is None:
            return
        value = got.answer.value if isinstance(got.answer, seen.FoundAnswer) else None
        problem = "" if got.answer.ok else got.answer.detail
        match pending.effect:
            case OutsideEffect() as effect:
                effect.settle(context, Settlement(self.settler, pending), got.answer)
            case ComposeJob() as compose:
                command_id = _find_command(context.state, pending)
                context.draft.note_cause(command_id=command_id)
                spec = value if isinstance(value, JobSpec) else None
                self._use_spec(context, got.effect_id, compose, spec, problem)
                context.draft.note_cause()
            case CaptureEvidence() as look:
                failed = Kept(directory="", summary=f"nothing could be kept: {problem}")
                kept = value if isinstance(value, Kept) else failed
                self._end_look(context, pending, look, kept)
            case LookForCheckpoint() as look:
                found = value if isinstance(value, FoundCheckpoint) else None
                newest = found.newest.path if found else "none"
                self._settle(context, pending, problem, newest)
                checkpoints.handle_look(context, look, found, problem)
            case LookAtFiles() as look:
                files = value if isinstance(value, tuple) else ()
                self._note_files(context, pending.effect_id, look, files, problem)
            case MoveCheckpoint() as move:
                self._settle(context, pending, problem, move.target)
                checkpoints.handle_move(context, move, problem)
            case PlanJobs() | AddJob() as effect:
                made = value if isinstance(value, join.StoredPlan) else None
                self._join_plan(context, pending, effect, made, problem)

    def _settle(
        self,
        context: DecisionContext,
        pending: PendingEffect,
        problem: str,
        detail: str,
    ) -> None:
        outcome = "failed" if problem else "ok"
        self.settler.settle(context, pending.effect_id, outcome, problem or detail)

    # ------------------------------------------------------------------ jobs made anew
    def _use_spec(
        self,
        context: DecisionContext,
        effect_id: str,
        effect: ComposeJob,
        spec: JobSpec | None,
        problem: str,
    ) -> None:
        """A job was composed anew: it is run so, or stays as it was."""
        job = effect.job
        if spec is None:
            self.settler.settle(context, effect_id, "failed", problem)
            self._refuse_spec(context, effect, problem)
            return
        if value := find_unsafe(spec.command, effect.log_values):
            self.settler.settle(context, effect_id, "failed", _NOT_IN_SCRIPTS)
            self._hold(context, job, why("value_in_script", value=value))
            return
        overrides = " ".join(effect.overrides)
        self.settler.settle(context, effect_id, "ok", overrides)
        reason = why("other_overrides", overrides=overrides)
        spec = _keep_place(spec, context.job(job).spec)
        if effect.sources:
            spec = replace(spec, runtime_sources=effect.sources)
        context.draft.emit(events.JobReplanned(job=job, spec=spec, why=reason))
        if context.job(job).ended:
            revive_job(
                context,
                job,
                "person",
                from_checkpoint=effect.from_checkpoint,
                use_files=effect.use_files,
            )

    @staticmethod
    def _hold(context: DecisionContext, name: str, reason: Why) -> None:
        """Keep a job from running until a person says how."""
        if context.job(name).state in (JobState.RETRYING, JobState.WAITING):
            context.draft.emit(events.JobsHeld(jobs=(name,)))
        warning_id = "v" + ids.digest(name, reason.code)
        context.draft.emit(
            events.WarningRaised(warning_id=warning_id, why=reason, job=name)
        )

    def _refuse_spec(
        self, context: DecisionContext, effect: ComposeJob, problem: str
    ) -> None:
        """Overrides that do not compose end a retry; an ended job stays as it is.

        One that was to start with metadata in its parameters is held.
        """
        name = effect.job
        job, refused = context.job(name), why("does_not_compose", problem=problem)
        if effect.sources:
            self._hold(context, name, refused)
        elif job.state is JobState.RETRYING:
            attempt = job.attempt
            cause = attempt.cause if attempt else None
            end_job(context, job, JobState.FAILED, cause, refused)
        else:
            context.draft.emit(events.CommandRefused(why=refused, jobs=(name,)))

    # -------------------------------------------------------------------------- looks
    def end_overdue_looks(self, context: DecisionContext) -> None:
        """End runs although the looks at them have not come back in time."""
        for pending in self.settler.dispatcher.list_overdue(
            context.state, self.settler.monotonic()
        ):
            if isinstance(pending.effect, CaptureEvidence):
                look = pending.effect
                task = self.settler.dispatcher.find_task(
                    context.job(look.job), look.attempt
                )
                self._end_look(context, pending, look, build_late_evidence(task, look))

    def _end_look(
        self,
        context: DecisionContext,
        pending: PendingEffect,
        look: CaptureEvidence,
        kept: Kept,
    ) -> None:
        outcome = "ok" if kept.directory else "failed"
        self.settler.settle(context, pending.effect_id, outcome, kept.summary)
        end_look(context, look, build_captured(look, kept), pending.why)

    def _note_files(
        self,
        context: DecisionContext,
        effect_id: str,
        look: LookAtFiles,
        files: tuple[FileIdentity, ...],
        problem: str,
    ) -> None:
        """What lies there is set aside; a look that failed is tried again."""
        if not problem:
            self.settler.settle(context, effect_id, "ok", f"{len(files)} files")
            set_files_aside(context, look, files)
            return
        self.settler.rest(effect_id, LOOK_SECONDS)
        if not context.job(look.job).ended:
            reason = why("files_unseen", problem=problem)
            context.draft.emit(events.WaitExplained(job=look.job, why=reason))

    # ------------------------------------------------------------------ plans that join
    def _join_plan(
        self,
        context: DecisionContext,
        pending: PendingEffect,
        effect: PlanJobs | AddJob,
        made: join.StoredPlan | None,
        problem: str,
    ) -> None:
        """Let a plan join, all of it in this commit, or say why it cannot."""
        state, effect_id = context.state, pending.effect_id
        if made is not None:
            problem = _find_unsafe_script(made.plan, effect)
            problem = problem or join.find_hindrance(state, made.plan)
        if (made is None or problem) and join.has_earlier_plans(state, pending):
            self.settler.rest(effect_id, JOIN_SECONDS)
            return
        if made is None or problem:
            self.settler.settle(context, effect_id, "failed", problem)
            warn_of_failure(context, pending, problem)
            return
        if join.is_outdated(state, pending, made.plan):
            self.settler.rest(effect_id, 0.0)
            return
        state.plans[made.sha] = made.plan
        names = tuple(job.name for job in made.plan.jobs)
        added = events.PlanAdded(sha=made.sha, job=effect.job, action=effect.action)
        context.draft.emit(added)
        released = events.JobsReleased(jobs=names, ahead=effect.mode == "now")
        context.draft.emit(released)
        joined = ", ".join(names[:MOST_TOLD])
        more = f" and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else ""
        self.settler.settle(context, effect_id, "ok", f"joined: {joined}{more}")


def _find_command(state: SessionState, pending: PendingEffect) -> str:
    """The command that ordered an effect; empty: a rule did."""
    if pending.why is None or pending.why.code != "resubmitted_by":
        return ""
    before = [(seq, one) for one, seq in state.commands.items() if seq <= pending.seq]
    return max(before, default=(0, ""))[1]


_NOT_IN_SCRIPTS = "a value from a log may not come into a script"


def _find_unsafe_script(plan: Plan, effect: PlanJobs | AddJob) -> str:
    """Why a plan may not join for what logs have put into its scripts."""
    values = effect.log_values if isinstance(effect, PlanJobs) else ()
    for job in plan.jobs:
        if value := find_unsafe(job.command, values):
            return f"{job.name}: {_NOT_IN_SCRIPTS}: {value!r}"
    return ""


def _keep_exclusions(new: JobSpec, old: JobSpec) -> JobSpec:
    """A job planned anew avoids the nodes that it avoided before."""
    nodes = str(old.resources.options.get("exclude") or "")
    if not nodes:
        return new
    resources = new.resources.exclude(tuple(nodes.split(",")))
    return replace(new, resources=resources)


def _keep_place(new: JobSpec, old: JobSpec) -> JobSpec:
    """A job planned anew keeps its place, and what holds for it in this session."""
    kept = replace(new, index=old.index, family=old.family, rules=old.rules)
    return _keep_exclusions(replace(kept, stage=old.stage), old)


def build_captured(capture: CaptureEvidence, kept: Kept) -> events.EvidenceCaptured:
    """What came of a look, as it is recorded."""
    return events.EvidenceCaptured(
        job=capture.job,
        attempt=capture.attempt,
        reason=capture.name,
        directory=kept.directory,
        summary=clean(kept.summary, limit=SUMMARY_LIMIT),
    )


def build_late_evidence(task: Task, capture: CaptureEvidence) -> Kept:
    """What can be said of a look that has not come back: some of it may be there."""
    return Kept(
        directory=find_evidence_directory(task.attempt_dir, capture),
        summary=f"not finished within {capture.seconds:g} s",
    )
