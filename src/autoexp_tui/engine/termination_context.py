"""A run that a rule ends: how it is described to whoever looks, and what came of it."""

from __future__ import annotations

from pathlib import Path

from autoexp_tui.effects.effects import CaptureEvidence
from autoexp_tui.engine.executor_port import Task
from autoexp_tui.engine.ports import Kept, Parting
from autoexp_tui.events import events
from autoexp_tui.model.ids import safe_filename
from autoexp_tui.model.state import JobRecord, PendingEffect
from autoexp_tui.model.wording import sentence
from autoexp_tui.text.sanitize import clean

SUMMARY_LIMIT = 500
"""Characters that are recorded of what was obtained."""


def build_parting(
    job: JobRecord, task: Task, capture: CaptureEvidence, pending: PendingEffect
) -> Parting:
    """What `capture` asks to be looked at."""
    attempt = job.attempts[capture.attempt - 1]
    return Parting(
        task=task,
        run=capture.run,
        node=attempt.node,
        log_path=attempt.log_path,
        directory=find_evidence_directory(task.attempt_dir, capture),
        reason=sentence(pending.why, pending.ordered_utc) if pending.why else "",
        log_only=capture.log_only,
        seconds=capture.seconds,
    )


def build_captured(capture: CaptureEvidence, kept: Kept) -> events.EvidenceCaptured:
    """What came of a look, as it is recorded."""
    return events.EvidenceCaptured(
        job=capture.job,
        attempt=capture.attempt,
        reason=capture.name,
        directory=kept.directory,
        summary=clean(kept.summary, limit=SUMMARY_LIMIT),
    )


def build_late_evidence(task: Task, capture: CaptureEvidence) -> Kept:
    """What can be said of a look that has not come back: some of it may be there."""
    return Kept(
        directory=find_evidence_directory(task.attempt_dir, capture),
        summary=f"not finished within {capture.seconds:g} s",
    )


def find_evidence_directory(attempt_dir: str, capture: CaptureEvidence) -> str:
    """Where it is kept: `evidence/<number>-<name>` beside the attempt's records."""
    name = f"{capture.number}-{safe_filename(capture.name)}"
    return str(Path(attempt_dir, "evidence", name))
