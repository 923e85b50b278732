"""Events of orders to the outside, of submissions, attempts and their runs: what came
of them, how they begin, are requeued, and end; checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

from autoexp_tui.events.jobs import OfJob
from autoexp_tui.model.effect import Effect, TaskId
from autoexp_tui.model.event import (
    Event,
    Headline,
    Recorded,
    append_reason,
    explain,
    join_parts,
    keep_metrics,
    list_names,
    move,
    pick,
    update,
    update_attempt,
)
from autoexp_tui.model.outputs import Checkpoint, SavedCheckpoint
from autoexp_tui.model.resubmission import is_beginning_anew
from autoexp_tui.model.state import Attempt, Matched, PendingEffect, SessionState
from autoexp_tui.model.states import UNANSWERED, Cause, JobState, Outcome, Why
from autoexp_tui.model.wording import CAUSES, STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOrdered(Event, topic="reaction", matters=True):
    """An order to the outside, synced before it is sent. A submit makes its jobs
    SUBMITTING and opens their attempts; a cancel marks the attempts as ended by us,
    with the cause that will judge them."""

    effect_id: str
    effect: Effect
    why: Why | None = None
    cause: Cause | None = None
    """For cancels: the cause that the attempts' end will have."""
    finish: bool = False
    """For cancels: the attempts are done, and will have completed."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        same = pick(self, "effect_id", "effect", "why")
        pending = PendingEffect(**same, seq=record.seq, ordered_utc=state.utc)
        state.pending[self.effect_id] = pending
        effect: Any = self.effect
        if effect.kind == "submit":
            _open_attempts(state, record, effect.token, effect.tasks)
        elif effect.kind == "cancel":
            marked: dict[str, Any] = {"finished": True}
            if not self.finish:
                marked = {"cancel_cause": self.cause or Cause.USER}
            for job, number in effect.tasks:
                update_attempt(state, job, number, cancel_why=self.why, **marked)
        elif effect.kind == "look_at_files":
            update(state, effect.job, look_ordered=effect.attempt)


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
class EffectSettled(Event, matters=True):
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
class SubmissionAccepted(Event, topic="submit"):
    """The executor took a submission, or it was found there by its token."""

    token: str
    executor_ids: tuple[str, ...]
    """One a task, in order."""
    submitted_at: float
    adopted: bool = False

    def apply(self, state: SessionState, record: Recorded) -> None:
        found: dict[str, Any] = {"submitted_at": self.submitted_at - state.wall_ahead}
        tasks = state.tokens[self.token]
        for (job, number), executor_id in zip(tasks, self.executor_ids, strict=True):
            update_attempt(state, job, number, executor_id=executor_id, **found)
        _move_submission(state, record, self.token, JobState.QUEUED, None)

    def format_headline(self, now: float) -> Headline:
        verb = "found accepted" if self.adopted else "accepted"
        ids = list_names(self.executor_ids)
        return Headline(verb, join_parts(ids, f"token {self.token}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionUncertain(Event, topic="submit", verb="in doubt"):
    """The executor's answer was lost: the tasks may live."""

    token: str
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        _move_submission(state, record, self.token, JobState.SUBMIT_UNKNOWN, self.why)

    def is_error(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionAbsent(Event, topic="submit"):
    """Asked by token, the executor answered that it never took the submission."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegan(OfJob):
    """The wrapper's begin record was seen."""

    attempt: int
    run: int
    began_at: float
    executor_id: str = ""
    node: str = ""
    partition: str = ""
    pid: int = 0
    log_path: str = ""
    log_start: int = 0
    """Bytes that earlier runs had left in that log: they say nothing of this one."""
    gpus: tuple[str, ...] = ()
    """Ids of the GPUs that it was given; empty: none, or it is not known which."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        same = ("run", "node", "partition", "pid", "log_path", "log_start", "gpus")
        found = pick(self, *same, *(("executor_id",) if self.executor_id else ()))
        began_at = _session_time(state, self, self.began_at)
        found |= {"began_at": began_at, "log_replaced": 0}
        update_attempt(state, self.job, self.attempt, **found)
        if not state.jobs[self.job].ended:
            move(state, record, self.job, JobState.RUNNING, why=None)

    def format_headline(self, now: float) -> Headline:
        again = f"run {self.run}" if self.run else ""
        where = f"on {self.node}" if self.node else ""
        attempt = f"attempt {self.attempt}"
        about = join_parts(attempt, again, where, self.partition, self.executor_id)
        return Headline("began", about)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunMoved(OfJob):
    """The executor did something to a begun run."""

    to: ClassVar[JobState]

    attempt: int
    run: int

    def apply(self, state: SessionState, record: Recorded) -> None:
        move(state, record, self.job, self.to, why=getattr(self, "why", None))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequeued(_RunMoved, verb="requeued"):
    to: ClassVar[JobState] = JobState.QUEUED
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSuspended(_RunMoved, verb="suspended"):
    to: ClassVar[JobState] = JobState.SUSPENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(_RunMoved, verb="goes on"):
    to: ClassVar[JobState] = JobState.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReplaced(Event, topic="state"):
    """The log of a run that goes on began anew: rotated, truncated, or swapped."""

    job: str
    attempt: int
    run: int
    count: int

    def apply(self, state: SessionState, record: Recorded) -> None:
        update_attempt(state, self.job, self.attempt, log_replaced=self.count)
        found = state.matches.get(self.job)
        if found is not None:
            marks = {rule: (known, -1) for rule, (known, _) in found.marks.items()}
            state.matches[self.job] = Matched(found.attempt, found.run, marks)
        noted = state.jobs[self.job].noted
        if noted is not None and noted.judged.get(""):
            judged = {**noted.judged, "": 0}
            update(state, self.job, noted=replace(noted, judged=judged))

    def format_headline(self, now: float) -> Headline:
        about = f"attempt {self.attempt}, {self.count} times by now"
        return Headline("log began anew", about)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(OfJob):
    """An attempt is over; what it means for the job follows in the same commit."""

    attempt: int
    outcome: Outcome
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    ended_at: float = 0.0
    why: Why | None = None
    evidence: str = ""
    """The last telling line of its log, cleaned."""
    reached: int | None = None
    """The last step that its log reported; None: none, or it was not read."""
    streak: Literal["", "quick", "broken"] = ""
    """To the count of quick failures in a row: one more, its end, or nothing."""
    rerun: bool = False
    """The executor would have started it again, had it not forgotten it itself."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        update_attempt(
            state,
            self.job,
            self.attempt,
            ended_at=_session_time(state, self, self.ended_at),
            **pick(self, "outcome", "cause", "exit_code", "signal"),
            **pick(self, "why", "evidence", "reached"),
        )
        found = state.matches.get(self.job)
        if found is not None and found.attempt <= self.attempt:
            del state.matches[self.job]
        if not self.streak:
            return
        job = state.jobs[self.job]
        nodes = {a.node for a in job.attempts if a.number == self.attempt} - {""}
        stage = format_stage_key(job.spec.stage)
        for key in (SESSION, stage, *map(node_key, nodes)):
            if self.streak == "quick":
                state.streaks[key] = state.streaks.get(key, 0) + 1
            else:
                state.streaks.pop(key, None)

    def format_headline(self, now: float) -> Headline:
        code = f"exit {self.exit_code}" if self.exit_code is not None else ""
        signal = f"signal {self.signal}" if self.signal else ""
        step = f"at step {self.reached}" if self.reached is not None else ""
        outcome = STATES.get(self.outcome, str(self.outcome).lower())
        cause = CAUSES.get(self.cause, "") if self.cause else ""
        facts = join_parts(outcome, cause, code, signal, step)
        about = append_reason(facts, explain(self.why, now))
        return Headline(f"attempt {self.attempt} ended", about)

    def is_error(self) -> bool:
        return self.outcome in (Outcome.FAILED, Outcome.LOST)


