"""What rules do when an attempt ends, a log line matches, or a job changes its state.
In the step of the end itself, so that no dependant sees a moment in between. Of an
action's conditions one that FAILs drops it, one that WAITs puts it off, for the next
engine too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from autoexp_tui.actions.orders import Firing, drop, end_job, raise_warning
from autoexp_tui.conditions.bindings import Lacking
from autoexp_tui.conditions.kinds import has_attempt_limit
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.condition import UNTIMED, EvalContext, evaluate, find_wake, needs
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.facts import FactKey, JobKey, MetadataKey
from autoexp_tui.model.kinds import is_ours, tell_error
from autoexp_tui.model.rules import (
    Armed,
    LogEvent,
    StateClass,
    StateEvent,
    arm,
    is_for_stage,
)
from autoexp_tui.model.state import Deferred, JobRecord
from autoexp_tui.model.states import Cause, JobState, Outcome, Result, Verdict, Why, why

MOST_JOINS: Final = 100
"""How often an action of a job lets others join, where no MaxAttempts says it."""
_WARNED: Final = frozenset({"value_refused", "joins_spent"})
"""Reasons not to act that a person should see."""
_BY_TIME: Final = frozenset({"cooling_down", "time_until"})
_BAD: Final = frozenset({Outcome.FAILED, Outcome.LOST})


@dataclass(slots=True)
class Judged:
    """What all conditions of an action say together."""

    verdict: Verdict = field(default_factory=lambda: Verdict(Result.PASS, why("ok")))
    keys: set[FactKey] = field(default_factory=set)
    """What was read: when one of them changes, the action is looked at again."""
    wakes: list[float] = field(default_factory=list)
    """When (lived) waiting conditions may say otherwise although no fact changes."""
    codes: set[str] = field(default_factory=set)


def _check_action(firing: Firing, since_lived: float) -> Judged:
    """All conditions of an action together, then whether its fields have values.
    `since_lived`: time-outs of its conditions count from then on."""
    context, armed, judged = firing.context, firing.armed, Judged()
    made = None  # how often an action that makes jobs did; else the job's own count
    if armed.action.makes_jobs:
        line = tuple(context.state.list_origins(firing.job))
        made = sum(one.firings.get(armed.key, 0) for one in line)
        if endless := _explain_endless(armed, line):
            return Judged(Verdict(Result.FAIL, endless))
    name = firing.job.name
    ctx = EvalContext(
        job=name, waiting_lived=since_lived, action=armed.key, attempts=made
    )
    for spec in filter(attrgetter("blocking"), armed.action.conditions):
        bound, lacking = firing.bind(spec)
        if bound is None:
            return _wait_for_values(context, judged, lacking)
        judged.keys |= needs(bound, name, armed.key)
        verdict = evaluate(bound, context, context.now, ctx)
        if verdict.result is Result.FAIL:
            return Judged(verdict, judged.keys)
        if verdict.result is Result.WAIT:
            at = find_wake(bound, context, context.now, ctx)
            judged.wakes += [] if at is None else [at]
            judged.verdict = verdict if not judged.codes else judged.verdict
            judged.codes.add(verdict.why.code)
    if armed.action.needs_values and not judged.codes:
        _, lacking = firing.bind_action()
        return _wait_for_values(context, judged, lacking) if lacking else judged
    return judged


def _explain_endless(armed: Armed, line: Sequence[JobRecord]) -> Why | None:
    """Why an action makes no more jobs for the first of `line` (the job, whose rule
    made it, and so on), where nothing bounds how often it would. A recovery that fails
    may call for the same recovery: what an action makes is under the rules too. Nor can
    anybody mean that one job's action makes jobs for ever."""
    if has_attempt_limit(armed.action.conditions):
        return None
    if any(one.parent_action == armed.key for one in line):
        return why("own_offspring", rule=armed.rule)
    if line[0].firings.get(armed.key, 0) >= MOST_JOINS:
        return why("joins_spent", rule=armed.rule, max=MOST_JOINS)
    return None


