"""A research loop as lines: who asks, what the agent saw and answered, runs, the list,
hypotheses, warnings and budgets. Pure functions of the snapshot's `Research`.

What all rows need is worked out once for a snapshot (`build_outline`); a row then costs
the same whether ten runs are there or ten thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    line,
    outside,
    render_bar,
    render_pairs,
    spread,
    wrap,
)
from autoexp_tui.model.agents import Outcome
from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.state import VOID
from autoexp_tui.model.wording import sentence, short
from autoexp_tui.research.budgets import (
    Use,
    find_refusal,
    measure_role_uses,
    measure_uses,
)
from autoexp_tui.research.consultations import DECISION
from autoexp_tui.research.decide import ResearchPolicy
from autoexp_tui.research.items import choose_next
from autoexp_tui.research.jobs import find_call_dir
from autoexp_tui.research.options import ROLES
from autoexp_tui.research.ports import View
from autoexp_tui.research.run_texts import (
    count_free_gpus,
    describe_failed,
    describe_running,
    list_purpose,
)
from autoexp_tui.research.state import Consultation, Item, Research, Run, Trigger
from autoexp_tui.text.spelling import (
    clock_time,
    count,
    duration,
    format_metric,
    format_progress,
    join_some,
    plural,
)

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.agents import Limits
    from autoexp_tui.model.state import Ask
    from autoexp_tui.model.states import Why

State: TypeAlias = tuple[str, str, Role]
"""Glyph, word and role."""
Pairs: TypeAlias = Iterator[tuple[str, str]]
Size: TypeAlias = int | None
_LONG: Final = 4000
_NEW: Final = 3
"""Answered consultations that stand above; older ones are last."""
_KIND: Final = 6
_STATE: Final = 11
_NUMBER: Final = 7
SAW: Final = "Saw"
PROMPT: Final = "prompt.md"
"""What an agent saw, in the directory of its call."""
_PENDING: Final[State] = ("◌", "waiting", "waiting")
_ENDS: Final[Mapping[str | bool | None, State]] = {
    "completed": ("✓", "done", "done"),
    True: ("✓", "met", "done"),
    False: ("✗", "not met", "failed"),
    "failed": ("✗", "failed", "failed"),
    "killed": ("–", "killed", "skipped"),
    "cancelled": ("×", "cancelled", "skipped"),
}
"""By outcome; of a run that completed, by what was expected of it."""
_HYPOTHESES: Final[Mapping[str, State]] = {
    "open": ("◌", "open", "waiting"),
    "confirmed": ("✓", "confirmed", "done"),
    "rejected": ("✗", "rejected", "failed"),
}
_SEVERITIES: Final[Mapping[str, Role]] = {
    "high": "failed",
    "medium": "warning",
    "low": "muted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What the rows of a research loop have in common."""

    research: Research
    session: SessionView
    keys: tuple[str, ...] = ()
    """`kind:name` of each row, in their order."""
    heads: frozenset[str] = frozenset()
    """Those that begin a kind."""
    waits: Mapping[str, Why] = field(default_factory=dict)
    """Why each item of the list does not begin."""
    uses: tuple[Use, ...] = ()
    """Budgets of all that have a limit."""


class _Row(NamedTuple):
    state: State
    name: str
    what: str
    value: str = ""
    why: str = ""


def build_outline(research: Research, session: SessionView) -> Outline:
    """Costs what the research holds."""
    parts = [*_list_parts(research, session)]
    keys = [[f"{kind}:{name}" for name in names] for kind, names in parts]
    jobs = {
        job.name: job.record
        for run in research.list_live()
        for job in session.list_jobs(run.jobs)
    }
    now = session.now
    lived = now - session.snapshot.absent
    return Outline(
        research=research,
        session=session,
        keys=tuple(key for part in keys for key in part),
        heads=frozenset(part[0] for part in keys if part),
        waits=_find_waits(research, session),
        uses=measure_uses(research, jobs, now, lived),
    )


def find_asks(session: SessionView) -> Mapping[str, Ask]:
    """The questions of the research that stand open."""
    own, known = ResearchPolicy.asks, session.asks.items()
    return {name: ask for name, ask in known if name.partition("/")[0] in own}


