"""Every event that the journal may hold: the one table of them.

A class's name is its `type` on disk. A new event is a class in the module of its
subject, and a line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from autoexp_tui.events.base import Event, Recorded
from autoexp_tui.events.conditions import (
    ApprovalAnswered,
    ApprovalAsked,
    ConditionJudged,
    ConditionLatched,
    ConditionWaived,
)
from autoexp_tui.events.jobs import (
    FilesSetAside,
    JobEnded,
    JobReplanned,
    JobRevived,
    JobsHeld,
    JobsReleased,
    RetryOrdered,
    WaitExplained,
)
from autoexp_tui.events.rules import (
    ActionDeferred,
    ActionDropped,
    ActionFired,
    EvidenceCaptured,
    LimitAcknowledged,
    LogMatched,
    MetricsNoted,
    WarningCleared,
    WarningRaised,
)
from autoexp_tui.events.runs import (
    AttemptEnded,
    CheckpointQuarantined,
    CheckpointSeen,
    LogReplaced,
    RunBegan,
    RunRequeued,
    RunResumed,
    RunSuspended,
)
from autoexp_tui.events.session import (
    CommandRefused,
    DoneFound,
    EngineFaulted,
    EngineStarted,
    EngineStopped,
    ForeignFilesFound,
    JournalRotated,
    MessageLogged,
    NodeExcluded,
    PlanAdded,
    SessionStarted,
    SubmissionPaused,
    SubmissionResumed,
)
from autoexp_tui.events.submissions import (
    EffectOrdered,
    EffectSettled,
    SubmissionAbsent,
    SubmissionAccepted,
    SubmissionUncertain,
)

__all__ = [
    "EVENTS",
    "ActionDeferred",
    "ActionDropped",
    "ActionFired",
    "ApprovalAnswered",
    "ApprovalAsked",
    "AttemptEnded",
    "CheckpointQuarantined",
    "CheckpointSeen",
    "CommandRefused",
    "ConditionJudged",
    "ConditionLatched",
    "ConditionWaived",
    "DoneFound",
    "EffectOrdered",
    "EffectSettled",
    "EngineFaulted",
    "EngineStarted",
    "EngineStopped",
    "Event",
    "EvidenceCaptured",
    "FilesSetAside",
    "ForeignFilesFound",
    "JobEnded",
    "JobReplanned",
    "JobRevived",
    "JobsHeld",
    "JobsReleased",
    "JournalRotated",
    "LimitAcknowledged",
    "LogMatched",
    "LogReplaced",
    "MessageLogged",
    "MetricsNoted",
    "NodeExcluded",
    "PlanAdded",
    "Recorded",
    "RetryOrdered",
    "RunBegan",
    "RunRequeued",
    "RunResumed",
    "RunSuspended",
    "SessionStarted",
    "SubmissionAbsent",
    "SubmissionAccepted",
    "SubmissionPaused",
    "SubmissionResumed",
    "SubmissionUncertain",
    "WaitExplained",
    "WarningCleared",
    "WarningRaised",
]

EVENTS: Final[Mapping[str, type[Event]]] = MappingProxyType(
    {
        event.__name__: event
        for event in (
            SessionStarted,
            EngineStarted,
            EngineStopped,
            JournalRotated,
            PlanAdded,
            DoneFound,
            ForeignFilesFound,
            FilesSetAside,
            SubmissionPaused,
            SubmissionResumed,
            NodeExcluded,
            CommandRefused,
            JobsReleased,
            JobsHeld,
            ConditionJudged,
            ConditionLatched,
            ConditionWaived,
            WaitExplained,
            ApprovalAsked,
            ApprovalAnswered,
            JobReplanned,
            EffectOrdered,
            EffectSettled,
            SubmissionAccepted,
            SubmissionUncertain,
            SubmissionAbsent,
            RunBegan,
            RunRequeued,
            RunSuspended,
            RunResumed,
            LogReplaced,
            AttemptEnded,
            CheckpointSeen,
            CheckpointQuarantined,
            RetryOrdered,
            JobEnded,
            JobRevived,
            LogMatched,
            MetricsNoted,
            WarningRaised,
            WarningCleared,
            LimitAcknowledged,
            EvidenceCaptured,
            ActionFired,
            ActionDeferred,
            ActionDropped,
            MessageLogged,
            EngineFaulted,
        )
    }
)
"""By the name on disk."""
