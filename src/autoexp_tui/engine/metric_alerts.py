"""What a run's numbers and its silence give cause to: warnings, ends, rules.

Standstills are judged at most every few seconds, and only by what looks at logs have
shown. After a jump of the clock (a suspended machine, a stopped process) all clocks
begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autoexp_tui.actions.orders import order_end
from autoexp_tui.actions.reactions import log_matched
from autoexp_tui.engine.run_telemetry import Source, Track
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.rules import applies_to_stage
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState, Why, why
from autoexp_tui.telemetry.anomalies import Finding
from autoexp_tui.telemetry.inactivity import QuietPeriod
from autoexp_tui.telemetry.metrics import Point

LOOK_SECONDS: Final = 10.0
"""The longest time between two judgements of standstills."""
SHARES: Final = 4
"""A rule is judged about so often in the time that it waits."""
JUMP_SECONDS: Final = 20.0
"""Between two commits that decide something, of which there is one a second: more is
a jump of the clock, or an engine that did not live meanwhile."""
_PASSING: Final = frozenset({"plateau", "divergence", "stall"})
"""Warnings that mean nothing once the run has ended."""


# ------------------------------------------------------------------------- anomalies
def judge_loss(
    context: DecisionContext, track: Track, job: JobRecord, source: Source, point: Point
) -> bool:
    """Judge a point that was plotted; whether there was anything to report."""
    loss = point.values.get(track.loss)
    if loss is None or not track.owns(source, track.loss):
        return False
    total = track.total or job.spec.progress_total
    findings = track.anomalies.feed(track.at, loss, total)
    if source.is_judged(point):
        return False
    for finding in findings:
        _react(context, track, job, finding)
    return bool(findings)


def _react(
    context: DecisionContext, track: Track, job: JobRecord, finding: Finding
) -> None:
    warning_id = "a" + ids.digest(job.name, track.attempt, finding.code)
    if finding.cleared:
        _clear(context, warning_id)
        return
    is_nan = finding.code == "nan"
    reason = Why(finding.code, (("job", job.name), *finding.args))
    if warning_id not in context.state.warnings:
        context.draft.emit(
            events.WarningRaised(
                warning_id=warning_id,
                why=reason,
                job=job.name,
                severity="error" if is_nan else "warning",
            )
        )
    if is_nan and track.rules.anomalies.nan == "kill":
        order_end(context, job, Why("nan", finding.args), Cause.NAN, "nan")


def _clear(context: DecisionContext, warning_id: str) -> None:
    if warning_id in context.state.warnings:
        context.draft.emit(events.WarningCleared(warning_id=warning_id))


def clear_alerts(context: DecisionContext, job: str) -> None:
    """Clear the warnings of a job that mean nothing any more."""
    for warning in list(context.state.warnings.values()):
        if warning.job == job and warning.why.code in _PASSING:
            context.draft.emit(events.WarningCleared(warning_id=warning.warning_id))


# ----------------------------------------------------------------------- standstills
class StallDetector:
    """When to judge standstills, and what comes of it."""

    def __init__(self) -> None:
        self._due = 0.0
        self._judged_at: float | None = None

    def look_soon(self) -> None:
        """A run began whose rules may wait for less than those before."""
        self._due = 0.0

    def judge(self, context: DecisionContext, tracks: Mapping[str, Track]) -> None:
        """Warn of stalls and carry out rules over what does not happen."""
        lived = context.now.lived
        last, self._judged_at = self._judged_at, lived
        if last is not None and lived - last > JUMP_SECONDS:
            for track in tracks.values():
                track.watch.forget_look()
        if lived < self._due:
            return
        wait = LOOK_SECONDS
        for name in sorted(context.roster.active & tracks.keys()):
            job, track = context.job(name), tracks[name]
            if job.state is JobState.RUNNING and track.is_of(job):
                _judge_stall(context, job, track)
                for still in track.watch.find_due():
                    log_matched(context, _matched(name, track, still), still.rule)
                wait = min(wait, track.watch.shortest / SHARES)
        self._due = lived + wait


def _matched(name: str, track: Track, still: QuietPeriod) -> events.LogMatched:
    key = 0 if still.rule.match_once else still.key
    return events.LogMatched(
        match_id=ids.match_id(name, track.attempt, track.run, still.rule.name, key),
        job=name,
        attempt=track.attempt,
        run=track.run,
        rule=still.rule.name,
        offset=still.offset,
        line=still.line,
    )


def _judge_stall(context: DecisionContext, job: JobRecord, track: Track) -> None:
    warning_id = "a" + ids.digest(job.name, track.attempt, "stall")
    if not track.watch.is_stalled(track.rules.stall_after_seconds):
        _clear(context, warning_id)
        return
    if warning_id in context.state.warnings:
        return
    reason = why(
        "stall", job=job.name, step=track.step or 0, seconds=track.watch.still_seconds
    )
    context.draft.emit(
        events.WarningRaised(warning_id=warning_id, why=reason, job=job.name)
    )
    rules = (one for one in track.rules.state_events if one.state == "stall")
    if any(applies_to_stage(rule, job.spec.stage) for rule in rules):
        order_end(context, job, reason, Cause.STALL, "stall")
