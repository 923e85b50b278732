"""What answers from the outside mean: each becomes events in the draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, assert_never, cast

from autoexp_tui.actions import checkpoints
from autoexp_tui.actions.orders import clear_warning, end_job, end_look, raise_warning
from autoexp_tui.conditions.bindings import find_unsafe
from autoexp_tui.effects import effects
from autoexp_tui.effects.effects import Answer, OutsideEffect, warn_of_failure
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.command_handlers import handle_order, revive_job
from autoexp_tui.engine.dispatcher import (
    Dispatcher,
    Settlement,
    find_evidence_directory,
)
from autoexp_tui.engine.ephemeral_state import Health
from autoexp_tui.engine.executor_port import (
    CancelAnswer,
    PollAnswer,
    Uncertain,
    format_exchange,
)
from autoexp_tui.engine.joining import NOT_IN_SCRIPTS, StoredPlan, join_jobs
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.poller import Poller
from autoexp_tui.engine.ports import Kept
from autoexp_tui.engine.report_reducer import find_attempt
from autoexp_tui.engine.run_reports import RunReports
from autoexp_tui.engine.submission_answers import SubmissionAnswer, leave_in_doubt
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.event import list_names, pick
from autoexp_tui.model.facts import CommandResult
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import PendingEffect, SessionState
from autoexp_tui.model.states import JobState, Outcome, Why, why
from autoexp_tui.scheduling.submission_queue import set_files_aside
from autoexp_tui.text.sanitize import clean

FAULT_SECONDS = 5.0
"""Before an effect whose sending raised is sent again."""
JOIN_SECONDS = 2.0
"""Before a plan is made again that needs what is still being planned."""
LOOK_SECONDS = 10.0
"""Before files that could not be looked at are looked at again."""
SUMMARY_LIMIT = 500
"""Characters that are recorded of what was obtained."""
_OF_THE_SESSION = ("index", "family", "rules", "stage", "place", "trial")
"""What stays of a job that is composed anew."""
_BY_COMMANDS = ("resubmitted_by", "asked_by")
"""Why a person's orders were given."""


