"""Pane 3: everything about one job, or about several, told as an answer to "why?".

What happened, what is alike, lost and waiting comes first; the rest (conditions,
attempts, parameters, paths) stands below, for those who enlarge the pane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.plan_findings import format_warning
from autoexp_tui.cockpit.spans import (
    Line,
    Span,
    join,
    line,
    outside,
    plain,
    render_pairs,
    wrap,
)
from autoexp_tui.cockpit.state.forecast import (
    NO_RATES,
    Rates,
    estimate_loss,
    find_checkpoint,
    find_cut,
    find_waiting,
    format_cut,
    format_lost_hours,
    has_nan,
)
from autoexp_tui.cockpit.state.parameters import (
    PlanWords,
    find_planned,
    find_value,
    is_value,
)
from autoexp_tui.cockpit.state.reasons import (
    WAITING,
    build_cause_key,
    describe_cause,
    describe_condition,
    describe_queue,
    explain_why,
    find_alike,
    find_common_reason,
    find_reason,
    find_wait_begin,
)
from autoexp_tui.cockpit.state.session import (
    BEGUN_LOOKS,
    ENDED_BADLY,
    JobView,
    Look,
    SessionView,
    count_looks,
    render_badge,
    render_counts,
)
from autoexp_tui.model.masking import MaskRules, mask_text, mask_words
from autoexp_tui.model.resubmission import can_come_back
from autoexp_tui.model.states import Result
from autoexp_tui.model.wording import CAUSES
from autoexp_tui.text.log_lines import RUN_URL
from autoexp_tui.text.spelling import (
    clock_time,
    count,
    duration,
    format_metric,
    format_pace,
    format_progress,
    plural,
)

if TYPE_CHECKING:
    from autoexp_tui.model.state import Ask, Attempt, ConditionStatus

_INDENT: Final = "   "
_UNSEEN: Final = Span("·", "waiting")
_MARKS: Final = {
    Result.PASS: Span("✓", "done"),
    Result.WAIT: Span("◌", "waiting"),
    Result.FAIL: Span("✗", "doomed"),
}
_ENDING: Final = {Result.FAIL: "can no longer happen", Result.WAIT: "no"}
"""How near a condition is to end a job: its own sentences are for waits."""
_MOST_JOBS: Final = 200
_NAME_CELLS: Final = (24, 10)
"""Of the names of facts at most, a longer one stands out of line; and at least, so that
values seldom move from one job to the next."""
_STALE_SECONDS: Final = 180.0
"""After which a sample of GPUs, of which there is one every half minute, is old."""
_IDLE: Final = 600.0
"""Seconds for which GPUs do nothing before that is worth a word."""
_STEPS: Final[Sequence[tuple[str, str, frozenset[Look]]]] = (
    ("A", "read and answer", frozenset({Look.ASKS})),
    ("S", "submit", frozenset({Look.PLANNED, Look.HELD})),
    ("X", "skip or waive", frozenset({*WAITING, Look.PLANNED} - {Look.RETRYING})),
    ("K", "kill", BEGUN_LOOKS | {Look.QUEUED, Look.RETRYING}),
    ("0", "its log", BEGUN_LOOKS | ENDED_BADLY | {Look.DONE}),
    ("m", "mark all alike", ENDED_BADLY),
)
"""What to do now: key, words, of jobs that look so."""


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


def explain_ask(name: str, ask: Ask, now: float, *, acts: bool) -> WhyText:
    """A question that is no job's: its lines, numbered, and since when it stands."""
    since = f"{clock_time(ask.asked_at, now)} ({duration(now - ask.asked_at)})"
    lines: list[Line] = [(Span(f" {outside(ask.prompt, 4000)}", "strong"),)]
    for number, text in enumerate(ask.lines, 1):
        lines.append((Span(f"{number:>5} ", "muted"), Span(outside(text, 2000))))
    lines.append((Span(f"{_INDENT}asks since {since}", "muted"),))
    key = (Span(f"{_INDENT}Next  ", "strong"), Span("A", "key"), Span(" answer"))
    return WhyText(f"{outside(name)} asks", tuple(lines), key if acts else ())


NO_JOB_SHOWN: Final = WhyText("", ((Span(" No job is shown.", "muted"),),))
"""The pane when there is no row under the cursor."""


