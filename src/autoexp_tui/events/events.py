"""Facts of a session in the past tense: all that the journal holds.

State is the fold of these by `events.apply`. A class's name is its `type` on disk.
Times are UTC seconds since the epoch, by the clock of whoever told them; attempts
count from 1, runs from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from autoexp_tui.effects.effects import Effect
from autoexp_tui.model.checkpoints import Checkpoint, SavedCheckpoint
from autoexp_tui.model.done import DoneWork
from autoexp_tui.model.freshness import SetAside
from autoexp_tui.model.sender import Sender
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.states import Cause, JobState, Outcome
from autoexp_tui.model.verdicts import Result, Why


# ---------------------------------------------------------------------- session
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """The first event of a session."""

    session: str
    name: str
    engine_version: str
    wrapper_version: str
    plan_sha: str
    environment_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStarted:
    """An engine took the session; the first event of each further journal part."""

    host: str
    pid: int
    engine_version: str = ""
    sealed_part: str = ""
    """Name of the predecessor's part, empty for the first engine."""
    sealed_bytes: int = 0
    """Bytes of it that count; what lies past them is ignored and reported."""
    gap_seconds: float = 0.0
    """How long no engine lived, by the wall clock."""
    wrapper_sha256: str = ""
    """Of the session's copy of the wrapper, as this engine uses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStopped:
    """An engine gave the session back in an orderly way."""

    reason: str = ""
    on_request: bool = False
    """Somebody told it to: who watches leaves the session at rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRotated:
    """The journal had grown long; the first event of each further part of an engine."""

    sealed_part: str
    """Name of the part before it."""
    sealed_bytes: int
    """Bytes of it that count: all that were ever synced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAdded:
    """Jobs joined the session; the plan lies beside the journal under its sha."""

    sha: str
    job: str = ""
    """Whose rule asked for it; empty: a person did."""
    action: str = ""
    """Of that rule: `<rule>/<index>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneFound:
    """Jobs whose work an earlier session has done; they complete when they are let
    run."""

    works: tuple[DoneWork, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFilesFound:
    """In the directories of these jobs lies what other work has left, or what counts
    as such."""

    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSetAside:
    """What followers of a job wait for, as it lies there before an attempt that begins
    anew: it counts once it is another file."""

    job: str
    attempt: int
    """The one that is to come."""
    files: tuple[SetAside, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPaused:
    """Nothing more is submitted."""

    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionResumed:
    """Jobs are submitted again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExcluded:
    """Nothing more is sent to a node."""

    node: str
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRefused:
    """A command was stale or made no sense; nothing happened."""

    why: Why
    jobs: tuple[str, ...] = ()


# ------------------------------------------------------------------ jobs at rest
@dataclass(frozen=True, slots=True, kw_only=True)
class JobsReleased:
    """PLANNED or HELD jobs may run as soon as their conditions pass."""

    jobs: tuple[str, ...]
    ahead: bool = False
    """Before all others that wait for a slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsHeld:
    """PLANNED jobs that were not chosen, or jobs that cannot go on without a person."""

    jobs: tuple[str, ...]
    why: Why | None = None
    """None: they were not chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionJudged:
    """A condition's verdict changed its code."""

    job: str
    role: Literal["start", "cancel"]
    index: int
    result: Result
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionLatched:
    """A start condition's pattern was found in a log: for this wait it stays found."""

    job: str
    key: str
    """Of the search: a digest."""
    line: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionWaived:
    """A person let a start condition count as passed."""

    job: str
    index: int
    reason: str
    sender: Sender | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitExplained:
    """Why a ready job is not sent (a slot, a pause); recorded when the code changes."""

    job: str
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked:
    """Everything else passed; a person has to say yes."""

    job: str
    attempt: int
    digest: str
    """Binds the answer to what will be done."""
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswered:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReplanned:
    """The job will run differently from now on."""

    job: str
    spec: JobSpec
    why: Why


# ---------------------------------------------------------------------- effects
@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOrdered:
    """An order to the outside, synced before it is sent.

    A submit makes its jobs SUBMITTING and opens their attempts; a cancel marks the
    attempts as ended by us, with the cause that will judge them.
    """

    effect_id: str
    effect: Effect
    why: Why | None = None
    cause: Cause | None = None
    """For cancels: the cause that the attempts' end will have."""
    finish: bool = False
    """For cancels: the attempts are done, and will have completed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectSettled:
    """What came of an order."""

    effect_id: str
    outcome: Literal["ok", "failed", "uncertain"]
    detail: str = ""
    """The exact words sent and answered, for the Events mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionAccepted:
    """The executor took a submission, or it was found there by its token."""

    token: str
    executor_ids: tuple[str, ...]
    """One a task, in order."""
    submitted_at: float
    adopted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionUncertain:
    """The executor's answer was lost: the tasks may live."""

    token: str
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionAbsent:
    """Asked by token, the executor answered that it never took the submission."""

    token: str


# --------------------------------------------------------------- attempts, runs
@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegan:
    """The wrapper's begin record was seen."""

    job: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequeued:
    """The executor put a begun run back into its queue."""

    job: str
    attempt: int
    run: int
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSuspended:
    """The executor stopped a run's processes for a while."""

    job: str
    attempt: int
    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed:
    """The executor let a suspended run go on."""

    job: str
    attempt: int
    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReplaced:
    """The log of a run that goes on began anew: rotated, truncated, or swapped."""

    job: str
    attempt: int
    run: int
    count: int
    """How often by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """An attempt is over; what it means for the job follows in the same commit."""

    job: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSeen:
    """What the next attempt of a job would go on from; None: from nothing."""

    job: str
    saved: SavedCheckpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointQuarantined:
    """A job's checkpoint was moved aside."""

    job: str
    checkpoint: Checkpoint
    moved_to: str
    before: Checkpoint | None = None
    """The newest that is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOrdered:
    """A reaction ordered a further attempt."""

    job: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """A job reached an end state."""

    job: str
    state: JobState
    cause: Cause | None = None
    why: Why | None = None
    keeps: tuple[str, ...] = ()
    """Deferred actions that may still fire; the others end with the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRevived:
    """An ended job waits again."""

    job: str
    from_checkpoint: bool = True
    use_files: bool = False
    """Followers may use what lies there although the attempt begins anew."""
    why: Why


# -------------------------------------------------------------- what logs showed
@dataclass(frozen=True, slots=True, kw_only=True)
class LogMatched:
    """A log rule matched; `match_id` makes a second scan harmless."""

    match_id: str
    job: str
    attempt: int
    run: int
    rule: str
    offset: int
    line: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    """Matches that it stands for, itself the last: they came too fast for events of
    their own."""
    first_offset: int | None = None
    """Where the first of several lies; None: it is the only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsNoted:
    """A job's newest metrics, recorded seldom: the log itself keeps the rest."""

    job: str
    attempt: int
    run: int
    step: int
    total: int | None
    values: Mapping[str, float | str]
    """Finite numbers as numbers; `nan`, `inf`, `-inf` as text (JSON has none)."""
    judged: Mapping[str, int] = field(default_factory=dict)
    """File (the log: empty) -> the bytes of it of which all anomalies were noted."""
    result: float | str | None = None
    """The number that the job is for; None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningRaised:
    """Something a person should see."""

    warning_id: str
    why: Why
    job: str = ""
    severity: Literal["info", "warning", "error"] = "warning"
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningCleared:
    """It passed, or was acknowledged."""

    warning_id: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitAcknowledged:
    """A person knows that the time limit of a run will cut it."""

    job: str
    attempt: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCaptured:
    """What could be seen of a run that a rule ends was kept."""

    job: str
    attempt: int
    reason: str
    """`stall`, `nan`, or the rule's name."""
    directory: str
    """Absolute; empty: nothing could be written."""
    summary: str
    """What was obtained and what not, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFired:
    """A rule's action was carried out for a job."""

    job: str
    action: str
    """`<rule>/<index>`."""
    trigger: str
    """The match or the attempt that triggered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDeferred:
    """A rule's action waits for one of its conditions."""

    job: str
    action: str
    trigger: str
    why: Why
    wait_seconds: float | None = None
    """For how long at most it is not decided; None: nobody knows."""
    until: float | None = None
    """UTC of that, in journals of an older version that have no `wait_seconds`."""
    line: str = ""
    """The log line that triggered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDropped:
    """A rule's action will not be carried out for this trigger."""

    job: str
    action: str
    trigger: str
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLogged:
    """A line that a rule or the engine wrote for people."""

    text: str
    level: Literal["info", "warning", "error"] = "info"
    job: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFaulted:
    """A bug or an outside failure inside the engine; the traceback is in its log."""

    where: str
    problem: str


Event: TypeAlias = (
    SessionStarted
    | EngineStarted
    | EngineStopped
    | JournalRotated
    | PlanAdded
    | DoneFound
    | ForeignFilesFound
    | FilesSetAside
    | SubmissionPaused
    | SubmissionResumed
    | NodeExcluded
    | CommandRefused
    | JobsReleased
    | JobsHeld
    | ConditionJudged
    | ConditionLatched
    | ConditionWaived
    | WaitExplained
    | ApprovalAsked
    | ApprovalAnswered
    | JobReplanned
    | EffectOrdered
    | EffectSettled
    | SubmissionAccepted
    | SubmissionUncertain
    | SubmissionAbsent
    | RunBegan
    | RunRequeued
    | RunSuspended
    | RunResumed
    | LogReplaced
    | AttemptEnded
    | CheckpointSeen
    | CheckpointQuarantined
    | RetryOrdered
    | JobEnded
    | JobRevived
    | LogMatched
    | MetricsNoted
    | WarningRaised
    | WarningCleared
    | LimitAcknowledged
    | EvidenceCaptured
    | ActionFired
    | ActionDeferred
    | ActionDropped
    | MessageLogged
    | EngineFaulted
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event with its place in the journal."""

    seq: int
    epoch: int
    t: float
    """Orders events and never goes back: see `model.moment`."""
    utc: float | None = None
    """What the wall clock showed; None: `t`, in a journal of an older version."""
    lived: float | None = None
    """Seconds for which engines of the session had lived; None: an older version's."""
    event_id: str
    cause_id: str = ""
    """The event, command or observation that led to it."""
    command_id: str = ""
    event: Event
    more: bool = False
    """Further records of the same commit follow; without its last one, a commit does
    not count."""
    v: int = 1
    """Version of the event's type."""
