"""A Python program: `module` or `script`, `verb`, `args`, `positional`.

`args`: see `arguments`. Underscores in keys become dashes unless `underscores: keep`.
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
)
from autoexp_tui.model.errors import Problem

_UNDERSCORES: Final = Check(
    lambda value: value in ("dash", "keep"), "is {!r}; it may be dash or keep"
)
_POSITIONAL: Final = Check(is_word_list, "must be a list of texts or numbers")


class PythonBackend(Backend):
    """`python -m module verb --key value ... positional ...`."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """What is missing, doubled, or of the wrong type."""
        return [
            *check_one_given(backend, "module", "script"),
            *check_texts(backend, "module", "script", "python", "verb"),
            *_UNDERSCORES.find("underscores", backend.get("underscores")),
            *_POSITIONAL.find("positional", backend.get("positional")),
            *self._arguments.check(backend, "args", backend.get("args")),
        ]

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """The interpreter, the program, and its arguments."""
        verb = [str(backend["verb"])] if backend.get("verb") else []
        dashes = backend.get("underscores") != "keep"
        args = backend.get("args")
        positional = cast("Sequence[object]", backend.get("positional") or ())
        return (
            _select_python(backend),
            *format_program(backend),
            *verb,
            *self._arguments.words(backend, "args", args, dashes=dashes),
            *map(format_word, positional),
        )


def format_program(backend: Config) -> tuple[str, ...]:
    """`-m MODULE`, or the script."""
    module = backend.get("module")
    return ("-m", str(module)) if module else (str(backend["script"]),)


def _select_python(backend: Config) -> str:
    """The interpreter: the one that runs us, unless the command runs elsewhere."""
    default = "python" if environment.is_elsewhere(backend) else sys.executable
    return str(backend.get("python") or default)
