"""How one action is judged, carried out, put off or dropped.

All its conditions must pass. One that FAILs drops the action, one that WAITs puts it
off: the event keeps what triggered it, so the same engine or the next one looks again
whenever a fact that it reads changes, or its time comes.

What rules do when an attempt ends, a log line matches, or a job changes its state.

Decided in the same step as the end itself: afterwards a job is RETRYING or ended for
good, and no dependant ever sees the moment in between. How a single action is carried
out is in `action_runner`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from autoexp_tui.actions.firing import Firing
from autoexp_tui.actions.orders import drop, end_job, raise_warning
from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.bindings import Lacking, RefusedValue, bind, list_own_fields
from autoexp_tui.conditions.kinds import has_attempt_limit
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.action import Action, Armed
from autoexp_tui.model.condition import UNTIMED, EvalContext, evaluate, find_wake, needs
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.facts import FactKey, MetadataKey
from autoexp_tui.model.kinds import is_ours, tell_error
from autoexp_tui.model.rules import LogEvent, StateClass, StateEvent, is_for_stage
from autoexp_tui.model.state import Deferred, JobRecord, Move
from autoexp_tui.model.states import (
    Cause,
    JobState,
    Outcome,
    Result,
    Verdict,
    Why,
    why,
)

MOST_JOINS: Final = 100
"""How often an action of a job lets others join, where no MaxAttempts says it."""
_WARNED: Final = frozenset({"value_refused", "joins_spent"})
"""Reasons not to act that a person should see."""
_BY_TIME = frozenset({"cooling_down", "time_until"})


@dataclass(slots=True)
class Judged:
    """What all conditions of an action say together."""

    verdict: Verdict
    keys: set[FactKey] = field(default_factory=set)
    """What was read: when one of them changes, the action is looked at again."""
    wakes: list[float] = field(default_factory=list)
    """When (lived) waiting conditions may say otherwise although no fact changes."""
    codes: set[str] = field(default_factory=set)
    """Of the conditions that wait."""

    @property
    def ready_at(self) -> float | None:
        """When the last of them may; None: no moment is known."""
        return max(self.wakes, default=None)


def check_action(
    context: DecisionContext,
    armed: Armed,
    job: JobRecord,
    since_lived: float | None = None,
) -> Judged:
    """All conditions of an action together, then whether its fields have values.
    `since_lived`: when it was put off; time-outs of its conditions count from then
    on."""
    judged = Judged(Verdict(Result.PASS, why("ok")))
    made = None  # how often an action that makes jobs did; else the job's own count
    if armed.action.makes_jobs:
        line = tuple(context.state.list_origins(job))
        made = sum(one.firings.get(armed.key, 0) for one in line)
        if endless := _explain_endless(armed, line):
            return Judged(Verdict(Result.FAIL, endless))
    ctx = EvalContext(
        job=job.name, waiting_lived=since_lived, action=armed.key, attempts=made
    )
    for spec in filter(attrgetter("blocking"), armed.action.conditions):
        bound, missing = bind(
            spec,
            context.read_metadata,
            context.state.jobs,
            list_own_fields(job.spec, len(job.attempts)),
        )
        if bound is None:
            return _wait_for_values(context, judged, missing)
        judged.keys |= needs(bound, job.name, armed.key)
        verdict = evaluate(bound, context, context.now, ctx)
        if verdict.result is Result.FAIL:
            return Judged(verdict, judged.keys)
        if verdict.result is Result.WAIT:
            at = find_wake(bound, context, context.now, ctx)
            judged.wakes += [] if at is None else [at]
            judged.codes.add(verdict.why.code)
            if judged.verdict.result is Result.PASS:
                judged.verdict = verdict
    if judged.verdict.result is Result.PASS and armed.action.needs_values:
        _, missing = armed.action.bind(Firing(context, armed, job))
        return _wait_for_values(context, judged, missing) if missing else judged
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
    for one in lacking:
        if isinstance(one, RefusedValue):
            reason = why("value_refused", job=one.job, key=one.key, problem=one.problem)
            return Judged(Verdict(Result.FAIL, reason), judged.keys)
    judged.keys |= {MetadataKey(one.job, one.key) for one in lacking}
    name, key = lacking[0][:2]
    source = context.state.jobs.get(name)
    if source is not None and source.ended:
        reason = why("value_never_came", job=name, key=key, state=source.state.value)
        return Judged(Verdict(Result.FAIL, reason), judged.keys)
    reason = why("no_metadata", job=name, key=key)
    return Judged(Verdict(Result.WAIT, reason), judged.keys, judged.wakes)


def run_action(
    context: DecisionContext,
    armed: Armed,
    name: str,
    ended: events.AttemptEnded | None,
    since_lived: float | None = None,
) -> Judged:
    """Fire an action, put it off, or drop it, as its conditions say; `ended`: the end
    of an attempt that triggered it; `since_lived`: when it was put off."""
    job = context.job(name)
    retried = job.state is JobState.RETRYING and job.retry and not job.retry.held
    if armed.action.restarts and retried:
        # Of the restarts after one end the first counts. A further one is not judged:
        # put off, it would come back later and end the run that the first has ordered.
        second = why("restarted_already")
        drop(context, name, armed.key, armed.trigger, second)
        return Judged(Verdict(Result.FAIL, second))
    since = context.now.lived if since_lived is None else since_lived
    judged = check_action(context, armed, job, since)
    over = ended is not None or job.state is JobState.RETRYING
    by_time_alone = bool(judged.codes) and judged.codes <= _BY_TIME
    restart = armed.action.restarts and over and by_time_alone
    match judged.verdict.result:
        case Result.PASS:
            _execute(Firing(context, armed, job, ended))
        case Result.FAIL:
            drop(context, name, armed.key, armed.trigger, judged.verdict.why)
            if judged.verdict.why.code in _WARNED:
                _warn_of_drop(context, armed, name, judged.verdict.why)
        case Result.WAIT if restart and judged.ready_at:
            wait_seconds = judged.ready_at - context.now.lived
            _execute(Firing(context, armed, job, ended, wait_seconds))
        case Result.WAIT:
            firing = Firing(context, armed, job)
            firing.put_off(judged.verdict.why, judged.ready_at)
    return judged


def _warn_of_drop(
    context: DecisionContext, armed: Armed, job: str, reason: Why
) -> None:
    """A rule that a log's text has stopped needs a person: it may be meant so."""
    warning_id = "v" + ids.digest(job, armed.key, reason.arg("key"))
    raise_warning(context, warning_id, reason, job, evidence=armed.line)


