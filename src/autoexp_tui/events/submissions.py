"""Events of orders to the outside, and of what came of submissions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from autoexp_tui.model.effect import Effect, TaskId
from autoexp_tui.model.event import (
    Event,
    Headline,
    append_reason,
    join_parts,
    keep_metrics,
    list_names,
    move,
    update,
    update_attempt,
)
from autoexp_tui.model.resubmission import is_beginning_anew
from autoexp_tui.model.state import Attempt, PendingEffect
from autoexp_tui.model.states import UNANSWERED, Cause, JobState, Topic, Why

if TYPE_CHECKING:
    from autoexp_tui.model.event import Recorded
    from autoexp_tui.model.state import SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOrdered(Event):
    """An order to the outside, synced before it is sent. A submit makes its jobs
    SUBMITTING and opens their attempts; a cancel marks the attempts as ended by us,
    with the cause that will judge them."""

    topic: ClassVar[Topic] = "reaction"
    matters: ClassVar[bool] = True

    effect_id: str
    effect: Effect
    why: Why | None = None
    cause: Cause | None = None
    """For cancels: the cause that the attempts' end will have."""
    finish: bool = False
    """For cancels: the attempts are done, and will have completed."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.pending[self.effect_id] = PendingEffect(
            effect_id=self.effect_id,
            effect=self.effect,
            seq=record.seq,
            ordered_utc=state.utc,
            why=self.why,
        )
        token, tasks = self.effect.list_opened_attempts()
        if tasks:
            _open_attempts(state, record, token, tasks)
        marked: dict[str, Any] = {"cancel_cause": self.cause or Cause.USER}
        if self.finish:
            marked = {"finished": True}
        for job, number in self.effect.list_ended_attempts():
            update_attempt(state, job, number, cancel_why=self.why, **marked)
        for job, number in self.effect.list_looks_before():
            update(state, job, look_ordered=number)


def _open_attempts(
    state: SessionState, record: Recorded, token: str, tasks: tuple[TaskId, ...]
) -> None:
    state.tokens[token] = tasks
    for job, number in tasks:
        old = state.jobs[job]
        if any(attempt.number == number for attempt in old.attempts):
            update_attempt(state, job, number, token=token)
            move(state, record, job, JobState.SUBMITTING)  # sent again, same intent
            continue
        anew = is_beginning_anew(old)
        past: dict[str, Any] = {}  # the words and files of other attempts
        if anew:
            past = {"metadata": {}, "noted": None, "found": {}}
            if old.looked_before == len(old.attempts) + 1:
                past["aside"] = old.found
        attempt = Attempt(
            number=number,
            anew=anew,
            token=token,
            ordered_at=record.t,
            ordered_why=old.retry.why if old.retry else None,
            resume=old.retry.from_checkpoint if old.retry else old.resume,
            fingerprint=old.spec.fingerprint,
            values=None if old.spec.planned is None else old.spec.parameters,
        )
        move(
            state,
            record,
            job,
            JobState.SUBMITTING,
            attempts=(*keep_metrics(old), attempt),
            retry=None,
            why=None,
            cause=None,
            waiting_lived=None,
            use_files=False,
            **past,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectSettled(Event):
    """What came of an order."""

    matters: ClassVar[bool] = True

    effect_id: str
    outcome: Literal["ok", "failed", "uncertain"]
    detail: str = ""
    """The exact words sent and answered, for the Events mode."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        state.pending.pop(self.effect_id, None)

    def format_headline(self, now: float) -> Headline:
        first = self.detail.partition("\n")[0]
        return Headline("effect settled", append_reason(self.outcome, first))

    def is_error(self) -> bool:
        return self.outcome != "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionAccepted(Event):
    """The executor took a submission, or it was found there by its token."""

    topic: ClassVar[Topic] = "submit"

    token: str
    executor_ids: tuple[str, ...]
    """One a task, in order."""
    submitted_at: float
    adopted: bool = False

    def apply(self, state: SessionState, record: Recorded) -> None:
        submitted_at = self.submitted_at - state.wall_ahead
        tasks = state.tokens[self.token]
        for (job, number), executor_id in zip(tasks, self.executor_ids, strict=True):
            update_attempt(
                state, job, number, executor_id=executor_id, submitted_at=submitted_at
            )
        _move_submission(state, record, self.token, JobState.QUEUED, None)

    def format_headline(self, now: float) -> Headline:
        verb = "found accepted" if self.adopted else "accepted"
        ids = list_names(self.executor_ids)
        return Headline(verb, join_parts(ids, f"token {self.token}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionUncertain(Event):
    """The executor's answer was lost: the tasks may live."""

    topic: ClassVar[Topic] = "submit"
    verb: ClassVar[str] = "in doubt"

    token: str
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        _move_submission(state, record, self.token, JobState.SUBMIT_UNKNOWN, self.why)

    def is_error(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionAbsent(Event):
    """Asked by token, the executor answered that it never took the submission."""

    topic: ClassVar[Topic] = "submit"

    token: str

    def apply(self, state: SessionState, record: Recorded) -> None:
        _move_submission(state, record, self.token, JobState.SUBMITTING, None)

    def format_headline(self, now: float) -> Headline:
        return Headline("never arrived", f"token {self.token}")


def _move_submission(
    state: SessionState, record: Recorded, token: str, new: JobState, why: Why | None
) -> None:
    """Move the jobs of a submission that has no answer yet."""
    for job, number in state.tokens[token]:
        current = state.jobs[job]
        newest = current.attempt
        if newest and newest.number == number and current.state in UNANSWERED:
            move(state, record, job, new, why=why)
