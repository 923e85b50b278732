"""Parameters that hold metadata of other jobs: composed with when their job starts.

Its start conditions have passed by then, so the metadata is known. What it was composed
with stays over restarts; a job of which another attempt has run since is asked again.
"""

from __future__ import annotations

from collections.abc import Iterator

from autoexp_tui.actions.orders import emit_order, explain_wait
from autoexp_tui.conditions.bindings import (
    Binder,
    Lookup,
    is_plain,
    list_runtime_sources,
)
from autoexp_tui.effects.effects import ComposeJob
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import why


def is_composed(context: DecisionContext, job: JobRecord, lookup: Lookup) -> bool:
    """Whether a job that may start holds all values; else its composition is ordered.
    `lookup`: metadata; what is read there wakes the job again."""
    spec = job.spec
    if not spec.runtime_overrides:
        return True
    sources = tuple(_sources(context, spec))
    if sources == spec.runtime_sources or is_composing(context, job.name):
        return sources == spec.runtime_sources
    given = {_key_of(one): one for one in spec.overrides}  # by a person, before
    texts = [
        text
        for text in spec.runtime_overrides
        if spec.runtime_sources or "{runtime." in given.get(_key_of(text), "{runtime.")
    ]
    binder = Binder(lookup, context.state.jobs, None)
    bound = (*spec.overrides, *map(binder.override, texts))
    if binder.lacking:
        explain_wait(context, job, binder.lacking[0].explain())
        return False
    asked = list_runtime_sources(texts, context.state.jobs)
    values = [lookup(*one) for one in asked]
    effect = ComposeJob(
        job=job.name,
        overrides=bound,
        sources=sources,
        log_values=tuple(one for one in values if one and not is_plain(one)),
    )
    emit_order(context, effect, why("runtime_values"))
    explain_wait(context, job, why("runtime_values"))
    return False


def is_composing(context: DecisionContext, name: str) -> bool:
    """Whether the job's overrides are being composed: it starts when they are."""
    return any(
        isinstance(pending.effect, ComposeJob) and pending.effect.job == name
        for pending in context.state.pending.values()
    )


def _sources(context: DecisionContext, spec: JobSpec) -> Iterator[TaskId]:
    """The attempts whose metadata the parameters would hold now."""
    asked = list_runtime_sources(spec.runtime_overrides, context.state.jobs)
    for name in dict.fromkeys(job for job, _ in asked):
        record = context.state.jobs.get(name)
        yield name, len(record.attempts) if record else 0


def _key_of(override: str) -> str:
    return override.partition("=")[0].lstrip("+")
