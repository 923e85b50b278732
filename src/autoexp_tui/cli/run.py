"""autoexp-run: plan, submit and monitor until all is done, without a screen."""

from __future__ import annotations

import argparse
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
from autoexp_tui.model.errors import NotConfirmed, UsageError
from autoexp_tui.model.states import JobState

if TYPE_CHECKING:
    from autoexp_tui.cli.headless import Watching
    from autoexp_tui.engine.live import LiveHandle
    from autoexp_tui.model.specs import Plan

_NOT_SUBMITTED = frozenset({JobState.PLANNED, JobState.HELD})


def main(argv: Sequence[str]) -> int:
    """Run the config's campaign, or go on with a session, to its end."""
    made = parser("autoexp-run", __doc__ or "")
    made.add_argument(
        "--no-wait",
        action="store_true",
        help="end with 1 when only approvals that nobody gives are left",
    )
    made.add_argument("--quiet", action="store_true", help="say nothing until the end")
    add_first_family(made)
    made.add_argument(
        "--rest",
        action="store_true",
        help="with --session: submit what was held as well",
    )
    add_force(made)
    args = parse(made, argv)
    options = common(args)
    _check(args, options)
    from autoexp_tui.cli.headless import Watching

    how = Watching(
        json=options.json, wait_for_approval=not args.no_wait, quiet=args.quiet
    )
    return run(options, how, first_family=args.first_family, rest=args.rest)


def _check(args: argparse.Namespace, options: Options) -> None:
    """One family is chosen of a plan, the rest of a session that has it.

    Raises:
        UsageError: it is the other way round.
    """
    if args.first_family and options.session:
        raise UsageError(
            "--first-family chooses what a new session begins with",
            hint="--rest submits what a session holds.",
        )
    if args.rest and not options.session:
        raise UsageError(
            "--rest needs the session whose held jobs it submits",
            hint="autoexp-run --session ID --rest; autoexp-sessions list shows ids.",
        )


def run(
    options: Options,
    how: Watching,
    *,
    first_family: bool = False,
    rest: bool = False,
) -> int:
    """The campaign of `options`, watched as `how` says; its exit code.

    With `first_family` the rest is held, and those that were chosen decide the code;
    `rest` submits what a session holds.
    """
    from autoexp_tui.cli.garbage import settle
    from autoexp_tui.cli.headless import (
        Interrupted,
        failed_to_start,
        finish,
        watch,
    )
    from autoexp_tui.cli.leave import leave

    try:
        handle, chosen = open_handle(options, first_family=first_family, rest=rest)
    except KeyboardInterrupt:
        say("interrupted; nothing was submitted")
        return ExitCode.INTERRUPTED
    try:
        settle()
        submit_fresh(handle, chosen, rest=rest)
        snapshot = watch(handle, how)
    except (Interrupted, KeyboardInterrupt):
        return leave(handle, "autoexp-run")
    handle.close()
    if not snapshot.session:
        return failed_to_start(snapshot, handle.problem)
    return finish(snapshot, as_json=how.json, chosen=frozenset(chosen))


def chosen_and_confirmed(
    plan: Plan, options: Options, *, first_family: bool
) -> tuple[str, ...]:
    """Which jobs go first, once what they may cost is confirmed; empty: all go.

    With `first_family` those of the first one that has not done all its work.

    Raises:
        NotConfirmed: nobody said yes to what is above the bounds.
    """
    from autoexp_tui.cli.confirm import confirmed, done_jobs
    from autoexp_tui.planning import canary

    if not first_family:
        confirmed(plan, options)
        return ()
    done = frozenset() if options.force else done_jobs(plan)
    chosen = canary.first_family(plan, done)
    confirmed(plan, options, frozenset(chosen))
    return chosen


def open_handle(
    options: Options, *, first_family: bool, rest: bool
) -> tuple[LiveHandle, tuple[str, ...]]:
    """An engine for the session that was named, or for a new one; what is chosen of it.

    Raises:
        NotConfirmed: nobody said yes to what is above the bounds.
    """
    from autoexp_tui.cli import open as opening

    if options.session:
        handle = opening.owned_handle(opening.session_of(options), options)
        if rest:
            _confirm_rest(handle, options)
        return handle, ()
    plan = opening.make_plan(options)
    chosen = chosen_and_confirmed(plan, options, first_family=first_family)
    return opening.plan_handle(plan, options), chosen


def _confirm_rest(handle: LiveHandle, options: Options) -> None:
    from autoexp_tui.cli.confirm import confirmed

    snapshot = handle.snapshot()
    going = {job.name for job in snapshot.jobs if job.state in _NOT_SUBMITTED}
    try:
        if snapshot.plan is not None:
            confirmed(snapshot.plan, options, going)
    except (NotConfirmed, KeyboardInterrupt):
        handle.close()
        raise


def submit_fresh(
    handle: LiveHandle, chosen: tuple[str, ...] = (), *, rest: bool = False
) -> None:
    """Let the jobs run, or those `chosen` alone, unless that was done before.

    With `rest` also what was held then.
    """
    from autoexp_tui.model.commands import Submit

    states = {job.state for job in handle.snapshot().jobs}
    fresh = states <= {JobState.PLANNED}
    if rest:
        fresh = bool(states & _NOT_SUBMITTED)
    if fresh:
        handle.send(Submit(jobs=chosen), by="autoexp-run")


def entry() -> None:
    """The console script."""
    exit_with(main)


if __name__ == "__main__":
    entry()