def _wait_for_values(
    context: DecisionContext, judged: Judged, lacking: tuple[Lacking, ...]
) -> Judged:
    """Values are missing: they are waited for, while they may still come. One that may
    not stand where it is asked for stands there never."""
    refused = next((one for one in lacking if one.problem), None)
    if refused is None:
        judged.keys |= {MetadataKey(one.job, one.key) for one in lacking}
        judged.keys |= {JobKey(one.job) for one in lacking}  # it may end without them
    first = refused or lacking[0]
    result, reason = Result.FAIL if refused else Result.WAIT, first.explain()
    source = context.state.jobs.get(first.job)
    if not refused and source is not None and source.ended:
        result, state = Result.FAIL, source.state.value
        reason = why("value_never_came", job=first.job, key=first.key, state=state)
    return Judged(Verdict(result, reason), judged.keys, judged.wakes)


def _run_action(
    context: DecisionContext,
    armed: Armed,
    name: str,
    ended: events.AttemptEnded | None = None,
    since_lived: float | None = None,
) -> Judged:
    """Fire an action, put it off, or drop it, as its conditions say; `ended`: the end
    of an attempt that triggered it; `since_lived`: when it was put off."""
    job = context.job(name)
    firing, retry = Firing(context, armed, job, ended), job.retry
    retried = job.state is JobState.RETRYING
    if armed.action.restarts and retried and retry and not retry.held:
        # Of the restarts after one end the first counts. A further one is not judged:
        # put off, it would come back later and end the run that the first has ordered.
        firing.drop("restarted_already")
        return Judged()
    judged = _check_action(
        firing, context.now.lived if since_lived is None else since_lived
    )
    reason, ready_at = judged.verdict.why, max(judged.wakes, default=None)
    over = armed.action.restarts and (ended is not None or retried)
    if judged.verdict.result is Result.FAIL:
        drop(context, name, armed.key, armed.trigger, reason)
        if reason.code in _WARNED:
            _warn_of_drop(firing, reason)
    elif judged.verdict.result is Result.PASS:
        _execute(firing)
    elif over and ready_at and judged.codes and judged.codes <= _BY_TIME:
        wait_seconds = ready_at - context.now.lived
        _execute(Firing(context, armed, job, ended, wait_seconds))
    else:
        firing.put_off(reason, ready_at)
    return judged


def _warn_of_drop(firing: Firing, reason: Why) -> None:
    """A rule that a log's text has stopped needs a person: it may be meant so."""
    armed, job = firing.armed, firing.job.name
    warning_id = "v" + ids.digest(job, armed.key, reason.arg("key"))
    raise_warning(firing.context, warning_id, reason, job, evidence=armed.line)


def _execute(firing: Firing) -> None:
    """Carry an action out; one of somebody else's that raises is dropped."""
    armed, name = firing.armed, firing.job.name
    action = armed.action
    try:
        bound = firing.bind_action()[0] if action.needs_values else action
        assert bound is not None, "its values were there when it was judged"
        if bound.execute(firing):
            key, trigger = armed.key, armed.trigger
            fired = events.ActionFired(job=name, action=key, trigger=trigger)
            firing.context.draft.emit(fired)
    except Exception as error:  # somebody else's code may raise anything
        if is_ours(type(action)):
            raise
        problem = tell_error(error)
        what = why("action_failed", kind=action.kind, what=armed.rule, problem=problem)
        drop(firing.context, name, armed.key, armed.trigger, what)
        _warn_of_drop(firing, what)


def check_deferred(context: DecisionContext, name: str) -> Judged:
    """Look again at actions of a job that were put off; what they read."""
    seen = Judged()
    for key, waiting in list(context.job(name).deferred.items()):
        if context.job(name).deferred.get(key) is not waiting:
            continue  # one before it has settled it
        armed = context.find_action(name, key, waiting)
        if armed is None:
            drop(context, name, key, waiting.trigger, why("rule_is_gone"))
        elif armed.action.can_fire_late(context.job(name)):
            judged = _run_action(context, armed, name, None, waiting.since_lived)
            seen.keys |= judged.keys
            seen.wakes += judged.wakes
    job = context.job(name)
    if job.state is JobState.RETRYING and job.retry is not None and job.retry.held:
        _end_held(context, job)
    return seen


