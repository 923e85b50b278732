"""State is the fold of events: one small reducer an event, no policy.

Replay, resume and the live engine run this same function. An illegal transition is a
bug in the decider and raises; nothing is repaired silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, assert_never

from autoexp_tui.core import effects, events
from autoexp_tui.core.checkpoints import Checkpoint, SavedCheckpoint
from autoexp_tui.core.copying import amended, changed
from autoexp_tui.core.events import Event, Recorded
from autoexp_tui.core.joining import joined
from autoexp_tui.core.specs import JobSpec
from autoexp_tui.core.state import (
    GAPS,
    Ask,
    Attempt,
    ConditionStatus,
    Deferred,
    JobRecord,
    Latched,
    Mark,
    Matched,
    PendingEffect,
    Retry,
    SessionState,
    Warned,
)
from autoexp_tui.core.states import UNANSWERED, Cause, JobState, may_become
from autoexp_tui.core.streaks import count_end
from autoexp_tui.core.verdicts import Result, Why


class IllegalTransition(Exception):
    """An event asks for a step that the table does not have."""


def fold(state: SessionState, records: Iterable[Recorded]) -> SessionState:
    """Apply every record in order to `state`, and return it."""
    with unseen(state):
        for record in records:
            apply(state, record)
    return state


@contextmanager
def unseen(state: SessionState, *, ours: bool = False) -> Iterator[None]:
    """Fold fast: nobody looks at `state` before this ends.

    A job's records are then changed where they are, not copied at each event; a long
    journal folds in half the time. Only for a state that has no jobs yet, or whose
    records are `ours`: those that somebody may hold already are left alone.
    """
    if state.jobs and not ours:
        yield
        return
    state.renew = amended
    try:
        yield
    finally:
        state.renew = changed


def apply(state: SessionState, record: Recorded) -> None:
    """Move `state` on by one event.

    Raises:
        IllegalTransition: the event does not fit the job's state.
        KeyError: it names a job, plan or token that the session does not have.
    """
    state.seq = record.seq
    state.epoch = record.epoch
    state.t = max(state.t, record.t)
    if record.command_id:
        state.commands.setdefault(record.command_id, record.seq)
    _reduce(state, record, record.event)


def _reduce(state: SessionState, record: Recorded, event: Event) -> None:
    match event:  # in order of how often they come: a long journal folds faster
        case events.LogMatched():
            _log_matched(state, event)
        case events.MetricsNoted():
            _update(state, event.job, noted=event)
        case events.ConditionJudged():
            _condition_judged(state, record, event)
        case events.EffectOrdered():
            _effect_ordered(state, record, event)
        case events.EffectSettled():
            state.pending.pop(event.effect_id, None)
        case events.SubmissionAccepted():
            _submission_accepted(state, record, event)
        case events.RunBegan():
            _run_began(state, record, event)
        case events.AttemptEnded():
            _attempt_ended(state, event)
        case events.JobEnded():
            _job_ended(state, record, event)
        case events.WaitExplained():
            _update(state, event.job, why=event.why)
        case events.SessionStarted():
            _session_started(state, record, event)
        case events.EngineStarted():
            _engine_started(state, record, event)
        case events.EngineStopped():
            state.engine_stopped = True
        case events.PlanAdded():
            _plan_added(state, record, event)
        case events.DoneFound():
            _done_found(state, event)
        case events.SubmissionPaused():
            state.paused = event.why
        case events.SubmissionResumed():
            state.paused = None
            state.streaks.clear()
        case events.NodeExcluded():
            state.excluded_nodes = (*state.excluded_nodes, event.node)
            state.streaks.clear()
        case events.JobsReleased():
            _move_all(state, record, event.jobs, JobState.WAITING, ahead=event.ahead)
        case events.JobsHeld():
            _move_all(state, record, event.jobs, JobState.HELD)
        case events.ConditionLatched():
            _condition_latched(state, event)
        case events.ConditionWaived():
            _condition_waived(state, record, event)
        case events.ApprovalAsked():
            _approval_asked(state, record, event)
        case events.ApprovalAnswered():
            _approval_answered(state, event)
        case events.JobReplanned():
            _job_replanned(state, event)
        case events.SubmissionUncertain():
            _submission_moves(
                state, record, event.token, JobState.SUBMIT_UNKNOWN, event.why
            )
        case events.SubmissionAbsent():
            _submission_moves(state, record, event.token, JobState.SUBMITTING, None)
        case events.LogReplaced():
            _log_replaced(state, event)
        case events.RunRequeued():
            _move(state, record, event.job, JobState.QUEUED, why=event.why)
        case events.CheckpointSeen():
            _update(state, event.job, saved=event.saved)
        case events.CheckpointQuarantined():
            _checkpoint_quarantined(state, event)
        case events.RetryOrdered():
            _retry_ordered(state, record, event)
        case events.JobRevived():
            _job_revived(state, record, event)
        case events.WarningRaised():
            _warning_raised(state, record, event)
        case events.WarningCleared():
            state.warnings.pop(event.warning_id, None)
        case events.EvidenceCaptured():
            _evidence_captured(state, event)
        case events.ActionFired():
            _action_fired(state, record, event)
        case events.ActionDeferred():
            _action_deferred(state, record, event)
        case events.ActionDropped():
            _forget_deferred(state, event.job, event.action)
        case (
            events.CommandRefused()
            | events.MessageLogged()
            | events.EngineFaulted()
            | events.JournalRotated()
        ):
            pass
        case _:
            assert_never(event)


# ---------------------------------------------------------------------- helpers
def _update(state: SessionState, job: str, **changes: Any) -> None:
    state.jobs[job] = state.renew(state.jobs[job], **changes)


def _move(
    state: SessionState,
    record: Recorded,
    job: str,
    new: JobState,
    *,
    again: bool = False,
    **changes: Any,
) -> None:
    """`again`: it completed without a run of this session, and may still have one."""
    old = state.jobs[job]
    if not (again or may_become(old.state, new)):
        raise IllegalTransition(f"{job}: {old.state} -> {new} by {record.event!r}")
    since = old.since if old.state is new else record.t
    state.jobs[job] = state.renew(old, state=new, since=since, **changes)


def _move_all(
    state: SessionState,
    record: Recorded,
    jobs: tuple[str, ...],
    new: JobState,
    **changes: Any,
) -> None:
    waiting = record.t if new is JobState.WAITING else None
    for job in jobs:
        _move(state, record, job, new, waiting_since=waiting, why=None, **changes)


def _update_attempt(state: SessionState, job: str, number: int, **changes: Any) -> None:
    attempts = tuple(
        state.renew(attempt, **changes) if attempt.number == number else attempt
        for attempt in state.jobs[job].attempts
    )
    _update(state, job, attempts=attempts)


# ---------------------------------------------------------------------- session
def _session_started(
    state: SessionState, record: Recorded, event: events.SessionStarted
) -> None:
    state.session = event.session
    state.name = event.name
    state.started_at = record.t


def _engine_started(
    state: SessionState, record: Recorded, event: events.EngineStarted
) -> None:
    state.engine_host = event.host
    state.engine_pid = event.pid
    state.engine_stopped = False
    if event.gap_seconds > 0:
        gap = (record.t - event.gap_seconds, record.t)
        state.gaps = (*state.gaps, gap)[-GAPS:]
        _shift_waiting(state, event.gap_seconds)


def _shift_waiting(state: SessionState, seconds: float) -> None:
    for name, job in list(state.jobs.items()):
        if job.waiting_since is not None:
            _update(state, name, waiting_since=job.waiting_since + seconds)
        if job.ask is not None and job.ask.approved is None:
            ask = state.renew(job.ask, asked_at=job.ask.asked_at + seconds)
            _update(state, name, ask=ask)
        if job.deferred:
            moved = {
                key: replace(put_off, since=put_off.since + seconds)
                for key, put_off in job.deferred.items()
            }
            _update(state, name, deferred=moved)


def _plan_added(state: SessionState, record: Recorded, event: events.PlanAdded) -> None:
    plan = state.plans[event.sha]
    new: Sequence[JobSpec] = plan.jobs
    if state.plan is None:
        state.plan = plan
    else:
        state.plan, new = joined(state.plan, plan, event.sha)
    state.joined = (*state.joined, event.sha)
    for spec in new:
        state.jobs[spec.name] = JobRecord(
            spec=spec,
            plan_sha=event.sha,
            parent=event.job,
            parent_action=event.action,
            since=record.t,
            start=(None,) * len(spec.start_conditions),
            cancel=(None,) * len(spec.cancel_conditions),
            work=spec.fingerprint,
        )
    state.order = (*state.order, *(spec.name for spec in new))


def _done_found(state: SessionState, event: events.DoneFound) -> None:
    for work in event.works:
        noted = None
        if work.step is not None:
            noted = events.MetricsNoted(
                job=work.job,
                attempt=0,
                run=0,
                step=work.step,
                total=work.total,
                values=work.values,
            )
        _update(state, work.job, done=work, metadata=work.metadata, noted=noted)


def _job_replanned(state: SessionState, event: events.JobReplanned) -> None:
    """A job that had ended is planned anew by a person, who asks for other work; one
    that is to be tried again does the plan's work still."""
    old = state.jobs[event.job]
    changed = old.ended and event.spec.fingerprint != old.spec.fingerprint
    work = event.spec.fingerprint if changed else old.work
    _update(state, event.job, spec=event.spec, work=work)


