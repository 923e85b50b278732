"""What an agent of the research loop is told: one text, byte for byte the same for
equal states, and never longer than `research.context_bytes`.

The goal, the instructions and the notes of persons are whole. Of all else the newest
is, and what is older is folded into a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.research import instructions
from autoexp_tui.research.budgets import measure_uses
from autoexp_tui.research.items import choose_now
from autoexp_tui.research.options import ROLES
from autoexp_tui.research.readings import read_jobs
from autoexp_tui.research.run_texts import (
    count_free_gpus,
    describe_completed,
    describe_failed,
    describe_gpus,
    describe_hypothesis,
    describe_running,
    list_purpose,
    name_hypothesis,
    say,
)
from autoexp_tui.research.sections import (
    Section,
    clean_words,
    count_kinds,
    cut_text,
    measure,
    quote,
    render_sections,
    tell_lines,
    write_block,
)
from autoexp_tui.text.spelling import duration, format_number, join_some, plural

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.research.ports import View
    from autoexp_tui.research.state import (
        Consultation,
        Item,
        Note,
        Run,
        Trigger,
        Warned,
    )

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
    research, most = view.research, view.research.options.context_bytes
    begin, end = instructions.BEGIN, instructions.write_instructions(research)
    room = most - measure(begin) - measure(end)
    of_persons: list[Section[Any]] = [
        Section("Goal", [research.options.goal], partial(quote, mark=_INDENT)),
        Section(
            "Notes of persons: follow them, the newest where they differ",
            research.notes,
            partial(_describe_note, view),
            lambda one: f"by {one.by or 'a person'}",
        ),
    ]
    goal, notes = render_sections(of_persons, room - _FRAME_BYTES, view.mask)
    room -= measure(goal) + measure(notes)
    rest = render_sections([*_list_sections(view, live, consultation)], room, view.mask)
    return cut_text("".join([begin, goal, *rest, notes, end]), most)


def render_fix_context(view: View, run: Run, tail: str) -> str:
    """The prompt of the fixer, for a run that ended by a failure of the table's.
    `tail`: the end of its log, as it is."""
    assert run.ended is not None, "it failed"
    mechanical, known = run.ended.mechanical, view.research.runs.values()
    same = [one for one in known if one.ended and one.ended.mechanical == mechanical]
    fixed = [one for one in same if one.fix_applied]
    describe = partial(describe_failed, view=view)
    log = [line[:_MOST_LINE] for line in tail.splitlines()]
    sections: list[Section[Any]] = [
        Section("The run that failed", [run], describe),
        Section("Earlier fixes of this failure", fixed, describe),
        Section("The end of its log", log, quote),
    ]
    parts = render_sections(sections, _FIX_BYTES, view.mask)
    end = instructions.write_fix_instructions(view.research.options)
    return "".join([instructions.BEGIN_FIX, *parts, end])


def _list_sections(
    view: View, live: Mapping[str, Live], consultation: Consultation
) -> Iterator[Section[Any]]:
    """All but the words of persons."""
    research = view.research
    yield Section("Objective", [_list_objective(view)], tell_lines)
    yield Section(
        "Why you are called now", [_list_triggers(view, consultation)], tell_lines
    )
    yield Section("State", [_list_counts(view, live)], tell_lines)
    yield Section(
        "Running experiments, with live metrics",
        research.list_live(),
        partial(describe_running, view=view, live=live),
        lambda one: name_hypothesis(one.item),
    )
    ended = [(one, one.ended) for one in research.runs.values() if one.ended]
    ended.sort(key=lambda one: one[1].at)
    yield Section(
        "Completed experiments",
        [one for one, end in ended if end.outcome == "completed"],
        partial(describe_completed, view=view),
        lambda one: _MET[one.ended.met],
        f"run | {clean_words(research.metric)} | step | seconds | as expected | "
        "hypothesis | overrides",
    )
    yield Section(
        "Failed experiments, and those that were ended",
        [one for one, end in ended if end.outcome != "completed"],
        partial(describe_failed, view=view),
        lambda one: one.ended.mechanical or one.ended.cause or one.ended.outcome,
    )
    yield Section(
        "Experiment list: what runs next",
        [*enumerate(research.items, 1)],
        partial(_describe_item, view, _find_waits(view)),
        lambda one: name_hypothesis(one[1]),
        is_queue=True,
    )
    known = research.consultations.values()
    earlier = [one for one in known if one.outcome and one.id != consultation.id]
    answers = [one for one in earlier if one.role == "research"][-_MOST_ANSWERS:]
    name = "What became of your last answers"
    yield Section(name, answers, _describe_answer)
    yield Section(
        "Warnings",
        [one for one in research.warnings.values() if not one.acknowledged_by],
        partial(_describe_warning, view),
        attrgetter("severity"),
    )
    yield Section(
        "Hypotheses",
        [*research.hypotheses.values()],
        describe_hypothesis,
        attrgetter("status"),
    )
    yield Section("Your reflection of the last call", [research.reflection], quote)
    yield Section("Budget", [_list_budgets(view)], tell_lines)


def _describe_note(view: View, one: Note) -> str:
    by = f" {one.by}" if one.by else ""
    head = f"From a person{by}, {duration(view.t - one.at)} ago:"
    return f"{clean_words(head)}\n{quote(one.text, _INDENT)}"


def _list_objective(view: View) -> Iterator[str]:
    research = view.research
    wanted, best = research.options.objective, research.runs.get(research.best_run)
    better = "more" if research.mode == "max" else "less"
    yield f"{research.metric}: {better} is better"
    told = "none"
    if best is not None and research.best is not None:
        given = list_purpose(best.item, research, view.mask)["Overrides"]
        told = f"{format_number(research.best)} by {best.id} ({given})"
    yield f"Best so far: {told}"
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
        yield what.removesuffix(": ")


def _tell_trigger(view: View, trigger: Trigger) -> str:
    run = view.research.runs.get(trigger.about)
    warned = view.research.warnings.get(trigger.about)
    if trigger.kind == "run_finished" and run is not None and run.ended:
        return f"{run.id} {run.ended.outcome}"
    return say(view, warned.why) if warned is not None else trigger.about


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
    state_file = f"{research.directory}/{STATE_FILE}"
    yield f"Curves of all runs (metrics_history) and all below in full: {state_file}"


def _find_waits(view: View) -> dict[str, str]:
    """Item -> why it does not begin."""
    waits = choose_now(view.research).waits
    return {name: say(view, reason) for name, reason in waits.items()}


def _describe_item(
    view: View, waits: Mapping[str, str], placed: tuple[int, Item]
) -> str:
    at, one = placed
    told = waits.get(one.id, "starts as soon as a slot is free")
    gpus = f" ({plural(one.wanted_gpus, 'GPU')})" if view.research.has_gpus else ""
    details = {
        **list_purpose(one, view.research, view.mask),
        "Depends on": join_some(one.depends_on, 8),
        "Put there by": one.by,
    }
    return write_block(f"{at}. {one.id}{gpus}: {told}", details.items())


def _describe_answer(one: Consultation) -> str:
    """What was done about an answer."""
    details = [("Problem", one.problem)]
    for done in one.decided:
        by = f" by {done.by}" if done.by else ""
        reason = f" ({done.reason})" if done.reason else ""
        details += [("Applied", it) for it in done.applied]
        details += [(f"Refused{by}{reason}", it) for it in done.refused]
        details += [("Void", it) for it in done.void]
    details += [("A person is asked", line.text) for line in one.asked]
    details += [("Left out", it) for it in (one.answer.left_out if one.answer else ())]
    return write_block(f"- {one.id}: {one.outcome}", details)


def _describe_warning(view: View, one: Warned) -> str:
    return write_block(f"- {one.severity}: {say(view, one.why)}", (), one.evidence)


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
