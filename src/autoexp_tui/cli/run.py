"""autoexp-run: plan, submit and monitor until all is done, without a screen."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cli import growth
from autoexp_tui.cli.diagnostics import ExitCode, make_entry, say
from autoexp_tui.cli.options import (
    FIRST_FAMILY,
    FORCE,
    QUIET,
    Options,
    option,
    parse_options,
)
from autoexp_tui.model.errors import NotConfirmed, UsageError
from autoexp_tui.model.states import JobState

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.model.snapshot import Snapshot

_NOT_SUBMITTED = frozenset({JobState.PLANNED, JobState.HELD})
_FLAGS = (
    option("--no-wait", "end with 1 when only approvals that nobody gives are left"),
    QUIET,
    FIRST_FAMILY,
    option("--rest", "with --session: submit what was held as well"),
    FORCE,
    *growth.FLAGS,
)


def main(argv: Sequence[str]) -> int:
    """Run the config's campaign, or go on with a session, to its end; raises UsageError
    or NotConfirmed."""
    options, args = parse_options("autoexp-run", __doc__, argv, _FLAGS)
    growth.require_session(options, args)
    is_new = not options.session or bool(options.overrides)
    if args.rest if not options.session else args.first_family and not is_new:
        raise UsageError(
            "--first-family is for a new session, --rest for one that holds jobs",
            hint="autoexp-run --session ID --rest; autoexp-sessions list shows ids.",
        )
    from autoexp_tui.cli.headless import follow, read_watching
    from autoexp_tui.model.commands import Submit

    how = read_watching(options, args)
    try:
        handle, chosen = _open(options, args)
    except KeyboardInterrupt:
        say("interrupted. Nothing was submitted.")
        return ExitCode.INTERRUPTED

    def submit() -> None:
        """Let the jobs run, or those chosen alone, unless that was done before."""
        states = {job.state for job in handle.snapshot().jobs}
        if states & _NOT_SUBMITTED if args.rest else states <= {JobState.PLANNED}:
            handle.send(Submit(jobs=chosen), by="autoexp-run")

    def tell_end(snapshot: Snapshot) -> int | None:
        """A research loop is told of in words of its own."""
        if "research" not in snapshot.parts:
            return None
        from autoexp_tui.cli import research

        return research.tell_end(snapshot, as_json=options.json)

    again = "autoexp-monitor" if handle.role == "viewer" else "autoexp-run"
    return follow(
        handle,
        how,
        again,
        begin=submit,
        chosen=frozenset(chosen),
        tell_end=tell_end,
    )


def _open(
    options: Options, args: argparse.Namespace
) -> tuple[EngineHandle, tuple[str, ...]]:
    """An engine for the session that was named, or for a new one; what is chosen of it.
    What joins a session that has its engine is handed to that, and watched.

    With --first-family the rest is held, and those that were chosen decide the code.
    """
    from autoexp_tui.cli import open as opening

    if not options.session:
        return opening.open_chosen(options, first_family=args.first_family)
    if options.overrides:
        handle = growth.grow_here(options, args)
    else:
        session = opening.find_session(options, options.session)
        handle = opening.SessionOpener(options).own(str(session.path))
    snapshot = handle.snapshot()
    going = {job.name for job in snapshot.jobs if job.state in _NOT_SUBMITTED}
    try:
        if args.rest and snapshot.plan is not None:
            opening.confirm(snapshot.plan, options, going)
    except (NotConfirmed, KeyboardInterrupt):
        handle.close()
        raise
    return handle, ()


entry = make_entry(main, __name__)
