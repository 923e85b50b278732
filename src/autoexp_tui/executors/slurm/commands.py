"""Runs Slurm's commands, each with a time limit; nothing of them is left after.

The caller's own `SLURM_*` and `SBATCH_*` variables are kept from them: an engine that
was started inside a job would otherwise hand that job's settings on. Answers have times
as seconds since the epoch; sbatch, whose environment jobs inherit, is not told so.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
_STRIPPED: Final = ("SLURM_", "SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of one command."""

    arguments: tuple[str, ...]
    status: int | None
    """Exit status; None: it did not start, or ran past its time limit."""
    stdout: str = ""
    stderr: str = ""
    missing: str = ""
    """Why it did not start; empty when it did."""

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.status == 0

    @property
    def timed_out(self) -> bool:
        """Whether it started and did not end in time."""
        return self.status is None and not self.missing

    @property
    def sent(self) -> str:
        """The exact words, for people."""
        return shlex.join(self.arguments)


class Commands(Protocol):
    """Runs a command of Slurm's to its end; blocks."""

    calls: Counter[str]
    """How often each program was run."""

    def run(self, arguments: Sequence[str], timeout: float) -> Ran:
        """Run it for at most `timeout` seconds. Raises nothing."""
        ...


class ClusterCommands:
    """`Commands` by subprocess."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.calls: Counter[str] = Counter()
        self._environment = build_environment(
            os.environ if environment is None else environment
        )

    def run(self, arguments: Sequence[str], timeout: float) -> Ran:
        words = tuple(arguments)
        self.calls[words[0]] += 1
        try:
            process = self._start(words)
        except (OSError, ValueError) as error:
            return Ran(
                arguments=words, status=None, missing=_format_failure(words[0], error)
            )
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return Ran(arguments=words, status=None, **_kill(process))
        return Ran(
            arguments=words,
            status=process.returncode,
            stdout=_decode(out),
            stderr=_decode(err),
        )

    def _start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment | ({} if words[0] == "sbatch" else TIME_FORMAT),
            start_new_session=True,
        )


class Questions:
    """Puts questions one at a time; a further one is dropped while one is under way.

    This one puts them at once, and is what tests with a clock of their own use.
    """

    def put(self, question: Callable[[], None]) -> None:
        """Put a question; its answer is where the question leaves it."""
        question()


class OwnThread(Questions):
    """Puts questions on a thread of their own: whoever hangs keeps nobody waiting."""

    def __init__(self) -> None:
        self._asking: threading.Thread | None = None
        self._fault: BaseException | None = None

    def put(self, question: Callable[[], None]) -> None:
        """Put a question unless one is under way.

        Raises:
            Exception: what the question before raised, which is a bug.
        """
        if self._asking is not None and self._asking.is_alive():
            return
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
        self._asking = threading.Thread(
            target=self._run, args=(question,), name="slurm", daemon=True
        )
        self._asking.start()

    def _run(self, question: Callable[[], None]) -> None:
        try:
            question()
        except Exception as error:  # noqa: BLE001 - raised again to the next who asks
            self._fault = error


def build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment that Slurm's commands, and so its jobs, are given."""
    return {
        name: value
        for name, value in environment.items()
        if name in KEPT or not name.startswith(_STRIPPED)
    }


def _kill(process: subprocess.Popen[bytes]) -> dict[str, str]:
    """What it said until it was ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    out, err = process.communicate()
    return {"stdout": _decode(out), "stderr": _decode(err)}


def _format_failure(program: str, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return (
            f"{program} is not on this machine's PATH: start on a login node of the "
            "cluster, load its module (`module load slurm`), or run here: slurm=local"
        )
    return f"cannot start {program}: {error}"


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# ----------------------------------------------------------------- answers of scancel
CANCEL_RUNNING: Final = ("--state=RUNNING", "--batch", "--signal=TERM")
"""Without the state it tries a minute and more to signal a job that waits."""


def is_cancelled(ran: Ran) -> bool:
    """Whether a cancel has nothing left to do: what has ended needs none."""
    return ran.ok or (not ran.missing and has_nothing_to_cancel(ran.stderr))


def is_signalled(ran: Ran) -> bool:
    """Whether a signal is on its way: of an array's tasks scancel waits for the end."""
    return not ran.missing and not ran.stderr.strip()


def format_uncancelled(ran: Ran) -> str:
    """Why a cancel came to nothing."""
    if ran.missing or ran.timed_out:
        return ran.missing or f"{ran.arguments[0]} did not answer"
    return extract_complaint(ran.stderr)
