"""What commands mean: each becomes events, or a refusal with its reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from autoexp_tui.actions.ending import end_job
from autoexp_tui.actions.orders import order_cancels, order_effect
from autoexp_tui.actions.restarts import excluding
from autoexp_tui.effects.effects import ComposeJob
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model import resubmission as revival
from autoexp_tui.model.commands import Order
from autoexp_tui.model.decision_context import Desk
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import (
    ACTIVE,
    Cause,
    JobState,
)
from autoexp_tui.model.verdicts import Why, why
from autoexp_tui.scheduling.circuit_breaker import WARNING_ID

_CHOOSABLE = frozenset({JobState.PLANNED, JobState.HELD})
_SKIPPABLE = frozenset({JobState.PLANNED, JobState.HELD, JobState.WAITING})


def obey(desk: Desk, order: Order) -> None:
    """Carry out one order: every one leaves at least one event with its id."""
    if order.command_id in desk.state.commands:
        return
    desk.draft.because(command_id=order.command_id)
    before = len(desk.draft.records)
    if stale := _stale(desk, order):
        _refuse(desk, why("stale", jobs=", ".join(stale)), stale)
    elif unknown := _unknown(desk, order):
        _refuse(desk, why("no_such_job", jobs=", ".join(unknown)), unknown)
    elif barred := _barred(order):
        _refuse(desk, barred, named_jobs(order))
    else:
        _carry_out(desk, order)
        if len(desk.draft.records) == before:
            _refuse(desk, why("nothing_to_do", command=order.command.kind))
    desk.draft.because()


def _stale(desk: Desk, order: Order) -> tuple[str, ...]:
    """Jobs that have had another attempt since the person looked."""
    return tuple(
        name
        for name, attempts in order.expected.items()
        if name in desk.state.jobs and len(desk.job(name).attempts) != attempts
    )


def _unknown(desk: Desk, order: Order) -> tuple[str, ...]:
    return tuple(name for name in named_jobs(order) if name not in desk.state.jobs)


def _barred(order: Order) -> Why | None:
    """Why the sender may not decide this: it is no person, or nobody can tell."""
    sender = order.sender
    if sender is None or not commands.is_personal(order.command):
        return None
    if sender.job:
        return why("sender_is_job", by=sender.job)
    if sender.doubt:
        return why(f"sender_{sender.doubt}")
    return None


def named_jobs(order: Order) -> tuple[str, ...]:
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


def _refuse(desk: Desk, reason: Why, jobs: tuple[str, ...] = ()) -> None:
    desk.draft.emit(events.CommandRefused(why=reason, jobs=jobs))


def _carry_out(desk: Desk, order: Order) -> None:
    match order.command:
        case commands.Submit() as submit:
            _submit(desk, submit)
        case commands.Kill() as kill:
            _kill(desk, kill.jobs, _by_person(order, kill.reason))
        case commands.Resubmit() as resubmit:
            _resubmit(desk, resubmit, order)
        case commands.Answer() as answer:
            _answer(desk, answer, order)
        case commands.Skip() as skip:
            for name in skip.jobs:
                _skip(desk, desk.job(name), _by_person(order, skip.reason))
        case commands.Waive() as waive:
            _waive(desk, waive, order)
        case commands.Pause():
            if desk.state.paused is None:
                reason = why("paused_by", by=order.by, at=desk.now.t)
                desk.draft.emit(events.SubmissionPaused(why=reason))
        case commands.Resume():
            if desk.state.paused is not None:
                _resume(desk, order)
        case commands.Acknowledge() as seen:
            _acknowledge(desk, seen, order)
        case commands.StopEngine() as stop:
            _stop(desk, stop, order)
        case _:
            assert_never(order.command)


def _resume(desk: Desk, order: Order) -> None:
    """Submit again; who resumes has seen why it was paused."""
    desk.draft.emit(events.SubmissionResumed())
    if WARNING_ID in desk.state.warnings:
        desk.draft.emit(events.WarningCleared(warning_id=WARNING_ID, by=order.by))


def _by_person(order: Order, reason: str) -> Why:
    return why("cancelled_by", by=order.by, reason=reason)


# -------------------------------------------------------------------------- submit
def _submit(desk: Desk, submit: commands.Submit) -> None:
    """Let jobs run; what is done already completes, whoever was chosen."""
    plan = desk.state.plan
    if submit.plan_id and plan is not None and plan.plan_id != submit.plan_id:
        _refuse(desk, why("other_plan"))
        return
    everyone = [desk.job(name) for name in desk.state.order]
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
        desk.draft.emit(events.JobsReleased(jobs=tuple(released)))
    if held and released:
        desk.draft.emit(events.JobsHeld(jobs=tuple(held)))
    for job in done:
        _complete(desk, job)


def _complete(desk: Desk, job: JobRecord) -> None:
    """End a job whose work an earlier session has done."""
    if job.done is not None:
        reason = why("done_before", session=job.done.session, at=job.done.at)
        desk.draft.emit(
            events.JobEnded(job=job.name, state=JobState.COMPLETED, why=reason)
        )


# -------------------------------------------------------------------- kill and skip
def _kill(desk: Desk, names: Iterable[str], reason: Why) -> None:
    jobs = [desk.job(name) for name in names]
    order_cancels(
        desk, [job for job in jobs if job.state in ACTIVE], reason, Cause.USER
    )
    for job in jobs:
        if job.state not in ACTIVE and not job.ended:
            _end(desk, job, JobState.CANCELLED, reason)


def _skip(desk: Desk, job: JobRecord, reason: Why) -> None:
    if job.state in _SKIPPABLE:
        _end(desk, job, JobState.SKIPPED, replace(reason, code="skipped_by"))


def _end(desk: Desk, job: JobRecord, state: JobState, reason: Why) -> None:
    end_job(desk, job, state, Cause.USER, reason)


def _waive(desk: Desk, waive: commands.Waive, order: Order) -> None:
    job = desk.job(waive.job)
    if job.state is JobState.WAITING and 0 <= waive.condition < len(job.start):
        desk.draft.emit(
            events.ConditionWaived(
                job=job.name,
                index=waive.condition,
                reason=waive.reason or "waived",
                sender=order.sender,
            )
        )


# ------------------------------------------------------------------------ resubmit
def _resubmit(desk: Desk, resubmit: commands.Resubmit, order: Order) -> None:
    for name in resubmit.jobs:
        job = desk.job(name)
        if not revival.may_come_back(job):
            continue
        _replan(desk, job, resubmit)
        if resubmit.overrides:
            effect = ComposeJob(
                job=name,
                overrides=(*job.spec.overrides, *resubmit.overrides),
                from_checkpoint=resubmit.from_checkpoint,
                use_files=resubmit.use_files,
            )
            order_effect(desk, effect, why("resubmitted_by", by=order.by))
        else:
            revive(
                desk,
                name,
                order.by,
                from_checkpoint=resubmit.from_checkpoint,
                use_files=resubmit.use_files,
            )


def _replan(desk: Desk, job: JobRecord, resubmit: commands.Resubmit) -> None:
    spec = with_options(job.spec, resubmit)
    if spec is not job.spec:
        desk.draft.emit(
            events.JobReplanned(job=job.name, spec=spec, why=why("other_resources"))
        )


def with_options(spec: JobSpec, resubmit: commands.Resubmit) -> JobSpec:
    """The job with other nodes or another limit; the same object when neither."""
    if resubmit.exclude_nodes:
        spec = excluding(spec, resubmit.exclude_nodes)
    if resubmit.time_limit_seconds is not None:
        resources = replace(
            spec.resources, time_limit_seconds=resubmit.time_limit_seconds
        )
        spec = replace(spec, resources=resources)
    return spec


def revive(
    desk: Desk, name: str, by: str, *, from_checkpoint: bool, use_files: bool
) -> None:
    """Bring a job back, and with it whoever ended only because of it."""
    reason = why("revived_by", by=by)
    desk.draft.emit(
        events.JobRevived(
            job=name,
            from_checkpoint=from_checkpoint,
            use_files=use_files,
            why=reason,
        )
    )
    for dependant in ended_because_of(desk, name):
        desk.draft.emit(
            events.JobRevived(
                job=dependant,
                from_checkpoint=False,
                why=why("revived_with", job=name, by=by),
            )
        )


def ended_because_of(desk: Desk, name: str) -> Iterator[str]:
    """Jobs downstream of `name` that were skipped or cancelled on its account."""
    jobs = desk.state.jobs
    below = revival.dependants(desk.job(one) for one in desk.state.order)
    return revival.ended_because_of([name], jobs, below)


# ------------------------------------------------------------------------- the rest
def _answer(desk: Desk, answer: commands.Answer, order: Order) -> None:
    ask = desk.job(answer.job).ask
    if ask is None or ask.approved is not None:
        return
    if ask.digest != answer.digest:
        _refuse(desk, why("other_digest", job=answer.job), (answer.job,))
        return
    desk.draft.emit(
        events.ApprovalAnswered(
            job=answer.job,
            digest=answer.digest,
            approved=answer.approved,
            by=order.by,
            reason=answer.reason,
            sender=order.sender,
        )
    )


def _acknowledge(desk: Desk, seen: commands.Acknowledge, order: Order) -> None:
    for warning_id in seen.warnings:
        if warning_id in desk.state.warnings:
            desk.draft.emit(events.WarningCleared(warning_id=warning_id, by=order.by))
    for name, number in dict.fromkeys(seen.limits):
        job = desk.state.jobs.get(name)
        attempt = job.attempt if job else None
        if attempt is None or attempt.number != number or attempt.limit_seen:
            continue
        desk.draft.emit(events.LimitAcknowledged(job=name, attempt=number, by=order.by))


def _stop(desk: Desk, stop: commands.StopEngine, order: Order) -> None:
    if stop.cancel_jobs:
        _kill(desk, desk.state.order, _by_person(order, "session stopped"))
        if desk.roster.active:
            return  # the engine stays until they have ended
    reason = "handed over" if stop.hand_over else f"stopped by {order.by}"
    asked = order.by != commands.LEAVING
    desk.draft.emit(events.EngineStopped(reason=reason, on_request=asked))
