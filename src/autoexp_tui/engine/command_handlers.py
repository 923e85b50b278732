"""What commands mean: each becomes events, or a refusal with its reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from autoexp_tui.actions.orders import (
    cancel_attempts,
    clear_warning,
    emit_order,
    end_job,
)
from autoexp_tui.effects.effects import ComposeJob, JoinJobs
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model import resubmission as revival
from autoexp_tui.model.commands import Order
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.event import pick
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import ACTIVE, Cause, JobState, Why, why
from autoexp_tui.scheduling.circuit_breaker import WARNING_ID

_CHOOSABLE = frozenset({JobState.PLANNED, JobState.HELD})
_SKIPPABLE = frozenset({JobState.PLANNED, JobState.HELD, JobState.WAITING})


def handle_order(context: DecisionContext, order: Order) -> None:
    """Carry out one order: every one leaves at least one event with its id."""
    if order.command_id in context.state.commands:
        return
    context.draft.command_id = order.command_id
    before, jobs = len(context.draft.records), context.state.jobs
    job = getattr(order.command, "job", "")
    named: tuple[str, ...] = (job,) if job else getattr(order.command, "jobs", ())
    stale = tuple(  # they have had another attempt since the person looked
        name
        for name, attempts in order.expected.items()
        if name in jobs and len(jobs[name].attempts) != attempts
    )
    if stale:
        _refuse(context, why("stale", jobs=", ".join(stale)), stale)
    elif unknown := tuple(name for name in named if name not in jobs):
        _refuse(context, why("no_such_job", jobs=", ".join(unknown)), unknown)
    elif (  # it is no person, or nobody can tell
        (sender := order.sender)
        and (sender.job or sender.doubt)
        and order.command.is_personal
    ):
        by_job = why("sender_is_job", by=sender.job)
        _refuse(context, by_job if sender.job else why(f"sender_{sender.doubt}"), named)
    else:
        _execute(context, order)
        if len(context.draft.records) == before:
            _refuse(context, why("nothing_to_do", command=order.command.kind))
    context.draft.command_id = ""


def _refuse(context: DecisionContext, reason: Why, jobs: tuple[str, ...] = ()) -> None:
    context.draft.emit(events.CommandRefused(why=reason, jobs=jobs))


def _execute(context: DecisionContext, order: Order) -> None:
    match order.command:
        case commands.Submit() as submit:
            _submit(context, submit)
        case commands.Kill() as kill:
            reason = why("cancelled_by", by=order.by, reason=kill.reason)
            kill_jobs(context, kill.jobs, reason)
        case commands.Resubmit() as resubmit:
            _resubmit(context, resubmit, order)
        case commands.Answer() as answer:
            _answer(context, answer, order)
        case commands.AnswerAsk() as answer:
            _answer_ask(context, answer, order)
        case commands.Skip() as skip:
            reason = why("skipped_by", by=order.by, reason=skip.reason)
            for job in map(context.job, skip.jobs):
                if job.state in _SKIPPABLE:
                    end_job(context, job, JobState.SKIPPED, Cause.USER, reason)
        case commands.Waive() as waive:
            _waive(context, waive, order)
        case commands.Pause():
            _pause(context, order)
        case commands.Resume():
            if context.state.paused is not None:
                context.draft.emit(events.SubmissionResumed())
                clear_warning(context, WARNING_ID, order.by)  # who resumes has seen it
        case commands.Acknowledge() as seen:
            _acknowledge(context, seen, order)
        case commands.Grow() as grow:
            _grow(context, grow, order)
        case commands.StopEngine() as stop:
            _stop(context, stop, order)
        case _:
            order.command.handle(context, order)


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
    begins = not everyone and context.state.parts  # what has no jobs yet, but a policy
    if released or begins:
        context.draft.emit(events.JobsReleased(jobs=tuple(released)))
    if held and released:
        context.draft.emit(events.JobsHeld(jobs=tuple(held)))
    complete_done(context, done)


def complete_done(context: DecisionContext, done: Iterable[JobRecord]) -> None:
    """End jobs that were let run, and whose work an earlier session did."""
    for job in done:
        if job.done is not None:
            reason = why("done_before", session=job.done.session, at=job.done.at)
            context.draft.emit(
                events.JobEnded(job=job.name, state=JobState.COMPLETED, why=reason)
            )


def kill_jobs(context: DecisionContext, names: Iterable[str], reason: Why) -> None:
    """End jobs, those that run and those that do not."""
    jobs = [context.job(name) for name in names]
    cancel_attempts(
        context, [job for job in jobs if job.state in ACTIVE], reason, Cause.USER
    )
    for job in jobs:
        if job.state not in ACTIVE and not job.ended:
            end_job(context, job, JobState.CANCELLED, Cause.USER, reason)


def _grow(context: DecisionContext, grow: commands.Grow, order: Order) -> None:
    """Have the plan read; it joins once it is there."""
    state, jobs = context.state, context.state.jobs
    orders = (one.effect for one in state.pending.values())
    is_ordered = any(
        isinstance(one, JoinJobs) and one.sha == grow.sha for one in orders
    )
    named = tuple(dict.fromkeys((*grow.hold, *grow.end)))
    if grow.sha in state.joined or is_ordered:
        _refuse(context, why("joined_before"))
    elif unknown := tuple(name for name in named if name not in jobs):
        _refuse(context, why("no_such_job", jobs=", ".join(unknown)), unknown)
    else:
        now = {name: len(jobs[name].attempts) for name in named}
        effect = JoinJobs(
            **pick(grow, "sha", "run", "hold", "end", "force"),
            seen=tuple((now | {**order.expected}).items()),
            asked_by=order.asker,
        )
        emit_order(context, effect, why("asked_by", by=order.asker))


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


def _resubmit(
    context: DecisionContext, resubmit: commands.Resubmit, order: Order
) -> None:
    how = pick(resubmit, "from_checkpoint", "use_files")
    for name in resubmit.jobs:
        job = context.job(name)
        if not revival.can_come_back(job):
            continue
        spec = apply_options(job.spec, resubmit)
        if spec is not job.spec:
            other = why("other_resources")
            context.draft.emit(events.JobReplanned(job=name, spec=spec, why=other))
        if resubmit.overrides:
            overrides = (*job.spec.overrides, *resubmit.overrides)
            effect = ComposeJob(job=name, overrides=overrides, **how)
            emit_order(context, effect, why("resubmitted_by", by=order.by))
        else:
            revive_job(context, name, order.by, **how)


def apply_options(spec: JobSpec, resubmit: commands.Resubmit) -> JobSpec:
    """The job with other nodes or another limit; the same object when neither."""
    resources, limit = spec.resources, resubmit.time_limit_seconds
    if resubmit.exclude_nodes:
        resources = resources.exclude(resubmit.exclude_nodes)
    if limit is not None:
        resources = replace(resources, time_limit_seconds=limit)
    return spec if resources is spec.resources else replace(spec, resources=resources)


def revive_job(
    context: DecisionContext,
    name: str,
    by: str,
    *,
    from_checkpoint: bool,
    use_files: bool,
) -> None:
    """Bring a job back, and with it whoever ended only because of it."""
    how = {"from_checkpoint": from_checkpoint, "use_files": use_files}
    reason = why("revived_by", by=by)
    context.draft.emit(events.JobRevived(job=name, **how, why=reason))
    below = revival.dependants(context.job(one) for one in context.state.order)
    ended = revival.list_ended_because_of([name], context.state.jobs, below)
    for dependant in ended:  # skipped or cancelled on its account
        along = why("revived_with", job=name, by=by)
        context.draft.emit(
            events.JobRevived(job=dependant, from_checkpoint=False, why=along)
        )


def _answer(context: DecisionContext, answer: commands.Answer, order: Order) -> None:
    ask = context.job(answer.job).ask
    if ask is None or ask.approved is not None:
        return
    if ask.digest != answer.digest:
        _refuse(context, why("other_digest", job=answer.job), (answer.job,))
        return
    context.draft.emit(
        events.ApprovalAnswered(
            **pick(answer, "job", "digest", "approved", "reason"),
            **pick(order, "by", "sender"),
        )
    )


def _answer_ask(
    context: DecisionContext, answer: commands.AnswerAsk, order: Order
) -> None:
    ask = context.state.asks.get(answer.ask)
    dropped = tuple(sorted(set(answer.dropped)))
    if ask is None:
        _refuse(context, why("no_such_ask", ask=answer.ask))
    elif ask.approved is not None:
        _refuse(context, why("answered_before", ask=answer.ask, by=ask.by))
    elif answer.digest != digest_question(
        answer.ask, ask.prompt, ask.list_kept(dropped)
    ):
        _refuse(context, why("other_lines", ask=answer.ask))
    elif dropped and not (answer.approved and ask.list_kept(dropped)):
        _refuse(context, why("nothing_kept", ask=answer.ask))
    else:
        context.draft.emit(
            events.AskAnswered(
                **pick(answer, "ask", "digest", "approved", "reason"),
                **pick(order, "by", "sender"),
                dropped=dropped,
            )
        )


def _acknowledge(
    context: DecisionContext, seen: commands.Acknowledge, order: Order
) -> None:
    for warning_id in seen.warnings:
        clear_warning(context, warning_id, order.by)
    for name, number in dict.fromkeys(seen.limits):
        job = context.state.jobs.get(name)
        attempt = job.attempt if job else None
        if attempt and attempt.number == number and not attempt.limit_seen:
            context.draft.emit(
                events.LimitAcknowledged(job=name, attempt=number, by=order.by)
            )


def _pause(context: DecisionContext, order: Order) -> None:
    if context.state.paused is None:
        reason = why("paused_by", by=order.by, at=context.now.t)
        context.draft.emit(events.SubmissionPaused(why=reason))


def _stop(context: DecisionContext, stop: commands.StopEngine, order: Order) -> None:
    if stop.cancel_jobs:
        if context.state.parts:  # a policy would put others in their place
            _pause(context, order)
        ended = why("cancelled_by", by=order.by, reason="session stopped")
        kill_jobs(context, context.state.order, ended)
        if context.roster.active:
            context.draft.emit(events.StopOrdered(by=order.by))
            return
    reason = "handed over" if stop.hand_over else f"stopped by {order.by}"
    asked = order.by != commands.LEAVING
    context.draft.emit(events.EngineStopped(reason=reason, on_request=asked))