def _list_parts(
    research: Research, session: SessionView
) -> Iterator[tuple[str, Sequence[str]]]:
    """Kinds of rows, what is new or under way first; and the names of each."""
    for name, ask in find_asks(session).items():
        yield "ask", (name,)
        yield "line", [f"{at}:{name}" for at in range(len(ask.lines))]
    calls = [*reversed(research.consultations)]
    newest = [one for at, one in enumerate(calls) if at < _NEW or one in research.open]
    yield "call", newest
    yield "goal", ("",)
    yield "run", research.live
    yield "item", [one.id for one in research.items] or ("",)
    yield "hypothesis", [*research.hypotheses]
    warned = [*reversed(research.warnings.values())]
    warned.sort(key=lambda one: bool(one.acknowledged_by))
    yield "warning", [one.key for one in warned]
    live = frozenset(research.live)
    yield "ended", [name for name in reversed(research.runs) if name not in live]
    shown = frozenset(newest)
    yield "earlier", [name for name in calls if name not in shown]


def _find_waits(research: Research, session: SessionView) -> Mapping[str, Why]:
    """By the rule by which items begin. All jobs that take slots are runs'."""
    if (paused := session.snapshot.paused) is not None:
        return {item.id: paused for item in research.items}
    plan, engine = session.snapshot.plan, session.snapshot.engine
    limits = (plan.executor.max_parallel if plan else None, engine.slots)
    slots = min(filter(None, limits), default=None)
    jobs = [job for run in research.list_live() for job in run.jobs]
    busy = len(jobs) - sum(job.record.ended for job in session.list_jobs(jobs))
    return choose_next(research, slots, busy).waits


def find_main_job(outline: Outline, run: Run) -> JobView | None:
    """Of a run the first job that has begun and not ended, else the last that began."""
    jobs = outline.session.list_jobs(run.jobs)
    begun = [job for job in jobs if job.attempt is not None]
    left = (job for job in begun if not job.record.ended)
    return next(left, next(reversed(begun or jobs), None))


def find_call(outline: Outline, key: str) -> Consultation | None:
    """The consultation that a row is of, or whose code or answer it shows."""
    (kind, _, name), research = key.partition(":"), outline.research
    run = find_run(outline, key)
    item = run.item if run else research.find_item(name) if kind == "item" else None
    if item is not None:
        name = item.code_ref or item.consultation
    return research.consultations.get(name.rpartition("/")[2])


def find_run(outline: Outline, key: str) -> Run | None:
    kind, _, name = key.partition(":")
    return outline.research.runs.get(name) if kind in ("run", "ended") else None


def find_files(outline: Outline, key: str) -> str:
    """Where the files of a row are: of its call, or of its run's newest job."""
    kind, research = key.partition(":")[0], outline.research
    run, call = find_run(outline, key), find_call(outline, key)
    if run is not None and (job := find_main_job(outline, run)) is not None:
        return job.record.spec.output_dir
    if call is not None and kind != "item":
        return find_call_dir(research.directory, call)
    return research.directory


# Rows


def build_head(outline: Outline, cells: int) -> Sequence[Line]:
    """The best so far, and the names of the columns."""
    name, what, why = _share(cells - 2)
    titles = (fit("STATE", _STATE), fit("ID", name), fit("WHAT", what))
    names = f"  {' ' * _KIND}{' '.join(titles)}  RESULT  {fit('WHY', why)}"
    head = line(Span(names, "muted"))
    return _build_best(outline, cells), cut(head, cells)


def _build_best(outline: Outline, cells: int) -> Line:
    """` best 2.31 run_5  loss, lower is better, target 2; 3 rounds without a gain`."""
    research, target = outline.research, outline.research.options.objective.target
    best = f"{format_metric(research.best)} {outside(research.best_run, 40)}"
    about = f"  {outside(research.metric)}, "
    about += f"{'higher' if research.mode == 'max' else 'lower'} is better"
    about += f", target {format_metric(target)}" if target is not None else ""
    if rounds := research.rounds_since_improvement:
        about += f"; {plural(rounds, 'round')} without a gain"
    told = (Span(" best ", "muted"), Span(best, "strong"), Span(about, "muted"))
    return cut(told, cells)


