"""Why a job is where it is, in words for a shell: there are no keys to press."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from autoexp_tui.model.resubmission import all_unmet
from autoexp_tui.model.states import BEGUN, JobState
from autoexp_tui.model.wording import format_reason, sentence
from autoexp_tui.text.spelling import clock_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.model.states import Why

_NOT_KNOWN: Final = frozenset({"not_looked"})


def describe_job(job: JobRecord, live: Live | None, now: float) -> dict[str, object]:
    """A job as `--json` tells it in short."""
    return {
        "name": job.name,
        "state": job.state.value,
        "cause": job.cause.value if job.cause else None,
        "attempts": len(job.attempts),
        "exit_code": job.attempt.exit_code if job.attempt else None,
        "why": explain_job(job, live, now),
    }


def explain_job(job: JobRecord, live: Live | None, now: float) -> str:
    """Why a job is where it is, as a sentence; empty when there is nothing to say."""
    if job.state in BEGUN and live is not None and live.queue is not None:
        return live.queue.reason
    if job.state is JobState.QUEUED and live is not None and live.queue is not None:
        queue, when = live.queue, ""
        if queue.expected_at is not None:
            when = f"expected start {clock_time(queue.expected_at, now)}"
        place = queue.partition and f"partition {queue.partition}"
        if parts := list(filter(None, (queue.reason, place, when))):
            return f"in the queue: {', '.join(parts)}"
    if job.why is not None:
        return format_reason(job.why, job.cause, now)
    return "; ".join(sentence(why, now, keys=False) for why in find_waits(job))


def find_waits(job: JobRecord) -> Sequence[Why]:
    """What a job waits for, as far as it is known: conditions, or its next attempt."""
    if job.state is JobState.RETRYING and job.retry is not None:
        return (job.retry.why,)
    if job.state is not JobState.WAITING:
        return ()
    found = [status.why for _, _, status in all_unmet(job) if status is not None]
    return [why for why in found if why.code not in _NOT_KNOWN]
