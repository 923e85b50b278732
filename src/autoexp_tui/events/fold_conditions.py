"""What events about conditions do to a job: verdicts, latches, waivers, approvals."""

from __future__ import annotations

from autoexp_tui.events import events
from autoexp_tui.events.events import Recorded
from autoexp_tui.events.state_updates import update
from autoexp_tui.model.state import Ask, ConditionStatus, Latched, SessionState
from autoexp_tui.model.verdicts import Result, Why


def condition_judged(
    state: SessionState, record: Recorded, event: events.ConditionJudged
) -> None:
    """Keep the verdict on one condition."""
    job = state.jobs[event.job]
    statuses = list(getattr(job, event.role))
    old = statuses[event.index]
    statuses[event.index] = ConditionStatus(
        result=event.result,
        why=event.why,
        since=record.t,
        waived=old.waived if old else "",
    )
    update(state, event.job, **{event.role: tuple(statuses)})


def condition_latched(state: SessionState, event: events.ConditionLatched) -> None:
    """Keep the line that a pattern was found in: it stays found."""
    latched = Latched(line=event.line, path=event.path)
    known = state.jobs[event.job].latched
    update(state, event.job, latched={**known, event.key: latched})


def condition_waived(
    state: SessionState, record: Recorded, event: events.ConditionWaived
) -> None:
    """Let a condition not hold the job back."""
    statuses = list(state.jobs[event.job].start)
    old = statuses[event.index]
    statuses[event.index] = ConditionStatus(
        result=old.result if old else Result.WAIT,
        why=old.why if old else Why("not_looked"),
        since=record.t,
        waived=event.reason or "waived",
    )
    update(state, event.job, start=tuple(statuses))


def approval_asked(
    state: SessionState, record: Recorded, event: events.ApprovalAsked
) -> None:
    """Put a question to a person."""
    ask = Ask(
        digest=event.digest,
        prompt=event.prompt,
        asked_at=record.t,
        asked_lived=state.lived,
    )
    update(state, event.job, ask=ask)


def approval_answered(state: SessionState, event: events.ApprovalAnswered) -> None:
    """Keep the answer, if it is to the question as it stands."""
    ask = state.jobs[event.job].ask
    if ask is None or ask.digest != event.digest:
        return
    answered = state.renew(
        ask, approved=event.approved, by=event.by, reason=event.reason
    )
    update(state, event.job, ask=answered)
