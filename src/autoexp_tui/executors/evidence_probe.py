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
from contextlib import suppress

COOKIE = "AUTOEXP_ATTEMPT_DIR"
"""Set by the wrapper: whatever the command starts inherits it."""
MOST_STACKS = 16
"""Python processes of which stacks are taken."""
MOST_OUTPUT = 256 * 1024
"""Bytes that are kept of what a program prints."""
PAUSE = 0.05


def processes_of(attempt_dir: str, root: int) -> list[int]:
    """The attempt's processes: those with its mark, and those below `root`."""
    stats = {pid: fields for pid in all_pids() if (fields := stat_of(pid))}
    below = {root} if root in stats else set()
    while more := {p for p, f in stats.items() if int(f[1]) in below} - below:
        below |= more
    mine = {os.getpid(), os.getppid()}
    marked = {pid for pid in stats if has_mark(pid, attempt_dir)}
    return sorted((below | marked) - mine)


def all_pids() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def stat_of(pid: int) -> list[str]:
    """The kernel's fields of a process from its state on; empty when it is gone."""
    text = read(f"/proc/{pid}/stat")
    return text.rpartition(")")[2].split()


def has_mark(pid: int, attempt_dir: str) -> bool:
    """Whether the process was started on behalf of the attempt."""
    wanted = os.fsencode(f"{COOKIE}={attempt_dir}")
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted in file.read().split(b"\0")
    except OSError:
        return False


def read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(65536).decode("utf-8", "replace")
    except OSError:
        return ""


def command_of(pid: int) -> str:
    return read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()


def row(pid: int) -> str:
    """One line of the table of processes."""
    fields = stat_of(pid)
    if len(fields) < 22:
        return f"{pid:>8}  gone"
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    cpu = (int(fields[11]) + int(fields[12])) / tick
    memory = int(fields[21]) * page / 1e6
    waits = read(f"/proc/{pid}/wchan").strip("\0\n") or "-"
    return (
        f"{pid:>8} {fields[1]:>8} {fields[0]:<5} {waits:<24} {cpu:>10.1f} "
        f"{fields[17]:>7} {memory:>9.0f}  {command_of(pid)}"
    )


HEAD = (
    f"{'pid':>8} {'parent':>8} {'state':<5} {'waits in':<24} {'cpu s':>10} "
    f"{'threads':>7} {'MB':>9}  command"
)


class Program:
    """A program that looks at something; what it prints is a file.

    It stays in this script's process group: whoever ends that ends all of them.
    """

    def __init__(self, path: str, words: list[str]) -> None:
        self.path = path
        self.name = " ".join([os.path.basename(words[0]), *words[1:]])
        self.problem = ""
        self.process: subprocess.Popen[bytes] | None = None
        try:
            with open(path, "wb") as output:
                self.process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
        except OSError as error:
            self.problem = str(error)

    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self) -> str:
        """End it; a line about what came of it."""
        if self.process is None:
            return f"{self.name}: could not start: {self.problem}"
        late = self.runs()
        if late:
            self.process.kill()
        name = os.path.basename(self.path)
        with suppress(OSError):
            if os.path.getsize(self.path) > MOST_OUTPUT:
                os.truncate(self.path, MOST_OUTPUT)
        if late:
            return f"{self.name}: not finished in time; what it said is in {name}"
        if self.process.returncode:
            return f"{self.name}: failed ({self.process.returncode}), see {name}"
        return f"{self.name}: {name}"


def programs(directory: str, pids: list[int], found: list[str]) -> list[Program]:
    """What is started to look closer; what there is not is noted in `found`."""
    started: list[Program] = []
    python: list[int] = []
    for pid in pids:
        with suppress(OSError):
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
            if name.startswith(("python", "pypy")):
                python.append(pid)
    spy = shutil.which("py-spy")
    if spy is None:
        found.append("stacks: none, py-spy is not on PATH")
    elif not python:
        found.append("stacks: none, no process runs Python")
    for pid in python[:MOST_STACKS] if spy else []:
        path = os.path.join(directory, f"py-spy.{pid}.txt")
        started.append(Program(path, [str(spy), "dump", "--pid", str(pid)]))
    if spy and len(python) > MOST_STACKS:
        found.append(f"stacks: of {MOST_STACKS} of {len(python)} Python processes")
    smi = shutil.which("nvidia-smi")
    if smi is None:
        found.append("GPUs: nothing, nvidia-smi is not on PATH")
    else:
        started.append(Program(os.path.join(directory, "nvidia-smi.txt"), [smi]))
    return started


def look(directory: str, attempt_dir: str, root: int, deadline: float) -> list[str]:
    """Write down what can be seen until `deadline`; lines about what was found."""
    pids = processes_of(attempt_dir, root)
    found = [f"processes: {len(pids)} in processes.txt"]
    write(directory, "processes.txt", [HEAD, *(row(pid) for pid in pids)])
    started = programs(directory, pids, found)
    while any(one.runs() for one in started) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return found + [one.end() for one in started]


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
