"""autoexp-sessions stop, restart, check, clean, trust: sessions as a whole.

`check` only tells, and is safe beside a living engine. With --repair and --yes a
damaged journal is gone on with as the line with `would` says; without --yes it says so
and does nothing. `clean` takes sessions by id, or all whose jobs have ended and that
nobody runs; without --yes it only tells how much would go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from autoexp_tui.cli.background import start_background
from autoexp_tui.cli.diagnostics import ExitCode, wait_until
from autoexp_tui.cli.open import find_session, list_places
from autoexp_tui.cli.options import name_session
from autoexp_tui.cli.session_verbs.request import (
    ANSWER_SECONDS,
    Answer,
    Request,
    format_verb,
    load,
    parse_when,
    print_answer,
    send,
)
from autoexp_tui.model.commands import StopEngine
from autoexp_tui.model.errors import NotConfirmed, SessionOwned, UsageError
from autoexp_tui.model.policy import has_work_left
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage import trust as trusted
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.lease import find_engine, find_highest_epoch
from autoexp_tui.storage.processes import Alive
from autoexp_tui.storage.session_check import (
    SessionReport,
    check_session,
    repair_journal,
)
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import (
    list_sessions,
    measure_size,
    remove,
    require_removable,
    sweep,
)
from autoexp_tui.text.sanitize import clean as clean_text
from autoexp_tui.text.spelling import plural, size


def stop(request: Request) -> int:
    """End the session's engine; with --jobs also all that runs or waits."""
    session, with_jobs = request.session, request.args.jobs
    if with_jobs and not request.options.yes:
        raise NotConfirmed(
            "stopping with --jobs cancels everything that runs or waits",
            hint=f"{format_verb('stop', session, '--jobs --yes')} does it.",
        )
    if not _may_be_run(session) and not (with_jobs and _count_left(session)):
        note = f"no engine runs {session.id}"
        return print_answer(request, Answer(outcome="done", engine="none", note=note))
    answer = send(request, [StopEngine(cancel_jobs=with_jobs)])
    if answer.outcome == "done" and wait_until(
        lambda: not _may_be_run(session), ANSWER_SECONDS
    ):
        return print_answer(request, Answer(outcome="done", engine="none"))
    left = plural(_count_left(session), "job")
    note = f"the engine stops when its jobs have ended: {left} to go"
    return print_answer(request, answer._replace(note=note))


def _may_be_run(session: SessionDir) -> bool:
    return find_engine(session)[1] is not Alive.NO


def _count_left(session: SessionDir) -> int:
    return sum(not job.ended for job in load(session).jobs.values())


def restart(request: Request) -> int:
    """Leave an engine behind that goes on with a session that has none; raises
    SessionOwned, or EnvironmentFailed where it does not come up."""
    session, approve = request.session, request.options.approve
    holder, alive = find_engine(session)
    where = name_session(session.path)
    if holder is not None and alive is not Alive.NO:
        raise SessionOwned(
            f"session {session.id} {'is' if alive is Alive.YES else 'may be'} run by "
            f"{holder.describe()}",
            hint=f"{format_verb('stop', session)} ends that engine and leaves its jobs "
            f"running; `autoexp-monitor --session {where}` watches it, and takes the "
            "session over once it is gone, or its heartbeat was seen still for "
            f"{holder.stale_seconds:.0f} s.",
        )
    runs = has_work_left(load(session))
    text = f"all jobs of {session.id} have ended: nothing to go on"
    if runs:
        watch = f"autoexp-tui --session {where} shows it"
        text = f"an engine goes on with {session.id}; {watch}"
        start_background(session, approve, find_highest_epoch(session))
    record = {"session": session.id, "verb": "restart", "outcome": "done"}
    return request.print(record | {"engine": "running" if runs else "none"}, [text])


def check(request: Request) -> int:
    """Check, tell, and repair when that was asked for and confirmed; raises
    SessionOwned where a repair was ordered and an engine lives."""
    session, repair, yes = request.session, request.args.repair, request.options.yes
    report, done = check_session(session), ""
    if repair and yes:
        if report.engine:
            raise SessionOwned(
                f"session {session.id} is run by {report.engine}",
                hint=f"{format_verb('stop', session)} ends that engine first.",
            )
        if report.salvage is not None:
            done = repair_journal(session, report.salvage, SystemClock())
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