def find_unbegun_search(session: SessionView) -> str:
    """What a search or a research that nobody has begun is; empty: the plan has none,
    or it runs."""
    plan = session.snapshot.plan
    if plan is None or session.snapshot.engine.role != "plan":
        return ""
    if plan.research:
        agents = plan.research.get("agent") or "?"
        named = [agents] if isinstance(agents, str) else agents
        names = outside(", ".join(map(str, named)), 40)  # type: ignore[call-overload]
        return f"a research: the agent {names} decides what is tried"
    if not plan.tree:
        return ""
    depths, beam, ideas = (
        outside(plan.tree.get(key, "?"), 20)
        for key in ("max_depth", "beam_width", "ideas_per_node")
    )
    return f"a search: at most {depths} depths, beam {beam}, {ideas} ideas a node"


def explain_plan(session: SessionView, come_back: str) -> WhyText:
    """The first-run sentence: nothing was submitted yet."""
    plan = session.snapshot.plan
    text = plan.ui.get("first_run") if plan else None
    about = outside(text) if isinstance(text, str) and text.strip() else ""
    if not about:
        stages = plural(len(session.links.stages), "stage")
        jobs = f"{plural(len(session.jobs), 'job')} in {stages}" * bool(session.jobs)
        has = " and ".join(filter(None, (jobs, find_unbegun_search(session))))
        about = f"This plan has {has or 'no jobs'}."
    keys = (("S", " starts it, "), ("?", " lists the keys, "), ("q", " leaves."))
    parts = [part for key, text in keys for part in (Span(key, "key"), Span(text))]
    lines = [line(Span(f" Nothing is running. {about} "), *parts)]
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
    lines = (
        _render_verdict(job, session),
        *_render_alike(job, session, words),
        *_render_risks(job, session, usual),
        *_render_conditions(job, session),
        *_render_warnings(job, session),
        *_render_behind([job], session),
        (),
        *render_pairs(_list_facts(job, session, words), _INDENT, *_NAME_CELLS, gap=" "),
    )
    shown = "   ".join(filter(None, title))
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
    attempt, now, since = job.attempt, session.now, find_wait_begin(job)
    ran = job.measure_run(now) if job.record.ended else None
    when = f" {clock_time(since, now)}" if since else ""
    after = f" after {duration(ran)}" if ran is not None else ""
    known: dict[str, object] = {}
    if attempt is not None and job.look in ENDED_BADLY | BEGUN_LOOKS:
        known = {"exit": attempt.exit_code, "signal": attempt.signal}
        known |= {"node": attempt.node, "partition": attempt.partition}
    where = "; ".join(f"{name} {outside(one)}" for name, one in known.items() if one)
    return line(
        Span(" "),
        render_badge(job.look),
        Span(f"{when}{after}: ", "strong"),
        Span(_describe_verdict(job, session)),
        Span(f" ({where})" if where else "", "muted"),
    )


def _describe_verdict(job: JobView, session: SessionView) -> str:
    record = job.record
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
    speed = format_pace(job.rate) if job.rate and job.look is Look.RUNNING else ""
    return ", ".join(filter(None, (at, speed, find_reason(job, session))))


def _render_alike(
    job: JobView, session: SessionView, words: PlanWords
) -> Iterator[Line]:
    """The last words of a job that ended badly, and how many ended like it."""
    if job.look not in ENDED_BADLY:
        return
    if job.attempt and job.attempt.evidence:
        yield (Span(f"{_INDENT}{outside(job.attempt.evidence)}", "failed"),)
    alike = find_alike(job, session)
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
        saved, hours = find_checkpoint(job), format_lost_hours(loss.gpu_hours)
        at = f"Last checkpoint at step {saved}"
        known = at if saved is not None else "No checkpoint known"
        more = f", {hours}" if hours else ""
        yield (Span(f"{_INDENT}{known}; {verb}: {plural(loss.steps, 'step')}{more}."),)
    cut = find_cut(job, now, usual)
    if cut is not None:
        limit = duration(job.record.spec.resources.time_limit_seconds or 0.0)
        pace = format_pace(cut.rate)
        yield (Span(f"{_INDENT}! {format_cut(cut)} ({limit}; {pace}).", "warning"),)
    gpu = job.live.gpu
    is_fresh = gpu is not None and now - gpu.seen_at <= _STALE_SECONDS
    if gpu and is_fresh and job.look in BEGUN_LOOKS and gpu.idle_seconds >= _IDLE:
        idle = f"Its GPUs have done nothing for {duration(gpu.idle_seconds)}."
        yield (Span(f"{_INDENT}{idle}", "warning"),)
    if ask is not None and ask.approved is None:
        yield line(Span(f"{_INDENT}Asks: ", "asks"), Span(outside(ask.prompt, 2000)))


