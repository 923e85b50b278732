"""Runs one program under limits of time, steps, output and disk, and leaves nothing of
it.

This process becomes the parent of what the program's processes leave behind (a Linux
child subreaper), so daemons in sessions of their own are found and ended too. Children
that this process had before are let be. One program at a time.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from autoexp_tui.executors.wrapper import (
    PRCTL,
    kill_all,
    kill_group,
    list_descendants,
    set_subreaper,
)
from autoexp_tui.model.agents import Limits, Outcome
from autoexp_tui.storage.atomic import explaining
from autoexp_tui.storage.repository import open_fed

ALLOWED: Final = frozenset(
    {
        *("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
        "AUTOEXP_ATTEMPT_DIR",  # by it processes of an attempt are known
    }
)
"""Variables that every agent and candidate gets from the job's environment."""
_LOOK_SECONDS: Final = 0.1
"""Between looks at clocks and at a program whose output others hold open."""
_DISK_SECONDS: Final = 1.0
"""Between looks at its directories, and a fiftieth of the time is theirs at most."""
_END_SECONDS: Final = 0.02
"""Between looks at processes that are to end."""
_SWEEP_SECONDS: Final = 10.0
"""For which processes that even SIGKILL does not end are waited for."""
_SET_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""
_DRAIN_SECONDS: Final = 1.0
"""For which output that never ends is read on after its program's end."""
_READ_BYTES: Final = 1 << 20
_MOST_LINE_BYTES: Final = 32 << 20
"""A longer line is no event."""
_TAIL_BYTES: Final = 64 << 10
"""Of the end of a transcript that is too long, and of what a program said."""


ReadLine: TypeAlias = Callable[[bytes], Outcome | None]
"""What a line says of its program: nothing, that it was its last word (`ok`), or why it
is to be stopped."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is run, and how far it may go."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    limits: Limits
    stdin: bytes = b""
    directories: Sequence[Path] = ()
    """Where it may write: what lies in them counts for its limit of disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a program ended."""

    exit_code: int | None
    """-N: by signal N; None: it did not start."""
    stop: Outcome | None = None
    """Why it was stopped; None: it ended by itself, or lingered."""
    has_lingered: bool = False
    """It was stopped after its last event."""
    reason: str = ""
    """Why it did not start."""
    left: int = 0
    """Processes that could not be ended."""
    output: str = ""
    errors: str = ""
    """The end of what it wrote on standard output, and on standard error."""


class Transcript:
    """A bounded file of what was printed: its beginning and its end."""

    def __init__(self, path: Path, most: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.fdopen(os.open(path, flags, 0o600), "wb")
        self._room, self._most_tail = most, min(_TAIL_BYTES, most)
        self._tail, self._left_out, self.total = b"", 0, 0

    def write(self, data: bytes) -> None:
        """Raises OSError."""
        self.total += len(data)
        self._file.write(data[: self._room])
        self._file.flush()
        tail = self._tail + data[self._room :]
        self._room -= min(self._room, len(data))
        self._tail = tail[-self._most_tail :]
        self._left_out += len(tail) - len(self._tail)

    def close(self) -> None:
        with self._file:
            if self._left_out:
                self._file.write(f"\n[{self._left_out} bytes left out]\n".encode())
            self._file.write(self._tail)


class Output:
    """What a program prints, as it comes: whole lines, those too long dropped."""

    def __init__(self, read_line: Callable[[bytes], object] = bool) -> None:
        self._read_line, self._line = read_line, bytearray()
        self.tail = b""
        """Its end so far."""

    def add(self, data: bytes) -> None:
        self.tail = (self.tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._keep(part)
            self.flush()
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        if len(self._line) <= _MOST_LINE_BYTES:
            self._line += part

    def flush(self) -> None:
        """The line so far is a whole one."""
        if 0 < len(self._line) <= _MOST_LINE_BYTES:
            self._read_line(bytes(self._line))
        self._line.clear()


@contextmanager
def _supervising(caught: list[int]) -> Iterator[None]:
    """In this block signals that ask us to end are noted in `caught`, and what a
    program leaves behind becomes this process's child; later orphans of others are none
    of its business."""
    is_asked = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if is_asked else ()
    before = {number: signal.getsignal(number) for number in numbers}
    set_subreaper()
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, lambda found, _: caught.append(found))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if PRCTL is not None:
            PRCTL(_SET_SUBREAPER, 0, 0, 0, 0)


def run_program(program: Program, log: Path, read_line: ReadLine) -> End:
    """How it ended; what it printed is in the new file `log`. `read_line` is given each
    line of standard output. Raises EnvironmentFailed where the log cannot be
    written."""
    with explaining(log, "keep what a program prints"):
        transcript = Transcript(log, program.limits.output_bytes)
        try:
            return _Run(program, transcript, read_line).run()
        finally:
            transcript.close()


class _Run:
    def __init__(
        self, program: Program, transcript: Transcript, read_line: ReadLine
    ) -> None:
        self._program, self._transcript = program, transcript
        self._read_line = read_line
        self._said: Outcome | None = None
        """What its lines say of it by now."""
        self._caught: list[int] = []
        self._selector = selectors.DefaultSelector()

    def run(self) -> End:
        program = self._program
        others = frozenset(list_descendants(os.getpid()) if _is_parent() else ())
        with _supervising(self._caught), open_fed(program.stdin) as stdin:
            try:
                process = subprocess.Popen(
                    program.argv,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=program.cwd,
                    env=program.env,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                return End(exit_code=None, reason=f"{program.argv[0]}: {reason}")
            return self._see_through(process, others)

    def _see_through(
        self, process: subprocess.Popen[bytes], others: frozenset[int]
    ) -> End:
        assert process.stdout is not None
        assert process.stderr is not None
        output, errors, polite = Output(self._take_line), Output(), 0.0
        with process.stdout, process.stderr, self._selector as selector:
            selector.register(process.stdout, selectors.EVENT_READ, output)
            selector.register(process.stderr, selectors.EVENT_READ, errors)
            try:
                stop = self._watch(process)
                has_lingered = stop is None and process.returncode is None
                self._drain()
                polite = self._program.limits.stop_seconds
            finally:  # after an error of ours nobody waits
                left = end_processes(process, others, polite)
            self._drain()
        said, warned = (one.tail.decode("utf-8", "replace") for one in (output, errors))
        return End(
            exit_code=process.returncode,
            stop=self._find_reason() or stop,  # told in its last breath
            has_lingered=has_lingered,
            left=left,
            output=said.strip(),
            errors=warned.strip(),
        )

    def _take_line(self, line: bytes) -> None:
        self._said = self._read_line(line) or self._said

    def _find_reason(self) -> Outcome | None:
        """Why what it printed has it stopped."""
        return None if self._said is Outcome.OK else self._said

    def _watch(self, process: subprocess.Popen[bytes]) -> Outcome | None:
        """Read until the program has ended, or must be stopped: why."""
        limits, started = self._program.limits, time.monotonic()
        wall, heard, done = started + limits.wall_seconds, started, 0.0
        look_at = started + _DISK_SECONDS
        while process.poll() is None:
            now = time.monotonic()
            if now >= look_at:
                written = measure_disk(self._program.directories)
                # What it prints is kept elsewhere too: in the log of its job.
                if max(written, self._transcript.total) > limits.disk_bytes:
                    return Outcome.MAX_DISK
                took = time.monotonic() - now
                look_at = now + max(_DISK_SECONDS, 50 * took)
            if self._caught:
                return Outcome.CANCELLED
            if reason := self._find_reason():
                return reason
            if self._said:
                done = done or now
                if now >= done + limits.exit_seconds:
                    return None
            elif now >= wall:
                return Outcome.TIMEOUT
            elif now >= heard + limits.idle_seconds:
                return Outcome.IDLE_TIMEOUT
            if self._read(_LOOK_SECONDS):
                heard = time.monotonic()
        return Outcome.CANCELLED if self._caught else None

    def _read(self, seconds: float) -> bool:
        """Whether anything came within `seconds`."""
        if not self._selector.get_map():
            # Its output is closed; its end is near.
            time.sleep(min(seconds, _END_SECONDS))
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            data = os.read(key.fd, _READ_BYTES)
            self._transcript.write(data)
            key.data.add(data)
            if not data:
                key.data.flush()
                self._selector.unregister(key.fileobj)
        return bool(ready)

    def _drain(self) -> None:
        """Read what has been written, as long as there is more at once."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        while self._selector.get_map() and time.monotonic() < deadline:
            if not self._read(0.0):
                return


