"""Pane 3: everything about one job, or about several, told as an answer to "why?".

The first lines say what happened, what is alike, what was lost, what waits, and what
to do next; below them stands the rest (conditions, attempts, parameters, paths), for
those who enlarge the pane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.columns import run_seconds
from autoexp_tui.cockpit.render.facts import fact_lines
from autoexp_tui.cockpit.render.gpus import idle_text
from autoexp_tui.cockpit.render.numbers import moment, pace, progress
from autoexp_tui.cockpit.render.reasons import (
    cause_words,
    outlook,
    queued_text,
    reason,
    reason_of_all,
    told,
)
from autoexp_tui.cockpit.render.spans import (
    Line,
    Span,
    join,
    line,
    outside,
    plain,
    wrap,
)
from autoexp_tui.cockpit.render.status_style import ENDED_BADLY, FACES, Look, badge
from autoexp_tui.cockpit.state.causes import PlanWords, cause_key
from autoexp_tui.cockpit.state.kill_cost import (
    checkpoint_step,
    holds_nan,
    loss_of,
    waits_behind,
)
from autoexp_tui.cockpit.state.subjects import condition_subject
from autoexp_tui.cockpit.state.time_limit_forecast import (
    NO_RATES,
    Rates,
    cut_line,
    cut_of,
    cut_words,
)
from autoexp_tui.model.resubmission import may_come_back
from autoexp_tui.model.verdicts import Result
from autoexp_tui.model.wording import clock_time, count, duration, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.conditions.kinds import Condition
    from autoexp_tui.model.state import ConditionStatus

_INDENT = "   "
_MARKS = {
    Result.PASS: Span("✓", "done"),
    Result.WAIT: Span("◌", "waiting"),
    Result.FAIL: Span("✗", "doomed"),
}


@dataclass(frozen=True, slots=True)
class WhyText:
    """A title for the pane, and its lines, not yet wrapped."""

    title: str
    lines: tuple[Line, ...]
    next: Line = ()
    """What to do now; the pane keeps it in sight."""

    def wrapped(self, cells: int) -> tuple[Line, ...]:
        """The lines, none wider than `cells`."""
        found: list[Line] = []
        for content in self.lines:
            found.extend(wrap(content, cells, _hang(content)))
        return tuple(found)


def _hang(content: Line) -> str:
    """What further lines begin with: sentences stay flush, all else stands in."""
    text = plain(content).lstrip(" ")
    return " " if text[:1].isalpha() and plain(content)[:2].strip() else "     "


def why_nothing() -> WhyText:
    """The pane when there is no row under the cursor."""
    return WhyText("", ((Span(" No job is shown.", "muted"),),))


def why_job(
    job: JobView,
    session: SessionView,
    words: PlanWords,
    *,
    acts: bool = True,
    usual: Rates = NO_RATES,
) -> WhyText:
    """All about one job; without `acts` no next step is one that commands.

    `usual`: what is known of how fast its stage goes.
    """
    lines = (
        _verdict(job, session),
        *_alike(job, session, words),
        *_checkpoint(job, session),
        *cut_line(job, session.now, usual),
        *_gpus(job, session),
        *_asked(job),
        *_conditions(job, session),
        *_warnings(job, session),
        *_behind([job], session),
        (),
        *fact_lines(job, session, words),
    )
    return WhyText(_job_title(job), lines, _next([job], acts=acts))


def _job_title(job: JobView) -> str:
    attempt = job.attempt
    parts = [outside(job.name)]
    if attempt is not None:
        parts.append(outside(attempt.executor_id))
        parts.append(f"attempt {attempt.number}")
    return "   ".join(part for part in parts if part)


def why_many(
    title: str,
    jobs: Sequence[JobView],
    session: SessionView,
    words: PlanWords,
    *,
    acts: bool = True,
    usual: Rates = NO_RATES,
) -> WhyText:
    """What several jobs of one row, stage or cause have in common."""
    if len(jobs) == 1:
        return why_job(jobs[0], session, words, acts=acts, usual=usual)
    if not jobs:
        return why_nothing()
    return WhyText(
        f"{title}   {_several(jobs, words.common(jobs))}",
        (
            _verdict_of_all(jobs, session) if _alike_all(jobs) else _mixed(jobs),
            *_behind(jobs, session),
            (),
            *_one_per_job(jobs, session),
        ),
        _next(jobs, acts=acts),
    )


def why_crowd(title: str, jobs: Sequence[JobView]) -> WhyText:
    """What is seen of many jobs at once, until `why_many` has looked at each."""
    return WhyText(f"{title}   {_several(jobs, '')}", (_mixed(jobs),))


def _alike_all(jobs: Sequence[JobView]) -> bool:
    first = cause_key(jobs[0])
    return all(cause_key(job) == first for job in jobs)


def _verdict_of_all(jobs: Sequence[JobView], session: SessionView) -> Line:
    text = reason_of_all(jobs, session)
    return line(Span(" "), badge(jobs[0].look), Span(": ", "strong"), Span(text))


def _several(jobs: Sequence[JobView], common: str) -> str:
    count = plural(len(jobs), "job")
    return f"{count}, all {common}" if common else count


def _mixed(jobs: Sequence[JobView]) -> Line:
    counts: dict[Look, int] = {}
    for job in jobs:
        counts[job.look] = counts.get(job.look, 0) + 1
    parts: list[Line] = [
        (Span(f"{FACES[look].glyph}{counts[look]} {look}", FACES[look].role),)
        for look in FACES
        if look in counts
    ]
    return (Span(" "), *join(parts, "   "))


def _one_per_job(jobs: Sequence[JobView], session: SessionView) -> Iterable[Line]:
    for job in jobs[:200]:
        yield line(
            Span(f"{_INDENT}{FACES[job.look].glyph} ", FACES[job.look].role),
            Span(f"{outside(job.name)}  "),
            Span(reason(job, session), "muted"),
        )
    if len(jobs) > 200:
        yield (Span(f"{_INDENT}and {len(jobs) - 200} more", "muted"),)


# ------------------------------------------------------------------- what happened
def _verdict(job: JobView, session: SessionView) -> Line:
    since = _looks_so_since(job)
    when = f" {clock_time(since, session.now)}" if since else ""
    ran = run_seconds(job, session.now)
    after = f" after {duration(ran)}" if ran is not None and job.record.ended else ""
    text = _verdict_text(job, session)
    return line(
        Span(" "),
        badge(job.look),
        Span(f"{when}{after}: ", "strong"),
        Span(text),
        Span(_particulars(job), "muted"),
    )


def _looks_so_since(job: JobView) -> float:
    """UTC since when the badge's word holds; 0: not known."""
    ask = job.record.ask
    asks = job.look is Look.ASKS and ask is not None
    return ask.asked_at if asks and ask is not None else job.record.since


