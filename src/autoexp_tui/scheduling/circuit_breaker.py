"""The storm breaker: many quick failures in a row that nobody ordered pause submission.
An attempt that completes, or ran for long, breaks the row. Trials do not count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from autoexp_tui.actions.action_runner import handle_end
from autoexp_tui.events import events
from autoexp_tui.events.runs import SESSION, format_stage_key, node_key
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.rules import Storm
from autoexp_tui.model.states import BEGUN, Cause, Outcome, why

WARNING_ID: Final = "storm"
"""Of the warning that stands while a storm pauses the session."""
MOST_EXCLUDED: Final = 3
"""Nodes that are left out; when one more fails so, it is not the nodes."""

_CRASHES: Final = frozenset(
    {
        Cause.EXIT_CODE,
        Cause.SIGNAL,
        Cause.LOST,
        Cause.OUT_OF_MEMORY,
        Cause.NODE_FAIL,
    }
)


def end_attempt(context: DecisionContext, ended: events.AttemptEnded) -> None:
    """Record the end of an attempt; one failure too many pauses submission."""
    rules = _rules(context)
    ended = _count_failure(context, ended, rules)
    handle_end(context, ended)
    if ended.streak != "quick" or context.state.paused is not None:
        return
    for kind, key, what in _list_places(context, ended):
        count = context.state.streaks.get(key, 0)
        if kind in rules.per and count >= rules.failures:
            _stop_submission(context, kind, what, count, ended)
            return


def _count_failure(
    context: DecisionContext, ended: events.AttemptEnded, rules: Storm
) -> events.AttemptEnded:
    """The end of an attempt, with what it is to the count of failures in a row."""
    job = context.job(ended.job)
    if not rules.failures or job.spec.trial:
        return ended
    if ended.outcome is Outcome.COMPLETED:
        return replace(ended, streak="broken")
    if ended.rerun:
        return ended  # it says nothing of the jobs
    attempt, ran = job.attempts[ended.attempt - 1], 0.0  # of a run that never began
    if ended.cause not in _CRASHES or attempt.node in context.state.excluded_nodes:
        return ended
    if attempt.began_at is not None and (
        ended.exit_code is not None or ended.signal is not None
    ):  # both by the clock of the run's own host, else both by the engine's
        ran = ended.ended_at - context.state.wall_ahead - attempt.began_at
    elif attempt.began_at is not None and job.state in BEGUN:
        ran = context.now.lived - job.since_lived
    return replace(ended, streak="quick" if ran <= rules.quick_seconds else "broken")


def _rules(context: DecisionContext) -> Storm:
    plan = context.state.base
    return plan.monitoring.storm if plan else Storm()


def _list_places(
    context: DecisionContext, ended: events.AttemptEnded
) -> Iterator[tuple[str, str, str]]:
    """What may be to blame, the narrowest first: its kind, key and words."""
    job = context.job(ended.job)
    node = job.attempts[ended.attempt - 1].node
    if node and context.policy.has_nodes and job.spec.place == "main":
        yield "node", node_key(node), f"on node {node}"
    if job.spec.stage:
        yield "stage", format_stage_key(job.spec.stage), f"in stage {job.spec.stage}"
    yield "session", SESSION, ""


def _stop_submission(
    context: DecisionContext,
    kind: str,
    what: str,
    count: int,
    ended: events.AttemptEnded,
) -> None:
    node = context.job(ended.job).attempts[ended.attempt - 1].node
    last = {"job": ended.job, "line": ended.evidence}
    excludes = kind == "node" and _rules(context).action == "exclude_node"
    if excludes and len(context.state.excluded_nodes) < MOST_EXCLUDED:
        warning_id = f"{WARNING_ID}:{node}"
        reason = why("storm_node", node=node, count=count, **last)
        context.draft.emit(events.NodeExcluded(node=node, why=reason))
    else:
        warning_id = WARNING_ID
        reason = why("storm", count=count, what=what, **last)
        reason = reason.add_args(at=context.now.t)
        context.draft.emit(events.SubmissionPaused(why=reason))
    context.draft.emit(
        events.WarningRaised(
            warning_id=warning_id,
            why=reason,
            severity="error",
            evidence=ended.evidence,
        )
    )