def describe_progress(outline: Outline) -> Line:
    """What there is, for the title of the list."""
    research = outline.research
    if not (research.directory or research.stopped):
        return line("it is being opened")
    parts = [f"ended: {outside(short(research.stopped))}"] if research.stopped else []
    ended, calls = len(research.runs) - len(research.live), research.total_calls
    numbers = ((len(research.live), "run"), (len(research.items), "listed"))
    for number, word in (*numbers, (ended, "ended")):
        parts += [f"{number} {word}"] if number else []
    return line(", ".join([*parts, *[plural(calls, "call")] * bool(calls)]))


def _share(cells: int) -> tuple[int, int, int]:
    """Cells of name, what and why, of a line without its gutter."""
    name = max(8, min(16, cells // 7))
    left = cells - _KIND - _STATE - name - _NUMBER - 5
    what = max(8, min(64, left // 2))
    return name, what, max(0, left - what)


def build_row(outline: Outline, key: str, cells: int) -> Line:
    """One line of the list, gutter left out. Of what is empty, the words before it
    have the room."""
    kind, _, name = key.partition(":")
    label, build = _ROWS[kind]
    row, mask = build(outline, name), outline.session.mask
    row = row._replace(what=mask_text(row.what, mask), why=mask_text(row.why, mask))
    glyph, word, role = row.state
    wide, what, why = _share(cells)
    what += 0 if row.value else _NUMBER + 1
    what += 0 if row.value or row.why else why + 2
    shown = line(
        Span(fit(label if key in outline.heads else "", _KIND), "title"),
        Span(fit(f"{glyph} {word}", _STATE), role),
        Span(f" {fit(row.name, wide)} ", "muted"),
        Span(fit(row.what, what), "muted" if role == "skipped" else "text"),
        Span(f" {fit(row.value, _NUMBER, right=True)}" * bool(row.value), "strong"),
        Span(
            f"  {fit(row.why, why)}" * bool(row.why),
            "muted" if role == "done" else role,
        ),
    )
    return cut(shown, cells)


def _build_ask_row(outline: Outline, name: str) -> _Row:
    ask = outline.session.asks[name]
    since = f"asks since {clock_time(ask.asked_at, outline.session.now)}"
    state: State = ("?", "asks", "asks")
    return _Row(state, outside(name.rpartition("/")[2]), outside(ask.prompt), why=since)


def _build_line_row(outline: Outline, name: str) -> _Row:
    place, _, ask = name.partition(":")
    text = outline.session.asks[ask].lines[int(place)]
    is_void = text.startswith(VOID)
    state: State = ("–", "void", "skipped") if is_void else ("?", "line", "asks")
    return _Row(state, str(int(place) + 1), outside(text.removeprefix(VOID), _LONG))


def _build_call_row(outline: Outline, name: str) -> _Row:
    one = outline.research.consultations[name]
    state, why = _find_call_state(outline, one)
    return _Row(
        state,
        one.id,
        outside(_describe_purpose(outline.research, one)),
        why=outside(why),
    )


def _describe_purpose(research: Research, one: Consultation) -> str:
    return (
        f"fix of {one.run}" if one.run else _describe_triggers(research, one.triggers)
    )


def _find_call_state(outline: Outline, one: Consultation) -> tuple[State, str]:
    """How a consultation stands, and what became of it."""
    if one.ended_lived is None:
        job = outline.session.find_job(one.job)
        spent = duration(outline.session.now - one.opened_at)
        if one.ending:
            return ("◂", "ending", "running"), f"ended by {one.ending}"
        if job is None:
            return _PENDING, f"for {spent}"
        return (job.look.glyph, str(job.look), job.look.role), f"for {spent}"
    if one.outcome is not Outcome.OK:
        word = str(one.outcome).replace("_", " ")
        return ("✗", word, "failed"), one.problem
    told = [
        f"{len(lines)} {word}"
        for word in ("applied", "refused", "void")
        if (lines := [part for did in one.decided for part in getattr(did, word)])
    ]
    if f"{DECISION}/{one.id}" in outline.session.asks:
        more = max(1, len(one.asked))  # of a fix it is the fix
        return ("?", "asks", "asks"), ", ".join([*told, f"{more} asked"])
    if one.fix is not None and not one.decided:
        told = [one.fix.fix_applied or "it gave up"]
    return ("✓", "answered", "done"), ", ".join(told) or "nothing to do"


def _describe_triggers(research: Research, triggers: Iterable[Trigger]) -> str:
    """`run finished: run_5, run_6; heartbeat`; of a warning, what it says."""
    kinds: dict[str, list[str]] = {}
    for one in triggers:
        warned = research.warnings.get(one.about)
        about = short(warned.why) if warned else one.about
        kinds.setdefault(one.kind.replace("_", " "), []).extend(
            [about] if about else []
        )
    told = (f"{kind}: {join_some(about, 3)}" for kind, about in kinds.items())
    return "; ".join(text.rstrip(": ") for text in told)


def _build_goal_row(outline: Outline, _: str) -> _Row:
    research = outline.research
    word = "ended" if research.stopped else "goal"
    return _Row(("●", word, "strong"), "", outside(research.options.goal))


def _build_run_row(outline: Outline, name: str) -> _Row:
    run = outline.research.runs[name]
    what, job = _describe_item(outline, run.item), find_main_job(outline, run)
    if run.ended is None:
        state = (job.look.glyph, str(job.look), job.look.role) if job else _PENDING
        result = outline.session.find_result(job) if job else None
        told = _describe_run(outline, run, job)
        return _Row(state, outside(name), what, format_metric(result), told)
    end = run.ended
    is_judged = end.outcome == "completed" and end.met is not None
    glyph, word, role = _ENDS[end.met if is_judged else end.outcome]
    state = (glyph, outside(end.mechanical, 20) or word, role)
    why = run.kill_shown or end.problem or end.shown
    if name in outline.research.to_fix:
        why = f"waits for the fixer: {why}"
    if run.fix_relaunch:
        why = f"fixed as {run.fix_relaunch}: {run.fix_applied}"
    return _Row(state, outside(name), what, format_metric(end.result), outside(why))


def _describe_run(outline: Outline, run: Run, job: JobView | None) -> str:
    """`23 min, 1500/5000; kill: loss > 4 after step 1000`."""
    if job is None:
        return "its jobs have not joined yet"
    spent = job.measure_run(outline.session.now)
    told = [duration(spent)] if spent is not None else []
    told += [format_progress(job.step, job.total)] if job.step is not None else []
    text = ", ".join(told)
    if run.kill_shown:
        return f"{text}; is ended: {outside(run.kill_shown)}"
    criteria = run.item.kill_criteria
    return f"{text}; ends if {outside(criteria)}" if criteria else text


def _build_item_row(outline: Outline, name: str) -> _Row:
    research = outline.research
    if not name:
        return _Row(("◌", "empty", "waiting"), "", "nothing is left to start")
    place = next(at for at, one in enumerate(research.items) if one.id == name)
    item = research.items[place]
    reason = outline.waits.get(name)
    why = outside(short(reason)) if reason else "begins now"
    gpus = f"{item.wanted_gpus} GPU" if research.has_gpus else ""
    state: State = ("◌", f"{place + 1} waits", "waiting")
    state = state if reason else ("▸", f"{place + 1} next", "running")
    by = f"  by {outside(item.by, 20)}" if item.by else ""
    what = f"{_describe_item(outline, item)}{by}"
    return _Row(state, outside(name), what, gpus, why)


def _describe_item(outline: Outline, item: Item) -> str:
    """What it tries, in the words that say most."""
    given = " ".join(item.overrides) or item.config_ref
    known = outline.research.hypotheses.get(item.hypothesis)
    about = item.note or (known.description if known else item.hypothesis)
    words = "  ".join(filter(None, (given, about)))
    return outside(words)


def _build_hypothesis_row(outline: Outline, name: str) -> _Row:
    one = outline.research.hypotheses[name]
    failed = one.consecutive_failures
    told = [f"{plural(failed, 'failure')} in a row"] if failed else []
    told += [plural(len(one.runs), "run")] if one.runs else ["no run yet"]
    told += one.evidence[-1:]
    what, why = outside(one.description), outside("; ".join(told))
    return _Row(_HYPOTHESES[one.status], outside(name), what, why=why)


def _build_warning_row(outline: Outline, key: str) -> _Row:
    one = outline.research.warnings[key]
    told = outside(sentence(one.why, outline.session.now), _LONG)
    if one.acknowledged_by:
        return _Row(("✓", "seen", "skipped"), one.severity, told)
    return _Row(("!", one.severity, _SEVERITIES[one.severity]), "", told)


_ROWS: Final[Mapping[str, tuple[str, Callable[[Outline, str], _Row]]]] = {
    "ask": ("ASKS", _build_ask_row),
    "line": ("", _build_line_row),
    "call": ("AGENT", _build_call_row),
    "goal": ("GOAL", _build_goal_row),
    "run": ("RUNS", _build_run_row),
    "item": ("LIST", _build_item_row),
    "hypothesis": ("IDEAS", _build_hypothesis_row),
    "warning": ("WARN", _build_warning_row),
    "ended": ("ENDED", _build_run_row),
    "earlier": ("AGENT", _build_call_row),
}


# What is so now


def build_now(outline: Outline, cells: int, rows: int) -> Sequence[Line]:
    """What the agent is doing, or waits for; where there is room, the budgets."""
    told = outside(describe_agent(outline), _LONG)
    role: Role = "warning" if outline.research.agents_wait else "text"
    of_roles = (measure_role_uses(outline.research, one) for one in ROLES)
    fullest = sorted(chain(outline.uses, *of_roles), key=lambda use: use.left)
    if rows <= 1:
        right = _render_use(fullest[0], 0, 8) if fullest else ()
        return [spread(line(Span(f" {told}", role)), right, cells)]
    first = wrap(line(Span(f" {told}", role)), cells, " ")[: rows - 1]
    widest = max((len(_name_use(use)) for use in fullest), default=0)
    bars = (_render_use(use, max(9, widest), 24) for use in fullest)
    return [cut(one, cells) for one in [*first, *islice(bars, rows - len(first))]]


def _name_use(use: Use) -> str:
    """`time`, `fixer calls`."""
    return " ".join(filter(None, (use.role, use.words["budget"])))


def _render_use(use: Use, widest: int, cells: int) -> Line:
    """A name in `widest` cells at least, a bar of `cells`, and the numbers."""
    words = use.words
    role: Role = "warning" if use.left < 0.25 else "muted"
    return line(
        Span(f" {_name_use(use):<{widest}} ", role),
        *render_bar(1 - use.left, cells),
        Span(f" {words['spent']} of {words['limit']}", role),
    )


def describe_agent(outline: Outline) -> str:
    """Whether an agent is called, and why not: until when, and what for."""
    research, now = outline.research, outline.session.now
    if research.stopped is not None:
        return f"ended: {sentence(research.stopped, now)}"
    if research.budget_reached is not None:
        return sentence(research.budget_reached, now)
    if research.agents_wait is not None:
        if research.is_hopeless:
            problem = research.agents_wait.arg("problem")
            return f"no agent is called before you have one (C): {problem}"
        at = clock_time(research.resume_at, now)
        left = duration(research.resume_at - now)
        reason = sentence(research.agents_wait, now)
        return f"no agent is called before {at}, in {left}: {reason}"
    calls = [one for role in ROLES if (one := research.find_call(role)) is not None]
    if calls:
        told = (f"{one.id} ({_describe_purpose(research, one)})" for one in calls)
        return f"an agent is called: {', '.join(told)}"
    refusal = find_refusal(research, "research", outline.uses)
    if research.triggers and refusal is not None:
        return f"no agent is called: {sentence(refusal, now)}"
    if research.triggers:
        return f"the next call is for {_describe_triggers(research, research.triggers)}"
    if asks := find_asks(outline.session):
        return f"waits for you: {plural(len(asks), 'question')}, which A answers"
    since = now - outline.session.snapshot.absent - research.last_call_lived
    left = duration(max(0.0, research.options.heartbeat_seconds - since))
    return f"no call is due; the heartbeat comes in {left}"


# All of a row


def build_detail(outline: Outline, key: str, size: Size, cells: int) -> Sequence[Line]:
    """All that is known of a row; `size`: bytes of what its call saw, where known."""
    kind, _, name = key.partition(":")
    row = _ROWS[kind][1](outline, name)
    glyph, word, role = row.state
    why = row.why if kind in ("run", "call", "earlier") else ""
    mask = outline.session.mask
    known = "" if size is None else f" ({count(size)} bytes)"
    told = mask_text("  ".join(filter(None, (row.name, why))), mask)
    lines = [line(Span(f"{glyph} {word}", role), f"  {told}" if told else "")]
    cleaned = (
        (label, outside(mask_text(text, mask) + known * (label == SAW), _LONG))
        for label, text in _PAIRS[kind](outline, name)
        if text
    )
    lines += render_pairs(cleaned, "", 10, 10)
    return [part for one in lines for part in wrap(one, cells, " " * 12)]


def _list_each(label: str, texts: Iterable[str]) -> Pairs:
    """A line for each text, the first with the label."""
    for text in texts:
        yield label, text
        label = ""


def _list_texts(rows: Iterable[str]) -> Pairs:
    """As the agent is told it: `Note: what it is for`."""
    for row in rows:
        label, colon, rest = row.strip().partition(": ")
        label = "Ends if" if label == "Kill criteria" else label
        yield (label, rest) if colon else ("", row.strip())


def _list_ask(outline: Outline, name: str) -> Pairs:
    name = name.partition(":")[2] or name  # of a line the number stands before it
    ask: Ask = outline.session.asks[name]
    yield "Asks", ask.prompt
    yield from ((str(at), text) for at, text in enumerate(ask.lines, 1))
    yield "Next", "A answers (space drops a line), X refuses all with a reason"
    if call := outline.research.consultations.get(name.rpartition("/")[2]):
        yield from _list_answer(call)


def _list_call(outline: Outline, name: str) -> Pairs:
    """Why it woke, what it saw, what it answered, and what became of that."""
    research, now = outline.research, outline.session.now
    one = research.consultations[name]
    told = (
        (clock_time(by.at, now), _describe_triggers(research, [by]))
        for by in one.triggers
    )
    yield from _list_each("Woke by", map(" ".join, told))
    yield "Fixes", one.run
    if one.ended_lived is None and (limits := _find_limits(outline, one)):
        wall, idle = map(duration, (limits.wall_seconds, limits.idle_seconds))
        yield "Ends", f"when it has taken {wall}, or told nothing for {idle}"
    if one.prompt_sha256:
        yield SAW, f"{find_call_dir(research.directory, one)}/{PROMPT}"
    if one.outcome is not None:
        yield "Outcome", f"{str(one.outcome).replace('_', ' ')}  {one.problem}".rstrip()
    if one.usage is not None:
        tokens = one.usage.input_tokens + one.usage.output_tokens
        cost = f", cost {one.cost:g}" if one.cost is not None else ""
        yield "Used", f"{count(tokens)} tokens{cost}"
    yield from _list_answer(one)
    yield from _list_each("Asked", (f"{it.kind}: {it.text}" for it in one.asked))


def _find_limits(outline: Outline, one: Consultation) -> Limits | None:
    """Of the agent that is called first; None: no plan is known."""
    options, plan = outline.research.options, outline.session.snapshot.plan
    names = options.agent if one.role == "research" else options.fixer.agent
    known = plan.agents if plan else {}
    return next((known[name].limits for name in names if name in known), None)


def _list_answer(one: Consultation) -> Pairs:
    """What was answered, and what was done about it."""
    if one.answer is not None:
        yield "Reflects", one.answer.reflection
        yield "Reasons", one.answer.reasoning
        yield from _list_each("Left out", one.answer.left_out)
    if one.fix is not None:
        yield "Fix", f"{one.fix.fix_applied}  {' '.join(one.fix.overrides)}".rstrip()
    if one.code is not None:
        told = f"{one.code.commit[:12]}, {plural(one.code.files, 'file')} (d)"
        yield from _list_each("Code", (told, *one.code.diffstat.splitlines()))
    for did in one.decided:
        yield from _list_each("Applied", did.applied)
        yield from _list_each("Refused", did.refused)
        yield from _list_each("Void", did.void)
        yield "By", ": ".join(filter(None, (did.by, did.reason)))


def _list_goal(outline: Outline, _: str) -> Pairs:
    research, now = outline.research, outline.session.now
    yield "Ended", sentence(research.stopped, now) if research.stopped else ""
    yield "Goal", research.options.goal
    yield "Reflects", research.reflection
    unread = len(research.notes) - research.told_notes
    told = (f"{one.text}  {clock_time(one.at, now)} {one.by}" for one in research.notes)
    yield from _list_each("Told", told)
    yield "", f"{plural(unread, 'note')} not read yet" if unread else ""
    if research.has_gpus:
        yield "GPUs", f"{count_free_gpus(research)} of {research.gpus} free"
    yield "Files", research.directory


def _list_run(outline: Outline, name: str) -> Pairs:
    """A run as the agent is told of it, its criteria with the numbers of now."""
    run, session = outline.research.runs[name], outline.session
    jobs = session.list_jobs(run.jobs)
    view = View(
        research=outline.research,
        jobs={one.name: one.record for one in jobs},
        t=session.now,
        lived=session.now - session.snapshot.absent,
        mask=outline.session.mask,
    )
    if run.ended is None:
        live = {one.name: one.live for one in jobs if not one.record.ended}
        told = describe_running(run, view, live)
    else:
        told = describe_failed(run, view)
        yield "Ended", f"{clock_time(run.ended.at, session.now)} {run.ended.outcome}"
        yield "Result", f"{format_metric(run.ended.result)}  {run.ended.shown}".rstrip()
    yield from _list_texts(told.splitlines()[1:])
    yield "Ends if", run.item.kill_criteria if run.ended or not jobs else ""
    yield from _list_origin(run.item)
    yield "GPUs", str(run.gpus) if run.gpus else ""
    yield "Jobs", join_some(run.jobs, 8)


def _list_origin(item: Item) -> Pairs:
    """Where an item comes from."""
    yield "To beat", item.baseline_run
    yield "Code", f"of {item.code_ref} (d)" if item.code_ref else ""
    of = f"the answer {item.consultation}" if item.consultation else ""
    person = f"{item.by}: answers leave it where it is" if item.by else ""
    yield "From", ", ".join(filter(None, (of, person)))
    yield "Repeats", f"{item.fixes}, with a fix" if item.fixes else ""


def _list_item(outline: Outline, name: str) -> Pairs:
    research = outline.research
    item = research.find_item(name)
    if item is None:
        yield "Next", "I inserts an item, C consults the agent now"
        return
    reason = outline.waits.get(name)
    overtaken = research.overtaken.get(name)
    yield "Waits", sentence(reason, outline.session.now) if reason else ""
    yield "Overtaken", f"by {plural(overtaken, 'other')}" if overtaken else ""
    yield from list_purpose(item, research, outline.session.mask).items()
    yield "Ends if", item.kill_criteria
    yield "After", join_some(item.depends_on, 8)
    yield from _list_origin(item)
    yield "GPUs", str(item.wanted_gpus) if research.has_gpus else ""
    yield "Jobs", join_some([job.name for job in item.jobs], 8)


def _list_hypothesis(outline: Outline, name: str) -> Pairs:
    one = outline.research.hypotheses[name]
    yield "Says", one.description
    yield "Expects", one.expects
    failed = one.consecutive_failures
    yield "Failed", f"{failed} in a row" if failed else ""
    yield "Runs", join_some(one.runs[::-1], 12)
    yield from _list_each("Evidence", reversed(one.evidence))


def _list_warning(outline: Outline, key: str) -> Pairs:
    one, now = outline.research.warnings[key], outline.session.now
    yield "Warning", sentence(one.why, now)
    yield "Since", clock_time(one.raised_at, now)
    yield from _list_each("Evidence", one.evidence)
    seen = f"by {one.acknowledged_by}: no agent is told of it"
    yield "Seen", seen if one.acknowledged_by else "no: X acknowledges it"


_PAIRS: Final[Mapping[str, Callable[[Outline, str], Pairs]]] = {
    "ask": _list_ask,
    "line": _list_ask,
    "call": _list_call,
    "goal": _list_goal,
    "run": _list_run,
    "item": _list_item,
    "hypothesis": _list_hypothesis,
    "warning": _list_warning,
    "ended": _list_run,
    "earlier": _list_call,
}


def list_job_purpose(research: Research, session: SessionView, origin: str) -> Pairs:
    """What a job is for, by who asked for it: of a run's all that the agent is told, of
    a call what led to it."""
    kind, _, name = origin.partition(" ")
    outline, call = Outline(research=research, session=session), name.partition("_")[0]
    if kind == "item" and name in research.runs:
        yield from _list_run(outline, name)
    elif kind == "consultation" and call in research.consultations:
        yield (
            "Call",
            f"{call}: {_describe_purpose(research, research.consultations[call])}",
        )
