"""More of a campaign that runs, from the command line or the cockpit: the plan is made
anew in the planning process, compared, and stored beside the journal before the engine
is told of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.cli.diagnostics import ExitCode, say
from autoexp_tui.cli.options import Flag, Options, option, require_overrides
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    NotConfirmed,
    UsageError,
    ValidationFailed,
)
from autoexp_tui.planning.growth import (
    Choices,
    Growth,
    build_joining_plan,
    choose_running,
    compare_plans,
    list_lines,
)
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    import argparse

    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.model.commands import Grow
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.storage.session_dir import SessionDir

ANSWER_SECONDS = 60.0
"""How long an engine is given to let a plan join."""
FLAGS: Final[tuple[Flag, ...]] = (
    option(
        "--differing",
        "with --session: jobs that differ keep running as they are (keep), or come "
        "again under new names (rename)",
        "HOW",
        choices=("keep", "rename"),
    ),
    option(
        "--unplanned-waiting",
        "with --session: waiting jobs that are no longer planned stay, hold or end",
        "HOW",
        choices=("stay", "hold", "end"),
        default="stay",
    ),
    option(
        "--unplanned-running",
        "with --session: running jobs that are no longer planned stay or end",
        "HOW",
        choices=("stay", "end"),
        default="stay",
    ),
)


def plan_growth(snapshot: Snapshot, overrides: Sequence[str]) -> Growth:
    """How the config, as it is now and with further overrides, compares with a session;
    blocks. Raises UsageError, ValidationFailed with all that is wrong,
    EnvironmentFailed, and SessionOwned where another living session writes."""
    from autoexp_tui.cli.assemble import find_work
    from autoexp_tui.config.planning import PlanningRequest, find_cwd, run_planning
    from autoexp_tui.storage.output_dir_lock import Living

    _find_directory(snapshot).require_own()
    require_overrides(overrides)
    asked, whole = snapshot.asked or snapshot.plan, snapshot.plan
    if asked is None or whole is None or not asked.config_ref:
        raise UsageError(
            "the session has no config that could be planned again",
            where=snapshot.session,
            hint="It was begun from a manifest that names none.",
        )
    specs = [job.spec for job in snapshot.jobs]
    request = PlanningRequest(
        want="growth",
        config_ref=asked.config_ref,
        config_dir=asked.config_dir,
        search_dirs=asked.search_dirs,
        overrides=asked.overrides,
        further=tuple(overrides),
        cwd=find_cwd(asked),
        state_dir=whole.state_dir,
        now=asked.created_at,  # what names the time of planning stays as it is
        known=tuple((one.name, one.output_dir, one.log_dir) for one in specs),
        fingerprints=tuple((job.name, job.fingerprint) for job in whole.jobs),
        keep=True,
    )
    answer = run_planning(request)
    answer.raise_errors()
    assert answer.plan is not None
    growth = compare_plans(
        answer.plan, answer.renamed or answer.plan, whole, snapshot.jobs
    )
    if growth.refusals:
        head = "the session cannot take this plan"
        raise ValidationFailed(head, problems=growth.refusals)
    find_work(build_joining_plan(growth, Choices()), Living(), specs)
    return growth


def _find_directory(snapshot: Snapshot) -> SessionDir:
    from autoexp_tui.storage.session_dir import SessionDir

    return SessionDir(Path(snapshot.engine.directory))


def store_growth(
    snapshot: Snapshot, growth: Growth, choices: Choices, *, force: bool = False
) -> tuple[Grow, Mapping[str, int]]:
    """Keep the plan that joins beside the journal; the command for it, and the attempts
    that were seen of the jobs it leaves out. Blocks; raises EnvironmentFailed."""
    from autoexp_tui.model.commands import Grow
    from autoexp_tui.storage.provenance import record_path

    source = growth.renamed if choices.different == "rename" else growth.plan
    record = record_path(Path(source.state_dir), source.plan_id)
    plan = build_joining_plan(growth, choices, str(record))
    hold = growth.waiting if choices.waiting == "hold" else ()
    end = growth.waiting if choices.waiting == "end" else ()
    end += growth.running if choices.running == "end" else ()
    sha = _find_directory(snapshot).save_plan(plan)
    run = choose_running(plan, choices)
    command = Grow(sha=sha, run=run, hold=hold, end=end, force=force)
    return command, {name: growth.attempts[name] for name in (*hold, *end)}


def require_session(options: Options, args: argparse.Namespace) -> None:
    """The choices about a session's jobs need one; raises UsageError."""
    given = (args.differing, args.unplanned_waiting, args.unplanned_running)
    if not options.session and given != ("", "stay", "stay"):
        raise UsageError(
            "--differing and --unplanned-* are about the jobs of a session",
            hint="Name it with --session ID.",
        )


