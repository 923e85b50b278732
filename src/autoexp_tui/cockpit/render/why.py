"""Pane 3: everything about one job, or about several, told as an answer to "why?".

The first lines say what happened, what is alike, what was lost, what waits, and what
to do next; below them stands the rest (conditions, attempts, parameters, paths), for
those who enlarge the pane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from autoexp_tui.cockpit.render.plan_findings import format_warning
from autoexp_tui.cockpit.spans import (
    Line,
    Span,
    join,
    line,
    outside,
    plain,
    wrap,
)
from autoexp_tui.cockpit.state.causes import PlanWords, build_cause_key
from autoexp_tui.cockpit.state.forecast import (
    NO_RATES,
    Rates,
    estimate_end,
    find_cut,
    format_cut,
)
from autoexp_tui.cockpit.state.kill_cost import (
    estimate_loss,
    find_checkpoint,
    find_waiting,
    has_nan,
)
from autoexp_tui.cockpit.state.parameters import (
    find_planned,
    find_value,
    format_value,
    is_value,
)
from autoexp_tui.cockpit.state.reasons import (
    describe_cause,
    describe_condition,
    describe_queue,
    explain_why,
    find_common_reason,
    find_reason,
    list_sources,
)
from autoexp_tui.cockpit.state.session import measure_run
from autoexp_tui.cockpit.state.status import ENDED_BADLY, FACES, Look, badge
from autoexp_tui.model.masking import mask_of, mask_text, mask_words
from autoexp_tui.model.resubmission import may_come_back
from autoexp_tui.model.states import Result
from autoexp_tui.model.wording import CAUSES, clock_time, count, duration, plural, size
from autoexp_tui.text.spelling import (
    format_estimate,
    format_metric,
    format_pace,
    format_progress,
)

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.causes import PlanWords
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.condition import Condition
    from autoexp_tui.model.masking import MaskRules
    from autoexp_tui.model.snapshot import GpuLoad, GpuView
    from autoexp_tui.model.specs import JobSpec
    from autoexp_tui.model.state import Attempt, ConditionStatus, JobRecord


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


def explain_nothing() -> WhyText:
    """The pane when there is no row under the cursor."""
    return WhyText("", ((Span(" No job is shown.", "muted"),),))


def explain_job(
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
        *describe_cut(job, session.now, usual),
        *_gpus(job, session),
        *_asked(job),
        *_conditions(job, session),
        *_warnings(job, session),
        *_behind([job], session),
        (),
        *render_facts(job, session, words),
    )
    return WhyText(_job_title(job), lines, _next([job], acts=acts))


def _job_title(job: JobView) -> str:
    attempt = job.attempt
    parts = [outside(job.name)]
    if attempt is not None:
        parts.append(outside(attempt.executor_id))
        parts.append(f"attempt {attempt.number}")
    return "   ".join(part for part in parts if part)


def explain_jobs(
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
        return explain_job(jobs[0], session, words, acts=acts, usual=usual)
    if not jobs:
        return explain_nothing()
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


def explain_crowd(title: str, jobs: Sequence[JobView]) -> WhyText:
    """What is seen of many jobs at once, until `why_many` has looked at each."""
    return WhyText(f"{title}   {_several(jobs, '')}", (_mixed(jobs),))


def _alike_all(jobs: Sequence[JobView]) -> bool:
    first = build_cause_key(jobs[0])
    return all(build_cause_key(job) == first for job in jobs)


def _verdict_of_all(jobs: Sequence[JobView], session: SessionView) -> Line:
    text = find_common_reason(jobs, session)
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
            Span(find_reason(job, session), "muted"),
        )
    if len(jobs) > 200:
        yield (Span(f"{_INDENT}and {len(jobs) - 200} more", "muted"),)


# ------------------------------------------------------------------- what happened
def _verdict(job: JobView, session: SessionView) -> Line:
    since = _looks_so_since(job)
    when = f" {clock_time(since, session.now)}" if since else ""
    ran = measure_run(job, session.now)
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
        return describe_queue(job, session)
    if job.record.why is not None:
        return explain_why(job.record.why, job, session, job.record.cause)
    if job.look in _BEGUN:
        return _running_text(job, session)
    if job.look is Look.DONE:
        return "completed"
    if job.record.cause is not None:
        return describe_cause(job)
    return find_reason(job, session)


def _running_text(job: JobView, session: SessionView) -> str:
    ahead = estimate_end(job, session.now)
    at = (
        f"at {format_progress(job.step, job.total)}"
        if job.step is not None
        else "no step yet"
    )
    rate = job.live.rate if job.live else None
    speed = f", {format_pace(rate)}" if rate else ""
    end = (
        f", ends {format_estimate(ahead.ends_at, session.now)}" if ahead.ends_at else ""
    )
    if ahead.too_late and ahead.limit_at is not None:
        limit = clock_time(ahead.limit_at, session.now)
        end += f"; its time limit comes first, at {limit}"
        cut = find_cut(job, session.now, NO_RATES)
        end += f": it {format_cut(cut)}" if cut is not None else ""
    if job.look is not Look.RUNNING:
        return f"{find_reason(job, session)}, {at}"
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
    key = build_cause_key(job)
    alike = [
        other
        for other in session.jobs
        if other.look is job.look and build_cause_key(other) == key
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
    loss = estimate_loss(job, session.now)
    verb = "lost" if job.record.ended else "at stake"
    hours = f", {loss.gpu_hours:.1f} GPU h" if loss.gpu_hours >= 0.05 else ""
    saved = find_checkpoint(job)
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
    idle = format_idle(gpu, session.now)
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
            Span(describe_condition(condition, session)),
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
        Span(f" {describe_condition(spec, session)}{optional}: "),
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
    return explain_why(status.why, job, session)


def _warnings(job: JobView, session: SessionView) -> Iterable[Line]:
    for entry in job.warned:
        yield line(
            Span(f"{_INDENT}! ", "warning"),
            Span(explain_why(entry.why, job, session), "warning"),
            Span(f"  {outside(entry.evidence)}" if entry.evidence else "", "muted"),
        )


# ------------------------------------------------------------------ what comes next
def _behind(jobs: Sequence[JobView], session: SessionView) -> Iterable[Line]:
    waiting = find_waiting(jobs, session)
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
        saved = max((find_checkpoint(job) or 0 for job in jobs), default=0)
        start = f" (from {count(saved)}, options)" if saved else " (options)"
        if any(has_nan(job) for job in jobs):
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


def explain_plan(session: SessionView, come_back: str) -> WhyText:
    """The first-run sentence: nothing was submitted yet."""
    plan = session.snapshot.plan
    told = plan.ui.get("first_run") if plan else None
    number = len(session.jobs)
    many = len(session.links.stages)
    about = (
        f"This plan has {plural(number, 'job')} in {plural(many, 'stage')}."
        if not isinstance(told, str) or not told.strip()
        else outside(told)
    )
    lines: list[Line] = [
        line(
            Span(" Nothing is running. "),
            Span(f"{about} "),
            Span("S", "key"),
            Span(" starts it, "),
            Span("?", "key"),
            Span(" lists the keys, "),
            Span("q", "key"),
            Span(" leaves."),
        )
    ]
    if come_back:
        lines.append((Span(f" {come_back}", "muted"),))
    lines += [
        (Span(f" ! {format_warning(finding)}", "warning"),)
        for finding in (plan.warnings if plan else ())
    ]
    return WhyText("nothing submitted yet", tuple(lines))


def has_nothing_started(session: SessionView) -> bool:
    """Whether every job is still as it was planned."""
    return session.count(Look.PLANNED) == len(session.jobs)


_INDENT_facts: Final = "   "


_NAME_LEAST: Final = 10


_NAME_MOST: Final = 24
"""Cells of the names; a longer one stands out of line."""


def render_facts(
    job: JobView, session: SessionView, words: PlanWords
) -> Iterable[Line]:
    """What is known of the job, a line each, their texts in one column."""
    facts = list(_pairs(job, session, words))
    cells = max(_NAME_LEAST, *(min(cell_len(name), _NAME_MOST) for name, _ in facts))
    for label, text in facts:
        padded = label + " " * (cells - cell_len(label))
        yield (Span(f"{_INDENT_facts}{padded} ", "muted"), Span(text))


def _pairs(
    job: JobView, session: SessionView, words: PlanWords
) -> Iterator[tuple[str, str]]:
    spec, mask = job.record.spec, mask_of(session.snapshot.plan)
    yield "stage", f"{outside(spec.stage) or '-'}   family {spec.family or '-'}"
    values = [
        f"{outside(key)}={find_value(spec, key)}" for key in _told_keys(spec, words)
    ]
    yield "values", mask_text("  ".join(values), mask) or "-"
    if spec.planned is not None:
        yield (
            "planned",
            "  ".join(
                mask_text(f"{outside(key)}={find_planned(spec, key)}", mask)
                for key in spec.own_values
            ),
        )
    yield "command", outside(" ".join(mask_words(spec.command, mask)), 2000)
    yield "output", outside(spec.output_dir)
    yield "log", outside(spec.log_path_current)
    for key, text in job.record.metadata.items():
        yield outside(key), outside(text)
    for name, value in _newest(job).items():
        yield outside(name), format_metric(value)
    if job.live and job.live.gpu and not job.record.ended:
        yield "GPUs", format_gpus(job.live.gpu, session.now)
    for attempt in reversed(job.record.attempts):
        yield f"attempt {attempt.number}", _attempt_text(attempt, session.now)
        if ran_with := format_run_values(job.record, attempt, mask):
            yield "ran with", ran_with
        if attempt.ordered_why is not None:
            yield "ordered", explain_why(attempt.ordered_why, job, session)
        for directory in attempt.captures:
            yield "evidence", outside(directory, 4096)
    for edge in session.upstream.get(job.name, ()):
        yield "waits for", outside(edge)
    if not job.record.started:
        for condition in spec.start_conditions:
            for text in list_sources(condition):
                yield "reads", text


def _told_keys(spec: JobSpec, words: PlanWords) -> list[str]:
    """The keys of its swept values: those that tell jobs apart first."""
    telling = {entry.key for entry in words.parameters}
    keys = [key for key in spec.parameters if is_value(key) and key not in words.paths]
    return sorted(keys, key=lambda key: key not in telling)


def _newest(job: JobView) -> Mapping[str, float]:
    """The newest values; of a job that ended long ago those that were journaled."""
    noted = job.record.noted
    told = {
        name: float(value) for name, value in (noted.values if noted else {}).items()
    }
    return {**told, **(job.live.metrics if job.live else {})}


def format_run_values(job: JobRecord, attempt: Attempt, mask: MaskRules) -> str:
    """The values of an attempt, of those that are not the plan's in each of them."""
    values = job.values_of(attempt)
    changed = [key for key in job.changed_keys if key in values]
    return mask_text(
        "  ".join(f"{outside(key)}={format_value(values[key])}" for key in changed),
        mask,
    )


