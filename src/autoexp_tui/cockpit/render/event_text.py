"""Every event in words: a verb of a few letters, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from autoexp_tui.events import events
from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.verdicts import Result
from autoexp_tui.model.wording import (
    CAUSES,
    STATES,
    cause_of_end,
    count,
    duration,
    number,
    sentence,
    size,
)

if TYPE_CHECKING:
    from autoexp_tui.events.events import Event
    from autoexp_tui.model.verdicts import Why

FEW: Final = 6
"""Names that a line tells before it counts the rest."""


class Told(NamedTuple):
    """`approved`, `by a person: the curves look right`."""

    verb: str
    about: str = ""


def told(event: Event, now: float) -> Told:
    """What an event says on one line; not cleaned.

    An effect that was ordered is told by its kind and by what came of it elsewhere.

    Args:
        event: any but `EffectOrdered`.
        now: the present, UTC seconds.
    """
    said = _TELLERS[type(event)](event, now)
    return Told(said.verb, mask_text(said.about))


def names(jobs: Sequence[str]) -> str:
    """`a, b, c, d, e, f and 3 more`."""
    more = f" and {len(jobs) - FEW} more" if len(jobs) > FEW else ""
    return ", ".join(jobs[:FEW]) + more


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _then(what: str, more: str) -> str:
    return f"{what}: {more}" if what and more else what or more


def _because(why: Why | None, now: float) -> str:
    return sentence(why, now) if why is not None else ""


# -------------------------------------------------------------------------- session
def _session_started(event: events.SessionStarted, now: float) -> Told:
    return Told("session began", f"{event.name}, autoexp-tui {event.engine_version}")


def _engine_started(event: events.EngineStarted, now: float) -> Told:
    gap = event.gap_seconds
    without = f"after {duration(gap)} without an engine" if gap >= 1 else ""
    return Told(
        "engine began", _joined(f"on {event.host}", f"pid {event.pid}", without)
    )


def _journal_rotated(event: events.JournalRotated, now: float) -> Told:
    return Told(
        "journal went on", f"{event.sealed_part} has {size(event.sealed_bytes)}"
    )


def _plan_added(event: events.PlanAdded, now: float) -> Told:
    by = f"by the action {event.action} of {event.job}" if event.action else ""
    return Told("plan added", _joined(f"plan_{event.sha}", by))


def _done_found(event: events.DoneFound, now: float) -> Told:
    return Told("done before", names([work.job for work in event.works]))


def _foreign_files_found(event: events.ForeignFilesFound, now: float) -> Told:
    return Told("files of other work", names(event.jobs))


def _files_set_aside(event: events.FilesSetAside, now: float) -> Told:
    files = names([one.file.path for one in event.files])
    return Told("files set aside", f"before attempt {event.attempt}: {files or 'none'}")


def _node_excluded(event: events.NodeExcluded, now: float) -> Told:
    return Told("node excluded", _then(event.node, sentence(event.why, now)))


def _command_refused(event: events.CommandRefused, now: float) -> Told:
    return Told("order refused", _then(names(event.jobs), sentence(event.why, now)))


def _jobs_released(event: events.JobsReleased, now: float) -> Told:
    return Told("released", names(event.jobs) + (", ahead" if event.ahead else ""))


def _engine_faulted(event: events.EngineFaulted, now: float) -> Told:
    return Told("engine faulted", _then(event.where, event.problem))


# ------------------------------------------------------------------------ conditions
_RESULTS: Final[Mapping[Result, str]] = MappingProxyType(
    {Result.PASS: "holds", Result.WAIT: "waits", Result.FAIL: "failed"}
)


_CONDITIONS: Final = MappingProxyType({"start": "condition", "cancel": "cancel"})
"""What a person numbers, by the role; no longer than the verb's place in a line."""


def _condition_judged(event: events.ConditionJudged, now: float) -> Told:
    place = f"{_CONDITIONS[event.role]} {event.index + 1}"
    return Told(f"{place} {_RESULTS[event.result]}", sentence(event.why, now))


