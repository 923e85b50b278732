"""What rules found and did, on the job: matches, warnings, evidence, actions."""

from __future__ import annotations

from autoexp_tui.events import events
from autoexp_tui.events.events import Recorded
from autoexp_tui.events.state_updates import update, update_attempt
from autoexp_tui.model.state import Deferred, Mark, Matched, SessionState, Warned


def log_matched(state: SessionState, event: events.LogMatched) -> None:
    """Keep how far a rule has got in a log, and what it told."""
    _mark(state, event)
    if event.metadata:
        known = state.jobs[event.job].metadata
        update(state, event.job, metadata={**known, **event.metadata})


def _mark(state: SessionState, event: events.LogMatched) -> None:
    found = state.matches.get(event.job)
    marks: dict[str, Mark] = {}
    if found is not None and (found.attempt, found.run) == (event.attempt, event.run):
        marks |= found.marks
    marks[event.rule] = (event.match_id, event.offset)
    state.matches[event.job] = Matched(event.attempt, event.run, marks)


def forget_matches(state: SessionState, job: str, attempt: int) -> None:
    """The log of an attempt that ended is not looked through again."""
    found = state.matches.get(job)
    if found is not None and found.attempt <= attempt:
        del state.matches[job]


def warning_raised(
    state: SessionState, record: Recorded, event: events.WarningRaised
) -> None:
    """Keep a warning until it is cleared."""
    state.warnings[event.warning_id] = Warned(
        warning_id=event.warning_id,
        why=event.why,
        job=event.job,
        severity=event.severity,
        evidence=event.evidence,
        raised_at=record.t,
    )


def evidence_captured(state: SessionState, event: events.EvidenceCaptured) -> None:
    """Keep where it lies what a run was doing."""
    if not event.directory:
        return
    attempt = state.jobs[event.job].attempts[event.attempt - 1]
    captures = (*attempt.captures, event.directory)
    update_attempt(state, event.job, event.attempt, captures=captures)


def action_fired(state: SessionState, event: events.ActionFired) -> None:
    """Count that an action fired; it is put off no more."""
    job = state.jobs[event.job]
    fired = {**job.fired, event.action: state.lived}
    firings = {**job.firings, event.action: job.firings.get(event.action, 0) + 1}
    update(state, event.job, fired=fired, firings=firings)
    forget_deferred(state, event.job, event.action)


def action_deferred(
    state: SessionState, record: Recorded, event: events.ActionDeferred
) -> None:
    """Keep why an action is put off, and since when."""
    before = state.jobs[event.job].deferred
    old = before.get(event.action)
    goes_on = old is not None and old.trigger == event.trigger
    waits = event.wait_seconds
    if waits is None and event.until is not None:  # of an older version
        waits = max(0.0, event.until - record.t)
    put_off = Deferred(
        trigger=event.trigger,
        since_lived=old.since_lived if goes_on and old else state.lived,
        why=event.why,
        until_lived=None if waits is None else state.lived + waits,
        line=event.line,
    )
    update(state, event.job, deferred={**before, event.action: put_off})


def forget_deferred(state: SessionState, job: str, action: str) -> None:
    """An action is put off no more."""
    deferred = dict(state.jobs[job].deferred)
    if deferred.pop(action, None) is not None:
        update(state, job, deferred=deferred)