# ------------------------------------------------------------------- conditions
def _condition_judged(
    state: SessionState, record: Recorded, event: events.ConditionJudged
) -> None:
    job = state.jobs[event.job]
    statuses = list(getattr(job, event.role))
    old = statuses[event.index]
    statuses[event.index] = ConditionStatus(
        result=event.result,
        why=event.why,
        since=record.t,
        waived=old.waived if old else "",
    )
    _update(state, event.job, **{event.role: tuple(statuses)})


def _condition_latched(state: SessionState, event: events.ConditionLatched) -> None:
    latched = Latched(line=event.line, path=event.path)
    known = state.jobs[event.job].latched
    _update(state, event.job, latched={**known, event.key: latched})


def _condition_waived(
    state: SessionState, record: Recorded, event: events.ConditionWaived
) -> None:
    statuses = list(state.jobs[event.job].start)
    old = statuses[event.index]
    statuses[event.index] = ConditionStatus(
        result=old.result if old else Result.WAIT,
        why=old.why if old else Why("not_looked"),
        since=record.t,
        waived=event.reason or "waived",
    )
    _update(state, event.job, start=tuple(statuses))


def _approval_asked(
    state: SessionState, record: Recorded, event: events.ApprovalAsked
) -> None:
    ask = Ask(digest=event.digest, prompt=event.prompt, asked_at=record.t)
    _update(state, event.job, ask=ask)


