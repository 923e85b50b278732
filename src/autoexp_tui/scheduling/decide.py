"""What may start, what must end, and why the rest waits: jobs are judged until nothing
changes any more. Events are emitted into the draft, and nothing else happens."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from autoexp_tui.actions.action_runner import check_deferred, handle_moves
from autoexp_tui.actions.orders import (
    cancel_attempts,
    clear_warning,
    emit_order,
    end_job,
    explain_wait,
    raise_warning,
)
from autoexp_tui.conditions.bindings import (
    Binder,
    Lookup,
    is_plain,
    list_runtime_sources,
)
from autoexp_tui.conditions.condition_check import Look
from autoexp_tui.conditions.jobs import Approval
from autoexp_tui.effects.effects import ComposeJob, SubmitTasks
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.condition import walk
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.kinds import tell_error
from autoexp_tui.model.policy import FAILED, find_failed_policies, find_policy
from autoexp_tui.model.resubmission import find_approved, list_open_asks
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import ConditionStatus, JobRecord
from autoexp_tui.model.states import ACTIVE, Cause, JobState, Result, Verdict, why
from autoexp_tui.scheduling.submission_queue import is_held_for_files, release


def settle_jobs(context: DecisionContext, touched: Iterable[str]) -> None:
    """Judge `touched` jobs and whoever their events touch; then start what may."""
    queue: list[tuple[int, str]] = []
    """Jobs to judge, the lowest index first; one may stand in it twice."""
    seen = _note_events(context, queue, touched, 0)
    briefly = context.policy.briefly
    while True:
        while queue:
            entry = heapq.heappop(queue)
            while queue and queue[0] == entry:
                heapq.heappop(queue)
            check_job(context, entry[1])
            seen = _note_events(context, queue, (), seen)
        if context.roster.ready and not (briefly and context.state.parts):
            release(context)
            seen = _note_events(context, queue, (), seen)
        if not queue:
            if context.state.parts and not briefly:
                _ask_policies(context)
            _answer_asks_by_policy(context)
            if seen == len(context.draft.records):
                return
            seen = _note_events(context, queue, (), seen)


def _note_events(
    context: DecisionContext,
    queue: list[tuple[int, str]],
    touched: Iterable[str],
    seen: int,
) -> int:
    """Take the events after `seen` into the indexes; queue `touched`, and whom they
    touch."""
    if context.state.moves:
        handle_moves(context)
    names = dict.fromkeys(touched)
    records = context.draft.records
    for record in records[seen:]:
        event = record.event
        jobs = event.list_jobs() if event.rejudges else ()
        names |= dict.fromkeys(jobs)
        match event:
            case events.EffectOrdered(effect=SubmitTasks(tasks=tasks)):
                jobs = tuple(job for job, _ in tasks)
        for name in jobs:
            context.roster.note(context.job(name))
        for key in event.list_changed_facts():
            names |= dict.fromkeys(context.watch.jobs(key))
    for name in names:
        if job := context.state.jobs.get(name):
            heapq.heappush(queue, (job.spec.index, name))
    return len(records)


def _ask_policies(context: DecisionContext) -> None:
    """Let the policies of the session decide; one that fails is left out until a person
    has seen the warning, or another engine asks."""
    context.draft.fork()  # a policy may hold on to the state
    failed, warnings = context.roster.failed_policies, context.state.warnings
    for name in [*context.state.parts]:
        if failed.get(name) in warnings:
            continue
        policy, at = find_policy(name), None
        if policy is None:
            _leave_out_policy(context, name, "it is not installed, or not usable")
            continue
        try:
            at, part = policy.decide(context), context.state.parts[name]
            policy.is_open(part)  # what everybody asks later: here a fault is told
            policy.find_exit(part)
        except Exception as error:  # noqa: BLE001 - their code may raise anything
            _leave_out_policy(context, name, tell_error(error))
        else:
            for warning in find_failed_policies(warnings.values(), name):
                clear_warning(context, warning.warning_id)
        context.timers.set(f"policy:{name}", at)


def _leave_out_policy(context: DecisionContext, name: str, problem: str) -> None:
    warning_id = "p" + ids.digest("policy", name, problem)
    context.roster.failed_policies[name] = warning_id
    reason = why(FAILED, what=name, problem=problem)
    raise_warning(context, warning_id, reason)


def check_job(context: DecisionContext, name: str) -> None:
    """Look at one job: its cancel conditions first, then what it waits for."""
    job = context.job(name)
    look = Look(context, job)
    if job.state not in _AT_REST and not _check_cancel(context, look):
        if job.state is JobState.WAITING:
            _check_start(context, look)
        elif (
            job.state is JobState.RETRYING
            and (retry := job.retry)
            and not (retry.held or is_composing(context, name))
        ):
            if retry.lived <= context.now.lived:
                _make_ready(context, job)
            else:
                look.wake_by(retry.lived)
    put_off = check_deferred(context, name)
    look.keys |= put_off.keys
    look.wake_by(min(put_off.wakes, default=None))
    context.watch.set(name, frozenset(look.keys))
    context.timers.set(name, look.wake)


_AT_REST = frozenset(set(JobState) - ACTIVE - {JobState.WAITING, JobState.RETRYING})


def _check_cancel(context: DecisionContext, look: Look) -> bool:
    """Whether one of the job's cancel conditions holds, which ends it."""
    job, cause = look.job, Cause.CANCEL_CONDITION
    for index, spec in enumerate(job.spec.cancel_conditions):
        verdict = look.cancel(spec)
        _record(context, job, "cancel", index, verdict)
        if verdict.result is Result.PASS and spec.blocking:
            if job.state in ACTIVE:
                return cancel_attempts(context, (job,), verdict.why, cause)
            end_job(context, job, JobState.CANCELLED, cause, verdict.why)
            return True
    return False


