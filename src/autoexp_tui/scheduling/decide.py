"""What may start, what must end, and why the rest waits.

`settle` judges jobs until nothing changes any more: an end decided here is seen by
its dependants in the same commit. It emits events into the draft and nothing else.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from autoexp_tui.actions.action_runner import judge_deferred
from autoexp_tui.actions.ending import end_job
from autoexp_tui.actions.orders import order_cancel
from autoexp_tui.actions.runtime_parameters import is_composed, is_composing
from autoexp_tui.actions.transitions import react_to_moves
from autoexp_tui.conditions.condition_check import Look
from autoexp_tui.conditions.kinds import Approval, Composite, Condition, Not
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import Desk
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import ConditionStatus, JobRecord
from autoexp_tui.model.states import ACTIVE, Cause, JobState
from autoexp_tui.model.verdicts import Result, Verdict, Why, why
from autoexp_tui.scheduling.freshness import is_to_wait
from autoexp_tui.scheduling.submission_queue import release


def settle(desk: Desk, touched: Iterable[str]) -> None:
    """Judge `touched` jobs and whoever their events touch; then start what may."""
    queue = _Queue(desk)
    queue.push(touched)
    seen = _follow(desk, queue, 0)
    while True:
        while (name := queue.pop()) is not None:
            judge(desk, name)
            seen = _follow(desk, queue, seen)
        release(desk)
        seen = _follow(desk, queue, seen)
        if not queue:
            return


class _Queue:
    """Jobs to judge, lowest index first, each once at a time."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._heap: list[tuple[int, str]] = []
        self._in: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._in and name in self._desk.state.jobs:
                self._in.add(name)
                index = self._desk.job(name).spec.index
                heapq.heappush(self._heap, (index, name))

    def pop(self) -> str | None:
        if not self._heap:
            return None
        name = heapq.heappop(self._heap)[1]
        self._in.discard(name)
        return name


def _follow(desk: Desk, queue: _Queue, seen: int) -> int:
    """Take the events after `seen` into the indexes and queue whom they touch."""
    react_to_moves(desk)
    records = desk.draft.records
    for record in records[seen:]:
        event = record.event
        for name in _jobs_of(event):
            desk.roster.note(desk.job(name))
        queue.push(event.jobs_to_judge())
        for key in event.changed_facts():
            queue.push(desk.watch.jobs(key))
    return len(records)


def _jobs_of(event: events.Event) -> tuple[str, ...]:
    match event:
        case events.EffectOrdered(effect=SubmitTasks(tasks=tasks)):
            return tuple(job for job, _ in tasks)
        case _:
            return event.jobs_to_judge()


# ---------------------------------------------------------------------- one job
def judge(desk: Desk, name: str) -> None:
    """Look at one job: its cancel conditions first, then what it waits for."""
    job = desk.job(name)
    look = Look(desk, job)
    if job.state not in _AT_REST and not _judge_cancel(desk, look):
        _judge_state(desk, look)
    put_off = judge_deferred(desk, name)
    look.keys |= put_off.keys
    look.wake_by(put_off.look_at)
    desk.watch.set(name, frozenset(look.keys))
    desk.timers.set(name, look.wake)


_AT_REST = frozenset(set(JobState) - ACTIVE - {JobState.WAITING, JobState.RETRYING})


def _judge_state(desk: Desk, look: Look) -> None:
    match look.job.state:
        case JobState.WAITING:
            _judge_start(desk, look)
        case JobState.RETRYING:
            _judge_retry(desk, look)
        case _:
            pass  # it runs, and waits for nothing


# ------------------------------------------------------------------ cancel first
def _judge_cancel(desk: Desk, look: Look) -> bool:
    for index, spec in enumerate(look.job.spec.cancel_conditions):
        verdict = look.cancel(spec)
        _record(desk, look.job, "cancel", index, verdict)
        if verdict.result is Result.PASS and spec.blocking:
            return _cancel(desk, look.job, verdict.why)
    return False


def _cancel(desk: Desk, job: JobRecord, reason: Why) -> bool:
    if job.state in ACTIVE:
        return order_cancel(desk, job, reason, Cause.CANCEL_CONDITION)
    end_job(desk, job, JobState.CANCELLED, Cause.CANCEL_CONDITION, reason)
    return True


# --------------------------------------------------------------- start conditions
def _judge_start(desk: Desk, look: Look) -> None:
    job = look.job
    verdicts = [_start_verdict(look, index) for index in range(len(job.start))]
    for index, verdict in enumerate(verdicts):
        _record(desk, job, "start", index, verdict)
    specs = job.spec.start_conditions
    holding = [
        verdict
        for spec, verdict in zip(specs, verdicts, strict=True)
        if spec.blocking and verdict.result is not Result.PASS
    ]
    failed = [verdict for verdict in holding if verdict.result is Result.FAIL]
    if failed:
        _give_up(desk, job, failed[0].why)
    elif not holding and is_composed(desk, job, look.metadata):
        _make_ready(desk, job)
    else:
        desk.roster.ready.discard(job.name)
        look.latch()
        if holding:
            _maybe_ask(desk, look)


def _start_verdict(look: Look, index: int) -> Verdict:
    status = look.job.start[index]
    if status is not None and status.waived:
        return Verdict(Result.PASS, why("waived", reason=status.waived))
    spec = look.job.spec.start_conditions[index]
    verdict = look.start(spec)
    if isinstance(spec, Approval) and look.job.ask is None:
        return Verdict(Result.WAIT, why("asks_later"))
    return verdict