_BEGUN: Final = frozenset({Look.RUNNING, Look.STALLED, Look.SUSPENDED, Look.ENDING})
"""Looks of jobs that have begun and not ended."""


def _verdict_text(job: JobView, session: SessionView) -> str:
    if job.look is Look.QUEUED:
        return queued_text(job, session)
    if job.record.why is not None:
        return told(job.record.why, job, session, job.record.cause)
    if job.look in _BEGUN:
        return _running_text(job, session)
    if job.look is Look.DONE:
        return "completed"
    if job.record.cause is not None:
        return cause_words(job)
    return reason(job, session)


def _running_text(job: JobView, session: SessionView) -> str:
    ahead = outlook(job, session.now)
    at = (
        f"at {progress(job.step, job.total)}" if job.step is not None else "no step yet"
    )
    rate = job.live.rate if job.live else None
    speed = f", {pace(rate)}" if rate else ""
    end = f", ends {moment(ahead.ends_at, session.now)}" if ahead.ends_at else ""
    if ahead.too_late and ahead.limit_at is not None:
        limit = clock_time(ahead.limit_at, session.now)
        end += f"; its time limit comes first, at {limit}"
        cut = cut_of(job, session.now, NO_RATES)
        end += f": it {cut_words(cut)}" if cut is not None else ""
    if job.look is not Look.RUNNING:
        return f"{reason(job, session)}, {at}"
    if job.live and job.live.queue and job.live.queue.reason:
        return f"{at}{speed}{end}; {outside(job.live.queue.reason)}"
    return f"{at}{speed}{end}"


