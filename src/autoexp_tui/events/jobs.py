"""Events of jobs at rest: released, held, planned anew, tried again, ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from autoexp_tui.model.event import (
    Event,
    Headline,
    append_reason,
    explain,
    join_parts,
    keep_metrics,
    list_names,
    move,
    move_all,
    update,
)
from autoexp_tui.model.outputs import SetAside
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import Retry
from autoexp_tui.model.states import Cause, JobState, Topic, Why
from autoexp_tui.model.wording import STATES, format_cause_of_end

if TYPE_CHECKING:
    from autoexp_tui.model.event import Recorded
    from autoexp_tui.model.state import SessionState

_NOT_LOOKED: Final[Mapping[str, Any]] = {
    "look_ordered": 0,
    "looked_before": 0,
    "found": {},
}
_LOOK_REASONS: Final = frozenset({"held_by_files", "files_unseen"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfJobs(Event):
    """An event about several jobs' own state."""

    topic: ClassVar[Topic] = "state"
    changes_jobs: ClassVar[bool] = True
    rejudges: ClassVar[bool] = True
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfJob(Event):
    """An event about one job's own state."""

    topic: ClassVar[Topic] = "state"
    changes_jobs: ClassVar[bool] = True
    rejudges: ClassVar[bool] = True
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsReleased(_OfJobs):
    """PLANNED or HELD jobs may run as soon as their conditions pass."""

    ahead: bool = False
    """Before all others that wait for a slot."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        move_all(state, record, self.jobs, JobState.WAITING, ahead=self.ahead)

    def format_headline(self, now: float) -> Headline:
        ahead = ", ahead" if self.ahead else ""
        return Headline("released", list_names(self.jobs) + ahead)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsHeld(_OfJobs):
    """PLANNED jobs that were not chosen, or jobs that cannot go on without a person."""

    verb: ClassVar[str] = "held"
    about: ClassVar[tuple[str, ...]] = ("jobs", "why")

    why: Why | None = None
    """None: they were not chosen."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        move_all(state, record, self.jobs, JobState.HELD, why=self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitExplained(Event):
    """Why a ready job is not sent (a slot, a pause); recorded when the code changes."""

    topic: ClassVar[Topic] = "condition"
    verb: ClassVar[str] = "waits"

    job: str
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        update(state, self.job, why=self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReplanned(OfJob):
    """The job will run differently from now on."""

    verb: ClassVar[str] = "planned anew"

    spec: JobSpec
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        """Give the job another spec; metrics of other work stay with the attempt that
        made them."""
        old = state.jobs[self.job]
        if self.spec.fingerprint != old.spec.fingerprint:
            update(state, self.job, attempts=keep_metrics(old), noted=None)
        update(state, self.job, spec=self.spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSetAside(OfJob):
    """What followers of a job wait for, as it lies there before an attempt that begins
    anew: it counts once it is another file."""

    attempt: int
    """The one that is to come."""
    files: tuple[SetAside, ...] = ()

    def apply(self, state: SessionState, record: Recorded) -> None:
        job, found = state.jobs[self.job], {one.file.path: one for one in self.files}
        reason = job.why
        if reason is not None and reason.code in _LOOK_REASONS:
            reason = job.retry.why if job.retry else None
        update(state, job.name, looked_before=self.attempt, found=found, why=reason)

    def format_headline(self, now: float) -> Headline:
        files = list_names([one.file.path for one in self.files]) or "none"
        return Headline("files set aside", f"before attempt {self.attempt}: {files}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOrdered(OfJob):
    """A reaction ordered a further attempt."""

    topic: ClassVar[Topic] = "reaction"
    matters: ClassVar[bool] = True
    verb: ClassVar[str] = "retry ordered"

    wait_seconds: float | None = None
    """Seconds that an engine has to live until then."""
    not_before: float = 0.0
    """UTC, in journals of an older version that have no `wait_seconds`."""
    from_checkpoint: bool
    why: Why
    held: bool = False
    """It is not decided yet: a condition of the reaction is waited for."""
    use_files: bool = False
    """Followers may use what lies there although the attempt begins anew."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        waits = self.wait_seconds
        if waits is None:  # of an older version
            waits = max(0.0, self.not_before - record.t)
        retry = Retry(
            lived=state.lived + waits,
            from_checkpoint=self.from_checkpoint,
            why=self.why,
            held=self.held,
        )
        move(
            state,
            record,
            self.job,
            JobState.RETRYING,
            retry=retry,
            why=self.why,
            use_files=self.use_files,
            **_NOT_LOOKED,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded(OfJob):
    """A job reached an end state."""

    matters: ClassVar[bool] = True

    state: JobState
    cause: Cause | None = None
    why: Why | None = None
    keeps: tuple[str, ...] = ()
    """Deferred actions that may still fire; the others end with the job."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        deferred = state.jobs[self.job].deferred
        state.matches.pop(self.job, None)
        move(
            state,
            record,
            self.job,
            self.state,
            cause=self.cause,
            why=self.why,
            waiting_lived=None,
            retry=None,
            deferred={key: deferred[key] for key in self.keeps if key in deferred},
        )

    def format_headline(self, now: float) -> Headline:
        cause = format_cause_of_end(self.cause, self.state) if self.cause else ""
        words = join_parts(STATES[self.state], cause)
        return Headline("job ended", append_reason(words, explain(self.why, now)))

    def is_error(self) -> bool:
        return self.state in (JobState.FAILED, JobState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRevived(OfJob):
    """An ended job waits again."""

    verb: ClassVar[str] = "revived"

    from_checkpoint: bool = True
    use_files: bool = False
    """Followers may use what lies there although the attempt begins anew."""
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        old = state.jobs[self.job]
        again = old.done_before  # a fold may change the record itself
        if old.done is not None:  # a former life's words say nothing of the run to come
            gone: dict[str, Any] = {"done": None, "metadata": {}, "noted": None}
            update(state, self.job, foreign_files=True, **gone)
        move(
            state,
            record,
            self.job,
            JobState.WAITING,
            again=again,
            cause=None,
            why=None,
            waiting_lived=state.lived,
            resume=self.from_checkpoint,
            start=(None,) * len(old.spec.start_conditions),
            cancel=(None,) * len(old.spec.cancel_conditions),
            latched={},
            ask=None,
            retry=None,
            use_files=self.use_files,
            **_NOT_LOOKED,
        )