def _attempt_text(attempt: Attempt, now: float) -> str:
    parts = [outside(attempt.executor_id) or "not yet taken"]
    if attempt.began_at is not None:
        parts.append(f"began {clock_time(attempt.began_at, now)}")
    if attempt.node:
        inside = f" in {outside(attempt.partition)}" if attempt.partition else ""
        parts.append(f"on {outside(attempt.node)}{inside}")
    if attempt.outcome is not None:
        cause = f", {CAUSES[attempt.cause]}" if attempt.cause else ""
        parts.append(f"{attempt.outcome.value.lower()}{cause}")
    if attempt.ended_at is not None:
        parts.append(f"ended {clock_time(attempt.ended_at, now)}")
    if attempt.evidence:
        parts.append(outside(attempt.evidence))
    return ", ".join(parts)


STALE_SECONDS: Final = 180.0
"""After which a sample, of which there is one every half minute, is an old one."""


IDLE_SECONDS: Final = 600.0
"""For which GPUs do nothing before that is worth a word."""


_MIB: Final = 1 << 20


def format_gpus(gpu: GpuView, now: float) -> str:
    """`4 GPUs: 81 to 93 % busy, 62 GB of 80 GB, 1240 W`; how old, when it is."""
    told = (_busy(gpu.gpus), _memory(gpu.gpus), _power(gpu.gpus))
    parts = [part for part in told if part]
    if is_stale(gpu, now):
        parts.append(f"{duration(now - gpu.seen_at)} ago")
    return f"{plural(len(gpu.gpus), 'GPU')}: {', '.join(parts) or 'they do not tell'}"