def _check_start(context: DecisionContext, look: Look) -> None:
    job = look.job
    verdicts = [_start_verdict(look, index) for index in range(len(job.start))]
    for index, verdict in enumerate(verdicts):
        _record(context, job, "start", index, verdict)
    specs = job.spec.start_conditions
    holding = [
        verdict
        for spec, verdict in zip(specs, verdicts, strict=True)
        if spec.blocking and verdict.result is not Result.PASS
    ]
    failed = [verdict for verdict in holding if verdict.result is Result.FAIL]
    if failed:
        reason = failed[0].why
        asked = reason.code == "file_of_earlier"  # the file is there
        doomed = reason.code in _DOOMED and context.rules_of(job.name).doomed == "hold"
        if not (asked or doomed):
            cause = _GIVE_UP_CAUSES.get(reason.code, Cause.UPSTREAM)
            end_job(context, job, JobState.SKIPPED, cause, reason)
    elif not holding and is_composed(context, job, look.read_metadata):
        _make_ready(context, job)
    else:
        context.roster.ready.pop(job.name, None)
        look.latch()
        if holding:
            _maybe_ask(context, look)


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


def _record(
    context: DecisionContext, job: JobRecord, role: str, index: int, verdict: Verdict
) -> None:
    place = (job.name, role, index)
    if context.verdicts.get(place) != verdict:
        context.verdicts[place] = verdict
        context.reworded.add(job.name)
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
    context.draft.emit(judged)
    reason = verdict.why
    if reason.code in ("own_failed", "bad_condition"):
        # It cannot be judged: told once, however many jobs have it.
        raise_warning(
            context, "o" + ids.digest(reason.arg("what"), reason.arg("problem")), reason
        )


def _maybe_ask(context: DecisionContext, look: Look) -> None:
    """Ask once nothing but a person's word is missing; answers are bound to the
    work."""
    job = context.job(look.job.name)
    spec = job.spec
    parts = (part for start in spec.start_conditions for part in walk(start))
    asks = [part for part in parts if isinstance(part, Approval)]
    if not asks:
        return
    passes = job.ask is None and all(
        (status is not None and bool(status.waived))
        or look.start(start, assume_approved=True).result is Result.PASS
        for start, status in zip(spec.start_conditions, job.start, strict=True)
        if start.blocking
    )
    if passes and is_composed(context, job, look.read_metadata):
        number, wants = len(job.attempts) + 1, spec.resources.key
        seal = ids.digest(spec.name, number, spec.fingerprint, spec.command, wants)
        prompt = "\n".join(one.prompt for one in asks if one.prompt)
        asked = events.ApprovalAsked(
            job=job.name, attempt=number, digest=seal, prompt=prompt
        )
        context.draft.emit(asked)
    _answer_by_policy(context, job.name)


def _answer_by_policy(context: DecisionContext, name: str) -> None:
    """Approve what is asked by now, also what an engine before this one asked."""
    job = context.job(name)
    named = context.policy.auto_approve & {"*", job.spec.stage}
    policy = "all" if "*" in named else job.spec.stage
    if job.ask is None or job.ask.approved is not None or not named:
        return
    context.draft.emit(
        events.ApprovalAnswered(
            job=name,
            digest=job.ask.digest,
            approved=True,
            by="--approve",
            policy=f"--approve {policy}",
        )
    )


def _answer_asks_by_policy(context: DecisionContext) -> None:
    """Approve in full the questions of policies that `--approve` names."""
    asked = list_open_asks(context.state.asks)
    for name, word in find_approved(asked, context.policy.auto_approve).items():
        context.draft.emit(
            events.AskAnswered(
                ask=name,
                digest=asked[name].digest,
                approved=True,
                by="--approve",
                policy=f"--approve {word}",
            )
        )


def _make_ready(context: DecisionContext, job: JobRecord) -> None:
    if not is_held_for_files(context, job):
        place = job.spec.index - (_AHEAD if job.ahead else 0)
        context.roster.ready[job.name] = place


_AHEAD = 1 << 40
"""More than there are ever jobs in a session."""


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
