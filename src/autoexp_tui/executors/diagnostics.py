"""Keeps what can be seen of a run before a rule ends it. Implements `EvidenceSource`.

The log's tail is copied here; processes are looked at by a script beside them (on this
host, or through Slurm on the job's nodes), since a look at a process that hangs may
hang too. What cannot be obtained is named in `summary.txt`: nothing here raises.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autoexp_tui.engine.ports import Kept, TerminationContext
from autoexp_tui.executors.slurm.commands import Commands
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.probes.bounded_command import run_bounded
from autoexp_tui.probes.log_reader import read_tail
from autoexp_tui.storage.atomic import make_directory, write_atomic
from autoexp_tui.storage.attempt_records import read_attempt
from autoexp_tui.storage.trust import open_regular, read_checked
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import size

LOG_BYTES: Final = 64 * 1024
MOST_NODES: Final = 16
_OWN_SHARE: Final = 0.6
"""Of the time that a run waits, for programs that look at its processes."""
_PROBE_SHARE: Final = 0.85
"""Of that time, until the script that starts them is ended itself."""
_MOST_TEXT: Final = 1 << 20
"""Bytes of a file of the script's that are made fit to be shown."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`ports.EvidenceSource` over one way to the processes."""

    look: Callable[[TerminationContext, float], str]
    """Has the script run beside the processes, for so many seconds; the problem."""

    def capture(self, termination: TerminationContext) -> Kept:
        """Keep the log's tail and, unless it alone is wanted, what processes do."""
        place, task = Path(termination.directory), termination.task
        try:
            make_directory(place)
            found = list(self._collect(termination, place))
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            lines = (
                f"{clean(task.job)}, attempt {task.attempt}, run {termination.run}",
                f"ended because: {clean(termination.reason)}",
                f"looked at: {at}, on {clean(termination.node) or 'this host'}",
                "",
                *found,
            )
            text = "\n".join(lines) + "\n"
            write_atomic(place / "summary.txt", text.encode(), durable=False)
        except EnvironmentFailed as error:
            return Kept(directory="", summary=f"nothing could be kept: {error.line}")
        return Kept(directory=termination.directory, summary="; ".join(found))

    def _collect(self, termination: TerminationContext, place: Path) -> Iterator[str]:
        begun = time.monotonic()
        yield _keep_log(termination.log_path, place)
        if termination.log_only:
            return
        left = termination.seconds - (time.monotonic() - begun)
        problem = self.look(termination, max(0.0, left))
        if problem:
            yield f"processes: {clean(problem, limit=500)}"
        hosts: list[Path] = []
        with suppress(OSError):
            hosts = sorted(path for path in place.iterdir() if path.is_dir())
        for host in hosts:
            for path in host.glob("*.txt"):
                _clean_file(path)
            try:
                data = read_checked(host / "found.txt", "anybody", _MOST_TEXT)
                lines = data.decode("utf-8", "replace").splitlines()
            except OSError:
                lines = ["not finished"]
            yield from (f"{clean(host.name)}: {line}" for line in lines)


def _keep_log(path: str, place: Path) -> str:
    """Copy the log's end, made fit to be shown; a line about it."""
    try:
        tail = read_tail(path, LOG_BYTES) if path else ""
    except OSError as error:
        return f"log: cannot be read: {error}"
    if not tail:
        return "log: it is empty, or not there"
    data = clean(tail, keep_newlines=True).encode()
    write_atomic(place / "log-tail.txt", data, durable=False)
    return f"log: its last {size(len(data))} in log-tail.txt"


def _clean_file(path: Path) -> None:
    try:
        with open_regular(path) as (handle, _):
            if handle is None:
                return
            text = os.read(handle, _MOST_TEXT).decode("utf-8", "replace")
    except OSError:
        return  # it stays as it is: viewers clean what they show
    harmless = clean(text, keep_newlines=True)
    if harmless != text:
        write_atomic(path, harmless.encode(), durable=False)


def install_probe(scripts: Path) -> Path:
    """The session's own copy of the script, where nodes can read it too."""
    from autoexp_tui.executors import evidence_probe

    place = scripts / "evidence_probe.py"
    data = Path(evidence_probe.__file__).read_bytes()
    try:
        same = read_checked(place, "own") == data
    except OSError:
        same = False
    if not same:
        make_directory(scripts)
        write_atomic(place, data, mode=0o700, durable=False)  # compared at each start
    return place


def _build_words(
    python: str, probe: Path, termination: TerminationContext, root: int, seconds: float
) -> Sequence[str]:
    looks = f"{seconds * _OWN_SHARE:.1f}"
    home = termination.task.attempt_dir
    return (python, "-I", str(probe), termination.directory, home, str(root), looks)


def look_here(probe: Path, termination: TerminationContext, seconds: float) -> str:
    """Run the script on this host, from the process that the command began as."""
    root = 0
    with suppress(OSError):
        run = read_attempt(termination.task.attempt_dir).run
        root = run.command_pid if run is not None else 0
    words = _build_words(sys.executable, probe, termination, root, seconds)
    result = run_bounded(words, seconds * _PROBE_SHARE)
    if result.exit_code == 0:
        return ""
    return result.detail or f"the look ended with exit {result.exit_code}"


def look_by_srun(
    probe: Path,
    python: str,
    commands: Commands,
    termination: TerminationContext,
    seconds: float,
) -> str:
    """Run the script in a step beside the job's own, once a node.

    The number of nodes is exact: a range ends the controller of some versions.
    """
    begun, job = time.monotonic(), termination.task.executor_id
    if not job:
        return "not looked at: the job's number is not known"
    ask = ("squeue", "--noheader", f"--jobs={job}", "--format=%A %D")
    ran = commands.run(ask, seconds / 4)
    found = _WHEREABOUTS.fullmatch(ran.stdout.strip())
    if not ran.ok or found is None:
        why = ran.explain(seconds / 4) or f"squeue does not know {job}"
        return f"not looked at: {why}"
    nodes = min(int(found[2]), MOST_NODES)
    seconds -= time.monotonic() - begun
    words = (
        *("srun", f"--jobid={found[1]}", "--overlap", "--quiet", f"--nodes={nodes}"),
        *(f"--ntasks={nodes}", "--ntasks-per-node=1"),
        *_build_words(python, probe, termination, 0, seconds),
    )
    limit = float(round(seconds * _PROBE_SHARE))
    return commands.run(words, limit).explain(limit)


_WHEREABOUTS: Final = re.compile(r"(\d+) (\d+)")
