"""A repository that was made by others, read without running anything of theirs.

Its own configuration may name programs: filters, drivers of diffs, hooks, a watcher of
files, ssh. Whoever looks at a directory has not agreed to them. They are all switched
off on the command line, which wins over every file; files under a filter are then
compared as they lie. Submodules, with configurations of their own, are not entered.
The configurations of the user and of the machine are not read: one state is always told
in one form."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.text.sanitize import clean_line

_SECONDS: Final = 20.0
_PART: Final = 1 << 16
_MOST_COMPLAINT: Final = 4096
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
    "LANGUAGE": "C",
    "LC_ALL": "C",
    **dict.fromkeys(("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS"), "false"),
}


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


_PASSING: Final = (
    *("No space left", "Disk quota", ".lock': File exists"),
    "unable to create temporary file",  # `git gc` took the directory away just now
)


class GitFailed(EnvironmentFailed):
    """git refused; the problem is its own first line."""


class Repository:
    def __init__(
        self, directory: Path, *options: str, settings: Mapping[str, str] = _NOTHING
    ) -> None:
        """Switch off what its configuration would run; `options` stand before each
        command, `settings` come on top; raises EnvironmentFailed."""
        self._base = ("git", "-C", str(directory), *options)
        self._settings = {**_SETTINGS, **settings}
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
        """As `run`, for 20 s at most; nothing where git refuses."""
        try:
            return self.run(words, most=most, seconds=_SECONDS)
        except GitFailed:
            return b"", False

    def run(
        self,
        words: Sequence[str],
        *,
        most: int,
        seconds: float,
        data: bytes = b"",
        options: Sequence[str] = (),
        environment: Mapping[str, str] = _NOTHING,
    ) -> tuple[bytes, bool]:
        """What one command says that is fed `data`: `most` bytes of it, and whether
        there was more; raises GitFailed, or EnvironmentFailed without git, and after
        `seconds`."""
        off = [f"{key}={value}" for key, value in self._settings.items()]
        settings = [word for setting in off for word in ("-c", setting)]
        command = [*self._base, *options, *settings, *words]
        pipe, env = subprocess.PIPE, {**os.environ, **_ENVIRONMENT, **environment}
        try:
            with open_fed(data) as fed:
                # Not through GitPython: each step of a search would load it (0.1 s).
                running = subprocess.Popen(
                    command, stdin=fed, stdout=pipe, stderr=pipe, env=env
                )
        except OSError as error:
            raise EnvironmentFailed(f"git did not answer: {error}") from error
        with running as process:
            said, status, complaint = _read_answer(process, most, seconds)
        if status != 0 and len(said) <= most:
            problem = clean_line(complaint.decode("utf-8", "replace"))
            passing = any(text in problem for text in _PASSING)
            hint = f"In the repository {self._base[2]}."
            problem = problem or f"it ended with {status}"
            raise GitFailed(problem, f"git {words[0]}", hint, passing)
        return said[:most], len(said) > most


def open_fed(data: bytes) -> IO[bytes]:
    """A file without a name for a program to read `data` from."""
    if not data:
        return open(os.devnull, "rb")
    from tempfile import TemporaryFile  # of most steps nothing is fed

    fed = TemporaryFile()  # noqa: SIM115
    fed.write(data)
    fed.seek(0)
    return fed


def _read_answer(
    process: subprocess.Popen[bytes], most: int, seconds: float
) -> tuple[bytes, int, bytes]:
    """More than `most` bytes only by the last part, the status, and the beginning of
    the complaint; the rest of that is read, so that nobody waits."""
    deadline, data, complaint = time.monotonic() + seconds, bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for stream, kept in ((process.stdout, data), (process.stderr, complaint)):
            assert stream is not None
            selector.register(stream, selectors.EVENT_READ, kept)
        while selector.get_map() and len(data) <= most:
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else ()
            if not ready:
                process.kill()
                problem = f"git did not answer: nothing for {seconds:g} s"
                raise EnvironmentFailed(problem)
            for key, _ in ready:
                key.data.extend(part := os.read(key.fd, _PART))
                if not part:
                    selector.unregister(key.fileobj)
            del complaint[_MOST_COMPLAINT:]
    if len(data) > most:
        process.kill()
    return bytes(data), process.wait(), bytes(complaint)
