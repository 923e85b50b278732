"""Every row's reason, short: the WHY column, and the words for causes.

The long sentence is `model.wording.sentence`; here stands what fits beside a job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.spans import outside, shorten_middle
from autoexp_tui.cockpit.state.forecast import _stood, estimate_end
from autoexp_tui.cockpit.state.status import Look, never_came
from autoexp_tui.conditions.unmet import unmet
from autoexp_tui.model.states import Cause, Why
from autoexp_tui.model.wording import (
    cause_of_end,
    clock_time,
    duration,
    reason_of,
    short,
)
from autoexp_tui.text.log_lines import has_error
from autoexp_tui.text.spelling import format_estimate

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.condition import Condition
    from autoexp_tui.model.state import ConditionStatus


def find_reason(job: JobView, session: SessionView) -> str:
    """Why the job is where it is, in a few words; never empty."""
    maker = _REASONS.get(job.look, _recorded)
    return outside(maker(job, session) or _recorded(job, session))


def find_common_reason(jobs: Sequence[JobView], session: SessionView) -> str:
    """One reason for jobs that are told together."""
    first = find_reason(jobs[0], session)
    if all(find_reason(job, session) == first for job in jobs[1:]):
        return first
    match jobs[0].look:
        case Look.DONE:
            ends = [job.attempt.ended_at or 0.0 for job in jobs if job.attempt]
            return (
                f"the last ended {clock_time(max(ends), session.now)}"
                if ends
                else "all of them"
            )
        case Look.QUEUED:
            said_of = dict.fromkeys(_queue_words(job) for job in jobs)
            return outside(next(iter(said_of)) if len(said_of) == 1 else "") or "queued"
        case Look.STALLED:
            stood = [_stood(job, session.now) for job in jobs]
            return f"no step for > {duration(min(stood))}" if all(stood) else "no step"
    return describe_cause(jobs[0]) if jobs[0].record.cause else f"{first}, ..."


def localize_why(why: Why, job: JobView, session: SessionView) -> Why:
    """The reason with a sibling's name told as its stage: `stable`, not its name."""
    return Why(why.code, tuple(_local(pair, job, session) for pair in why.args))


def _nicknamed(why: Why) -> Why:
    """The reason with jobs by names that leave room for what became of them."""
    return Why(why.code, tuple(_nickname(pair) for pair in why.args))


def _nickname(pair: _Pair) -> _Pair:
    name, value = pair
    known = name in _NAMES_JOBS and isinstance(value, str)
    return (name, shorten_middle(str(value), _NICKNAME)) if known else pair


_Pair: TypeAlias = tuple[str, str | int | float]


def _local(pair: _Pair, job: JobView, session: SessionView) -> _Pair:
    name, value = pair
    other = session.job(value) if isinstance(value, str) else None
    if name not in _NAMES_JOBS or other is None or not other.stage:
        return pair
    family = other.record.spec.family
    same = bool(family) and family == job.record.spec.family
    return (name, other.stage) if same or _one_of_many(job, value) else pair


def _one_of_many(job: JobView, name: object) -> bool:
    """Whether the job waits for several of which `name` is only the first."""
    return any(
        len(jobs := getattr(spec, "jobs", ())) > 1 and name in jobs
        for spec in job.record.spec.start_conditions
    )


_DOUBLE_STOP: Final = re.compile(r"([?!])[.,;:](?=\s|$)")


_NAMES_JOBS = frozenset({"job", "writer"})


_NICKNAME: Final = 16
"""Cells of a job's name in a short reason: what became of it stays in view."""


_UNCUT: Final = 400
"""Cells: whoever draws a reason knows the room, and cuts it there."""


def format_why(why: Why | None, job: JobView, session: SessionView) -> str:
    """A recorded reason in short; empty when there is none."""
    if why is None:
        return ""
    if file := never_came(why):
        return outside(f"{file} never came")
    return outside(short(_nicknamed(localize_why(why, job, session)), _UNCUT))


