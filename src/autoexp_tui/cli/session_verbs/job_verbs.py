"""autoexp-sessions pause, resume, kill, retry, skip, waive, approve, reject.

Each finds out for which jobs a command makes sense, so that one which cannot be done is
told apart, and sends it; the engine has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import say
from autoexp_tui.cli.session_verbs.send_command import (
    Answer,
    Request,
    ask,
    carry_out,
    tell,
    verb_command,
)
from autoexp_tui.model.errors import NotConfirmed, UsageError
from autoexp_tui.model.states import REVIVABLE, JobState
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.cockpit.spans import Line
    from autoexp_tui.cockpit.state.session import SessionView
    from autoexp_tui.model.commands import Command, Resubmit
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.model.state import JobRecord, SessionState
    from autoexp_tui.storage.session_dir import SessionDir

NO_LIVE: Mapping[str, Live] = {}
NAMED = 5
"""How many jobs a question names before it only counts them."""


# ---------------------------------------------------------------------- the session's
def pause(request: Request) -> int:
    """Submit nothing more; what is paused already stays so."""
    from autoexp_tui.model.commands import Pause

    return _send_wish(request, Pause(), "it is paused already")


def resume(request: Request) -> int:
    """Submit again; what is not paused stays so."""
    from autoexp_tui.model.commands import Resume

    return _send_wish(request, Resume(), "it is not paused")


def _send_wish(request: Request, command: Command, note: str) -> int:
    """A wish that is fulfilled already is no refusal."""
    answer = ask(request, [command])
    if answer.code == "nothing_to_do":
        answer = replace(answer, outcome="done", why="", code="", note=note)
    return tell(request, answer)


# -------------------------------------------------------------------------- the jobs'
def kill(request: Request) -> int:
    """End jobs that wait or run."""
    from autoexp_tui.model.commands import Kill
    from autoexp_tui.model.wording import plural

    jobs = _choose(request, lambda job: not job.ended)
    if jobs and not request.options.yes:
        _say_what_is_lost(request.session, jobs)
        names = ", ".join(map(clean, jobs[:NAMED]))
        rest = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
        raise NotConfirmed(
            f"this would kill {plural(len(jobs), 'job')}: {names}{rest}",
            hint="Add --yes to do it.",
        )
    return _send_for(request, jobs, Kill(jobs=jobs, reason=request.args.reason))


def _say_what_is_lost(session: SessionDir, jobs: Sequence[str]) -> None:
    from autoexp_tui.cli.session_verbs.probe import look_at
    from autoexp_tui.cockpit.render.job_questions import describe_kill
    from autoexp_tui.cockpit.state.kill_cost import list_checkpoint_places
    from autoexp_tui.storage.checkpoint_files import look_for_checkpoints

    sight = look_at(session)
    view = _view_of(sight.state, sight.live, sight.now)
    chosen = view.named(jobs)
    looks = look_for_checkpoints(list_checkpoint_places(chosen, view))
    _say_lines(describe_kill(chosen, view, looks))


def retry(request: Request) -> int:
    """Bring back jobs that ended, and with them what ended only because of them."""
    from autoexp_tui.model.commands import Resubmit
    from autoexp_tui.model.resubmission import may_come_back

    args = request.args
    fits = _ended_badly if args.all else may_come_back
    jobs = _choose(request, fits)
    state = load(request.session)
    # What is done would go on from its end, and do nothing.
    anew = all(state.jobs[name].state not in REVIVABLE for name in jobs)
    for text in args.set:
        _require_override(text)
    command = Resubmit(
        jobs=jobs,
        from_checkpoint=not anew,
        overrides=tuple(args.set),
        use_files=args.followers == "use",
    )
    if jobs:
        _say_what_comes_back(state, command)
    return _send_for(request, jobs, command)


def _say_what_comes_back(state: SessionState, command: Resubmit) -> None:
    """Where other values write, who comes back, and what their followers will read."""
    from autoexp_tui.cockpit.render.job_questions import describe_resubmit, render_place

    view = _view_of(state)
    jobs = view.named(command.jobs)
    brought, followers = describe_resubmit(jobs, view)
    place = (render_place(jobs),) if command.overrides else ()
    _say_lines((*place, *brought, *followers))
    if followers and (command.overrides or not command.from_checkpoint):
        if command.use_files:
            say("They read what lies there by now.")
        else:
            say("They wait until it is written anew; --followers use: they do not.")


def _require_override(text: str) -> None:
    """`--set` takes what Hydra takes: `KEY=VALUE`, or `~KEY`.

    Raises:
        UsageError: it is neither.
    """
    key, sign, _ = text.partition("=")
    if not text.startswith("~") and not (sign and key and not key.isspace()):
        raise UsageError(
            f"--set: {text!r} is not of the form KEY=VALUE", hint="--set lr=2e-4"
        )


def _ended_badly(job: JobRecord) -> bool:
    return job.state in REVIVABLE


def skip(request: Request) -> int:
    """Do not run jobs that have not started."""
    from autoexp_tui.model.commands import Skip

    jobs = _choose(request, lambda job: not job.started)
    return _send_for(request, jobs, Skip(jobs=jobs, reason=request.args.reason))


def _send_for(request: Request, jobs: tuple[str, ...], command: Command) -> int:
    if jobs:
        return carry_out(request, [command], jobs)
    why = f"nothing to {request.verb}: no job is in that state"
    return tell(request, Answer(outcome="refused", why=why))


def waive(request: Request) -> int:
    """Let a start condition of a waiting job count as passed."""
    from autoexp_tui.cli.open import require_person
    from autoexp_tui.model.commands import Waive

    session, names = request.session, request.names
    require_person("waive", session.state_dir)
    if not names:
        raise UsageError(
            "waive: a condition of which job?",
            hint=f"{verb_command('show', session)} names the jobs.",
        )
    state = load(session)
    require_known(state, names[:1])
    number = _choose_condition(session, state.jobs[names[0]], names[1:])
    command = Waive(job=names[0], condition=number - 1, reason=request.args.reason)
    return carry_out(request, [command], names[:1])


def _choose_condition(session: SessionDir, job: JobRecord, given: Sequence[str]) -> int:
    """The number, from 1, of the start condition that is meant."""
    from autoexp_tui.model.verdicts import Result

    hint = f"`autoexp-sessions show {session.id} {job.name}` numbers them."
    if job.state is not JobState.WAITING:
        state = job.state.value.lower()
        raise UsageError(f"waive: {job.name} does not wait: it is {state}")
    if given:
        if given[0].isdecimal() and 1 <= int(given[0]) <= len(job.start):
            return int(given[0])
        problem = f"waive: {job.name} has no start condition {given[0]!r}"
        raise UsageError(problem, hint=hint)
    unmet = [
        number
        for number, status in enumerate(job.start, 1)
        if status is None or (status.result is not Result.PASS and not status.waived)
    ]
    if len(unmet) == 1:
        return unmet[0]
    problem = f"waive: no start condition of {job.name} is unmet"
    if unmet:
        which = ", ".join(map(str, unmet))
        problem = f"waive: {job.name} waits for several: {which}"
    raise UsageError(problem, hint=hint)


# ------------------------------------------------------------------------- approvals
def approve(request: Request) -> int:
    """Say yes, or with the verb `reject` no, to what is asked: of some jobs, or all."""
    from autoexp_tui.cli.open import require_person
    from autoexp_tui.model import commands

    session, names = request.session, request.names
    require_person(request.verb, session.state_dir)
    state = load(session)
    require_known(state, names)
    answers = [
        commands.Answer(
            job=job.name,
            digest=job.ask.digest,
            approved=request.verb == "approve",
            reason=request.args.reason,
        )
        for job in (state.jobs[name] for name in names or state.order)
        if job.ask is not None and job.ask.approved is None
    ]
    if not answers:
        who = "nothing asks"
        if len(names) == 1:
            is_so = state.jobs[names[0]].state.value.lower()
            who = f"{names[0]} is {is_so}, and does not ask"
        raise UsageError(f"{request.verb}: {who} for approval just now")
    return carry_out(request, answers, [answer.job for answer in answers])


# --------------------------------------------------------------------------- choosing
def load(session: SessionDir) -> SessionState:
    """The session as its journal tells it.

    Raises:
        JournalDamaged: it cannot be read.
        EnvironmentFailed: the disk refused.
    """
    from autoexp_tui.storage.journal import load_state

    return load_state(session).state


def _view_of(
    state: SessionState, live: Mapping[str, Live] = NO_LIVE, now: float = 0.0
) -> SessionView:
    """The session as the cockpit's questions see it, at `now`."""
    from autoexp_tui.cockpit.state.session import build_session
    from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
    from autoexp_tui.model.snapshot import EngineView

    return build_session(
        SnapshotBuilder().snapshot(
            state, EngineView(role="viewer", committed_at=now), live
        )
    )


