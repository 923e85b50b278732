"""What the numbers of a run give cause to worry about: warned of, or ended."""

from __future__ import annotations

from autoexp_tui.actions.orders import order_end
from autoexp_tui.engine.run_telemetry import Source, Track
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import Desk
from autoexp_tui.model.states import Cause
from autoexp_tui.model.verdicts import Why
from autoexp_tui.telemetry.anomalies import Finding
from autoexp_tui.telemetry.metrics import Point

_PASSING = frozenset({"plateau", "divergence", "stall"})
"""Warnings that mean nothing once the run has ended."""


def watch_loss(
    desk: Desk, track: Track, job: str, source: Source, point: Point
) -> bool:
    """Judge the point; whether there was anything to tell."""
    loss = point.values.get(track.loss)
    if loss is None or not track.owns(source, track.loss):
        return False
    findings = track.anomalies.feed(track.at, loss, _total(desk, track, job))
    if source.is_judged(point):
        return False  # it was told of already
    for finding in findings:
        _react(desk, track, job, finding)
    return bool(findings)


def _total(desk: Desk, track: Track, job: str) -> int | None:
    return track.total or desk.job(job).spec.progress_total


def _react(desk: Desk, track: Track, job: str, finding: Finding) -> None:
    warning_id = "a" + ids.digest(job, track.attempt, finding.code)
    if finding.cleared:
        if warning_id in desk.state.warnings:
            desk.draft.emit(events.WarningCleared(warning_id=warning_id))
        return
    reason = Why(finding.code, (("job", job), *finding.args))
    if warning_id not in desk.state.warnings:
        desk.draft.emit(
            events.WarningRaised(
                warning_id=warning_id,
                why=reason,
                job=job,
                severity="error" if finding.code == "nan" else "warning",
            )
        )
    if finding.code == "nan" and track.rules.anomalies.nan == "kill":
        reason = Why("nan", finding.args)
        order_end(desk, desk.job(job), reason, Cause.NAN, "nan")


def stop_worrying(desk: Desk, job: str) -> None:
    """Clear the warnings of a job that mean nothing any more."""
    for warning in list(desk.state.warnings.values()):
        if warning.job == job and warning.why.code in _PASSING:
            desk.draft.emit(events.WarningCleared(warning_id=warning.warning_id))
