"""Looks at what followers wait for, before a job begins anew; and what came of them."""

from __future__ import annotations

from collections.abc import Sequence

from autoexp_tui.actions.orders import order_effect
from autoexp_tui.effects.effects import LookAtFiles
from autoexp_tui.events import events
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.outputs import FileIdentity, SetAside
from autoexp_tui.model.resubmission import awaits_look
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import why
from autoexp_tui.model.wording import spell_float
from autoexp_tui.text.sanitize import clean


def is_to_wait(context: DecisionContext, job: JobRecord) -> bool:
    """Whether a job that may start waits for a look at its files; orders that."""
    if not awaits_look(job):
        return False
    number = len(job.attempts) + 1
    if job.look_ordered != number:
        order_effect(context, LookAtFiles(job=job.name, attempt=number))
        reason = why("held_by_files")
        context.draft.emit(events.WaitExplained(job=job.name, why=reason))
    return True


def looked(
    context: DecisionContext, look: LookAtFiles, files: Sequence[FileIdentity]
) -> None:
    """Set aside what lies there, with the attempt that it is of."""
    job = context.job(look.job)
    newest, values = _newest(job)
    aside = []
    for file in files:
        known = job.aside.get(file.path)
        same = known is not None and known.file == file
        one = SetAside(file=file, attempt=newest, values=values)
        aside.append(known if known is not None and same else one)
    context.draft.emit(
        events.FilesSetAside(job=look.job, attempt=look.attempt, files=tuple(aside))
    )


def _newest(job: JobRecord) -> tuple[int, str]:
    """The newest attempt, and with which values it ran that are others now."""
    attempt = job.attempt
    if attempt is None:
        return 0, ""
    ran, now = job.values_of(attempt), job.spec.parameters
    other = [key for key in job.changed_keys if key in ran and ran[key] != now.get(key)]
    short = ((key.rpartition(".")[2], ran[key]) for key in other)
    return attempt.number, ", ".join(f"{key}={_spelled(v)}" for key, v in short)


def _spelled(value: object) -> str:
    if isinstance(value, float):
        return spell_float(value)
    return clean(str(value), limit=40)
