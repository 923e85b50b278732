"""What comes of submissions: accepted, refused, in doubt, looked for, cancelled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from autoexp_tui.actions.orders import order_effect
from autoexp_tui.effects.effects import CancelTasks, SubmitTasks
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine import report_reducer as judge
from autoexp_tui.engine.dispatcher import PROBE_SECONDS
from autoexp_tui.engine.effect_settlement import FAULT_SECONDS, Settling, in_words
from autoexp_tui.engine.executor_port import (
    Accepted,
    Busy,
    Rejected,
    SubmitAnswer,
    Uncertain,
    Unexplained,
)
from autoexp_tui.engine.health import Health
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.states import Cause, Outcome, Why, why
from autoexp_tui.scheduling.circuit_breaker import end_attempt

BUSY_SECONDS = 10.0
"""Before an executor that is at its limit is asked again."""
AWAY_SECONDS = (2.0, 30.0)
"""Before an executor that cannot be reached is asked again: at first, and at most; it
doubles."""
UNEXPLAINED_SECONDS = (60.0, 240.0)
"""Before what was refused in unknown words is sent once more; then it is held."""


@dataclass(frozen=True, slots=True)
class SubmissionAnswers:
    """Moves attempts on by what the executor answered."""

    settling: Settling
    health: Health
    refused: Counter[str] = field(default_factory=Counter)
    """How often in a row a submission that is pending came to nothing, by effect."""

    def submitted(self, context: DecisionContext, got: seen.Submitted) -> None:
        """The executor took a submission, refused it, or nobody knows."""
        if got.effect_id not in context.state.pending:
            return
        if not _is_refused_again(got.answer):
            self.refused.pop(got.effect_id, None)
        match got.answer:
            case Accepted() as answer:
                self._accepted(context, got, answer)
            case Rejected() as answer:
                self._rejected(context, got, answer)
            case Busy() as answer:
                self._busy(context, got, answer)
            case Unexplained() as answer:
                self._unexplained(context, got, answer)
            case Uncertain() as answer:
                self.doubt(context, got.effect_id, got.token, answer)

    def _accepted(
        self, context: DecisionContext, got: seen.Submitted, answer: Accepted
    ) -> None:
        context.draft.emit(
            events.SubmissionAccepted(
                token=got.token,
                executor_ids=answer.executor_ids,
                submitted_at=answer.submitted_at,
            )
        )
        self.settling.settle(
            context, got.effect_id, "ok", in_words(answer.sent, answer.said)
        )
        for job, _ in context.state.tokens[got.token]:
            if _refusal_id(job) in context.state.warnings:
                context.draft.emit(events.WarningCleared(warning_id=_refusal_id(job)))

    def _busy(
        self, context: DecisionContext, got: seen.Submitted, answer: Busy
    ) -> None:
        """Send it again later; what is too large for a limit, in two parts."""
        if answer.unreachable:
            self._unreachable(context, got, answer)
            return
        rest = self.settling.rest(got.effect_id, BUSY_SECONDS)
        code = "disk_refuses" if answer.disk else "busy"
        reason = why(code, message=answer.message, sent=answer.sent)
        self._explain(context, got.token, reason)
        tasks = context.state.tokens[got.token]
        if answer.fewer and len(tasks) > 1:
            detail = in_words(answer.sent, answer.message)
            self.settling.settle(context, got.effect_id, "failed", detail)
            self._send_apart(context, tasks, reason, most=(len(tasks) + 1) // 2)
        if not answer.disk:
            self.settling.dispatcher.rest_alike(context.state, tasks[0][0], rest)

    def _unreachable(
        self, context: DecisionContext, got: seen.Submitted, answer: Busy
    ) -> None:
        """Nobody was there: send it again soon, then ever later."""
        first, most = AWAY_SECONDS
        seconds = min(first * 2 ** self.refused[got.effect_id], most)
        self.refused[got.effect_id] += 1
        self.settling.rest(got.effect_id, seconds)
        reason = why(
            "unreachable", message=answer.message, seconds=seconds, sent=answer.sent
        )
        self._explain(context, got.token, reason)

    def _unexplained(
        self, context: DecisionContext, got: seen.Submitted, answer: Unexplained
    ) -> None:
        """Send it again twice, then hold it until a person has looked."""
        tries = self.refused[got.effect_id] + 1
        if tries > len(UNEXPLAINED_SECONDS):
            self._hold(context, got, answer, tries)
            return
        self.refused[got.effect_id] = tries
        seconds = UNEXPLAINED_SECONDS[tries - 1]
        self.settling.rest(got.effect_id, seconds)
        most = len(UNEXPLAINED_SECONDS) + 1
        reason = why(
            "refused_unexplained",
            message=answer.message,
            tries=tries,
            most=most,
            seconds=seconds,
            sent=answer.sent,
        )
        self._explain(context, got.token, reason)

    def _hold(
        self,
        context: DecisionContext,
        got: seen.Submitted,
        answer: Unexplained,
        tries: int,
    ) -> None:
        """What nobody understands goes to a person; nothing of it was started."""
        del self.refused[got.effect_id]
        detail = in_words(answer.sent, answer.message)
        self.settling.settle(context, got.effect_id, "failed", detail)
        reason = why(
            "held_by_refusal",
            tries=tries,
            seconds=sum(UNEXPLAINED_SECONDS),
            message=answer.message,
        )
        tasks = context.state.tokens[got.token]
        self._end_unwanted(context, tasks)
        open_ = [task for task in tasks if _is_open(context, task)]
        for job, number in open_:
            ended = events.AttemptEnded(
                job=job,
                attempt=number,
                outcome=Outcome.FAILED,
                cause=Cause.REJECTED,
                ended_at=context.now.utc,
                why=reason,
            )
            context.draft.emit(ended)
        if not open_:
            return
        context.draft.emit(
            events.JobsHeld(jobs=tuple(job for job, _ in open_), why=reason)
        )
        first, _ = open_[0]
        raised = events.WarningRaised(
            warning_id=_refusal_id(first), why=reason, job=first, severity="error"
        )
        context.draft.emit(raised)

    def _rejected(
        self, context: DecisionContext, got: seen.Submitted, answer: Rejected
    ) -> None:
        detail = in_words(answer.sent, answer.message)
        self.settling.settle(context, got.effect_id, "failed", detail)
        tasks = context.state.tokens[got.token]
        if answer.cause is Cause.SUBMIT_ERROR and len(tasks) > 1:
            apart = why("sent_apart", message=answer.message)
            self._send_apart(context, tasks, apart, most=1)
            return
        reason = why(answer.cause.value, message=answer.message)
        for job, number in tasks:
            self._end_unborn(context, job, number, Outcome.FAILED, answer.cause, reason)

    def _send_apart(
        self,
        context: DecisionContext,
        tasks: tuple[TaskId, ...],
        reason: Why,
        *,
        most: int,
    ) -> None:
        """Send in parts of at `most` so many what could not be sent together."""
        self._end_unwanted(context, tasks)
        open_ = tuple(task for task in tasks if _is_open(context, task))
        for first in range(0, len(open_), most):
            order_again(context, open_[first : first + most], reason)

    def _end_unborn(
        self,
        context: DecisionContext,
        job: str,
        number: int,
        outcome: Outcome,
        cause: Cause,
        reason: Why | None,
    ) -> None:
        """End an attempt that the executor does not have."""
        attempt = judge.attempt_of(context.job(job), number)
        if attempt is None or attempt.outcome is not None:
            return
        ended = events.AttemptEnded(
            job=job,
            attempt=number,
            outcome=outcome,
            cause=cause,
            ended_at=context.now.utc,
            why=reason,
        )
        end_attempt(context, ended)

    def doubt(
        self, context: DecisionContext, effect_id: str, token: str, answer: Uncertain
    ) -> None:
        """It may have been taken: it is asked for before it is sent again."""
        self.settling.dispatcher.in_doubt.add(effect_id)
        self.settling.rest(effect_id, PROBE_SECONDS)
        reason = why(
            "in_doubt",
            message=answer.message,
            at=context.now.t,
            place=context.policy.place,
            sent=answer.sent,
        )
        context.draft.emit(events.SubmissionUncertain(token=token, why=reason))

    def _explain(self, context: DecisionContext, token: str, reason: Why) -> None:
        for name, _ in context.state.tokens[token]:
            job = context.job(name)
            if job.why is None or job.why.code != reason.code:
                context.draft.emit(events.WaitExplained(job=name, why=reason))

    def probed(self, context: DecisionContext, got: seen.Probed) -> None:
        """A submission in doubt was looked for."""
        if got.effect_id not in context.state.pending:
            return
        for found in got.answer.found:
            if found.token == got.token:
                context.draft.emit(
                    events.SubmissionAccepted(
                        token=got.token,
                        executor_ids=found.executor_ids,
                        submitted_at=found.submitted_at,
                        adopted=True,
                    )
                )
                self.settling.settle(context, got.effect_id, "ok", "found by its name")
                return
        if got.token in got.answer.absent:
            self._absent(context, got)
        else:
            self.settling.rest(got.effect_id, PROBE_SECONDS)

    def _absent(self, context: DecisionContext, got: seen.Probed) -> None:
        tasks = context.state.tokens[got.token]
        attempts = [judge.attempt_of(context.job(job), number) for job, number in tasks]
        context.draft.emit(events.SubmissionAbsent(token=got.token))
        if all(a is None or a.outcome or a.told_to_end for a in attempts):
            self.settling.settle(
                context, got.effect_id, "ok", "never taken, no longer wanted"
            )
            self._end_unwanted(context, tasks)
            return
        self.settling.dispatcher.in_doubt.discard(got.effect_id)
        self.settling.dispatcher.landed(got.effect_id)

    def _end_unwanted(
        self, context: DecisionContext, tasks: tuple[TaskId, ...]
    ) -> None:
        for job, number in tasks:
            attempt = judge.attempt_of(context.job(job), number)
            if attempt is not None and attempt.cancel_cause is not None:
                self._end_unborn(
                    context,
                    job,
                    number,
                    Outcome.CANCELLED,
                    attempt.cancel_cause,
                    attempt.cancel_why,
                )

    def cancelled(self, context: DecisionContext, got: seen.Cancelled) -> None:
        """The order to end tasks was given, or has to be given again."""
        if got.effect_id not in context.state.pending:
            return
        if got.answer.ok:
            words = in_words(got.answer.sent, got.answer.said)
            self._cancel_settled(context, got.effect_id, words)
        else:
            self.settling.rest(got.effect_id, FAULT_SECONDS)
            self.health.error = got.answer.said
            self._warn_unconfirmed(context, got.effect_id, got.answer.said)

    def settle_cancels(self, context: DecisionContext) -> None:
        """A cancel that nobody confirmed is over with the attempts that it is for."""
        for pending in list(context.state.pending.values()):
            effect, effect_id = pending.effect, pending.effect_id
            if not isinstance(effect, CancelTasks):
                continue
            unconfirmed = _unconfirmed_id(effect_id) in context.state.warnings
            if unconfirmed and not any(
                _may_live(context, task) for task in effect.tasks
            ):
                self._cancel_settled(context, effect_id, "what it was for has ended")

    def _cancel_settled(
        self, context: DecisionContext, effect_id: str, words: str
    ) -> None:
        self.settling.settle(context, effect_id, "ok", words)
        warning_id = _unconfirmed_id(effect_id)
        if warning_id in context.state.warnings:
            context.draft.emit(events.WarningCleared(warning_id=warning_id))

    @staticmethod
    def _warn_unconfirmed(
        context: DecisionContext, effect_id: str, message: str
    ) -> None:
        """Say that the end of tasks was ordered and that nobody has confirmed it."""
        effect = context.state.pending[effect_id].effect
        warning_id = _unconfirmed_id(effect_id)
        if warning_id in context.state.warnings or not isinstance(effect, CancelTasks):
            return
        reason = why("cancel_unconfirmed", message=message, count=len(effect.tasks))
        job, _ = effect.tasks[0]
        raised = events.WarningRaised(warning_id=warning_id, why=reason, job=job)
        context.draft.emit(raised)


def _is_refused_again(answer: SubmitAnswer) -> bool:
    """Whether the answer adds to a row of refusals that are counted."""
    away = isinstance(answer, Busy) and answer.unreachable
    return away or isinstance(answer, Unexplained)


def _refusal_id(job: str) -> str:
    """The warning that a job, and those that were sent with it, are held."""
    return "r" + ids.digest(job, "refused")


def _unconfirmed_id(effect_id: str) -> str:
    """The warning that a cancel is not confirmed."""
    return "c" + ids.digest(effect_id)


def _may_live(context: DecisionContext, task: TaskId) -> bool:
    """Whether the attempt may still run: it has not ended, or nobody saw it end."""
    job, number = task
    attempt = judge.attempt_of(context.job(job), number)
    return attempt is not None and attempt.outcome in (None, Outcome.LOST)


def _is_open(context: DecisionContext, task: TaskId) -> bool:
    """Whether the attempt has not ended."""
    job, number = task
    attempt = judge.attempt_of(context.job(job), number)
    return attempt is not None and attempt.outcome is None


def order_again(
    context: DecisionContext, tasks: tuple[TaskId, ...], reason: Why
) -> None:
    """Order attempts that there are already to be sent once more."""
    token = ids.submission_token(context.state.session, tasks)
    order_effect(context, SubmitTasks(token=token, tasks=tasks), reason)