def _session_time(
    state: SessionState, event: RunBegan | AttemptEnded, utc: float
) -> float:
    """The `t` of what a run's host tells the time of, by a clock of its own. It came
    after what led to it and before we saw it, whatever that clock shows."""
    known = [
        attempt.began_at
        if isinstance(event, AttemptEnded) and attempt.began_at is not None
        else attempt.ordered_at
        for attempt in state.jobs[event.job].attempts
        if attempt.number == event.attempt
    ]
    return min(max(utc - state.wall_ahead, *known), state.t) if known else utc


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSeen(Event):
    """What the next attempt of a job would go on from; None: from nothing."""

    job: str
    saved: SavedCheckpoint | None = None

    def apply(self, state: SessionState, record: Recorded) -> None:
        update(state, self.job, saved=self.saved)

    def format_headline(self, now: float) -> Headline:
        path = self.saved.checkpoint.path if self.saved else "none"
        return Headline("checkpoint seen", path)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointQuarantined(Event, matters=True):
    job: str
    checkpoint: Checkpoint
    moved_to: str
    before: Checkpoint | None = None
    """The newest that is left."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        """What a log has said of the checkpoint, it says of the one before it."""
        moved, before = self.checkpoint, self.before
        words: dict[str, str | None] = {str(moved.step): None, moved.path: None}
        if before is not None:
            step = None if before.step is None else str(before.step)
            words = {str(moved.step): step, moved.path: before.path}
        known = state.jobs[self.job].metadata
        told = {key: known[key] for key in known if key.startswith("checkpoint")}
        new = {key: words.get(value, value) for key, value in told.items()}
        every = {**known, **new}.items()
        metadata = {key: value for key, value in every if value is not None}
        saved = SavedCheckpoint(checkpoint=before) if before else None
        update(state, self.job, saved=saved, metadata=metadata)

    def format_headline(self, now: float) -> Headline:
        return Headline(
            "checkpoint moved", f"{self.checkpoint.path} -> {self.moved_to}"
        )


# Of quick failures in a row: what counts as one is decided when an attempt ends and
# recorded with the end; here the ends are only added up.
SESSION: Final = "session"
"""The key of the whole session."""


def format_stage_key(stage: str) -> str:
    return f"stage:{stage}"


def node_key(node: str) -> str:
    return f"node:{node}"
