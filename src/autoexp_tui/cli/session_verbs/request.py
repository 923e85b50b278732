"""What a verb is asked for, one look at its session, and a command sent to its engine.

Volatile detail (the queue's reasons, rates) is written only while somebody watches: a
look is a viewer for a moment, no longer than `PROBE_SECONDS`. Where an engine lives a
command goes through its inbox, and the answer is read from the journal; else one is
started for as long as it takes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

from autoexp_tui.cli.diagnostics import ExitCode, say, wait_until
from autoexp_tui.cli.open import SessionOpener, find_session
from autoexp_tui.cli.options import Options, name_session
from autoexp_tui.cockpit.state.session import SessionView, build_session
from autoexp_tui.effects.effects import CancelTasks, ComposeJob, JoinJobs
from autoexp_tui.engine.live import LiveHandle, ViewerHandle
from autoexp_tui.engine.snapshot_publisher import SnapshotBuilder
from autoexp_tui.events.events import CommandRefused, EffectOrdered
from autoexp_tui.model.commands import Command
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.event import Event, Recorded
from autoexp_tui.model.masking import NO_RULES, MaskRules
from autoexp_tui.model.snapshot import EngineView, Live, LiveDetail, Snapshot
from autoexp_tui.model.state import SessionState
from autoexp_tui.model.states import ACTIVE
from autoexp_tui.model.wording import sentence
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.lease import Holder, find_engine
from autoexp_tui.storage.live_sink import FileSessionWatcher
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import NoMoment, Present, parse_moment

_NO_LIVE: Mapping[str, Live] = MappingProxyType({})
PROBE_SECONDS = 3.0
"""An engine looks for viewers every two seconds."""
ANSWER_SECONDS = 30.0
"""How long a command is given to show in the session's events."""


@dataclass(frozen=True)
class Request:
    """One verb, as the command line asks for it."""

    verb: str
    words: Sequence[str]
    """What follows the verb: mostly a session's id, then names of jobs."""
    args: argparse.Namespace
    """The verb's own options."""
    options: Options

    @cached_property
    def session(self) -> SessionDir:
        """The session that the first word names; raises UsageError or
        EnvironmentFailed."""
        if not self.words:
            raise UsageError(
                f"{self.verb}: which session?",
                hint="`autoexp-sessions list` names them.",
            )
        return find_session(self.options, self.words[0])

    @property
    def names(self) -> Sequence[str]:
        """The words behind the session's id."""
        return self.words[1:]

    def print(self, record: object, lines: Iterable[str]) -> int:
        """Print a record for programs, or lines for people; the exit code."""
        print(json.dumps(record) if self.options.json else "\n".join(lines))
        return ExitCode.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A session as it was seen."""

    session: SessionDir
    state: SessionState
    holder: Holder | None
    """Of the newest lease; None before the first engine."""
    alive: Alive
    """Whether that engine lives, as far as can be told from here."""
    now: Present
    """UTC."""
    engine: EngineView | None = None
    """Its engine's own health; None while it does not tell."""
    live: Mapping[str, Live] = field(default_factory=dict)

    @property
    def mask(self) -> MaskRules:
        """What its first plan says of secrets."""
        plan = self.state.plan
        return plan.mask if plan else NO_RULES


def load(session: SessionDir) -> SessionState:
    """The session as its journal tells it; raises JournalDamaged where it cannot be
    read, EnvironmentFailed where the disk refused."""
    return load_state(session, tail=1).state


def look_at(session: SessionDir) -> Sight:
    """Look at a session once; raises JournalDamaged or EnvironmentFailed."""
    watcher = FileSessionWatcher(session, SystemClock())
    (state, _), (holder, alive) = watcher.load(), find_engine(session)
    runs = any(job.state in ACTIVE for job in state.jobs.values())
    detail = _read_detail(watcher) if runs and alive is not Alive.NO else None
    return Sight(
        session=session,
        state=state,
        holder=holder,
        alive=alive,
        now=state.present(time.time()),
        engine=detail.engine if detail else None,
        live=detail.jobs if detail else {},
    )


def build_view(
    state: SessionState,
    live: Mapping[str, Live] = _NO_LIVE,
    now: float = 0.0,
    events: Sequence[Recorded] = (),
) -> SessionView:
    """The session as the cockpit's panes and questions see it, at `now`."""
    builder, engine = SnapshotBuilder(), EngineView(role="viewer", committed_at=now)
    builder.note(events)
    return build_session(builder.build_snapshot(state, engine, live))


def _read_detail(watcher: FileSessionWatcher) -> LiveDetail | None:
    """What the engine tells besides: it writes what is new as soon as somebody watches,
    so what it does not write anew still holds, unless the journal has gone on since."""
    before = watcher.live()

    def has_news() -> bool:
        return (now := watcher.live()) is not None and now is not before

    if watcher.beat():
        wait_until(has_news, PROBE_SECONDS)
    detail = watcher.live()
    watcher.close()
    return detail


def require_jobs(
    state: SessionState, names: Sequence[str], *, questions: Collection[str] = ()
) -> None:
    """Names are jobs of the session, or among `questions`; raises UsageError."""
    for name in names:
        if name not in state.jobs and name not in questions:
            what = "job or question" if questions else "job"
            raise UsageError(
                f"no {what} {name!r} in session {state.session}",
                hint=did_you_mean(name, (*questions, *state.order), f"{what}s"),
            )


