"""autoexp-sessions VERB ID: the cockpit's commands for scripts.

list                      every session of this and other known state directories
show ID                   its jobs, each with its state and reason
stop ID [--jobs]          ends its engine; with --jobs also what runs
restart ID                leaves an engine behind that goes on
pause|resume ID           submits nothing more; submits again
kill|retry|skip ID JOB... jobs by name, or --all of what failed (retry)
approve|reject ID [JOB]   answers what is asked
clean ID                  removes a session that nobody runs
check ID [--repair]       reads all of it, says what is wrong and what would mend it
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode, exit_with, say
from autoexp_tui.cli.options import Options, common, parse, parser
from autoexp_tui.core.errors import NotConfirmed, SessionOwned, UsageError
from autoexp_tui.core.states import REVIVABLE, JobState

if TYPE_CHECKING:
    import argparse

    from autoexp_tui.adapters.session_dir import SessionDir
    from autoexp_tui.adapters.session_list import SessionRow
    from autoexp_tui.core.commands import Command
    from autoexp_tui.core.snapshot import Snapshot
    from autoexp_tui.core.state import JobRecord, SessionState
    from autoexp_tui.engine.live import LiveHandle
    from autoexp_tui.engine.viewer import ViewerHandle

    Handle = LiveHandle | ViewerHandle

ANSWER_SECONDS = 30.0
"""How long a command is given to show in the session's events."""


def main(argv: Sequence[str]) -> int:
    """Carry out one verb."""
    made = parser("autoexp-sessions", __doc__ or "", overrides=False)
    made.add_argument("verb", choices=sorted(_VERBS), metavar="VERB")
    made.add_argument("id", nargs="?", default="", metavar="ID")
    made.add_argument("names", nargs="*", metavar="JOB")
    made.add_argument("--jobs", action="store_true", help="stop: cancel them as well")
    made.add_argument("--all", action="store_true", help="every job that fits")
    made.add_argument(
        "--repair", action="store_true", help="check: what would mend it; --yes does it"
    )
    made.add_argument("--reason", default="", help="kept with the command")
    args = parse(made, argv)
    return _VERBS[args.verb](args, common(args))


def _session(args: argparse.Namespace, options: Options) -> SessionDir:
    from autoexp_tui.adapters.known_places import find_in
    from autoexp_tui.cli.opening import places_of

    wanted = args.id or options.session
    if not wanted:
        raise UsageError(
            f"{args.verb}: which session?",
            hint="`autoexp-sessions list` names them.",
        )
    return find_in(places_of(options), wanted)


# ------------------------------------------------------------------------- looking
def _list(args: argparse.Namespace, options: Options) -> int:
    from autoexp_tui.adapters.session_list import list_everywhere
    from autoexp_tui.cli.opening import places_of

    del args
    places = places_of(options)
    rows = list_everywhere(places)
    if options.json:
        print(json.dumps([_row_json(row) for row in rows]))
    elif rows:
        print("\n".join(_lines(rows)))
    else:
        print(f"No sessions in {places[0]}. `autoexp-tui --config-ref exp` starts one.")
    return ExitCode.OK


def _lines(rows: Sequence[SessionRow]) -> Iterator[str]:
    """A line for each session; below the name of its place when there are several."""
    places = dict.fromkeys(row.directory.parent for row in rows)
    for place in places:
        if len(places) > 1:
            yield f"{place}:"
        yield from (_row_line(row) for row in rows if row.directory.parent == place)


def _row_json(row: SessionRow) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "counts": {state.value: n for state, n in row.counts.items()},
        "owner": row.owner.name.lower(),
        "host": row.host,
        "last_event_at": row.last_event_at,
        "directory": str(row.directory),
        "problem": row.problem,
    }


def _row_line(row: SessionRow) -> str:
    from autoexp_tui.core.clean import clean
    from autoexp_tui.core.wording import clock_time

    if row.problem:
        return f"{row.id:<6} cannot be read: {row.problem}"
    counts = ", ".join(f"{n} {state.value.lower()}" for state, n in row.counts.items())
    engine = {"YES": f"engine on {row.host}", "NO": "no engine"}
    runs = engine.get(row.owner.name, f"engine on {row.host}?")
    when = clock_time(row.last_event_at, time.time())
    return f"{row.id:<6} {clean(row.name):<20} {when:<12} {runs:<24} {counts}"


def _show(args: argparse.Namespace, options: Options) -> int:
    from autoexp_tui.core.clean import clean
    from autoexp_tui.core.wording import sentence

    state = _load(_session(args, options))
    now = time.time()
    if options.json:
        print(json.dumps({"session": state.session, "jobs": _jobs_json(state, now)}))
        return ExitCode.OK
    for name in state.order:
        job = state.jobs[name]
        why = sentence(job.why, now) if job.why else _waits(job, now)
        print(f"{job.state.value.lower():<12} {clean(name)}  {clean(why)}".rstrip())
        for directory in _evidence(job):
            print(f"{'':<12} evidence: {clean(directory)}")
    return ExitCode.OK


