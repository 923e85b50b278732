"""Orders to the outside. Each is journaled as `EffectOrdered` before it is sent.

An effect's recovery says what a new engine does with one that has no settlement:
*redo* (idempotent), *probe* (ask the outside what became of it), *once* (in doubt a
person is asked).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from autoexp_tui.actions.kinds import JoinMode
from autoexp_tui.model.checkpoints import Checkpoint
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.states import Cause

TaskId: TypeAlias = tuple[str, int]
"""(job name, attempt number from 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTasks:
    """Start the tasks as one submission, found again by `token`."""

    kind: Literal["submit"] = "submit"
    token: str
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTasks:
    """End the tasks' processes."""

    kind: Literal["cancel"] = "cancel"
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeJob:
    """Plan one job again with further overrides, in the planning process."""

    kind: Literal["compose"] = "compose"
    job: str
    overrides: tuple[str, ...]
    """All of them, those of the plan included."""
    from_checkpoint: bool = True
    """How the job goes on once it is planned."""
    sources: tuple[TaskId, ...] = ()
    """The attempts whose metadata the overrides hold; empty: they hold none."""
    log_values: tuple[str, ...] = ()
    """What overrides took from logs, as far as a shell would read it as more than a
    word: it must not come into a script."""
    use_files: bool = False
    """Followers may use what lies there although the attempt begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotifyCommand:
    """Run the user's notification command with a message as its last argument."""

    kind: Literal["notify"] = "notify"
    command: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendText:
    """Add a line of text to a file, as a rule of a job says."""

    kind: Literal["append"] = "append"
    job: str
    path: str
    text: str
    below: str = ""
    """The directory that it must lie in, links resolved; empty: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActionCommand:
    """Run a command of a rule of a job, without a shell."""

    kind: Literal["command"] = "command"
    job: str
    command: tuple[str, ...]
    timeout: float
    """Seconds."""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    """Empty: where the engine runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteDone:
    """Leave word in a completed job's output directory, for sessions to come."""

    kind: Literal["note_done"] = "note_done"
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureEvidence:
    """Keep what can be seen of a run that a rule ends."""

    kind: Literal["evidence"] = "evidence"
    job: str
    attempt: int
    run: int
    name: str
    """Of what it is evidence: `stall`, `nan`, a rule's name."""
    number: int
    """Among the attempt's captures, from 1."""
    log_only: bool = False
    ends: Cause | None = None
    """The cause with which the run is ended afterwards; None: that is ordered."""
    seconds: float
    """The longest that the end of the run waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookForCheckpoint:
    """See what a job's next attempt would go on from, and whether to move it aside."""

    kind: Literal["look_for_checkpoint"] = "look_for_checkpoint"
    job: str
    attempt: int
    """The one that has ended."""
    output_dir: str
    """Nothing outside of it is looked at or moved."""
    glob: str = ""
    path: str = ""
    """A certain one; empty: the newest match of `glob`."""
    pointer: str = ""
    keep: int = 0
    after: int = 0
    """Strikes from which on it is moved; 0: at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAtFiles:
    """See what lies there of what the followers of a job wait for."""

    kind: Literal["look_at_files"] = "look_at_files"
    job: str
    attempt: int
    """The one that is to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCheckpoint:
    """Move a checkpoint aside, to a name beside it; done twice is done once."""

    kind: Literal["move_checkpoint"] = "move_checkpoint"
    job: str
    output_dir: str
    checkpoint: Checkpoint
    target: str
    pointer: str = ""
    before: Checkpoint | None = None
    """What the pointer is to name afterwards."""
    strikes: int = 0
    """How many attempts in a row blame it; 0: a rule says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJobs:
    """Plan a config, in the planning process, for its jobs to join the session."""

    kind: Literal["plan"] = "plan"
    job: str
    """Whose rule asked for it."""
    action: str
    """`<rule>/<index>`."""
    config_ref: str = ""
    config_path: str = ""
    """A file; then there is no `config_ref`."""
    overrides: tuple[str, ...] = ()
    log_values: tuple[str, ...] = ()
    """As in `ComposeJob`."""
    mode: JoinMode = "queue"

    @property
    def words(self) -> str:
        """What is planned, as on a command line."""
        return " ".join((self.config_ref or self.config_path, *self.overrides))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddJob:
    """Let one job join the session, as it is."""

    kind: Literal["add"] = "add"
    job: str
    """Whose rule asked for it."""
    action: str
    """`<rule>/<index>`."""
    spec: JobSpec
    mode: JoinMode = "queue"


Effect: TypeAlias = (
    SubmitTasks
    | CancelTasks
    | ComposeJob
    | RunNotifyCommand
    | AppendText
    | RunActionCommand
    | NoteDone
    | LookForCheckpoint
    | LookAtFiles
    | MoveCheckpoint
    | CaptureEvidence
    | PlanJobs
    | AddJob
)

Recovery: TypeAlias = Literal["redo", "probe", "once"]

RECOVERY: Final[dict[str, Recovery]] = {
    "submit": "probe",
    "cancel": "redo",
    "compose": "redo",
    "notify": "once",
    "append": "once",
    "command": "once",
    "note_done": "redo",
    "look_for_checkpoint": "redo",
    "look_at_files": "redo",
    "move_checkpoint": "redo",
    "evidence": "redo",
    "plan": "redo",
    "add": "redo",
}
"""By kind. Cancelling what has ended is silent everywhere, and planning changes nothing
outside, so both are redone."""