def explain_why(
    why: Why, job: JobView, session: SessionView, cause: Cause | None = None
) -> str:
    """A recorded reason as a sentence; what was quoted keeps its own last mark.

    `cause`: of the job's end, where the reason is of that.
    """
    words = reason_of(localize_why(why, job, session), cause, session.now)
    return outside(_DOUBLE_STOP.sub(r"\1", words), 2000)


def describe_cause(job: JobView) -> str:
    """What ended it, in a few words; the exit code or signal where they say more."""
    cause = job.record.cause
    attempt = job.attempt
    if cause is None:
        return (
            outside(short(job.record.why, _UNCUT)) if job.record.why else job.look.value
        )
    if cause is Cause.EXIT_CODE and attempt and attempt.exit_code is not None:
        return f"exit {attempt.exit_code}"
    if cause is Cause.SIGNAL and attempt and attempt.signal is not None:
        return f"signal {attempt.signal}"
    return cause_of_end(cause, job.record.state)


def find_last_words(job: JobView) -> str:
    """What explains an exit code or a signal further; empty for other ends.

    A signal comes from outside: the last line of the log says something about it only
    where it names an error. Not cleaned.
    """
    attempt, cause = job.attempt, job.record.cause
    if attempt is None or cause not in (Cause.EXIT_CODE, Cause.SIGNAL):
        return ""
    if cause is Cause.EXIT_CODE or has_error(attempt.evidence):
        return attempt.evidence
    reason = job.record.why
    return str(reason.arg("note") or "") if reason is not None else ""


def _recorded(job: JobView, session: SessionView) -> str:
    return format_why(job.record.why, job, session) or job.look.value


_SAID_BETTER = frozenset(
    {
        Cause.REJECTED,
        Cause.SUBMIT_ERROR,
        Cause.KILL_CRITERION,
        Cause.CANCEL_CONDITION,
        Cause.APPROVAL_REFUSED,
        Cause.START_TIMEOUT,
    }
)
"""Causes whose recorded reason says more than their name."""


def _ended(job: JobView, session: SessionView) -> str:
    words = describe_cause(job)
    if telling := find_last_words(job):
        return f"{words}, {outside(telling)}"
    if job.record.cause in _SAID_BETTER:
        return format_why(job.record.why, job, session) or words
    return words if job.record.cause else _recorded(job, session)


def _running(job: JobView, session: SessionView) -> str:
    now = session.now
    ahead = estimate_end(job, now)
    if job.warned:
        return format_why(job.warned[0].why, job, session)
    if job.live and job.live.queue and job.live.queue.reason:
        return job.live.queue.reason  # what the executor says is no state we know
    if ahead.too_late and ahead.limit_at is not None:
        return f"limit hits {clock_time(ahead.limit_at, now)}"
    if ahead.ends_at is not None:
        return f"ends {format_estimate(ahead.ends_at, now)}"
    began = job.attempt.began_at if job.attempt else None
    return f"since {clock_time(began, now)}" if began is not None else "started"


def _stalled(job: JobView, session: SessionView) -> str:
    if stood := _stood(job, session.now):
        return f"no step for {duration(stood)}"
    return format_why(job.warned[0].why, job, session) if job.warned else "no step"


def _waiting(job: JobView, session: SessionView) -> str:
    missing = unmet(job.record)
    if missing is not None:
        return describe_status(job, missing[1], job.status(missing[0]), session)
    return format_why(job.record.why, job, session) or "ready"


def describe_status(
    job: JobView, spec: Condition, status: ConditionStatus | None, session: SessionView
) -> str:
    """A condition's last verdict in short; its description before the first look."""
    if status is not None:
        return format_why(status.why, job, session)
    return outside(spec.description) or "not looked yet"