def _particulars(job: JobView) -> str:
    attempt = job.attempt
    if attempt is None or job.look not in ENDED_BADLY | _BEGUN:
        return ""
    parts = []
    if attempt.exit_code is not None and job.look in ENDED_BADLY:
        parts.append(f"exit {attempt.exit_code}")
    if attempt.signal is not None:
        parts.append(f"signal {attempt.signal}")
    if attempt.node:
        parts.append(f"node {outside(attempt.node)}")
    if attempt.partition:
        parts.append(f"partition {outside(attempt.partition)}")
    return f" ({'; '.join(parts)})" if parts else ""


def _alike(job: JobView, session: SessionView, words: PlanWords) -> Iterable[Line]:
    evidence = job.attempt.evidence if job.attempt else ""
    if evidence and job.look in ENDED_BADLY:
        yield (Span(f"{_INDENT}{outside(evidence)}", "failed"),)
    if job.look not in ENDED_BADLY:
        return
    key = cause_key(job)
    alike = [
        other
        for other in session.jobs
        if other.look is job.look and cause_key(other) == key
    ]
    if len(alike) < 2:
        return
    common = words.common(alike)
    shared = f", all {common}" if common else ""
    number = len(alike) - 1
    others = f"{number} other{'s' if number > 1 else ''} {job.look} alike{shared}"
    yield (Span(f"{_INDENT}{others}."),)


def _checkpoint(job: JobView, session: SessionView) -> Iterable[Line]:
    if job.step is None or job.look in (Look.DONE, Look.SKIPPED):
        return
    loss = loss_of(job, session.now)
    verb = "lost" if job.record.ended else "at stake"
    hours = f", {loss.gpu_hours:.1f} GPU h" if loss.gpu_hours >= 0.05 else ""
    saved = checkpoint_step(job)
    known = (
        f"Last checkpoint at step {saved}"
        if saved is not None
        else "No checkpoint known"
    )
    if loss.steps is not None:
        yield (Span(f"{_INDENT}{known}; {verb}: {plural(loss.steps, 'step')}{hours}."),)


def _gpus(job: JobView, session: SessionView) -> Iterable[Line]:
    """A hint, and no more: nothing follows from GPUs that do nothing."""
    gpu = job.live.gpu if job.live else None
    if gpu is None or job.look not in (Look.RUNNING, Look.STALLED):
        return
    idle = idle_text(gpu, session.now)
    if idle:
        yield (Span(f"{_INDENT}{idle[0].upper()}{idle[1:]}.", "warning"),)


def _asked(job: JobView) -> Iterable[Line]:
    ask = job.record.ask
    if ask is not None and ask.approved is None:
        yield line(Span(f"{_INDENT}Asks: ", "asks"), Span(outside(ask.prompt, 2000)))


# --------------------------------------------------------------------- conditions
def _conditions(job: JobView, session: SessionView) -> Iterable[Line]:
    if job.record.ended and job.look is not Look.SKIPPED:
        return
    spec = job.record.spec
    if not job.record.started or job.look is Look.SKIPPED:
        for index, condition in enumerate(spec.start_conditions):
            status = job.status(index)
            yield condition_line(job, condition, status, session)
    for index, condition in enumerate(spec.cancel_conditions):
        status = _status(job.record.cancel, index)
        yield line(
            Span(f"{_INDENT}ends it when: ", "muted"),
            Span(condition_subject(condition, session)),
            Span(f"  {_end_status_text(job, status, session)}", "muted"),
        )


def _end_status_text(
    job: JobView, status: ConditionStatus | None, session: SessionView
) -> str:
    """How near a condition is that ends a job: its own sentences are for waits."""
    if status is None or status.waived or status.result is Result.PASS:
        return _status_text(job, status, session)
    if status.result is Result.FAIL:
        return "cannot come about any more"
    return "not so yet"


