"""The plain backends: a command, a script for bash, a Python program, nothing at all.

The arguments of a Python program: see `arguments`. Underscores in keys become dashes
unless `underscores: keep`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, cast

from autoexp_tui.backends import environment
from autoexp_tui.backends.arguments import Arguments
from autoexp_tui.backends.base import (
    Backend,
    Check,
    Config,
    check_one_given,
    check_texts,
    format_word,
    is_word_list,
    problem,
)
from autoexp_tui.model.errors import Problem


class NullBackend(Backend):
    """Runs `true`: for plans that are only looked at, and for tests."""

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        return ("true",)


class CommandBackend(Backend):
    """A command as a list of words; no shell sees it."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        command = backend.get("command")
        if isinstance(command, str):
            hint = "write its words as a list, or use class_name: Bash with `script`"
            return (problem("command", "is text, not a list", hint),)
        if command and is_word_list(command):
            return ()
        hint = 'command: [./train.sh, "--lr", "${backend.lr}"]'
        return (problem("command", "must be a list of words", hint),)

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        return tuple(map(format_word, cast("Sequence[object]", backend["command"])))


class BashBackend(Backend):
    """A shell script that the user wrote, run by `bash -c`.

    Nothing of ours is pasted into it but what its own `${...}` name. Bash's own
    variables are written `$NAME`, since `${NAME}` belongs to the config.
    """

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        script = backend.get("script")
        if isinstance(script, str) and script.strip():
            return ()
        hint = "script: |\n  ./prepare.sh\n  ./train.sh"
        if script is None and backend.get("command") is not None:
            hint = "class_name: Command runs `command`; Bash runs `script`"
        return (problem("script", "must be the text of a script", hint),)

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        return ("bash", "-c", str(backend["script"]))


_UNDERSCORES: Final = Check(
    lambda value: value in ("dash", "keep"), "is {!r}; it may be dash or keep"
)
_POSITIONAL: Final = Check(is_word_list, "must be a list of texts or numbers")


class PythonBackend(Backend):
    """`python -m module verb --key value ... positional ...`."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        return [
            *check_one_given(backend, "module", "script"),
            *check_texts(backend, "module", "script", "python", "verb"),
            *_UNDERSCORES.find("underscores", backend.get("underscores")),
            *_POSITIONAL.find("positional", backend.get("positional")),
            *self._arguments.check(backend, "args", backend.get("args")),
        ]

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        # The interpreter that runs us, unless the command runs elsewhere.
        default = "python" if environment.is_elsewhere(backend) else sys.executable
        verb = [str(backend["verb"])] if backend.get("verb") else []
        dashes = backend.get("underscores") != "keep"
        positional = cast("Sequence[object]", backend.get("positional") or ())
        return (
            str(backend.get("python") or default),
            *format_program(backend),
            *verb,
            *self._arguments.words(backend, "args", backend.get("args"), dashes=dashes),
            *map(format_word, positional),
        )


def format_program(backend: Config) -> tuple[str, ...]:
    """`-m MODULE`, or the script."""
    module = backend.get("module")
    return ("-m", str(module)) if module else (str(backend["script"]),)
