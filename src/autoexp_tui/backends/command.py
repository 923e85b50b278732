"""The plain backends: a command as words, a script for bash, and nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from autoexp_tui.backends.base import (
    Backend,
    Config,
    format_word,
    is_word_list,
    problem,
)
from autoexp_tui.model.errors import Problem


class NullBackend(Backend):
    """Runs `true`: for plans that are only looked at, and for tests."""

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """`true`, which ends well at once."""
        return ("true",)


class CommandBackend(Backend):
    """A command as a list of words; no shell sees it."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """Whether `command` is a list of words."""
        command = backend.get("command")
        if isinstance(command, str):
            hint = "write its words as a list, or use class_name: Bash with `script`"
            return (problem("command", "is text, not a list", hint),)
        if command and is_word_list(command):
            return ()
        hint = 'command: [./train.sh, "--lr", "${backend.lr}"]'
        return (problem("command", "must be a list of words", hint),)

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """The words as written."""
        return tuple(map(format_word, cast("Sequence[object]", backend["command"])))


class BashBackend(Backend):
    """A shell script that the user wrote, run by `bash -c`.

    Nothing of ours is pasted into it but what its own `${...}` name. Bash's own
    variables are written `$NAME`, since `${NAME}` belongs to the config.
    """

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """Whether there is a script."""
        script = backend.get("script")
        if isinstance(script, str) and script.strip():
            return ()
        hint = "script: |\n  ./prepare.sh\n  ./train.sh"
        if script is None and backend.get("command") is not None:
            hint = "class_name: Command runs `command`; Bash runs `script`"
        return (problem("script", "must be the text of a script", hint),)

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """`bash -c SCRIPT`."""
        return ("bash", "-c", str(backend["script"]))
