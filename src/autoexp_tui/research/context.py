"""What an agent of the research loop is told: one text, byte for byte the same for
equal states, and never longer than `research.context_bytes`.

The goal, the instructions and the notes of persons are whole. Of all else the newest
is, and what is older is folded into a line. Texts of logs, names and earlier answers
are cleaned and masked, and none reads as a heading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from autoexp_tui.research import instructions
from autoexp_tui.research.budgets import format_amount, measure_uses
from autoexp_tui.research.items import Room, choose_items
from autoexp_tui.research.options import ROLES
from autoexp_tui.research.readings import read_jobs
from autoexp_tui.research.run_texts import (
    clean_words,
    count_free_gpus,
    describe_completed,
    describe_failed,
    describe_fix,
    describe_gpus,
    describe_hypothesis,
    describe_item,
    describe_running,
    describe_warning,
    fold_completed,
    fold_counts,
    fold_failed,
    join_overrides,
    say,
)
from autoexp_tui.research.sections import (
    Section,
    cut_text,
    fit_sections,
    measure,
    quote,
)
from autoexp_tui.text.spelling import duration, format_number, join_some, plural

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.research.ports import View
    from autoexp_tui.research.state import Consultation, Research, Run, Trigger

STATE_FILE: Final = "experiment_state.json"
_MOST_REFLECTION: Final = 12_000
_MOST_TAIL: Final = 16_000
"""Characters of a log."""
_MOST_OVERRIDES: Final = 4_000
_MOST_FIXES: Final = 10
_MOST_ANSWERS: Final = 3
_TRIGGERS: Final[Mapping[str, str]] = {
    "run_finished": "A run ended",
    "list_depleted": "The list is nearly empty",
    "warning_fired": "A warning fired",
    "budget_milestone": "A share of a budget is used",
    "heartbeat": "Nothing else led to a call for a while",
    "stranded": "GPUs are free, and no item of the list fits",
    "deadlock": "Nothing runs, and no item of the list can start",
    "person": "A person asks for it",
}


def render_context(
    view: View, live: Mapping[str, Live], consultation: Consultation
) -> str:
    """The prompt of the research agent for a call. `live`: of jobs that are watched."""
    research = view.research
    most = research.options.context_bytes
    end = instructions.write_instructions(research)
    goal, notes = _make_goal(research), _make_notes(view)
    rest = [
        Section("Objective", _list_objective(research)),
        Section("Why you are called now", _list_triggers(view, consultation)),
        Section("State", _list_counts(view, live)),
        *_make_run_sections(view, live),
        *_make_thought_sections(view, consultation),
        Section("Budget", _list_budgets(view)),
    ]
    room = most - measure(instructions.BEGIN) - measure(end)
    fit_sections([goal, notes], room - sum(one.frame for one in rest))
    fit_sections(rest, room - measure(goal.render()) - measure(notes.render()))
    parts = [one.render() for one in (goal, *rest, notes)]
    return cut_text("".join([instructions.BEGIN, *parts, end]), most)


def render_fix_context(view: View, run: Run, mechanical: str, tail: str) -> str:
    """The prompt of the fixer, for a run that ended by a failure of the table's.
    `tail`: the end of its log, as it is."""
    research, end = view.research, run.ended
    fixed = [one for one in research.runs.values() if one.fix_applied]
    same = [one for one in fixed if one.ended and one.ended.mechanical == mechanical]
    facts = [
        f"Failure: {clean_words(mechanical)}",
        f"Problem: {(end and clean_words(end.problem, 600)) or 'not known'}",
        f"Cause: {(end and clean_words(end.cause)) or 'not known'}",
        f"Step: {'none' if end is None or end.step is None else end.step}",
        f"GPUs: {run.gpus}",
        f"Config: {clean_words(run.item.config_ref) or 'that of the session'}",
        f"Overrides: {join_overrides(run.item.overrides, _MOST_OVERRIDES)}",
    ]
    earlier = [describe_fix(one, research) for one in same[-_MOST_FIXES:]]
    sections = {
        f"Run {clean_words(run.id)}": facts,
        "Earlier fixes of this failure": earlier or ["None."],
        "The end of its log": [quote(tail[-_MOST_TAIL:], _MOST_TAIL) or "> (empty)"],
    }
    parts = [f"\n# {title}\n\n" + "\n".join(it) for title, it in sections.items()]
    end_text = instructions.write_fix_instructions(research.options)
    return "\n".join([instructions.BEGIN_FIX.rstrip("\n"), *parts, end_text])


def _make_goal(research: Research) -> Section:
    text = _indent(research.options.goal)
    cut = "(It is longer than research.context_bytes leaves room for.)"
    return Section("Goal", [text or "None is stated."], lambda _: cut)


def _make_notes(view: View) -> Section:
    """What persons tell the agent; the newest last."""
    notes = view.research.notes[::-1]

    def describe_all() -> Iterator[str]:
        for one in notes:
            by = f" {clean_words(one.by)}" if one.by else ""
            head = f"From a person{by}, {duration(view.t - one.at)} ago:"
            yield f"{head}\n{_indent(one.text)}"

    return Section(
        "Notes of persons: follow them, the newest where they differ",
        describe_all(),
        lambda shown: f"and {plural(len(notes) - shown, 'older note')}",
        is_newest_last=True,
    )


def _indent(text: str) -> str:
    """The words of a person, whole."""
    return quote(text, len(text) + 1, "    ")


def _list_objective(research: Research) -> Iterator[str]:
    wanted, metric = research.options.objective, clean_words(research.metric)
    yield f"{metric}: {'more' if research.mode == 'max' else 'less'} is better"
    best = research.runs.get(research.best_run)
    if best is None or research.best is None:
        yield "Best so far: none"
    else:
        given = join_overrides(best.item.overrides)
        told = f"{format_number(research.best)} by {clean_words(best.id)}"
        yield f"Best so far: {told} ({given})"
    if wanted.target is not None:
        yield f"Target: {format_number(wanted.target)}; a run that reaches it ends all"
    if wanted.min_delta:
        yield f"Least gain that counts: {format_number(wanted.min_delta)}"
    yield f"Rounds without improvement: {research.rounds_since_improvement}"


def _list_triggers(view: View, consultation: Consultation) -> Iterator[str]:
    by_kind: dict[str, list[Trigger]] = {}
    for one in consultation.triggers:
        by_kind.setdefault(one.kind, []).append(one)
    for kind, triggers in by_kind.items():
        told = dict.fromkeys(_tell_trigger(view, one) for one in triggers)
        some = join_some([one for one in told if one], 12)
        yield f"- {_TRIGGERS.get(kind, kind)}{f': {some}' if some else ''}"


def _tell_trigger(view: View, trigger: Trigger) -> str:
    run = view.research.runs.get(trigger.about)
    warned = view.research.warnings.get(trigger.about)
    if trigger.kind == "run_finished" and run is not None and run.ended:
        return f"{clean_words(run.id)} {run.ended.outcome}"
    if trigger.kind == "warning_fired" and warned is not None:
        return say(warned.why, view.t)
    return clean_words(trigger.about)


def _list_counts(view: View, live: Mapping[str, Live]) -> Iterator[str]:
    research = view.research
    ends = Counter(one.ended.outcome for one in research.runs.values() if one.ended)
    told = [f"{len(research.live)} running"]
    told += [f"{count} {outcome}" for outcome, count in sorted(ends.items())]
    yield f"Runs: {', '.join(told)}; in the list: {len(research.items)}"
    jobs = [one for run in research.list_live() for one in read_jobs(run, view, live)]
    states = Counter(one.job.state.lower() for one in jobs)
    told = [f"{count} {state}" for state, count in sorted(states.items())]
    yield f"Jobs of running experiments: {', '.join(told) or 'none'}"
    if research.has_gpus:
        yield f"GPUs: {count_free_gpus(research)} of {research.gpus} free"
    if used := describe_gpus([load for one in jobs for load in one.gpus]):
        yield f"GPUs in use: {used}"
    if research.budget_reached:
        yield f"Nothing more begins: {say(research.budget_reached, view.t)}"
    state_file = f"{clean_words(research.directory, 1000)}/{STATE_FILE}"
    yield f"Curves of all runs (metrics_history) and all below in full: {state_file}"


def _make_run_sections(view: View, live: Mapping[str, Live]) -> Iterator[Section]:
    research, items = view.research, view.research.items
    runs = research.list_live()[::-1]
    yield Section(
        "Running experiments, with live metrics",
        (describe_running(one, view, live) for one in runs),
        lambda shown: f"and {_name_some([one.id for one in runs[shown:]])}",
        is_newest_last=True,
    )
    ended = [one for one in research.runs.values() if one.ended]
    ended.sort(key=attrgetter("ended.at"), reverse=True)
    done = [one for one in ended if one.ended and one.ended.outcome == "completed"]
    failed = [one for one in ended if one.ended and one.ended.outcome != "completed"]
    metric = clean_words(research.metric)
    yield Section(
        "Completed experiments",
        (describe_completed(one, view) for one in done),
        lambda shown: fold_completed(done[shown:], research),
        f"run | {metric} | step | seconds | as expected | hypothesis | overrides",
        is_newest_last=True,
    )
    yield Section(
        "Failed experiments, and those that were ended",
        (describe_failed(one, view) for one in failed),
        lambda shown: fold_failed(failed[shown:]),
        is_newest_last=True,
    )
    yield Section(
        "Experiment list: what runs next",
        _list_items(view),
        lambda shown: f"and {_name_some([one.id for one in items[shown:]])}",
    )


def _list_items(view: View) -> Iterator[str]:
    research = view.research
    gpus = research.gpus if research.has_gpus else None
    room = Room(None, count_free_gpus(research) if research.has_gpus else None)
    waits = choose_items(research, room, Room(None, gpus)).waits
    for at, one in enumerate(research.items, 1):
        reason = waits.get(one.id)
        told = say(reason, view.t) if reason else "starts as soon as a slot is free"
        yield f"{at}. {describe_item(one, research)}: {told}"


def _name_some(names: list[str]) -> str:
    return f"{len(names)} more: {join_some([clean_words(one) for one in names], 8)}"


def _make_thought_sections(view: View, consultation: Consultation) -> Iterator[Section]:
    research = view.research
    yield Section(
        "What became of your last answers",
        _list_answers(research, consultation),
        is_newest_last=True,
    )
    seen = research.warnings.values()
    fired = [one for one in seen if not one.acknowledged_by][::-1]
    yield Section(
        "Warnings",
        (describe_warning(one, view.t) for one in fired),
        lambda shown: fold_counts("warnings", (it.severity for it in fired[shown:])),
        is_newest_last=True,
    )
    known = [*research.hypotheses.values()][::-1]
    yield Section(
        "Hypotheses",
        map(describe_hypothesis, known),
        lambda shown: fold_counts("hypotheses", (it.status for it in known[shown:])),
        is_newest_last=True,
    )
    reflection = quote(research.reflection, _MOST_REFLECTION)
    yield Section("Your reflection of the last call", filter(None, [reflection]))


def _list_answers(research: Research, consultation: Consultation) -> Iterator[str]:
    """What was done about the newest calls before this one, the newest first."""
    known = research.consultations
    earlier = (known[name] for name in reversed(known) if name != consultation.id)
    ended = (one for one in earlier if one.outcome and one.role == "research")
    for one in islice(ended, _MOST_ANSWERS):
        yield "\n".join([f"- {one.id}: {one.outcome}", *_list_decisions(one)])


def _list_decisions(one: Consultation) -> Iterator[str]:
    if one.problem:
        yield f"  Problem: {clean_words(one.problem, 600)}"
    for done in one.decided:
        by = f" by {clean_words(done.by)}" if done.by else ""
        reason = f" ({clean_words(done.reason)})" if done.reason else ""
        yield from (f"  Applied: {clean_words(it)}" for it in done.applied)
        yield from (f"  Refused{by}{reason}: {clean_words(it)}" for it in done.refused)
        yield from (f"  Void: {clean_words(it)}" for it in done.void)
    yield from (f"  A person is asked: {clean_words(line.text)}" for line in one.asked)
    for text in one.answer.left_out if one.answer else ():
        yield f"  Left out: {clean_words(text)}"


def _list_budgets(view: View) -> Iterator[str]:
    research = view.research
    for use in measure_uses(research, view.jobs, view.t, view.lived):
        used, limit = (format_amount(use.name, it) for it in (use.used, use.limit))
        name = use.name.replace("_", " ")
        yield f"{name}: {used} of {limit} used, {100 * use.left:.0f} % left"
    for role in ROLES:
        if calls := research.calls.get(role, 0):
            cost = research.costs.get(role, 0.0)
            paid = f", {format_number(cost)} paid" if cost else ""
            yield f"Calls of the {role} agent: {calls}{paid}"