def _list_findings(
    session: SessionDir, report: SessionReport, done: str, *, repair: bool
) -> Iterator[str]:
    rows = [("done", done)]
    for flaw in report.flaws:
        rows += [(flaw.severity, f"{flaw.where}: {flaw.problem}"), ("", flaw.hint)]
        rows += [("", f"would: {flaw.repair}" if flaw.repair else "")]
    yield from (f"{head:<8} {clean_text(text)}" for head, text in rows if text)
    kinds = [flaw.severity for flaw in report.flaws]
    counts = [plural(kinds.count(kind), kind) for kind in ("error", "warning")]
    found = "nothing is damaged" if report.is_sound() else ", ".join(counts)
    jobs = plural(report.count_jobs(), "job")
    yield f"{report.records} events of {jobs} read; {found}"
    if report.salvage is not None:
        does = f"{format_verb('check', session, '--repair --yes')} does"
        does = "add --yes to do" if repair else does
        yield f"nothing was changed; {does} what would be done"


def clean(request: Request) -> int:
    """Remove sessions' own files, and refs of research that nobody needs any more; what
    their jobs wrote stays; raises AutoexpError where one that was named cannot go; then
    none goes."""
    from autoexp_tui.consultation.call_refs import find_spare_refs

    chosen = _choose_sessions(request)
    for session in chosen:
        require_removable(session)
    done = bool(chosen) and request.options.yes
    rows: list[dict[str, object]] = []
    lines: list[str] = []
    try:
        for session in chosen:
            spare = find_spare_refs(session)
            found = remove(session) if done else measure_size(session.path)
            row = {"session": session.id, "directory": str(session.path)}
            more = {"bytes": found.bytes, "refs": [*spare.commits]}
            rows.append({**row, "files": found.files, **more})
            much = f"{size(found.bytes)} in {plural(found.files, 'file')}"
            much += clean_text(spare.describe())
            word = "removed" if done else "would remove"
            lines.append(f"{word} {clean_text(str(session.path))}  {much}")
            if done:
                spare.delete()
    finally:
        record = {"removed": done, "sessions": rows}
        request.print(record, lines or ["no session to remove"])
    if chosen and not done:
        count = plural(len(chosen), "session")
        raise NotConfirmed(
            f"nothing was removed: this would remove {count}",
            hint="Add --yes to do it. Outputs and logs of the jobs stay.",
        )
    for state_dir in {session.state_dir for session in chosen}:
        sweep(state_dir)
    return ExitCode.OK


def _choose_sessions(request: Request) -> list[SessionDir]:
    """Those that are named; else all that ended, that nobody runs, and that are old."""
    words, args, options = request.words, request.args, request.options
    if bool(words) == bool(args.ended or args.older_than):
        raise UsageError(
            "clean: which sessions?",
            hint="Either their ids, or --ended, or --older-than 30d.",
        )
    if words:
        found = [find_session(options, word) for word in words]
        return list({session.path: session for session in found}.values())
    before = parse_when("--older-than", args.older_than) if args.older_than else None
    return [
        SessionDir(row.directory)
        for row in list_sessions(list_places(options)[0])
        if not row.open and row.owner is Alive.NO and not row.problem
        if before is None or row.last_event_at < before
    ]


def trust(request: Request) -> int:
    """Record that the user wants to write into a directory as it is now.

    Another owner, or another directory of that name, is asked about again. Sessions and
    manifests of other users stay refused, wherever they lie.
    """
    if not request.words:
        raise UsageError("trust: which directory?", hint="autoexp-sessions trust DIR")
    try:
        entry = trusted.build_accepted(request.words[0])
    except OSError as error:
        raise UsageError(f"trust: {error.strerror}", request.words[0]) from error
    place = trusted.get_accepted_file()
    with explaining(place, "read what you trust"):
        known = trusted.load_accepted()
    make_directory(place.parent)
    others = tuple(one for one in known if one.path != entry.path)
    write_atomic(place, trusted.encode_accepted((*others, entry)))
    path, owner = map(clean_text, (entry.path, trusted.format_user(entry.owner)))
    text = f"{path} of {owner} is written to from now on"
    return request.print({"path": entry.path, "owner": entry.owner}, [text])
