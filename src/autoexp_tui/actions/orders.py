"""What deciders order and say: effects, ends of runs and jobs, warnings, waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar

from autoexp_tui.conditions.bindings import (
    Binder,
    Lacking,
    bind,
    is_plain,
    list_own_fields,
)
from autoexp_tui.effects.effects import (
    CancelTasks,
    CaptureEvidence,
    ComposeJob,
    NoteDone,
    RunNotifyCommand,
)
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.rules import Action, Armed
from autoexp_tui.model.state import Ask, JobRecord
from autoexp_tui.model.states import ACTIVE, BEGUN, Cause, JobState, Why, why

Severity: TypeAlias = Literal["info", "warning", "error"]


def emit_order(
    context: DecisionContext,
    effect: Effect,
    reason: Why | None = None,
    cause: Cause | None = None,
    *,
    finish: bool = False,
) -> None:
    """Journal an order to the outside."""
    draft, session = context.draft, context.state.session
    cause_event = ids.event_id(session, draft.epoch, context.state.seq + 1)
    order_id = "e" + ids.digest(session, cause_event, 0)
    draft.emit(
        events.EffectOrdered(
            effect_id=order_id, effect=effect, why=reason, cause=cause, finish=finish
        )
    )


def is_ordered(context: DecisionContext, kind: type[Effect], about: str = "") -> bool:
    """Whether an order of a kind, on that object if one is named, is under way."""
    pending = (one.effect for one in context.state.pending.values())
    named = (one.name_object() for one in pending if isinstance(one, kind))
    return any(about in ("", one) for one in named)


def emit_order_once(context: DecisionContext, effect: Effect) -> None:
    """Journal an order, unless one on the same object is under way."""
    if not is_ordered(context, type(effect), effect.name_object()):
        emit_order(context, effect)


def ask_person(
    context: DecisionContext, name: str, title: str, lines: Iterable[str] = ()
) -> Ask:
    """A question of a policy as it stands, answered or not; one that nobody was asked
    with this title and these lines is put first. It may be called at every decision:
    the same question has one answer. A newer one of the name takes an older one's
    place; `--approve NAME` answers it and all that are named `NAME/...`."""
    asked = tuple(lines)
    digest = ids.digest_question(name, title, asked)
    known = context.state.asks.get(name)
    if known is None or known.digest != digest:
        context.draft.emit(
            events.AskRaised(ask=name, digest=digest, title=title, lines=asked)
        )
    return context.state.asks[name]


def withdraw_question(
    context: DecisionContext, name: str, policy: str, reason: str
) -> None:
    """Ask no more what nobody has answered: it counts as refused by the policy."""
    known = context.state.asks.get(name)
    if known is not None and known.approved is None:
        context.draft.emit(
            events.AskAnswered(
                ask=name,
                digest=known.digest,
                approved=False,
                by="",
                reason=reason,
                policy=policy,
            )
        )


def cancel_attempts(
    context: DecisionContext,
    jobs: Iterable[JobRecord],
    reason: Why,
    cause: Cause | None,
) -> bool:
    """Order the end of jobs' live attempts, as one order, without a `cause` as done;
    False when all of it was ordered already."""
    tasks = tuple((job.name, len(job.attempts)) for job in jobs if _can_cancel(job))
    if tasks:
        cancel, finish = CancelTasks(tasks=tasks), cause is None
        emit_order(context, cancel, reason, cause, finish=finish)
    return bool(tasks)


_LOOKED_AT: Final = frozenset({Cause.STALL, Cause.KILL_CRITERION})
"""Ends before which it is kept what the run was doing; after a NaN the log tells."""


def request_end(
    context: DecisionContext, job: JobRecord, reason: Why, cause: Cause, name: str
) -> bool:
    if not _can_cancel(job) or _is_ending(context, job):
        return False
    seconds, attempt = context.rules_of(job.name).evidence_seconds, job.attempts[-1]
    looks = cause in _LOOKED_AT and seconds > 0 and job.state in BEGUN
    if not looks:
        cancel_attempts(context, (job,), reason, cause)
    if looks or (cause is Cause.NAN and seconds > 0):
        capture = CaptureEvidence(
            job=job.name,
            attempt=attempt.number,
            run=attempt.run,
            name=name,
            number=len(attempt.captures) + 1,
            log_only=not looks,
            ends=cause if looks else None,
            seconds=seconds,
        )
        emit_order(context, capture, reason)
    return True


def _can_cancel(job: JobRecord) -> bool:
    attempt = job.attempt
    return not (attempt is None or attempt.outcome or attempt.is_told_to_end)


def _is_ending(context: DecisionContext, job: JobRecord) -> bool:
    """Whether its run is looked at before it is ended."""
    looks = (one.effect for one in context.state.pending.values())
    return any(
        isinstance(look, CaptureEvidence)
        and look.ends is not None
        and (look.job, look.attempt) == (job.name, len(job.attempts))
        for look in looks
    )


def end_look(
    context: DecisionContext,
    effect: CaptureEvidence,
    captured: events.EvidenceCaptured,
    reason: Why | None,
) -> None:
    """Record what was kept, and end the run that waited for it. The run may have gone
    another way meanwhile: ended by itself, been ended by a person, or put back into the
    queue. Then nothing is left to end."""
    context.draft.emit(captured)
    if effect.ends is None:
        return
    job = context.job(effect.job)
    attempt, looked_at = job.attempt, (effect.attempt, effect.run)
    if job.state in BEGUN and attempt and (attempt.number, attempt.run) == looked_at:
        ended_why = reason or Why(effect.ends.value)
        ended_why = ended_why.add_args(evidence=captured.directory)
        cancel_attempts(context, (job,), ended_why, effect.ends)
    elif not job.ended:  # nothing follows on the end of a run that is no more
        for key, waiting in context.list_restarts(job.name):
            if waiting.why.code == "restart_ordered":
                drop(context, job.name, key, waiting.trigger, why("ended_itself"))


def end_job(
    context: DecisionContext,
    job: JobRecord,
    state: JobState,
    cause: Cause | None,
    reason: Why | None,
) -> None:
    """Let a job reach an end state; actions on its run are dropped with it. One that
    completed leaves word, so that sessions to come need not do its work again."""
    keeps: list[str] = []
    for key, put_off in job.deferred.items():
        armed = context.find_action(job.name, key, put_off)
        if armed is not None and not armed.action.is_of_run:
            keeps.append(key)
        else:
            drop(context, job.name, key, put_off.trigger, why("job_is_over"))
    context.draft.emit(
        events.JobEnded(
            job=job.name, state=state, cause=cause, why=reason, keeps=tuple(keeps)
        )
    )
    if state is JobState.COMPLETED and job.spec.fingerprint:
        emit_order(context, NoteDone(job=job.name))


def end_jobs(
    context: DecisionContext, jobs: Iterable[JobRecord], reason: Why, cause: Cause
) -> None:
    """Order the end of what jobs run, as one order; those that wait are cancelled."""
    live = [job for job in jobs if not job.ended]
    active = [job for job in live if job.state in ACTIVE]
    cancel_attempts(context, active, reason, cause)
    for job in live:
        if job not in active:
            end_job(context, job, JobState.CANCELLED, cause, reason)


def explain_wait(context: DecisionContext, job: JobRecord, reason: Why) -> None:
    """Say why a job waits, once for each reason."""
    if job.why is None or job.why.code != reason.code:
        context.draft.emit(events.WaitExplained(job=job.name, why=reason))


def raise_warning(
    context: DecisionContext,
    warning_id: str,
    reason: Why,
    job: str = "",
    severity: Severity = "warning",
    evidence: str = "",
) -> None:
    """Warn, unless that warning stands already."""
    warned = events.WarningRaised(
        warning_id=warning_id, why=reason, job=job, severity=severity, evidence=evidence
    )
    if warning_id not in context.state.warnings:
        context.draft.emit(warned)


def clear_warning(context: DecisionContext, warning_id: str, by: str = "") -> None:
    if warning_id in context.state.warnings:
        context.draft.emit(events.WarningCleared(warning_id=warning_id, by=by))


def drop(
    context: DecisionContext, job: str, action: str, trigger: str, reason: Why
) -> None:
    context.draft.emit(
        events.ActionDropped(job=job, action=action, trigger=trigger, why=reason)
    )


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Firing:
    """A rule's action that is carried out for a job."""

    context: DecisionContext
    armed: Armed
    job: JobRecord
    ended: events.AttemptEnded | None = None
    """The end of an attempt that triggered it."""
    wait_seconds: float = 0.0
    """Before a further attempt that it orders."""

    @property
    def own(self) -> dict[str, str]:
        """What bare names mean, metadata apart."""
        fields = list_own_fields(self.job.spec, len(self.job.attempts))
        return fields | {"line": self.armed.line}

    def bind(self, spec: S) -> tuple[S | None, tuple[Lacking, ...]]:
        """A condition or an action with its references replaced by their values."""
        jobs = self.context.state.jobs
        return bind(spec, self.context.read_metadata, jobs, self.own)

    def bind_action(self) -> tuple[Action | None, tuple[Lacking, ...]]:
        """The action with every value put in, its conditions left out; what lacks."""
        return self.bind(replace(self.armed.action, conditions=()))

    @property
    def _binder(self) -> Binder:
        return Binder(self.context.read_metadata, self.context.state.jobs, self.own)

    def format_text(self, template: str) -> str:
        """A message with its references replaced; unknown ones stay as written."""
        return self._binder.text(template)

    def explain(self, code: str, reason: str) -> Why:
        """Why something happens: because of the rule, with its own words."""
        message, line = self.format_text(reason), self.armed.line
        return why(code, rule=self.armed.rule, reason=message, line=line)

    def find_unsafe_values(self, overrides: Sequence[str]) -> tuple[str, ...]:
        """What overrides take from logs, plain values left out."""
        found = self._binder.list_outside_values(overrides)
        return tuple(value for value in found if not is_plain(value))

    def find_place(self) -> str:
        """Where relative paths start; empty: not known."""
        plan = self.context.state.base
        return self.job.spec.cwd or (plan.cwd if plan else "")

    def log(self, text: str, level: Literal["info", "warning", "error"]) -> None:
        self.context.draft.emit(
            events.MessageLogged(text=text, level=level, job=self.job.name)
        )

    def notify(self, message: str) -> None:
        """Raise a warning, and run the user's notification command if there is one."""
        armed, job, reason = self.armed, self.job.name, why("notice", text=message)
        name = "n" + ids.digest(job, armed.key, armed.trigger)
        self.context.draft.emit(
            events.WarningRaised(
                warning_id=name, why=reason, job=job, evidence=armed.line
            )
        )
        if command := self.context.rules_of(self.job.name).notify_command:
            emit_order(self.context, RunNotifyCommand(command=command, message=message))

    def order(self, effect: Effect) -> None:
        reason = why("ordered_by_rule", rule=self.armed.rule, line=self.armed.line)
        emit_order(self.context, effect, reason)

    def request_end(self, reason: Why, cause: Cause) -> bool:
        return request_end(self.context, self.job, reason, cause, self.armed.rule)

    def finish(self, reason: Why) -> bool:
        """Count the job as completed; False when its end was decided otherwise."""
        if self.ended is None:
            return cancel_attempts(self.context, (self.job,), reason, None)
        if self.job.state is JobState.RETRYING or self.job.ended:
            return False
        end_job(self.context, self.job, JobState.COMPLETED, None, reason)
        return True

    def drop(self, code: str) -> None:
        drop(self.context, self.job.name, self.armed.key, self.armed.trigger, why(code))

    def put_off(self, reason: Why, until_lived: float | None = None) -> None:
        """Say that the action waits, once for each reason."""
        armed, name, now = self.armed, self.job.name, self.context.now.lived
        known = self.context.job(name).deferred.get(armed.key)
        if known and (known.trigger, known.why.code) == (armed.trigger, reason.code):
            return
        self.context.draft.emit(
            events.ActionDeferred(
                job=name,
                action=armed.key,
                trigger=armed.trigger,
                why=reason,
                wait_seconds=None if until_lived is None else until_lived - now,
                line=armed.line,
            )
        )

    def request_retry(self, restart: Any, overrides: tuple[str, ...]) -> None:
        """Order a further attempt, as a `Restart` says: `overrides` are its own, with
        their values. Of the restarts after one end the first counts."""
        context, job, armed = self.context, self.job, self.armed
        message = self.format_text(restart.reason)
        use_files = restart.followers == "use"
        again = why(
            "retry",
            reason=message or armed.rule,
            attempt=len(job.attempts) + 1,
            rule=armed.rule if message else "",
            line=armed.line,
        )
        if overrides:
            effect = ComposeJob(
                job=job.name,
                overrides=(*job.spec.overrides, *overrides),
                from_checkpoint=restart.from_checkpoint,
                log_values=self.find_unsafe_values(restart.overrides),
                use_files=use_files,
            )
            emit_order(context, effect, again)
        context.draft.emit(
            events.RetryOrdered(
                job=job.name,
                wait_seconds=self.wait_seconds,
                from_checkpoint=restart.from_checkpoint,
                use_files=use_files,
                why=again,
            )
        )
        for key, waiting in context.list_restarts(job.name):
            if key != armed.key:
                second = why("restarted_already")
                drop(context, job.name, key, waiting.trigger, second)

    def exclude_node(self) -> None:
        job = self.job
        if job.attempt and job.attempt.node:
            resources = job.spec.resources.exclude((job.attempt.node,))
            spec = replace(job.spec, resources=resources)
            reason = why("other_resources")
            changed = events.JobReplanned(job=job.name, spec=spec, why=reason)
            self.context.draft.emit(changed)
