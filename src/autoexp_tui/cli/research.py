"""autoexp-research: the research loop, without a screen, to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.cli.diagnostics import ExitCode, make_entry, say
from autoexp_tui.cli.options import (
    QUIET,
    Flag,
    Options,
    SectionOptions,
    option,
    parse_options,
)
from autoexp_tui.model.errors import UsageError

if TYPE_CHECKING:
    from autoexp_tui.engine.handle import EngineHandle
    from autoexp_tui.model.snapshot import Snapshot

DEFAULT: Final = "experiments/research"
_SET: Final = SectionOptions(
    "research",
    """
goal TEXT what is to be found out
agent NAME the research agent
objective.metric NAME what is sought
objective.mode {min,max} whether less or more is better
objective.target X ends the research when it is reached
gpus N GPUs that items share
starve_after N items that may overtake one that does not fit (3)
min_interval_seconds S between two calls of the research agent (60)
heartbeat_seconds S after the last call, when nothing led to one (900)
context_bytes N of a context at most (65536)
budgets.wall_seconds S of the whole research
budgets.gpu_hours H of all jobs
budgets.calls N of agents
budgets.tokens N of agents
budgets.money X of agents
budgets.on_reached {finish,kill} what runs when a budget is reached (finish)
repository DIR whose code the agent may change
""",
)


def _list_flags() -> Iterator[Flag]:
    yield from _SET.list_flags()
    yield option("--no-wait", "end with 1 when only answers of a person are left")
    yield QUIET


def main(argv: Sequence[str]) -> int:
    """Do research to its end, or go on with a session; raises UsageError,
    NotConfirmed."""
    options, args = parse_options("autoexp-research", __doc__, argv, _list_flags())
    options = replace(
        options,
        config_ref=options.config_ref or DEFAULT,
        overrides=(*options.overrides, *_SET.list_overrides(args)),
    )
    from autoexp_tui.cli.headless import follow, read_watching

    how, tell = read_watching(options, args), partial(tell_end, as_json=options.json)
    return follow(_open(options), how, "autoexp-research", tell_end=tell)


def _open(options: Options) -> EngineHandle:
    """An engine for the session that is named, or for a new one that has begun."""
    from autoexp_tui.cli import open as opening

    if options.session:
        session = opening.find_session(options, options.session)
        opener = opening.SessionOpener(options)
        return opener.own(str(session.path), begin=_call_again)
    plan, _ = opening.make_plan(options)
    if not plan.research:
        raise UsageError(
            f"{plan.config_ref}: its config has no section `research`",
            hint="autoexp-run runs a sweep; docs/research.md tells of `research`.",
        )
    return opening.begin_plan(plan, options, "autoexp-research")


def _call_again(handle: EngineHandle) -> None:
    """Where agents could not be called, somebody may have mended why."""
    from autoexp_tui.research.commands import Consult
    from autoexp_tui.research.state import PART

    research: Any = handle.snapshot().parts.get(PART)
    if research is not None and research.is_hopeless and research.agents_wait:
        handle.send(Consult(), by="autoexp-research")


def tell_end(snapshot: Snapshot, *, as_json: bool) -> int | None:
    """Tell how a research ended, and give the exit code; None: it has not, or the
    session has none."""
    from autoexp_tui.model.policy import find_end
    from autoexp_tui.model.wording import sentence
    from autoexp_tui.research.state import PART

    research: Any = snapshot.parts.get(PART)
    if research is None or research.stopped is None:
        return None
    result = summarize(snapshot.session, research)
    reason = sentence(research.stopped, snapshot.now)
    if as_json:
        print(json.dumps({**result, "reason": reason}))
    else:
        print(_summarize_text(result, research.metric))
        if research.directory:
            print(f"{research.directory}/experiment_state.json")
        say(f"ended: {reason}")
    end = find_end(snapshot.parts)
    return end.code if end else ExitCode.JOBS_NOT_COMPLETED


def summarize(session: str, research: Any) -> dict[str, Any]:
    """A research in short, as plain data."""
    counts: dict[str, int] = {}
    for run in research.runs.values():
        outcome = run.ended.outcome if run.ended else "live"
        counts[outcome] = counts.get(outcome, 0) + 1
    return {
        "session": session,
        "runs": counts,
        "calls": dict(research.calls),
        "cost": sum(research.costs.values()),
        "hypotheses": {one.id: one.status for one in research.hypotheses.values()},
        "best": {"run": research.best_run or None, "value": research.best},
        "stopped": research.stopped.code if research.stopped else None,
    }


def _summarize_text(result: dict[str, Any], metric: str) -> str:
    from autoexp_tui.text.spelling import format_metric, plural

    runs = ", ".join(f"{count} {word}" for word, count in result["runs"].items())
    told = f"session {result['session']}: runs {runs or 'none'}; "
    told += plural(sum(result["calls"].values()), "call")
    if result["best"]["run"]:
        value = format_metric(result["best"]["value"])
        told += f"; best {result['best']['run']}: {metric} {value}"
    return told


entry = make_entry(main, __name__)
