"""Events of attempts and their runs: they begin, are requeued, end; checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from autoexp_tui.events.jobs import OfJob
from autoexp_tui.model.event import (
    Event,
    Headline,
    append_reason,
    explain,
    join_parts,
    move,
    pick,
    update,
    update_attempt,
)
from autoexp_tui.model.outputs import Checkpoint, SavedCheckpoint
from autoexp_tui.model.state import Matched
from autoexp_tui.model.states import Cause, JobState, Outcome, Topic, Why
from autoexp_tui.model.wording import CAUSES, STATES

if TYPE_CHECKING:
    from autoexp_tui.model.event import Recorded
    from autoexp_tui.model.state import SessionState


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

    def apply(self, state: SessionState, record: Recorded) -> None:
        same = ("run", "node", "partition", "pid", "log_path", "log_start")
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
class RunRequeued(OfJob):
    """The executor put a begun run back into its queue."""

    verb: ClassVar[str] = "requeued"

    attempt: int
    run: int
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        move(state, record, self.job, JobState.QUEUED, why=self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSuspended(OfJob):
    """The executor stopped a run's processes for a while."""

    verb: ClassVar[str] = "suspended"

    attempt: int
    run: int

    def apply(self, state: SessionState, record: Recorded) -> None:
        move(state, record, self.job, JobState.SUSPENDED, why=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(OfJob):
    """The executor let a suspended run go on."""

    verb: ClassVar[str] = "goes on"

    attempt: int
    run: int

    def apply(self, state: SessionState, record: Recorded) -> None:
        move(state, record, self.job, JobState.RUNNING, why=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReplaced(Event):
    """The log of a run that goes on began anew: rotated, truncated, or swapped."""

    topic: ClassVar[Topic] = "state"

    job: str
    attempt: int
    run: int
    count: int
    """How often by now."""

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
    """What it is to the count of quick failures in a row: one more, the end of it, or
    nothing."""
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
        node = next((a.node for a in job.attempts if a.number == self.attempt), "")
        on_node = [node_key(node)] if node else []
        for key in (SESSION, format_stage_key(job.spec.stage), *on_node):
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
class CheckpointQuarantined(Event):
    """A job's checkpoint was moved aside."""

    matters: ClassVar[bool] = True

    job: str
    checkpoint: Checkpoint
    moved_to: str
    before: Checkpoint | None = None
    """The newest that is left."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        saved = SavedCheckpoint(checkpoint=self.before) if self.before else None
        metadata = dict(state.jobs[self.job].metadata)
        for key in [key for key in metadata if key.startswith("checkpoint")]:
            value = self._value_instead_of(metadata.pop(key))
            if value is not None:
                metadata[key] = value
        update(state, self.job, saved=saved, metadata=metadata)

    def _value_instead_of(self, value: str) -> str | None:
        """A log's word of a checkpoint once that is moved; None: there is no other."""
        before = self.before
        if value == self.checkpoint.path:
            return before.path if before else None
        if value == str(self.checkpoint.step):
            return str(before.step) if before and before.step is not None else None
        return value

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
