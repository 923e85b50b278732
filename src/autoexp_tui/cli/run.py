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
    from autoexp_tui.cli.garbage import settle
    from autoexp_tui.cli.headless import Interrupted, failed_to_start, finish, watch
    from autoexp_tui.cli.leaving import leave

    try:
        handle = open_handle(options)
    except KeyboardInterrupt:
        say("interrupted; nothing was submitted")
        return ExitCode.INTERRUPTED
    try:
        settle()
        submitted = submit_fresh(handle)
        snapshot = watch(handle, replace(how, after=submitted))
    except (Interrupted, KeyboardInterrupt):
        return leave(handle, "autoexp-run")
    handle.close()
    if not snapshot.session:
        return failed_to_start(snapshot, handle.problem)
    return finish(snapshot, as_json=how.json)


def open_handle(options: Options) -> LiveHandle:
    """An engine for the session that was named, or the plan of a new campaign."""
    from autoexp_tui.cli import opening
    from autoexp_tui.cli.confirming import confirmed

    if options.session:
        return opening.owned_handle(opening.session_of(options), options)
    plan = confirmed(opening.make_plan(options), options)
    return opening.plan_handle(plan, options)


def submit_fresh(handle: LiveHandle) -> str:
    """Let the jobs run, unless that was done before.

    The id of the command that does it; empty when there is none.
    """
    from autoexp_tui.core.commands import Submit
    from autoexp_tui.core.states import JobState

    fresh = all(job.state is JobState.PLANNED for job in handle.snapshot().jobs)
    return handle.send(Submit(), by="autoexp-run") if fresh else ""


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