def _approval_answered(state: SessionState, event: events.ApprovalAnswered) -> None:
    ask = state.jobs[event.job].ask
    if ask is None or ask.digest != event.digest:
        return
    answered = state.renew(
        ask, approved=event.approved, by=event.by, reason=event.reason
    )
    _update(state, event.job, ask=answered)


# ---------------------------------------------------------------------- effects
def _effect_ordered(
    state: SessionState, record: Recorded, event: events.EffectOrdered
) -> None:
    state.pending[event.effect_id] = PendingEffect(
        effect_id=event.effect_id,
        effect=event.effect,
        seq=record.seq,
        ordered_at=record.t,
        why=event.why,
    )
    match event.effect:
        case effects.SubmitTasks() as submit:
            _open_attempts(state, record, submit)
        case effects.CancelTasks() as cancel:
            _mark_cancelled(state, cancel, event)
        case (
            effects.ComposeJob()
            | effects.RunNotifyCommand()
            | effects.AppendText()
            | effects.RunActionCommand()
            | effects.NoteDone()
            | effects.LookForCheckpoint()
            | effects.MoveCheckpoint()
            | effects.CaptureEvidence()
            | effects.PlanJobs()
            | effects.AddJob()
        ):
            pass
        case _:
            assert_never(event.effect)


