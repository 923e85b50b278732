"""autoexp-sessions stop, restart, check: who runs a session, and whether it is sound.

`check` only tells, and is safe beside a living engine. With --repair and --yes a
damaged journal is gone on with as the line with `would` says; without --yes it says so
and does nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict

from autoexp_tui.cli.background import start_background
from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.options import name_session
from autoexp_tui.cli.session_verbs import send_command
from autoexp_tui.cli.session_verbs.probe import load
from autoexp_tui.cli.session_verbs.request import Request
from autoexp_tui.cli.session_verbs.send_command import (
    Answer,
    format_verb,
    print_answer,
)
from autoexp_tui.model.commands import StopEngine
from autoexp_tui.model.errors import EnvironmentFailed, NotConfirmed, SessionOwned
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.journal_repair import repair_journal
from autoexp_tui.storage.lease import LeaseWatch, find_highest_epoch
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_check import SessionReport, check_session
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.trust import open_session_file
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import plural

_LOG_LINES = 3


# ------------------------------------------------------------------------------ stop
def stop(request: Request) -> int:
    """End the session's engine; with --jobs also all that runs or waits."""
    session, with_jobs = request.session, request.args.jobs
    if with_jobs and not request.options.yes:
        again = name_session(f"{session.id} --jobs --yes", session.state_dir)
        raise NotConfirmed(
            "stopping with --jobs cancels everything that runs or waits",
            hint=f"autoexp-sessions stop {again}",
        )
    if not _may_be_run(session) and not (with_jobs and _count_left(session)):
        note = f"no engine runs {session.id}"
        return print_answer(request, Answer(outcome="done", engine="none", note=note))
    answer = send_command.send(request, [StopEngine(cancel_jobs=with_jobs)])
    if answer.outcome == "done":
        answer = _wait_end(session)
    return print_answer(request, answer)


def _may_be_run(session: SessionDir) -> bool:
    watch = LeaseWatch(session)
    return watch.check_alive(watch.find_holder(), 0.0) is not Alive.NO


def _count_left(session: SessionDir) -> int:
    """The jobs that have not ended."""
    return sum(not job.ended for job in load(session).jobs.values())


def _wait_end(session: SessionDir) -> Answer:
    """Once the engine has let go, or with a word that it has not yet."""
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
    session, approve = request.session, request.options.approve
    _require_free(session)
    runs = _count_left(session) > 0
    if not runs:
        text = f"all jobs of {session.id} have ended: nothing to go on"
    elif start_background(session, approve, find_highest_epoch(session)):
        where = name_session(session.id, session.state_dir)
        text = (
            f"an engine goes on with {session.id}; autoexp-tui --session {where} "
            "shows it"
        )
    else:
        log = session.path / "heir.log"
        raise EnvironmentFailed("no engine came up", str(log), _read_log_end(session))
    record = {"session": session.id, "verb": "restart", "outcome": "done"}
    return request.print(record | {"engine": "running" if runs else "none"}, [text])


def _read_log_end(session: SessionDir) -> str:
    """What the engine that did not come up said last."""
    try:
        with open_session_file(session.path / "heir.log") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            data = file.read(4096)
    except OSError:
        return ""
    lines = [line for line in data.decode(errors="replace").splitlines() if line]
    return "\n  ".join(clean(line) for line in lines[-_LOG_LINES:])


def _require_free(session: SessionDir) -> None:
    """No engine runs the session, as far as can be told from here.

    Raises:
        SessionOwned: one does, or one on another host may: who, and what to do.
    """
    watch = LeaseWatch(session)
    holder = watch.find_holder()
    alive = watch.check_alive(holder, 0.0)
    where = name_session(session.id, session.state_dir)
    stopping, monitor = (
        format_verb("stop", session),
        f"`autoexp-monitor --session {where}`",
    )
    if alive is Alive.YES:
        raise SessionOwned(
            f"session {session.id} is run by {holder.describe() if holder else holder}",
            hint=f"{stopping} ends that engine and leaves its jobs running; "
            f"{monitor} watches it.",
        )
    if holder is not None and alive is Alive.UNKNOWN:
        raise SessionOwned(
            f"session {session.id} may be run by {holder}, on another host",
            hint=f"If it lives, {stopping} ends it. If it is dead, {monitor} takes the "
            "session over once its heartbeat has been seen still for "
            f"{holder.stale_seconds:.0f} s.",
        )


# ----------------------------------------------------------------------------- check
def check(request: Request) -> int:
    """Check, tell, and repair when that was asked for and confirmed.

    Raises:
        SessionOwned: a repair was ordered and an engine lives.
    """
    session, repair, yes = request.session, request.args.repair, request.options.yes
    report, done = check_session(session), ""
    if repair and yes:
        done = _repair(session, report)
        report = check_session(session)
    record = {
        "session": session.id,
        "sound": report.is_sound(),
        "events": report.records,
        "parts": report.parts,
        "jobs": report.count_jobs(),
        "engine": report.engine,
        "done": [done] if done else [],
        "flaws": [asdict(flaw) for flaw in report.flaws],
    }
    lines = _list_findings(session, report, done, repair=repair and not yes)
    request.print(record, lines)
    return ExitCode.OK if report.is_sound() else ExitCode.JOBS_NOT_COMPLETED


def _repair(session: SessionDir, report: SessionReport) -> str:
    """Repair the journal, if it needs it; what was done, as a sentence."""
    if report.engine:
        raise SessionOwned(
            f"session {session.id} is run by {report.engine}",
            hint=f"`autoexp-sessions stop {session.id}` ends that engine first.",
        )
    if report.salvage is None:
        return ""
    return repair_journal(session, report.salvage, SystemClock())


def _list_findings(
    session: SessionDir, report: SessionReport, done: str, *, repair: bool
) -> Iterator[str]:
    if done:
        yield f"done     {clean(done)}"
    for flaw in report.flaws:
        yield f"{flaw.severity:<8} {clean(flaw.where)}: {clean(flaw.problem)}"
        if flaw.hint:
            yield f"         {clean(flaw.hint)}"
        if flaw.repair:
            yield f"         would: {clean(flaw.repair)}"
    kinds = [flaw.severity for flaw in report.flaws]
    counts = [plural(kinds.count(kind), kind) for kind in ("error", "warning")]
    found = "nothing is damaged" if report.is_sound() else ", ".join(counts)
    jobs = plural(report.count_jobs(), "job")
    yield f"{report.records} events of {jobs} read; {found}"
    if report.salvage is not None:
        where = name_session(f"{session.id} --repair --yes", session.state_dir)
        does = "add --yes to do" if repair else f"`autoexp-sessions check {where}` does"
        yield f"nothing was changed; {does} what would be done"
