"""Slurm's commands without a Slurm: the same words in, the same words out.

It answers the command lines that our adapter sends, in the real formats, from a made-up
cluster on a manual clock. What may go wrong between a client and its cluster is asked
for as data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Generic, TypeVar

from autoexp_tui.testing.clock import ManualClock
from tests.support.fake_script import Script
from tests.support.fake_slurm_cluster import Cluster
from tests.support.fake_slurm_faults import PlannedSlurmFaults, SlurmFault, SlurmFaults
from tests.support.fake_slurm_jobs import ClusterSettings, Job
from tests.support.fake_slurm_text import (
    Line,
    Refused,
    config_text,
    expand_names,
    parse_line,
    parse_order,
    ranges,
    sacct_text,
    squeue_text,
)

R = TypeVar("R")
NO_CONTROLLER: Final = "Unable to contact slurm controller (connect failure)"
NO_DATABASE: Final = "Problem talking to the database: Connection refused"
NO_ACCOUNTING: Final = "Slurm accounting storage is disabled"
TIMED_OUT: Final = "Socket timed out on send/recv operation"
BANNER: Final = "*** Maintenance on Friday, 8:00 to 12:00 ***\n"
_WORDS: Final = {
    SlurmFault.AWAY: NO_CONTROLLER,
    SlurmFault.STANDBY: "Slurm backup controller in standby mode",
    SlurmFault.REFUSED: "Cluster is rebalancing its tranches",  # no Slurm says so
}
"""What a client says of faults after which nothing was done."""
_STRANGE: Final = "|MIGRATING|"
"""A state that no Slurm knows."""
_LIVING: Final = ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED")
_LIVING_WORDS: Final = re.compile(rf"\|(?:{'|'.join(_LIVING)})\|")
RETRY_SECONDS: Final = 95.0
"""For which scancel tries to signal a job that waits."""
_ASKING: Final = {
    "sbatch": "sbatch: error: Batch job submission failed",
    "scontrol": "slurm_load_ctl_conf error",
}


class FakeSlurm(Generic[R]):
    """sbatch, squeue, sacct, scancel and scontrol; `answer` makes what callers want."""

    def __init__(
        self,
        clock: ManualClock,
        answer: Callable[..., R],
        script: Script | None = None,
        settings: ClusterSettings | None = None,
        *,
        faults: SlurmFaults | None = None,
    ) -> None:
        self.cluster = Cluster(clock, script, settings)
        self.calls: Counter[str] = Counter()
        self.lines: list[tuple[str, ...]] = []
        """Every command line, in order."""
        self.faults = faults or PlannedSlurmFaults()
        self.away = self.database_away = False
        """The controller does not run; accounting does not."""
        self.refuses = ""
        """Why sbatch takes nothing, in Slurm's words; empty: it does."""
        self.banner = ""
        """What a site has every look at the queue or at accounting say first."""
        self._clock = clock
        self._answer = answer
        self._last: dict[str, str] = {}

    def run(self, arguments: Sequence[str], timeout: float) -> R:
        """One command to its end; one that never comes back takes `timeout`."""
        words = tuple(arguments)
        self.calls[words[0]] += 1
        self.lines.append(words)
        self.cluster.settle()
        try:
            out = self._with_fault(words, self.faults(words[0]), timeout)
        except _Silence:
            self._pass(timeout)
            return self._answer(arguments=words, status=None)
        except _Missing as error:
            return self._answer(arguments=words, status=None, missing=str(error))
        except Refused as error:
            status, said = error.status, error.stderr
            return self._answer(arguments=words, status=status, stderr=said)
        return self._answer(arguments=words, status=0, stdout=out)

    def _pass(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self.cluster.settle()

    def _with_fault(
        self, words: tuple[str, ...], fault: SlurmFault | None, timeout: float
    ) -> str:
        program = words[0]
        match fault:
            case SlurmFault.AWAY | SlurmFault.STANDBY | SlurmFault.REFUSED:
                raise _failed(program, _WORDS[fault])
            case SlurmFault.MISSING:
                raise _Missing(f"{program} is not on this machine's PATH")
            case SlurmFault.REQUEST_LOST:
                raise _Silence
            case SlurmFault.EMPTY:
                return ""
            case SlurmFault.STALE:
                return self._last.get(program, "")
            case SlurmFault.ARRIVES_LATE:
                self._pass(timeout)
            case SlurmFault.TAKEN_TWICE:
                self._do(words, timeout)
        out = self._do(words, timeout)
        match fault:
            case SlurmFault.ANSWER_LOST | SlurmFault.ARRIVES_LATE:
                raise _Silence
            case SlurmFault.TOLD_FAILED:
                raise _failed(program, TIMED_OUT)
            case SlurmFault.BANNER:
                return BANNER + out
            case SlurmFault.GARBLED:
                return out[:-9]
            case SlurmFault.STRANGE:
                return _LIVING_WORDS.sub(_STRANGE, out)
        self._last[program] = out
        return out

    def _do(self, words: tuple[str, ...], timeout: float) -> str:
        program = words[0]
        if program == "scontrol":
            return self._scontrol(words[1:])
        line = parse_line(words)
        if self.away and program != "sacct":
            raise _failed(program, NO_CONTROLLER)
        if program == "sbatch" and self.refuses:
            raise _failed(program, self.refuses)
        match program:
            case "sbatch":
                return self._sbatch(line)
            case "squeue":
                return self.banner + squeue_text(
                    self.cluster.queue(), line.options["-o"]
                )
            case "sacct":
                return self.banner + self._sacct(line)
            case "scancel":
                return self._scancel(line, timeout)
        raise _Missing(f"{program} is not on this machine's PATH")

    def _sbatch(self, line: Line) -> str:
        text = Path(line.names[0]).read_text()
        return f"{self.cluster.submit(parse_order(line, text))}\n"

    def _sacct(self, line: Line) -> str:
        if not self.cluster.settings.accounting:
            raise Refused(1, NO_ACCOUNTING)
        if self.database_away:
            raise Refused(1, f"sacct: error: {NO_DATABASE}")
        since = line.options["-S"]
        rows = self.cluster.accounts(float(since.removeprefix("uts")))
        return sacct_text(_collapsed(rows), line.options["-o"])

    def _scancel(self, line: Line, timeout: float) -> str:
        """Cancel or signal; with a filter it looks before, and tells what is over."""
        state, signal = line.options.get("--state"), line.options.get("--signal")
        looks = bool(state or signal)
        problems = []
        for name in expand_names(line.names):
            live = [job for job in self.cluster.find(name) if job.live]
            if not live and looks:
                problems.append(_not_killed(name, "Invalid job id specified"))
            # Who looks before sees the waiting tasks of an array as a single job.
            arrays = {job.parent for job in live if looks and job.unsplit}
            for job in list(self.cluster.jobs):
                meant = job in live or (job.unsplit and job.parent in arrays)
                if meant and state in (None, job.word):
                    self._end(job, signal, timeout)
        if problems:
            raise Refused(1, *problems)
        return ""

    def _end(self, job: Job, signal: str | None, timeout: float) -> None:
        if signal is None:
            self.cluster.cancel(job)
        elif job.word == "PENDING":
            self._pass(min(timeout, RETRY_SECONDS))
            if timeout < RETRY_SECONDS:
                raise _Silence
            text = "Job can not be altered now, try again later"
            raise Refused(228, _not_killed(job.id, text))
        else:
            self.cluster.terminate(job)

    def _scontrol(self, words: Sequence[str]) -> str:
        if self.away:
            raise _failed("scontrol", NO_CONTROLLER)
        match words:
            case ("show", "config"):
                booted, now = self.cluster.booted_utc, self._clock.utc()
                return config_text(self.cluster.settings, booted, now)
            case ("requeue" | "suspend" | "resume" | "release" as verb, names):
                for name in names.split(","):
                    for job in self.cluster.find(name):
                        getattr(self.cluster, verb)(job)
                return ""
        raise Refused(1, f"invalid keyword: {words[0]}")


class _Silence(Exception):
    """The command never comes back."""


class _Missing(Exception):
    """There is no such program."""


def _failed(program: str, why: str) -> Refused:
    """How a client says that the controller could not be asked."""
    return Refused(1, f"{_ASKING.get(program, 'slurm_load_jobs error')}: {why}")


def _not_killed(name: str, why: str) -> str:
    return f"scancel: error: Kill job error on job id {name}: {why}"


def _collapsed(rows: Iterable[Job]) -> list[Job]:
    """Waiting tasks of an array as one row, `6_[2-9]`."""
    waiting: dict[int, list[Job]] = {}
    kept: list[Job] = []
    for row in rows:
        (waiting.setdefault(row.raw_id, []) if row.unsplit else kept).append(row)
    for raw_id, tasks in waiting.items():
        indices = ranges(task.index or 0 for task in tasks)
        kept.append(replace(tasks[0], row_id=f"{raw_id}_[{indices}]"))
    return kept
