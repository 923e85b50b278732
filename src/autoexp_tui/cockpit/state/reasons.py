"""Every row's reason, short; the words for causes; what waits, by what it waits for.

Causes group what needs a person: jobs that ended, or stand, for the same reason. The
long sentence is `model.wording.sentence`; here stands what fits beside a job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from autoexp_tui.cockpit.spans import outside, shorten
from autoexp_tui.cockpit.state.forecast import (
    NO_CUTS,
    Cuts,
    estimate_end,
    find_limit,
    format_cut,
    measure_stall,
)
from autoexp_tui.cockpit.state.session import (
    ENDED_BADLY,
    NEEDS,
    JobView,
    Look,
    SessionView,
    find_missing_file,
)
from autoexp_tui.model.resubmission import unmet
from autoexp_tui.model.states import Cause, Why
from autoexp_tui.model.wording import format_cause_of_end, format_reason, short
from autoexp_tui.text.log_lines import has_error
from autoexp_tui.text.spelling import clock_time, duration, format_estimate, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.parameters import PlanWords
    from autoexp_tui.model.condition import Condition
    from autoexp_tui.model.effect import TaskId
    from autoexp_tui.model.state import Ask, Warned

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
            if (status := job.find_status(missing[0])) is not None:
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
    ends_at, limit_at = estimate_end(job, now), find_limit(job)
    if job.warned:
        return format_why(job.warned[0].why, job, session)
    if job.queue_reason:
        return job.queue_reason  # what the executor says is no state we know
    if ends_at is not None and limit_at is not None and limit_at < ends_at:
        return f"limit hits {clock_time(limit_at, now)}"
    if ends_at is not None:
        return f"ends {format_estimate(ends_at, now)}"
    began = job.attempt.began_at if job.attempt else None
    return f"since {clock_time(began, now)}" if began is not None else "started"


def find_common_reason(jobs: Sequence[JobView], session: SessionView) -> str:
    """One reason for jobs that are told together; with dots where others differ."""
    first = find_reason(jobs[0], session)
    if all(find_reason(job, session) == first for job in jobs[1:]):
        return first
    if jobs[0].look is Look.DONE:
        ends = [job.attempt.ended_at or 0.0 for job in jobs if job.attempt]
        ended = f"the last ended {clock_time(max(ends), session.now)}" if ends else ""
        return ended or "all of them"
    if jobs[0].look is Look.QUEUED:
        words = {_find_queue_words(job) for job in jobs}
        return (outside(words.pop()) if len(words) == 1 else "") or "queued"
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
        other = session.find_job(name)
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
    groups = (
        WaitGroup(key, tuple(sorted(members, key=find_wait_begin)))
        for key, members in _group(jobs, _build_key)
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


_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?")
URGENCY: Final = {look: place for place, look in enumerate(NEEDS)}
"""Place of a look that needs a person, the most urgent first."""
_TITLES: Final = {Look.STALLED: "no step for long", Look.ASKS: "asks approval"}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseGroup:
    """Jobs, or warnings, that need a person for one reason."""

    key: str
    look: Look | None
    """None: a warning about something that does not look ill."""
    title: str
    common: str
    """What they share besides the reason; may be empty."""
    jobs: tuple[JobView, ...]
    warnings: tuple[Warned, ...] = ()
    seen: Mapping[str, str] = field(default_factory=dict)
    """What is seen now, by job, where it is not what a job or a warning recorded."""
    limits: tuple[TaskId, ...] = ()
    """Attempts that their time limit will cut."""
    asks: Mapping[str, Ask] = field(default_factory=dict)
    """Questions that are no job's, by name."""

    @property
    def size(self) -> int:
        """How many things need a person here."""
        return len(self.jobs) or len(self.warnings) or len(self.asks)

    @property
    def acknowledgeable(self) -> int:
        """How many warnings of it go when a person says to have seen them."""
        return len(self.warnings) or len(self.limits)


def build_cause_key(job: JobView) -> str:
    """Equal for jobs that look alike for the same reason."""
    attempt, record = job.attempt, job.record
    node = attempt.node if attempt else ""
    if job.look in ENDED_BADLY:
        cause = record.cause or Cause.LOST
        node = node if cause is Cause.NODE_FAIL else ""
        code = f"{attempt.exit_code},{attempt.signal}" if attempt else ""
        last = _NUMBER.sub("#", find_last_words(job))[:120]
        return f"{job.look}|{cause}|{node}|{code}|{last}"
    if job.look is Look.DOOMED:
        missing = unmet(record)
        code = missing[2].why.code if missing and missing[2] else ""
        return f"{job.look}|{code}|{job.stage}"
    if job.look in (Look.ASKS, Look.STALLED):
        return f"{job.look}|{job.stage if job.look is Look.ASKS else node}"
    code = record.why.code if record.why else ""
    return f"{job.look}|{code}|{find_missing_file(record.why)}"


