"""What rules do when an attempt ends, a log line matches, or a job changes its state.

Decided in the same step as the end itself: afterwards a job is RETRYING or ended for
good, and no dependant ever sees the moment in between. How a single action is carried
out is in `action_runner`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from autoexp_tui.actions.action_runner import hold_for_restart, run_action
from autoexp_tui.actions.orders import end_job
from autoexp_tui.events import events
from autoexp_tui.model.action import Armed
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.rules import LogEvent, StateClass, StateEvent, is_for_stage
from autoexp_tui.model.state import JobRecord, Move
from autoexp_tui.model.states import Cause, JobState, Outcome, why

CLASS_OF: dict[Cause, StateClass] = {
    Cause.EXIT_CODE: "crash",
    Cause.SIGNAL: "crash",
    Cause.LOST: "crash",
    Cause.OUT_OF_MEMORY: "oom",
    Cause.TIMEOUT: "timeout",
    Cause.NODE_FAIL: "node_fail",
    Cause.PREEMPTED: "preempted",
    Cause.STALL: "stall",
}
"""Which state class a cause belongs to; causes that are absent trigger none."""
MOST_RERUNS: Final = 3
"""Failures of nodes of a job after which only a rule or a person has it run again."""


def handle_end(context: DecisionContext, ended: events.AttemptEnded) -> None:
    """Record the end of a job's attempt and decide what becomes of the job: what rules
    make of it; without any, the job ends as its attempt."""
    before = context.job(ended.job)
    context.draft.emit(ended)
    if before.ended:
        lost = before.state is JobState.LOST and before.attempt
        late = lost and lost.number == ended.attempt
        if late and ended.outcome is Outcome.COMPLETED:
            job, reason = context.job(ended.job), why("late_exit_record")
            end_job(context, job, JobState.COMPLETED, None, reason)
        return
    for armed in _list_armed_by_end(context, before, ended):
        run_action(context, armed, ended.job, ended)
    job = context.job(ended.job)
    if job.state is JobState.RETRYING or job.ended:
        return
    if hold_for_restart(context, ended.job, ended):
        return
    failures = sum(one.cause is Cause.NODE_FAIL for one in job.attempts)
    if ended.rerun and failures <= MOST_RERUNS:  # in the place of an executor's rerun
        again = why("rerun", attempt=len(job.attempts) + 1)
        retry = events.RetryOrdered(
            job=job.name, wait_seconds=0.0, from_checkpoint=True, why=again
        )
        context.draft.emit(retry)
        return
    state = JobState(ended.outcome.value)
    end_job(context, job, state, ended.cause, ended.why)
    if context.state.moves:
        context.state.moves.pop()  # rules over it were carried out just now


def _list_armed_by_end(
    context: DecisionContext, before: JobRecord, ended: events.AttemptEnded
) -> Iterator[Armed]:
    """What a log line ordered for after the run while that was alive, void when it
    completed or was cancelled; then the rules over the end."""
    trigger = f"attempt {ended.attempt}"
    bad = ended.outcome in (Outcome.FAILED, Outcome.LOST)
    for key, put_off in before.deferred.items() if bad else ():
        if key not in context.job(before.name).deferred:
            continue  # one before it has settled it
        waiting = context.find_action(before.name, key, put_off)
        if waiting is not None and waiting.action.follows_run:
            yield waiting
    for rule in context.rules_of(before.name).state_events:
        if _is_rule_over_end(rule, before, ended):
            for index, action in enumerate(rule.actions):
                yield Armed(f"{rule.name}/{index}", action, trigger, ended.evidence)


def _is_rule_over_end(
    rule: StateEvent, before: JobRecord, ended: events.AttemptEnded
) -> bool:
    if not is_for_stage(rule, before.spec.stage):
        return False
    if rule.state is not None:
        if ended.outcome is Outcome.COMPLETED:
            return rule.state == "success"
        if ended.outcome is Outcome.CANCELLED or ended.cause is None:
            return False
        return rule.state == CLASS_OF.get(ended.cause)
    old, new = rule.transition or ("", "")
    return new == ended.outcome.value and old in (None, before.state.value)


def log_matched(
    context: DecisionContext, matched: events.LogMatched, rule: LogEvent
) -> None:
    """Record a match once, and carry out the rule's actions."""
    place = (matched.job, matched.attempt, matched.run, matched.rule)
    known = context.state.mark_of(*place)
    if known is not None and known[0] == matched.match_id:
        return
    context.draft.emit(matched)
    for index, action in enumerate(rule.actions):
        armed = Armed(f"{rule.name}/{index}", action, matched.match_id, matched.line)
        if not context.job(matched.job).ended:
            run_action(context, armed, matched.job, None)


def handle_moves(context: DecisionContext) -> None:
    """Carry out rules over the moves of jobs that nobody has looked at yet."""
    while context.state.moves:
        _handle_move(context, context.state.moves.pop(0))


def _handle_move(context: DecisionContext, move: Move) -> None:
    trigger = f"{move.old.value} to {move.new.value} ({move.seq})"
    for rule in context.rules_of(move.job).state_events:
        stage = context.job(move.job).spec.stage
        old, new = rule.transition or ("", "")
        if new != move.new.value or old not in (None, move.old.value):
            continue
        for index, action in enumerate(
            rule.actions if is_for_stage(rule, stage) else ()
        ):
            armed = Armed(f"{rule.name}/{index}", action, trigger)
            if not (context.job(move.job).ended and action.is_of_run):
                run_action(context, armed, move.job, None)