def _condition_latched(event: events.ConditionLatched, now: float) -> Told:
    return Told("found for good", _then(event.path, event.line))


def _condition_waived(event: events.ConditionWaived, now: float) -> Told:
    which = f"condition {event.index + 1}"
    by = f"{which}, by {event.sender}" if event.sender else which
    return Told("waived", _then(by, event.reason))


def _approval_asked(event: events.ApprovalAsked, now: float) -> Told:
    return Told("asked", event.prompt)


def _approval_answered(event: events.ApprovalAnswered, now: float) -> Told:
    verb = "approved" if event.approved else "refused"
    return Told(verb, _then(_answerer(event), event.reason))


def _answerer(event: events.ApprovalAnswered) -> str:
    if event.policy:
        return f"by the policy {event.policy}, not by a person"
    if event.sender is None:
        return f"by {event.by}" if event.by else ""
    checked = "" if event.sender.checked else "; not checked: another host"
    return f"by {event.sender} ({event.by}{checked})"


# ----------------------------------------------------------------------- submissions
def _effect_settled(event: events.EffectSettled, now: float) -> Told:
    return Told("effect settled", _then(event.outcome, event.detail.partition("\n")[0]))


def _submission_accepted(event: events.SubmissionAccepted, now: float) -> Told:
    verb = "found accepted" if event.adopted else "accepted"
    return Told(verb, _joined(names(event.executor_ids), f"token {event.token}"))


def _submission_uncertain(event: events.SubmissionUncertain, now: float) -> Told:
    return Told("in doubt", sentence(event.why, now))


def _submission_absent(event: events.SubmissionAbsent, now: float) -> Told:
    return Told("never arrived", f"token {event.token}")


# ------------------------------------------------------------------------------ runs
def _run_began(event: events.RunBegan, now: float) -> Told:
    again = f"run {event.run}" if event.run else ""
    where = f"on {event.node}" if event.node else ""
    attempt = f"attempt {event.attempt}"
    return Told(
        "began", _joined(attempt, again, where, event.partition, event.executor_id)
    )


def _log_replaced(event: events.LogReplaced, now: float) -> Told:
    return Told(
        "log began anew", f"attempt {event.attempt}, {event.count} times by now"
    )


def _attempt_ended(event: events.AttemptEnded, now: float) -> Told:
    code = f"exit {event.exit_code}" if event.exit_code is not None else ""
    signal = f"signal {event.signal}" if event.signal else ""
    step = f"at step {event.reached}" if event.reached is not None else ""
    outcome = STATES.get(event.outcome, str(event.outcome).lower())
    cause = CAUSES.get(event.cause, "") if event.cause else ""
    verb = f"attempt {event.attempt} ended"
    facts = _joined(outcome, cause, code, signal, step)
    return Told(verb, _then(facts, _because(event.why, now)))


def _checkpoint_seen(event: events.CheckpointSeen, now: float) -> Told:
    saved = event.saved
    return Told("checkpoint seen", saved.checkpoint.path if saved else "none")


def _checkpoint_quarantined(event: events.CheckpointQuarantined, now: float) -> Told:
    moved = f"{event.checkpoint.path} -> {event.moved_to}"
    return Told("checkpoint moved", moved)


def _job_ended(event: events.JobEnded, now: float) -> Told:
    cause = cause_of_end(event.cause, event.state) if event.cause else ""
    words = _joined(STATES[event.state], cause)
    return Told("job ended", _then(words, _because(event.why, now)))


# ------------------------------------------------------------------------ reactions
def _log_matched(event: events.LogMatched, now: float) -> Told:
    times = f" ({count(event.count)} times)" if event.count > 1 else ""
    return Told("log matched", _then(event.rule + times, event.line.strip()))


