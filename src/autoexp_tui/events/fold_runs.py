"""What events of runs do to a job: they begin and end, are tried again, or are over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from autoexp_tui.events import events
from autoexp_tui.events.events import Recorded
from autoexp_tui.events.fold_rules import forget_matches
from autoexp_tui.events.state_updates import move, update, update_attempt
from autoexp_tui.model.checkpoints import Checkpoint, SavedCheckpoint
from autoexp_tui.model.state import Matched, Retry, SessionState
from autoexp_tui.model.states import JobState
from autoexp_tui.model.streaks import count_end


def run_began(state: SessionState, record: Recorded, event: events.RunBegan) -> None:
    """Let the attempt run, in place of its run before."""
    found: dict[str, Any] = {
        "run": event.run,
        "began_at": _told_at(state, event, event.began_at),
        "node": event.node,
        "partition": event.partition,
        "pid": event.pid,
        "log_path": event.log_path,
        "log_start": event.log_start,
        "log_replaced": 0,
    }
    if event.executor_id:
        found["executor_id"] = event.executor_id
    update_attempt(state, event.job, event.attempt, **found)
    if not state.jobs[event.job].ended:
        move(state, record, event.job, JobState.RUNNING, why=None)


def _told_at(
    state: SessionState, event: events.RunBegan | events.AttemptEnded, utc: float
) -> float:
    """The `t` of what a run's host tells the time of, by a clock of its own.

    It came after what led to it and before we saw it, whatever that clock shows.
    """
    known = [
        attempt.began_at
        if isinstance(event, events.AttemptEnded) and attempt.began_at is not None
        else attempt.ordered_at
        for attempt in state.jobs[event.job].attempts
        if attempt.number == event.attempt
    ]
    return min(max(utc - state.wall_ahead, *known), state.t) if known else utc


def log_replaced(state: SessionState, event: events.LogReplaced) -> None:
    """Forget places in a log that is not the same any more."""
    update_attempt(state, event.job, event.attempt, log_replaced=event.count)
    found = state.matches.get(event.job)
    if found is not None:
        marks = {rule: (known, -1) for rule, (known, _) in found.marks.items()}
        state.matches[event.job] = Matched(found.attempt, found.run, marks)
    noted = state.jobs[event.job].noted
    if noted is not None and noted.judged.get(""):
        judged = {**noted.judged, "": 0}
        update(state, event.job, noted=replace(noted, judged=judged))


def attempt_ended(state: SessionState, event: events.AttemptEnded) -> None:
    """Keep how an attempt ended; its log is over."""
    update_attempt(
        state,
        event.job,
        event.attempt,
        outcome=event.outcome,
        cause=event.cause,
        exit_code=event.exit_code,
        signal=event.signal,
        ended_at=_told_at(state, event, event.ended_at),
        why=event.why,
        evidence=event.evidence,
        reached=event.reached,
    )
    forget_matches(state, event.job, event.attempt)
    count_end(state, event)


def checkpoint_quarantined(
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
    update(state, event.job, saved=saved, metadata=metadata)


def _told_instead(value: str, moved: Checkpoint, now: Checkpoint | None) -> str | None:
    """A log's word of a checkpoint once that is moved; None: there is no other."""
    if value == moved.path:
        return now.path if now else None
    if value == str(moved.step):
        return str(now.step) if now and now.step is not None else None
    return value


def retry_ordered(
    state: SessionState, record: Recorded, event: events.RetryOrdered
) -> None:
    """Let the job be tried again, at its time."""
    waits = event.wait_seconds
    if waits is None:  # of an older version
        waits = max(0.0, event.not_before - record.t)
    retry = Retry(
        lived=state.lived + waits,
        from_checkpoint=event.from_checkpoint,
        why=event.why,
        held=event.held,
    )
    move(
        state,
        record,
        event.job,
        JobState.RETRYING,
        retry=retry,
        why=event.why,
        use_files=event.use_files,
        **_NOT_LOOKED,
    )


_NOT_LOOKED: Final[Mapping[str, Any]] = {
    "look_ordered": 0,
    "looked_before": 0,
    "found": {},
}


def job_ended(state: SessionState, record: Recorded, event: events.JobEnded) -> None:
    """Move a job to where it ends, with what it keeps."""
    deferred = state.jobs[event.job].deferred
    state.matches.pop(event.job, None)
    move(
        state,
        record,
        event.job,
        event.state,
        cause=event.cause,
        why=event.why,
        waiting_lived=None,
        retry=None,
        deferred={key: deferred[key] for key in event.keeps if key in deferred},
    )


def job_revived(
    state: SessionState, record: Recorded, event: events.JobRevived
) -> None:
    """Let a job that ended wait again, with nothing judged."""
    old = state.jobs[event.job]
    spec, again = old.spec, old.done_before
    if old.done is not None:  # a former life's words say nothing of the run to come
        gone: dict[str, Any] = {"done": None, "metadata": {}, "noted": None}
        update(state, event.job, foreign_files=True, **gone)
    move(
        state,
        record,
        event.job,
        JobState.WAITING,
        again=again,
        cause=None,
        why=None,
        waiting_lived=state.lived,
        resume=event.from_checkpoint,
        start=(None,) * len(spec.start_conditions),
        cancel=(None,) * len(spec.cancel_conditions),
        latched={},
        ask=None,
        retry=None,
        use_files=event.use_files,
        **_NOT_LOOKED,
    )


def files_set_aside(state: SessionState, event: events.FilesSetAside) -> None:
    """Keep what lay there before an attempt that is to begin anew."""
    job, found = state.jobs[event.job], {one.file.path: one for one in event.files}
    reason = job.why
    if reason is not None and reason.code in _OF_LOOKS:
        reason = job.retry.why if job.retry else None
    update(state, job.name, looked_before=event.attempt, found=found, why=reason)


_OF_LOOKS: Final = frozenset({"held_by_files", "files_unseen"})
