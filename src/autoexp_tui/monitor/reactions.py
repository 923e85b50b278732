"""What rules do when an attempt ends or a log line matches.

Decided in the same step as the end itself: afterwards a job is RETRYING or ended for
good, and no dependant ever sees the moment in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from autoexp_tui.core import events, ids
from autoexp_tui.core.effects import ComposeJob, RunNotifyCommand
from autoexp_tui.core.facts import FactKey
from autoexp_tui.core.specs import (
    Action,
    Cancel,
    JobSpec,
    Log,
    LogEvent,
    Notify,
    Resources,
    Restart,
    StateClass,
    StateEvent,
)
from autoexp_tui.core.state import JobRecord
from autoexp_tui.core.states import Cause, JobState, Outcome
from autoexp_tui.core.verdicts import Result, Verdict, Why, why
from autoexp_tui.monitor.bindings import bind, bind_text, own_fields
from autoexp_tui.monitor.conditions import EvalContext, evaluate, needs, wake_at
from autoexp_tui.monitor.desk import Desk
from autoexp_tui.monitor.orders import order_cancel, order_effect
from autoexp_tui.monitor.storm import counted, watch_storm

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


@dataclass(frozen=True, slots=True)
class Armed:
    """A rule's action at hand: its identity and what triggered it."""

    key: str
    """`<rule>/<index>`."""
    action: Action
    trigger: str
    line: str = ""


# -------------------------------------------------------------------- attempt ends
def end_attempt(desk: Desk, ended: events.AttemptEnded) -> None:
    """Record the end of a job's attempt and decide what becomes of the job."""
    ended = counted(desk, ended)
    before = desk.job(ended.job)
    desk.draft.emit(ended)
    if before.ended:
        _late_success(desk, before, ended)
    else:
        _become(desk, before, ended)
    watch_storm(desk, ended)


def _become(desk: Desk, before: JobRecord, ended: events.AttemptEnded) -> None:
    """What rules make of the end; without any, the job ends as its attempt."""
    for armed in _armed_by_end(desk, before, ended):
        _carry_out(desk, armed, desk.job(ended.job), ended)
    job = desk.job(ended.job)
    if job.state is not JobState.RETRYING and not job.ended:
        _end_job(desk, job, ended)


def _late_success(desk: Desk, before: JobRecord, ended: events.AttemptEnded) -> None:
    newest = before.attempt
    if (
        before.state is JobState.LOST
        and ended.outcome is Outcome.COMPLETED
        and newest is not None
        and newest.number == ended.attempt
    ):
        desk.draft.emit(
            events.JobEnded(
                job=ended.job, state=JobState.COMPLETED, why=why("late_exit_record")
            )
        )


def _armed_by_end(
    desk: Desk, before: JobRecord, ended: events.AttemptEnded
) -> Iterator[Armed]:
    trigger = f"attempt {ended.attempt}"
    yield from _armed_restarts(desk, before)
    for rule in desk.rules_of(before.name).state_events:
        if _rule_applies(rule, before, ended):
            for index, action in enumerate(rule.actions):
                yield Armed(f"{rule.name}/{index}", action, trigger, ended.evidence)


def _armed_restarts(desk: Desk, before: JobRecord) -> Iterator[Armed]:
    """Restarts that a log line ordered while the run was still alive."""
    for key, trigger in before.deferred.items():
        armed = find_armed(desk, before.name, key, trigger)
        if armed is not None and isinstance(armed.action, Restart):
            yield armed


def _rule_applies(
    rule: StateEvent, before: JobRecord, ended: events.AttemptEnded
) -> bool:
    if rule.stages and before.spec.stage not in rule.stages:
        return False
    if rule.state is not None:
        return rule.state == class_of_end(ended)
    if rule.transition is None:
        return False
    old, new = rule.transition
    return new == ended.outcome.value and old in (None, before.state.value)


def class_of_end(ended: events.AttemptEnded) -> StateClass | None:
    """The state class of an attempt's end, if it has one."""
    if ended.outcome is Outcome.COMPLETED:
        return "success"
    if ended.outcome is Outcome.CANCELLED or ended.cause is None:
        return None
    return CLASS_OF.get(ended.cause)


def _end_job(desk: Desk, job: JobRecord, ended: events.AttemptEnded) -> None:
    desk.draft.emit(
        events.JobEnded(
            job=job.name,
            state=JobState(ended.outcome.value),
            cause=ended.cause,
            why=ended.why,
        )
    )