def _open_attempts(
    state: SessionState, record: Recorded, submit: effects.SubmitTasks
) -> None:
    state.tokens[submit.token] = submit.tasks
    for job, number in submit.tasks:
        old = state.jobs[job]
        if any(attempt.number == number for attempt in old.attempts):
            _update_attempt(state, job, number, token=submit.token)
            _move(state, record, job, JobState.SUBMITTING)  # sent again, same intent
            continue
        attempt = Attempt(
            number=number,
            token=submit.token,
            ordered_at=record.t,
            resume=old.retry.from_checkpoint if old.retry else old.resume,
        )
        _move(
            state,
            record,
            job,
            JobState.SUBMITTING,
            attempts=(*old.attempts, attempt),
            retry=None,
            why=None,
            cause=None,
            waiting_since=None,
        )


def _mark_cancelled(
    state: SessionState, cancel: effects.CancelTasks, event: events.EffectOrdered
) -> None:
    marked: dict[str, Any] = {"cancel_cause": event.cause or Cause.USER}
    if event.finish:
        marked = {"finished": True}
    for job, number in cancel.tasks:
        _update_attempt(state, job, number, cancel_why=event.why, **marked)


def _submission_accepted(
    state: SessionState, record: Recorded, event: events.SubmissionAccepted
) -> None:
    for (job, number), executor_id in zip(
        state.tokens[event.token], event.executor_ids, strict=True
    ):
        _update_attempt(
            state,
            job,
            number,
            executor_id=executor_id,
            submitted_at=event.submitted_at,
        )
        current = state.jobs[job]
        newest = current.attempt
        if newest and newest.number == number and current.state in UNANSWERED:
            _move(state, record, job, JobState.QUEUED, why=None)


def _submission_moves(
    state: SessionState,
    record: Recorded,
    token: str,
    new: JobState,
    why: Why | None,
) -> None:
    for job, number in state.tokens[token]:
        current = state.jobs[job]
        newest = current.attempt
        if newest and newest.number == number and current.state in UNANSWERED:
            _move(state, record, job, new, why=why)


# --------------------------------------------------------------- attempts, runs
def _run_began(state: SessionState, record: Recorded, event: events.RunBegan) -> None:
    found: dict[str, Any] = {
        "run": event.run,
        "began_at": event.began_at,
        "node": event.node,
        "partition": event.partition,
        "pid": event.pid,
        "log_path": event.log_path,
        "log_start": event.log_start,
        "log_replaced": 0,
    }
    if event.executor_id:
        found["executor_id"] = event.executor_id
    _update_attempt(state, event.job, event.attempt, **found)
    if not state.jobs[event.job].ended:
        _move(state, record, event.job, JobState.RUNNING, why=None)


def _log_replaced(state: SessionState, event: events.LogReplaced) -> None:
    _update_attempt(state, event.job, event.attempt, log_replaced=event.count)
    found = state.matches.get(event.job)
    if found is not None:
        marks = {rule: (known, -1) for rule, (known, _) in found.marks.items()}
        state.matches[event.job] = Matched(found.attempt, found.run, marks)
    noted = state.jobs[event.job].noted
    if noted is not None and noted.judged.get(""):
        judged = {**noted.judged, "": 0}
        _update(state, event.job, noted=replace(noted, judged=judged))


def _attempt_ended(state: SessionState, event: events.AttemptEnded) -> None:
    _update_attempt(
        state,
        event.job,
        event.attempt,
        outcome=event.outcome,
        cause=event.cause,
        exit_code=event.exit_code,
        signal=event.signal,
        ended_at=event.ended_at,
        why=event.why,
        evidence=event.evidence,
        reached=event.reached,
    )
    _forget_matches(state, event.job, event.attempt)
    count_end(state, event)


def _checkpoint_quarantined(
    state: SessionState, event: events.CheckpointQuarantined
) -> None:
    """The one before counts; what the log told of the newest is no longer so."""
    before = event.before
    saved = SavedCheckpoint(checkpoint=before) if before else None
    metadata = dict(state.jobs[event.job].metadata)
    for key in [key for key in metadata if key.startswith("checkpoint")]:
        told = _told_instead(metadata[key], event.checkpoint, before)
        if told is None:
            del metadata[key]
        else:
            metadata[key] = told
    _update(state, event.job, saved=saved, metadata=metadata)