def find_alike(job: JobView, session: SessionView) -> Sequence[JobView]:
    """The jobs that look like `job` for the same reason, itself included."""
    key = build_cause_key(job)
    same = (other for other in session.jobs if other.look is job.look)
    return [other for other in same if build_cause_key(other) == key]


def group_causes(
    session: SessionView, words: PlanWords, cuts: Cuts = NO_CUTS
) -> tuple[CauseGroup, ...]:
    """Everything that needs a person, most urgent first, then largest first.

    `cuts`: the running jobs that their time limit will cut.
    """
    ill = (job for job in session.jobs if job.explains_itself)
    groups = []
    for key, jobs in _group(ill, build_cause_key):
        first = jobs[0]
        ended = first.look not in (Look.DOOMED, Look.SKIPPED)
        title = describe_end(first) if ended else find_reason(first, session)
        groups.append(
            CauseGroup(
                key=key,
                look=first.look,
                title=_TITLES.get(first.look, title),
                common=_find_common(jobs, words),
                jobs=tuple(jobs),
            )
        )
    for name, ask in session.asks.items():
        groups.append(
            CauseGroup(
                key=f"ask|{name}|{ask.digest}",
                look=Look.ASKS,
                title=outside(ask.prompt),
                common=outside(name),
                jobs=(),
                asks={name: ask},
            )
        )
    last = len(URGENCY)
    groups.sort(key=lambda one: (URGENCY.get(one.look or Look.DONE, last), -one.size))
    return (*groups, *_group_warnings(session), *_group_cuts(session, words, cuts))


def _group(
    things: Iterable[_T], key: Callable[[_T], str]
) -> Iterable[tuple[str, list[_T]]]:
    found: dict[str, list[_T]] = {}
    for one in things:
        found.setdefault(key(one), []).append(one)
    return found.items()


def _find_common(jobs: Sequence[JobView], words: PlanWords) -> str:
    first = jobs[0]
    if first.record.cause is Cause.NODE_FAIL or first.look is Look.STALLED:
        nodes = {job.attempt.node if job.attempt else "" for job in jobs}
        if len(nodes) == 1 and nodes != {""}:
            return outside(nodes.pop())
    stages = {job.stage for job in jobs}
    stage = outside(first.stage) if len(stages) == 1 else ""
    return words.find_common(jobs) or stage


def _group_warnings(session: SessionView) -> Iterator[CauseGroup]:
    """Warnings of jobs that look well, and those of no job, by code."""
    well = [
        entry
        for entry in session.snapshot.warnings
        if entry.severity != "info"
        and not (
            (job := session.find_job(entry.job))
            and (job.explains_itself or job.record.is_over_as_trial)
        )
    ]
    for code, entries in _group(well, lambda entry: entry.why.code):
        yield CauseGroup(
            key=f"warning|{code}",
            look=None,
            title=outside(short(entries[0].why)),
            common="" if len(entries) > 1 else outside(entries[0].job),
            jobs=session.list_jobs(dict.fromkeys(entry.job for entry in entries)),
            warnings=tuple(entries),
        )


def _group_cuts(
    session: SessionView, words: PlanWords, cuts: Cuts
) -> Iterator[CauseGroup]:
    """Of jobs that look well, and will be cut: by stage, for limits are a stage's."""
    well = (job for job in session.list_jobs(cuts) if not job.explains_itself)
    for stage, jobs in _group(well, lambda job: job.stage):
        yield CauseGroup(
            key=f"cut|{stage}",
            look=None,
            title="limit too short",
            common=_find_common(jobs, words),
            jobs=tuple(jobs),
            seen={job.name: format_cut(cuts[job.name]) for job in jobs},
            limits=tuple((job.name, job.attempt.number) for job in jobs if job.attempt),
        )


def count_needs(groups: Sequence[CauseGroup]) -> int:
    return sum(group.size for group in groups)


def describe_needs(groups: Sequence[CauseGroup]) -> str:
    """`16 need you, 7 causes`; empty when nothing needs you."""
    number = count_needs(groups)
    verb = "needs" if number == 1 else "need"
    return f"{number} {verb} you, {plural(len(groups), 'cause')}" if number else ""
