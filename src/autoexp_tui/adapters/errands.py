"""What rules do on this machine: a command of the user's, a line in a file.

Each is done once; whoever asked settles what came of it. No shell, and nothing here
decides whether it is to be done.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoexp_tui.adapters.bounded_command import run_bounded
from autoexp_tui.core.facts import CommandResult


class LocalErrands:
    """Implements `engine.ports.Errands`."""

    def run(
        self,
        command: Sequence[str],
        timeout: float,
        env: Mapping[str, str],
        cwd: str,
    ) -> CommandResult:
        """Run a command to its end, or to its time limit, with all that it started."""
        return run_bounded(command, timeout, env=env, cwd=cwd)

    def append(self, path: str, text: str) -> None:
        """Add `text` as whole lines, durable before this returns.

        A last line that somebody left open is ended first, so that two never mix.

        Raises:
            OSError: the file or its directory cannot be made or written.
        """
        place = Path(path).expanduser()
        place.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with os.fdopen(os.open(place, flags, 0o666), "ab") as file:
            line = text if text.endswith("\n") else f"{text}\n"
            opened = _ends_open(file.fileno())
            file.write((b"\n" if opened else b"") + line.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())


def _ends_open(file: int) -> bool:
    """Whether the last line has no end."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"
