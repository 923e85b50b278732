"""What comes of submissions: accepted, refused, in doubt, looked for."""

from __future__ import annotations

from autoexp_tui.actions.orders import (
    clear_warning,
    emit_order,
    explain_wait,
    raise_warning,
)
from autoexp_tui.effects.effects import SubmitTasks
from autoexp_tui.engine import executor_port as port
from autoexp_tui.engine.dispatcher import PROBE_SECONDS, Settlement
from autoexp_tui.engine.report_reducer import find_attempt
from autoexp_tui.events import events
from autoexp_tui.model import ids
from autoexp_tui.model.decision_context import DecisionContext, Draft
from autoexp_tui.model.effect import TaskId
from autoexp_tui.model.state import PendingEffect
from autoexp_tui.model.states import Cause, Outcome, Why, why
from autoexp_tui.scheduling.circuit_breaker import end_attempt

BUSY_SECONDS = 10.0
"""Before an executor that is at its limit is asked again."""
AWAY_SECONDS = (2.0, 30.0)
"""Before it is asked again that could not be reached: at first, and at most."""
UNEXPLAINED_SECONDS = (60.0, 240.0)
"""Before what was refused in unknown words is sent once more; then it is held."""


class SubmissionAnswer(Settlement):
    """Moves the attempts of one submission on by what the executor answered."""

    __slots__ = ()

    def note(self, answer: object) -> None:
        """It was taken, refused, is known, or nobody knows."""
        away = isinstance(answer, port.Busy) and answer.unreachable
        if not away and not isinstance(answer, port.Unexplained):
            self.dispatcher.refused.pop(self.pending.effect_id, None)
        match answer:
            case port.Accepted():
                detail = port.format_exchange(answer.sent, answer.said)
                self._accept(answer.executor_ids, answer.submitted_at, detail)
                for job, _ in self._tasks:
                    clear_warning(self.context, _make_refusal_id(job))
            case port.Rejected():
                self._reject(answer)
            case port.Busy():
                self._wait(answer)
            case port.Unexplained():
                self._try_again(answer)
            case port.Uncertain():
                self.note_doubt(answer)
            case port.AdoptAnswer():
                self._note_probed(answer)

    @property
    def _token(self) -> str:
        effect = self.pending.effect
        assert isinstance(effect, SubmitTasks), f"{effect.kind} is no submission"
        return effect.token

    @property
    def _tasks(self) -> tuple[TaskId, ...]:
        return self.context.state.tokens[self._token]

    def _accept(
        self, ids: tuple[str, ...], at: float, detail: str, *, adopted: bool = False
    ) -> None:
        accepted = events.SubmissionAccepted(
            token=self._token, executor_ids=ids, submitted_at=at, adopted=adopted
        )
        self.context.draft.emit(accepted)
        self.end("ok", detail)

    def _reject(self, answer: port.Rejected) -> None:
        self._fail(answer)
        tasks = self._tasks
        if answer.cause is Cause.SUBMIT_ERROR and len(tasks) > 1:
            reason = why("sent_apart", message=answer.message)
            self._send_apart(reason, most=1)
            return
        reason = why(answer.cause.value, message=answer.message)
        for task in self._list_open():
            ended = self._build_end(task, Outcome.FAILED, answer.cause, reason)
            end_attempt(self.context, ended)

    def _fail(self, answer: port.Rejected | port.Busy | port.Unexplained) -> None:
        detail = port.format_exchange(answer.sent, answer.message)
        self.end("failed", detail)

    def _wait(self, answer: port.Busy) -> None:
        """Send it again later: where nobody was there, soon, then ever later; what is
        too large for a limit, in two parts."""
        tasks, seconds, dispatcher = self._tasks, BUSY_SECONDS, self.dispatcher
        args: dict[str, str | float] = {"message": answer.message, "sent": answer.sent}
        code = "disk_refuses" if answer.disk else "busy"
        if answer.unreachable:
            first, most = AWAY_SECONDS
            times = dispatcher.refused[self.pending.effect_id]
            dispatcher.refused[self.pending.effect_id] += 1
            seconds = min(first * 2**times, most)
            code, args["seconds"] = "unreachable", seconds
        until, reason = self.rest(seconds), why(code, **args)
        self._explain(reason)
        if answer.fewer and len(tasks) > 1:
            self._fail(answer)
            self._send_apart(reason, most=(len(tasks) + 1) // 2)
        if not (answer.disk or answer.unreachable):
            dispatcher.rest_alike(self.context.state, tasks[0][0], until)

    def _try_again(self, answer: port.Unexplained) -> None:
        """Send it again twice; then it is held for a person: nobody understands it, and
        nothing of it was started."""
        refused, most = self.dispatcher.refused, len(UNEXPLAINED_SECONDS) + 1
        refused[self.pending.effect_id] += 1
        tries, said = refused[self.pending.effect_id], answer.message
        if tries < most:
            seconds = UNEXPLAINED_SECONDS[tries - 1]
            self.rest(seconds)
            args = {"tries": tries, "most": most, "seconds": seconds}
            self._explain(
                why("refused_unexplained", message=said, **args, sent=answer.sent)
            )
            return
        del refused[self.pending.effect_id]
        self._fail(answer)
        seconds = sum(UNEXPLAINED_SECONDS)
        reason = why("held_by_refusal", tries=tries, seconds=seconds, message=said)
        self._end_unwanted()
        tasks = self._list_open()
        for task in tasks:
            ended = self._build_end(task, Outcome.FAILED, Cause.REJECTED, reason)
            self.context.draft.emit(ended)
        if tasks:
            jobs = tuple(job for job, _ in tasks)
            self.context.draft.emit(events.JobsHeld(jobs=jobs, why=reason))
            warning_id = _make_refusal_id(jobs[0])
            raise_warning(self.context, warning_id, reason, jobs[0], "error")

    def _send_apart(self, reason: Why, *, most: int) -> None:
        """Send in parts of at `most` so many what could not be sent together."""
        self._end_unwanted()
        tasks = self._list_open()
        for first in range(0, len(tasks), most):
            order_again(self.context, tasks[first : first + most], reason)

    def _end_unwanted(self) -> None:
        """End those that were cancelled meanwhile: the executor has none of them."""
        for task in self._list_open():
            attempt = find_attempt(self.context.job(task[0]), task[1])
            if attempt and (cause := attempt.cancel_cause):
                reason = attempt.cancel_why
                ended = self._build_end(task, Outcome.CANCELLED, cause, reason)
                end_attempt(self.context, ended)

    def _list_open(self) -> tuple[TaskId, ...]:
        """Those of its attempts that have not ended."""
        found = (
            (task, find_attempt(self.context.job(task[0]), task[1]))
            for task in self._tasks
        )
        return tuple(task for task, one in found if one and one.outcome is None)

    def note_doubt(self, answer: port.Uncertain) -> None:
        """It may have been taken: it is asked for before it is sent again."""
        self.dispatcher.in_doubt.add(self.pending.effect_id)
        self.rest(PROBE_SECONDS)
        spec, at = self.context.job(self._tasks[0][0]).spec, self.context.now.t
        place = self.context.policy.name_executor(spec.place)
        said = {"message": answer.message, "sent": answer.sent}
        reason = why("in_doubt", **said, at=at, place=place)
        self.context.draft.emit(
            events.SubmissionUncertain(token=self._token, why=reason)
        )

    def _note_probed(self, answer: port.AdoptAnswer) -> None:
        """A submission in doubt was looked for."""
        context = self.context
        for found in answer.found:
            if found.token == self._token:
                ids, at = found.executor_ids, found.submitted_at
                self._accept(ids, at, "found by its name", adopted=True)
                return
        if self._token not in answer.absent:
            self.rest(PROBE_SECONDS)
            return
        attempts = [find_attempt(context.job(job), n) for job, n in self._tasks]
        context.draft.emit(events.SubmissionAbsent(token=self._token))
        if all(a is None or a.outcome or a.is_told_to_end for a in attempts):
            self.end("ok", "never taken, no longer wanted")
            self._end_unwanted()
        else:
            self.dispatcher.in_doubt.discard(self.pending.effect_id)
            self.dispatcher.note_answer(self.pending.effect_id)

    def _explain(self, reason: Why) -> None:
        for name, _ in self._tasks:
            explain_wait(self.context, self.context.job(name), reason)

    def _build_end(
        self, task: TaskId, outcome: Outcome, cause: Cause, reason: Why | None
    ) -> events.AttemptEnded:
        """The end of an attempt that the executor does not have."""
        return events.AttemptEnded(
            job=task[0],
            attempt=task[1],
            outcome=outcome,
            cause=cause,
            ended_at=self.context.now.utc,
            why=reason,
        )


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


def _make_refusal_id(job: str) -> str:
    """The warning that a job, and those that were sent with it, are held."""
    return "r" + ids.digest(job, "refused")


def order_again(
    context: DecisionContext, tasks: tuple[TaskId, ...], reason: Why
) -> None:
    """Order attempts that there are already to be sent once more."""
    token = ids.build_submission_token(context.state.session, tasks)
    emit_order(context, SubmitTasks(token=token, tasks=tasks), reason)