def _load(session: SessionDir) -> SessionState:
    from autoexp_tui.adapters.journal import load_state

    return load_state(session).state


def _jobs_json(state: SessionState, now: float) -> list[dict[str, object]]:
    from autoexp_tui.core.wording import sentence

    return [
        {
            "name": job.name,
            "state": job.state.value,
            "cause": job.cause.value if job.cause else None,
            "attempts": len(job.attempts),
            "exit_code": job.attempt.exit_code if job.attempt else None,
            "why": sentence(job.why, now) if job.why else _waits(job, now),
            "evidence": _evidence(job),
        }
        for job in (state.jobs[name] for name in state.order)
    ]


def _evidence(job: JobRecord) -> list[str]:
    """Directories with what was kept of runs that a rule ended, oldest first."""
    return [place for attempt in job.attempts for place in attempt.captures]


def _waits(job: JobRecord, now: float) -> str:
    from autoexp_tui.core.verdicts import Result
    from autoexp_tui.core.wording import sentence

    if job.state is not JobState.WAITING:
        return ""
    waiting = [s for s in job.start if s is not None and s.result is not Result.PASS]
    return "; ".join(sentence(status.why, now) for status in waiting)


def _check(args: argparse.Namespace, options: Options) -> int:
    from autoexp_tui.cli.session_check import check

    return check(_session(args, options), options, repair=args.repair)


# ------------------------------------------------------------------------ commanding
def _command(args: argparse.Namespace, options: Options, command: Command) -> int:
    """Send a command to whoever runs the session, or carry it out here."""
    from autoexp_tui.cli import opening

    session = _session(args, options)
    handle = opening.any_handle(session, options)
    try:
        sent = _send(handle, command)
        snapshot = _answered(handle, sent)
    finally:
        handle.close()
    return _tell(session, snapshot, sent, here=handle.role == "live")


def _send(handle: Handle, command: Command) -> str:
    from autoexp_tui.engine.viewer import ViewerHandle

    if isinstance(handle, ViewerHandle):
        return handle.send_now(command, by="script")
    return handle.send(command, by="script")


def _answered(handle: Handle, sent: str) -> Snapshot | None:
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        snapshot = handle.snapshot()
        known = any(record.command_id == sent for record in snapshot.events)
        if known and (handle.role == "viewer" or _quiet(snapshot)):
            return snapshot
        time.sleep(0.05)
    return None


def _quiet(snapshot: Snapshot) -> bool:
    """Nothing is on its way: neither an order, nor the end of what was ended."""
    ending = (
        job.attempt is not None and job.attempt.told_to_end and not job.ended
        for job in snapshot.jobs
    )
    return not snapshot.pending and not any(ending)


def _tell(
    session: SessionDir, snapshot: Snapshot | None, sent: str, *, here: bool
) -> int:
    from autoexp_tui.cli.detach import place
    from autoexp_tui.core.events import CommandRefused
    from autoexp_tui.core.wording import sentence

    if snapshot is None:
        say(_unanswered(session, sent))
        return ExitCode.JOBS_NOT_COMPLETED
    for record in snapshot.events:
        refused = record.event
        if record.command_id == sent and isinstance(refused, CommandRefused):
            say(f"refused: {sentence(refused.why, snapshot.t)}")
            return ExitCode.JOBS_NOT_COMPLETED
    print("done")
    if here and not snapshot.finished:
        again = f"autoexp-sessions restart {session.id}{place(session.state_dir)}"
        print(f"no engine runs this session now; {again} starts one")
    return ExitCode.OK


def _unanswered(session: SessionDir, sent: str) -> str:
    waits = any(sent in path.name for path in session.inbox.iterdir())
    where = "the command waits in its inbox" if waits else "the command was taken"
    return (
        f"the engine of {session.id} did not answer within {ANSWER_SECONDS:.0f} s; "
        f"{where}. `autoexp-sessions show {session.id}` tells how things stand."
    )


def _stop(args: argparse.Namespace, options: Options) -> int:
    from autoexp_tui.core.commands import StopEngine

    session = _session(args, options)
    if args.jobs and not options.yes:
        raise NotConfirmed(
            "stopping with --jobs cancels everything that runs or waits",
            hint=f"autoexp-sessions stop {session.id} --jobs --yes",
        )
    return _command(args, options, StopEngine(cancel_jobs=args.jobs))