@dataclass(frozen=True, slots=True)
class ObservationHandlers:
    """The one table of what was observed, and of who takes it."""

    dispatcher: Dispatcher
    poller: Poller
    runs: RunReports
    health: Health
    lived_at: Callable[[float], float]
    log_fault: Callable[[str], None]

    def handle(self, context: DecisionContext, observation: Observation) -> list[str]:
        """Turn one observation into events; returns further jobs to judge."""
        poller = self.poller
        match observation:
            case seen.LogsRead():
                touched = self.runs.note_logs(context, observation)
                poller.logs.note(observation, self.dispatcher.monotonic())
                return touched
            case seen.FactsSeen():
                return self._note_facts(context, observation)
            case seen.EffectAnswered():
                pending = context.state.pending.get(observation.effect_id)
                if pending is not None:
                    self._settle(context, pending, observation.answer)
            case PollAnswer():
                self.runs.note_poll(context, observation)
            case seen.CallFailed():
                self._note_call_failed(context, observation)
            case seen.PlaceHeard():  # silent: a warning until it answers
                warning_id = "f" + ids.digest(observation.place)
                silence = observation.silence
                if silence is None:
                    clear_warning(context, warning_id)
                else:
                    place, since = observation.place, silence.since
                    reason = why("place_silent", place=place, since=since)
                    raise_warning(context, warning_id, reason)
            case seen.OrdersTaken():
                for order in observation.orders:
                    handle_order(context, order)
                    if order.command_id in poller.state.commands:  # synced before
                        poller.forget_orders((order.command_id,))
            case seen.Heartbeat():
                self.health.deposed = self.health.deposed or not observation.ours
            case _:
                assert_never(observation)
        return []

    def _note_call_failed(self, context: DecisionContext, got: seen.CallFailed) -> None:
        """A call raised where it must not: a fault of ours. One that goes on failing
        alike is told once."""
        key = got.effect_id or got.what
        if self.health.faults.get(key) != got.problem:
            self.health.faults[key] = got.problem
            self.log_fault(got.trace)
            fault = events.EngineFaulted(where=got.what, problem=got.problem)
            context.draft.emit(fault)
        pending = context.state.pending.get(got.effect_id)
        effect = pending.effect if pending else None
        if pending is not None and pending.effect.recovery == "once":
            leave_in_doubt(context.draft, pending)
            self.dispatcher.forget(got.effect_id)
        elif isinstance(effect, effects.SubmitTasks) and (
            got.effect_id not in self.dispatcher.in_doubt
        ):  # nobody knows how far it came: it is asked for before it is sent again
            answer = Uncertain(message=f"a fault of ours: {got.problem}")
            assert pending is not None
            SubmissionAnswer(self.dispatcher, context, pending).note_doubt(answer)
        elif got.effect_id:
            self.dispatcher.rest(got.effect_id, FAULT_SECONDS)

    def _note_facts(self, context: DecisionContext, got: seen.FactsSeen) -> list[str]:
        touched: list[str] = []
        outside, poller = self.runs.outside, self.poller
        for key, fact in got.facts:
            old = outside.get(key)
            is_news = old is None or (old.value, old.error) != (fact.value, fact.error)
            if context.watch.is_read(key):
                began = self.lived_at(fact.observed_at)
                outside[key] = replace(fact, observed_at=began)
                if is_news:
                    touched.extend(context.watch.jobs(key))
            if fact.silence is None:
                if isinstance(fact.value, CommandResult) and old is not None:
                    passed = getattr(old.value, "exit_code", None) == 0
                    is_news = (fact.value.exit_code == 0) != passed  # whatever it says
                now, began = self.dispatcher.monotonic(), fact.observed_at
                shortest = poller.poll_seconds
                poller.facts.settle(key, now, shortest, began, changed=is_news)
        return touched

    def _settle(
        self, context: DecisionContext, pending: PendingEffect, answer: object
    ) -> None:
        one = EffectAnswer(self.dispatcher, context, pending)
        problem = answer.text if isinstance(answer, seen.Problem) else ""
        outcome, found = ("failed", None) if problem else ("ok", cast(Any, answer))
        match pending.effect:
            case effects.CancelTasks() as cancel:
                assert isinstance(answer, CancelAnswer), f"{cancel.kind}: {answer!r}"
                one.note_cancelled(cancel, answer)
                if not answer.ok:
                    place = context.job(cancel.tasks[0][0]).spec.place
                    self.health.errors[place] = answer.said
            case effects.SubmitTasks():
                SubmissionAnswer(self.dispatcher, context, pending).note(answer)
            case OutsideEffect() as effect:
                assert isinstance(answer, Answer), f"{effect.kind}: {answer!r}"
                effect.settle(context, one, answer)
            case effects.ComposeJob() as compose:
                context.draft.command_id = _find_command(context.state, pending)
                one.use_spec(compose, found, problem)
                context.draft.command_id = ""
            case effects.CaptureEvidence() as capture:
                failed = Kept(directory="", summary=f"nothing could be kept: {problem}")
                one.end_look(capture, found or failed)
            case effects.LookForCheckpoint() as look:
                newest = found.newest.path if found else "none"
                one.end(outcome, problem or newest)
                checkpoints.handle_look(context, look, found, problem)
            case effects.LookAtFiles() as files:
                one.note_files(files, answer)
            case effects.MoveCheckpoint() as move:
                one.end(outcome, problem or move.target)
                checkpoints.handle_move(context, move, problem)
            case effects.AddJobs() as add:
                context.add_jobs(add.policy, add.asked_by, add.jobs)
                one.end(outcome, problem)
            case effects.PlanJobs() | effects.AddJob() as effect:
                one.join_plan(effect, found, problem)
            case effects.JoinJobs() as join:
                context.draft.command_id = _find_command(context.state, pending)
                checks = self.dispatcher.joining
                join_jobs(context, one, checks, join, found, problem)
                context.draft.command_id = ""

    def settle_cancels(self, context: DecisionContext) -> None:
        """A cancel that nobody confirmed is over with the attempts that it is for."""
        for pending in list(context.state.pending.values()):
            effect = pending.effect
            warning_id = "c" + ids.digest(pending.effect_id)
            if not isinstance(effect, effects.CancelTasks):
                continue
            found = (find_attempt(context.job(job), n) for job, n in effect.tasks)
            if warning_id in context.state.warnings and all(
                one is None or one.outcome not in (None, Outcome.LOST) for one in found
            ):
                one = Settlement(self.dispatcher, context, pending)
                one.end("ok", "what it was for has ended")
                clear_warning(context, warning_id)

    def end_overdue_looks(self, context: DecisionContext) -> None:
        """End runs although the looks at them have not come back in time."""
        for effect_id, since in list(self.dispatcher.looking.items()):
            pending = context.state.pending.get(effect_id)
            look = pending.effect if pending is not None else None
            if pending is None or not isinstance(look, effects.CaptureEvidence):
                continue
            if self.dispatcher.monotonic() - since >= look.seconds:
                job = context.job(look.job)
                task = self.dispatcher.find_task(job, look.attempt)
                late = Kept(  # some of it may be there
                    directory=find_evidence_directory(task.attempt_dir, look),
                    summary=f"not finished within {look.seconds:g} s",
                )
                EffectAnswer(self.dispatcher, context, pending).end_look(look, late)


