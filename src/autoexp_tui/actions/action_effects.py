"""What actions put before people and order from the outside, run-time values put in.

A message shows a reference as it is written when there is no value for it. What is done
outside waits for the value: half a path or half a command is never used.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from autoexp_tui.actions import new_jobs
from autoexp_tui.actions.checkpoints import order_quarantine
from autoexp_tui.actions.kinds import (
    AppendToFile,
    NewJob,
    QuarantineCheckpoint,
    Restart,
    RunAutoexp,
    RunCommand,
)
from autoexp_tui.actions.orders import order_effect
from autoexp_tui.actions.triggered_action import Armed
from autoexp_tui.conditions import bindings
from autoexp_tui.conditions.bindings import Lacking, bind, bind_text, own_fields
from autoexp_tui.conditions.log_values import is_plain
from autoexp_tui.effects.effects import AddJob, PlanJobs
from autoexp_tui.effects.errands import AppendText, RunActionCommand, RunNotifyCommand
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.action import Action
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Why, why

VALUE_VARIABLE = "AUTOEXP_VALUE_"
"""Begins the variables that hold what a log has said."""
_LINE = "line"
_ODD = re.compile(r"[^A-Za-z0-9]+")
OUTSIDE = (AppendToFile, RunCommand, QuarantineCheckpoint, NewJob, RunAutoexp)
"""Actions that are done outside: every value in them has to be known."""


# ------------------------------------------------------------------------ for people
def text(context: DecisionContext, template: str, job: JobRecord, armed: Armed) -> str:
    """A message with its references replaced; unknown ones stay as written."""
    return bind_text(template, _own(job, armed), context.metadata, context.state.jobs)


def notify(
    context: DecisionContext, message: str, job: JobRecord, armed: Armed
) -> None:
    """Raise a warning, and run the user's notification command if there is one."""
    context.draft.emit(
        events.WarningRaised(
            warning_id="n" + ids.digest(job.name, armed.key, armed.trigger),
            why=why("notice", text=message),
            job=job.name,
            evidence=armed.line,
        )
    )
    if command := context.rules_of(job.name).notify_command:
        order_effect(context, RunNotifyCommand(command=command, message=message))


# --------------------------------------------------------------------------- outside
def missing(
    context: DecisionContext, armed: Armed, job: JobRecord
) -> tuple[Lacking, ...]:
    """The values that an action needs and that nobody knows yet."""
    if not isinstance(armed.action, OUTSIDE):
        return ()
    return bound(context, armed, job)[1]


def bound(
    context: DecisionContext, armed: Armed, job: JobRecord
) -> tuple[Action | None, tuple[Lacking, ...]]:
    """An action with every value put in; None, and what is missing.

    Its conditions are left out: they were judged already.
    """
    own = _own(job, armed)
    action: Action = replace(armed.action, conditions=())
    if isinstance(action, NewJob):
        return new_jobs.bound(context, action, own)
    return bind(action, context.metadata, context.state.jobs, own)


def order(context: DecisionContext, armed: Armed, job: JobRecord) -> None:
    """Order what an action does outside; nothing of it may be missing."""
    action, _ = bound(context, armed, job)
    match action:
        case AppendToFile():
            order_effect(context, _appending(context, action, job), _because(armed))
        case RunCommand():
            command = RunActionCommand(
                job=job.name,
                command=action.command,
                timeout=action.timeout,
                env={**_values(job, armed), **action.env},
                cwd=_place(context, job),
            )
            order_effect(context, command, _because(armed))
        case QuarantineCheckpoint():
            order_quarantine(context, job, action, _because(armed))
        case NewJob():
            spec = new_jobs.spec_of(context, action, job, armed.rule)
            add = AddJob(job=job.name, action=armed.key, spec=spec, mode=action.mode)
            order_effect(context, add, _because(armed))
        case RunAutoexp():
            order_effect(
                context, _planning(context, armed, action, job), _because(armed)
            )


def _appending(
    context: DecisionContext, action: AppendToFile, job: JobRecord
) -> AppendText:
    """A path that the person wrote from the root is theirs; others stay below."""
    if action.path.startswith(("/", "~/")):
        return AppendText(job=job.name, path=action.path, text=action.text)
    below = _place(context, job) or "."
    path = posixpath.join(below, action.path)
    return AppendText(job=job.name, path=path, text=action.text, below=below)


def _values(job: JobRecord, armed: Armed) -> dict[str, str]:
    """What the job's log has said, as variables: no shell reads them as more."""
    values = {**job.metadata, _LINE: armed.line}
    return {
        f"{VALUE_VARIABLE}{_ODD.sub('_', key).upper()}": value
        for key, value in values.items()
        if value and "\0" not in value
    }


def outside_values(
    context: DecisionContext, armed: Armed, job: JobRecord, overrides: Sequence[str]
) -> tuple[str, ...]:
    """What overrides of an action take from logs, plain values left out."""
    own = _own(job, armed)
    found = bindings.outside_values(
        overrides, context.metadata, context.state.jobs, own
    )
    return tuple(value for value in found if not is_plain(value))


def _planning(
    context: DecisionContext, armed: Armed, action: RunAutoexp, job: JobRecord
) -> PlanJobs:
    path = action.config_path
    return PlanJobs(
        job=job.name,
        action=armed.key,
        config_ref=action.config_ref,
        config_path=posixpath.join(_place(context, job), path) if path else "",
        overrides=action.overrides,
        log_values=outside_values(context, armed, job, _written(armed)),
        mode=action.mode,
    )


def _written(armed: Armed) -> tuple[str, ...]:
    action = armed.action
    return action.overrides if isinstance(action, Restart | RunAutoexp) else ()


def _because(armed: Armed) -> Why:
    return why("ordered_by_rule", rule=armed.rule, line=armed.line)


def _own(job: JobRecord, armed: Armed) -> dict[str, str]:
    return own_fields(job.spec, len(job.attempts)) | {_LINE: armed.line}


def _place(context: DecisionContext, job: JobRecord) -> str:
    """Where relative paths of a job's actions start; empty: not known."""
    plan = context.state.plan
    return job.spec.cwd or (plan.cwd if plan else "")