def _restart(args: argparse.Namespace, options: Options) -> int:
    from autoexp_tui.adapters.lease import highest_epoch
    from autoexp_tui.cli.detach import come_back, start_heir

    session = _session(args, options)
    _require_free(session)
    if not start_heir(session, options.approve, highest_epoch(session)):
        say(f"no engine came up; see {session.path / 'heir.log'}")
        return ExitCode.ENVIRONMENT
    print(f"an engine goes on with {session.id}; {come_back(session)} shows it")
    return ExitCode.OK


def _require_free(session: SessionDir) -> None:
    from autoexp_tui.adapters.identity import Alive
    from autoexp_tui.adapters.lease import LeaseWatch
    from autoexp_tui.cli.detach import place

    watch = LeaseWatch(session)
    holder = watch.holder()
    if watch.alive(holder, 0.0) is not Alive.NO:
        raise SessionOwned(
            f"session {session.id} is run by {holder}",
            hint=f"`autoexp-sessions stop {session.id}{place(session.state_dir)}` "
            "ends that engine first.",
        )


def _pause(args: argparse.Namespace, options: Options) -> int:
    from autoexp_tui.core.commands import Pause

    return _command(args, options, Pause())


def _resume(args: argparse.Namespace, options: Options) -> int:
    from autoexp_tui.core.commands import Resume

    return _command(args, options, Resume())


def _kill(args: argparse.Namespace, options: Options) -> int:
    from autoexp_tui.core.commands import Kill
    from autoexp_tui.core.wording import plural

    jobs = _jobs(args, options, lambda job: not job.ended)
    _confirm(options, f"kill {plural(len(jobs), 'job')}: {', '.join(jobs)}")
    return _command(args, options, Kill(jobs=jobs, reason=args.reason))


def _retry(args: argparse.Namespace, options: Options) -> int:
    from autoexp_tui.core.commands import Resubmit

    jobs = _jobs(args, options, lambda job: job.state in REVIVABLE)
    records = _load(_session(args, options)).jobs
    # What is done would go on from its end, and do nothing.
    anew = all(records[name].done_before for name in jobs)
    return _command(args, options, Resubmit(jobs=jobs, from_checkpoint=not anew))


def _skip(args: argparse.Namespace, options: Options) -> int:
    from autoexp_tui.core.commands import Skip

    jobs = _jobs(args, options, lambda job: not job.started)
    return _command(args, options, Skip(jobs=jobs, reason=args.reason))


def _approve(args: argparse.Namespace, options: Options) -> int:
    return _answer(args, options, approved=True)


def _reject(args: argparse.Namespace, options: Options) -> int:
    return _answer(args, options, approved=False)


def _answer(args: argparse.Namespace, options: Options, *, approved: bool) -> int:
    from autoexp_tui.core.commands import Answer

    state = _load(_session(args, options))
    asking = [
        job for job in state.jobs.values() if job.ask and job.ask.approved is None
    ]
    chosen = [job for job in asking if not args.names or job.name in args.names]
    if not chosen:
        raise UsageError("nothing asks for approval just now")
    code = int(ExitCode.OK)
    for job in chosen:
        answer = Answer(
            job=job.name,
            digest=job.ask.digest if job.ask else "",
            approved=approved,
            reason=args.reason,
        )
        code = max(code, _command(args, options, answer))
    return code


def _jobs(
    args: argparse.Namespace, options: Options, fits: Callable[[JobRecord], bool]
) -> tuple[str, ...]:
    state = _load(_session(args, options))
    if args.all:
        chosen = tuple(name for name in state.order if fits(state.jobs[name]))
        if chosen:
            return chosen
        raise UsageError(f"no job to {args.verb}")
    if not args.names:
        raise UsageError(f"{args.verb}: which jobs?", hint="Name them, or --all.")
    _require_known(state, args.names)
    return tuple(args.names)


def _require_known(state: SessionState, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in state.jobs]
    if unknown:
        raise UsageError(
            f"no job {unknown[0]!r} in session {state.session}",
            hint=f"`autoexp-sessions show {state.session}` names them.",
        )


def _confirm(options: Options, what: str) -> None:
    if not options.yes:
        raise NotConfirmed(f"this would {what}", hint="Add --yes to do it.")


# ---------------------------------------------------------------------------- clean
def _clean(args: argparse.Namespace, options: Options) -> int:
    """Remove a session's own files; what its jobs wrote stays."""
    session = _session(args, options)
    _require_free(session)
    _confirm(options, f"remove {session.path}; outputs and logs of its jobs stay")
    shutil.rmtree(session.path)
    print(f"removed {session.path}")
    return ExitCode.OK


_VERBS: dict[str, Callable[[argparse.Namespace, Options], int]] = {
    "list": _list,
    "show": _show,
    "stop": _stop,
    "restart": _restart,
    "pause": _pause,
    "resume": _resume,
    "kill": _kill,
    "retry": _retry,
    "skip": _skip,
    "approve": _approve,
    "reject": _reject,
    "clean": _clean,
    "check": _check,
}


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
