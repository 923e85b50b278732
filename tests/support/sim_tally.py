"""What befalls campaigns, and how often it did: faults by their names, ends by states.

The names of the faults that a simulation is meant to meet are a closed list, so that a
report shows those that never came.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Final

from tests.support.fake_slurm_faults import SlurmFault
from tests.support.memory_journal import Killed


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


EVERYWHERE: Final = _names(
    "killed between two steps, killed as it began, killed before a write, "
    "killed amid a write, killed after a write, killed before an executor call, "
    "killed after an executor call, stopped by a person, taken over while paused, "
    "paused engine woke, second starter refused, disk full, errands fail, "
    "clock forward, clock back, clock a year forward, clock a year back, "
    "clock slewed, look failed, command failed, plan joined later, snapshot and tail"
)
"""Faults of the engine's own house, in every kind of campaign."""
PERSON: Final = _names(
    "person kills, person resubmits, person skips, person waives, person answers, "
    "person pauses, person resumes, person acknowledges, person gives a stale order, "
    "person gives an order twice, person grows the plan"
)
RUNS: Final = _names(
    "run crashed, run was killed, run vanished, run diverged, run stood still, "
    "run hung, run used too much memory, run used too much time, run was requeued, "
    "run was preempted, run lost its node, exit record late"
)
"""What a campaign's attempts ended of, by the engine's own word."""
_FAULTS: Final = {
    "sbatch": "answer lost, request lost, arrives late, taken twice, told failed, "
    "away, standby, refused, empty, garbled, missing",
    "squeue": "request lost, away, banner, empty, stale, garbled, strange",
    "sacct": "request lost, away, banner, empty, stale, garbled",
    "scancel": "answer lost, request lost, told failed, away",
    "scontrol": "away",
}
CALLS: Final = {
    program: tuple(map(SlurmFault, _names(text))) for program, text in _FAULTS.items()
}
"""What may go wrong with each of Slurm's commands."""
CLUSTER: Final = _names(
    "killed before a command, killed after a command, node lost, job preempted, "
    "job requeued, job forgotten, job suspended, job not launched, "
    "waiting job cancelled by others, supervisor killed, controller crashed, "
    "controller away, accounting away, ids given out again, "
    "supervisor killed beside, answer lost beside"
)
"""What befalls a made-up Slurm beside its commands, and the engine's host."""


NAMES: Final = (
    *EVERYWHERE,
    *PERSON,
    *RUNS,
    *(f"{program}: {fault}" for program, faults in CALLS.items() for fault in faults),
    *CLUSTER,
)
"""Every fault that may come."""


class Danger:
    """What goes wrong around an engine: by a seed until it is `over`."""

    def __init__(self, rng: random.Random, counts: Counter[str]) -> None:
        self.over = False
        self.counts = counts
        """Faults by name, of everything around the engine."""
        self._rng = rng

    def point(self, name: str, rate: float) -> None:
        """A place where the engine may die; raises Killed."""
        if not self.over and self._rng.random() < rate:
            self.counts[f"killed {name}"] += 1
            raise Killed(name)


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
        for one in fields(self):
            sums = getattr(self, one.name) + getattr(other, one.name)
            setattr(self, one.name, sums)

    @property
    def lifecycles(self) -> int:
        return self.jobs.total()


def report(total: Tally, violations: int, wall: float, cpu: float) -> str:
    """What the campaigns went through."""
    rate = total.lifecycles / wall if wall else 0.0
    each = 1000 * cpu / total.lifecycles if total.lifecycles else 0.0
    known = dict.fromkeys([*NAMES, *sorted(total.faults)])
    return "\n".join(
        [
            f"{total.campaigns} campaigns ({_counts(total.kinds)}), "
            f"{total.lifecycles} lifecycles, {violations} violations",
            f"{wall:.0f} s, {rate:.0f} lifecycles/s, {each:.1f} ms of CPU each; "
            f"{total.steps} steps, {total.events} events, "
            f"{total.seconds / 3600:.0f} h of simulated time",
            f"ends: {_counts(total.jobs)}",
            "faults:",
            *(f"{total.faults[name]:>10}  {name}" for name in known),
        ]
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counter.items()))
