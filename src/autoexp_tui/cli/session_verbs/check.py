"""autoexp-sessions check ID: what is wrong with a session, and what would mend it.

Only tells, and is safe beside a living engine. With --repair and --yes it does what the
lines with `would` say; without --yes it says so and does nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.model.errors import SessionOwned
from autoexp_tui.model.wording import plural
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.cli.options import Options
    from autoexp_tui.storage.integrity_issue import Flaw
    from autoexp_tui.storage.session_check import Checked
    from autoexp_tui.storage.session_dir import SessionDir


def check(session: SessionDir, options: Options, *, repair: bool) -> int:
    """Check, tell, and repair when that was asked for and confirmed.

    Raises:
        SessionOwned: a repair was ordered and an engine lives.
    """
    from autoexp_tui.probes.clock import SystemClock
    from autoexp_tui.storage.session_check import check_session

    clock = SystemClock()
    checked = check_session(session, clock)
    if not (repair and options.yes):
        _tell(session, checked, options, repair=repair)
        return _code(checked)
    done = _mend(session, checked)
    again = check_session(session, clock)
    _tell(session, again, options, repair=False, done=done)
    return _code(again)


def _code(checked: Checked) -> int:
    return ExitCode.OK if checked.sound else ExitCode.JOBS_NOT_COMPLETED


def _mend(session: SessionDir, checked: Checked) -> list[str]:
    if checked.engine:
        raise SessionOwned(
            f"session {session.id} is run by {checked.engine}",
            hint=f"`autoexp-sessions stop {session.id}` ends that engine first.",
        )
    return [flaw.mend() for flaw in checked.flaws if flaw.mend is not None]


# -------------------------------------------------------------------------- telling
def _tell(
    session: SessionDir,
    checked: Checked,
    options: Options,
    *,
    repair: bool,
    done: list[str] | None = None,
) -> None:
    if options.json:
        print(json.dumps(_as_json(session, checked, done or [])))
        return
    for line in done or []:
        print(f"done     {clean(line)}")
    for flaw in checked.flaws:
        _tell_flaw(flaw)
    print(_summary(checked))
    if any(flaw.mend for flaw in checked.flaws):
        print(_how(session, repair=repair))


def _tell_flaw(flaw: Flaw) -> None:
    print(f"{flaw.severity:<8} {clean(flaw.where)}: {clean(flaw.problem)}")
    if flaw.hint:
        print(f"         {clean(flaw.hint)}")
    if flaw.repair:
        print(f"         would: {clean(flaw.repair)}")


def _summary(checked: Checked) -> str:
    read = f"{checked.records} events of {plural(checked.jobs, 'job')} read"
    if checked.sound:
        return f"{read}; nothing is damaged"
    counts = [
        plural(sum(flaw.severity == kind for flaw in checked.flaws), kind)
        for kind in ("error", "warning")
    ]
    return f"{read}; {', '.join(counts)}"


def _how(session: SessionDir, *, repair: bool) -> str:
    from autoexp_tui.cli.leave import place

    again = f"autoexp-sessions check {session.id} --repair --yes"
    told = "add --yes to do" if repair else f"`{again}{place(session.state_dir)}` does"
    return f"nothing was changed; {told} what would be done"


def _as_json(
    session: SessionDir, checked: Checked, done: list[str]
) -> dict[str, object]:
    return {
        "session": session.id,
        "sound": checked.sound,
        "events": checked.records,
        "parts": checked.parts,
        "jobs": checked.jobs,
        "engine": checked.engine,
        "done": done,
        "flaws": [flaw.as_json() for flaw in checked.flaws],
    }
