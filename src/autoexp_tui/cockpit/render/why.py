"""Pane 3: everything about one job, or about several, told as an answer to "why?".

What happened, what is alike, lost and waiting comes first; the rest (conditions,
attempts, parameters, paths) stands below, for those who enlarge the pane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from autoexp_tui.cockpit.render.plan_findings import format_warning
from autoexp_tui.cockpit.spans import Line, Span, join, line, outside, plain, wrap
from autoexp_tui.cockpit.state.causes import build_cause_key
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
    format_gpu_hours,
    has_nan,
)
from autoexp_tui.cockpit.state.parameters import (
    PlanWords,
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
)
from autoexp_tui.cockpit.state.session import count_looks
from autoexp_tui.cockpit.state.status import (
    BEGUN_LOOKS,
    ENDED_BADLY,
    Look,
    render_badge,
    render_counts,
)
from autoexp_tui.model.masking import mask_of, mask_text, mask_words
from autoexp_tui.model.resubmission import can_come_back
from autoexp_tui.model.states import Result
from autoexp_tui.model.wording import CAUSES
from autoexp_tui.text.spelling import (
    clock_time,
    count,
    duration,
    format_estimate,
    format_metric,
    format_pace,
    format_progress,
    plural,
    size,
)

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.masking import MaskRules
    from autoexp_tui.model.snapshot import GpuView
    from autoexp_tui.model.state import Attempt, ConditionStatus

_INDENT: Final = "   "
_UNSEEN: Final = Span("·", "waiting")
_MARKS: Final = {
    Result.PASS: Span("✓", "done"),
    Result.WAIT: Span("◌", "waiting"),
    Result.FAIL: Span("✗", "doomed"),
}
_ENDING: Final = {
    Result.FAIL: "can no longer happen",
    Result.WAIT: "no",
}
"""How near a condition is to end a job: its own sentences are for waits."""
_MOST_JOBS: Final = 200
_NAME_LEAST: Final = 10
_NAME_MOST: Final = 24
"""Cells of the names of facts; a longer one stands out of line."""
_STALE_SECONDS: Final = 180.0
"""After which a sample of GPUs, of which there is one every half minute, is old."""
_IDLE_SECONDS: Final = 600.0
"""For which GPUs do nothing before that is worth a word."""


@dataclass(frozen=True, slots=True)
class WhyText:
    """A title for the pane, and its lines, not yet wrapped."""

    title: str
    lines: tuple[Line, ...]
    next: Line = ()
    """What to do now; the pane keeps it in sight."""

    def wrap(self, cells: int) -> tuple[Line, ...]:
        """The lines, none wider than `cells`; what goes on stands in, but sentences."""
        rows: list[Line] = []
        for content in self.lines:
            text = plain(content)
            flush = text.lstrip(" ")[:1].isalpha() and text[:2].strip()
            rows += wrap(content, cells, " " if flush else "     ")
        return tuple(rows)


NO_JOB_SHOWN: Final = WhyText("", ((Span(" No job is shown.", "muted"),),))
"""The pane when there is no row under the cursor."""


def explain_plan(session: SessionView, come_back: str) -> WhyText:
    """The first-run sentence: nothing was submitted yet."""
    plan = session.snapshot.plan
    text = plan.ui.get("first_run") if plan else None
    about = outside(text) if isinstance(text, str) and text.strip() else ""
    if not about:
        stages = plural(len(session.links.stages), "stage")
        about = f"This plan has {plural(len(session.jobs), 'job')} in {stages}."
    lines = [
        line(
            Span(f" Nothing is running. {about} "),
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
    attempt = job.attempt
    title = [outside(job.name)]
    if attempt is not None:
        title += [outside(attempt.executor_id), f"attempt {attempt.number}"]
    warnings = (
        line(
            Span(f"{_INDENT}! ", "warning"),
            Span(explain_why(entry.why, job, session), "warning"),
            Span(f"  {outside(entry.evidence)}" if entry.evidence else "", "muted"),
        )
        for entry in job.warned
    )
    facts = list(_list_facts(job, session, words))
    cells = max(_NAME_LEAST, *(min(cell_len(name), _NAME_MOST) for name, _ in facts))
    lines = (
        _render_verdict(job, session),
        *_render_alike(job, session, words),
        *_render_risks(job, session, usual),
        *_render_conditions(job, session),
        *warnings,
        *_render_behind([job], session),
        (),
        *(
            (
                Span(f"{_INDENT}{name}{' ' * (cells - cell_len(name))} ", "muted"),
                Span(text),
            )
            for name, text in facts
        ),
    )
    shown = "   ".join(part for part in title if part)
    return WhyText(shown, lines, _render_next([job], acts=acts))


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
    first = jobs[0]
    if len(jobs) == 1:
        return explain_job(first, session, words, acts=acts, usual=usual)
    common = words.find_common(jobs)
    crowd = explain_crowd(title, jobs)
    verdict = crowd.lines[0]
    if len({build_cause_key(job) for job in jobs}) == 1:
        reason = find_common_reason(jobs, session)
        verdict = line(
            Span(" "), render_badge(first.look), Span(": ", "strong"), Span(reason)
        )
    rows = [render_job(job, find_reason(job, session)) for job in jobs[:_MOST_JOBS]]
    if len(jobs) > _MOST_JOBS:
        rows.append((Span(f"{_INDENT}and {len(jobs) - _MOST_JOBS} more", "muted"),))
    return WhyText(
        f"{crowd.title}{f', all {common}' if common else ''}",
        (verdict, *_render_behind(jobs, session), (), *rows),
        _render_next(jobs, acts=acts),
    )


def explain_crowd(title: str, jobs: Sequence[JobView]) -> WhyText:
    """What is seen of many jobs at once, until `explain_jobs` has looked at each."""
    verdict = (Span(" "), *join(render_counts(count_looks(jobs)), "   "))
    return WhyText(f"{title}   {plural(len(jobs), 'job')}", (verdict,))


def render_job(job: JobView, words: str, indent: str = _INDENT) -> Line:
    """A job by its glyph and name, and some words about it."""
    return line(
        Span(f"{indent}{job.look.glyph} ", job.look.role),
        Span(f"{outside(job.name)}"),
        Span(f"  {words}" if words else "", "muted"),
    )


def _render_verdict(job: JobView, session: SessionView) -> Line:
    """What happened, when, and where."""
    ask, attempt, now = job.record.ask, job.attempt, session.now
    since, ran = job.record.since, job.measure_run(now)
    if job.look is Look.ASKS and ask is not None:
        since = ask.asked_at
    when = f" {clock_time(since, now)}" if since else ""
    after = f" after {duration(ran)}" if ran is not None and job.record.ended else ""
    parts = []
    if attempt is not None and job.look in ENDED_BADLY | BEGUN_LOOKS:
        if attempt.exit_code is not None and job.look in ENDED_BADLY:
            parts.append(f"exit {attempt.exit_code}")
        if attempt.signal is not None:
            parts.append(f"signal {attempt.signal}")
        if attempt.node:
            parts.append(f"node {outside(attempt.node)}")
        if attempt.partition:
            parts.append(f"partition {outside(attempt.partition)}")
    return line(
        Span(" "),
        render_badge(job.look),
        Span(f"{when}{after}: ", "strong"),
        Span(_describe_verdict(job, session)),
        Span(f" ({'; '.join(parts)})" if parts else "", "muted"),
    )


def _describe_verdict(job: JobView, session: SessionView) -> str:
    now, record = session.now, job.record
    if job.look is Look.QUEUED:
        return describe_queue(job, session)
    if record.why is not None:
        return explain_why(record.why, job, session, record.cause)
    if job.look is Look.DONE:
        return "completed"
    if job.look not in BEGUN_LOOKS:
        return describe_cause(job) if record.cause else find_reason(job, session)
    known = job.step is not None
    at = f"at {format_progress(job.step, job.total)}" if known else "no step yet"
    if job.look is not Look.RUNNING:
        return f"{find_reason(job, session)}, {at}"
    ahead = estimate_end(job, now)
    speed = f", {format_pace(job.rate)}" if job.rate else ""
    end = f", ends {format_estimate(ahead.ends_at, now)}" if ahead.ends_at else ""
    if ahead.cut_at is not None:
        end += f"; its time limit comes first, at {clock_time(ahead.cut_at, now)}"
        cut = find_cut(job, now, NO_RATES)
        end += f": it {format_cut(cut)}" if cut is not None else ""
    queue = f"; {outside(job.queue_reason)}" if job.queue_reason else ""
    return f"{at}{speed}{end}{queue}"


def _render_alike(
    job: JobView, session: SessionView, words: PlanWords
) -> Iterator[Line]:
    """The last words of a job that ended badly, and how many ended like it."""
    if job.look not in ENDED_BADLY:
        return
    if job.attempt and job.attempt.evidence:
        yield (Span(f"{_INDENT}{outside(job.attempt.evidence)}", "failed"),)
    key = build_cause_key(job)
    same = (other for other in session.jobs if other.look is job.look)
    alike = [other for other in same if build_cause_key(other) == key]
    if (number := len(alike) - 1) > 0:
        common = words.find_common(alike)
        shared = f", all {common}" if common else ""
        others = f"{plural(number, 'other')} {job.look} alike{shared}"
        yield (Span(f"{_INDENT}{others}."),)


def _render_risks(job: JobView, session: SessionView, usual: Rates) -> Iterator[Line]:
    """What is lost, or would be; a short time limit; idle GPUs; what a person is
    asked."""
    now, ask = session.now, job.record.ask
    loss = estimate_loss(job, now)
    if loss.steps is not None and job.look not in (Look.DONE, Look.SKIPPED):
        verb = "lost" if job.record.ended else "would be lost"
        saved, hours = find_checkpoint(job), format_gpu_hours(loss.gpu_hours)
        at = f"Last checkpoint at step {saved}"
        known = at if saved is not None else "No checkpoint known"
        more = f", {hours}" if hours else ""
        yield (Span(f"{_INDENT}{known}; {verb}: {plural(loss.steps, 'step')}{more}."),)
    cut = find_cut(job, now, usual)
    if cut is not None and cut.runs:
        limit = duration(job.record.spec.resources.time_limit_seconds or 0.0)
        of = f"{format_pace(cut.rate)}, as {plural(cut.runs, 'run')} of its stage"
        yield (Span(f"{_INDENT}! {format_cut(cut)} ({limit}; {of}).", "warning"),)
    gpu = job.live.gpu if job.live else None
    if gpu is not None and job.look in (Look.RUNNING, Look.STALLED):
        idle = format_idle(gpu, now)
        yield line(
            Span(f"{_INDENT}{idle[0].upper()}{idle[1:]}." if idle else "", "warning")
        )
    if ask is not None and ask.approved is None:
        yield line(Span(f"{_INDENT}Asks: ", "asks"), Span(outside(ask.prompt, 2000)))


def _render_conditions(job: JobView, session: SessionView) -> Iterator[Line]:
    """Conditions that still count: those to start, those that end the job."""
    now, spec, cancel = session.now, job.record.spec, job.record.cancel
    if job.record.ended and job.look is not Look.SKIPPED:
        return
    waits = not job.record.started or job.look is Look.SKIPPED
    for index, one in enumerate(spec.start_conditions if waits else ()):
        status = job.status(index)
        waived = bool(status and status.waived)
        mark = _MARKS[Result.PASS if waived else status.result] if status else _UNSEEN
        optional = "" if one.blocking else " (only shown)"
        since = ""
        if status is not None and status.since:
            span = duration(now - status.since)
            since = f"  since {clock_time(status.since, now)} ({span})"
        yield line(
            Span(_INDENT),
            mark,
            Span(f" {describe_condition(one, session)}{optional}: "),
            Span(_describe_status(job, status, session), "muted" if waived else "text"),
            Span(since, "muted"),
        )
    for index, one in enumerate(spec.cancel_conditions):
        status = cancel[index] if index < len(cancel) else None
        text = _describe_status(job, status, session)
        if status is not None and not status.waived:
            text = _ENDING.get(status.result, text)
        yield line(
            Span(f"{_INDENT}ends it when: ", "muted"),
            Span(describe_condition(one, session)),
            Span(f"  {text}", "muted"),
        )


def _describe_status(
    job: JobView, status: ConditionStatus | None, session: SessionView
) -> str:
    if status is None:
        return "nobody has looked yet"
    if status.waived:
        return f"waived: {outside(status.waived)}"
    return explain_why(status.why, job, session)


def _render_behind(jobs: Sequence[JobView], session: SessionView) -> Iterator[Line]:
    """Who waits for them, and can never start."""
    waiting = find_waiting(jobs, session)
    if not waiting or jobs[0].look is Look.DONE:
        return
    doomed = sum(job.look is Look.DOOMED for job in waiting)
    called = dict.fromkeys(job.stage or job.name for job in waiting)
    names = ", ".join(outside(name) for name in called)
    verb = "waits" if len(waiting) == 1 else "wait"
    never = f"; {doomed} can never start" if doomed else ""
    look = Look.DOOMED if doomed else Look.WAITING
    pronoun = "it" if len(jobs) == 1 else "them"
    yield line(
        Span(f"{_INDENT}{look.glyph} ", look.role),
        Span(f"{plural(len(waiting), 'job')} {verb} for {pronoun} ({names}){never}."),
    )


def _render_next(jobs: Sequence[JobView], *, acts: bool) -> Line:
    """What to do now; empty where nothing can be done."""
    steps = {}
    looks = {job.look for job in jobs}
    if any(can_come_back(job.record) for job in jobs):
        saved = max((find_checkpoint(job) or 0 for job in jobs), default=0)
        start = f"from {count(saved)}, " if saved else ""
        start = "from the beginning, " if any(map(has_nan, jobs)) else start
        steps["R"] = f"resubmit ({start}options)"
    if Look.ASKS in looks:
        steps["A"] = "read and answer"
    if looks & {Look.PLANNED, Look.HELD}:
        steps["S"] = "submit"
    if looks & {Look.DOOMED, Look.WAITING, Look.ASKS, Look.HELD, Look.PLANNED}:
        steps["X"] = "skip or waive"
    if looks & {*BEGUN_LOOKS, Look.QUEUED, Look.RETRYING}:
        steps["K"] = "kill"
    if looks & {*BEGUN_LOOKS, Look.DONE, *ENDED_BADLY}:
        steps["0"] = "its log"
    if looks & ENDED_BADLY and len(jobs) == 1:
        steps["m"] = "mark all alike"
    parts: list[Line] = [
        (Span(key, "key"), Span(f" {text}"))
        for key, text in steps.items()
        if acts or not key.isupper()
    ]
    return (Span(f"{_INDENT}Next  ", "strong"), *join(parts, "   ")) if parts else ()


def _list_facts(
    job: JobView, session: SessionView, words: PlanWords
) -> Iterator[tuple[str, str]]:
    """What is known of the job, by its name."""
    record, spec, mask = job.record, job.record.spec, mask_of(session.snapshot.plan)
    telling = {entry.key for entry in words.parameters}
    keys = sorted(filter(is_value, spec.parameters), key=lambda key: key not in telling)
    yield "stage", f"{outside(spec.stage) or '-'}   family {spec.family or '-'}"
    values = {key: find_value(spec, key) for key in keys}
    yield "values", _format_values(values, mask) or "-"
    if spec.planned is not None:
        planned = {key: find_planned(spec, key) for key in spec.own_values}
        yield "planned", _format_values(planned, mask)
    yield "command", outside(" ".join(mask_words(spec.command, mask)), 2000)
    yield "output", outside(spec.output_dir)
    yield "log", outside(spec.log_path_current)
    for key, text in record.metadata.items():
        yield outside(key), outside(text)
    for name, value in job.list_metrics().items():
        yield outside(name), format_metric(value)
    if job.live and job.live.gpu and not record.ended:
        yield "GPUs", format_gpus(job.live.gpu, session.now)
    for attempt in reversed(record.attempts):
        yield f"attempt {attempt.number}", _describe_attempt(attempt, session.now)
        own = record.values_of(attempt)
        changed = [key for key in record.list_changed_keys if key in own]
        if changed:
            ran_with = {key: format_value(own[key]) for key in changed}
            yield "ran with", _format_values(ran_with, mask)
        if attempt.ordered_why is not None:
            yield "ordered", explain_why(attempt.ordered_why, job, session)
        for directory in attempt.captures:
            yield "evidence", outside(directory, 4096)
    for edge in session.links.upstream.get(job.name, ()):
        yield "waits for", outside(edge)
    from autoexp_tui.model.condition import walk  # a first paint needs none

    for condition in spec.start_conditions if not record.started else ():
        for part in walk(condition):
            for text in part.list_sources():
                yield "reads", outside(text, 4000)


def _format_values(values: Mapping[str, str], mask: MaskRules) -> str:
    pairs = (f"{outside(key)}={value}" for key, value in values.items())
    return "  ".join(mask_text(pair, mask) for pair in pairs)


def _describe_attempt(attempt: Attempt, now: float) -> str:
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


def format_gpus(gpu: GpuView, now: float) -> str:
    """`4 GPUs: 81 to 93 % busy, 62 GB of 80 GB, 1240 W`, and how old, when it is; the
    memory is that of the fullest one."""
    parts = []
    if busy := [one.busy_percent for one in gpu.gpus if one.busy_percent is not None]:
        low, high = round(min(busy)), round(max(busy))
        parts.append(f"{low} % busy" if low == high else f"{low} to {high} % busy")
    memory = [
        (one.used_mib, one.total_mib)
        for one in gpu.gpus
        if one.used_mib is not None and one.total_mib
    ]
    if memory:
        used, total = max(memory, key=lambda pair: pair[0] / pair[1])
        parts.append(f"{size(used * (1 << 20))} of {size(total * (1 << 20))}")
    if watts := [one.watts for one in gpu.gpus if one.watts is not None]:
        parts.append(f"{round(sum(watts))} W")
    if now - gpu.seen_at > _STALE_SECONDS:
        parts.append(f"{duration(now - gpu.seen_at)} ago")
    return f"{plural(len(gpu.gpus), 'GPU')}: {', '.join(parts) or 'they do not tell'}"


def format_idle(gpu: GpuView, now: float) -> str:
    """That the GPUs do nothing, and for how long; empty while they do something.

    A hint, and no more: nothing follows from GPUs that do nothing.
    """
    if now - gpu.seen_at > _STALE_SECONDS or gpu.idle_seconds < _IDLE_SECONDS:
        return ""
    whose = "its GPU has" if len(gpu.gpus) == 1 else "its GPUs have"
    return f"{whose} done nothing for {duration(gpu.idle_seconds)}"
