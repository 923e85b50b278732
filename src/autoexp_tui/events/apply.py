"""State is the fold of events: one small reducer an event, no policy.

Replay, resume and the live engine run this same function. An illegal transition is a
bug in the decider and raises; nothing is repaired silently. The reducers are in the
`fold_...` modules, by what they are about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import assert_never

from autoexp_tui.events import events
from autoexp_tui.events.events import Event, Recorded
from autoexp_tui.events.fold_conditions import (
    approval_answered,
    approval_asked,
    condition_judged,
    condition_latched,
    condition_waived,
)
from autoexp_tui.events.fold_effects import (
    effect_ordered,
    submission_accepted,
    submission_moves,
)
from autoexp_tui.events.fold_rules import (
    action_deferred,
    action_fired,
    evidence_captured,
    forget_deferred,
    log_matched,
    warning_raised,
)
from autoexp_tui.events.fold_runs import (
    attempt_ended,
    checkpoint_quarantined,
    files_set_aside,
    job_ended,
    job_revived,
    log_replaced,
    retry_ordered,
    run_began,
)
from autoexp_tui.events.fold_session import (
    done_found,
    engine_started,
    foreign_files_found,
    job_replanned,
    plan_added,
    session_started,
)
from autoexp_tui.events.state_updates import move, move_all, update, update_attempt
from autoexp_tui.model.fast_replace import amended, changed
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import JobState


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
    _pass_time(state, record)
    if record.command_id:
        state.commands.setdefault(record.command_id, record.seq)
    _reduce(state, record, record.event)


def _pass_time(state: SessionState, record: Recorded) -> None:
    """Move the three time scales on; a journal of an older version has only `t`."""
    state.utc = record.t if record.utc is None else record.utc
    if record.lived is not None:
        state.lived = max(state.lived, record.lived)
    elif state.t:
        state.lived += max(0.0, record.t - state.t - _away(record.event))
    state.t = max(state.t, record.t)


def _away(event: Event) -> float:
    return event.gap_seconds if isinstance(event, events.EngineStarted) else 0.0


def _reduce(state: SessionState, record: Recorded, event: Event) -> None:
    match event:  # in order of how often they come: a long journal folds faster
        case events.LogMatched():
            log_matched(state, event)
        case events.MetricsNoted():
            update(state, event.job, noted=event)
        case events.ConditionJudged():
            condition_judged(state, record, event)
        case events.EffectOrdered():
            effect_ordered(state, record, event)
        case events.EffectSettled():
            state.pending.pop(event.effect_id, None)
        case events.SubmissionAccepted():
            submission_accepted(state, record, event)
        case events.RunBegan():
            run_began(state, record, event)
        case events.AttemptEnded():
            attempt_ended(state, event)
        case events.JobEnded():
            job_ended(state, record, event)
        case events.WaitExplained():
            update(state, event.job, why=event.why)
        case events.SessionStarted():
            session_started(state, record, event)
        case events.EngineStarted():
            engine_started(state, record, event)
        case events.EngineStopped():
            state.engine_stopped = True
        case events.PlanAdded():
            plan_added(state, record, event)
        case events.DoneFound():
            done_found(state, event)
        case events.ForeignFilesFound():
            foreign_files_found(state, event)
        case events.FilesSetAside():
            files_set_aside(state, event)
        case events.SubmissionPaused():
            state.paused = event.why
        case events.SubmissionResumed():
            state.paused = None
            state.streaks.clear()
        case events.NodeExcluded():
            state.excluded_nodes = (*state.excluded_nodes, event.node)
            state.streaks.clear()
        case events.JobsReleased():
            move_all(state, record, event.jobs, JobState.WAITING, ahead=event.ahead)
        case events.JobsHeld():
            move_all(state, record, event.jobs, JobState.HELD, why=event.why)
        case events.ConditionLatched():
            condition_latched(state, event)
        case events.ConditionWaived():
            condition_waived(state, record, event)
        case events.ApprovalAsked():
            approval_asked(state, record, event)
        case events.ApprovalAnswered():
            approval_answered(state, event)
        case events.JobReplanned():
            job_replanned(state, event)
        case events.SubmissionUncertain():
            submission_moves(
                state, record, event.token, JobState.SUBMIT_UNKNOWN, event.why
            )
        case events.SubmissionAbsent():
            submission_moves(state, record, event.token, JobState.SUBMITTING, None)
        case events.LogReplaced():
            log_replaced(state, event)
        case events.RunRequeued():
            move(state, record, event.job, JobState.QUEUED, why=event.why)
        case events.RunSuspended():
            move(state, record, event.job, JobState.SUSPENDED, why=None)
        case events.RunResumed():
            move(state, record, event.job, JobState.RUNNING, why=None)
        case events.CheckpointSeen():
            update(state, event.job, saved=event.saved)
        case events.CheckpointQuarantined():
            checkpoint_quarantined(state, event)
        case events.RetryOrdered():
            retry_ordered(state, record, event)
        case events.JobRevived():
            job_revived(state, record, event)
        case events.WarningRaised():
            warning_raised(state, record, event)
        case events.WarningCleared():
            state.warnings.pop(event.warning_id, None)
        case events.LimitAcknowledged():
            update_attempt(state, event.job, event.attempt, limit_seen=True)
        case events.EvidenceCaptured():
            evidence_captured(state, event)
        case events.ActionFired():
            action_fired(state, event)
        case events.ActionDeferred():
            action_deferred(state, record, event)
        case events.ActionDropped():
            forget_deferred(state, event.job, event.action)
        case (
            events.CommandRefused()
            | events.MessageLogged()
            | events.EngineFaulted()
            | events.JournalRotated()
        ):
            pass
        case _:
            assert_never(event)