def _execute(firing: Firing) -> None:
    """Carry an action out; one of somebody else's that raises is dropped."""
    armed, name = firing.armed, firing.job.name
    try:
        action: Action | None = armed.action
        if armed.action.needs_values:
            action, _ = armed.action.bind(firing)
        assert action is not None, "its values were there when it was judged"
        if action.execute(firing):
            fired = events.ActionFired(
                job=name, action=armed.key, trigger=armed.trigger
            )
            firing.context.draft.emit(fired)
    except Exception as error:  # somebody else's code may raise anything
        if is_ours(type(armed.action)):
            raise
        reason = why(
            "action_failed",
            kind=armed.action.kind,
            what=armed.rule,
            problem=tell_error(error),
        )
        drop(firing.context, name, armed.key, armed.trigger, reason)
        _warn_of_drop(firing.context, armed, name, reason)


def check_deferred(context: DecisionContext, name: str) -> Judged:
    """Look again at actions of a job that were put off; what they read."""
    seen = Judged(Verdict(Result.PASS, why("ok")))
    for key, waiting in list(context.job(name).deferred.items()):
        if context.job(name).deferred.get(key) is not waiting:
            continue  # one before it has settled it
        armed = context.find_action(name, key, waiting)
        if armed is None:
            drop(context, name, key, waiting.trigger, why("rule_is_gone"))
        elif armed.action.can_fire_late(context.job(name)):
            judged = run_action(context, armed, name, None, waiting.since_lived)
            seen.keys |= judged.keys
            seen.wakes += judged.wakes
    job = context.job(name)
    if job.state is JobState.RETRYING and job.retry is not None and job.retry.held:
        _end_held(context, job)
    return seen


def hold_for_restart(
    context: DecisionContext, name: str, ended: events.AttemptEnded
) -> bool:
    """Keep a job whose attempt has ended, while it is not decided if it runs again. A
    condition that nobody could look at yet, or that has a time-out, is waited for; what
    is known not to hold, and may take for ever, ends the job now."""
    bad = ended.outcome in (Outcome.FAILED, Outcome.LOST)
    for key, waiting in context.list_restarts(name):
        armed = context.find_action(name, key, waiting)
        meant = bad or waiting.trigger == f"attempt {ended.attempt}"
        if armed is None or not meant or not _is_undecided(waiting):
            continue
        restart = armed.action
        assert isinstance(restart, Restart)
        context.draft.emit(
            events.RetryOrdered(
                job=name,
                wait_seconds=0.0,
                from_checkpoint=restart.from_checkpoint,
                use_files=restart.followers == "use",
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