# ---------------------------------------------------------------------- log lines
def log_matched(desk: Desk, matched: events.LogMatched, rule: LogEvent) -> None:
    """Record a match once, and carry out the rule's actions."""
    if matched.match_id in desk.state.matches:
        return
    desk.draft.emit(matched)
    for index, action in enumerate(rule.actions):
        armed = Armed(f"{rule.name}/{index}", action, matched.match_id, matched.line)
        job = desk.job(matched.job)
        if not job.ended:
            _carry_out(desk, armed, job, None)


def find_armed(desk: Desk, job: str, key: str, trigger: str) -> Armed | None:
    """The action that `<rule>/<index>` names for a job; None when rules changed."""
    name, _, index = key.rpartition("/")
    watched = desk.rules_of(job)
    rules: tuple[LogEvent | StateEvent, ...] = (
        *watched.log_events,
        *watched.state_events,
    )
    for rule in rules:
        if rule.name == name and index.isdigit() and int(index) < len(rule.actions):
            return Armed(key, rule.actions[int(index)], trigger)
    return None


# ------------------------------------------------------------------------- actions
def _carry_out(
    desk: Desk, armed: Armed, job: JobRecord, ended: events.AttemptEnded | None
) -> None:
    verdict, wake = judge_action(desk, armed, job)
    match verdict.result:
        case Result.PASS:
            _fire(desk, armed, job, ended, not_before=desk.now)
        case Result.FAIL:
            _drop(desk, armed, job, verdict.why)
        case Result.WAIT if isinstance(armed.action, Restart) and ended and wake:
            _fire(desk, armed, job, ended, not_before=wake)
        case Result.WAIT:
            _defer(desk, armed, job, verdict.why, wake)


def judge_action(
    desk: Desk, armed: Armed, job: JobRecord
) -> tuple[Verdict, float | None]:
    """All conditions of an action together, and when they may change by time."""
    ctx = EvalContext(job=job.name, waiting_since=job.waiting_since, action=armed.key)
    own = own_fields(job.spec, len(job.attempts))
    wakes: list[float] = []
    waiting: Verdict | None = None
    for spec in filter(attrgetter("blocking"), armed.action.conditions):
        bound, missing = bind(spec, _lookup(desk), desk.state.jobs, own)
        if bound is None:
            name, key = missing[0]
            return Verdict(Result.WAIT, why("no_metadata", job=name, key=key)), None
        verdict = evaluate(bound, desk, desk.now, ctx)
        if verdict.result is Result.FAIL:
            return verdict, None
        if verdict.result is Result.WAIT:
            waiting = waiting or verdict
            at = wake_at(bound, desk, desk.now, ctx)
            wakes += [at] if at is not None else []
    if waiting is None:
        return Verdict(Result.PASS, why("ok")), None
    return waiting, max(wakes) if wakes else None


def _lookup(desk: Desk) -> Callable[[str, str], str | None]:
    def lookup(job: str, key: str) -> str | None:
        record = desk.state.jobs.get(job)
        return None if record is None else record.metadata.get(key)

    return lookup


def _fire(
    desk: Desk,
    armed: Armed,
    job: JobRecord,
    ended: events.AttemptEnded | None,
    not_before: float,
) -> None:
    match armed.action:
        case Restart() as restart:
            if not _restart(desk, armed, restart, job, ended, not_before):
                return
        case Cancel() as cancel:
            _end_by_rule(desk, cancel, job, armed)
        case Log() as log:
            text = _text(desk, log.message, job, armed)
            desk.draft.emit(
                events.MessageLogged(text=text, level=log.level, job=job.name)
            )
        case Notify() as notify:
            _notify(desk, _text(desk, notify.message, job, armed), job, armed)
    desk.draft.emit(
        events.ActionFired(job=job.name, action=armed.key, trigger=armed.trigger)
    )


def _restart(
    desk: Desk,
    armed: Armed,
    restart: Restart,
    job: JobRecord,
    ended: events.AttemptEnded | None,
    not_before: float,
) -> bool:
    if job.state is JobState.RETRYING:
        return False  # one rule was first
    if ended is None:
        return _restart_live(desk, armed, restart, job)
    reason = _text(desk, restart.reason, job, armed) or armed.key.rpartition("/")[0]
    again = why("retry", reason=reason, attempt=len(job.attempts) + 1)
    _avoid_node(desk, restart, job)
    overrides = _overrides(desk, restart, job)
    if overrides:
        order_effect(
            desk,
            ComposeJob(
                job=job.name,
                overrides=(*job.spec.overrides, *overrides),
                from_checkpoint=restart.from_checkpoint,
            ),
            again,
        )
    desk.draft.emit(
        events.RetryOrdered(
            job=job.name,
            not_before=not_before,
            from_checkpoint=restart.from_checkpoint,
            why=again,
        )
    )
    return True


