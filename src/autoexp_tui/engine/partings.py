"""A run that a rule ends, as whoever is to look at it needs to know it."""

from __future__ import annotations

from pathlib import Path

from autoexp_tui.core.effects import CaptureEvidence
from autoexp_tui.core.ids import safe_filename
from autoexp_tui.core.state import JobRecord, PendingEffect
from autoexp_tui.core.wording import sentence
from autoexp_tui.engine.ports import Parting, Task


def parting_of(
    job: JobRecord, task: Task, capture: CaptureEvidence, pending: PendingEffect
) -> Parting:
    """What `capture` asks to be looked at."""
    attempt = job.attempts[capture.attempt - 1]
    return Parting(
        task=task,
        run=capture.run,
        node=attempt.node,
        log_path=attempt.log_path,
        directory=evidence_directory(task.attempt_dir, capture),
        reason=sentence(pending.why, pending.ordered_at) if pending.why else "",
        log_only=capture.log_only,
        seconds=capture.seconds,
    )


def evidence_directory(attempt_dir: str, capture: CaptureEvidence) -> str:
    """Where it is kept: `evidence/<number>-<name>` beside the attempt's records."""
    name = f"{capture.number}-{safe_filename(capture.name)}"
    return str(Path(attempt_dir, "evidence", name))