def end_processes(
    process: subprocess.Popen[bytes], others: frozenset[int], polite_seconds: float
) -> int:
    """End a child and all that it left to us, `polite_seconds` after asking them; the
    number of those that would not end. `others` were here before, and stay."""
    started, has_asked = time.monotonic(), False
    while True:
        process.poll()
        is_over = process.returncode is not None
        # Whatever it left is our child, or a child's: without one there is nothing.
        if is_over and not others and not _has_children():
            return 0
        left = list_ours(others)
        if is_over and others and not left:
            return 0
        elapsed = time.monotonic() - started
        if elapsed > _SWEEP_SECONDS + polite_seconds:
            return len(left) or 1
        if elapsed >= polite_seconds:
            kill_group(process.pid, signal.SIGKILL)  # all there is without /proc
            kill_all(left, signal.SIGKILL)
        elif not has_asked:
            has_asked = True
            kill_all(left, signal.SIGTERM)
            kill_all(left, signal.SIGCONT)  # a stopped one hears nothing
        time.sleep(_END_SECONDS)


def list_ours(others: frozenset[int]) -> list[int]:
    """The live descendants of this process, without `others` and theirs."""
    found = list_descendants(os.getpid())
    theirs = {pid for other in others for pid in (other, *list_descendants(other))}
    return [pid for pid in found if pid not in theirs]


def _is_parent() -> bool:
    """Whether this process has children, ended ones too."""
    with suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return True
    return False


def _has_children() -> bool:
    """Whether one lives, as the kernel has it: what forks and exits all the time is
    not always seen in /proc. Those that have ended are taken leave of."""
    with suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            os.waitpid(found.si_pid, 0)
        return True
    return False


def measure_disk(directories: Iterable[Path]) -> int:
    """Bytes that directories take on disk, links not followed; what vanishes meanwhile
    or cannot be read counts nothing."""
    todo, total = [*map(str, directories)], 0
    while todo:
        with suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
    return total