def _avoid_node(desk: Desk, restart: Restart, job: JobRecord) -> None:
    node = job.attempt.node if job.attempt else ""
    if restart.exclude_node and node:
        spec = excluding(job.spec, (node,))
        reason = why("other_resources")
        desk.draft.emit(events.JobReplanned(job=job.name, spec=spec, why=reason))


def excluding(spec: JobSpec, nodes: tuple[str, ...]) -> JobSpec:
    """The job, to run on none of `nodes` beside those it avoids already."""
    return replace(spec, resources=avoiding(spec.resources, nodes))


def avoiding(resources: Resources, nodes: tuple[str, ...]) -> Resources:
    """What is asked for, on none of `nodes` beside those avoided already."""
    options = resources.options
    avoided = str(options.get("exclude") or "").split(",")
    names = dict.fromkeys(name for name in (*avoided, *nodes) if name)
    return replace(resources, options={**options, "exclude": ",".join(names)})


def _overrides(desk: Desk, restart: Restart, job: JobRecord) -> tuple[str, ...]:
    """The restart's overrides with what the log has said put in."""
    own = {**own_fields(job.spec, len(job.attempts)), **job.metadata}
    bound, missing = bind(restart, _lookup(desk), desk.state.jobs, own)
    if bound is None:
        keys = ", ".join(key for _, key in missing)
        desk.draft.emit(
            events.MessageLogged(
                text=f"restarted without its overrides: no value for {keys} yet",
                level="warning",
                job=job.name,
            )
        )
        return ()
    return bound.overrides


def _restart_live(desk: Desk, armed: Armed, restart: Restart, job: JobRecord) -> bool:
    """A log line asks for a restart: end the run first, go on when it has ended."""
    reason = why("restart_ordered", rule=armed.key.rpartition("/")[0])
    if order_cancel(desk, job, reason, Cause.KILL_CRITERION):
        _defer(desk, armed, job, reason, None)
    return False


def _end_by_rule(desk: Desk, cancel: Cancel, job: JobRecord, armed: Armed) -> None:
    reason = why(
        "cancelled_by_rule",
        rule=armed.key.rpartition("/")[0],
        reason=_text(desk, cancel.reason, job, armed),
        line=armed.line,
    )
    order_cancel(desk, job, reason, Cause(cancel.cause))


def _notify(desk: Desk, text: str, job: JobRecord, armed: Armed) -> None:
    desk.draft.emit(
        events.WarningRaised(
            warning_id="n" + ids.digest(job.name, armed.key, armed.trigger),
            why=why("notice", text=text),
            job=job.name,
            evidence=armed.line,
        )
    )
    if command := desk.rules_of(job.name).notify_command:
        order_effect(desk, RunNotifyCommand(command=command, message=text))


def _text(desk: Desk, template: str, job: JobRecord, armed: Armed) -> str:
    own = own_fields(job.spec, len(job.attempts)) | {"line": armed.line}
    own |= job.metadata
    return bind_text(template, own, _lookup(desk), desk.state.jobs)


def _drop(desk: Desk, armed: Armed, job: JobRecord, reason: Why) -> None:
    desk.draft.emit(
        events.ActionDropped(
            job=job.name, action=armed.key, trigger=armed.trigger, why=reason
        )
    )


def _defer(
    desk: Desk, armed: Armed, job: JobRecord, reason: Why, until: float | None
) -> None:
    if job.deferred.get(armed.key) == armed.trigger:
        return
    desk.draft.emit(
        events.ActionDeferred(
            job=job.name,
            action=armed.key,
            trigger=armed.trigger,
            why=reason,
            until=until,
        )
    )


def judge_deferred(desk: Desk, job: JobRecord) -> set[FactKey]:
    """Look again at actions of a live job that were put off; the keys they read."""
    keys: set[FactKey] = set()
    for key, trigger in job.deferred.items():
        armed = find_armed(desk, job.name, key, trigger)
        if armed is None or isinstance(armed.action, Restart):
            continue
        _carry_out(desk, armed, desk.job(job.name), None)
        for spec in armed.action.conditions:
            keys |= needs(spec, job.name, key)
    return keys
