"""Why a job is where it is, and what rules decided, in words for a shell.

There are no keys to press. A restart is over between two snapshots, and a state that
nobody saw tells nobody why a second attempt runs; the events do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from autoexp_tui.model.resubmission import all_unmet
from autoexp_tui.model.states import BEGUN, JobState
from autoexp_tui.model.wording import format_reason, sentence
from autoexp_tui.text.spelling import clock_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autoexp_tui.model.event import Recorded
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.model.states import Why

_NOT_KNOWN: Final = frozenset({"not_looked"})
SPENT: Final = "not again"
"""Of a rule that has no attempt left, whatever it matches."""
_SPENT_CODES: Final = frozenset({"attempts_spent", "firings_spent"})


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


def list_rule_news(
    records: Sequence[Recorded], after: int
) -> Iterator[tuple[str, str]]:
    """What is said of the records behind record `after`: a word, and the rest.

    What a rule logs at level `info` stays with them.
    """
    from autoexp_tui.events import events

    for record in records:
        if record.seq <= after:
            continue
        match record.event:
            case events.RetryOrdered(job=job, why=why, held=False):
                yield "again", f"{job}  {sentence(why, record.t)}"
            case events.ActionDropped(job=job, action=action, why=why):
                text = f"{job}  rule {action}: {sentence(why, record.t)}"
                if why.code in _SPENT_CODES:
                    yield SPENT, text
                elif why.code == "value_refused":
                    yield "warning", text
            case events.MessageLogged(level="warning" | "error") as logged:
                job = f"{logged.job}  " if logged.job else ""
                yield logged.level, f"{job}{logged.text}"
