"""What campaigns went through, counted: faults by their names, ends by their states.

The names of the faults that a simulation is meant to meet are a closed list, so that a
report shows those that never came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.support.fake_script import FAULTS
from tests.support.fake_slurm_faults import SlurmFault

EVERYWHERE: Final = (
    "killed between two steps",
    "killed as it began",
    "killed before a write",
    "killed amid a write",
    "killed after a write",
    "killed before an executor call",
    "killed after an executor call",
    "stopped by a person",
    "taken over while paused",
    "paused engine woke",
    "second starter refused",
    "disk full",
    "errands fail",
    "clock forward",
    "clock back",
    "clock a year forward",
    "clock a year back",
    "clock slewed",
    "look failed",
    "command failed",
    "plan joined later",
    "snapshot and tail",
)
"""Faults of the engine's own house, in every kind of campaign."""
PERSON: Final = (
    "person kills",
    "person resubmits",
    "person skips",
    "person waives",
    "person answers",
    "person pauses",
    "person resumes",
    "person acknowledges",
    "person gives a stale order",
    "person gives an order twice",
)
RUNS: Final = (
    "run crashed",
    "run was killed",
    "run vanished",
    "run diverged",
    "run stood still",
    "run hung",
    "run used too much memory",
    "run used too much time",
    "run was requeued",
    "run was preempted",
    "run lost its node",
    "exit record late",
)
"""What a campaign's attempts ended of, by the engine's own word."""
CALLS: Final = {
    "sbatch": (
        SlurmFault.ANSWER_LOST,
        SlurmFault.REQUEST_LOST,
        SlurmFault.ARRIVES_LATE,
        SlurmFault.TOLD_FAILED,
        SlurmFault.AWAY,
        SlurmFault.STANDBY,
        SlurmFault.REFUSED,
        SlurmFault.EMPTY,
        SlurmFault.GARBLED,
        SlurmFault.MISSING,
    ),
    "squeue": (
        SlurmFault.REQUEST_LOST,
        SlurmFault.AWAY,
        SlurmFault.BANNER,
        SlurmFault.EMPTY,
        SlurmFault.STALE,
        SlurmFault.GARBLED,
        SlurmFault.STRANGE,
    ),
    "sacct": (
        SlurmFault.REQUEST_LOST,
        SlurmFault.AWAY,
        SlurmFault.BANNER,
        SlurmFault.EMPTY,
        SlurmFault.STALE,
        SlurmFault.GARBLED,
    ),
    "scancel": (
        SlurmFault.ANSWER_LOST,
        SlurmFault.REQUEST_LOST,
        SlurmFault.TOLD_FAILED,
        SlurmFault.AWAY,
    ),
    "scontrol": (SlurmFault.AWAY,),
}
"""What may go wrong with each of Slurm's commands."""
CLUSTER: Final = (
    "killed before a command",
    "killed after a command",
    "node lost",
    "job preempted",
    "job requeued",
    "job forgotten",
    "job suspended",
    "job not launched",
    "waiting job cancelled by others",
    "supervisor killed",
    "controller crashed",
    "controller away",
    "accounting away",
    "ids given out again",
)
"""What befalls a made-up Slurm beside its commands."""


def memory_faults() -> tuple[str, ...]:
    """Names of the faults of the executor in memory."""
    return tuple(
        f"{call}: {fault.value.removeprefix(f'{call} ')}"
        for call, faults in FAULTS.items()
        for fault in faults
    )


def slurm_faults() -> tuple[str, ...]:
    """Names of the faults of a made-up Slurm."""
    called = (
        f"{program}: {fault.value}"
        for program, faults in CALLS.items()
        for fault in faults
    )
    return (*called, *CLUSTER)


@dataclass(slots=True)
class Tally:
    """What campaigns went through."""

    campaigns: int = 0
    steps: int = 0
    events: int = 0
    seconds: float = 0.0
    """Of the simulated time."""
    jobs: Counter[str] = field(default_factory=Counter)
    """Lifecycles: jobs that came to their end, by its state."""
    faults: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    """Campaigns by what ran their jobs."""

    def add(self, other: Tally) -> None:
        self.campaigns += other.campaigns
        self.steps += other.steps
        self.events += other.events
        self.seconds += other.seconds
        self.jobs += other.jobs
        self.faults += other.faults
        self.kinds += other.kinds

    @property
    def lifecycles(self) -> int:
        return self.jobs.total()


def report(
    total: Tally, violations: int, wall: float, cpu: float, names: Iterable[str]
) -> str:
    """What the campaigns went through; `names`: every fault that could have come."""
    rate = total.lifecycles / wall if wall else 0.0
    each = 1000 * cpu / total.lifecycles if total.lifecycles else 0.0
    lines = [
        f"{total.campaigns} campaigns ({_counts(total.kinds)}), "
        f"{total.lifecycles} lifecycles, {violations} violations",
        f"{wall:.0f} s, {rate:.0f} lifecycles/s, {each:.1f} ms of CPU each; "
        f"{total.steps} steps, {total.events} events, "
        f"{total.seconds / 3600:.0f} h of simulated time",
        f"ends: {_counts(total.jobs)}",
        "faults:",
    ]
    known = dict.fromkeys([*names, *sorted(total.faults)])
    return "\n".join([*lines, *(f"{total.faults[name]:>10}  {name}" for name in known)])


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counter.items()))
