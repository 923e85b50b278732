"""autoexp-monitor: owns a session until it is done, or joins the engine that does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autoexp_tui.cli.diagnostics import make_entry
from autoexp_tui.cli.options import (
    QUIET,
    Options,
    find_state_dir,
    option,
    parse_options,
)
from autoexp_tui.model.errors import UsageError

_FLAGS = (option("--interactive", "open the cockpit"), QUIET)


def main(argv: Sequence[str]) -> int:
    """Report a session until nothing moves any more; 0 when all completed."""
    if "--heir" in argv:  # how engines of earlier versions start one behind them
        from autoexp_tui.cli import background

        return background.main([word for word in argv if word != "--heir"])
    options, args = parse_options(
        "autoexp-monitor", __doc__, argv, _FLAGS, overrides=False
    )
    words = [argument for argument in argv if argument != "--interactive"]
    if options.manifest and not options.session:
        options = _find_by_manifest(options)
        words += ["--manifest", "", "--session", options.session]  # the last one counts
        words += ["--state-dir", options.state_dir]
    if not options.session:
        raise UsageError(
            "which session?",
            hint="autoexp-monitor --session ID; `autoexp-sessions list` names them.",
        )
    if args.interactive:
        from autoexp_tui.cli.tui import main as open_cockpit

        return open_cockpit(words)
    from autoexp_tui.cli.headless import Watching, follow
    from autoexp_tui.cli.open import SessionOpener, find_session

    session = find_session(options)
    handle = SessionOpener(options).join(str(session.path))
    how = Watching(json=options.json, quiet=args.quiet, approve=options.approve)
    return follow(handle, how, "autoexp-monitor")


def _find_by_manifest(options: Options) -> Options:
    from autoexp_tui.storage.manifests import read_manifest, read_manifest_head
    from autoexp_tui.storage.sessions import find_sessions

    plan = read_manifest(Path(options.manifest), run=True)
    place = find_state_dir(options, plan.state_dir)
    found = [
        (session.plan.stat().st_mtime, session.id)
        for session in find_sessions(place)
        if (head := read_manifest_head(session.plan)) and head.plan_id == plan.plan_id
    ]
    if not found:
        raise UsageError(
            f"no session in {place} runs this plan",
            options.manifest,
            "autoexp-submit --manifest FILE makes one.",
        )
    return replace(options, session=max(found)[1], manifest="", state_dir=str(place))


entry = make_entry(main, __name__)
