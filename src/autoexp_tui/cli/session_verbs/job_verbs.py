"""autoexp-sessions pause, resume, kill, retry, skip, waive, approve, reject; of a
research loop consult and note.

Each finds out for which jobs a command makes sense, so that one which cannot be done is
told apart, and sends it; the engine has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from autoexp_tui.cli.diagnostics import say
from autoexp_tui.cli.open import require_person
from autoexp_tui.cli.options import require_overrides
from autoexp_tui.cli.session_verbs.request import (
    Answer,
    Request,
    build_view,
    format_verb,
    load,
    look_at,
    print_answer,
    require_jobs,
    send,
)
from autoexp_tui.cockpit.render.questions import describe_kill
from autoexp_tui.cockpit.render.resubmit_questions import (
    describe_resubmit,
    render_place,
)
from autoexp_tui.cockpit.spans import Line, plain
from autoexp_tui.cockpit.state.forecast import list_checkpoint_places
from autoexp_tui.model import commands
from autoexp_tui.model.commands import Command
from autoexp_tui.model.condition import describe
from autoexp_tui.model.errors import NotConfirmed, UsageError
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.masking import NO_RULES, mask_text
from autoexp_tui.model.resubmission import can_come_back, list_open_asks
from autoexp_tui.model.state import Ask, JobRecord
from autoexp_tui.model.states import REVIVABLE, JobState, Result
from autoexp_tui.research.commands import Consult, TellAgent
from autoexp_tui.research.state import find_research
from autoexp_tui.storage.checkpoint_files import look_for_checkpoints
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import join_some, plural

_MOST_NAMED = 5
"""How many jobs a question names before it only counts them."""


def pause_or_resume(request: Request) -> int:
    """Submit nothing more, or again; what is so already is no refusal."""
    pauses = request.verb == "pause"
    answer = send(request, [commands.Pause() if pauses else commands.Resume()])
    if answer.code == "nothing_to_do":
        note = "it is paused already" if pauses else "it is not paused"
        answer = Answer(outcome="done", engine=answer.engine, note=note)
    return print_answer(request, answer)


def kill(request: Request) -> int:
    """End jobs that wait or run."""
    jobs = _choose_jobs(request, lambda job: not job.ended)
    if jobs and not request.options.yes:
        sight = look_at(request.session)
        view = build_view(sight.state, sight.live, sight.now)
        chosen = view.list_jobs(jobs)
        looks = look_for_checkpoints(list_checkpoint_places(chosen, view))
        _say_lines(describe_kill(chosen, view, looks))
        names = join_some(list(map(clean, jobs)), _MOST_NAMED)
        raise NotConfirmed(
            f"this would kill {plural(len(jobs), 'job')}: {names}",
            hint="Add --yes to do it.",
        )
    command = commands.Kill(jobs=jobs, reason=request.args.reason)
    return _send_for(request, jobs, command)


def retry(request: Request) -> int:
    """Bring back jobs that ended, and with them what ended only because of them."""
    args = request.args
    jobs = _choose_jobs(request, _has_failed if args.all else can_come_back)
    require_overrides(args.set)
    state = load(request.session)
    # What is done would go on from its end, and do nothing.
    anew = not any(_has_failed(state.jobs[name]) for name in jobs)
    command = commands.Resubmit(
        jobs=jobs,
        from_checkpoint=not anew,
        overrides=tuple(args.set),
        use_files=args.followers == "use",
    )
    if jobs:  # where other values write, who comes back, what followers will read
        view = build_view(state)
        chosen = view.list_jobs(jobs)
        brought, followers = describe_resubmit(chosen, view)
        place = (render_place(chosen),) if command.overrides else ()
        _say_lines((*place, *brought, *followers))
        if followers and (command.overrides or anew):
            waits = "They wait until it is written anew; --followers use: they do not."
            say("They read what lies there by now." if command.use_files else waits)
    return _send_for(request, jobs, command)


def _has_failed(job: JobRecord) -> bool:
    return job.state in REVIVABLE


def skip(request: Request) -> int:
    """Do not run jobs that have not started."""
    jobs = _choose_jobs(request, lambda job: not job.started)
    command = commands.Skip(jobs=jobs, reason=request.args.reason)
    return _send_for(request, jobs, command)


def _send_for(
    request: Request, jobs: tuple[str, ...], command: commands.Command
) -> int:
    if jobs:
        return print_answer(request, send(request, [command]), jobs)
    why = f"nothing to {request.verb}: no job is in that state"
    return print_answer(request, Answer(outcome="refused", why=why))


def waive(request: Request) -> int:
    """Let a start condition of a waiting job count as passed."""
    session, names = request.session, request.names
    require_person("waive", session.state_dir)
    state = load(session)
    require_jobs(state, names[:1])
    if not names:
        hint = f"{format_verb('show', session)} names the jobs."
        raise UsageError("waive: a condition of which job?", hint=hint)
    job, given, mask = (
        state.jobs[names[0]],
        "".join(names[1:]),
        state.plan.mask if state.plan else NO_RULES,
    )
    unmet = {
        str(number): mask_text(describe(spec), mask)
        for number, (spec, status) in enumerate(
            zip(job.spec.start_conditions, job.start, strict=False), 1
        )
        if job.state is JobState.WAITING and not (status and status.waived)
        if status is None or status.result is not Result.PASS
    }
    number = given or (next(iter(unmet)) if len(unmet) == 1 else "")
    if not (number.isdecimal() and 1 <= int(number) <= len(job.start)):
        listed = "; ".join(f"{number}: {what}" for number, what in unmet.items())
        problem = f"waive: which start condition of {job.name}?"
        raise UsageError(problem, hint=f"unmet: {listed or 'none'}")
    reason = request.args.reason
    command = commands.Waive(job=job.name, condition=int(number) - 1, reason=reason)
    return print_answer(request, send(request, [command]), [job.name])


def answer(request: Request) -> int:
    """Say yes, or with the verb `reject` no, to what jobs and questions ask: to those
    of some names, or to all."""
    session, names, verb = request.session, request.names, request.verb
    require_person(verb, session.state_dir)
    state = load(session)
    require_jobs(state, names, questions=state.asks)
    given: dict[str, Any] = {
        "approved": verb == "approve",
        "reason": request.args.reason,
    }
    answers = [
        commands.Answer(job=job.name, digest=job.ask.digest, **given)
        for job in (
            state.jobs[name] for name in names or state.order if name in state.jobs
        )
        if job.ask is not None and job.ask.approved is None
    ]
    open_asks = list_open_asks(state.asks)
    questions = [name for name in names or open_asks if name in open_asks]
    drop = getattr(request.args, "drop", [])
    if drop and (len(questions), len(answers)) != (1, 0):
        raise UsageError("--drop: of which question?", hint="Name one that asks now.")
    replies = [_answer_ask(name, open_asks[name], drop, given) for name in questions]
    if not (answers or replies):
        which = "none of these jobs" if names else "no job"
        which += " or questions" if names and state.asks else ""
        raise UsageError(f"{verb}: {which} asks for approval just now")
    answered = send(request, [*answers, *replies])
    jobs = [one.job for one in answers]
    return print_answer(request, answered, jobs, questions)


def _answer_ask(
    name: str, ask: Ask, drop: Sequence[int], given: Mapping[str, Any]
) -> commands.AnswerAsk:
    """The answer to a question without some lines, which are numbered from 1; says what
    it is about."""
    for number in drop:
        if not 1 <= number <= len(ask.lines):
            lines = plural(len(ask.lines), "line")
            raise UsageError(f"{name} has no line {number}: it has {lines}", "--drop")
    say(f"{clean(name)}: {clean(ask.prompt)}")
    for number, text in enumerate(ask.lines, 1):
        say(f"{'- dropped' if number in drop else number:>9}  {clean(text)}")
    dropped = tuple(sorted({number - 1 for number in drop}))
    digest = digest_question(name, ask.prompt, ask.list_kept(dropped))
    return commands.AnswerAsk(ask=name, digest=digest, dropped=dropped, **given)


def _say_lines(lines: Iterable[Line]) -> None:
    for one in lines:
        say(plain(one).rstrip())


def _choose_jobs(
    request: Request, fits: Callable[[JobRecord], bool]
) -> tuple[str, ...]:
    """The jobs that a command is for; of those that were named, others are told."""
    state, names, verb = load(request.session), request.names, request.verb
    if bool(names) == request.args.all:
        raise UsageError(f"{verb}: which jobs?", hint="Name them, or say --all.")
    require_jobs(state, names)
    chosen: Sequence[str] = list(dict.fromkeys(names)) or state.order
    for name in names:
        if not fits(job := state.jobs[name]):
            is_so = job.state.value.lower()
            say(f"{clean(name)} is {is_so}: there is nothing to {verb}")
    return tuple(name for name in chosen if fits(state.jobs[name]))


def consult(request: Request) -> int:
    """Have the research agent called, as soon as its least interval is over."""
    return _send(request, Consult())


def note(request: Request) -> int:
    """Tell the research agent something: each context has it from now on."""
    text = " ".join(request.names)
    if not text.strip():
        hint = f"autoexp-sessions note {request.words[0]} 'try smaller batches'"
        raise UsageError("note: what is the agent to be told?", hint=hint)
    return _send(request, TellAgent(text=text))


def _send(request: Request, command: Command) -> int:
    session = request.session
    require_person(request.verb, session.state_dir)
    if find_research(load(session)) is None:
        raise UsageError(f"session {session.id} has no research loop")
    return print_answer(request, send(request, [command]))