def parse_when(option: str, text: str) -> float:
    """A moment: `2h` ago, `14:02`, `03-12 14:02`; raises UsageError."""
    now = time.time()
    ago = f"-{text}" if text[:1].isdigit() and text[-1:] in "smhdnw" else text
    try:
        return parse_moment(ago, now, 0.0, now)
    except NoMoment:
        hint = "2h, 30d, 14:02, 03-12 14:02"
        raise UsageError(f"{text!r} is no time", option, hint) from None


class Answer(NamedTuple):
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


def send(
    request: Request,
    commands: Sequence[Command],
    *,
    by: str = "script",
    expected: Mapping[str, int] | None = None,
) -> Answer:
    """Send commands one after the other; the first that is not done ends it."""
    session, first = request.session, list[str]()

    def begin(engine: LiveHandle) -> None:
        first.append(engine.send(commands[0], by=by, expected=expected))

    opener = SessionOpener(replace(request.options, briefly=True))
    handle = opener.enter(str(session.path), begin)
    answer = Answer(outcome="done")
    try:
        for command in commands:
            now = handle.send_now if isinstance(handle, ViewerHandle) else handle.send
            sent = first.pop() if first else now(command, by=by, expected=expected)
            answer = _read_answer(session, _wait(handle, sent), sent)
            if answer.outcome != "done":
                break
    finally:
        handle.close()
    return answer


def _wait(handle: LiveHandle | ViewerHandle, sent: str) -> Snapshot:
    """The state once the command is known and, where we are the engine, carried out.
    Jobs that are planned anew as the command says may yet be refused."""

    def is_known() -> bool:
        snapshot = handle.snapshot()
        own, on_the_way = _list_own(snapshot, sent)
        if not own or on_the_way & {ComposeJob, JoinJobs}:
            return not snapshot.engine.owner_alive  # nobody is there to answer
        if handle.role == "viewer":
            return CancelTasks not in on_the_way
        begun = (job for job in snapshot.jobs if job.attempt and not job.ended)
        ending = any(job.attempt and job.attempt.is_told_to_end for job in begun)
        return not (snapshot.pending or ending)

    wait_until(is_known, ANSWER_SECONDS)
    return handle.snapshot()


def _list_own(
    snapshot: Snapshot, sent: str
) -> tuple[Sequence[Event], set[type[Effect]]]:
    """The events of a command, and the kinds of its orders that are on their way."""
    own = [record.event for record in snapshot.events if record.command_id == sent]
    ordered = {event.effect_id for event in own if isinstance(event, EffectOrdered)}
    pending = (order for order in snapshot.pending if order.effect_id in ordered)
    return own, {type(order.effect) for order in pending}


def _read_answer(session: SessionDir, snapshot: Snapshot, sent: str) -> Answer:
    here = snapshot.engine.role == "live"
    engine: Literal["running", "none"] = "none" if here else "running"
    again, show = format_verb("restart", session), format_verb("show", session)
    own, on_the_way = _list_own(snapshot, sent)
    if not own:
        # Of the lease: the journal may not know its engine yet.
        who = f"the engine of {session.id} ({clean(str(find_engine(session)[0]))})"
        if not snapshot.engine.owner_alive:
            why = f"{who} has ended. The command waits in its inbox; {again} takes it."
            return Answer(outcome="unanswered", why=why, engine="none")
        why = f"{who} did not answer within {ANSWER_SECONDS:.0f} s; the command waits "
        why += f"in its inbox, or was just taken. {show} tells how things stand."
        return Answer(outcome="unanswered", why=why)
    for event in own:
        if isinstance(event, CommandRefused):
            why, code = sentence(event.why, snapshot.now, keys=False), event.why.code
            return Answer(outcome="refused", why=why, code=code, engine=engine)
    leaves = here and snapshot.open
    note = f"no engine runs this session now; {again} starts one" if leaves else ""
    if CancelTasks in on_the_way:
        trouble = snapshot.engine.executor_error or "no answer yet"
        why = (
            f"the end was ordered, and is not confirmed: {clean(trouble)}. What was to "
            f"end may still run. {note or f'{show} tells more.'}"
        )
        return Answer(outcome="unanswered", why=why, engine=engine)
    return Answer(outcome="done", engine=engine, note=note)


def format_verb(verb: str, session: SessionDir, more: str = "") -> str:
    """The command that applies another verb to the session, in backticks."""
    return f"`autoexp-sessions {verb} {name_session(session.path, more)}`"


def print_answer(
    request: Request,
    answer: Answer,
    jobs: Sequence[str] = (),
    questions: Sequence[str] | None = None,
) -> int:
    """Say what came of a command, for people or programs; its exit code. `questions`:
    those it answered; None: it answers none."""
    record = {
        "session": request.session.id,
        "verb": request.verb,
        "jobs": list(jobs),
        "outcome": answer.outcome,
        "why": answer.why,
        "engine": answer.engine,
        **({} if questions is None else {"questions": list(questions)}),
    }
    if request.options.json or answer.outcome == "done":
        request.print(record, filter(None, ("done", answer.note)))
    else:
        say(f"{'refused: ' if answer.outcome == 'refused' else ''}{answer.why}")
    done = answer.outcome == "done"
    return ExitCode.OK if done else ExitCode.JOBS_NOT_COMPLETED
