"""What every event is, and the fold of events that a session's state is. Times are UTC
seconds, by the clock of whoever reported them; attempts count from 1, runs from 0. An
illegal transition is a bug in the decider and raises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from autoexp_tui.model.facts import FactKey, JobKey
from autoexp_tui.model.kinds import KindTable, Marked
from autoexp_tui.model.state import Move, changed
from autoexp_tui.model.states import TRANSITIONS, JobState, Topic
from autoexp_tui.model.wording import sentence
from autoexp_tui.text.spelling import join_some

if TYPE_CHECKING:
    from autoexp_tui.model.state import Attempt, JobRecord, SessionState
    from autoexp_tui.model.states import Why

FEW: Final = 6


class IllegalTransition(Exception):
    """An event asks for a step that the table does not have."""


class Headline(NamedTuple):
    """`approved`, `by a person: the curves look right`."""

    verb: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Marked):
    """A fact of a session in the past tense. A class's name is its `type` on disk."""

    kinds: ClassVar[KindTable[Event]] = KindTable(
        "event",
        {
            "events.session": "SessionStarted EngineStarted StopOrdered EngineStopped "
            "PlanAdded JobsAdded JoinRefused JournalRotated DoneFound "
            "ForeignFilesFound SubmissionPaused NodeExcluded SubmissionResumed "
            "CommandRefused MessageLogged EngineFaulted",
            "events.jobs": "JobsReleased JobsHeld WaitExplained JobReplanned JobEnded "
            "FilesSetAside RetryOrdered JobRevived ConditionJudged ConditionLatched "
            "ConditionWaived ApprovalAsked ApprovalAnswered",
            "events.runs": "EffectOrdered EffectSettled SubmissionAccepted RunBegan "
            "SubmissionUncertain SubmissionAbsent RunRequeued RunSuspended RunResumed "
            "LogReplaced AttemptEnded CheckpointSeen CheckpointQuarantined",
            "events.rules": "LogMatched MetricsNoted WarningRaised WarningCleared "
            "LimitAcknowledged EvidenceCaptured ActionFired ActionDeferred "
            "ActionDropped",
            "tree.events": "TreeBegun TreeOpened IdeasFound DepthListed NodesReady "
            "EvaluationOpened EvaluationRetried RetryGranted EvaluationStopped "
            "EvaluationJudged "
            "EvaluationMarked DepthClosed IdeaAdded CleanupDeferred TreeStopped "
            "DepthHeld DepthResumed AgentsPaused AgentsResumed ContextWritten "
            "ViewsWritten",
            "research.events": "ResearchBegun ResearchOpened TriggerFired "
            "ConsultationOpened PromptWritten CallStopped AnswerRead "
            "DecisionApplied ItemsEdited RunStarted RunRevived KillTriggered RunJudged "
            "AnswersJudged FixDecided "
            "ConditionFound ConditionAcknowledged MilestoneCrossed BudgetReached "
            "NoteAdded CallsPaused CallsResumed ResearchStopped StateWritten",
            "events.asks": "AskRaised AskAnswered",
        },
    )
    topic: ClassVar[Topic] = "engine"
    matters: ClassVar[bool] = False
    """A person wants to see it: something was ordered, ended, asked or warned of."""
    is_progress: ClassVar[bool] = False
    """Commands without a screen tell it, a line each."""
    changes_jobs: ClassVar[bool] = False
    """What conditions may ask about its jobs is another than before."""
    rejudges: ClassVar[bool] = False
    """The conditions of its jobs must be judged anew because of it."""
    verb: ClassVar[str] = ""
    about: ClassVar[tuple[str, ...]] = ("why",)

    def apply(self, state: SessionState, record: Recorded) -> None:
        """Change the state; raises IllegalTransition, or KeyError: an unknown name."""

    def format_headline(self, now: float) -> Headline:
        """The event on one line, not cleaned; `now` in UTC seconds."""
        parts: list[str] = []
        for name in self.about:
            value: str | tuple[str, ...] | Why | None = getattr(self, name, "")
            if isinstance(value, tuple):
                value = list_names(value)
            parts.append(value if isinstance(value, str) else explain(value, now))
        return Headline(self.verb or type(self).__name__, reduce(append_reason, parts))

    def is_error(self) -> bool:
        return False

    def list_jobs(self) -> tuple[str, ...]:
        """The jobs that it is about."""
        jobs: tuple[str, ...] = getattr(self, "jobs", ())
        return jobs or tuple(filter(None, (getattr(self, "job", ""),)))

    def list_changed_facts(self) -> tuple[FactKey, ...]:
        """The facts inside the session that it changes."""
        return tuple(map(JobKey, self.list_jobs())) if self.changes_jobs else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    seq: int
    epoch: int
    t: float
    """Orders events and never goes back: see `model.facts`."""
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
    """Further records of the same commit follow; without its last, none counts."""
    v: int = 1


