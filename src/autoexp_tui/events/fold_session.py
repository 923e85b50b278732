"""What events of the session itself do: engines start, plans join, work was done."""

from __future__ import annotations

from collections.abc import Sequence

from autoexp_tui.events import events
from autoexp_tui.events.events import Recorded
from autoexp_tui.events.state_updates import attempts_with_metrics, update
from autoexp_tui.model.joining import joined
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import GAPS, JobRecord, SessionState


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
    """Note who runs it, and for how long nobody did."""
    state.engine_host = event.host
    state.engine_pid = event.pid
    state.engine_stopped = False
    state.wrapper_sha256 = event.wrapper_sha256 or state.wrapper_sha256
    if event.gap_seconds > 0:
        gap = (record.t - event.gap_seconds, record.t)
        state.gaps = (*state.gaps, gap)[-GAPS:]


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
            since_lived=state.lived,
            start=(None,) * len(spec.start_conditions),
            cancel=(None,) * len(spec.cancel_conditions),
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
                result=work.result,
            )
        update(state, work.job, done=work, metadata=work.metadata, noted=noted)


def foreign_files_found(state: SessionState, event: events.ForeignFilesFound) -> None:
    """Note whose directories hold what other work has left."""
    for job in event.jobs:
        update(state, job, foreign_files=True)


def job_replanned(state: SessionState, event: events.JobReplanned) -> None:
    """Give a job another spec; metrics of other work stay with the attempt that made
    them."""
    old = state.jobs[event.job]
    if event.spec.fingerprint != old.spec.fingerprint:
        update(state, event.job, attempts=attempts_with_metrics(old), noted=None)
    update(state, event.job, spec=event.spec)
