"""Why a job is where it is, in words for a shell: there are no keys to press."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from autoexp_tui.model.states import BEGUN, JobState
from autoexp_tui.model.unmet import all_unmet
from autoexp_tui.model.wording import clock_time, reason_of, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.model.verdicts import Why

_NOT_KNOWN: Final = frozenset({"not_looked"})


def why_of(job: JobRecord, live: Live | None, now: float) -> str:
    """Why a job is where it is, as a sentence; empty when there is nothing to say."""
    if job.state in BEGUN and live is not None and live.queue is not None:
        return live.queue.reason
    if queued := _in_queue(job, live, now):
        return f"in the queue: {queued}"
    if job.why is not None:
        return reason_of(job.why, job.cause, now)
    return "; ".join(sentence(why, now, keys=False) for why in waits_for(job))


def waits_for(job: JobRecord) -> Sequence[Why]:
    """What a job waits for, as far as it is known: conditions, or its next attempt."""
    if job.state is JobState.RETRYING and job.retry is not None:
        return (job.retry.why,)
    if job.state is not JobState.WAITING:
        return ()
    found = [status.why for _, _, status in all_unmet(job) if status is not None]
    return [why for why in found if why.code not in _NOT_KNOWN]


def _in_queue(job: JobRecord, live: Live | None, now: float) -> str:
    """What the executor says of a job that it has not started yet."""
    if job.state is not JobState.QUEUED or live is None or live.queue is None:
        return ""
    queue = live.queue
    when = ""
    if queue.expected_at is not None:
        when = f"expected start {clock_time(queue.expected_at, now)}"
    parts = (queue.reason, queue.partition and f"partition {queue.partition}", when)
    return ", ".join(filter(None, parts))
