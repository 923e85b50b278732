"""A repository that was made by others, read without running anything of theirs.

Its own configuration may name programs: filters, drivers of diffs, hooks, a watcher of
files, ssh. Whoever looks at a directory has not agreed to them. They are all switched
off on the command line, which wins over every file; files under a filter are then
compared as they lie. Submodules, with configurations of their own, are not entered.
The configurations of the user and of the machine are not read: one state is always told
in one form."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from autoexp_tui.model.errors import EnvironmentFailed

# GitPython looks for git when it is imported, and fails then where there is none; here
# it is to fail when git is called.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

from git.cmd import Git
from git.exc import GitCommandNotFound

_SECONDS: Final = 20.0
_SETTINGS: Final[Mapping[str, str]] = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.editor": "false",
    "core.pager": "cat",
    # Its warnings would fill the pipe that nobody reads.
    "core.safecrlf": "false",
    "diff.external": "",
    "gpg.program": "false",
    "log.showSignature": "false",
    "protocol.allow": "never",
    # Who owns a directory does not matter where nothing of it runs.
    "safe.directory": "*",
    "submodule.recurse": "false",
}
_DRIVERS: Final = (
    r"^(filter|diff|merge)\..*"
    r"\.(clean|smudge|process|required|command|textconv|driver)$"
)
_ENVIRONMENT: Final = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    **dict.fromkeys(("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS"), "false"),
}


class Repository:
    def __init__(self, directory: Path) -> None:
        """Switch off what its configuration would run; raises EnvironmentFailed."""
        self._directory = directory
        self._settings = dict(_SETTINGS)
        words = ("config", "--name-only", "-z", "--get-regexp", _DRIVERS)
        names, more = self.read(*words, most=1 << 20)
        if more:
            problem = "the repository's configuration names too many programs"
            raise EnvironmentFailed(problem)
        for name in filter(None, names.decode("utf-8", "surrogateescape").split("\0")):
            if "=" in name or "\n" in name:
                problem = f"the repository's configuration names a program: {name!r}"
                raise EnvironmentFailed(problem)
            self._settings[name] = "false" if name.endswith(".required") else ""

    def read(self, *words: str, most: int) -> tuple[bytes, bool]:
        """What git says, `most` bytes of it, and whether there was more; nothing when
        it fails; raises EnvironmentFailed without git, and after 20 s."""
        off = [f"{key}={value}" for key, value in self._settings.items()]
        settings = [word for setting in off for word in ("-c", setting)]
        command = ["git", "-C", str(self._directory), *settings, *words]
        try:
            # `running` ends its process when it is forgotten.
            running = Git().execute(command, as_process=True, env=_ENVIRONMENT)
        except (OSError, GitCommandNotFound) as error:
            raise EnvironmentFailed(f"git did not answer: {error}") from error
        assert running.proc is not None
        with running.proc as process:
            watch = threading.Timer(_SECONDS, process.kill)
            watch.start()
            assert process.stdout is not None
            data = process.stdout.read(most + 1)
            cut = len(data) > most
            if cut:
                process.kill()
            status = process.wait()
            is_late = not watch.is_alive()
            watch.cancel()
        if is_late and status < 0:
            raise EnvironmentFailed(f"git did not answer: nothing for {_SECONDS:g} s")
        return (data[:most], cut) if cut or status == 0 else (b"", False)