def _hold_for_restart(context: DecisionContext, ended: events.AttemptEnded) -> bool:
    """Keep a job whose attempt has ended, while it is not decided if it runs again. A
    condition that nobody could look at yet, or that has a time-out, is waited for; what
    is known not to hold, and may take for ever, ends the job now."""
    for key, waiting in context.list_restarts(ended.job):
        meant = ended.outcome in _BAD or waiting.trigger == f"attempt {ended.attempt}"
        armed = context.find_action(ended.job, key, waiting)
        if armed is not None and meant and _is_undecided(waiting):
            restart = armed.action
            context.draft.emit(
                events.RetryOrdered(
                    job=ended.job,
                    wait_seconds=0.0,
                    from_checkpoint=getattr(restart, "from_checkpoint", True),
                    use_files=getattr(restart, "followers", "wait") == "use",
                    why=waiting.why,
                    held=True,
                )
            )
            return True
    return False


def _is_undecided(waiting: Deferred) -> bool:
    return waiting.why.code in UNTIMED or waiting.until_lived is not None


def _end_held(context: DecisionContext, job: JobRecord) -> None:
    """End a job that was kept for restarts, once none of them may come any more."""
    waiting = context.list_restarts(job.name)
    if any(_is_undecided(one) for _, one in waiting):
        return
    for key, one in waiting:
        drop(context, job.name, key, one.trigger, one.why)
    attempt = job.attempt
    if attempt is not None and attempt.outcome is not None:
        state = JobState(attempt.outcome.value)
        end_job(context, context.job(job.name), state, attempt.cause, attempt.why)


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
        _run_action(context, armed, ended.job, ended)
    job = context.job(ended.job)
    if job.state is JobState.RETRYING or job.ended or _hold_for_restart(context, ended):
        return
    failures = sum(one.cause is Cause.NODE_FAIL for one in job.attempts)
    if ended.rerun and failures <= MOST_RERUNS:  # in the place of an executor's rerun
        again = why("rerun", attempt=len(job.attempts) + 1)
        retry = events.RetryOrdered(
            job=job.name, wait_seconds=0.0, from_checkpoint=True, why=again
        )
        context.draft.emit(retry)
        return
    end_job(context, job, JobState(ended.outcome.value), ended.cause, ended.why)
    if context.state.moves:
        context.state.moves.pop()  # rules over it were carried out just now


def _list_armed_by_end(
    context: DecisionContext, before: JobRecord, ended: events.AttemptEnded
) -> Iterator[Armed]:
    """What a log line ordered for after the run while that was alive, void when it
    completed or was cancelled; then the rules over the end."""
    trigger = f"attempt {ended.attempt}"
    for key, put_off in before.deferred.items() if ended.outcome in _BAD else ():
        if key not in context.job(before.name).deferred:
            continue  # one before it has settled it
        waiting = context.find_action(before.name, key, put_off)
        if waiting is not None and waiting.action.follows_run:
            yield waiting
    for rule in context.rules_of(before.name).state_events:
        if _is_rule_over_end(rule, before, ended):
            yield from arm(rule, trigger, ended.evidence)


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
    place = (matched.job, matched.attempt, matched.run, matched.rule)
    known = context.state.mark_of(*place)
    if known is not None and known[0] == matched.match_id:
        return
    context.draft.emit(matched)
    for armed in arm(rule, matched.match_id, matched.line):
        if not context.job(matched.job).ended:
            _run_action(context, armed, matched.job)


def handle_moves(context: DecisionContext) -> None:
    """Carry out rules over the moves of jobs that nobody has looked at yet."""
    while context.state.moves:
        move = context.state.moves.pop(0)
        trigger = f"{move.old.value} to {move.new.value} ({move.seq})"
        for rule in context.rules_of(move.job).state_events:
            old, new = rule.transition or ("", "")
            if new != move.new.value or old not in (None, move.old.value):
                continue
            if not is_for_stage(rule, context.job(move.job).spec.stage):
                continue
            for armed in arm(rule, trigger):
                if not (context.job(move.job).ended and armed.action.is_of_run):
                    _run_action(context, armed, move.job)