def _render_conditions(job: JobView, session: SessionView) -> Iterator[Line]:
    """Conditions that still count: those to start, those that end the job."""
    now, record, spec = session.now, job.record, job.record.spec
    if record.ended and job.look is not Look.SKIPPED:
        return
    waits = not record.started or job.look is Look.SKIPPED
    for index, one in enumerate(spec.start_conditions if waits else ()):
        status, mark, since = job.find_status(index), _UNSEEN, ""
        if status is not None:
            mark = _MARKS[Result.PASS if status.waived else status.result]
        if status is not None and status.since:
            span = duration(now - status.since)
            since = f"  since {clock_time(status.since, now)} ({span})"
        optional = "" if one.blocking else " (only shown)"
        told = _describe_status(job, status, session)
        text = f" {describe_condition(one, session)}{optional}: {told}"
        yield line(Span(_INDENT), mark, Span(text), Span(since, "muted"))
    for one, status in zip_longest(spec.cancel_conditions, record.cancel):
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


def _render_warnings(job: JobView, session: SessionView) -> Iterator[Line]:
    for entry in job.warned:
        text = f"{_INDENT}! {explain_why(entry.why, job, session)}"
        seen = f"  {outside(entry.evidence)}" if entry.evidence else ""
        yield line(Span(text, "warning"), Span(seen, "muted"))


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
        saved = max(find_checkpoint(job) or 0 for job in jobs)
        start = f"from {count(saved)}, " if saved else ""
        start = "from the beginning, " if any(map(has_nan, jobs)) else start
        steps["R"] = f"resubmit ({start}options)"
    steps |= {key: text for key, text, where in _STEPS if looks & where}
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
    record, spec, mask = job.record, job.record.spec, session.mask
    telling = {entry.key for entry in words.parameters}
    keys = sorted(filter(is_value, spec.parameters), key=lambda key: key not in telling)
    yield "stage", f"{outside(spec.stage) or '-'}   family {spec.family or '-'}"
    values = {key: find_value(spec, words.find(key)) for key in keys}
    yield "values", _format_values(values, mask) or "-"
    if url := record.metadata.get(RUN_URL):
        yield RUN_URL, outside(url, 2000)
    if spec.planned is not None:
        planned = {key: find_planned(spec, words.find(key)) for key in spec.own_values}
        yield "planned", _format_values(planned, mask)
    yield "command", outside(" ".join(mask_words(spec.command, mask)), 2000)
    if record.origin:
        yield "joined", outside(f"asked for by {record.origin}")
        if (part := session.snapshot.parts.get("research")) is not None:
            from autoexp_tui.cockpit.render.research_rows import (  # seldom
                list_job_purpose,
            )

            about = list_job_purpose(part, session, record.asked_by)
            for label, text in filter(itemgetter(1), about):
                yield label.lower(), outside(mask_text(text, mask), 4000)
    if spec.place == "beside":
        yield "runs", "on the engine's host, beside the executor's jobs"
    yield "output", outside(spec.output_dir)
    yield "log", outside(spec.log_path_current)
    for key, text in record.metadata.items():
        if key != RUN_URL:
            yield outside(key), outside(text)
    for name, value in job.list_metrics().items():
        yield outside(name), format_metric(value)
    for attempt in reversed(record.attempts):
        yield f"attempt {attempt.number}", _describe_attempt(attempt, session.now)
        own = record.values_of(attempt)
        changed = [key for key in record.list_changed_keys if key in own]
        if changed:
            ran_with = {key: words.find(key).spell(own[key]) for key in changed}
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
    began, ended = attempt.began_at, attempt.ended_at
    inside = f" in {outside(attempt.partition)}" if attempt.partition else ""
    parts = [
        outside(attempt.executor_id) or "not yet taken",
        f"began {clock_time(began, now)}" if began is not None else "",
        f"on {outside(attempt.node)}{inside}" if attempt.node else "",
        attempt.outcome.value.lower() if attempt.outcome is not None else "",
        CAUSES[attempt.cause] if attempt.cause else "",
        f"ended {clock_time(ended, now)}" if ended is not None else "",
        outside(attempt.evidence),
    ]
    return ", ".join(filter(None, parts))