def _queued(job: JobView, session: SessionView) -> str:
    """`2 h 10, ~15:20: lower priority ...`: its age and start stay when it is cut."""
    waited = duration(session.now - job.record.since)
    words = _queue_words(job)
    expected = _expected_at(job, session)
    start = (
        f", {format_estimate(expected, session.now)}" if expected is not None else ""
    )
    if not words:
        return f"{waited}{start}" if start else f"for {waited}"
    return f"{waited}{start}: {words}"


def describe_queue(job: JobView, session: SessionView) -> str:
    """How long a job has been queued, where, why, and when it is expected to start."""
    queue = job.live.queue if job.live else None
    words = _queue_words(job)
    partition = outside(queue.partition) if queue else ""
    where = f" in {partition}" if partition and partition not in words else ""
    why = f": {outside(words, 2000)}" if words else ""
    expected = _expected_at(job, session)
    if expected is None:
        start = ""
    else:
        name = outside(session.snapshot.engine.executor).capitalize() or "The executor"
        start = f"; {name} expects {clock_time(expected, session.now)}"
    return f"for {duration(session.now - job.record.since)}{where}{why}{start}"


def _expected_at(job: JobView, session: SessionView) -> float | None:
    """When it is expected to start; None: nobody says, or the time has passed."""
    expected = job.live.queue.expected_at if job.live and job.live.queue else None
    return expected if expected is not None and expected > session.now else None


def _queue_words(job: JobView) -> str:
    """The executor's words for why a job is still queued; empty: none."""
    why = job.record.why
    words = str(why.arg("reason") or why.arg("message")) if why else ""
    return (job.live.queue.reason if job.live and job.live.queue else "") or words


def _retrying(job: JobView, session: SessionView) -> str:
    retry = job.record.retry
    again_at = session.snapshot.t_of(retry.lived) if retry is not None else 0.0
    if again_at > session.now:
        return f"again at {clock_time(again_at, session.now)}"
    return format_why(retry.why, job, session) if retry is not None else ""


def _done(job: JobView, session: SessionView) -> str:
    attempt = job.attempt
    if attempt is not None and attempt.ended_at:
        return f"ended {clock_time(attempt.ended_at, session.now)}"
    return _recorded(job, session) if job.record.why else "done before"


def _or(words: str) -> Callable[[JobView, SessionView], str]:
    return lambda job, session: format_why(job.record.why, job, session) or words


_REASONS: Final[Mapping[Look, Callable[[JobView, SessionView], str]]] = (
    MappingProxyType(
        {
            Look.FAILED: _ended,
            Look.LOST: _ended,
            Look.CANCELLED: _ended,
            Look.SKIPPED: _recorded,
            Look.RUNNING: _running,
            Look.STALLED: _stalled,
            Look.SUSPENDED: lambda job, session: _queue_words(job) or "suspended",
            Look.ENDING: lambda job, session: _queue_words(job) or "ending",
            Look.WAITING: _waiting,
            Look.DOOMED: _waiting,
            Look.ASKS: lambda job, session: "waits for you",
            Look.QUEUED: _queued,
            Look.RETRYING: _retrying,
            Look.DONE: _done,
            Look.HELD: _or("not chosen yet; S releases it"),
            Look.PLANNED: _or("S submits it"),
            Look.SENDING: _or("being sent"),
            Look.IN_DOUBT: _or("in doubt"),
        }
    )
)


def describe_condition(spec: Condition, session: SessionView) -> str:
    """What a condition is about, in a few words: `iter_8000/done.txt`."""

    def name_jobs(names: Sequence[str]) -> str:
        jobs = session.named(names)
        stages = dict.fromkeys(job.stage or job.name for job in jobs)
        return ", ".join(stages or names)

    return outside(spec.description) or outside(spec.subject(name_jobs))


def list_sources(spec: Condition) -> Iterator[str]:
    """Where a condition looks, in full: paths, jobs, commands; clean."""
    yield from (outside(source, 4000) for source in spec.sources())
