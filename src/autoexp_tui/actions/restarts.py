"""What a restart orders: a further attempt, perhaps elsewhere or with other overrides.

Whether it may happen at all is decided by `firing`.
"""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.actions import action_effects as deeds
from autoexp_tui.actions.checkpoints import order_look
from autoexp_tui.actions.kinds import Restart
from autoexp_tui.actions.orders import order_effect
from autoexp_tui.actions.triggered_action import Armed, find_armed
from autoexp_tui.conditions.bindings import RefusedValue
from autoexp_tui.effects.effects import ComposeJob
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.specs import JobSpec, Resources
from autoexp_tui.model.state import Deferred, JobRecord
from autoexp_tui.model.states import why


def restart(
    context: DecisionContext,
    armed: Armed,
    action: Restart,
    job: JobRecord,
    wait_seconds: float,
) -> None:
    """Order a further attempt of a job whose last one has ended."""
    told = deeds.text(context, action.reason, job, armed)
    again = why(
        "retry",
        reason=told or armed.rule,
        attempt=len(job.attempts) + 1,
        rule=armed.rule if told else "",
        line=armed.line,
    )
    _avoid_node(context, action, job)
    if action.quarantine_after and action.from_checkpoint:
        order_look(context, job, after=action.quarantine_after)
    overrides = _overrides(context, armed, action, job)
    if overrides:
        order_effect(
            context,
            ComposeJob(
                job=job.name,
                overrides=(*job.spec.overrides, *overrides),
                from_checkpoint=action.from_checkpoint,
                log_values=deeds.outside_values(context, armed, job, action.overrides),
                use_files=action.followers == "use",
            ),
            again,
        )
    context.draft.emit(
        events.RetryOrdered(
            job=job.name,
            wait_seconds=wait_seconds,
            from_checkpoint=action.from_checkpoint,
            use_files=action.followers == "use",
            why=again,
        )
    )


def put_off(context: DecisionContext, name: str) -> list[tuple[str, Deferred]]:
    """The restarts of a job that wait for one of their conditions."""
    found: list[tuple[str, Deferred]] = []
    for key, waiting in context.job(name).deferred.items():
        armed = find_armed(context, name, key, waiting)
        if armed is not None and isinstance(armed.action, Restart):
            found.append((key, waiting))
    return found


def _avoid_node(context: DecisionContext, action: Restart, job: JobRecord) -> None:
    node = job.attempt.node if job.attempt else ""
    if action.exclude_node and node:
        spec = excluding(job.spec, (node,))
        reason = why("other_resources")
        context.draft.emit(events.JobReplanned(job=job.name, spec=spec, why=reason))


def excluding(spec: JobSpec, nodes: tuple[str, ...]) -> JobSpec:
    """The job, to run on none of `nodes` beside those it avoids already."""
    return replace(spec, resources=avoiding(spec.resources, nodes))


def avoiding(resources: Resources, nodes: tuple[str, ...]) -> Resources:
    """What is asked for, on none of `nodes` beside those avoided already."""
    options = resources.options
    avoided = str(options.get("exclude") or "").split(",")
    names = dict.fromkeys(name for name in (*avoided, *nodes) if name)
    return replace(resources, options={**options, "exclude": ",".join(names)})


def _overrides(
    context: DecisionContext, armed: Armed, action: Restart, job: JobRecord
) -> tuple[str, ...]:
    """The restart's overrides with what the log has said put in."""
    bound, missing = deeds.bound(context, armed, job)
    if isinstance(bound, Restart):
        return bound.overrides
    told = ", ".join(
        f"{one.key}: {one.problem}"
        if isinstance(one, RefusedValue)
        else f"no value for {one.key} yet"
        for one in missing
    )
    context.draft.emit(
        events.MessageLogged(
            text=f"restarted without its overrides: {told}",
            level="warning",
            job=job.name,
        )
    )
    return ()