def _say_lines(lines: Iterable[Line]) -> None:
    from autoexp_tui.cockpit.spans import plain

    for one in lines:
        say(plain(one).rstrip())


def _choose(request: Request, fits: Callable[[JobRecord], bool]) -> tuple[str, ...]:
    """The jobs that a command is for; of those that were named, others are told."""
    state, names, verb = load(request.session), request.names, request.verb
    if request.args.all:
        if names:
            problem = f"{verb}: either --all or names, not both"
            raise UsageError(problem, hint=f"Leave out --all, or {names[0]}.")
        return tuple(name for name in state.order if fits(state.jobs[name]))
    if not names:
        raise UsageError(f"{verb}: which jobs?", hint="Name them, or --all.")
    require_known(state, names)
    chosen = tuple(dict.fromkeys(name for name in names if fits(state.jobs[name])))
    for name in names:
        if name not in chosen:
            is_so = state.jobs[name].state.value.lower()
            say(f"{clean(name)} is {is_so}: there is nothing to {verb}")
    return chosen


def require_known(state: SessionState, names: Sequence[str]) -> None:
    """Names are jobs of the session.

    Raises:
        UsageError: one is none; names what is spelled like it.
    """
    from difflib import get_close_matches

    unknown = [name for name in names if name not in state.jobs]
    if not unknown:
        return
    near = get_close_matches(unknown[0], state.order, n=3, cutoff=0.6)
    meant = f"Did you mean {' or '.join(map(clean, near))}? " if near else ""
    raise UsageError(
        f"no job {unknown[0]!r} in session {state.session}",
        hint=f"{meant}`autoexp-sessions show {state.session}` names them.",
    )