_DOOMED = frozenset({"doomed_file", "doomed_log", "doomed_value"})
_GIVE_UP_CAUSES = {
    "start_timeout": Cause.START_TIMEOUT,
    "approval_timeout": Cause.APPROVAL_REFUSED,
    "refused": Cause.APPROVAL_REFUSED,
}


def _give_up(desk: Desk, job: JobRecord, reason: Why) -> None:
    if reason.code == "file_of_earlier":
        return  # a person is asked: the file is there
    if reason.code in _DOOMED and desk.rules_of(job.name).doomed == "hold":
        return
    cause = _GIVE_UP_CAUSES.get(reason.code, Cause.UPSTREAM)
    end_job(desk, job, JobState.SKIPPED, cause, reason)


def _record(
    desk: Desk, job: JobRecord, role: str, index: int, verdict: Verdict
) -> None:
    place = (job.name, role, index)
    if desk.verdicts.get(place) != verdict:
        desk.verdicts[place] = verdict
        desk.reworded.add(job.name)
    old: ConditionStatus | None = getattr(job, role)[index]
    if old is not None and old.waived:
        return
    if old and old.why.code == verdict.why.code and old.result is verdict.result:
        return
    judged = events.ConditionJudged(
        job=job.name,
        role="start" if role == "start" else "cancel",
        index=index,
        result=verdict.result,
        why=verdict.why,
    )
    desk.draft.emit(judged)
    if verdict.why.code in ("own_failed", "bad_condition"):
        _warn_of_condition(desk, verdict.why)


def _warn_of_condition(desk: Desk, reason: Why) -> None:
    """A condition that cannot be judged is told once, however many jobs have it."""
    warning_id = "o" + ids.digest(reason.arg("what"), reason.arg("problem"))
    if warning_id not in desk.state.warnings:
        desk.draft.emit(events.WarningRaised(warning_id=warning_id, why=reason))


# ---------------------------------------------------------------------- approvals
def _maybe_ask(desk: Desk, look: Look) -> None:
    """Ask the person once nothing but their word is missing."""
    job = desk.job(look.job.name)
    prompts = [
        approval
        for spec in job.spec.start_conditions
        for approval in approvals_in(spec)
    ]
    if not prompts:
        return
    passes = job.ask is None and _all_else_passes(look, job)
    # What is asked about is the work with its values.
    if passes and is_composed(desk, job, look.metadata):
        _ask(desk, job, prompts)
    _answer_by_policy(desk, job.name)


def _ask(desk: Desk, job: JobRecord, prompts: Sequence[Approval]) -> None:
    number = len(job.attempts) + 1
    seal = _seal(job.spec, number)
    prompt = "\n".join(prompt.prompt for prompt in prompts if prompt.prompt)
    desk.draft.emit(
        events.ApprovalAsked(job=job.name, attempt=number, digest=seal, prompt=prompt)
    )


def _answer_by_policy(desk: Desk, name: str) -> None:
    """Approve what is asked by now, also what an engine before this one asked."""
    job = desk.job(name)
    named = desk.policy.auto_approve & {"*", job.spec.stage}
    if job.ask is None or job.ask.approved is not None or not named:
        return
    desk.draft.emit(
        events.ApprovalAnswered(
            job=name,
            digest=job.ask.digest,
            approved=True,
            by="--approve",
            policy=_policy_for(desk, job.spec.stage),
        )
    )


def _policy_for(desk: Desk, stage: str) -> str:
    return f"--approve {'all' if '*' in desk.policy.auto_approve else stage}"


def _seal(spec: JobSpec, attempt: int) -> str:
    """What an answer is bound to: the work, and what it takes from the executor."""
    wants = spec.resources.key
    return ids.digest(spec.name, attempt, spec.fingerprint, spec.command, wants)


def approvals_in(spec: Condition) -> tuple[Approval, ...]:
    """The approvals that `spec` consists of."""
    match spec:
        case Approval():
            return (spec,)
        case Composite():
            return tuple(a for part in spec.conditions for a in approvals_in(part))
        case Not():
            return approvals_in(spec.condition)
        case _:
            return ()


def _all_else_passes(look: Look, job: JobRecord) -> bool:
    return all(
        (status is not None and bool(status.waived))
        or look.start(spec, assume_approved=True).result is Result.PASS
        for spec, status in zip(job.spec.start_conditions, job.start, strict=True)
        if spec.blocking
    )


# ------------------------------------------------------------------------ retries
def _judge_retry(desk: Desk, look: Look) -> None:
    retry = look.job.retry
    if retry is None or is_composing(desk, look.job.name):
        return
    if retry.held:
        return
    if retry.lived <= desk.now.lived:
        _make_ready(desk, look.job)
    else:
        look.wake_by(retry.lived)


def _make_ready(desk: Desk, job: JobRecord) -> None:
    if not is_to_wait(desk, job):
        desk.roster.ready.add(job.name, _place(job))


_AHEAD = 1 << 40
"""More than there are ever jobs in a session."""


def _place(job: JobRecord) -> int:
    """Where a ready job stands in line."""
    return job.spec.index - (_AHEAD if job.ahead else 0)