def _metrics_noted(event: events.MetricsNoted, now: float) -> Told:
    step = f"step {event.step}" + (f" of {event.total}" if event.total else "")
    values = [f"{name} {_value(value)}" for name, value in event.values.items()]
    return Told("metrics noted", _joined(step, *values))


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)


def _warning_cleared(event: events.WarningCleared, now: float) -> Told:
    return Told("warning cleared", f"by {event.by}" if event.by else "")


def _limit_acknowledged(event: events.LimitAcknowledged, now: float) -> Told:
    return Told("time limit seen", f"by {event.by}" if event.by else "")


def _evidence_captured(event: events.EvidenceCaptured, now: float) -> Told:
    return Told("evidence kept", _joined(event.summary, event.directory))


def _action_fired(event: events.ActionFired, now: float) -> Told:
    return Told("action fired", event.action)


def _action_deferred(event: events.ActionDeferred, now: float) -> Told:
    return Told("action deferred", _then(event.action, sentence(event.why, now)))


def _action_dropped(event: events.ActionDropped, now: float) -> Told:
    return Told("action dropped", _then(event.action, sentence(event.why, now)))


def _jobs_held(event: events.JobsHeld, now: float) -> Told:
    reason = f": {_because(event.why, now)}" if event.why else ""
    return Told("held", f"{names(event.jobs)}{reason}")


def _by_reason(verb: str) -> Callable[[Any, float], Told]:
    """Events whose `why` says all."""
    return lambda event, now: Told(verb, _because(event.why, now))


_TELLERS: Final[Mapping[type, Callable[[Any, float], Told]]] = MappingProxyType(
    {
        events.SessionStarted: _session_started,
        events.EngineStarted: _engine_started,
        events.EngineStopped: lambda event, now: Told("engine stopped", event.reason),
        events.JournalRotated: _journal_rotated,
        events.PlanAdded: _plan_added,
        events.DoneFound: _done_found,
        events.ForeignFilesFound: _foreign_files_found,
        events.FilesSetAside: _files_set_aside,
        events.SubmissionPaused: _by_reason("submission paused"),
        events.SubmissionResumed: lambda event, now: Told("submission goes on"),
        events.NodeExcluded: _node_excluded,
        events.CommandRefused: _command_refused,
        events.JobsReleased: _jobs_released,
        events.JobsHeld: _jobs_held,
        events.ConditionJudged: _condition_judged,
        events.ConditionLatched: _condition_latched,
        events.ConditionWaived: _condition_waived,
        events.WaitExplained: _by_reason("waits"),
        events.ApprovalAsked: _approval_asked,
        events.ApprovalAnswered: _approval_answered,
        events.JobReplanned: _by_reason("planned anew"),
        events.EffectSettled: _effect_settled,
        events.SubmissionAccepted: _submission_accepted,
        events.SubmissionUncertain: _submission_uncertain,
        events.SubmissionAbsent: _submission_absent,
        events.RunBegan: _run_began,
        events.RunRequeued: _by_reason("requeued"),
        events.RunSuspended: lambda event, now: Told("suspended"),
        events.RunResumed: lambda event, now: Told("goes on"),
        events.LogReplaced: _log_replaced,
        events.AttemptEnded: _attempt_ended,
        events.CheckpointSeen: _checkpoint_seen,
        events.CheckpointQuarantined: _checkpoint_quarantined,
        events.RetryOrdered: _by_reason("retry ordered"),
        events.JobEnded: _job_ended,
        events.JobRevived: _by_reason("revived"),
        events.LogMatched: _log_matched,
        events.MetricsNoted: _metrics_noted,
        events.WarningRaised: _by_reason("warning"),
        events.WarningCleared: _warning_cleared,
        events.LimitAcknowledged: _limit_acknowledged,
        events.EvidenceCaptured: _evidence_captured,
        events.ActionFired: _action_fired,
        events.ActionDeferred: _action_deferred,
        events.ActionDropped: _action_dropped,
        events.MessageLogged: lambda event, now: Told("message", event.text),
        events.EngineFaulted: _engine_faulted,
    }
)
