"""autoexp-sessions check ID: what is wrong with a session, and what would mend it.

Only tells, and is safe beside a living engine. With --repair and --yes a damaged
journal is gone on with as the line with `would` says; without --yes it says so and does
nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.model.errors import SessionOwned
from autoexp_tui.model.wording import plural
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.cli.options import Options
    from autoexp_tui.storage.session_check import SessionReport
    from autoexp_tui.storage.session_dir import SessionDir


def check(session: SessionDir, options: Options, *, repair: bool) -> int:
    """Check, tell, and repair when that was asked for and confirmed.

    Raises:
        SessionOwned: a repair was ordered and an engine lives.
    """
    from autoexp_tui.storage.session_check import check_session

    report, done = check_session(session), ""
    if repair and options.yes:
        done = _repair(session, report)
        report = check_session(session)
    if options.json:
        print(json.dumps(_as_json(session, report, done)))
    else:
        _print(session, report, done, repair=repair and not options.yes)
    return ExitCode.OK if report.sound else ExitCode.JOBS_NOT_COMPLETED


def _repair(session: SessionDir, report: SessionReport) -> str:
    """Repair the journal, if it needs it; what was done, as a sentence."""
    from autoexp_tui.probes.clock import SystemClock
    from autoexp_tui.storage.journal_repair import repair_journal

    if report.engine:
        raise SessionOwned(
            f"session {session.id} is run by {report.engine}",
            hint=f"`autoexp-sessions stop {session.id}` ends that engine first.",
        )
    if report.salvage is None:
        return ""
    return repair_journal(session, report.salvage, SystemClock())


def _print(
    session: SessionDir, report: SessionReport, done: str, *, repair: bool
) -> None:
    if done:
        print(f"done     {clean(done)}")
    for flaw in report.flaws:
        print(f"{flaw.severity:<8} {clean(flaw.where)}: {clean(flaw.problem)}")
        if flaw.hint:
            print(f"         {clean(flaw.hint)}")
        if flaw.repair:
            print(f"         would: {clean(flaw.repair)}")
    print(_describe_counts(report))
    if report.salvage is not None:
        print(_describe_next_step(session, repair=repair))


def _describe_counts(report: SessionReport) -> str:
    read = f"{report.records} events of {plural(report.jobs, 'job')} read"
    if report.sound:
        return f"{read}; nothing is damaged"
    counts = [
        plural(sum(flaw.severity == kind for flaw in report.flaws), kind)
        for kind in ("error", "warning")
    ]
    return f"{read}; {', '.join(counts)}"


def _describe_next_step(session: SessionDir, *, repair: bool) -> str:
    from autoexp_tui.cli.leave import place

    again = f"autoexp-sessions check {session.id} --repair --yes"
    told = "add --yes to do" if repair else f"`{again}{place(session.state_dir)}` does"
    return f"nothing was changed; {told} what would be done"


def _as_json(
    session: SessionDir, report: SessionReport, done: str
) -> dict[str, object]:
    return {
        "session": session.id,
        "sound": report.sound,
        "events": report.records,
        "parts": report.parts,
        "jobs": report.jobs,
        "engine": report.engine,
        "done": [done] if done else [],
        "flaws": [asdict(flaw) for flaw in report.flaws],
    }