def _told_instead(value: str, moved: Checkpoint, now: Checkpoint | None) -> str | None:
    """A log's word of a checkpoint once that is moved; None: there is no other."""
    if value == moved.path:
        return now.path if now else None
    if value == str(moved.step):
        return str(now.step) if now and now.step is not None else None
    return value


def _retry_ordered(
    state: SessionState, record: Recorded, event: events.RetryOrdered
) -> None:
    retry = Retry(
        not_before=event.not_before,
        from_checkpoint=event.from_checkpoint,
        why=event.why,
        held=event.held,
    )
    _move(state, record, event.job, JobState.RETRYING, retry=retry, why=event.why)


def _job_ended(state: SessionState, record: Recorded, event: events.JobEnded) -> None:
    deferred = state.jobs[event.job].deferred
    state.matches.pop(event.job, None)
    _move(
        state,
        record,
        event.job,
        event.state,
        cause=event.cause,
        why=event.why,
        waiting_since=None,
        retry=None,
        deferred={key: deferred[key] for key in event.keeps if key in deferred},
    )


def _job_revived(
    state: SessionState, record: Recorded, event: events.JobRevived
) -> None:
    old = state.jobs[event.job]
    spec, again = old.spec, old.done_before
    if old.done is not None:  # a former life's words say nothing of the run to come
        _update(state, event.job, done=None, metadata={}, noted=None)
    _move(
        state,
        record,
        event.job,
        JobState.WAITING,
        again=again,
        cause=None,
        why=None,
        waiting_since=record.t,
        resume=event.from_checkpoint,
        start=(None,) * len(spec.start_conditions),
        cancel=(None,) * len(spec.cancel_conditions),
        latched={},
        ask=None,
        retry=None,
    )


# -------------------------------------------------------------- what logs showed
def _log_matched(state: SessionState, event: events.LogMatched) -> None:
    _mark(state, event)
    if event.metadata:
        known = state.jobs[event.job].metadata
        _update(state, event.job, metadata={**known, **event.metadata})


def _mark(state: SessionState, event: events.LogMatched) -> None:
    found = state.matches.get(event.job)
    marks: dict[str, Mark] = {}
    if found is not None and (found.attempt, found.run) == (event.attempt, event.run):
        marks |= found.marks
    marks[event.rule] = (event.match_id, event.offset)
    state.matches[event.job] = Matched(event.attempt, event.run, marks)


def _forget_matches(state: SessionState, job: str, attempt: int) -> None:
    """The log of an attempt that ended is not looked through again."""
    found = state.matches.get(job)
    if found is not None and found.attempt <= attempt:
        del state.matches[job]


def _warning_raised(
    state: SessionState, record: Recorded, event: events.WarningRaised
) -> None:
    state.warnings[event.warning_id] = Warned(
        warning_id=event.warning_id,
        why=event.why,
        job=event.job,
        severity=event.severity,
        evidence=event.evidence,
        raised_at=record.t,
    )


def _evidence_captured(state: SessionState, event: events.EvidenceCaptured) -> None:
    if not event.directory:
        return
    attempt = state.jobs[event.job].attempts[event.attempt - 1]
    captures = (*attempt.captures, event.directory)
    _update_attempt(state, event.job, event.attempt, captures=captures)


def _action_fired(
    state: SessionState, record: Recorded, event: events.ActionFired
) -> None:
    job = state.jobs[event.job]
    fired = {**job.fired, event.action: record.t}
    firings = {**job.firings, event.action: job.firings.get(event.action, 0) + 1}
    _update(state, event.job, fired=fired, firings=firings)
    _forget_deferred(state, event.job, event.action)


def _action_deferred(
    state: SessionState, record: Recorded, event: events.ActionDeferred
) -> None:
    before = state.jobs[event.job].deferred
    old = before.get(event.action)
    put_off = Deferred(
        trigger=event.trigger,
        since=old.since if old and old.trigger == event.trigger else record.t,
        why=event.why,
        until=event.until,
        line=event.line,
    )
    _update(state, event.job, deferred={**before, event.action: put_off})


def _forget_deferred(state: SessionState, job: str, action: str) -> None:
    deferred = dict(state.jobs[job].deferred)
    if deferred.pop(action, None) is not None:
        _update(state, job, deferred=deferred)
