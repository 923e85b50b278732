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
    ask,
    carry_out,
    spelled,
    tell,
)
from autoexp_tui.model.errors import NotConfirmed, UsageError
from autoexp_tui.model.states import JobState
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    import argparse

    from autoexp_tui.cli.options import Options
    from autoexp_tui.cockpit.render.spans import Line
    from autoexp_tui.cockpit.state.session import SessionView
    from autoexp_tui.model.commands import Command, Resubmit
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.model.state import JobRecord, SessionState
    from autoexp_tui.storage.session_dir import SessionDir

    Names = Sequence[str]

NO_LIVE: Mapping[str, Live] = {}
NAMED = 5
"""How many jobs a question names before it only counts them."""


# ---------------------------------------------------------------------- the session's
def pause(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Submit nothing more; what is paused already stays so."""
    from autoexp_tui.model.commands import Pause

    del names, args
    answer = ask(session, options, [Pause()])
    return tell("pause", session, _as_it_was(answer, "it is paused already"), options)


def resume(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Submit again; what is not paused stays so."""
    from autoexp_tui.model.commands import Resume

    del names, args
    answer = ask(session, options, [Resume()])
    return tell("resume", session, _as_it_was(answer, "it is not paused"), options)


def _as_it_was(answer: Answer, note: str) -> Answer:
    """A wish that is fulfilled already is no refusal."""
    if answer.code != "nothing_to_do":
        return answer
    return replace(answer, outcome="done", why="", code="", note=note)


# -------------------------------------------------------------------------- the jobs'
def kill(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """End jobs that wait or run."""
    from autoexp_tui.model.commands import Kill
    from autoexp_tui.model.wording import plural

    jobs = _chosen(session, names, args, lambda job: not job.ended)
    if jobs and not options.yes:
        _say_what_is_lost(session, jobs)
    if jobs:
        confirm(options, f"kill {plural(len(jobs), 'job')}: {_named(jobs)}")
    command = Kill(jobs=jobs, reason=args.reason)
    return _for_jobs("kill", session, options, jobs, command)


def _say_what_is_lost(session: SessionDir, jobs: Names) -> None:
    from autoexp_tui.cli.session_verbs.probe import look_at
    from autoexp_tui.cockpit.render.questions import kill_stakes
    from autoexp_tui.cockpit.state.kill_cost import checkpoint_places
    from autoexp_tui.storage.checkpoint_files import look_for_checkpoints

    sight = look_at(session)
    view = _view_of(sight.state, sight.live, sight.now)
    chosen = view.named(jobs)
    looks = look_for_checkpoints(checkpoint_places(chosen, view))
    _say_lines(kill_stakes(chosen, view, looks))


def retry(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Bring back jobs that ended, and with them what ended only because of them."""
    from autoexp_tui.model.commands import Resubmit
    from autoexp_tui.model.resubmission import may_come_back
    from autoexp_tui.model.states import REVIVABLE

    fits = _ended_badly if args.all else may_come_back
    jobs = _chosen(session, names, args, fits)
    records = load(session).jobs
    # What is done would go on from its end, and do nothing.
    anew = all(records[name].state not in REVIVABLE for name in jobs)
    overrides = tuple(args.set)
    for text in overrides:
        _require_override(text)
    command = Resubmit(
        jobs=jobs,
        from_checkpoint=not anew,
        overrides=overrides,
        use_files=args.followers == "use",
    )
    if jobs:
        _say_what_comes_back(load(session), command)
    return _for_jobs("retry", session, options, jobs, command)


def _say_what_comes_back(state: SessionState, command: Resubmit) -> None:
    """Where other values write, who comes back, and what their followers will read."""
    from autoexp_tui.cockpit.render.questions import resubmit_stakes, same_place

    view = _view_of(state)
    jobs = view.named(command.jobs)
    brought, followers = resubmit_stakes(jobs, view)
    place = (same_place(jobs),) if command.overrides else ()
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
    from autoexp_tui.model.states import REVIVABLE

    return job.state in REVIVABLE


def skip(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Do not run jobs that have not started."""
    from autoexp_tui.model.commands import Skip

    jobs = _chosen(session, names, args, lambda job: not job.started)
    command = Skip(jobs=jobs, reason=args.reason)
    return _for_jobs("skip", session, options, jobs, command)


def _for_jobs(
    verb: str,
    session: SessionDir,
    options: Options,
    jobs: tuple[str, ...],
    command: Command,
) -> int:
    if jobs:
        return carry_out(verb, session, options, [command], jobs)
    answer = Answer(
        outcome="refused", why=f"nothing to {verb}: no job is in that state"
    )
    return tell(verb, session, answer, options)


def waive(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Let a start condition of a waiting job count as passed."""
    from autoexp_tui.cli.open import require_person
    from autoexp_tui.model.commands import Waive

    require_person("waive", session.state_dir)
    if not names:
        raise UsageError(
            "waive: a condition of which job?",
            hint=f"{spelled('show', session)} names the jobs.",
        )
    state = load(session)
    require_known(state, names[:1])
    number = _condition(session, state.jobs[names[0]], names[1:])
    command = Waive(job=names[0], condition=number - 1, reason=args.reason)
    return carry_out("waive", session, options, [command], names[:1])


def _condition(session: SessionDir, job: JobRecord, given: Names) -> int:
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
    if not unmet:
        problem = f"waive: no start condition of {job.name} is unmet"
        raise UsageError(problem, hint=hint)
    which = ", ".join(map(str, unmet))
    raise UsageError(f"waive: {job.name} waits for several: {which}", hint=hint)


# ------------------------------------------------------------------------- approvals
def approve(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Say yes to what is asked: of the named jobs, or all of it."""
    return _answer("approve", session, names, args.reason, options)


def reject(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Say no to what is asked: of the named jobs, or all of it."""
    return _answer("reject", session, names, args.reason, options)


def _answer(
    verb: str, session: SessionDir, names: Names, reason: str, options: Options
) -> int:
    from autoexp_tui.cli.open import require_person
    from autoexp_tui.model import commands

    require_person(verb, session.state_dir)
    state = load(session)
    require_known(state, names)
    asking = [state.jobs[name] for name in names or state.order]
    answers = [
        commands.Answer(
            job=job.name,
            digest=job.ask.digest,
            approved=verb == "approve",
            reason=reason,
        )
        for job in asking
        if job.ask is not None and job.ask.approved is None
    ]
    if not answers:
        raise UsageError(f"{verb}: {_who(state, names)} for approval just now")
    jobs = [answer.job for answer in answers]
    return carry_out(verb, session, options, answers, jobs)


def _who(state: SessionState, names: Names) -> str:
    if len(names) != 1:
        return "nothing asks"
    return f"{names[0]} is {state.jobs[names[0]].state.value.lower()}, and does not ask"


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
    from autoexp_tui.cockpit.state.session import observe
    from autoexp_tui.engine.snapshot_publisher import Publisher
    from autoexp_tui.model.snapshot import EngineView

    return observe(
        Publisher().snapshot(state, EngineView(role="viewer", committed_at=now), live)
    )


def _say_lines(lines: Iterable[Line]) -> None:
    from autoexp_tui.cockpit.render.spans import plain

    for one in lines:
        say(plain(one).rstrip())


def _chosen(
    session: SessionDir,
    names: Names,
    args: argparse.Namespace,
    fits: Callable[[JobRecord], bool],
) -> tuple[str, ...]:
    """The jobs that a command is for; of those that were named, others are told."""
    state = load(session)
    if args.all:
        if names:
            problem = f"{args.verb}: either --all or names, not both"
            raise UsageError(problem, hint=f"Leave out --all, or {names[0]}.")
        return tuple(name for name in state.order if fits(state.jobs[name]))
    if not names:
        raise UsageError(f"{args.verb}: which jobs?", hint="Name them, or --all.")
    require_known(state, names)
    chosen = tuple(dict.fromkeys(name for name in names if fits(state.jobs[name])))
    for name in names:
        if name not in chosen:
            is_so = state.jobs[name].state.value.lower()
            say(f"{clean(name)} is {is_so}: there is nothing to {args.verb}")
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


def _named(jobs: Sequence[str]) -> str:
    told = ", ".join(map(clean, jobs[:NAMED]))
    return f"{told} and {len(jobs) - NAMED} more" if len(jobs) > NAMED else told


def confirm(options: Options, what: str) -> None:
    """Go on only with --yes.

    Raises:
        NotConfirmed: it was not given; nothing was done.
    """
    if not options.yes:
        raise NotConfirmed(f"this would {what}", hint="Add --yes to do it.")
