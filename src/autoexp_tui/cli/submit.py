"""autoexp-submit: creates the session, submits what may go, registers the rest, exits.
With --session it plans again, with further overrides, and lets what is new join.

The jobs that wait are started by whoever monitors the session: `autoexp-monitor`, the
cockpit, or the engine that --detach leaves behind.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.cli import growth
from autoexp_tui.cli.diagnostics import ExitCode, make_entry, say, wait_until
from autoexp_tui.cli.options import FIRST_FAMILY, FORCE, option, parse_options
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.states import JobState

if TYPE_CHECKING:
    from autoexp_tui.engine.live import LiveHandle
    from autoexp_tui.model.snapshot import Snapshot

SENT_SECONDS = 60.0
"""How long what may go at once is given to be taken."""
_ON_THE_WAY = frozenset({JobState.SUBMITTING, JobState.SUBMIT_UNKNOWN})
_FLAGS = (
    option("--detach", "leave an engine behind that goes on"),
    FIRST_FAMILY,
    FORCE,
    *growth.FLAGS,
)


def main(argv: Sequence[str]) -> int:
    """Create the session of a plan, wait until what may go is taken, and let go."""
    options, args = parse_options("autoexp-submit", __doc__, argv, _FLAGS)
    growth.require_session(options, args)
    if options.session:
        return growth.submit_more(options, args)
    from autoexp_tui.cli.background import start_background
    from autoexp_tui.cli.headless import detach, name_shown, report_no_start
    from autoexp_tui.cli.open import open_chosen
    from autoexp_tui.model.commands import Submit
    from autoexp_tui.storage.session_dir import SessionDir

    handle, chosen = open_chosen(options, first_family=args.first_family)
    try:
        command = handle.send(Submit(jobs=chosen), by="autoexp-submit")
        snapshot = _wait_sent(handle, command)
    except KeyboardInterrupt:
        return detach(handle, "autoexp-monitor")
    if not snapshot.session:
        return report_no_start(snapshot, handle.problem)
    handle.close()
    session, where = SessionDir(Path(snapshot.engine.directory)), name_shown(snapshot)
    if args.detach:
        try:
            start_background(session, options.approve, snapshot.engine.epoch)
        except EnvironmentFailed as error:  # the session is there all the same
            say(str(error))
    if options.json:
        states = {job.name: job.state.value for job in snapshot.jobs}
        print(json.dumps({"session": snapshot.session, "jobs": states}))
        return ExitCode.OK
    counts = Counter(job.state for job in snapshot.jobs)
    waiting, held = counts[JobState.WAITING], counts[JobState.HELD]
    sent = sum(job.started for job in snapshot.jobs)
    rest = f", {held} held" if held else ""
    print(f"session {snapshot.session}: {sent} submitted, {waiting} waiting{rest}")
    if waiting and not args.detach:
        print(f"  autoexp-monitor --session {where}   starts them in time")
    if held:
        print(f"  autoexp-run --session {where} --rest   submits what is held as well")
    return ExitCode.OK


def _wait_sent(handle: LiveHandle, command: str) -> Snapshot:
    def is_sent() -> object:
        snapshot = handle.snapshot()
        done = any(record.command_id == command for record in snapshot.events)
        sending = any(job.state in _ON_THE_WAY for job in snapshot.jobs)
        return snapshot.engine.holding or (done and not sending)

    wait_until(is_sent, SENT_SECONDS)
    return handle.snapshot()


entry = make_entry(main, __name__)
