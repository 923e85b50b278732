"""What rules do on this machine: a command of the user's, a line in a file.

Each is done once, without a shell; whoever asked settles what came of it.
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
        """Add `text` as whole lines, durable before this returns; raises OSError.

        So it does where the file, links resolved, does not lie below `below`.
        """
        place = Path(path) if below else Path(path).expanduser()
        home, real = os.path.realpath(below or "/"), os.path.realpath(place)
        if below and (os.path.commonpath([home, real]) != home or real == home):
            problem = f"it would be {real}, outside of {home}; an absolute path may"
            raise OSError(errno.EPERM, problem, str(place))
        make_private(place.parent, self.modes.directory)
        flags = os.O_RDWR | os.O_APPEND
        with os.fdopen(open_with_mode(place, flags, self.modes.file), "ab") as file:
            line = text if text.endswith("\n") else f"{text}\n"
            end = os.fstat(file.fileno()).st_size
            is_open = end > 0 and os.pread(file.fileno(), 1, end - 1) != b"\n"
            file.write((b"\n" if is_open else b"") + line.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