class EffectAnswer(Settlement):
    """What the answer to an effect means."""

    __slots__ = ()

    def use_spec(
        self, effect: effects.ComposeJob, spec: JobSpec | None, problem: str
    ) -> None:
        """A job was composed anew: it is run so, or stays as it was."""
        context, job = self.context, effect.job
        if spec is None:
            self.end("failed", problem)
            _refuse_spec(context, effect, why("does_not_compose", problem=problem))
            return
        if value := find_unsafe(spec.command, effect.log_values):
            self.end("failed", NOT_IN_SCRIPTS)
            _hold(context, job, why("value_in_script", value=value))
            return
        overrides = " ".join(effect.overrides)
        self.end("ok", overrides)
        old = context.job(job).spec  # its place, and what holds for it here, stay
        kept = {name: getattr(old, name) for name in _OF_THE_SESSION}
        if effect.sources:
            kept["runtime_sources"] = effect.sources
        if nodes := str(old.resources.options.get("exclude") or ""):
            kept["resources"] = spec.resources.exclude(tuple(nodes.split(",")))
        reason = why("other_overrides", overrides=overrides)
        replanned = events.JobReplanned(job=job, spec=replace(spec, **kept), why=reason)
        context.draft.emit(replanned)
        if context.job(job).ended:
            how = pick(effect, "from_checkpoint", "use_files")
            revive_job(context, job, "person", **how)

    def note_cancelled(self, cancel: effects.CancelTasks, answer: CancelAnswer) -> None:
        """The order to end tasks was given, or has to be given again."""
        warning_id = "c" + ids.digest(self.pending.effect_id)
        if answer.ok:
            self.end("ok", format_exchange(answer.sent, answer.said))
            clear_warning(self.context, warning_id)
            return
        self.rest(FAULT_SECONDS)
        count, job = len(cancel.tasks), cancel.tasks[0][0]
        reason = why("cancel_unconfirmed", message=answer.said, count=count)
        raise_warning(self.context, warning_id, reason, job)

    def end_look(self, look: effects.CaptureEvidence, kept: Kept) -> None:
        """A run was looked at, or it took too long: it is ended."""
        self.end("ok" if kept.directory else "failed", kept.summary)
        captured = events.EvidenceCaptured(
            reason=look.name,
            **pick(look, "job", "attempt"),
            directory=kept.directory,
            summary=clean(kept.summary, limit=SUMMARY_LIMIT),
        )
        end_look(self.context, look, captured, self.pending.why)

    def note_files(self, look: effects.LookAtFiles, answer: object) -> None:
        """What lies there is set aside; a look that failed is tried again."""
        context = self.context
        if not isinstance(answer, seen.Problem):
            files = answer if isinstance(answer, tuple) else ()
            self.end("ok", f"{len(files)} files")
            set_files_aside(context, look, files)
            return
        self.rest(LOOK_SECONDS)
        if not context.job(look.job).ended:
            reason = why("files_unseen", problem=answer.text)
            context.draft.emit(events.WaitExplained(job=look.job, why=reason))

    def join_plan(
        self,
        effect: effects.PlanJobs | effects.AddJob,
        made: StoredPlan | None,
        problem: str,
    ) -> None:
        """Let a plan join, all of it in this commit, or say why it cannot."""
        context, pending = self.context, self.pending
        checks = self.dispatcher.joining
        values = effect.log_values if isinstance(effect, effects.PlanJobs) else ()
        if made is not None and not problem:
            problem = checks.find_hindrance(context.state, made.plan, values)
        if made is None or problem:
            earlier = any(  # whose jobs it may only lack
                isinstance(other.effect, _JOINING) and other.seq < pending.seq
                for other in context.state.pending.values()
            )
            if earlier:
                self.rest(JOIN_SECONDS)
                return
            self.end("failed", problem)
            warn_of_failure(context, pending, problem)
            return
        if not isinstance(effect, effects.PlanJobs):
            # Jobs it waits for may have joined meanwhile.
            again = checks.build_job_plan(context.state, pending, effect)
            if again != made.plan:
                self.rest(0.0)
                return
        context.state.plans[made.sha] = made.plan
        names = tuple(job.name for job in made.plan.jobs)
        first, whose = context.state.highest + 1, pick(effect, "job", "action")
        added = events.PlanAdded(sha=made.sha, first_index=first, **whose)
        context.draft.emit(added)
        released = events.JobsReleased(jobs=names, ahead=effect.mode == "now")
        context.draft.emit(released)
        self.end("ok", f"joined: {list_names(names)}")


_JOINING = (effects.PlanJobs, effects.AddJob)


def _hold(context: DecisionContext, name: str, reason: Why) -> None:
    """Keep a job from running until a person says how."""
    if context.job(name).state in (JobState.RETRYING, JobState.WAITING):
        context.draft.emit(events.JobsHeld(jobs=(name,)))
    warning_id = "v" + ids.digest(name, reason.code)
    context.draft.emit(
        events.WarningRaised(warning_id=warning_id, why=reason, job=name)
    )


def _refuse_spec(
    context: DecisionContext, effect: effects.ComposeJob, refused: Why
) -> None:
    """Overrides that do not compose end a retry; values that do not, hold the job."""
    name = effect.job
    job = context.job(name)
    if effect.sources:
        _hold(context, name, refused)
    elif job.state is JobState.RETRYING:
        cause = job.attempt.cause if job.attempt else None
        end_job(context, job, JobState.FAILED, cause, refused)
    else:
        context.draft.emit(events.CommandRefused(why=refused, jobs=(name,)))


def _find_command(state: SessionState, pending: PendingEffect) -> str:
    """The command that ordered an effect; empty: a rule did."""
    if pending.why is None or pending.why.code not in _BY_COMMANDS:
        return ""
    before = [(seq, one) for one, seq in state.commands.items() if seq <= pending.seq]
    return max(before, default=(0, ""))[1]
