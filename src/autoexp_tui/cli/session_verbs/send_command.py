"""A command of autoexp-sessions on its way: sent to whoever runs it, or done here.

Where an engine lives, here or on another host, a command goes through the inbox and its
answer is read from the journal. Where none does, one is started for as long as the
command takes, and the session is left without one, as it was found.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autoexp_tui.cli.diagnostics import ExitCode, say
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.cli.options import Options
    from autoexp_tui.effects.effects import Effect
    from autoexp_tui.engine.live import LiveHandle
    from autoexp_tui.engine.viewer import ViewerHandle
    from autoexp_tui.model.commands import Command
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.storage.session_dir import SessionDir

    Handle = LiveHandle | ViewerHandle
    Names = Sequence[str]

ANSWER_SECONDS = 30.0
"""How long a command is given to show in the session's events."""


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
    from autoexp_tui.cli import open as opening

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
        if _is_known(snapshot, sent) and not _composes(snapshot, sent):
            over = not _is_unconfirmed(snapshot, sent)
            if over if handle.role == "viewer" else _quiet(snapshot):
                return snapshot
        elif not snapshot.engine.owner_alive:
            return snapshot  # nobody is there to answer
        time.sleep(0.05)
    return handle.snapshot()


def _is_known(snapshot: Snapshot, sent: str) -> bool:
    return any(record.command_id == sent for record in snapshot.events)


def _ordered(snapshot: Snapshot, sent: str, kind: type[Effect]) -> bool:
    """Whether an order of a kind that the command gave is still on its way."""
    from autoexp_tui.events.events import EffectOrdered

    ordered = {
        record.event.effect_id
        for record in snapshot.events
        if record.command_id == sent and isinstance(record.event, EffectOrdered)
    }
    return any(
        isinstance(pending.effect, kind) and pending.effect_id in ordered
        for pending in snapshot.pending
    )


def _composes(snapshot: Snapshot, sent: str) -> bool:
    """Whether jobs are still planned anew as the command says: that may fail."""
    from autoexp_tui.effects.effects import ComposeJob

    return _ordered(snapshot, sent, ComposeJob)


def _is_unconfirmed(snapshot: Snapshot, sent: str) -> bool:
    """Whether the command ordered ends that nobody has confirmed."""
    from autoexp_tui.effects.effects import CancelTasks

    return _ordered(snapshot, sent, CancelTasks)


def _quiet(snapshot: Snapshot) -> bool:
    """Nothing is on its way: neither an order, nor the end of what was ended."""
    ending = (
        job.attempt is not None and job.attempt.told_to_end and not job.ended
        for job in snapshot.jobs
    )
    return not snapshot.pending and not any(ending)


def _read(session: SessionDir, handle: Handle, snapshot: Snapshot, sent: str) -> Answer:
    from autoexp_tui.events.events import CommandRefused
    from autoexp_tui.model.wording import sentence

    here = handle.role == "live"
    engine: Literal["running", "none"] = "none" if here else "running"
    if not _is_known(snapshot, sent):
        return _silence(session, snapshot, sent)
    for record in snapshot.events:
        refused = record.event
        if record.command_id == sent and isinstance(refused, CommandRefused):
            why = sentence(refused.why, snapshot.now)
            return Answer(
                outcome="refused", why=why, code=refused.why.code, engine=engine
            )
    note = _note(session, snapshot, here=here)
    if _is_unconfirmed(snapshot, sent):
        trouble = snapshot.engine.executor_error or "no answer yet"
        why = (
            f"the end was ordered, and is not confirmed: {clean(trouble)}. What was to "
            f"end may still run. {note or spelled('show', session) + ' tells more.'}"
        )
        return Answer(outcome="unanswered", why=why, engine=engine)
    return Answer(outcome="done", engine=engine, note=note)


def _note(session: SessionDir, snapshot: Snapshot, *, here: bool) -> str:
    if not here or not snapshot.open:
        return ""
    late = "" if _quiet(snapshot) else "not all of it is answered yet; "
    again = spelled("restart", session)
    return f"{late}no engine runs this session now; {again} starts one"


def _silence(session: SessionDir, snapshot: Snapshot, sent: str) -> Answer:
    lies = _lies_in_inbox(session, sent)
    where = "the command waits in its inbox" if lies else "the command was taken"
    who = clean(f"the engine of {session.id} ({_holder(session)})")
    if not snapshot.engine.owner_alive:
        why = f"{who} has ended; {where}. {spelled('restart', session)} goes on."
        return Answer(outcome="unanswered", why=why, engine="none")
    why = (
        f"{who} did not answer within {ANSWER_SECONDS:.0f} s; {where}. "
        f"{spelled('show', session)} tells how things stand."
    )
    return Answer(outcome="unanswered", why=why)


def _holder(session: SessionDir) -> str:
    """Who has the lease: the journal may not know it yet."""
    from autoexp_tui.storage.lease import LeaseWatch

    try:
        holder = LeaseWatch(session).holder()
        return holder.as_seen() if holder else str(holder)
    except EnvironmentFailed as error:
        return error.line


def _lies_in_inbox(session: SessionDir, sent: str) -> bool:
    try:
        return any(sent in path.name for path in session.inbox.iterdir())
    except OSError:
        return False


def spelled(verb: str, session: SessionDir) -> str:
    """The command that applies another verb to the session, in backticks."""
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
