"""A program on a real terminal of our own: what it writes, and when."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class OnTerminal:
    """A process whose terminal we hold the other end of."""

    command: Sequence[str]
    size: tuple[int, int] = (120, 40)
    environment: dict[str, str] = field(default_factory=dict)
    written: bytes = b""
    process: subprocess.Popen[bytes] | None = None
    master: int = -1

    def __enter__(self) -> OnTerminal:
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, self.size[::-1])
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            **self.environment,
        }
        for name in ("NO_COLOR", "TMUX", "COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, *self.command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            close_fds=True,
        )
        os.close(slave)
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def hang_up(self) -> None:
        """The terminal goes away."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.master, text.encode())

    def read_some(self, patience: float) -> bytes:
        """What comes next, at once; nothing when nothing came for `patience`."""
        ready, _, _ = select.select([self.master], [], [], patience)
        data = b""
        with contextlib.suppress(OSError):  # the other end is closed
            data = os.read(self.master, 1 << 16) if ready else b""
        self.written += data
        return data

    def read_for(self, seconds: float, wanted: bytes | None = None) -> bytes:
        """What is written within `seconds`, up to `wanted` or the end of it."""
        got, end = b"", time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            data = self.read_some(left)
            got += data
            if not data or (wanted is not None and wanted in self.written):
                break
        return got

    def read_until(self, wanted: bytes, patience: float = 20.0) -> float:
        """Read until `wanted` was written; the seconds that it took."""
        start = time.monotonic()
        self.read_for(patience, wanted)
        assert wanted in self.written, f"{wanted!r} never came"
        return time.monotonic() - start

    def wait(self, patience: float = 10.0) -> int:
        """How the process ended; what it writes until then is read.

        Nobody leaves while the terminal takes nothing more.
        """
        assert self.process is not None
        deadline = time.monotonic() + patience
        while self.master >= 0 and self.process.poll() is None:
            if time.monotonic() > deadline:
                break
            self.read_some(0.05)
        return self.process.wait(patience if self.master < 0 else 0)
