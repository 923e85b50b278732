"""What ordered effects and the answers to submissions do to the state."""

from __future__ import annotations

from typing import Any, assert_never

from autoexp_tui.effects import effects
from autoexp_tui.events import events
from autoexp_tui.events.events import Recorded
from autoexp_tui.events.state_updates import (
    attempts_with_metrics,
    move,
    update,
    update_attempt,
)
from autoexp_tui.model.freshness import begins_anew
from autoexp_tui.model.state import Attempt, JobRecord, PendingEffect, SessionState
from autoexp_tui.model.states import UNANSWERED, Cause, JobState
from autoexp_tui.model.verdicts import Why


def effect_ordered(
    state: SessionState, record: Recorded, event: events.EffectOrdered
) -> None:
    """Keep the order until it is settled; tasks that it names move on."""
    state.pending[event.effect_id] = PendingEffect(
        effect_id=event.effect_id,
        effect=event.effect,
        seq=record.seq,
        ordered_utc=state.utc,
        why=event.why,
    )
    match event.effect:
        case effects.SubmitTasks() as submit:
            _open_attempts(state, record, submit)
        case effects.CancelTasks() as cancel:
            _mark_cancelled(state, cancel, event)
        case effects.LookAtFiles() as look:
            update(state, look.job, look_ordered=look.attempt)
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
            update_attempt(state, job, number, token=submit.token)
            move(state, record, job, JobState.SUBMITTING)  # sent again, same intent
            continue
        anew = begins_anew(old)
        attempt = Attempt(
            number=number,
            anew=anew,
            token=submit.token,
            ordered_at=record.t,
            ordered_why=old.retry.why if old.retry else None,
            resume=old.retry.from_checkpoint if old.retry else old.resume,
            fingerprint=old.spec.fingerprint,
            values=None if old.spec.planned is None else old.spec.parameters,
        )
        move(
            state,
            record,
            job,
            JobState.SUBMITTING,
            attempts=(*attempts_with_metrics(old), attempt),
            retry=None,
            why=None,
            cause=None,
            waiting_lived=None,
            use_files=False,
            **(_without_the_past(old) if anew else {}),
        )


def _without_the_past(job: JobRecord) -> dict[str, Any]:
    """What a job loses whose attempt begins anew: the words and files of others."""
    aside = {} if job.looked_before != len(job.attempts) + 1 else {"aside": job.found}
    return {"metadata": {}, "noted": None, "found": {}, **aside}


def _mark_cancelled(
    state: SessionState, cancel: effects.CancelTasks, event: events.EffectOrdered
) -> None:
    marked: dict[str, Any] = {"cancel_cause": event.cause or Cause.USER}
    if event.finish:
        marked = {"finished": True}
    for job, number in cancel.tasks:
        update_attempt(state, job, number, cancel_why=event.why, **marked)


def submission_accepted(
    state: SessionState, record: Recorded, event: events.SubmissionAccepted
) -> None:
    """Let the attempts of a submission wait in the executor's queue."""
    submitted_at = event.submitted_at - state.wall_ahead
    for (job, number), executor_id in zip(
        state.tokens[event.token], event.executor_ids, strict=True
    ):
        update_attempt(
            state, job, number, executor_id=executor_id, submitted_at=submitted_at
        )
        current = state.jobs[job]
        newest = current.attempt
        if newest and newest.number == number and current.state in UNANSWERED:
            move(state, record, job, JobState.QUEUED, why=None)


def submission_moves(
    state: SessionState, record: Recorded, token: str, new: JobState, why: Why | None
) -> None:
    """Move the jobs of a submission that has no answer to `new`."""
    for job, number in state.tokens[token]:
        current = state.jobs[job]
        newest = current.attempt
        if newest and newest.number == number and current.state in UNANSWERED:
            move(state, record, job, new, why=why)
