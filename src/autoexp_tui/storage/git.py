"""The one place that calls git, so that no repository makes it run a program.

A repository's own configuration may name programs: filters, drivers of diffs, hooks, a
watcher of files, ssh. Whoever looks at a directory has not agreed to them. They are
all switched off on the command line, which wins over every file; files under a filter
are then compared as they lie. Submodules, with configurations of their own, are not
entered.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_SECONDS: Final = 20.0
_OFF: Final[Mapping[str, str]] = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.editor": "false",
    "core.pager": "cat",
    "diff.external": "",
    "gpg.program": "false",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "submodule.recurse": "false",
}
_DRIVERS: Final = (
    r"^(filter|diff|merge)\..*"
    r"\.(clean|smudge|process|required|command|textconv|driver)$"
)
_ENVIRONMENT: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
}
_PROGRAMS: Final = ("GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS")
"""Variables that name a program."""


class Unsafe(OSError):
    """A repository names a program in a way that cannot be switched off."""


class Git:
    """git in one directory."""

    def __init__(self, directory: Path) -> None:
        """Find out what its configuration would run.

        Raises:
            OSError: there is no git, or something cannot be switched off.
            TimeoutExpired: it took too long.
        """
        self._directory = directory
        self._settings = dict(_OFF)
        self._settings |= dict(self._drivers())

    def _drivers(self) -> Iterator[tuple[str, str]]:
        """Settings that switch the drivers off which the configuration names."""
        words = ("config", "--name-only", "-z", "--get-regexp", _DRIVERS)
        names, more = self.read(*words, most=1 << 20)
        if more:
            raise Unsafe("the repository's configuration names too many programs")
        for name in filter(None, names.decode("utf-8", "surrogateescape").split("\0")):
            if "=" in name or "\n" in name:
                raise Unsafe(
                    f"the repository's configuration names a program: {name!r}"
                )
            yield name, "false" if name.endswith(".required") else ""

    def read(self, *words: str, most: int) -> tuple[bytes, bool]:
        """What git says, `most` bytes of it, and whether there was more.

        Nothing when git fails. It takes no lock, and is ended as soon as it has said
        enough.

        Raises:
            OSError: there is no git.
            TimeoutExpired: it took too long.
        """
        settings = [
            word
            for key, value in self._settings.items()
            for word in ("-c", f"{key}={value}")
        ]
        command = ("git", "-C", str(self._directory), *settings, *words)
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
        ) as process:
            watch = threading.Timer(_SECONDS, process.kill)
            watch.start()
            try:
                assert process.stdout is not None
                data = process.stdout.read(most + 1)
                cut = len(data) > most
                if cut:
                    process.kill()
                status = process.wait()
            finally:
                late = not watch.is_alive()
                watch.cancel()
        if late and status < 0:
            raise subprocess.TimeoutExpired(command, _SECONDS)
        return (data[:most], cut) if cut or status == 0 else (b"", False)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _PROGRAMS}
    return kept | _ENVIRONMENT
