"""autoexp-tree: search over code states, without a screen, to its end."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.cli.diagnostics import ExitCode, make_entry, say
from autoexp_tui.cli.options import (
    QUIET,
    Flag,
    Options,
    SectionOptions,
    find_state_dir,
    option,
    parse_options,
)
from autoexp_tui.model.errors import UsageError

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.storage.session_dir import SessionDir

DEFAULT: Final = "experiments/tree"
DRY_RUN: Final = "experiments/tree_dry_run"
_SET: Final = SectionOptions(
    "tree",
    """
run NAME the name of the search in refs and reports
beam_width B nodes that the next depth expands (1)
max_depth D depths that are expanded at most (3)
ideas_per_node K ideas asked for at a node (7)
sweep_config_limit N rows that count
max_total_idea_evals N evaluations at most
max_parallel_evals N evaluations at a time (1)
eval_timeout_seconds S over all steps of one
eval_retries N after a lost node or the like (1)
llm_max_inflight N calls of agents at a time
llm_rate_limit N calls of agents a minute
sweep_max_parallel N sweeps at a time
ideas.dir DIR ideas that are there already
lock_stale_seconds S when an owner is dead (600)
keep_rejected_worktrees - of candidates that are not promoted
keep_failed_artifacts - all that a failed evaluation left
force_regenerate_ideas - where a node has some
strict_fail_depth - pause at the first failure of a depth
""",
)


def _list_flags() -> Iterator[Flag]:
    yield from _SET.list_flags()
    yield option(
        "--context-ideas-dir",
        "earlier ideas; may be given again: tree.ideas.context_dirs",
        "DIR",
        action="append",
        default=None,
    )
    yield option(
        "--stop-on-empty-frontier",
        "end when nothing is promoted (on), else expand the same nodes again: "
        "tree.stop_on_empty_frontier",
        action=argparse.BooleanOptionalAction,
        default=None,
    )
    yield option("--rerun-evals", "evaluate what has ended of the open depth again")
    yield option(
        "--retry-in-progress", "one more attempt than --eval-retries for what is open"
    )
    yield option(
        "--resume",
        "go on with an unfinished search, or refuse a name that is there (on)",
        action=argparse.BooleanOptionalAction,
        default=True,
    )
    yield option("--force", "take over a session whose engine may still live")
    yield option("--dry-run", "scripted steps over real git, without a model")
    yield option("--no-wait", "end with 1 when only approvals are left")
    yield option(
        "--report-only", "write TREE_SUMMARY.md of a search's directory anew", "DIR"
    )
    yield option("--validate-only", "check a search's directory", "DIR")
    yield QUIET


def main(argv: Sequence[str]) -> int:
    """Search to the end, or go on with a session; raises UsageError, NotConfirmed."""
    options, args = parse_options("autoexp-tree", __doc__, argv, _list_flags())
    if args.report_only or args.validate_only:
        return _read_back(args)
    if args.dry_run and (options.config_ref or options.session):
        raise UsageError(
            "--dry-run has a config of its own",
            hint="--session ID alone goes on with a dry run.",
        )
    options = replace(
        options,
        config_ref=options.config_ref or (DRY_RUN if args.dry_run else DEFAULT),
        overrides=(*options.overrides, *_list_overrides(args)),
    )
    from autoexp_tui.cli.headless import follow, read_watching
    from autoexp_tui.storage.session_dir import SessionDir

    how = read_watching(options, args)
    found = _open(options, args)
    if isinstance(found, SessionDir):
        from autoexp_tui.storage.journal import load_state

        return _tell_end(found.id, load_state(found).state.parts, as_json=options.json)

    def tell_end(snapshot: Snapshot) -> int | None:
        from autoexp_tui.tree.state import PART

        tree: Any = snapshot.parts.get(PART)
        if tree is None or tree.stopped is None:
            return None
        return _tell_end(snapshot.session, snapshot.parts, as_json=options.json)

    return follow(found, how, "autoexp-tree", tell_end=tell_end)


def _list_overrides(args: argparse.Namespace) -> Iterator[str]:
    from autoexp_tui.planning.overrides import quote

    if place := getattr(args, "ideas.dir"):  # wins over what else there is of ideas
        setattr(args, "ideas.dir", os.path.abspath(place))
        yield from ("++tree.ideas.agent=[]", "++tree.ideas.command=[]")
    yield from _SET.list_overrides(args)
    if args.stop_on_empty_frontier is not None:
        ends = str(args.stop_on_empty_frontier).lower()
        yield f"++tree.stop_on_empty_frontier={ends}"
    if args.context_ideas_dir:
        places = map(quote, map(os.path.abspath, args.context_ideas_dir))
        yield f"++tree.ideas.context_dirs=[{','.join(places)}]"


def _open(options: Options, args: argparse.Namespace) -> SessionDir | EngineHandle:
    """An engine for the session that is named or goes on, or for a new one that has
    begun; or the session of a search that is finished."""
    from autoexp_tui.cli import open as opening

    if options.session:
        session = opening.find_session(options, options.session)
    else:
        plan, _ = opening.make_plan(options)
        if not plan.tree:
            raise UsageError(
                f"{plan.config_ref}: its config has no section `tree`",
                hint="autoexp-run runs a sweep; docs/tree.md tells of `tree`.",
            )
        from autoexp_tui.cli.tree_runs import find_run, hold_starts

        state_dir = find_state_dir(options, plan.state_dir)
        with hold_starts(state_dir, plan.share):
            run = find_run(plan, state_dir, args.run, resume=args.resume)
            if run is None:
                return opening.begin_plan(plan, options, "autoexp-tree")
        session = run.session
        if run.is_finished():
            return session
        say(f"going on with session {session.id}; --no-resume begins another search")
    opener = opening.SessionOpener(options)
    handle = opener.own(str(session.path), force=args.force)
    _order_again(handle, args)
    return handle


def _order_again(handle: EngineHandle, args: argparse.Namespace) -> None:
    """What is asked for with a search that goes on. Depths that are closed stay."""
    from autoexp_tui.tree.commands import GrantRetry, RetryEvaluation
    from autoexp_tui.tree.state import PART, Tree

    tree = handle.snapshot().parts.get(PART)
    if not isinstance(tree, Tree):
        return
    here = [one for one in tree.list_here() if one.judgement is not None]
    for one in here if args.rerun_evals else ():
        order = RetryEvaluation(evaluation=one.id, anyway=True)
        handle.send(order, by="autoexp-tree")
    if args.rerun_evals and not here:
        say("--rerun-evals: nothing of the open depth has ended; closed depths stay")
    for name in tree.open if args.retry_in_progress else ():
        handle.send(GrantRetry(evaluation=name), by="autoexp-tree")


def _tell_end(session: str, parts: Mapping[str, Any], *, as_json: bool) -> int:
    """Tell how a search ended, and give the exit code."""
    from autoexp_tui.model.policy import find_end
    from autoexp_tui.model.wording import sentence
    from autoexp_tui.text.spelling import format_metric, plural
    from autoexp_tui.tree.state import PART

    tree = parts[PART]
    result = summarize(session, tree)
    if as_json:
        print(json.dumps(result))
    else:
        best, root = result["best"], format_metric(result["root"])
        counts = f"{plural(result['evaluations'], 'evaluation')}, "
        counts += plural(result["nodes"], "node")
        found = f"; best {best['id']}: {tree.options.primary.name} "
        found += f"{format_metric(best['primary'])}, the root's is {root}"
        print(f"session {session}: {counts}{found if best['id'] else ''}")
        for number, idea in enumerate(best["chain"], 1):
            print(f"  {number}. {idea}")
        if tree.directory:
            print(f"{tree.directory}/TREE_SUMMARY.md")
        say(f"ended: {sentence(tree.stopped, 0.0)}")
    end = find_end(parts)
    return end.code if end else ExitCode.JOBS_NOT_COMPLETED


def summarize(session: str, tree: Any) -> dict[str, Any]:
    """A search in short, as plain data."""
    best = tree.find_best()
    one = tree.evaluations.get(best.evaluation) if best else None
    root = one.judgement.root if one and one.judgement else None
    measured = tree.find_root_primary()
    ideas = [one for one in tree.evaluations.values() if one.idea is not None]
    return {
        "session": session,
        "evaluations": sum(
            one.judgement is not None and one.judgement.artifact is not None
            for one in ideas
        ),
        "opened": tree.opened,
        "nodes": len(tree.nodes),
        "root": measured,
        "best": {
            "id": best.id if best else None,
            "primary": root.deltas[0].candidate if root else measured,
            "score": root.recommendation.score if root else None,
            "chain": [idea.title for idea in best.chain] if best else [],
        },
        "stopped": tree.stopped.code if tree.stopped else None,
    }


def _read_back(args: argparse.Namespace) -> int:
    """Make the summary anew of a directory's manifest, or check what lies there."""
    from autoexp_tui.evaluation.read_back import render_directory, validate_directory
    from autoexp_tui.text.spelling import plural

    if args.report_only:
        print(render_directory(Path(args.report_only)))
        if found := validate_directory(Path(args.report_only)):
            report = Path(args.report_only, "VALIDATION_REPORT.md")
            say(f"{plural(len(found), 'finding')}: {report}")
        return ExitCode.OK
    findings = validate_directory(Path(args.validate_only))
    for one in findings:
        say(f"{one.where}: {one.problem}")
    print("nothing is wrong" if not findings else f"{len(findings)} findings")
    return ExitCode.JOBS_NOT_COMPLETED if findings else ExitCode.OK


entry = make_entry(main, __name__)
