"""Asks a program for the arguments of its parser, in a child that may be killed.

Importing a training program may print, hang, start threads, want a GPU, or end Python:
none of that reaches us. What comes back is the plain JSON of `argument_probe`, cleaned
of everything that could steer a terminal.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from autoexp_tui.backends import argument_probe
from autoexp_tui.backends.argument_schema import VERSION
from autoexp_tui.model.errors import AutoexpError, EnvironmentFailed, UsageError
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.sanitize import clean

LIMIT_SECONDS: Final = 120.0
"""Importing a large framework from a network disk takes long."""
_TAIL_BYTES: Final = 2000
_ELSEWHERE: Final = (
    "--python PATH names an interpreter that has it; --path DIR adds a directory, such "
    "as a checkout"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Whose arguments, and how to get at them."""

    target: str
    """`pkg.mod:function`, or `path/to/file.py:function`."""
    verb: str = ""
    """Of its sub-commands."""
    python: str = ""
    """The interpreter; empty: the one that runs us."""
    paths: tuple[str, ...] = ()
    """Further directories to import from."""
    limit_seconds: float = LIMIT_SECONDS

    def __str__(self) -> str:
        return f"{self.target} {self.verb}".rstrip()


def imported(source: Source) -> dict[str, Any]:
    """The schema of a program's arguments, as its file holds it.

    Raises:
        UsageError: the target is none, stands for no parser, or for an empty one.
        EnvironmentFailed: its module cannot be imported here, or took too long.
    """
    module, colon, attribute = source.target.rpartition(":")
    if not (colon and module and attribute):
        raise UsageError(
            f"{source.target!r} names no function",
            hint="MODULE:FUNCTION or FILE.py:FUNCTION, such as my.train:get_parser",
        )
    answer = _asked(source)
    if "schema" not in answer:
        raise _refused(source, answer)
    found = _cleaned(answer["schema"])
    if not found["arguments"]:
        raise UsageError("its parser has no arguments", source.target, _FORMS)
    return {"autoexp_schema": VERSION, "source": str(source), **found}


# --------------------------------------------------------------------------- the child
def _asked(source: Source) -> Mapping[str, Any]:
    request = {
        "target": source.target,
        "verb": source.verb,
        "paths": source.paths,
        "prog": source.target.rpartition(":")[0],
    }
    words = [
        source.python or sys.executable,
        *("-c", _RUN, str(Path(argument_probe.__file__).absolute())),
        json.dumps(request),
    ]
    with tempfile.TemporaryFile() as said:
        data = _answered(source, words, said)
        with suppress(ValueError):
            answer = json.loads(data)
            if isinstance(answer, dict):
                return answer
        raise EnvironmentFailed(
            f"the import ended without an answer: {_tail(said) or 'it said nothing'}",
            source.target,
            _ELSEWHERE,
        )


def _answered(source: Source, words: Sequence[str], said: IO[bytes]) -> bytes:
    """What the child writes; it and all that it started are gone afterwards."""
    try:
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
            env={**os.environ, **_QUIETLY},
        )
    except OSError as error:
        message = f"cannot be started: {error.strerror}"
        raise EnvironmentFailed(message, words[0], _ELSEWHERE) from error
    try:
        return child.communicate(timeout=source.limit_seconds)[0]
    except subprocess.TimeoutExpired:
        raise EnvironmentFailed(
            f"the import took longer than {source.limit_seconds:g} s",
            source.target,
            "--timeout SECONDS gives it longer; what it said: " + (_tail(said) or "-"),
        ) from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


_RUN: Final = """\
import sys
path = sys.argv.pop(1)
with open(path, encoding="utf-8") as file:
    exec(compile(file.read(), path, "exec"))
"""
"""Run as a file, our modules beside it would hide the program's of the same name."""
_QUIETLY: Final[Mapping[str, str]] = {
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""An import is to take no GPU, and to leave nothing in the program's directories."""


def _tail(said: IO[bytes]) -> str:
    """The last line that the program wrote to its errors."""
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - _TAIL_BYTES))
    lines = said.read().decode("utf-8", "replace").splitlines()
    words = [clean(line).strip() for line in lines]
    return next((line for line in reversed(words) if line), "")[:400]


def _refused(source: Source, answer: Mapping[str, Any]) -> AutoexpError:
    """What the child says is wrong, as an error of ours."""
    message = clean(str(answer.get("error") or "it gave no parser"), limit=1000)
    if "missing" in answer:
        return EnvironmentFailed(message, source.target, _ELSEWHERE)
    hint = str(answer.get("hint") or "")
    with suppress(ValueError, KeyError, TypeError):
        told = json.loads(hint)
        names = [clean(str(name)) for name in told["among"]]
        hint = did_you_mean(str(told["near"]), names, "names")
    return UsageError(message, source.target, clean(hint) or _FORMS)


_FORMS: Final = (
    "a function that returns an argparse parser, takes one and adds to it, or parses "
    "the command line"
)


def _cleaned(value: Any) -> Any:
    """Plain values with harmless texts; spellings of values stay as they are."""
    if isinstance(value, dict):
        return {
            str(key): (_words(item) if key in ("help", "group") else _cleaned(item))
            for key, item in value.items()
        }
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _words(value: object) -> str:
    return " ".join(clean(str(value)).split())