def confirm_growth(growth: Growth, choices: Choices, options: Options) -> None:
    """Show what would be done, on stderr, and return once somebody has said yes, with
    --yes or at the terminal; raises NotConfirmed."""
    head = growth.describe()
    if growth.is_empty:
        raise NotConfirmed(f"nothing joins: it {head}", hint="Nothing was changed.")
    if growth.moved and not choices.different:
        first = next(text for mark, text in list_lines(growth) if mark == "!")
        raise NotConfirmed(
            f"names that hold the index mean other points now: {clean(first)}",
            hint="--differing keep leaves the jobs as they are, and their points out; "
            "--differing rename adds them under new names.",
        )
    joins = build_joining_plan(growth, choices).jobs
    leaves = (growth.waiting and choices.waiting != "stay") or (
        growth.running and choices.running == "end"
    )
    if not joins and not leaves:
        hint = "--differing rename adds what differs under new names."
        raise NotConfirmed(
            f"nothing joins: it {head}",
            hint=hint if growth.different else "--unplanned-* holds or ends jobs.",
        )
    if options.yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotConfirmed(f"it {head}", hint="Add --yes to do it.")
    for mark, text in list_lines(growth, choices):
        say(f"  {mark} {clean(text)}")
    print("Let it join? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotConfirmed("not joined", hint="Nothing was changed.")


def describe_growth(growth: Growth) -> dict[str, Any]:
    """A growth as scripts read it."""
    names = ("added", "same", "different", "moved")
    return {
        **{name: list(getattr(growth, name)) for name in names},
        "new_names": dict(growth.new_names),
        "no_longer_planned": {
            name: list(getattr(growth, name))
            for name in ("waiting", "running", "ended")
        },
    }


def wait_joined(handle: EngineHandle, command: str) -> None:
    """Return once the session's engine has let a plan join; raises ValidationFailed
    where it was refused, and EnvironmentFailed where it does not answer."""
    from autoexp_tui.effects.effects import JoinJobs
    from autoexp_tui.events.events import CommandRefused
    from autoexp_tui.model.wording import sentence

    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        snapshot = handle.snapshot()
        own = [one.event for one in snapshot.events if one.command_id == command]
        for event in own:
            if isinstance(event, CommandRefused):
                raise ValidationFailed(sentence(event.why, snapshot.now, keys=False))
        if own and not any(isinstance(p.effect, JoinJobs) for p in snapshot.pending):
            return
        time.sleep(0.05)
    raise EnvironmentFailed(
        f"the engine did not answer within {ANSWER_SECONDS:.0f} s",
        snapshot.session,
        "The plan is stored, and asked for: `autoexp-sessions show` tells whether it "
        "has joined.",
    )


def submit_more(options: Options, args: argparse.Namespace) -> int:
    """Let more join the session that `--session` names: its engine's inbox has the
    command, or an engine is started for as long as it takes; the exit code."""
    import json

    from autoexp_tui.cli.session_verbs.request import Request, send

    session, growth, command, expected = _prepare(options, args)
    request = Request("submit", (options.session,), args, options)
    answer = send(request, [command], by="autoexp-submit", expected=expected)
    done = answer.outcome == "done"
    if options.json:
        told = {"session": session.id, "plan": command.sha, **describe_growth(growth)}
        told |= {"outcome": answer.outcome, "why": answer.why, "engine": answer.engine}
        print(json.dumps(told))
    elif done:
        renames = args.differing == "rename" and growth.different
        how = " and join under new names" if renames else ""
        print(f"session {session.id}: {growth.describe()}{how}")
        if answer.note:
            print(f"  {answer.note}")
    else:
        say(f"{'refused: ' if answer.outcome == 'refused' else ''}{answer.why}")
    return ExitCode.OK if done else ExitCode.JOBS_NOT_COMPLETED


def grow_here(options: Options, args: argparse.Namespace) -> EngineHandle:
    """Let more join the session that `--session` names, and stay with it: an engine of
    this process, or a view of that which lives; raises AutoexpError."""
    from autoexp_tui.cli.open import SessionOpener

    session, _, command, expected = _prepare(options, args)
    sent: list[str] = []

    def begin(engine: EngineHandle) -> None:
        sent.append(engine.send(command, by="autoexp-run", expected=expected))

    handle = SessionOpener(options).join(str(session.path), begin)
    try:
        if not sent:
            begin(handle)
        wait_joined(handle, sent[0])
    except (AutoexpError, KeyboardInterrupt):
        handle.close()
        raise
    return handle


def _prepare(
    options: Options, args: argparse.Namespace
) -> tuple[SessionDir, Growth, Grow, Mapping[str, int]]:
    """What is to join is planned, confirmed, and stored beside the journal."""
    from autoexp_tui.cli.open import SessionOpener, confirm, find_session

    for flag in ("--manifest", "--config-ref", "--config-dir", "--local"):
        if getattr(options, flag.strip("-").replace("-", "_")):
            raise UsageError(
                f"--session plans the session's own config again, without {flag}",
                hint=f"Leave {flag} away; overrides change what is planned.",
            )
    session = find_session(options, options.session)
    handle = SessionOpener(options).view(str(session.path))
    try:
        snapshot = handle.snapshot()
    finally:
        handle.close()
    choices = Choices(
        different=args.differing,
        waiting=args.unplanned_waiting,
        running=args.unplanned_running,
        run="family" if args.first_family else "all",
    )
    growth = plan_growth(snapshot, options.overrides)
    confirm_growth(growth, choices, options)
    joining = build_joining_plan(growth, choices)
    confirm(joining, options, choose_running(joining, choices))
    return (
        session,
        growth,
        *store_growth(snapshot, growth, choices, force=options.force),
    )
