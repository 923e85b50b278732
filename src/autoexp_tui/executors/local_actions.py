"""What rules do on this machine: a command of the user's, a line in a file.

Each is done once; whoever asked settles what came of it. No shell, and nothing here
decides whether it is to be done.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoexp_tui.model.facts import CommandResult
from autoexp_tui.probes.bounded_command import run_bounded
from autoexp_tui.storage.atomic import PRIVATE, Modes, make_private, open_with_mode


@dataclass(frozen=True, slots=True)
class LocalErrands:
    """Implements `engine.ports.Errands`."""

    modes: Modes = PRIVATE
    """Of files and directories that are made."""

    def run(
        self,
        command: Sequence[str],
        timeout: float,
        env: Mapping[str, str],
        cwd: str,
    ) -> CommandResult:
        """Run a command to its end, or to its time limit, with all that it started."""
        return run_bounded(command, timeout, env=env, cwd=cwd)

    def append(self, path: str, text: str, below: str = "") -> None:
        """Add `text` as whole lines, durable before this returns.

        A last line that somebody left open is ended first, so that two never mix.

        Raises:
            OSError: the file or its directory cannot be made or written, or the file
                does not lie below `below`.
        """
        place = Path(path) if below else Path(path).expanduser()
        if below:
            _require_below(place, below)
        make_private(place.parent, self.modes.directory)
        flags = os.O_RDWR | os.O_APPEND
        with os.fdopen(open_with_mode(place, flags, self.modes.file), "ab") as file:
            line = text if text.endswith("\n") else f"{text}\n"
            opened = _ends_open(file.fileno())
            file.write((b"\n" if opened else b"") + line.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())


def _require_below(place: Path, below: str) -> None:
    """The file, links on the way resolved, lies in the directory."""
    home, real = os.path.realpath(below), os.path.realpath(place)
    if os.path.commonpath([home, real]) != home or real == home:
        problem = f"it would be {real}, outside of {home}; an absolute path may"
        raise OSError(errno.EPERM, problem, str(place))


def _ends_open(file: int) -> bool:
    """Whether the last line has no end."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"
