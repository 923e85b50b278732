"""autoexp-sessions stop and restart: who runs a session, and that nobody does."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.session_verbs import send_command as session_sending
from autoexp_tui.cli.session_verbs.commands import load
from autoexp_tui.cli.session_verbs.send_command import Answer, ask, tell
from autoexp_tui.model.errors import EnvironmentFailed, NotConfirmed, SessionOwned
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from autoexp_tui.cli.options import Options
    from autoexp_tui.storage.lease import Holder
    from autoexp_tui.storage.session_dir import SessionDir

    Names = Sequence[str]

_LOG_LINES = 3


# ------------------------------------------------------------------------------ stop
def stop(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """End the session's engine; with --jobs also all that runs or waits."""
    from autoexp_tui.model.commands import StopEngine

    del names
    if args.jobs and not options.yes:
        from autoexp_tui.cli.detach import place

        raise NotConfirmed(
            "stopping with --jobs cancels everything that runs or waits",
            hint=f"autoexp-sessions stop {session.id} --jobs --yes"
            f"{place(session.state_dir)}",
        )
    if not _may_be_run(session) and not (args.jobs and _has_jobs_left(session)):
        answer = Answer(
            outcome="done", engine="none", note=f"no engine runs {session.id}"
        )
        return tell("stop", session, answer, options)
    answer = ask(session, options, [StopEngine(cancel_jobs=args.jobs)])
    if answer.outcome == "done":
        answer = _ended(session)
    return tell("stop", session, answer, options)


def _may_be_run(session: SessionDir) -> bool:
    from autoexp_tui.storage.lease import LeaseWatch
    from autoexp_tui.storage.process_identity import Alive

    watch = LeaseWatch(session)
    return watch.alive(watch.holder(), 0.0) is not Alive.NO


def _has_jobs_left(session: SessionDir) -> bool:
    return any(not job.ended for job in load(session).jobs.values())


def _ended(session: SessionDir) -> Answer:
    """Once the engine has let go, or with a word that it has not yet."""
    from autoexp_tui.model.wording import plural

    deadline = time.monotonic() + session_sending.ANSWER_SECONDS
    while _may_be_run(session):
        if time.monotonic() >= deadline:
            left = sum(not job.ended for job in load(session).jobs.values())
            note = f"the engine stops when its jobs have ended: {plural(left, 'job')}"
            return Answer(outcome="done", note=f"{note} to go")
        time.sleep(0.1)
    return Answer(outcome="done", engine="none")


# --------------------------------------------------------------------------- restart
def restart(
    session: SessionDir, names: Names, args: argparse.Namespace, options: Options
) -> int:
    """Leave a detached engine behind that goes on with a session that has none.

    Raises:
        SessionOwned: an engine runs it, or one on another host may.
        EnvironmentFailed: no engine came up.
    """
    from autoexp_tui.cli.detach import come_back, start_heir
    from autoexp_tui.storage.lease import highest_epoch

    del names, args
    require_free(session)
    if not _has_jobs_left(session):
        return _restarted(
            session, options, f"all jobs of {session.id} have ended: nothing to go on"
        )
    if not start_heir(session, options.approve, highest_epoch(session)):
        log = session.path / "heir.log"
        raise EnvironmentFailed("no engine came up", str(log), _last_lines(session))
    return _restarted(
        session,
        options,
        f"an engine goes on with {session.id}; {come_back(session)} shows it",
        runs=True,
    )


def _restarted(
    session: SessionDir, options: Options, text: str, *, runs: bool = False
) -> int:
    if options.json:
        told = {"session": session.id, "verb": "restart", "outcome": "done"}
        print(json.dumps({**told, "engine": "running" if runs else "none"}))
    else:
        print(text)
    return ExitCode.OK


def _last_lines(session: SessionDir) -> str:
    """What the engine that did not come up said last."""
    from autoexp_tui.storage.trust import open_session_file

    try:
        with open_session_file(session.path / "heir.log") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            data = file.read(4096)
    except OSError:
        return ""
    lines = [line for line in data.decode(errors="replace").splitlines() if line]
    return "\n  ".join(clean(line) for line in lines[-_LOG_LINES:])


def require_free(session: SessionDir) -> None:
    """No engine runs the session, as far as can be told from here.

    Raises:
        SessionOwned: one does, or one on another host may: who, and what to do.
    """
    from autoexp_tui.storage.lease import LeaseWatch
    from autoexp_tui.storage.process_identity import Alive

    watch = LeaseWatch(session)
    holder = watch.holder()
    alive = watch.alive(holder, 0.0)
    if alive is Alive.YES:
        raise _run_by(session, holder)
    if holder is not None and alive is Alive.UNKNOWN:
        raise _maybe_run_by(session, holder)


def _run_by(session: SessionDir, holder: Holder | None) -> SessionOwned:
    from autoexp_tui.cli.detach import place

    where = place(session.state_dir)
    return SessionOwned(
        f"session {session.id} is run by {holder.as_seen() if holder else holder}",
        hint=f"`autoexp-sessions stop {session.id}{where}` ends that engine and leaves "
        "its jobs running; "
        f"`autoexp-monitor --session {session.id}{where}` watches it.",
    )


def _maybe_run_by(session: SessionDir, holder: Holder) -> SessionOwned:
    from autoexp_tui.cli.detach import place

    where, seconds = place(session.state_dir), f"{holder.stale_seconds:.0f} s"
    return SessionOwned(
        f"session {session.id} may be run by {holder}, on another host",
        hint=f"If it lives, `autoexp-sessions stop {session.id}{where}` ends it. If it "
        f"is dead, `autoexp-monitor --session {session.id}{where}` takes the session "
        f"over once its heartbeat has been seen still for {seconds}.",
    )
