"""Orders to the outside. Each is journaled as `EffectOrdered` before it is sent."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from autoexp_tui.model.effect import Effect, TaskId
from autoexp_tui.model.event import list_names
from autoexp_tui.model.outputs import Checkpoint
from autoexp_tui.model.rules import JoinMode
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.states import Cause


class _OfTasks(Effect):
    """An effect on tasks of several jobs."""

    __slots__ = ()
    tasks: tuple[TaskId, ...]

    def job_names(self) -> Sequence[str]:
        return [job for job, _ in self.tasks]

    def name_object(self) -> str:
        return ", ".join(self.job_names())

    def describe(self) -> str:
        if len(self.tasks) == 1:
            return f"attempt {self.tasks[0][1]}"
        return list_names(self.job_names())


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTasks(_OfTasks, kind="submit", recovery="probe", topic="submit"):
    """Start the tasks as one submission, found again by `token`."""

    token: str
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTasks(_OfTasks, kind="cancel", topic="cancel"):
    """End the tasks' processes."""

    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeJob(Effect, kind="compose", topic="person"):
    """Plan one job again with further overrides, in the planning process."""

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

    def describe(self) -> str:
        return " ".join(self.overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureEvidence(Effect, kind="evidence"):
    """Keep what can be seen of a run that a rule ends."""

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

    def describe(self) -> str:
        return f"attempt {self.attempt}  {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookForCheckpoint(Effect, kind="look_for_checkpoint"):
    """See what a job's next attempt would go on from, and whether to move it aside."""

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

    def describe(self) -> str:
        return self.path or self.glob


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAtFiles(Effect, kind="look_at_files"):
    """See what lies there of what the followers of a job wait for."""

    job: str
    attempt: int
    """The one that is to come."""

    def describe(self) -> str:
        return f"before attempt {self.attempt}: what followers wait for"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCheckpoint(Effect, kind="move_checkpoint"):
    """Move a checkpoint aside, to a name beside it; done twice is done once."""

    job: str
    output_dir: str
    checkpoint: Checkpoint
    target: str
    pointer: str = ""
    before: Checkpoint | None = None
    """What the pointer is to name afterwards."""
    strikes: int = 0
    """How many attempts in a row blame it; 0: a rule says so."""

    def name_object(self) -> str:
        return self.checkpoint.path

    def describe(self) -> str:
        return f"{self.checkpoint.path} -> {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJobs(Effect, kind="plan"):
    """Plan a config, in the planning process, for its jobs to join the session."""

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

    def name_object(self) -> str:
        """What is planned, as on a command line."""
        return " ".join((self.config_ref or self.config_path, *self.overrides))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddJob(Effect, kind="add"):
    """Let one job join the session, as it is."""

    job: str
    """Whose rule asked for it."""
    action: str
    """`<rule>/<index>`."""
    spec: JobSpec
    mode: JoinMode = "queue"

    def name_object(self) -> str:
        return self.spec.name

    def describe(self) -> str:
        return f"{self.spec.name}: {shlex.join(self.spec.command)}"
