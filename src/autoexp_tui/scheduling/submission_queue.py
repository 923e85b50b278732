"""Who starts now: ready jobs, as far as slots, the pause and a storm allow. Whatever
stays behind is told why, once for each reason."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from autoexp_tui.actions.checkpoints import list_held_by_looks
from autoexp_tui.actions.orders import emit_order, explain_wait
from autoexp_tui.effects.effects import CancelTasks, JoinJobs, LookAtFiles, SubmitTasks
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.outputs import FileIdentity, SetAside
from autoexp_tui.model.resubmission import is_awaiting_look
from autoexp_tui.model.specs import Place
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, Outcome, Why, why
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import format_float

PLACES: Final[tuple[Place, ...]] = ("main", "beside")


def release(context: DecisionContext) -> None:
    """Submit ready jobs, lowest index first, as far as slots and the pause allow."""
    held, ready = list_held_by_looks(context), dict(context.roster.ready)
    stay = held | _list_left_out(context)
    line = {name for name in ready if name not in stay} if stay else {*ready}
    for place in PLACES:
        if here := context.roster.select(line, place):
            _release_those(context, ready, here, place)
    for name in sorted(ready.keys() & stay):
        reason = why("held_by_look" if name in held else "held_by_join")
        explain_wait(context, context.job(name), reason)


def _release_those(
    context: DecisionContext, ready: Mapping[str, int], line: set[str], place: Place
) -> None:
    """Submit those jobs of one place that there is room for; tell the others why."""
    room = _count_room(context, place)

    def find_line(name: str) -> tuple[int, str]:
        return ready[name], name

    # Only those that start are sorted: thousands may be ready at each commit.
    least = len(line) if room is None else room
    names = heapq.nsmallest(least, line, key=find_line)
    at_most = context.policy.array_size if place == "main" else 1
    for together in _group_alike([context.job(name) for name in names], at_most):
        _submit(context, together)
    reason = _find_obstacle(context, place)
    if reason is not None:
        jobs, gone = context.state.jobs, {*names}
        untold = [
            name
            for name in line
            if name not in gone
            and ((known := jobs[name].why) is None or known.code != reason.code)
        ]
        for name in sorted(untold, key=find_line):
            explain_wait(context, context.job(name), reason)


def _list_left_out(context: DecisionContext) -> set[str]:
    """Jobs that a plan that is about to join holds or ends."""
    orders = (pending.effect for pending in context.state.pending.values())
    joins = (one for one in orders if isinstance(one, JoinJobs))
    return {name for one in joins for name in (*one.hold, *one.end)}


def _count_room(context: DecisionContext, place: Place) -> int | None:
    """How many may start; None: as many as like."""
    if context.state.paused:
        return 0
    slots = context.policy.count_slots(place)
    return max(0, slots - context.roster.count_active(place)) if slots else None


def _find_obstacle(context: DecisionContext, place: Place) -> Why | None:
    """Why nobody else starts there just now."""
    policy, plan = context.policy, context.state.base
    spec = plan.executor if plan is not None else None
    if paused := context.state.paused:
        what, at = paused.arg("what"), paused.arg("at")
        if paused.code == "storm":
            return why("held_by_storm", what=what, at=at)
        return why("paused", at=at)
    if _count_room(context, place) == 0:
        slots, name = policy.count_slots(place), policy.name_executor(place)
        limit = "this machine" if name == "local" else f"the executor {name}"
        if spec is not None and place == "beside":
            limit = "beside_parallel" if "beside_parallel" in spec.settings else limit
        elif spec is not None and spec.max_parallel == slots:
            limit = "max_parallel"
        return why("held_by_slots", slots=slots, limit=limit)
    return None


def _group_alike(
    jobs: Sequence[JobRecord], at_most: int
) -> Iterator[Sequence[JobRecord]]:
    """Jobs of one place that can go as one submission: of one stage, asking for the
    same."""
    if at_most <= 1:
        yield from ((job,) for job in jobs)
        return
    groups: dict[tuple[str, str], list[JobRecord]] = {}
    for job in jobs:
        groups.setdefault((job.spec.stage, job.spec.resources.key), []).append(job)
    for group in groups.values():
        for first in range(0, len(group), at_most):
            yield group[first : first + at_most]


def _submit(context: DecisionContext, jobs: Sequence[JobRecord]) -> None:
    tasks = tuple((job.name, len(job.attempts) + 1) for job in jobs)
    token = ids.build_submission_token(context.state.session, tasks)
    lost = [  # nobody has seen them end: they may live where nobody can see it
        (job.name, attempt.number)
        for job in jobs
        if (attempt := job.attempt) and attempt.outcome is Outcome.LOST
    ]
    if lost:
        emit_order(context, CancelTasks(tasks=tuple(lost)), why("fenced"), Cause.LOST)
    emit_order(context, SubmitTasks(token=token, tasks=tasks))
    for job in jobs:
        del context.roster.ready[job.name]
        context.roster.note(context.job(job.name))


def is_held_for_files(context: DecisionContext, job: JobRecord) -> bool:
    """Whether a job that may start waits for a look at its files; orders that."""
    if not is_awaiting_look(job):
        return False
    number = len(job.attempts) + 1
    if job.look_ordered != number:
        emit_order(context, LookAtFiles(job=job.name, attempt=number))
        reason = why("held_by_files")
        context.draft.emit(events.WaitExplained(job=job.name, why=reason))
    return True


def set_files_aside(
    context: DecisionContext, look: LookAtFiles, files: Sequence[FileIdentity]
) -> None:
    """Set aside what lies there, with the attempt that it is of."""
    job, newest, values = context.job(look.job), 0, ""
    if (attempt := job.attempt) is not None:  # with which values it ran that differ now
        ran, now = job.values_of(attempt), job.spec.parameters
        keys = [k for k in job.list_changed_keys if k in ran and ran[k] != now.get(k)]
        short = ((key.rpartition(".")[2], ran[key]) for key in keys)
        values = ", ".join(f"{key}={_format_value(value)}" for key, value in short)
        newest = attempt.number
    aside = []
    for file in files:
        known = job.aside.get(file.path)
        same = known is not None and known.file == file
        one = SetAside(file=file, attempt=newest, values=values)
        aside.append(known if known is not None and same else one)
    context.draft.emit(
        events.FilesSetAside(job=look.job, attempt=look.attempt, files=tuple(aside))
    )


def _format_value(value: object) -> str:
    if isinstance(value, float):
        return format_float(value)
    return clean(str(value), limit=40)
