"""What an agent of the research loop is told: one text, byte for byte the same for
equal states, and never longer than `research.context_bytes`.

The goal, the instructions and the notes of persons are whole. Of all else the newest
is, and what is older is folded into a line. Texts of logs, names and earlier answers
are cleaned and masked, and none reads as a heading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from autoexp_tui.research import instructions
from autoexp_tui.research.budgets import measure_uses
from autoexp_tui.research.items import Room, choose_items
from autoexp_tui.research.options import ROLES
from autoexp_tui.research.readings import read_jobs
from autoexp_tui.research.run_texts import (
    clean_words,
    count_free_gpus,
    describe_completed,
    describe_failed,
    describe_gpus,
    describe_hypothesis,
    describe_running,
    describe_warning,
    list_purpose,
    say,
    write_block,
)
from autoexp_tui.research.sections import (
    Section,
    count_kinds,
    cut_text,
    measure,
    quote,
    render_sections,
)
from autoexp_tui.text.spelling import duration, format_number, join_some, plural

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.research.ports import View
    from autoexp_tui.research.state import Consultation, Research, Run, Trigger

STATE_FILE: Final = "experiment_state.json"
_MOST_ANSWERS: Final = 3
_FRAME_BYTES: Final = 1024
"""Of titles, and of what stands in empty sections, all together."""
_FIX_BYTES: Final = 20_000
"""Of what the fixer is told of a run, the end of its log included."""
_MOST_LINE: Final = 2000
"""Characters of a line of its log."""
_INDENT: Final = "    "
"""Of the words of persons."""
_MET: Final = {True: "as expected", False: "not as expected", None: "not judged"}


def render_context(
    view: View, live: Mapping[str, Live], consultation: Consultation
) -> str:
    """The prompt of the research agent for a call. `live`: of jobs that are watched."""
    research = view.research
    begin, end = instructions.BEGIN, instructions.write_instructions(research)
    room = research.options.context_bytes - measure(begin) - measure(end)
    of_persons = [
        Section("Goal", filter(None, [quote(research.options.goal, _INDENT)])),
        Section(
            "Notes of persons: follow them, the newest where they differ",
            _list_notes(view),
            [f"by {one.by or 'a person'}" for one in reversed(research.notes)],
            is_newest_last=True,
        ),
    ]
    goal, notes = render_sections(of_persons, room - _FRAME_BYTES)
    room -= measure(goal) + measure(notes)
    rest = [
        Section("Objective", _list_objective(research)),
        Section("Why you are called now", _list_triggers(view, consultation)),
        Section("State", _list_counts(view, live)),
        *_make_run_sections(view, live),
        *_make_thought_sections(view, consultation),
        Section("Budget", _list_budgets(view)),
    ]
    parts = [begin, goal, *render_sections(rest, room), notes, end]
    return cut_text("".join(parts), research.options.context_bytes)


def render_fix_context(view: View, run: Run, tail: str) -> str:
    """The prompt of the fixer, for a run that ended by a failure of the table's.
    `tail`: the end of its log, as it is."""
    assert run.ended is not None, "it failed"
    mechanical, known = run.ended.mechanical, view.research.runs.values()
    same = [one for one in known if one.ended and one.ended.mechanical == mechanical]
    fixed = [describe_failed(one, view) for one in same if one.fix_applied]
    log = (quote(line[:_MOST_LINE]) for line in reversed(tail.splitlines()))
    sections = [
        Section("The run that failed", [describe_failed(run, view)]),
        Section("Earlier fixes of this failure", fixed[::-1], is_newest_last=True),
        Section("The end of its log", filter(None, log), is_newest_last=True),
    ]
    parts = render_sections(sections, _FIX_BYTES)
    end = instructions.write_fix_instructions(view.research.options)
    return "".join([instructions.BEGIN_FIX, *parts, end])


def _list_notes(view: View) -> Iterator[str]:
    """What persons tell the agent, the newest first."""
    for one in reversed(view.research.notes):
        by = f" {one.by}" if one.by else ""
        head = f"From a person{by}, {duration(view.t - one.at)} ago:"
        yield f"{clean_words(head)}\n{quote(one.text, _INDENT)}"


def _list_objective(research: Research) -> Iterator[str]:
    wanted, best = research.options.objective, research.runs.get(research.best_run)
    better = "more" if research.mode == "max" else "less"
    yield clean_words(f"{research.metric}: {better} is better")
    told = "none"
    if best is not None and research.best is not None:
        given = " ".join(best.item.overrides)
        told = f"{format_number(research.best)} by {best.id} ({given})"
    yield clean_words(f"Best so far: {told}")
    if wanted.target is not None:
        yield f"Target: {format_number(wanted.target)}; a run that reaches it ends all"
    if wanted.min_delta:
        yield f"Least gain that counts: {format_number(wanted.min_delta)}"
    yield f"Rounds without improvement: {research.rounds_since_improvement}"


def _list_triggers(view: View, consultation: Consultation) -> Iterator[str]:
    kind = attrgetter("kind")
    for name, triggers in groupby(sorted(consultation.triggers, key=kind), kind):
        told = dict.fromkeys(_tell_trigger(view, one) for one in triggers)
        what = f"- {name.replace('_', ' ')}: {join_some([*told], 12)}"
        yield clean_words(what.removesuffix(": "))


def _tell_trigger(view: View, trigger: Trigger) -> str:
    run = view.research.runs.get(trigger.about)
    warned = view.research.warnings.get(trigger.about)
    if trigger.kind == "run_finished" and run is not None and run.ended:
        return f"{run.id} {run.ended.outcome}"
    return say(warned.why, view.t) if warned is not None else trigger.about


def _list_counts(view: View, live: Mapping[str, Live]) -> Iterator[str]:
    research = view.research
    ends = count_kinds(one.ended.outcome for one in research.runs.values() if one.ended)
    told = ", ".join(filter(None, [f"{len(research.live)} running", ends]))
    yield f"Runs: {told}; in the list: {len(research.items)}"
    if research.has_gpus:
        yield f"GPUs: {count_free_gpus(research)} of {research.gpus} free"
    jobs = (one for run in research.list_live() for one in read_jobs(run, view, live))
    if used := describe_gpus(jobs):
        yield f"GPUs in use: {used}"
    state_file = clean_words(f"{research.directory}/{STATE_FILE}", 1000)
    yield f"Curves of all runs (metrics_history) and all below in full: {state_file}"


def _make_run_sections(view: View, live: Mapping[str, Live]) -> Iterator[Section]:
    research = view.research
    running = research.list_live()[::-1]
    yield Section(
        "Running experiments, with live metrics",
        (describe_running(one, view, live) for one in running),
        [one.item.hypothesis or "of no hypothesis" for one in running],
        is_newest_last=True,
    )
    ended = [(one, one.ended) for one in research.runs.values() if one.ended]
    ended.sort(key=lambda one: one[1].at, reverse=True)
    done = [one for one in ended if one[1].outcome == "completed"]
    failed = [one for one in ended if one[1].outcome != "completed"]
    metric = clean_words(research.metric)
    yield Section(
        "Completed experiments",
        (describe_completed(one, view) for one, _ in done),
        [_MET[end.met] for _, end in done],
        f"run | {metric} | step | seconds | as expected | hypothesis | overrides",
        is_newest_last=True,
    )
    yield Section(
        "Failed experiments, and those that were ended",
        (describe_failed(one, view) for one, _ in failed),
        [end.mechanical or end.cause or end.outcome for _, end in failed],
        is_newest_last=True,
    )
    yield Section(
        "Experiment list: what runs next",
        _list_items(view),
        [one.hypothesis or "of no hypothesis" for one in research.items],
    )


def _list_items(view: View) -> Iterator[str]:
    research = view.research
    free, gpus = Room(None, None), Room(None, None)
    if research.has_gpus:
        free, gpus = Room(None, count_free_gpus(research)), Room(None, research.gpus)
    waits = choose_items(research, free, gpus).waits
    for at, one in enumerate(research.items, 1):
        reason = waits.get(one.id)
        told = say(reason, view.t) if reason else "starts as soon as a slot is free"
        wanted = f" ({plural(one.wanted_gpus, 'GPU')})" if research.has_gpus else ""
        details = {
            **list_purpose(one, research),
            "Depends on": join_some(one.depends_on, 8),
            "Put there by": one.by,
        }
        yield write_block(f"{at}. {one.id}{wanted}: {told}", details.items())


def _make_thought_sections(view: View, consultation: Consultation) -> Iterator[Section]:
    research = view.research
    answers = _list_answers(research, consultation)
    yield Section("What became of your last answers", answers, is_newest_last=True)
    seen = research.warnings.values()
    fired = [one for one in seen if not one.acknowledged_by][::-1]
    yield Section(
        "Warnings",
        (describe_warning(one, view.t) for one in fired),
        [one.severity for one in fired],
        is_newest_last=True,
    )
    known = [*research.hypotheses.values()][::-1]
    yield Section(
        "Hypotheses",
        map(describe_hypothesis, known),
        [one.status for one in known],
        is_newest_last=True,
    )
    reflection = quote(research.reflection)
    yield Section("Your reflection of the last call", filter(None, [reflection]))


def _list_answers(research: Research, consultation: Consultation) -> Iterator[str]:
    """What was done about the newest calls before this one, the newest first."""
    known = research.consultations
    earlier = (known[name] for name in reversed(known) if name != consultation.id)
    ended = (one for one in earlier if one.outcome and one.role == "research")
    for one in islice(ended, _MOST_ANSWERS):
        yield write_block(f"- {one.id}: {one.outcome}", _list_decisions(one))


def _list_decisions(one: Consultation) -> Iterator[tuple[str, str]]:
    yield "Problem", one.problem
    for done in one.decided:
        by = f" by {done.by}" if done.by else ""
        reason = f" ({done.reason})" if done.reason else ""
        yield from (("Applied", it) for it in done.applied)
        yield from ((f"Refused{by}{reason}", it) for it in done.refused)
        yield from (("Void", it) for it in done.void)
    yield from (("A person is asked", line.text) for line in one.asked)
    yield from (("Left out", it) for it in (one.answer.left_out if one.answer else ()))


def _list_budgets(view: View) -> Iterator[str]:
    research = view.research
    for use in measure_uses(research, view.jobs, view.t, view.lived):
        words, left = use.words, f"{100 * use.left:.0f} % left"
        yield f"{words['budget']}: {words['spent']} of {words['limit']} used, {left}"
    for role in ROLES:
        if calls := research.calls.get(role, 0):
            cost = research.costs.get(role, 0.0)
            paid = f", {format_number(cost)} paid" if cost else ""
            yield f"Calls of the {role} agent: {calls}{paid}"
