"""What there is to tell of each kind of thing that a research loop has: a row, and all
of it. Texts are as they are: who draws them cleans them and masks secrets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from autoexp_tui.cockpit.render.outline import (
    Pairs,
    State,
    describe_job,
    find_current_job,
    label_first,
)
from autoexp_tui.cockpit.spans import Role
from autoexp_tui.model.agents import Limits, Outcome
from autoexp_tui.model.state import VOID
from autoexp_tui.model.wording import sentence, short
from autoexp_tui.research.consultations import DECISION
from autoexp_tui.research.jobs import find_call_dir
from autoexp_tui.research.ports import View
from autoexp_tui.research.run_texts import (
    count_free_gpus,
    list_failed,
    list_purpose,
    list_running,
)
from autoexp_tui.research.state import (
    Consultation,
    Hypothesis,
    Item,
    Research,
    Run,
    Trigger,
    Warned,
)
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
    from autoexp_tui.model.states import Why

PROMPT: Final = "prompt.md"
"""What an agent saw, in the directory of its call."""
_ENDS: Final[Mapping[str | bool, State]] = {
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


class Row(NamedTuple):
    """What a line has room for, and all the rest."""

    state: State
    name: str
    what: str
    value: str = ""
    why: str = ""
    facts: Pairs = ()
    explains: bool = False
    """Whether the reason stands above the facts too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A research loop, and the session that it is of."""

    research: Research
    session: SessionView
    waits: Mapping[str, Why] = field(default_factory=dict)
    """Why each item of the list does not begin."""
    prompt_bytes: int | None = None
    """Of what the call saw that is told of; None: nobody looked."""

    def say(self, reason: Why | None) -> str:
        return sentence(reason, self.session.now) if reason is not None else ""

    def tell_time(self, t: float) -> str:
        return clock_time(t, self.session.now)

    def find_main_job(self, run: Run) -> JobView | None:
        return find_current_job(self.session.list_jobs(run.jobs))

    def find_place(self, one: Consultation) -> str:
        """The directory of a call."""
        return find_call_dir(self.research.directory, one)


# An open question, and each of its lines


def _build_ask_row(loop: Loop, name: str) -> Row:
    ask = loop.session.asks[name]
    since = f"asks since {loop.tell_time(ask.asked_at)}"
    facts, call = _list_ask(loop, name), name.rpartition("/")[2]
    return Row(("?", "asks", "asks"), call, ask.prompt, why=since, facts=facts)


def _build_line_row(loop: Loop, name: str) -> Row:
    place, _, ask = name.partition(":")
    text = loop.session.asks[ask].lines[int(place)]
    is_void = text.startswith(VOID)
    state: State = ("–", "void", "skipped") if is_void else ("?", "line", "asks")
    told = text.removeprefix(VOID)
    return Row(state, str(int(place) + 1), told, facts=_list_ask(loop, ask))


def _list_ask(loop: Loop, name: str) -> Pairs:
    ask = loop.session.asks[name]
    yield "Asks", ask.prompt
    yield from ((str(at), text) for at, text in enumerate(ask.lines, 1))
    yield "Next", "A answers (space drops a line), X refuses all with a reason"
    if call := loop.research.consultations.get(name.rpartition("/")[2]):
        yield from _list_answer(call)


# A call: why it woke, what it saw, what it answered, and what became of that


def _build_call_row(loop: Loop, name: str) -> Row:
    one = loop.research.consultations[name]
    state, why = _find_call_state(loop, one)
    what, facts = describe_purpose(loop.research, one), _list_call(loop, one)
    return Row(state, one.id, what, why=why, facts=facts, explains=True)


def describe_purpose(research: Research, one: Consultation) -> str:
    """Why an agent was called."""
    if one.run:
        return f"fix of {one.run}"
    return describe_triggers(research, one.triggers)


def describe_triggers(research: Research, triggers: Iterable[Trigger]) -> str:
    """`run finished: run_5, run_6; heartbeat`; of a warning, what it says."""
    kinds: defaultdict[str, list[str]] = defaultdict(list)
    for one in triggers:
        warned = research.warnings.get(one.about)
        kinds[one.kind].append(short(warned.why) if warned else one.about)
    told = (
        f"{kind.replace('_', ' ')}: {join_some([*filter(None, about)], 3)}"
        for kind, about in kinds.items()
    )
    return "; ".join(text.rstrip(": ") for text in told)


def _find_call_state(loop: Loop, one: Consultation) -> tuple[State, str]:
    """How a consultation stands, and what became of it."""
    if one.ended_lived is None and one.ending:
        return ("◂", "ending", "running"), f"ended by {one.ending}"
    if one.ended_lived is None:
        job = loop.session.find_job(one.job)
        has_answered = job is not None and job.record.ended
        reading: State = ("▸", "reading", "running")
        state = reading if has_answered else describe_job(job)
        return state, f"for {duration(loop.session.now - one.opened_at)}"
    if one.outcome is not Outcome.OK:
        return ("✗", str(one.outcome).replace("_", " "), "failed"), one.problem
    told = [
        f"{number} {word}"
        for word in ("applied", "refused", "void")
        if (number := sum(len(getattr(did, word)) for did in one.decided))
    ]
    if f"{DECISION}/{one.id}" in loop.session.asks:
        told.append(f"{max(1, len(one.asked))} asked")  # of a fix it is the fix
        return ("?", "asks", "asks"), ", ".join(told)
    if one.fix is not None and not one.decided:
        told = [one.fix.fix_applied or "it gave up"]
    return ("✓", "answered", "done"), ", ".join(told) or "nothing to do"


def _list_call(loop: Loop, one: Consultation) -> Pairs:
    told = (
        f"{loop.tell_time(by.at)} {describe_triggers(loop.research, [by])}"
        for by in one.triggers
    )
    yield from label_first("Woke by", told)
    yield "Fixes", one.run
    if one.ended_lived is None and (limits := _find_limits(loop, one)):
        wall, idle = map(duration, (limits.wall_seconds, limits.idle_seconds))
        yield "Ends", f"when it has taken {wall}, or told nothing for {idle}"
    if one.prompt_sha256:
        known = loop.prompt_bytes
        size = "" if known is None else f" ({count(known)} bytes)"
        yield "Saw", f"{loop.find_place(one)}/{PROMPT}{size}"
    if one.outcome is not None:
        yield "Outcome", f"{str(one.outcome).replace('_', ' ')}  {one.problem}".rstrip()
    if one.usage is not None:
        tokens = one.usage.input_tokens + one.usage.output_tokens
        cost = f", cost {one.cost:g}" if one.cost is not None else ""
        yield "Used", f"{count(tokens)} tokens{cost}"
    yield from _list_answer(one)
    yield from label_first("Asked", (f"{it.kind}: {it.text}" for it in one.asked))


def _find_limits(loop: Loop, one: Consultation) -> Limits | None:
    """Of the agent that is called first; None: no plan is known."""
    options, plan = loop.research.options, loop.session.snapshot.plan
    names = options.agent if one.role == "research" else options.fixer.agent
    known = plan.agents if plan else {}
    return next((known[name].limits for name in names if name in known), None)


def _list_answer(one: Consultation) -> Pairs:
    """What was answered, and what was done about it."""
    if one.answer is not None:
        yield "Reflects", one.answer.reflection
        yield "Reasons", one.answer.reasoning
        yield from label_first("Left out", one.answer.left_out)
    if one.fix is not None:
        yield "Fix", f"{one.fix.fix_applied}  {' '.join(one.fix.overrides)}".rstrip()
    if one.code is not None:
        told = f"{one.code.commit[:12]}, {plural(one.code.files, 'file')} (d)"
        yield from label_first("Code", (told, *one.code.diffstat.splitlines()))
    for did in one.decided:
        yield from label_first("Applied", did.applied)
        yield from label_first("Refused", did.refused)
        yield from label_first("Void", did.void)
        yield "By", ": ".join(filter(None, (did.by, did.reason)))


# The goal


def _build_goal_row(loop: Loop, _: str) -> Row:
    state: State = ("●", "ended" if loop.research.stopped else "goal", "strong")
    return Row(state, "", loop.research.options.goal, facts=_list_goal(loop))


def _list_goal(loop: Loop) -> Pairs:
    research = loop.research
    yield "Ended", loop.say(research.stopped)
    yield "Goal", research.options.goal
    yield "Reflects", research.reflection
    unread = len(research.notes) - research.told_notes
    notes = research.notes
    told = (f"{one.text}  {loop.tell_time(one.at)} {one.by}" for one in notes)
    yield from label_first("Told", told)
    yield "", f"{plural(unread, 'note')} not read yet" if unread else ""
    if research.has_gpus:
        yield "GPUs", f"{count_free_gpus(research)} of {research.gpus} free"
    yield "Files", research.directory


# A run, and an item of the list


def _build_run_row(loop: Loop, name: str) -> Row:
    run = loop.research.runs[name]
    what, end, facts = _describe_item(loop, run.item), run.ended, _list_run(loop, run)
    if end is None:
        job = loop.find_main_job(run)
        result = format_metric(loop.session.find_result(job) if job else None)
        why = _describe_progress(loop, run, job)
        return Row(describe_job(job), name, what, result, why, facts, explains=True)
    met = end.met if end.outcome == "completed" else None
    glyph, word, role = _ENDS[end.outcome if met is None else met]
    why = run.kill_shown or end.problem or end.shown
    if name in loop.research.to_fix:
        why = f"waits for the fixer: {why}"
    if run.fix_relaunch:
        why = f"fixed as {run.fix_relaunch}: {run.fix_applied}"
    state = (glyph, end.mechanical or word, role)
    return Row(state, name, what, format_metric(end.result), why, facts)


def _describe_progress(loop: Loop, run: Run, job: JobView | None) -> str:
    """`23 min, 1500/5000; ends if loss > 4 after step 1000`."""
    if job is None:
        return "its jobs have not joined yet"
    spent = job.measure_run(loop.session.now)
    told = [duration(spent)] if spent is not None else []
    told += [format_progress(job.step, job.total)] if job.step is not None else []
    text = ", ".join(told)
    if run.kill_shown:
        return f"{text}; is ended: {run.kill_shown}"
    criteria = run.item.kill_criteria
    return f"{text}; ends if {criteria}" if criteria else text


def _build_item_row(loop: Loop, name: str) -> Row:
    research = loop.research
    item = research.find_item(name)
    if item is None:
        next_step = ("Next", "I inserts an item, C consults the agent now")
        told = "nothing is left to start"
        return Row(("◌", "empty", "waiting"), "", told, facts=[next_step])
    place, reason = research.items.index(item) + 1, loop.waits.get(name)
    state: State = ("▸", f"{place} next", "running")
    state = ("◌", f"{place} waits", "waiting") if reason else state
    by = f"  by {item.by}" if item.by else ""
    gpus = f"{item.wanted_gpus} GPU" if research.has_gpus else ""
    why = short(reason) if reason else "begins now"
    what, facts = f"{_describe_item(loop, item)}{by}", _list_item(loop, item)
    return Row(state, name, what, gpus, why, facts)


def _describe_item(loop: Loop, item: Item) -> str:
    """What it tries, in the words that say most."""
    set_to = list_purpose(item, loop.research, loop.session.mask)["Overrides"]
    known = loop.research.hypotheses.get(item.hypothesis)
    about = item.note or (known.description if known else item.hypothesis)
    return "  ".join(filter(None, (set_to or item.config_ref, about)))


def _list_run(loop: Loop, run: Run) -> Pairs:
    """A run as the agent is told of it, its criteria with the numbers of now."""
    session, jobs = loop.session, loop.session.list_jobs(run.jobs)
    view = View(
        research=loop.research,
        jobs={one.name: one.record for one in jobs},
        t=session.now,
        lived=session.lived,
        mask=session.mask,
    )
    if run.ended is None:
        live = {one.name: one.live for one in jobs if not one.record.ended}
        told = list_running(run, view, live)
    else:
        told = list_failed(run, view)
        yield "Ended", f"{loop.tell_time(run.ended.at)} {run.ended.outcome}"
        yield "Result", f"{format_metric(run.ended.result)}  {run.ended.shown}".rstrip()
    for label, text in told.items():
        yield "Ends if" if label == "Kill criteria" else label, text
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


def _list_item(loop: Loop, item: Item) -> Pairs:
    research = loop.research
    overtaken = research.overtaken.get(item.id)
    yield "Waits", loop.say(loop.waits.get(item.id))
    yield "Overtaken", f"by {plural(overtaken, 'other')}" if overtaken else ""
    yield from list_purpose(item, research, loop.session.mask).items()
    yield "Ends if", item.kill_criteria
    yield "After", join_some(item.depends_on, 8)
    yield from _list_origin(item)
    yield "GPUs", str(item.wanted_gpus) if research.has_gpus else ""
    yield "Jobs", join_some([job.name for job in item.jobs], 8)


# A hypothesis


def _build_hypothesis_row(loop: Loop, name: str) -> Row:
    one = loop.research.hypotheses[name]
    failed = one.consecutive_failures
    told = [f"{plural(failed, 'failure')} in a row"] if failed else []
    told += [plural(len(one.runs), "run") if one.runs else "no run yet"]
    why, facts = "; ".join((*told, *one.evidence[-1:])), _list_hypothesis(one)
    return Row(_HYPOTHESES[one.status], name, one.description, why=why, facts=facts)


def _list_hypothesis(one: Hypothesis) -> Pairs:
    yield "Says", one.description
    yield "Expects", one.expects
    failed = one.consecutive_failures
    yield "Failed", f"{failed} in a row" if failed else ""
    yield "Runs", join_some(one.runs[::-1], 12)
    yield from label_first("Evidence", reversed(one.evidence))


# A warning


def _build_warning_row(loop: Loop, key: str) -> Row:
    one = loop.research.warnings[key]
    told, facts = loop.say(one.why), _list_warning(loop, one)
    if one.acknowledged_by:
        return Row(("✓", "seen", "skipped"), one.severity, told, facts=facts)
    state: State = ("!", one.severity, _SEVERITIES[one.severity])
    return Row(state, "", told, facts=facts)


def _list_warning(loop: Loop, one: Warned) -> Pairs:
    yield "Warning", loop.say(one.why)
    yield "Since", loop.tell_time(one.raised_at)
    yield from label_first("Evidence", one.evidence)
    seen = f"by {one.acknowledged_by}: no agent is told of it"
    yield "Seen", seen if one.acknowledged_by else "no: X acknowledges it"


KINDS: Final[Mapping[str, tuple[str, Callable[[Loop, str], Row]]]] = {
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
"""What stands before the first row of a kind, and how each is made."""


def list_job_purpose(research: Research, session: SessionView, origin: str) -> Pairs:
    """What a job is for, by who asked for it: of a run's all that the agent is told but
    the log, which a job has itself; of a call what led to it."""
    kind, _, name = origin.partition(" ")
    call = research.consultations.get(name.partition("_")[0])
    if kind == "item" and name in research.runs:
        loop = Loop(research=research, session=session)
        told = _list_run(loop, research.runs[name])
        yield from (one for one in told if one[0] != "Log")
    elif kind == "consultation" and call is not None:
        yield "Call", f"{call.id}: {describe_purpose(research, call)}"
