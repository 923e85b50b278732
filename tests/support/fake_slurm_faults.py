"""What may go wrong between a client and a made-up Slurm, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum


class SlurmFault(StrEnum):
    """What may go wrong with one command."""

    ANSWER_LOST = "answer lost"  # done, but it never comes back
    REQUEST_LOST = "request lost"  # not done, and it never comes back
    ARRIVES_LATE = "arrives late"  # it never comes back, and is done after that
    TAKEN_TWICE = "taken twice"  # done, and then once more: a site's script retries
    TOLD_FAILED = "told failed"  # done, but the client says that its socket timed out
    AWAY = "away"  # the controller cannot be reached
    STANDBY = "standby"  # a controller in standby refuses: nothing was taken
    REFUSED = "refused"  # sbatch refuses in words that nobody knows
    BANNER = "banner"  # a line of the site's stands before the answer
    EMPTY = "empty"  # it ends well and says nothing
    STALE = "stale"  # the program's answer before this one, once more
    GARBLED = "garbled"  # the answer breaks off in the middle of its last line
    STRANGE = "strange"  # squeue: what lives is in states whose names nobody knows
    MISSING = "missing"  # the program is not there


SlurmFaults = Callable[[str], SlurmFault | None]
"""Asked at every command, by program: what goes wrong with it."""


class PlannedSlurmFaults:
    """The next faults of each program, first come first served; then none."""

    def __init__(self, faults: Iterable[tuple[str, SlurmFault]] = ()) -> None:
        self._waiting = list(faults)

    def add(self, program: str, *faults: SlurmFault) -> None:
        self._waiting += ((program, fault) for fault in faults)

    def __call__(self, program: str) -> SlurmFault | None:
        for waiting in self._waiting:
            if waiting[0] == program:
                self._waiting.remove(waiting)
                return waiting[1]
        return None