def _status(
    statuses: Sequence[ConditionStatus | None], index: int
) -> ConditionStatus | None:
    return statuses[index] if index < len(statuses) else None


def condition_line(
    job: JobView,
    spec: Condition,
    status: ConditionStatus | None,
    session: SessionView,
) -> Line:
    """A start condition with its verdict: mark, what it is about, the sentence."""
    waived = bool(status and status.waived)
    mark = _MARKS[status.result] if status else Span("·", "waiting")
    optional = "" if spec.blocking else " (only shown)"
    return line(
        Span(_INDENT),
        Span("✓", "done") if waived else mark,
        Span(f" {condition_subject(spec, session)}{optional}: "),
        Span(_status_text(job, status, session), "text" if not waived else "muted"),
        Span(_since(status, session.now), "muted"),
    )


def _since(status: ConditionStatus | None, now: float) -> str:
    """Since when a verdict stands: `  since 14:02 (12 min)`."""
    if status is None or not status.since:
        return ""
    span = duration(now - status.since)
    return f"  since {clock_time(status.since, now)} ({span})"


def _status_text(
    job: JobView, status: ConditionStatus | None, session: SessionView
) -> str:
    if status is None:
        return "nobody has looked yet"
    if status.waived:
        return f"waived: {outside(status.waived)}"
    return told(status.why, job, session)


def _warnings(job: JobView, session: SessionView) -> Iterable[Line]:
    for entry in job.warned:
        yield line(
            Span(f"{_INDENT}! ", "warning"),
            Span(told(entry.why, job, session), "warning"),
            Span(f"  {outside(entry.evidence)}" if entry.evidence else "", "muted"),
        )


# ------------------------------------------------------------------ what comes next
def _behind(jobs: Sequence[JobView], session: SessionView) -> Iterable[Line]:
    waiting = waits_behind(jobs, session)
    if not waiting or jobs[0].look is Look.DONE:
        return
    doomed = [job for job in waiting if job.look is Look.DOOMED]
    called = dict.fromkeys(job.stage or job.name for job in waiting)
    names = ", ".join(outside(name) for name in called)
    number = len(waiting)
    verb = "waits" if number == 1 else "wait"
    never = f"; {len(doomed)} can never start" if doomed else ""
    role = FACES[Look.DOOMED if doomed else Look.WAITING].role
    pronoun = "it" if len(jobs) == 1 else "them"
    yield line(
        Span(f"{_INDENT}{FACES[Look.DOOMED if doomed else Look.WAITING].glyph} ", role),
        Span(f"{plural(number, 'job')} {verb} for {pronoun} ({names}){never}."),
    )


def _next(jobs: Sequence[JobView], *, acts: bool) -> Line:
    """What to do now; empty where nothing can be done."""
    parts = [
        (Span(key, "key"), Span(f" {text}"))
        for key, text in _steps(jobs)
        if acts or not key.isupper()
    ]
    return (Span(f"{_INDENT}Next  ", "strong"), *join(parts, "   ")) if parts else ()


def _steps(jobs: Sequence[JobView]) -> Iterable[tuple[str, str]]:
    looks = {job.look for job in jobs}
    if any(may_come_back(job.record) for job in jobs):
        saved = max((checkpoint_step(job) or 0 for job in jobs), default=0)
        start = f" (from {count(saved)}, options)" if saved else " (options)"
        if any(holds_nan(job) for job in jobs):
            start = " (from the beginning, options)"
        yield "R", f"resubmit{start}"
    if Look.ASKS in looks:
        yield "A", "read and answer"
    if looks & {Look.PLANNED, Look.HELD}:
        yield "S", "submit"
    if looks & {Look.DOOMED, Look.WAITING, Look.ASKS, Look.HELD, Look.PLANNED}:
        yield "X", "skip or waive"
    if looks & {*_BEGUN, Look.QUEUED, Look.RETRYING}:
        yield "K", "kill"
    if looks & {*_BEGUN, Look.DONE, *ENDED_BADLY}:
        yield "0", "its log"
    if looks & ENDED_BADLY and len(jobs) == 1:
        yield "m", "mark all alike"
