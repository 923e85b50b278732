"""Writes down what the processes of one attempt on this host are doing.

    python evidence_probe.py DIRECTORY ATTEMPT_DIR ROOT_PID SECONDS

A script of the standard library alone (Python 3.8 or newer), so that a compute node
can run it: whoever looks at a process that hangs may hang as well. What is found goes
to a directory of the host; `found.txt` there says what was obtained and what not.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

COOKIE = "AUTOEXP_ATTEMPT_DIR"
"""Set by the wrapper: whatever the command starts inherits it."""
MOST_STACKS = 16
"""Python processes of which stacks are taken."""
MOST_OUTPUT = 256 * 1024
"""Bytes that are kept of what a program prints."""


def processes_of(attempt_dir: str, root: int) -> list[int]:
    """The attempt's processes: those with its mark, and those below `root`."""
    stats: dict[int, list[str]] = {}
    marked: set[int] = set()
    wanted = os.fsencode(f"{COOKIE}={attempt_dir}")
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        if fields := stat_of(pid):
            stats[pid] = fields
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if wanted in file.read().split(b"\0"):
                marked.add(pid)
    below = {root} if root in stats else set()
    while more := {p for p, f in stats.items() if int(f[1]) in below} - below:
        below |= more
    return sorted((below | marked) - {os.getpid(), os.getppid()})


def stat_of(pid: int) -> list[str]:
    """The kernel's fields of a process from its state on; empty when it is gone."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(65536).decode("utf-8", "replace")
    except OSError:
        return ""


def row(pid: int) -> str:
    """One line of the table of processes."""
    fields = stat_of(pid)
    if len(fields) < 22:
        return f"{pid:>8}  gone"
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    cpu = (int(fields[11]) + int(fields[12])) / tick
    memory = int(fields[21]) * page / 1e6
    waits = read(f"/proc/{pid}/wchan").strip("\0\n") or "-"
    command = read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
    return (
        f"{pid:>8} {fields[1]:>8} {fields[0]:<5} {waits:<24} {cpu:>10.1f} "
        f"{fields[17]:>7} {memory:>9.0f}  {command}"
    )


HEAD = (
    f"{'pid':>8} {'parent':>8} {'state':<5} {'waits in':<24} {'cpu s':>10} "
    f"{'threads':>7} {'MB':>9}  command"
)


def list_programs(pids: list[int], found: list[str]) -> dict[str, list[str]]:
    """What looks closer, by its file; what there is not is noted in `found`."""
    python: list[int] = []
    for pid in pids:
        with suppress(OSError):
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
            if name.startswith(("python", "pypy")):
                python.append(pid)
    spy, smi = shutil.which("py-spy"), shutil.which("nvidia-smi")
    if spy is None:
        found.append("stacks: none, py-spy is not on PATH")
    elif not python:
        found.append("stacks: none, no process runs Python")
    elif len(python) > MOST_STACKS:
        found.append(f"stacks: of {MOST_STACKS} of {len(python)} Python processes")
    if smi is None:
        found.append("GPUs: nothing, nvidia-smi is not on PATH")
    some = python[:MOST_STACKS] if spy else []
    words = {f"py-spy.{pid}.txt": [str(spy), "dump", "--pid", str(pid)] for pid in some}
    return {**words, "nvidia-smi.txt": [smi]} if smi else words


def run_program(directory: str, name: str, words: list[str], deadline: float) -> str:
    """Have a program print into the file `name`; a line about what came of it.

    It stays in this script's process group: whoever ends that ends it.
    """
    path, shown = os.path.join(directory, name), " ".join(words)
    shown = os.path.basename(words[0]) + shown[len(words[0]) :]
    null, both = subprocess.DEVNULL, subprocess.STDOUT
    status: int | None = None
    try:
        with open(path, "wb") as output:
            process = subprocess.Popen(words, stdin=null, stdout=output, stderr=both)
        status = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
    except OSError as error:
        return f"{shown}: could not start: {error}"
    with suppress(OSError):
        if os.path.getsize(path) > MOST_OUTPUT:
            os.truncate(path, MOST_OUTPUT)
    if status is None:
        return f"{shown}: not finished in time; what it said is in {name}"
    return f"{shown}: failed ({status}), see {name}" if status else f"{shown}: {name}"


def look(directory: str, attempt_dir: str, root: int, deadline: float) -> list[str]:
    """Write down what can be seen until `deadline`; lines about what was found."""
    pids = processes_of(attempt_dir, root)
    found = [f"processes: {len(pids)} in processes.txt"]
    write(directory, "processes.txt", [HEAD, *(row(pid) for pid in pids)])
    programs = list_programs(pids, found)
    try:
        with ThreadPoolExecutor(MOST_STACKS + 1) as pool:
            looks = [
                pool.submit(run_program, directory, name, words, deadline)
                for name, words in programs.items()
            ]
    except RuntimeError as error:  # a job that leaks processes may leave none to start
        return [*found, f"programs: {error}"]
    return found + [one.result() for one in looks]


def write(directory: str, name: str, lines: list[str]) -> None:
    path = os.path.join(directory, name)
    with open(path + ".new", "w", encoding="utf-8", errors="replace") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(path + ".new", path)


def main(arguments: list[str]) -> int:
    deadline = time.monotonic() + float(arguments[3])
    os.umask(0o077)
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    directory = os.path.join(arguments[0], host)
    os.makedirs(directory, exist_ok=True)
    found = look(directory, arguments[1], int(arguments[2]), deadline)
    write(directory, "found.txt", found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
