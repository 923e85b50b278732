"""What comes of submissions: accepted, refused, in doubt, looked for, cancelled."""

from __future__ import annotations

from dataclasses import dataclass

from autoexp_tui.core import events, ids
from autoexp_tui.core.effects import SubmitTasks, TaskId
from autoexp_tui.core.states import Cause, Outcome
from autoexp_tui.core.verdicts import Why, why
from autoexp_tui.engine import judge
from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.dispatcher import PROBE_SECONDS
from autoexp_tui.engine.executor_port import Accepted, Busy, Rejected, Uncertain
from autoexp_tui.engine.health import Health
from autoexp_tui.engine.settling import FAULT_SECONDS, Settling, in_words
from autoexp_tui.monitor.desk import Desk
from autoexp_tui.monitor.orders import order_effect
from autoexp_tui.monitor.reactions import end_attempt

BUSY_SECONDS = 10.0
"""Before an executor that is at its limit is asked again."""


@dataclass(frozen=True, slots=True)
class SubmissionAnswers:
    """Moves attempts on by what the executor answered."""

    settling: Settling
    health: Health

    def submitted(self, desk: Desk, got: seen.Submitted) -> None:
        """The executor took a submission, refused it, or nobody knows."""
        if got.effect_id not in desk.state.pending:
            return
        match got.answer:
            case Accepted() as answer:
                self._accepted(desk, got, answer)
            case Rejected() as answer:
                self._rejected(desk, got, answer)
            case Busy() as answer:
                self._busy(desk, got, answer)
            case Uncertain() as answer:
                self.doubt(desk, got.effect_id, got.token, answer)

    def _accepted(self, desk: Desk, got: seen.Submitted, answer: Accepted) -> None:
        desk.draft.emit(
            events.SubmissionAccepted(
                token=got.token,
                executor_ids=answer.executor_ids,
                submitted_at=answer.submitted_at,
            )
        )
        self.settling.settle(
            desk, got.effect_id, "ok", in_words(answer.sent, answer.said)
        )

    def _busy(self, desk: Desk, got: seen.Submitted, answer: Busy) -> None:
        """Send it again later; what is too large for a limit, in two parts."""
        rest = self.settling.rest(got.effect_id, BUSY_SECONDS)
        code = "disk_refuses" if answer.disk else "busy"
        reason = why(code, message=answer.message, sent=answer.sent)
        self._explain(desk, got.token, reason)
        tasks = desk.state.tokens[got.token]
        if answer.fewer and len(tasks) > 1:
            detail = in_words(answer.sent, answer.message)
            self.settling.settle(desk, got.effect_id, "failed", detail)
            self._send_apart(desk, tasks, reason, most=(len(tasks) + 1) // 2)
        if not answer.disk:
            self.settling.dispatcher.rest_alike(desk.state, tasks[0][0], rest)

    def _rejected(self, desk: Desk, got: seen.Submitted, answer: Rejected) -> None:
        detail = in_words(answer.sent, answer.message)
        self.settling.settle(desk, got.effect_id, "failed", detail)
        tasks = desk.state.tokens[got.token]
        if answer.cause is Cause.SUBMIT_ERROR and len(tasks) > 1:
            apart = why("sent_apart", message=answer.message)
            self._send_apart(desk, tasks, apart, most=1)
            return
        reason = why(answer.cause.value, message=answer.message)
        for job, number in tasks:
            self._end_unborn(desk, job, number, Outcome.FAILED, answer.cause, reason)

    def _send_apart(
        self, desk: Desk, tasks: tuple[TaskId, ...], reason: Why, *, most: int
    ) -> None:
        """Send in parts of at `most` so many what could not be sent together."""
        self._end_unwanted(desk, tasks)
        open_ = tuple(task for task in tasks if _is_open(desk, task))
        for first in range(0, len(open_), most):
            order_again(desk, open_[first : first + most], reason)

    def _end_unborn(
        self,
        desk: Desk,
        job: str,
        number: int,
        outcome: Outcome,
        cause: Cause,
        reason: Why | None,
    ) -> None:
        """End an attempt that the executor does not have."""
        attempt = judge.attempt_of(desk.job(job), number)
        if attempt is None or attempt.outcome is not None:
            return
        ended = events.AttemptEnded(
            job=job,
            attempt=number,
            outcome=outcome,
            cause=cause,
            ended_at=desk.now,
            why=reason,
        )
        end_attempt(desk, ended)

    def doubt(self, desk: Desk, effect_id: str, token: str, answer: Uncertain) -> None:
        """It may have been taken: it is asked for before it is sent again."""
        self.settling.dispatcher.in_doubt.add(effect_id)
        self.settling.rest(effect_id, PROBE_SECONDS)
        reason = why(
            "in_doubt",
            message=answer.message,
            at=desk.now,
            place=desk.policy.place,
            sent=answer.sent,
        )
        desk.draft.emit(events.SubmissionUncertain(token=token, why=reason))

    def _explain(self, desk: Desk, token: str, reason: Why) -> None:
        for name, _ in desk.state.tokens[token]:
            job = desk.job(name)
            if job.why is None or job.why.code != reason.code:
                desk.draft.emit(events.WaitExplained(job=name, why=reason))

    def probed(self, desk: Desk, got: seen.Probed) -> None:
        """A submission in doubt was looked for."""
        if got.effect_id not in desk.state.pending:
            return
        for found in got.answer.found:
            if found.token == got.token:
                desk.draft.emit(
                    events.SubmissionAccepted(
                        token=got.token,
                        executor_ids=found.executor_ids,
                        submitted_at=found.submitted_at,
                        adopted=True,
                    )
                )
                self.settling.settle(desk, got.effect_id, "ok", "found by its name")
                return
        if got.token in got.answer.absent:
            self._absent(desk, got)
        else:
            self.settling.rest(got.effect_id, PROBE_SECONDS)

    def _absent(self, desk: Desk, got: seen.Probed) -> None:
        tasks = desk.state.tokens[got.token]
        attempts = [judge.attempt_of(desk.job(job), number) for job, number in tasks]
        desk.draft.emit(events.SubmissionAbsent(token=got.token))
        if all(a is None or a.outcome or a.told_to_end for a in attempts):
            self.settling.settle(
                desk, got.effect_id, "ok", "never taken, no longer wanted"
            )
            self._end_unwanted(desk, tasks)
            return
        self.settling.dispatcher.in_doubt.discard(got.effect_id)
        self.settling.dispatcher.landed(got.effect_id)

    def _end_unwanted(self, desk: Desk, tasks: tuple[TaskId, ...]) -> None:
        for job, number in tasks:
            attempt = judge.attempt_of(desk.job(job), number)
            if attempt is not None and attempt.cancel_cause is not None:
                self._end_unborn(
                    desk,
                    job,
                    number,
                    Outcome.CANCELLED,
                    attempt.cancel_cause,
                    attempt.cancel_why,
                )

    def cancelled(self, desk: Desk, got: seen.Cancelled) -> None:
        """The order to end tasks was given, or has to be given again."""
        if got.effect_id not in desk.state.pending:
            return
        if got.answer.ok:
            words = in_words(got.answer.sent, got.answer.said)
            self.settling.settle(desk, got.effect_id, "ok", words)
        else:
            self.settling.rest(got.effect_id, FAULT_SECONDS)
            self.health.error = got.answer.said


def _is_open(desk: Desk, task: TaskId) -> bool:
    """Whether the attempt has not ended."""
    job, number = task
    attempt = judge.attempt_of(desk.job(job), number)
    return attempt is not None and attempt.outcome is None


def order_again(desk: Desk, tasks: tuple[TaskId, ...], reason: Why) -> None:
    """Order attempts that there are already to be sent once more."""
    token = ids.submission_token(desk.state.session, tasks)
    order_effect(desk, SubmitTasks(token=token, tasks=tasks), reason)
