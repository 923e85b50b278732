"""Commands of autoexp-sessions to a session: sent to whoever runs it, or done here.

Where an engine lives, here or on another host, a command goes through the inbox and its
answer is read from the journal. Where none does, one is started for as long as the
command takes, and the session is left without one, as it was found.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from autoexp_tui.cli.diagnostics import ExitCode, say
from autoexp_tui.core.clean import clean
from autoexp_tui.core.errors import EnvironmentFailed, NotConfirmed, UsageError
from autoexp_tui.core.states import JobState

if TYPE_CHECKING:
    import argparse

    from autoexp_tui.adapters.session_dir import SessionDir
    from autoexp_tui.cli.options import Options
    from autoexp_tui.core.commands import Command
    from autoexp_tui.core.snapshot import Snapshot
    from autoexp_tui.core.state import JobRecord, SessionState
    from autoexp_tui.engine.live import LiveHandle
    from autoexp_tui.engine.viewer import ViewerHandle

    Handle = LiveHandle | ViewerHandle
    Names = Sequence[str]

ANSWER_SECONDS = 30.0
"""How long a command is given to show in the session's events."""
NAMED = 5
"""How many jobs a question names before it only counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a command, or of several of one kind."""

    outcome: Literal["done", "refused", "unanswered"]
    why: str = ""
    """Of a refusal, and of a silence: a sentence, cleaned."""
    code: str = ""
    """Of a refusal's reason."""
    engine: Literal["running", "none"] = "running"
    """Whether one runs the session now."""
    note: str = ""
    """What a person should know beside it."""


# --------------------------------------------------------------------------- sending
def carry_out(
    verb: str,
    session: SessionDir,
    options: Options,
    commands: Sequence[Command],
    jobs: Sequence[str] = (),
) -> int:
    """Carry commands out, tell what came of them, and give the exit code.

    Raises:
        AutoexpError: the session cannot be taken up, or the command not be left there.
    """
    answer = ask(session, options, commands)
    return tell(verb, session, answer, options, jobs)


def ask(session: SessionDir, options: Options, commands: Sequence[Command]) -> Answer:
    """Send commands one after the other; the first that is not done ends it."""
    from autoexp_tui.cli import opening

    handle = opening.any_handle(session, options)
    answer = Answer(outcome="done")
    try:
        for command in commands:
            sent = _send(handle, command)
            snapshot = _wait(handle, sent)
            answer = _read(session, handle, snapshot, sent)
            if answer.outcome != "done":
                break
    finally:
        handle.close()
    return answer


def _send(handle: Handle, command: Command) -> str:
    from autoexp_tui.engine.viewer import ViewerHandle

    if isinstance(handle, ViewerHandle):
        return handle.send_now(command, by="script")
    return handle.send(command, by="script")


