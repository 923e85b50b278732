"""What a rule may do: every action that a config can ask for.

`kind` tells members of the union apart in the journal and the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from autoexp_tui.model.action import Action, JoinMode
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.kinds import FieldUse
from autoexp_tui.model.specs import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Action):
    """Run the job again, as a further attempt."""

    restarts: ClassVar[bool] = True

    kind: Literal["restart"] = "restart"
    reason: str = ""
    overrides: tuple[str, ...] = ()
    exclude_node: bool = False
    from_checkpoint: bool = True
    followers: Literal["wait", "use"] = "wait"
    """Where it begins anew (`overrides`, or not from a checkpoint): followers wait for
    new files, or use those that are there."""
    quarantine_after: int = 0
    """Failures in a row of attempts that went on from one checkpoint and came no
    further, before it is moved aside; 0: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Action):
    """End the job."""

    kind: Literal["cancel"] = "cancel"
    reason: str = ""
    cause: Literal["cancel_condition", "nan", "stall", "kill_criterion"] = (
        "cancel_condition"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(Action):
    """Write a line to the session's events."""

    kind: Literal["log"] = "log"
    message: str
    level: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify(Action):
    """Tell the person: a warning in the cockpit, and `notify.command` if set."""

    kind: Literal["notify"] = "notify"
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Action):
    """The job is done: end what runs of it, and count it as completed."""

    kind: Literal["finish"] = "finish"
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendToFile(Action):
    """Add a line of text to a file, which is made when it is not there."""

    kind: Literal["append_to_file"] = "append_to_file"
    path: str
    """A relative one starts where the job runs."""
    text: str

    def find_use(self, field: str) -> FieldUse:
        return "name" if field == "path" else "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(Action):
    """Run a command, without a shell, once."""

    kind: Literal["command"] = "command"
    command: tuple[str, ...]
    timeout: float = 60.0
    """Seconds until it is killed, with whatever it started."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside the engine's own environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineCheckpoint(Action):
    """Move the job's newest checkpoint aside, so that the one before it is used."""

    kind: Literal["quarantine_checkpoint"] = "quarantine_checkpoint"
    path: str = ""
    """A certain one; empty: the newest. A relative one starts in `output_dir`."""
    keep: int = 0
    """Nothing is moved when fewer than this would be left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob(Action):
    """Let one further job join the session; what is not given is the trigger's."""

    kind: Literal["new_job"] = "new_job"
    command: tuple[str, ...]
    name: str = ""
    """Empty: `<job>_<rule>`, counted on where that is taken."""
    stage: str = ""
    """Empty: the rule's name."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Beside the variables of the job that triggered it."""
    cwd: str = ""
    start_conditions: tuple[Condition, ...] = ()
    cancel_conditions: tuple[Condition, ...] = ()
    options: Mapping[str, Scalar] = field(default_factory=dict)
    """The executor's own options that differ."""
    time_limit_seconds: float | None = None
    gpus: int | None = None
    mode: JoinMode = "queue"

    def find_use(self, field: str) -> FieldUse:
        if field == "options":
            return "plain"
        return "name" if field in ("name", "stage", "cwd") else "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAutoexp(Action):
    """Plan a config, and let its jobs join the session."""

    kind: Literal["run_autoexp"] = "run_autoexp"
    config_ref: str = ""
    """As on the command line; this or `config_path`."""
    config_path: str = ""
    """A YAML file; a relative one starts where the job runs."""
    overrides: tuple[str, ...] = ()
    mode: JoinMode = "queue"
    script: str = ""
    """Accepted for old configs, never run: planning is the engine's own work."""

    def find_use(self, field: str) -> FieldUse:
        return "name" if field in ("config_ref", "config_path") else "text"
