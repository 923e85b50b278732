"""One action that fires: its values, its words, and what it may order.

A message shows a reference as it is written when there is no value for it. What is done
outside waits for the value: half a path or half a command is never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from autoexp_tui.actions.orders import (
    cancel_attempts,
    drop,
    emit_order,
    end_job,
    request_end,
)
from autoexp_tui.conditions.bindings import (
    Binder,
    Lacking,
    bind,
    list_own_fields,
)
from autoexp_tui.conditions.log_values import is_plain
from autoexp_tui.effects.effects import ComposeJob
from autoexp_tui.effects.errands import RunNotifyCommand
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.action import Action, Armed
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState, Why, why

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
        plan = self.context.state.plan
        return self.job.spec.cwd or (plan.cwd if plan else "")

    def log(self, text: str, level: Literal["info", "warning", "error"]) -> None:
        """Write a line to the session's events."""
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
        """Order something outside, because of the rule."""
        reason = why("ordered_by_rule", rule=self.armed.rule, line=self.armed.line)
        emit_order(self.context, effect, reason)

    def request_end(self, reason: Why, cause: Cause) -> bool:
        """End the job's live run; False when that is under way."""
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
        """Say that the action will not be carried out for this trigger."""
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
        message, use_files = (
            self.format_text(restart.reason),
            restart.followers == "use",
        )
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
        """Let the job not run again where its last attempt ran."""
        job = self.job
        if job.attempt and job.attempt.node:
            resources = job.spec.resources.exclude((job.attempt.node,))
            spec, reason = (
                replace(job.spec, resources=resources),
                why("other_resources"),
            )
            changed = events.JobReplanned(job=job.name, spec=spec, why=reason)
            self.context.draft.emit(changed)