def _wait(handle: Handle, sent: str) -> Snapshot:
    """The state once the command is known and, where we are the engine, carried out."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        snapshot = handle.snapshot()
        if _is_known(snapshot, sent):
            if handle.role == "viewer" or _quiet(snapshot):
                return snapshot
        elif not snapshot.engine.owner_alive:
            return snapshot  # nobody is there to answer
        time.sleep(0.05)
    return handle.snapshot()


def _is_known(snapshot: Snapshot, sent: str) -> bool:
    return any(record.command_id == sent for record in snapshot.events)


def _quiet(snapshot: Snapshot) -> bool:
    """Nothing is on its way: neither an order, nor the end of what was ended."""
    ending = (
        job.attempt is not None and job.attempt.told_to_end and not job.ended
        for job in snapshot.jobs
    )
    return not snapshot.pending and not any(ending)


def _read(session: SessionDir, handle: Handle, snapshot: Snapshot, sent: str) -> Answer:
    from autoexp_tui.core.events import CommandRefused
    from autoexp_tui.core.wording import sentence

    here = handle.role == "live"
    engine: Literal["running", "none"] = "none" if here else "running"
    if not _is_known(snapshot, sent):
        return _silence(session, snapshot, sent)
    for record in snapshot.events:
        refused = record.event
        if record.command_id == sent and isinstance(refused, CommandRefused):
            why = sentence(refused.why, snapshot.t)
            return Answer(
                outcome="refused", why=why, code=refused.why.code, engine=engine
            )
    return Answer(
        outcome="done", engine=engine, note=_note(session, snapshot, here=here)
    )


def _note(session: SessionDir, snapshot: Snapshot, *, here: bool) -> str:
    if not here or snapshot.finished:
        return ""
    late = "" if _quiet(snapshot) else "not all of it is answered yet; "
    again = _spelled("restart", session)
    return f"{late}no engine runs this session now; {again} starts one"


def _silence(session: SessionDir, snapshot: Snapshot, sent: str) -> Answer:
    lies = _lies_in_inbox(session, sent)
    where = "the command waits in its inbox" if lies else "the command was taken"
    who = clean(f"the engine of {session.id} ({_holder(session)})")
    if not snapshot.engine.owner_alive:
        why = f"{who} has ended; {where}. {_spelled('restart', session)} goes on."
        return Answer(outcome="unanswered", why=why, engine="none")
    why = (
        f"{who} did not answer within {ANSWER_SECONDS:.0f} s; {where}. "
        f"{_spelled('show', session)} tells how things stand."
    )
    return Answer(outcome="unanswered", why=why)


def _holder(session: SessionDir) -> str:
    """Who has the lease: the journal may not know it yet."""
    from autoexp_tui.adapters.lease import LeaseWatch

    try:
        return str(LeaseWatch(session).holder())
    except EnvironmentFailed as error:
        return error.line


def _lies_in_inbox(session: SessionDir, sent: str) -> bool:
    try:
        return any(sent in path.name for path in session.inbox.iterdir())
    except OSError:
        return False


def _spelled(verb: str, session: SessionDir) -> str:
    from autoexp_tui.cli.detach import place

    return f"`autoexp-sessions {verb} {session.id}{place(session.state_dir)}`"


# --------------------------------------------------------------------------- telling
def tell(
    verb: str,
    session: SessionDir,
    answer: Answer,
    options: Options,
    jobs: Sequence[str] = (),
) -> int:
    """Say what came of a command, for people or programs; its exit code."""
    done = answer.outcome == "done"
    if options.json:
        print(json.dumps(_as_json(verb, session, answer, jobs)))
    elif done:
        print("done")
        if answer.note:
            print(answer.note)
    else:
        refused = "refused: " if answer.outcome == "refused" else ""
        say(f"{refused}{answer.why}")
    return ExitCode.OK if done else ExitCode.JOBS_NOT_COMPLETED


def _as_json(
    verb: str, session: SessionDir, answer: Answer, jobs: Sequence[str]
) -> dict[str, object]:
    return {
        "session": session.id,
        "verb": verb,
        "jobs": list(jobs),
        "outcome": answer.outcome,
        "why": answer.why,
        "engine": answer.engine,
    }


def confirm(options: Options, what: str) -> None:
    """Go on only with --yes.

    Raises:
        NotConfirmed: it was not given; nothing was done.
    """
    if not options.yes:
        raise NotConfirmed(f"this would {what}", hint="Add --yes to do it.")


# ---------------------------------------------------------------------- the session's
def pause(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Submit nothing more; what is paused already stays so."""
    from autoexp_tui.core.commands import Pause

    del names, args
    answer = ask(session, options, [Pause()])
    return tell("pause", session, _as_it_was(answer, "it is paused already"), options)


def resume(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Submit again; what is not paused stays so."""
    from autoexp_tui.core.commands import Resume

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
    from autoexp_tui.core.commands import Kill
    from autoexp_tui.core.wording import plural

    jobs = _chosen(session, names, args, lambda job: not job.ended)
    if jobs:
        confirm(options, f"kill {plural(len(jobs), 'job')}: {_named(jobs)}")
    command = Kill(jobs=jobs, reason=args.reason)
    return _for_jobs("kill", session, options, jobs, command)


def retry(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Bring back jobs that ended, and with them what ended only because of them."""
    from autoexp_tui.core.commands import Resubmit
    from autoexp_tui.core.revival import may_come_back
    from autoexp_tui.core.states import REVIVABLE

    fits = _ended_badly if args.all else may_come_back
    jobs = _chosen(session, names, args, fits)
    records = load(session).jobs
    # What is done would go on from its end, and do nothing.
    anew = all(records[name].state not in REVIVABLE for name in jobs)
    command = Resubmit(jobs=jobs, from_checkpoint=not anew)
    return _for_jobs("retry", session, options, jobs, command)


def _ended_badly(job: JobRecord) -> bool:
    from autoexp_tui.core.states import REVIVABLE

    return job.state in REVIVABLE


def skip(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Do not run jobs that have not started."""
    from autoexp_tui.core.commands import Skip

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
    from autoexp_tui.core.commands import Waive

    if not names:
        raise UsageError(
            "waive: a condition of which job?",
            hint=f"{_spelled('show', session)} names the jobs.",
        )
    state = load(session)
    require_known(state, names[:1])
    number = _condition(session, state.jobs[names[0]], names[1:])
    command = Waive(job=names[0], condition=number - 1, reason=args.reason)
    return carry_out("waive", session, options, [command], names[:1])


def _condition(session: SessionDir, job: JobRecord, given: Names) -> int:
    """The number, from 1, of the start condition that is meant."""
    from autoexp_tui.core.verdicts import Result

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
    from autoexp_tui.core import commands

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
    from autoexp_tui.adapters.journal import load_state

    return load_state(session).state


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
