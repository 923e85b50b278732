"""What the engine asks of the outside, by role. Adapters and fakes implement these.

Here are time, threads, and what the effects of rules need: planning, errands,
evidence, checkpoints, output directories. The executor has `executor_port`, what is
read has `reading_ports`, the session on disk has `session_ports`.

Everything there and here may block and may fail; the engine calls it from bounded
daemon pools, never from its own thread, except `Journal` (the one blocking call of a
commit) and `Clock`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from autoexp_tui.effects.effects import LookForCheckpoint, MoveCheckpoint
from autoexp_tui.engine.executor_port import Submission, Task
from autoexp_tui.model.outputs import DoneWork, FoundCheckpoint
from autoexp_tui.model.specs import JobSpec, Plan


class Clock(Protocol):
    """Time, as an argument of everything."""

    def utc(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...

    def boottime(self) -> float:
        """The same, going on while the machine sleeps where it can tell."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """A run that a rule ends, to be looked at."""

    task: Task
    run: int
    node: str
    log_path: str
    directory: str
    """Absolute; what is kept goes there. It may be there from an earlier try."""
    reason: str
    """Why the run ends, as a sentence."""
    log_only: bool
    seconds: float
    """In which the look must be over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What was kept of a run."""

    directory: str
    """Empty: nothing could be written."""
    summary: str
    """What was obtained and what not, in one line."""


class EvidenceSource(Protocol):
    """Looks at what a run is doing before it is ended; blocks."""

    def capture(self, parting: Parting) -> Kept:
        """Keep what can be seen of the run; what cannot is named in the summary."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherPlan:
    """What is to be planned so that it may join a session."""

    base: Plan
    """Of the job whose rule asks: configs are found, and paths start, as there."""
    config_ref: str = ""
    config_path: str = ""
    """A file, absolute; then there is no `config_ref`."""
    overrides: tuple[str, ...] = ()
    known: tuple[tuple[str, str, str], ...] = ()
    """Name, output and log directory of the session's jobs."""
    stage: str = ""
    """Of the job whose rule asks."""
    family: str = ""
    """Of the same."""
    families: int = 0
    """How many the session has."""
    now: float = 0.0
    """UTC at which it was ordered: asked again, the answer is the same."""


class Planner(Protocol):
    """Composes again what needs Hydra, in the planning process; blocks."""

    def plan(self, asked: FurtherPlan) -> Plan:
        """The plan of another config.

        Raises:
            AutoexpError: it does not compose, or is not valid.
        """
        ...

    def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
        """The job as it would be with further overrides.

        Raises:
            AutoexpError: the overrides do not compose.
        """
        ...


class Checkpoints(Protocol):
    """Looks at and moves what jobs go on from; blocks. Never leaves `output_dir`."""

    def find(self, look: LookForCheckpoint) -> FoundCheckpoint | None:
        """The checkpoint that is meant, and a free name to move it to; None: there is
        none.

        Raises:
            AutoexpError: it cannot be looked for, or lies where it must not.
        """
        ...

    def move(self, move: MoveCheckpoint) -> None:
        """Rename it, and let the pointer name the one before; repeatable.

        Raises:
            AutoexpError: it cannot be moved, or is not what was found.
        """
        ...


class Preparation(Protocol):
    """What is kept in output directories, before a submission and after success;
    blocks."""

    def prepare(
        self,
        submission: Submission,
        specs: Sequence[JobSpec],
        plans: Sequence[Plan | None],
    ) -> None:
        """Claim the output directories, write scripts and provenance; repeatable.

        `plans`: the one that each job came with.

        Raises:
            AutoexpError: the submission cannot be sent; the text says why.
        """
        ...

    def note_done(self, spec: JobSpec, work: DoneWork) -> None:
        """Keep that the job's work is done; nothing, where the directory has another
        owner by now. Repeatable.

        Raises:
            AutoexpError: it cannot be kept; the text says why.
        """
        ...


class Pool(Protocol):
    """A bounded set of daemon threads with one outstanding call a key."""

    def submit(
        self,
        key: str,
        call: Callable[[], object],
        done: Callable[[object, BaseException | None], None],
    ) -> bool:
        """Run `call` elsewhere, then `done`; False when `key` is still running."""
        ...

    def close(self) -> None:
        """Accept nothing more; running calls are abandoned."""
        ...
