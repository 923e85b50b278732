"""autoexp-sessions stop and restart: who runs a session, and that nobody does."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.session_verbs import send_command
from autoexp_tui.cli.session_verbs.job_verbs import load
from autoexp_tui.cli.session_verbs.send_command import Answer, Request, ask, tell
from autoexp_tui.model.errors import EnvironmentFailed, NotConfirmed, SessionOwned
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.storage.session_dir import SessionDir

_LOG_LINES = 3


# ------------------------------------------------------------------------------ stop
def stop(request: Request) -> int:
    """End the session's engine; with --jobs also all that runs or waits."""
    from autoexp_tui.model.commands import StopEngine

    session, with_jobs = request.session, request.args.jobs
    if with_jobs and not request.options.yes:
        from autoexp_tui.cli.leave import place

        raise NotConfirmed(
            "stopping with --jobs cancels everything that runs or waits",
            hint=f"autoexp-sessions stop {session.id} --jobs --yes"
            f"{place(session.state_dir)}",
        )
    if not _may_be_run(session) and not (with_jobs and _count_left(session)):
        note = f"no engine runs {session.id}"
        return tell(request, Answer(outcome="done", engine="none", note=note))
    answer = ask(request, [StopEngine(cancel_jobs=with_jobs)])
    return tell(request, _wait_end(session) if answer.outcome == "done" else answer)


def _may_be_run(session: SessionDir) -> bool:
    from autoexp_tui.storage.lease import LeaseWatch
    from autoexp_tui.storage.process_identity import Alive

    watch = LeaseWatch(session)
    return watch.alive(watch.holder(), 0.0) is not Alive.NO


def _count_left(session: SessionDir) -> int:
    """The jobs that have not ended."""
    return sum(not job.ended for job in load(session).jobs.values())


def _wait_end(session: SessionDir) -> Answer:
    """Once the engine has let go, or with a word that it has not yet."""
    from autoexp_tui.model.wording import plural

    deadline = time.monotonic() + send_command.ANSWER_SECONDS
    while _may_be_run(session):
        if time.monotonic() >= deadline:
            left = plural(_count_left(session), "job")
            note = f"the engine stops when its jobs have ended: {left} to go"
            return Answer(outcome="done", note=note)
        time.sleep(0.1)
    return Answer(outcome="done", engine="none")


# --------------------------------------------------------------------------- restart
def restart(request: Request) -> int:
    """Leave a detached engine behind that goes on with a session that has none.

    Raises:
        SessionOwned: an engine runs it, or one on another host may.
        EnvironmentFailed: no engine came up.
    """
    from autoexp_tui.cli.leave import come_back, start_heir
    from autoexp_tui.storage.lease import highest_epoch

    session, options = request.session, request.options
    require_free(session)
    runs = _count_left(session) > 0
    if not runs:
        text = f"all jobs of {session.id} have ended: nothing to go on"
    elif start_heir(session, options.approve, highest_epoch(session)):
        text = f"an engine goes on with {session.id}; {come_back(session)} shows it"
    else:
        log = session.path / "heir.log"
        raise EnvironmentFailed("no engine came up", str(log), _last_lines(session))
    if options.json:
        record = {"session": session.id, "verb": "restart", "outcome": "done"}
        print(json.dumps({**record, "engine": "running" if runs else "none"}))
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
    from autoexp_tui.cli.leave import place
    from autoexp_tui.storage.lease import LeaseWatch
    from autoexp_tui.storage.process_identity import Alive

    watch = LeaseWatch(session)
    holder = watch.holder()
    alive = watch.alive(holder, 0.0)
    where = place(session.state_dir)
    stop = f"`autoexp-sessions stop {session.id}{where}`"
    monitor = f"`autoexp-monitor --session {session.id}{where}`"
    if alive is Alive.YES:
        raise SessionOwned(
            f"session {session.id} is run by {holder.as_seen() if holder else holder}",
            hint=f"{stop} ends that engine and leaves its jobs running; "
            f"{monitor} watches it.",
        )
    if holder is not None and alive is Alive.UNKNOWN:
        raise SessionOwned(
            f"session {session.id} may be run by {holder}, on another host",
            hint=f"If it lives, {stop} ends it. If it is dead, {monitor} takes the "
            "session over once its heartbeat has been seen still for "
            f"{holder.stale_seconds:.0f} s.",
        )
