"""Texts of fake commands, to stand before a real one for a while.

Each is the body of a shell script that finds the real program's path in `$REAL`.
A shim that waits does so in its own process, so that a caller that gives up on it
and kills it leaves nothing running.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote


def accepts_then_hangs(seconds: float = 60.0) -> str:
    """The real command does its work; the caller is left waiting for the answer."""
    return f'"$REAL" "$@" >/dev/null 2>&1\nexec sleep {seconds}\n'


def hangs(seconds: float = 60.0) -> str:
    """Nothing is done and nothing answered."""
    return f"exec sleep {seconds}\n"


def fails(text: str, rc: int = 1) -> str:
    """Nothing is done: `text` on the error output, and exit code `rc`."""
    return f"printf '%s\\n' {quote(text)} >&2\nexit {rc}\n"


def counted(calls: Path) -> str:
    """The real command, after one line with its arguments was added to `calls`."""
    return (
        "line=$(printf '%s ' \"$@\" | tr '\\n' ' ')\n"
        f"printf '%s\\n' \"$line\" >> {quote(str(calls))}\n"
        'exec "$REAL" "$@"\n'
    )


def script(real: str, body: str) -> str:
    """The whole fake command."""
    return f"#!/bin/sh\nREAL={quote(real)}\n{body}"
