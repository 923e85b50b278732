"""Runs a short command to its end or to its time limit; nothing of it is left after.

No shell, no input, its own process group; of what it prints only the end is kept.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from autoexp_tui.model.facts import CommandResult

KEPT_BYTES = 2000
_LOOK_SECONDS = 0.02
"""Between looks whether the command has ended while others hold its output open."""


def run_bounded(
    command: Sequence[str],
    timeout: float,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str = "",
) -> CommandResult:
    """The command's exit status (128 + N after signal N), or why there is none.

    `env` is added to this process's own; `cwd` empty: where this process is.
    """
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **env} if env else None,
            cwd=cwd or None,
        )
    except (OSError, ValueError, IndexError) as error:
        reason, of = getattr(error, "strerror", None), getattr(error, "filename", "")
        why = f"{reason}: {of}" if reason else str(error)
        return CommandResult(None, f"cannot start: {why}")
    output = _Output(process)
    ended = output.read_until(time.monotonic() + timeout)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    status = process.wait()
    text = output.close()
    if not ended:
        return CommandResult(None, f"ran longer than {timeout:g} s\n{text}".rstrip())
    return CommandResult(128 - status if status < 0 else status, text)


class _Output:
    """The end of what a process prints."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        self._pipe = process.stdout
        self._tail = b""
        self._open = True
        os.set_blocking(self._pipe.fileno(), False)

    def read_until(self, deadline: float) -> bool:
        """Read until the process has ended; False when the deadline came first."""
        poll = select.poll()
        poll.register(self._pipe.fileno(), select.POLLIN)
        # It is not reaped, so its pid stays its own.
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, self._process.pid, options) is None:
            left = min(deadline - time.monotonic(), _LOOK_SECONDS)
            if left <= 0:
                return False
            if not self._open:
                time.sleep(left)
            elif poll.poll(left * 1000):
                self._read()
        return True

    def close(self) -> str:
        if self._open:
            self._read()
        self._pipe.close()
        return self._tail.decode("utf-8", "replace").strip()

    def _read(self) -> None:
        with suppress(BlockingIOError):
            while part := os.read(self._pipe.fileno(), 1 << 16):
                self._tail = (self._tail + part)[-KEPT_BYTES:]
            self._open = False
