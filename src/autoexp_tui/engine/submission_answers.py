"""What comes of submissions: accepted, refused, in doubt, looked for, cancelled; and of
calls that raised where they must not: told once, and tried again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from autoexp_tui.actions.orders import (
    clear_warning,
    emit_order,
    explain_wait,
    raise_warning,
)
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.dispatcher import PROBE_SECONDS, Dispatcher
from autoexp_tui.engine.ephemeral_state import Health
from autoexp_tui.engine.executor_port import (
    Accepted,
    AdoptAnswer,
    Busy,
    Rejected,
    Uncertain,
    Unexplained,
    format_exchange,
)
from autoexp_tui.engine.report_reducer import find_attempt
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext, Draft
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.state import PendingEffect
from autoexp_tui.model.states import Cause, Outcome, Why, why
from autoexp_tui.scheduling.circuit_breaker import end_attempt

FAULT_SECONDS = 5.0
"""Before an effect whose sending raised is sent again."""
BUSY_SECONDS = 10.0
"""Before an executor that is at its limit is asked again."""
AWAY_SECONDS = (2.0, 30.0)
"""Before it is asked again that could not be reached: at first, and at most."""
UNEXPLAINED_SECONDS = (60.0, 240.0)
"""Before what was refused in unknown words is sent once more; then it is held."""
TELL_AGAIN_SECONDS = 3600.0
"""Before a look that goes on failing in the same way is told of again."""


@dataclass(frozen=True, slots=True)
class SubmissionAnswers:
    """Moves attempts on by what the executor answered."""

    dispatcher: Dispatcher
    health: Health
    log_fault: Callable[[str], None]
    """Writes a traceback to the session's log."""
    refused: Counter[str] = field(default_factory=Counter)
    """How often in a row a submission that is pending came to nothing, by effect."""

    def note(
        self, context: DecisionContext, effect_id: str, token: str, answer: object
    ) -> None:
        """The executor took a submission, refused it, knows it, or nobody knows."""
        away = isinstance(answer, Busy) and answer.unreachable
        if not away and not isinstance(answer, Unexplained):
            self.refused.pop(effect_id, None)
        match answer:
            case Accepted():
                accepted = events.SubmissionAccepted(
                    token=token,
                    executor_ids=answer.executor_ids,
                    submitted_at=answer.submitted_at,
                )
                context.draft.emit(accepted)
                detail = format_exchange(answer.sent, answer.said)
                self.dispatcher.settle(context, effect_id, "ok", detail)
                for job, _ in context.state.tokens[token]:
                    clear_warning(context, _make_refusal_id(job))
            case Rejected():
                self._reject(context, effect_id, token, answer)
            case Busy():
                self._wait(context, effect_id, token, answer)
            case Unexplained():
                self._try_again(context, effect_id, token, answer)
            case Uncertain():
                self.note_doubt(context, effect_id, token, answer)
            case AdoptAnswer():
                self._note_probed(context, effect_id, token, answer)

    def _reject(
        self, context: DecisionContext, effect_id: str, token: str, answer: Rejected
    ) -> None:
        self._fail(context, effect_id, answer)
        tasks = context.state.tokens[token]
        if answer.cause is Cause.SUBMIT_ERROR and len(tasks) > 1:
            reason = why("sent_apart", message=answer.message)
            self._send_apart(context, tasks, reason, most=1)
            return
        reason = why(answer.cause.value, message=answer.message)
        for task in tasks:
            if _is_open(context, task):
                ended = _build_end(context, task, Outcome.FAILED, answer.cause, reason)
                end_attempt(context, ended)

    def _fail(
        self,
        context: DecisionContext,
        effect_id: str,
        answer: Rejected | Busy | Unexplained,
    ) -> None:
        detail = format_exchange(answer.sent, answer.message)
        self.dispatcher.settle(context, effect_id, "failed", detail)

    def _wait(
        self, context: DecisionContext, effect_id: str, token: str, answer: Busy
    ) -> None:
        """Send it again later: where nobody was there, soon, then ever later; what is
        too large for a limit, in two parts."""
        tasks, seconds = context.state.tokens[token], BUSY_SECONDS
        args: dict[str, str | float] = {"message": answer.message, "sent": answer.sent}
        code = "disk_refuses" if answer.disk else "busy"
        if answer.unreachable:
            first, most = AWAY_SECONDS
            seconds = min(first * 2 ** self.refused[effect_id], most)
            self.refused[effect_id] += 1
            code, args["seconds"] = "unreachable", seconds
        until, reason = self.dispatcher.rest(effect_id, seconds), why(code, **args)
        _explain(context, token, reason)
        if answer.fewer and len(tasks) > 1:
            self._fail(context, effect_id, answer)
            self._send_apart(context, tasks, reason, most=(len(tasks) + 1) // 2)
        if not (answer.disk or answer.unreachable):
            self.dispatcher.rest_alike(context.state, tasks[0][0], until)

    def _try_again(
        self, context: DecisionContext, effect_id: str, token: str, answer: Unexplained
    ) -> None:
        """Send it again twice; then it is held for a person: nobody understands it, and
        nothing of it was started."""
        tries, most = self.refused[effect_id] + 1, len(UNEXPLAINED_SECONDS) + 1
        if tries < most:
            self.refused[effect_id] = tries
            seconds = UNEXPLAINED_SECONDS[tries - 1]
            self.dispatcher.rest(effect_id, seconds)
            reason = why(
                "refused_unexplained",
                message=answer.message,
                tries=tries,
                most=most,
                seconds=seconds,
                sent=answer.sent,
            )
            _explain(context, token, reason)
            return
        del self.refused[effect_id]
        self._fail(context, effect_id, answer)
        seconds = sum(UNEXPLAINED_SECONDS)
        reason = why(
            "held_by_refusal", tries=tries, seconds=seconds, message=answer.message
        )
        tasks = self._end_unwanted(context, context.state.tokens[token])
        for task in tasks:
            context.draft.emit(
                _build_end(context, task, Outcome.FAILED, Cause.REJECTED, reason)
            )
        if tasks:
            jobs = tuple(job for job, _ in tasks)
            context.draft.emit(events.JobsHeld(jobs=jobs, why=reason))
            warning_id = _make_refusal_id(jobs[0])
            raise_warning(context, warning_id, reason, jobs[0], "error")

    def _send_apart(
        self,
        context: DecisionContext,
        tasks: tuple[TaskId, ...],
        reason: Why,
        *,
        most: int,
    ) -> None:
        """Send in parts of at `most` so many what could not be sent together."""
        tasks = self._end_unwanted(context, tasks)
        for first in range(0, len(tasks), most):
            order_again(context, tasks[first : first + most], reason)

    @staticmethod
    def _end_unwanted(
        context: DecisionContext, tasks: tuple[TaskId, ...]
    ) -> tuple[TaskId, ...]:
        """End those that were cancelled meanwhile, of which the executor has none;
        returns those that are still open."""
        for task in tasks:
            attempt = find_attempt(context.job(task[0]), task[1])
            cause = attempt.cancel_cause if attempt else None
            if attempt and cause and _is_open(context, task):
                reason = attempt.cancel_why
                ended = _build_end(context, task, Outcome.CANCELLED, cause, reason)
                end_attempt(context, ended)
        return tuple(task for task in tasks if _is_open(context, task))

    def note_doubt(
        self, context: DecisionContext, effect_id: str, token: str, answer: Uncertain
    ) -> None:
        """It may have been taken: it is asked for before it is sent again."""
        self.dispatcher.in_doubt.add(effect_id)
        self.dispatcher.rest(effect_id, PROBE_SECONDS)
        reason = why(
            "in_doubt",
            message=answer.message,
            at=context.now.t,
            place=context.policy.place,
            sent=answer.sent,
        )
        context.draft.emit(events.SubmissionUncertain(token=token, why=reason))

    def _note_probed(
        self, context: DecisionContext, effect_id: str, token: str, answer: AdoptAnswer
    ) -> None:
        """A submission in doubt was looked for."""
        dispatcher = self.dispatcher
        for found in answer.found:
            if found.token == token:
                adopted = events.SubmissionAccepted(
                    token=token,
                    executor_ids=found.executor_ids,
                    submitted_at=found.submitted_at,
                    adopted=True,
                )
                context.draft.emit(adopted)
                dispatcher.settle(context, effect_id, "ok", "found by its name")
                return
        if token not in answer.absent:
            dispatcher.rest(effect_id, PROBE_SECONDS)
            return
        tasks = context.state.tokens[token]
        attempts = [find_attempt(context.job(job), number) for job, number in tasks]
        context.draft.emit(events.SubmissionAbsent(token=token))
        if all(a is None or a.outcome or a.is_told_to_end for a in attempts):
            detail = "never taken, no longer wanted"
            dispatcher.settle(context, effect_id, "ok", detail)
            self._end_unwanted(context, tasks)
        else:
            dispatcher.in_doubt.discard(effect_id)
            dispatcher.note_answer(effect_id)

    def note_call_failed(self, context: DecisionContext, got: seen.CallFailed) -> None:
        """A call raised where it must not: a fault of ours."""
        if not got.effect_id:  # of a look that goes on failing alike it is told once
            now = self.dispatcher.monotonic()
            problem, since = self.health.faults.get(got.what, ("", 0.0))
            if problem == got.problem and now - since < TELL_AGAIN_SECONDS:
                return
            self.health.faults[got.what] = (got.problem, now)
        self.log_fault(got.trace)
        pending = context.state.pending.get(got.effect_id)
        if pending is not None and pending.effect.recovery == "once":
            leave_in_doubt(context.draft, pending)
            self.dispatcher.forget(got.effect_id)
        elif (
            pending is not None
            and isinstance(pending.effect, SubmitTasks)
            and got.effect_id not in self.dispatcher.in_doubt
        ):  # nobody knows how far it came: it is asked for before it is sent again
            answer = Uncertain(message=f"a fault of ours: {got.problem}")
            self.note_doubt(context, got.effect_id, pending.effect.token, answer)
        elif got.effect_id:
            self.dispatcher.rest(got.effect_id, FAULT_SECONDS)
        context.draft.emit(events.EngineFaulted(where=got.what, problem=got.problem))


def leave_in_doubt(draft: Draft, pending: PendingEffect) -> None:
    """Settle an effect of which nobody knows whether it was done, and say so."""
    draft.emit(events.EffectSettled(effect_id=pending.effect_id, outcome="uncertain"))
    effect = pending.effect
    reason = why("uncertain_effect", kind=effect.kind, what=effect.name_object())
    draft.emit(
        events.WarningRaised(
            warning_id=f"u{pending.effect_id}", why=reason, job=effect.find_job()
        )
    )


def _explain(context: DecisionContext, token: str, reason: Why) -> None:
    for name, _ in context.state.tokens[token]:
        explain_wait(context, context.job(name), reason)


def _make_refusal_id(job: str) -> str:
    """The warning that a job, and those that were sent with it, are held."""
    return "r" + ids.digest(job, "refused")


def _is_open(context: DecisionContext, task: TaskId) -> bool:
    """Whether the attempt has not ended."""
    attempt = find_attempt(context.job(task[0]), task[1])
    return attempt is not None and attempt.outcome is None


def _build_end(
    context: DecisionContext,
    task: TaskId,
    outcome: Outcome,
    cause: Cause,
    reason: Why | None,
) -> events.AttemptEnded:
    """The end of an attempt that the executor does not have."""
    return events.AttemptEnded(
        job=task[0],
        attempt=task[1],
        outcome=outcome,
        cause=cause,
        ended_at=context.now.utc,
        why=reason,
    )


def order_again(
    context: DecisionContext, tasks: tuple[TaskId, ...], reason: Why
) -> None:
    """Order attempts that there are already to be sent once more."""
    token = ids.build_submission_token(context.state.session, tasks)
    emit_order(context, SubmitTasks(token=token, tasks=tasks), reason)