def format_idle(gpu: GpuView, now: float) -> str:
    """That the GPUs do nothing, and for how long; empty while they do something."""
    if is_stale(gpu, now) or gpu.idle_seconds < IDLE_SECONDS:
        return ""
    whose = "its GPU has" if len(gpu.gpus) == 1 else "its GPUs have"
    return f"{whose} done nothing for {duration(gpu.idle_seconds)}"


def is_stale(gpu: GpuView, now: float) -> bool:
    """Whether nobody has told anything newer for long."""
    return now - gpu.seen_at > STALE_SECONDS


def _busy(gpus: Sequence[GpuLoad]) -> str:
    known = [load.busy_percent for load in gpus if load.busy_percent is not None]
    if not known:
        return ""
    low, high = round(min(known)), round(max(known))
    return f"{low} % busy" if low == high else f"{low} to {high} % busy"


def _memory(gpus: Sequence[GpuLoad]) -> str:
    """Of the fullest one."""
    known = [
        (load.used_mib, load.total_mib)
        for load in gpus
        if load.used_mib is not None and load.total_mib
    ]
    if not known:
        return ""
    used, total = max(known, key=lambda pair: pair[0] / pair[1])
    return f"{size(used * _MIB)} of {size(total * _MIB)}"


def _power(gpus: Sequence[GpuLoad]) -> str:
    known = [load.watts for load in gpus if load.watts is not None]
    return f"{round(sum(known))} W" if known else ""


def describe_cut(job: JobView, now: float, known: Rates) -> Iterable[Line]:
    """The same for a job that has not begun, with what the rate is of."""
    cut = find_cut(job, now, known)
    if cut is None or not cut.runs:
        return
    limit = duration(job.record.spec.resources.time_limit_seconds or 0.0)
    of = f"{format_pace(cut.rate)}, as {plural(cut.runs, 'run')} of its stage"
    yield (Span(f"   ! {format_cut(cut)} ({limit}; {of}).", "warning"),)
