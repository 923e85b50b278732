"""autoexp-run: plan, submit and monitor until all is done, without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode, exit_with, say
from autoexp_tui.cli.options import Options, add_force, common, parse, parser

if TYPE_CHECKING:
    from autoexp_tui.cli.headless import Watching
    from autoexp_tui.engine.live import LiveHandle


def main(argv: Sequence[str]) -> int:
    """Run the config's campaign, or go on with a session, to its end."""
    made = parser("autoexp-run", __doc__ or "")
    made.add_argument(
        "--no-wait",
        action="store_true",
        help="end with 1 when only approvals that nobody gives are left",
    )
    made.add_argument("--quiet", action="store_true", help="say nothing until the end")
    add_force(made)
    args = parse(made, argv)
    options = common(args)
    from autoexp_tui.cli.headless import Watching

    how = Watching(
        json=options.json, wait_for_approval=not args.no_wait, quiet=args.quiet
    )
    return run(options, how)


def run(options: Options, how: Watching) -> int:
    """The campaign of `options`, watched as `how` says; its exit code."""
    from autoexp_tui.cli.headless import Interrupted, failed_to_start, finish, watch

    handle, submitted = open_handle(options)
    try:
        snapshot = watch(handle, replace(how, after=submitted))
    except Interrupted:
        return _interrupted(handle)
    handle.close()
    if not snapshot.session:
        return failed_to_start(snapshot, handle.problem)
    return finish(snapshot, as_json=how.json)


def open_handle(options: Options) -> tuple[LiveHandle, str]:
    """A running engine for a new campaign or the session that was named.

    Beside it the id of the command that lets the jobs run; empty when they were let
    run before.
    """
    from autoexp_tui.cli import opening
    from autoexp_tui.core.commands import Submit
    from autoexp_tui.core.states import JobState

    if options.session:
        handle = opening.owned_handle(opening.session_of(options), options)
    else:
        handle = opening.plan_handle(opening.make_plan(options), options)
    fresh = all(job.state is JobState.PLANNED for job in handle.snapshot().jobs)
    return handle, handle.send(Submit(), by="autoexp-run") if fresh else ""


def _interrupted(handle: LiveHandle) -> int:
    from autoexp_tui.cli.detach import place_of

    snapshot = handle.snapshot()
    handle.close()
    if not snapshot.session:
        say("interrupted; nothing was submitted")
        return ExitCode.INTERRUPTED
    place = place_of(snapshot.engine.directory)
    say(
        "interrupted; what runs goes on, nothing more is submitted until you resume:\n"
        f"  autoexp-run --session {snapshot.session}{place}"
    )
    return ExitCode.INTERRUPTED


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
