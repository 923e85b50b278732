"""autoexp-submit: creates the session, submits what may go, registers the rest, exits.

The jobs that wait are started by whoever monitors the session: `autoexp-monitor`, the
cockpit, or the engine that --detach leaves behind.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode, exit_with, say
from autoexp_tui.cli.options import (
    Options,
    add_first_family,
    add_force,
    common,
    parse,
    parser,
)
from autoexp_tui.model.states import JobState

if TYPE_CHECKING:
    from autoexp_tui.engine.live import LiveHandle
    from autoexp_tui.model.snapshot import Snapshot

SENT_SECONDS = 60.0
"""How long what may go at once is given to be taken."""
_ON_THE_WAY = frozenset({JobState.SUBMITTING, JobState.SUBMIT_UNKNOWN})


def main(argv: Sequence[str]) -> int:
    """Submit a manifest or a config."""
    made = parser("autoexp-submit", __doc__ or "")
    made.add_argument(
        "--detach", action="store_true", help="leave an engine behind that goes on"
    )
    add_first_family(made)
    add_force(made)
    args = parse(made, argv)
    return submit(common(args), detach=args.detach, first=args.first_family)


def submit(options: Options, *, detach: bool, first: bool = False) -> int:
    """Create the session, wait until what may go is taken, and let go.

    With `first` only the first family goes, and the rest is held.
    """
    from autoexp_tui.cli import open as opening
    from autoexp_tui.cli.headless import failed_to_start
    from autoexp_tui.cli.leave import leave
    from autoexp_tui.cli.run import chosen_and_confirmed
    from autoexp_tui.model.commands import Submit

    plan = opening.make_plan(options)
    chosen = chosen_and_confirmed(plan, options, first_family=first)
    handle = opening.plan_handle(plan, options)
    try:
        command = handle.send(Submit(jobs=chosen), by="autoexp-submit")
        snapshot = _wait_sent(handle, command)
    except KeyboardInterrupt:
        return leave(handle, "autoexp-monitor")
    if not snapshot.session:
        return failed_to_start(snapshot, handle.problem)
    handle.close()
    if detach:
        _leave_engine(snapshot, options)
    _tell(snapshot, options, detached=detach)
    return ExitCode.OK


def _wait_sent(handle: LiveHandle, command: str) -> Snapshot:
    deadline = time.monotonic() + SENT_SECONDS
    while time.monotonic() < deadline:
        snapshot = handle.snapshot()
        done = any(record.command_id == command for record in snapshot.events)
        sending = any(job.state in _ON_THE_WAY for job in snapshot.jobs)
        if snapshot.engine.holding or (done and not sending):
            return snapshot
        time.sleep(0.05)
    return handle.snapshot()


def _leave_engine(snapshot: Snapshot, options: Options) -> None:
    from pathlib import Path

    from autoexp_tui.cli.leave import place, start_heir
    from autoexp_tui.storage.session_dir import SessionDir

    session = SessionDir(Path(snapshot.engine.directory))
    if not start_heir(session, options.approve, snapshot.engine.epoch):
        say(
            f"no engine came up; see {session.path / 'heir.log'}. Start one:\n"
            f"  autoexp-sessions restart {session.id}{place(session.state_dir)}"
        )


def _tell(snapshot: Snapshot, options: Options, *, detached: bool) -> None:
    if options.json:
        states = {job.name: job.state.value for job in snapshot.jobs}
        print(json.dumps({"session": snapshot.session, "jobs": states}))
        return
    waiting = sum(job.state is JobState.WAITING for job in snapshot.jobs)
    sent = sum(job.started for job in snapshot.jobs)
    held = sum(job.state is JobState.HELD for job in snapshot.jobs)
    rest = f", {held} held" if held else ""
    print(f"session {snapshot.session}: {sent} submitted, {waiting} waiting{rest}")
    from autoexp_tui.cli.leave import place_of

    where = f"--session {snapshot.session}{place_of(snapshot.engine.directory)}"
    if waiting and not detached:
        print(f"  autoexp-monitor {where}   starts them in time")
    if held:
        print(f"  autoexp-run {where} --rest   submits what is held as well")


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
