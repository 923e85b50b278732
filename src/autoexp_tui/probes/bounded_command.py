"""Runs a short command to its end or to its time limit; nothing of it is left after. No
shell, no input, its own process group; of what it prints only the end is kept."""

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
    """The command's exit status (128 + N after signal N), or why there is none. `env`
    is added to this process's own; `cwd` empty: where this process is."""
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
    assert process.stdout is not None
    with process.stdout as pipe:
        os.set_blocking(pipe.fileno(), False)
        try:
            has_ended, tail = _read_until(process.pid, pipe.fileno(), timeout)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        tail, _ = _read_more(pipe.fileno(), tail)
    text = tail.decode("utf-8", "replace").strip()
    if not has_ended:
        return CommandResult(None, f"ran longer than {timeout:g} s\n{text}".rstrip())
    return CommandResult(128 - status if status < 0 else status, text)


def _read_until(pid: int, pipe: int, timeout: float) -> tuple[bool, bytes]:
    """Whether the process has ended in time, and the end of what it printed."""
    deadline = time.monotonic() + timeout
    tail, is_open = b"", True
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    # It is not reaped, so its pid stays its own.
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while os.waitid(os.P_PID, pid, options) is None:
        left = min(deadline - time.monotonic(), _LOOK_SECONDS)
        if left <= 0:
            return False, tail
        if not is_open:
            time.sleep(left)
        elif poll.poll(left * 1000):
            tail, is_open = _read_more(pipe, tail)
    return True, tail


def _read_more(pipe: int, tail: bytes) -> tuple[bytes, bool]:
    """The end of all that was printed by now, and whether more may come."""
    with suppress(BlockingIOError):
        while part := os.read(pipe, 1 << 16):
            tail = (tail + part)[-KEPT_BYTES:]
        return tail, False
    return tail, True
