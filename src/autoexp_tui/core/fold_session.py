"""What events of the session itself do: engines start, plans join, work was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoexp_tui.core import events
from autoexp_tui.core.events import Recorded
from autoexp_tui.core.joining import joined
from autoexp_tui.core.moves import update
from autoexp_tui.core.specs import JobSpec
from autoexp_tui.core.state import GAPS, JobRecord, SessionState


def session_started(
    state: SessionState, record: Recorded, event: events.SessionStarted
) -> None:
    """Name the session, and when it began."""
    state.session = event.session
    state.name = event.name
    state.started_at = record.t


def engine_started(
    state: SessionState, record: Recorded, event: events.EngineStarted
) -> None:
    """Note who runs it; time without an engine counts for no timeout."""
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
            update(state, name, waiting_since=job.waiting_since + seconds)
        if job.ask is not None and job.ask.approved is None:
            ask = state.renew(job.ask, asked_at=job.ask.asked_at + seconds)
            update(state, name, ask=ask)
        if job.deferred:
            moved = {
                key: replace(put_off, since=put_off.since + seconds)
                for key, put_off in job.deferred.items()
            }
            update(state, name, deferred=moved)


def plan_added(state: SessionState, record: Recorded, event: events.PlanAdded) -> None:
    """Let the jobs of a plan join, with nothing judged yet."""
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


def done_found(state: SessionState, event: events.DoneFound) -> None:
    """Take over what an earlier session left of work that is done."""
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
        update(state, work.job, done=work, metadata=work.metadata, noted=noted)


def job_replanned(state: SessionState, event: events.JobReplanned) -> None:
    """A job that had ended is planned anew by a person, who asks for other work; one
    that is to be tried again does the plan's work still."""
    old = state.jobs[event.job]
    changed = old.ended and event.spec.fingerprint != old.spec.fingerprint
    work = event.spec.fingerprint if changed else old.work
    update(state, event.job, spec=event.spec, work=work)
