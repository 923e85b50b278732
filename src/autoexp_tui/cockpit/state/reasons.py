"""Every row's reason, short; the words for causes; what waits, by what it waits for.

The long sentence is `model.wording.sentence`; here stands what fits beside a job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from autoexp_tui.cockpit.spans import outside, shorten
from autoexp_tui.cockpit.state.forecast import estimate_end, measure_stall
from autoexp_tui.cockpit.state.status import Look, find_missing_file
from autoexp_tui.model.resubmission import unmet
from autoexp_tui.model.states import Cause, Why
from autoexp_tui.model.wording import format_cause_of_end, format_reason, short
from autoexp_tui.text.log_lines import has_error
from autoexp_tui.text.spelling import clock_time, duration, format_estimate, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.condition import Condition

_DOUBLE_STOP: Final = re.compile(r"([?!])[.,;:](?=\s|$)")
_NAMES_JOBS: Final = frozenset({"job", "writer"})
"""Arguments of reasons that name a job."""
_NICKNAME: Final = 16
"""Cells of a job's name in a short reason: what became of it stays in view."""
_UNCUT: Final = 400
"""Cells: whoever draws a reason knows the room, and cuts it there."""
_SAID_BETTER: Final = frozenset(
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
_UNSAID: Final = {
    Look.HELD: "not chosen: S submits it",
    Look.PLANNED: "not submitted",
    Look.SENDING: "being sent",
}
"""What is said where no reason is recorded; of others their look's word."""


def find_reason(job: JobView, session: SessionView) -> str:
    """Why the job is where it is, in a few words; never empty."""
    words = _find_words(job, session) or format_why(job.record.why, job, session)
    return outside(words or _UNSAID.get(job.look, job.look.value))


def _find_words(job: JobView, session: SessionView) -> str:
    """What is said instead of the recorded reason; may be empty."""
    record, attempt, now = job.record, job.attempt, session.now
    match job.look:
        case Look.FAILED | Look.LOST | Look.CANCELLED if record.cause:
            has_better = record.cause in _SAID_BETTER
            recorded = format_why(record.why, job, session) if has_better else ""
            return recorded or describe_end(job)
        case Look.RUNNING:
            return _describe_running(job, session)
        case Look.STALLED:
            if stood := measure_stall(job, now):
                return f"no step for {duration(stood)}"
            warned = job.warned[0].why if job.warned else None
            return format_why(warned, job, session) or "no step"
        case Look.SUSPENDED | Look.ENDING:
            return _find_queue_words(job) or job.look.value
        case Look.WAITING | Look.DOOMED:
            missing = unmet(record)
            if missing is None:
                return format_why(record.why, job, session) or "ready"
            if (status := job.status(missing[0])) is not None:
                return format_why(status.why, job, session)
            return outside(missing[1].description) or "not looked yet"
        case Look.ASKS:
            return "waits for you"
        case Look.QUEUED:
            # Its age and start stay when it is cut: `2 h 10, ~15:20: lower priority`.
            waited, words = duration(now - record.since), _find_queue_words(job)
            expected = _find_expected_start(job, session)
            start = f", {format_estimate(expected, now)}" if expected else ""
            return f"{waited}{start}: {words}" if words else f"for {waited}{start}"
        case Look.RETRYING if record.retry is not None:
            again_at = session.snapshot.convert_to_t(record.retry.lived)
            if again_at > now:
                return f"again at {clock_time(again_at, now)}"
            return format_why(record.retry.why, job, session)
        case Look.DONE:
            if attempt is not None and attempt.ended_at:
                return f"ended {clock_time(attempt.ended_at, now)}"
            return "" if record.why else "done before"
    return ""


def _describe_running(job: JobView, session: SessionView) -> str:
    now = session.now
    ahead = estimate_end(job, now)
    if job.warned:
        return format_why(job.warned[0].why, job, session)
    if job.queue_reason:
        return job.queue_reason  # what the executor says is no state we know
    if ahead.cut_at is not None:
        return f"limit hits {clock_time(ahead.cut_at, now)}"
    if ahead.ends_at is not None:
        return f"ends {format_estimate(ahead.ends_at, now)}"
    began = job.attempt.began_at if job.attempt else None
    return f"since {clock_time(began, now)}" if began is not None else "started"


def find_common_reason(jobs: Sequence[JobView], session: SessionView) -> str:
    """One reason for jobs that are told together; with dots where others differ."""
    first = find_reason(jobs[0], session)
    if all(find_reason(job, session) == first for job in jobs[1:]):
        return first
    if jobs[0].look is Look.STALLED:
        stood = min(measure_stall(job, session.now) for job in jobs)
        return f"no step for > {duration(stood)}" if stood else "no step"
    return describe_cause(jobs[0]) if jobs[0].record.cause else f"{first}, ..."


def format_why(why: Why | None, job: JobView, session: SessionView) -> str:
    """A recorded reason in short; empty when there is none."""
    if why is None:
        return ""
    if file := find_missing_file(why):
        return outside(f"{file} never came")
    return outside(short(_name_jobs(why, job, session, _NICKNAME), _UNCUT))


def explain_why(
    why: Why, job: JobView, session: SessionView, cause: Cause | None = None
) -> str:
    """A recorded reason as a sentence; `cause`: of the job's end, where it is of that.

    What was quoted keeps its own last mark.
    """
    words = format_reason(_name_jobs(why, job, session), cause, session.now)
    return outside(_DOUBLE_STOP.sub(r"\1", words), 2000)


def _name_jobs(
    why: Why, job: JobView, session: SessionView, cells: int = _UNCUT
) -> Why:
    """The reason, siblings and those of several that are waited for by their stage."""
    spec = job.record.spec

    def call(name: str) -> str:
        other = session.job(name)
        if other is None or not other.stage:
            return name
        same = bool(spec.family) and other.record.spec.family == spec.family
        groups = (getattr(one, "jobs", ()) for one in spec.start_conditions)
        one_of_many = any(len(jobs) > 1 and name in jobs for jobs in groups)
        return other.stage if same or one_of_many else name

    args = (
        (name, shorten(call(value), cells, middle=True))
        if name in _NAMES_JOBS and isinstance(value, str)
        else (name, value)
        for name, value in why.args
    )
    return Why(why.code, tuple(args))


def describe_condition(spec: Condition, session: SessionView) -> str:
    """What a condition is about, in a few words: `iter_8000/done.txt`."""

    def name_jobs(names: Sequence[str]) -> str:
        jobs = session.list_jobs(names)
        return ", ".join(dict.fromkeys(job.stage or job.name for job in jobs) or names)

    return outside(spec.description) or outside(spec.name_subject(name_jobs))


def describe_cause(job: JobView) -> str:
    """What ended it, in a few words; the exit code or signal where they say more."""
    cause, attempt = job.record.cause, job.attempt
    if cause is None:
        why = job.record.why
        return outside(short(why, _UNCUT)) if why else job.look.value
    if cause is Cause.EXIT_CODE and attempt and attempt.exit_code is not None:
        return f"exit {attempt.exit_code}"
    if cause is Cause.SIGNAL and attempt and attempt.signal is not None:
        return f"signal {attempt.signal}"
    return format_cause_of_end(cause, job.record.state)


def find_last_words(job: JobView) -> str:
    """What explains an exit code or a signal further; empty for other ends.

    A signal comes from outside: the last line of the log says something about it only
    where it names an error. Not cleaned.
    """
    attempt, cause, why = job.attempt, job.record.cause, job.record.why
    if attempt is None or cause not in (Cause.EXIT_CODE, Cause.SIGNAL):
        return ""
    if cause is Cause.EXIT_CODE or has_error(attempt.evidence):
        return attempt.evidence
    return str(why.arg("note") or "") if why is not None else ""


def describe_end(job: JobView) -> str:
    """What ended it, with its last words."""
    words, last = describe_cause(job), find_last_words(job)
    return f"{words}, {outside(last)}" if last else words


def describe_queue(job: JobView, session: SessionView) -> str:
    """How long a job has been queued, why, and when it is expected to start."""
    words, expected = _find_queue_words(job), _find_expected_start(job, session)
    why = f": {outside(words, 2000)}" if words else ""
    name = outside(session.snapshot.engine.executor).capitalize() or "The executor"
    start = f"; {name} expects {clock_time(expected, session.now)}" if expected else ""
    return f"for {duration(session.now - job.record.since)}{why}{start}"


def _find_expected_start(job: JobView, session: SessionView) -> float | None:
    """When it is expected to start; None: nobody says, or the time has passed."""
    expected = job.live.queue.expected_at if job.live.queue else None
    return expected if expected is not None and expected > session.now else None


def _find_queue_words(job: JobView) -> str:
    """The executor's words for why a job is still queued; empty: none."""
    why = job.record.why
    words = str(why.arg("reason") or why.arg("message") or "") if why else ""
    return job.queue_reason or words


WAITING: Final = (Look.DOOMED, Look.ASKS, Look.WAITING, Look.RETRYING, Look.HELD)
"""Looks that wait, in the order in which they are told."""
ALIKE: Final = 20
"""Jobs of a group whose reasons are compared."""
_PAUSES: Final = frozenset({"paused", "held_by_storm"})


class WaitGroup(NamedTuple):
    """Jobs that wait for the same kind of thing."""

    key: str
    jobs: tuple[JobView, ...]
    """The one that waits longest first."""

    @property
    def look(self) -> Look:
        """How all of them look."""
        return self.jobs[0].look

    @property
    def oldest(self) -> float:
        """Since when the first of them waits, UTC."""
        return find_wait_begin(self.jobs[0])


def find_wait_begin(job: JobView) -> float:
    """Since when a job waits, or asks, or submission is paused where that alone keeps
    it; older journals do not say when a pause began."""
    why = job.record.why
    if job.look is Look.ASKS and job.record.ask is not None:
        return job.record.ask.asked_at
    if job.look is Look.WAITING and why is not None and why.code in _PAUSES:
        began = why.arg("at")
        return began if isinstance(began, int | float) else job.record.since
    return job.record.since


def _build_key(job: JobView) -> str:
    missing = unmet(job.record) if job.look is not Look.RETRYING else None
    if missing is None:
        why = job.record.why
        return f"{job.look}|{job.stage}|{why.code if why else ''}"
    index, spec, status = missing
    code = status.why.code if status is not None else ""
    return f"{job.look}|{job.stage}|{code}|{spec.kind}|{index}"


def group_waits(jobs: Sequence[JobView]) -> tuple[WaitGroup, ...]:
    """Waiting jobs by what they wait for, the longest wait first."""
    grouped: dict[str, list[JobView]] = {}
    for job in jobs:
        grouped.setdefault(_build_key(job), []).append(job)
    groups = (
        WaitGroup(key, tuple(sorted(members, key=find_wait_begin)))
        for key, members in grouped.items()
    )
    return tuple(sorted(groups, key=lambda group: group.oldest))


def describe_waits(groups: Sequence[WaitGroup]) -> str:
    """`697 jobs, 4 reasons, 26 can never start`."""
    if not groups:
        return "nothing waits"
    never = sum(len(one.jobs) for one in groups if one.look is Look.DOOMED)
    jobs = plural(sum(len(one.jobs) for one in groups), "job")
    number = f"{jobs}, {plural(len(groups), 'reason')}"
    return f"{number}, {never} can never start" if never else number
