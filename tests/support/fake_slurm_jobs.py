"""What a made-up cluster holds: partitions, nodes, jobs, and how a job looked once.

Monotonic times are called `..._at`, those for people `..._utc`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from tests.support.fake_slurm_wrapper import PlayedRun

LIVE: Final = frozenset({"PENDING", "RUNNING", "COMPLETING", "SUSPENDED"})


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition over all nodes; jobs of a higher tier preempt those of lower ones."""

    name: str
    tier: int = 1
    preempt: Literal["requeue", "cancel", "off"] = "off"
    """What becomes of its jobs when they are preempted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What a made-up cluster is like. Times in seconds."""

    nodes: int = 4
    node_jobs: int = 4
    """Jobs that share a node, unless one is exclusive."""
    partitions: tuple[Partition, ...] = (
        Partition("main", 1, "requeue"),
        Partition("kill", 1, "cancel"),
        Partition("urgent", 10, "off"),
    )
    min_job_age: float = 300.0
    max_array_size: int = 10001
    max_jobs: int = 10000
    accounting: bool = True
    account_lag: float = 0.5
    """By how much sacct trails squeue."""
    schedule_seconds: float = 0.1
    """From a change to the start of what may start."""
    requeue_seconds: float = 2.0
    """Before a requeued job may start again."""
    kill_wait: float = 30.0
    save_seconds: float = 5.0
    """A job younger than that is forgotten by a killed controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What sbatch was told."""

    name: str
    script: str
    """The text of the script, as it was then."""
    output: str
    options: Mapping[str, str]
    """The rest, by long name; a bare flag is empty."""
    indices: tuple[int, ...] = ()
    """Of an array; empty for a single job."""
    throttle: int = 0

    @property
    def partition(self) -> str:
        return self.options.get("partition", "main")

    @property
    def nodes(self) -> int:
        return int(self.options.get("nodes", "1"))

    @property
    def exclusive(self) -> bool:
        return "exclusive" in self.options

    @property
    def requeue(self) -> bool:
        return "no-requeue" not in self.options


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A single job, or one task of an array; a copy is how it looked once."""

    parent: int
    index: int | None
    order: Order
    taken_at: float
    submitted_utc: float
    raw_id: int
    word: str = "PENDING"
    reason: str = "Priority"
    nodes: tuple[str, ...] = ()
    eligible_at: float = 0.0
    started_utc: float | None = None
    ended_utc: float | None = None
    ended_at: float | None = None
    exit_code: int = 0
    signal: int = 0
    restarts: int = 0
    held: bool = False
    run: PlayedRun | None = None
    """What runs, once it has been started."""
    leaves_as: str = ""
    """The state it takes when its processes are gone; empty: by its exit status."""
    history: list[tuple[float, Job]] = field(default_factory=list)
    """What accounting was told, and when."""
    row_id: str = ""
    """Of the row that stands for all waiting tasks of its array."""

    @property
    def id(self) -> str:
        if self.row_id:
            return self.row_id
        return f"{self.parent}" if self.index is None else f"{self.parent}_{self.index}"

    @property
    def live(self) -> bool:
        return self.word in LIVE

    @property
    def waits(self) -> bool:
        return self.word == "PENDING" and not self.held

    @property
    def runs(self) -> PlayedRun | None:
        """Its run, while that is not over."""
        return None if self.run is None or self.run.over else self.run

    @property
    def unsplit(self) -> bool:
        """A waiting task of an array: all of them are one row."""
        fresh = self.word == "PENDING" and self.restarts == 0
        return self.index is not None and fresh

    def open_output(self) -> bool:
        """Whether Slurm could open its file for the job's output."""
        index = "" if self.index is None else str(self.index)
        path = self.order.output.replace("%%", "\0").replace("%a", index)
        path = path.replace("%j", str(self.raw_id)).replace("%A", str(self.parent))
        try:
            with Path(path.replace("\0", "%")).open("ab"):
                return True
        except OSError:
            return False


class Nodes:
    """Equal nodes, `n1` and on, some of which may be lost."""

    def __init__(self, number: int, jobs_each: int) -> None:
        self.down: set[str] = set()
        self._names = tuple(f"n{n + 1}" for n in range(number))
        self._jobs_each = jobs_each

    def places(self, job: Job, others: Sequence[Job]) -> tuple[str, ...] | None:
        """As many nodes as the job wants; None: there is no room for it."""
        crowds: Counter[str] = Counter()  # one that is alone counts as many as fit
        for other in others:
            if other.nodes and other.live:
                weight = self._jobs_each if other.order.exclusive else 1
                crowds.update(dict.fromkeys(other.nodes, weight))
        most = 0 if job.order.exclusive else self._jobs_each - 1
        free = [n for n in self._names if crowds[n] <= most and n not in self.down]
        return tuple(free[: job.order.nodes]) if len(free) >= job.order.nodes else None
