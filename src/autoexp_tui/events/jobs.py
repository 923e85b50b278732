"""Events of jobs at rest: released, held, planned anew, tried again, ended; and of
their conditions: verdicts, latches, waivers, approvals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from autoexp_tui.model.commands import Sender
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
    move_all,
    pick,
    update,
)
from autoexp_tui.model.facts import ApprovalKey, FactKey
from autoexp_tui.model.outputs import SetAside
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import Ask, ConditionStatus, Latched, Retry, SessionState
from autoexp_tui.model.states import Cause, JobState, Result, Why
from autoexp_tui.model.wording import STATES, format_cause_of_end

_NOT_LOOKED: Final[dict[str, Any]] = {
    "look_ordered": 0,
    "looked_before": 0,
    "found": {},
}
_LOOK_REASONS: Final = frozenset({"held_by_files", "files_unseen"})


class OfState(Event, topic="state", changes_jobs=True, rejudges=True):
    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OfJob(OfState):
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsReleased(OfState):
    """PLANNED or HELD jobs may run as soon as their conditions pass."""

    jobs: tuple[str, ...]
    ahead: bool = False
    """Before all others that wait for a slot."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        move_all(state, record, self.jobs, JobState.WAITING, ahead=self.ahead)

    def format_headline(self, now: float) -> Headline:
        ahead = ", ahead" if self.ahead else ""
        return Headline("released", list_names(self.jobs) + ahead)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsHeld(OfState, verb="held", about=("jobs", "why")):
    """PLANNED jobs that were not chosen, or jobs that cannot go on without a person."""

    jobs: tuple[str, ...]
    why: Why | None = None
    """None: they were not chosen."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        move_all(state, record, self.jobs, JobState.HELD, why=self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitExplained(Event, topic="condition", verb="waits"):
    """Why a ready job is not sent (a slot, a pause); recorded when the code changes."""

    job: str
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        update(state, self.job, why=self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReplanned(OfJob, verb="planned anew"):
    spec: JobSpec
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        """Metrics of other work stay with the attempt that made them."""
        old = state.jobs[self.job]
        if self.spec.fingerprint != old.spec.fingerprint:
            update(state, self.job, attempts=keep_metrics(old), noted=None)
        update(state, self.job, spec=self.spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSetAside(OfJob):
    """What followers of a job wait for, as it lies there before an attempt that begins
    anew: it counts once it is another file."""

    attempt: int
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
class RetryOrdered(OfJob, topic="reaction", matters=True, verb="retry ordered"):
    """A reaction ordered a further attempt."""

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
class JobEnded(OfJob, matters=True):
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
class JobRevived(OfJob, verb="revived"):
    from_checkpoint: bool = True
    use_files: bool = False
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


_RESULTS: Final = {Result.PASS: "holds", Result.WAIT: "waits", Result.FAIL: "failed"}
_ROLES: Final = {"start": "condition", "cancel": "cancel"}
"""What a person numbers, by the role; no longer than the verb's place in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionJudged(Event, topic="condition"):
    """A condition's verdict changed its code."""

    job: str
    role: Literal["start", "cancel"]
    index: int
    result: Result
    why: Why

    def apply(self, state: SessionState, record: Recorded) -> None:
        statuses = list(getattr(state.jobs[self.job], self.role))
        old = statuses[self.index]
        statuses[self.index] = ConditionStatus(
            result=self.result,
            why=self.why,
            since=record.t,
            waived=old.waived if old else "",
        )
        update(state, self.job, **{self.role: tuple(statuses)})

    def format_headline(self, now: float) -> Headline:
        place = f"{_ROLES[self.role]} {self.index + 1}"
        return Headline(f"{place} {_RESULTS[self.result]}", explain(self.why, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionLatched(
    Event, topic="condition", verb="found for good", about=("path", "line")
):
    """A start condition's pattern was found in a log: for this wait it stays found."""

    job: str
    key: str
    """Of the search: a digest."""
    line: str = ""
    path: str = ""

    def apply(self, state: SessionState, record: Recorded) -> None:
        latched = Latched(line=self.line, path=self.path)
        known = state.jobs[self.job].latched
        update(state, self.job, latched={**known, self.key: latched})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionWaived(Event, topic="condition", rejudges=True):
    job: str
    index: int
    reason: str
    sender: Sender | None = None

    def apply(self, state: SessionState, record: Recorded) -> None:
        statuses = list(state.jobs[self.job].start)
        old = statuses[self.index]
        statuses[self.index] = ConditionStatus(
            result=old.result if old else Result.WAIT,
            why=old.why if old else Why("not_looked"),
            since=record.t,
            waived=self.reason or "waived",
        )
        update(state, self.job, start=tuple(statuses))

    def format_headline(self, now: float) -> Headline:
        which = f"condition {self.index + 1}"
        by = f"{which}, by {self.sender}" if self.sender else which
        return Headline("waived", append_reason(by, self.reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked(
    Event, topic="approval", matters=True, verb="asked", about=("prompt",)
):
    """Everything else passed; a person has to say yes."""

    job: str
    attempt: int
    digest: str
    """Binds the answer to what will be done."""
    prompt: str

    def apply(self, state: SessionState, record: Recorded) -> None:
        same = pick(self, "digest", "prompt")
        ask = Ask(**same, asked_at=record.t, asked_lived=state.lived)
        update(state, self.job, ask=ask)

    def list_changed_facts(self) -> tuple[FactKey, ...]:
        return (ApprovalKey(self.job),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswered(Event, topic="approval", rejudges=True):
    """A person answered, or a policy that was given beforehand."""

    job: str
    digest: str
    approved: bool
    by: str
    reason: str = ""
    sender: Sender | None = None
    """The process that the answer came from; None: of a policy, or not recorded."""
    policy: str = ""
    """`--approve all` and the like; empty: a person answered."""

    def apply(self, state: SessionState, record: Recorded) -> None:
        ask = state.jobs[self.job].ask
        if ask is None or ask.digest != self.digest:
            return
        answer = replace(ask, approved=self.approved, by=self.by, reason=self.reason)
        update(state, self.job, ask=answer)

    def format_headline(self, now: float) -> Headline:
        verb = "approved" if self.approved else "refused"
        who = describe_answerer(self.by, self.sender, self.policy)
        return Headline(verb, append_reason(who, self.reason))

    def list_changed_facts(self) -> tuple[FactKey, ...]:
        return (ApprovalKey(self.job),)


def describe_answerer(by: str, sender: Sender | None, policy: str) -> str:
    """Who answered: a policy given beforehand, a process that was checked or not."""
    if policy:
        return f"by the policy {policy}, not by a person"
    if sender is not None:
        checked = "" if sender.checked else "; not checked: another host"
        return f"by {sender} ({by}{checked})"
    return f"by {by}" if by else ""
