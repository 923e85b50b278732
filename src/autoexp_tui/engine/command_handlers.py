"""What commands mean: each becomes events, or a refusal with its reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from autoexp_tui.actions.orders import cancel_attempts, emit_order, end_job
from autoexp_tui.effects.effects import ComposeJob
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model import resubmission as revival
from autoexp_tui.model.commands import Order
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import (
    ACTIVE,
    Cause,
    JobState,
    Why,
    why,
)
from autoexp_tui.scheduling.circuit_breaker import WARNING_ID

_CHOOSABLE = frozenset({JobState.PLANNED, JobState.HELD})
_SKIPPABLE = frozenset({JobState.PLANNED, JobState.HELD, JobState.WAITING})


def handle_order(context: DecisionContext, order: Order) -> None:
    """Carry out one order: every one leaves at least one event with its id."""
    if order.command_id in context.state.commands:
        return
    context.draft.note_cause(command_id=order.command_id)
    before, jobs = len(context.draft.records), context.state.jobs
    named = list_named_jobs(order)
    stale = tuple(  # they have had another attempt since the person looked
        name
        for name, attempts in order.expected.items()
        if name in jobs and len(jobs[name].attempts) != attempts
    )
    if stale:
        _refuse(context, why("stale", jobs=", ".join(stale)), stale)
    elif unknown := tuple(name for name in named if name not in jobs):
        _refuse(context, why("no_such_job", jobs=", ".join(unknown)), unknown)
    elif barred := _find_bar(order):
        _refuse(context, barred, named)
    else:
        _execute(context, order)
        if len(context.draft.records) == before:
            _refuse(context, why("nothing_to_do", command=order.command.kind))
    context.draft.note_cause()


def _find_bar(order: Order) -> Why | None:
    """Why the sender may not decide this: it is no person, or nobody can tell."""
    sender = order.sender
    if sender is None or not commands.is_personal(order.command):
        return None
    if sender.job:
        return why("sender_is_job", by=sender.job)
    if sender.doubt:
        return why(f"sender_{sender.doubt}")
    return None


def list_named_jobs(order: Order) -> tuple[str, ...]:
    """The jobs that an order names."""
    match order.command:
        case (
            commands.Submit()
            | commands.Kill()
            | commands.Resubmit()
            | commands.Skip() as command
        ):
            return command.jobs
        case commands.Answer() | commands.Waive() as command:
            return (command.job,)
        case _:
            return ()


def _refuse(context: DecisionContext, reason: Why, jobs: tuple[str, ...] = ()) -> None:
    context.draft.emit(events.CommandRefused(why=reason, jobs=jobs))


def _execute(context: DecisionContext, order: Order) -> None:
    match order.command:
        case commands.Submit() as submit:
            _submit(context, submit)
        case commands.Kill() as kill:
            _kill(context, kill.jobs, _explain_by_person(order, kill.reason))
        case commands.Resubmit() as resubmit:
            _resubmit(context, resubmit, order)
        case commands.Answer() as answer:
            _answer(context, answer, order)
        case commands.Skip() as skip:
            for name in skip.jobs:
                _skip(
                    context, context.job(name), _explain_by_person(order, skip.reason)
                )
        case commands.Waive() as waive:
            _waive(context, waive, order)
        case commands.Pause():
            if context.state.paused is None:
                reason = why("paused_by", by=order.by, at=context.now.t)
                context.draft.emit(events.SubmissionPaused(why=reason))
        case commands.Resume():
            if context.state.paused is not None:
                _resume(context, order)
        case commands.Acknowledge() as seen:
            _acknowledge(context, seen, order)
        case commands.StopEngine() as stop:
            _stop(context, stop, order)
        case _:
            order.command.handle(context, order)


def _resume(context: DecisionContext, order: Order) -> None:
    """Submit again; who resumes has seen why it was paused."""
    context.draft.emit(events.SubmissionResumed())
    if WARNING_ID in context.state.warnings:
        context.draft.emit(events.WarningCleared(warning_id=WARNING_ID, by=order.by))


def _explain_by_person(order: Order, reason: str) -> Why:
    return why("cancelled_by", by=order.by, reason=reason)


# -------------------------------------------------------------------------- submit
def _submit(context: DecisionContext, submit: commands.Submit) -> None:
    """Let jobs run; what is done already completes, whoever was chosen."""
    plan = context.state.plan
    if submit.plan_id and plan is not None and plan.plan_id != submit.plan_id:
        _refuse(context, why("other_plan"))
        return
    everyone = [context.job(name) for name in context.state.order]
    done = [job for job in everyone if job.done and job.state in _CHOOSABLE]
    chosen = set(submit.jobs) or {job.name for job in everyone}
    chosen |= {job.name for job in done}
    released = [
        job.name for job in everyone if job.name in chosen and job.state in _CHOOSABLE
    ]
    held = [
        job.name
        for job in everyone
        if job.name not in chosen and job.state is JobState.PLANNED
    ]
    if released:
        context.draft.emit(events.JobsReleased(jobs=tuple(released)))
    if held and released:
        context.draft.emit(events.JobsHeld(jobs=tuple(held)))
    for job in done:
        _complete_job(context, job)


def _complete_job(context: DecisionContext, job: JobRecord) -> None:
    """End a job whose work an earlier session has done."""
    if job.done is not None:
        reason = why("done_before", session=job.done.session, at=job.done.at)
        context.draft.emit(
            events.JobEnded(job=job.name, state=JobState.COMPLETED, why=reason)
        )


# -------------------------------------------------------------------- kill and skip
def _kill(context: DecisionContext, names: Iterable[str], reason: Why) -> None:
    jobs = [context.job(name) for name in names]
    cancel_attempts(
        context, [job for job in jobs if job.state in ACTIVE], reason, Cause.USER
    )
    for job in jobs:
        if job.state not in ACTIVE and not job.ended:
            _end(context, job, JobState.CANCELLED, reason)


def _skip(context: DecisionContext, job: JobRecord, reason: Why) -> None:
    if job.state in _SKIPPABLE:
        _end(context, job, JobState.SKIPPED, replace(reason, code="skipped_by"))


def _end(
    context: DecisionContext, job: JobRecord, state: JobState, reason: Why
) -> None:
    end_job(context, job, state, Cause.USER, reason)


def _waive(context: DecisionContext, waive: commands.Waive, order: Order) -> None:
    job = context.job(waive.job)
    if job.state is JobState.WAITING and 0 <= waive.condition < len(job.start):
        context.draft.emit(
            events.ConditionWaived(
                job=job.name,
                index=waive.condition,
                reason=waive.reason or "waived",
                sender=order.sender,
            )
        )


# ------------------------------------------------------------------------ resubmit
def _resubmit(
    context: DecisionContext, resubmit: commands.Resubmit, order: Order
) -> None:
    for name in resubmit.jobs:
        job = context.job(name)
        if not revival.can_come_back(job):
            continue
        _replan(context, job, resubmit)
        if resubmit.overrides:
            effect = ComposeJob(
                job=name,
                overrides=(*job.spec.overrides, *resubmit.overrides),
                from_checkpoint=resubmit.from_checkpoint,
                use_files=resubmit.use_files,
            )
            emit_order(context, effect, why("resubmitted_by", by=order.by))
        else:
            revive_job(
                context,
                name,
                order.by,
                from_checkpoint=resubmit.from_checkpoint,
                use_files=resubmit.use_files,
            )


def _replan(
    context: DecisionContext, job: JobRecord, resubmit: commands.Resubmit
) -> None:
    spec = apply_options(job.spec, resubmit)
    if spec is not job.spec:
        context.draft.emit(
            events.JobReplanned(job=job.name, spec=spec, why=why("other_resources"))
        )


def apply_options(spec: JobSpec, resubmit: commands.Resubmit) -> JobSpec:
    """The job with other nodes or another limit; the same object when neither."""
    if resubmit.exclude_nodes:
        resources = spec.resources.exclude(resubmit.exclude_nodes)
        spec = replace(spec, resources=resources)
    if resubmit.time_limit_seconds is not None:
        resources = replace(
            spec.resources, time_limit_seconds=resubmit.time_limit_seconds
        )
        spec = replace(spec, resources=resources)
    return spec


def revive_job(
    context: DecisionContext,
    name: str,
    by: str,
    *,
    from_checkpoint: bool,
    use_files: bool,
) -> None:
    """Bring a job back, and with it whoever ended only because of it."""
    reason = why("revived_by", by=by)
    context.draft.emit(
        events.JobRevived(
            job=name,
            from_checkpoint=from_checkpoint,
            use_files=use_files,
            why=reason,
        )
    )
    for dependant in list_followers(context, name):
        context.draft.emit(
            events.JobRevived(
                job=dependant,
                from_checkpoint=False,
                why=why("revived_with", job=name, by=by),
            )
        )


def list_followers(context: DecisionContext, name: str) -> Iterator[str]:
    """Jobs downstream of `name` that were skipped or cancelled on its account."""
    jobs = context.state.jobs
    below = revival.dependants(context.job(one) for one in context.state.order)
    return revival.list_ended_because_of([name], jobs, below)


# ------------------------------------------------------------------------- the rest
def _answer(context: DecisionContext, answer: commands.Answer, order: Order) -> None:
    ask = context.job(answer.job).ask
    if ask is None or ask.approved is not None:
        return
    if ask.digest != answer.digest:
        _refuse(context, why("other_digest", job=answer.job), (answer.job,))
        return
    context.draft.emit(
        events.ApprovalAnswered(
            job=answer.job,
            digest=answer.digest,
            approved=answer.approved,
            by=order.by,
            reason=answer.reason,
            sender=order.sender,
        )
    )


def _acknowledge(
    context: DecisionContext, seen: commands.Acknowledge, order: Order
) -> None:
    for warning_id in seen.warnings:
        if warning_id in context.state.warnings:
            context.draft.emit(
                events.WarningCleared(warning_id=warning_id, by=order.by)
            )
    for name, number in dict.fromkeys(seen.limits):
        job = context.state.jobs.get(name)
        attempt = job.attempt if job else None
        if attempt is None or attempt.number != number or attempt.limit_seen:
            continue
        context.draft.emit(
            events.LimitAcknowledged(job=name, attempt=number, by=order.by)
        )


def _stop(context: DecisionContext, stop: commands.StopEngine, order: Order) -> None:
    if stop.cancel_jobs:
        _kill(
            context, context.state.order, _explain_by_person(order, "session stopped")
        )
        if context.roster.active:
            return  # the engine stays until they have ended
    reason = "handed over" if stop.hand_over else f"stopped by {order.by}"
    asked = order.by != commands.LEAVING
    context.draft.emit(events.EngineStopped(reason=reason, on_request=asked))
