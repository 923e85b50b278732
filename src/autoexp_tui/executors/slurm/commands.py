"""Runs Slurm's commands, each with a time limit; nothing of them is left after.

The caller's own `SLURM_*` and `SBATCH_*` variables are kept from them: an engine that
was started inside a job would otherwise hand that job's settings on.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from autoexp_tui.executors.slurm.text import (
    TIME_FORMAT,
    extract_complaint,
    has_nothing_to_cancel,
)

KEPT: Final = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER"})
"""Variables that say where the cluster is."""
_NO_PROGRAM: Final = (
    "{} is not on this machine's PATH: start on a login node of the cluster, load its "
    "module (`module load slurm`), or run here: slurm=local"
)
_STRIPPED: Final = ("SLURM_", "SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    arguments: tuple[str, ...]
    status: int | None
    """Exit status; None: it did not start, or ran past its time limit."""
    stdout: str = ""
    stderr: str = ""
    missing: str = ""
    """Why it did not start; empty when it did."""

    @property
    def ok(self) -> bool:
        return self.status == 0

    @property
    def timed_out(self) -> bool:
        return self.status is None and not self.missing

    @property
    def sent(self) -> str:
        return shlex.join(self.arguments)

    def explain(self, seconds: float) -> str:
        """Why nothing came of it within so many seconds; empty when it went well."""
        if self.ok or self.missing:
            return self.missing
        program = self.arguments[0]
        if self.timed_out:
            return f"{program} did not answer within {seconds:g} s"
        return f"{program}: {extract_complaint(self.stderr)}"


class Commands(Protocol):
    """Runs a command of Slurm's to its end; blocks."""

    def run(self, arguments: Sequence[str], timeout: float) -> Ran:
        """Run it for at most `timeout` seconds. Raises nothing."""
        ...


class ClusterCommands:
    """`Commands` by subprocess."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = build_environment(
            os.environ if environment is None else environment
        )

    def run(self, arguments: Sequence[str], timeout: float) -> Ran:
        words = tuple(arguments)
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment | ({} if words[0] == "sbatch" else TIME_FORMAT),
                start_new_session=True,
            )
        except FileNotFoundError:
            return Ran(
                arguments=words, status=None, missing=_NO_PROGRAM.format(words[0])
            )
        except (OSError, ValueError) as error:
            missing = f"cannot start {words[0]}: {error}"
            return Ran(arguments=words, status=None, missing=missing)
        status: int | None = None
        try:
            out, err = process.communicate(timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        return Ran(
            arguments=words,
            status=status,
            stdout=out.decode("utf-8", "replace"),
            stderr=err.decode("utf-8", "replace"),
        )


def build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment that Slurm's commands, and so its jobs, are given."""
    return {
        name: value
        for name, value in environment.items()
        if name in KEPT or not name.startswith(_STRIPPED)
    }


CANCEL_RUNNING: Final = ("--state=RUNNING", "--batch", "--signal=TERM")
"""Without the state it tries a minute and more to signal a job that waits."""


def explain_uncancelled(ran: Ran, seconds: float, *, signal: bool = False) -> str:
    """Why a cancel came to nothing; empty: there is nothing left to do.

    A `signal` is on its way: of an array's tasks scancel waits for the end.
    """
    on_its_way = signal and not ran.stderr.strip() and not ran.missing
    done = has_nothing_to_cancel(ran.stderr) or on_its_way
    return "" if done else ran.explain(seconds)
