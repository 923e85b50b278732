"""A command of autoexp-sessions: where an engine lives it goes through its inbox, and
the answer is read from the journal; else one is started for as long as it takes."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from autoexp_tui.cli.diagnostics import ExitCode, say
from autoexp_tui.cli.open import SessionOpener
from autoexp_tui.cli.options import name_session
from autoexp_tui.cli.session_verbs.probe import Request
from autoexp_tui.effects.effects import CancelTasks, ComposeJob
from autoexp_tui.engine.live import LiveHandle
from autoexp_tui.engine.viewer import ViewerHandle
from autoexp_tui.events.events import CommandRefused, EffectOrdered
from autoexp_tui.model.commands import Command
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.wording import sentence
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.text.sanitize import clean

ANSWER_SECONDS = 30.0
"""How long a command is given to show in the session's events."""
Handle = LiveHandle | ViewerHandle


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


def send(request: Request, commands: Sequence[Command]) -> Answer:
    """Send commands one after the other; the first that is not done ends it."""
    session = request.session
    handle = SessionOpener(request.options).enter(str(session.path))
    answer = Answer(outcome="done")
    try:
        for command in commands:
            if isinstance(handle, ViewerHandle):
                sent = handle.send_now(command, by="script")
            else:
                sent = handle.send(command, by="script")
            answer = _read_answer(session, handle, _wait(handle, sent), sent)
            if answer.outcome != "done":
                break
    finally:
        handle.close()
    return answer


def _wait(handle: Handle, sent: str) -> Snapshot:
    """The state once the command is known and, where we are the engine, carried out.

    Jobs that are planned anew as the command says may yet be refused.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        snapshot = handle.snapshot()
        if _is_known(snapshot, sent) and not _is_ordered(snapshot, sent, ComposeJob):
            confirmed = not _is_ordered(snapshot, sent, CancelTasks)
            if confirmed if handle.role == "viewer" else _is_quiet(snapshot):
                return snapshot
        elif not snapshot.engine.owner_alive:
            return snapshot  # nobody is there to answer
        time.sleep(0.05)
    return handle.snapshot()


def _is_known(snapshot: Snapshot, sent: str) -> bool:
    return any(record.command_id == sent for record in snapshot.events)


def _is_ordered(snapshot: Snapshot, sent: str, kind: type[Effect]) -> bool:
    """Whether an order of a kind that the command gave is still on its way."""
    ordered = {
        record.event.effect_id
        for record in snapshot.events
        if record.command_id == sent and isinstance(record.event, EffectOrdered)
    }
    return any(
        isinstance(pending.effect, kind) and pending.effect_id in ordered
        for pending in snapshot.pending
    )


def _is_quiet(snapshot: Snapshot) -> bool:
    """Nothing is on its way: neither an order, nor the end of what was ended."""
    ending = (
        job.attempt is not None and job.attempt.is_told_to_end and not job.ended
        for job in snapshot.jobs
    )
    return not snapshot.pending and not any(ending)


def _read_answer(
    session: SessionDir, handle: Handle, snapshot: Snapshot, sent: str
) -> Answer:
    here = handle.role == "live"
    engine: Literal["running", "none"] = "none" if here else "running"
    again, show = format_verb("restart", session), format_verb("show", session)
    if not _is_known(snapshot, sent):
        try:  # the lease: the journal may not know its engine yet
            holder = LeaseWatch(session).find_holder()
            owner = holder.describe() if holder else str(holder)
        except EnvironmentFailed as error:
            owner = error.line
        who = clean(f"the engine of {session.id} ({owner})")
        if not snapshot.engine.owner_alive:
            why = f"{who} has ended; {again} goes on."
            return Answer(outcome="unanswered", why=why, engine="none")
        why = f"{who} did not answer within {ANSWER_SECONDS:.0f} s; the command waits "
        why += f"in its inbox, or was just taken. {show} tells how things stand."
        return Answer(outcome="unanswered", why=why)
    for record in snapshot.events:
        event = record.event
        if record.command_id == sent and isinstance(event, CommandRefused):
            why, code = sentence(event.why, snapshot.now), event.why.code
            return Answer(outcome="refused", why=why, code=code, engine=engine)
    note = ""
    if here and snapshot.open:
        late = "" if _is_quiet(snapshot) else "not all of it is answered yet; "
        note = f"{late}no engine runs this session now; {again} starts one"
    if _is_ordered(snapshot, sent, CancelTasks):
        trouble = snapshot.engine.executor_error or "no answer yet"
        why = (
            f"the end was ordered, and is not confirmed: {clean(trouble)}. What was to "
            f"end may still run. {note or f'{show} tells more.'}"
        )
        return Answer(outcome="unanswered", why=why, engine=engine)
    return Answer(outcome="done", engine=engine, note=note)


def format_verb(verb: str, session: SessionDir) -> str:
    """The command that applies another verb to the session, in backticks."""
    return f"`autoexp-sessions {verb} {name_session(session.id, session.state_dir)}`"


def print_answer(request: Request, answer: Answer, jobs: Sequence[str] = ()) -> int:
    """Say what came of a command, for people or programs; its exit code."""
    done = answer.outcome == "done"
    if request.options.json:
        record = {
            "session": request.session.id,
            "verb": request.verb,
            "jobs": list(jobs),
            "outcome": answer.outcome,
            "why": answer.why,
            "engine": answer.engine,
        }
        print(json.dumps(record))
    elif done:
        print("\n".join(filter(None, ("done", answer.note))))
    else:
        refused = "refused: " if answer.outcome == "refused" else ""
        say(f"{refused}{answer.why}")
    return ExitCode.OK if done else ExitCode.JOBS_NOT_COMPLETED
