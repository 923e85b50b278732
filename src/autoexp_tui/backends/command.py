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
    FILLED_TEXT,
    Backend,
    Check,
    Config,
    check_one_given,
    check_texts,
    choice_of,
    format_word,
    is_word_list,
)
from autoexp_tui.model.errors import Problem


class NullBackend(Backend):
    """Runs `true`: for plans that are only looked at, and for tests."""

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        return ("true",)


_WORDS: Final = Check(
    lambda value: bool(value) and is_word_list(value),
    "is {!r}, not a list of words",
    'command: [./train.sh, "--lr", "${backend.lr}"]; class_name: Bash runs `script`',
)
_SCRIPT: Final = FILLED_TEXT._replace(
    message="is {!r}, not the text of a script",
    hint="script: |\n  ./prepare.sh\n  ./train.sh",
)


class CommandBackend(Backend):
    """A command as a list of words; no shell sees it."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        return _WORDS.require("command", backend.get("command"))

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        return tuple(map(format_word, cast("Sequence[object]", backend["command"])))


class BashBackend(Backend):
    """A shell script that the user wrote, run by `bash -c`. Nothing of ours is pasted
    into it but what its own `${...}` name. Bash's own variables are written `$NAME`,
    since `${NAME}` belongs to the config."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        return _SCRIPT.require("script", backend.get("script"))

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        return ("bash", "-c", str(backend["script"]))


_UNDERSCORES: Final = choice_of(("dash", "keep"))
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
