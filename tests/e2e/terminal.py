"""A program in a pseudo-terminal: keys in, a screen out."""

from __future__ import annotations

import os
import pty
import select
import signal
import termios
import time
from collections.abc import Callable, Mapping, Sequence

import pyte


class Terminal:
    """Runs a command and keeps what its screen shows."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str,
        rows: int = 40,
        columns: int = 120,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.written = 0
        """Bytes that the program wrote."""
        self.status: int | None = None
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            termios.tcsetwinsize(0, (rows, columns))
            os.chdir(cwd)
            os.environ.update({"TERM": "xterm-256color", **(env or {})})
            os.execvp(command[0], list(command))

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self._terminal, keys.encode())

    def confirm(self) -> None:
        """Say yes to a dialog, which is deaf at first."""
        time.sleep(0.4)
        self.send("y")

    def read(self, seconds: float = 0.05) -> None:
        """Take in what was written."""
        if (
            self._terminal < 0
            or not select.select([self._terminal], [], [], seconds)[0]
        ):
            return
        try:
            data = os.read(self._terminal, 1 << 16)
        except OSError:
            data = b""
        self.written += len(data)
        self._stream.feed(data)

    def text(self) -> str:
        """The screen's lines."""
        return "\n".join(self.screen.display)

    def wait_for(self, text: str, seconds: float = 30.0) -> None:
        """Read until the screen shows `text`; raises AssertionError."""
        self.until(lambda: text in self.text(), seconds, text)

    def until(
        self, holds: Callable[[], bool], seconds: float = 30.0, what: str = ""
    ) -> None:
        """Read until something holds; raises AssertionError where it did not."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"{what} never came:\n{self.text()}"
            self.read()

    def wait_exit(self, seconds: float = 30.0) -> int:
        """Read until the program has ended; its exit status."""
        self.until(self.ended, seconds, "the end")
        return self.status if self.status is not None else -1

    def ended(self) -> bool:
        """Whether the program has."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def hang_up(self) -> None:
        """Close the terminal under the program, as a lost connection does."""
        os.close(self._terminal)
        self._terminal = -1

    def signal(self, number: int) -> None:
        """Send a signal to the program."""
        os.kill(self.pid, number)

    def close(self) -> None:
        """End whatever is left."""
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self._terminal >= 0:
            self.hang_up()