def fold(state: SessionState, records: Iterable[Recorded]) -> SessionState:
    with unseen(state):
        for record in records:
            apply(state, record)
    return state


@contextmanager
def unseen(state: SessionState, *, ours: bool = False) -> Iterator[None]:
    """Fold fast, in place, while nobody looks at a state without jobs, or `ours`."""
    if state.jobs and not ours:
        yield
        return
    state.unseen = True
    try:
        yield
    finally:
        state.unseen = False


def apply(state: SessionState, record: Recorded) -> None:
    """Move `state` on by one event; raises IllegalTransition or KeyError."""
    state.seq = record.seq
    state.epoch = record.epoch
    # A journal of an older version has only `t`.
    state.utc = record.t if record.utc is None else record.utc
    if record.lived is not None:
        state.lived = max(state.lived, record.lived)
    elif state.t:
        absent: float = getattr(record.event, "gap_seconds", 0.0)
        state.lived += max(0.0, record.t - state.t - absent)
    state.t = max(state.t, record.t)
    if record.command_id:
        state.commands.setdefault(record.command_id, record.seq)
    record.event.apply(state, record)


def update(state: SessionState, job: str, **changes: Any) -> None:
    state.jobs[job] = changed(state.jobs[job], in_place=state.unseen, **changes)
    state.touched.add(job)


def move(
    state: SessionState,
    record: Recorded,
    job: str,
    new: JobState,
    *,
    again: bool = False,
    **changes: Any,
) -> None:
    """Change a job's state, and parts of its record; `again`: it completed without a
    run of this session. Raises IllegalTransition."""
    old = state.jobs[job]
    is_legal = old.state is new or new in TRANSITIONS[old.state]
    if not (again or is_legal):
        raise IllegalTransition(f"{job}: {old.state} -> {new} by {record.event!r}")
    if old.state is not new:
        changes |= {"since": record.t, "since_lived": state.lived}
        if state.moves is not None:
            state.moves.append(Move(job, old.state, new, state.seq))
    state.jobs[job] = changed(old, in_place=state.unseen, state=new, **changes)
    state.touched.add(job)


def move_all(
    state: SessionState,
    record: Recorded,
    jobs: tuple[str, ...],
    new: JobState,
    **changes: Any,
) -> None:
    """Move several jobs to one state, with no word of why they waited before."""
    waiting = state.lived if new is JobState.WAITING else None
    changes = {"why": None, **changes}
    for job in jobs:
        move(state, record, job, new, waiting_lived=waiting, **changes)


def update_attempt(state: SessionState, job: str, number: int, **changes: Any) -> None:
    attempts = (
        changed(one, in_place=state.unseen, **changes) if one.number == number else one
        for one in state.jobs[job].attempts
    )
    update(state, job, attempts=tuple(attempts))


def pick(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def keep_metrics(job: JobRecord) -> tuple[Attempt, ...]:
    """The attempts of a job, the newest with the metrics that were recorded of it."""
    if job.noted is None or job.attempt is None:
        return job.attempts
    if job.noted.attempt != job.attempt.number:
        return job.attempts
    return (*job.attempts[:-1], replace(job.attempt, noted=job.noted))


def list_names(jobs: Sequence[str]) -> str:
    """`a, b, c, d, e, f and 3 more`."""
    return join_some(jobs, FEW)


def join_parts(*parts: str) -> str:
    """The parts that are not empty, with commas."""
    return ", ".join(part for part in parts if part)


def append_reason(what: str, reason: str) -> str:
    """`what: reason`, or the one that is not empty."""
    return f"{what}: {reason}" if what and reason else what or reason


def explain(why: Why | None, now: float) -> str:
    return sentence(why, now) if why is not None else ""
