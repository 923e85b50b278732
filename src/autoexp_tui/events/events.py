"""Every event that the journal may hold, by one name to import.

The table of them is `Event.kinds`. A new event is a class in the module of its subject,
and a line there.
"""

from __future__ import annotations

from autoexp_tui.events.conditions import (
    ApprovalAnswered as ApprovalAnswered,
)
from autoexp_tui.events.conditions import (
    ApprovalAsked as ApprovalAsked,
)
from autoexp_tui.events.conditions import (
    ConditionJudged as ConditionJudged,
)
from autoexp_tui.events.conditions import (
    ConditionLatched as ConditionLatched,
)
from autoexp_tui.events.conditions import (
    ConditionWaived as ConditionWaived,
)
from autoexp_tui.events.jobs import (
    FilesSetAside as FilesSetAside,
)
from autoexp_tui.events.jobs import (
    JobEnded as JobEnded,
)
from autoexp_tui.events.jobs import (
    JobReplanned as JobReplanned,
)
from autoexp_tui.events.jobs import (
    JobRevived as JobRevived,
)
from autoexp_tui.events.jobs import (
    JobsHeld as JobsHeld,
)
from autoexp_tui.events.jobs import (
    JobsReleased as JobsReleased,
)
from autoexp_tui.events.jobs import (
    RetryOrdered as RetryOrdered,
)
from autoexp_tui.events.jobs import (
    WaitExplained as WaitExplained,
)
from autoexp_tui.events.rules import (
    ActionDeferred as ActionDeferred,
)
from autoexp_tui.events.rules import (
    ActionDropped as ActionDropped,
)
from autoexp_tui.events.rules import (
    ActionFired as ActionFired,
)
from autoexp_tui.events.rules import (
    EvidenceCaptured as EvidenceCaptured,
)
from autoexp_tui.events.rules import (
    LimitAcknowledged as LimitAcknowledged,
)
from autoexp_tui.events.rules import (
    LogMatched as LogMatched,
)
from autoexp_tui.events.rules import (
    MetricsNoted as MetricsNoted,
)
from autoexp_tui.events.rules import (
    WarningCleared as WarningCleared,
)
from autoexp_tui.events.rules import (
    WarningRaised as WarningRaised,
)
from autoexp_tui.events.runs import (
    AttemptEnded as AttemptEnded,
)
from autoexp_tui.events.runs import (
    CheckpointQuarantined as CheckpointQuarantined,
)
from autoexp_tui.events.runs import (
    CheckpointSeen as CheckpointSeen,
)
from autoexp_tui.events.runs import (
    LogReplaced as LogReplaced,
)
from autoexp_tui.events.runs import (
    RunBegan as RunBegan,
)
from autoexp_tui.events.runs import (
    RunRequeued as RunRequeued,
)
from autoexp_tui.events.runs import (
    RunResumed as RunResumed,
)
from autoexp_tui.events.runs import (
    RunSuspended as RunSuspended,
)
from autoexp_tui.events.session import (
    CommandRefused as CommandRefused,
)
from autoexp_tui.events.session import (
    DoneFound as DoneFound,
)
from autoexp_tui.events.session import (
    EngineFaulted as EngineFaulted,
)
from autoexp_tui.events.session import (
    EngineStarted as EngineStarted,
)
from autoexp_tui.events.session import (
    EngineStopped as EngineStopped,
)
from autoexp_tui.events.session import (
    ForeignFilesFound as ForeignFilesFound,
)
from autoexp_tui.events.session import (
    JournalRotated as JournalRotated,
)
from autoexp_tui.events.session import (
    MessageLogged as MessageLogged,
)
from autoexp_tui.events.session import (
    NodeExcluded as NodeExcluded,
)
from autoexp_tui.events.session import (
    PlanAdded as PlanAdded,
)
from autoexp_tui.events.session import (
    SessionStarted as SessionStarted,
)
from autoexp_tui.events.session import (
    SubmissionPaused as SubmissionPaused,
)
from autoexp_tui.events.session import (
    SubmissionResumed as SubmissionResumed,
)
from autoexp_tui.events.submissions import (
    EffectOrdered as EffectOrdered,
)
from autoexp_tui.events.submissions import (
    EffectSettled as EffectSettled,
)
from autoexp_tui.events.submissions import (
    SubmissionAbsent as SubmissionAbsent,
)
from autoexp_tui.events.submissions import (
    SubmissionAccepted as SubmissionAccepted,
)
from autoexp_tui.events.submissions import (
    SubmissionUncertain as SubmissionUncertain,
)
from autoexp_tui.model.event import Event as Event
from autoexp_tui.model.event import Recorded as Recorded
