"""autoexp-monitor: owns a session until it is done, or joins the engine that does."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode, exit_with, say
from autoexp_tui.cli.options import Options, common, parse, parser
from autoexp_tui.model.errors import UsageError

if TYPE_CHECKING:
    from autoexp_tui.storage.session_dir import SessionDir

HEIR_WAIT_SECONDS = 15.0
"""How long an heir waits for the one it inherits from to let go."""


def main(argv: Sequence[str]) -> int:
    """Monitor a session to its end."""
    made = parser("autoexp-monitor", __doc__ or "", overrides=False)
    made.add_argument("--interactive", action="store_true", help="open the cockpit")
    made.add_argument("--quiet", action="store_true", help="say nothing until the end")
    made.add_argument("--heir", action="store_true", help="go on detached, silently")
    args = parse(made, argv)
    options = common(args)
    words = [argument for argument in argv if argument != "--interactive"]
    if options.manifest and not options.session:
        found = _session_of_manifest(options)
        options = replace(
            options, session=found.id, manifest="", state_dir=str(found.state_dir)
        )
        words += ["--manifest", "", "--session", found.id]  # the last word counts
        words += ["--state-dir", str(found.state_dir)]
    if not options.session:
        raise UsageError(
            "which session?",
            hint="autoexp-monitor --session ID; `autoexp-sessions list` names them.",
        )
    if args.interactive:
        from autoexp_tui.cli.tui import main as cockpit

        return cockpit(words)
    if args.heir:
        return inherit(options)
    return monitor(options, quiet=args.quiet)


def _session_of_manifest(options: Options) -> SessionDir:
    """The newest session that runs the plan of `--manifest`.

    Raises:
        UsageError: nobody has submitted it, or it does not read.
    """
    from autoexp_tui.cli.options import state_dir_of
    from autoexp_tui.storage.plan_history import read_manifest_head
    from autoexp_tui.storage.session_dir import read_manifest, sessions_in

    plan = read_manifest(Path(options.manifest), run=True)
    place = state_dir_of(options, plan.state_dir)
    found = [
        session
        for session in sessions_in(place)
        if (head := read_manifest_head(session.plan)) and head.plan_id == plan.plan_id
    ]
    if not found:
        raise UsageError(
            f"no session in {place} runs this plan",
            options.manifest,
            "autoexp-submit --manifest FILE makes one.",
        )
    return max(found, key=lambda session: session.plan.stat().st_mtime)


def monitor(options: Options, *, quiet: bool) -> int:
    """Report a session until nothing moves any more; 0 when all completed."""
    from autoexp_tui.cli import open as opening
    from autoexp_tui.cli.headless import Interrupted, Watching, finish, watch
    from autoexp_tui.cli.leave import leave
    from autoexp_tui.cli.open import joined_handle
    from autoexp_tui.cli.session_verbs.send_command import verb_command

    session = opening.session_of(options)
    handle = joined_handle(session, options)
    if options.approve and handle.role == "viewer":
        say("--approve counts once this process runs the session; now it watches.")
        say(f"Answer what asks now: {verb_command('approve', session)}")
    try:
        snapshot = watch(handle, Watching(json=options.json, quiet=quiet))
    except (Interrupted, KeyboardInterrupt):
        return leave(handle, "autoexp-monitor")
    handle.close()
    return finish(snapshot, as_json=options.json)


def inherit(options: Options) -> int:
    """Take over from an engine that is leaving, and go on without a terminal.

    Stays while jobs may move, so that they can be approved, and a storm's pause ended,
    from elsewhere.
    """
    from autoexp_tui.cli import open as opening
    from autoexp_tui.cli.garbage import settle
    from autoexp_tui.cli.headless import Interrupted, Watching, watch

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    session = opening.session_of(options)
    handle = opening.owned_handle(session, options, wait=HEIR_WAIT_SECONDS)
    settle()
    try:
        watch(handle, Watching(quiet=True, stop_in_storm=False))
    except Interrupted:
        return ExitCode.INTERRUPTED
    finally:
        handle.close()
    return ExitCode.OK


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
