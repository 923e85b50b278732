"""A virtual environment around any backend's command: `venv: PATH`, `conda: {...}`.

For a venv a fixed text of Python, run by the venv's own interpreter, puts the venv
first on the PATH and then becomes the command: programs and scripts of the venv are
found by all that the command starts, too. `conda run` does as much for conda, and
runs the scripts of activation. No shell sees the words of the command.
"""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from autoexp_tui.backends.messages import (
    Config,
    Places,
    problem,
    unknown_keys,
)
from autoexp_tui.model.errors import Problem

VENV: Final = "venv"
CONDA: Final = "conda"
_CONDA_KEYS: Final = ("prefix", "env", "program")
_RUNS: Final = ("conda", "mamba", "micromamba")

BECOME: Final = """\
import os, sys
home, command = sys.argv[1], sys.argv[2:]
os.environ["VIRTUAL_ENV"] = home
path = os.environ.get("PATH", os.defpath)
os.environ["PATH"] = os.path.join(home, "bin") + os.pathsep + path
os.environ.pop("PYTHONHOME", None)
try:
    os.execvp(command[0], command)
except FileNotFoundError:
    sys.stderr.write("command not found: %s\\n" % command[0])
    sys.exit(127)
except OSError as error:
    sys.stderr.write("cannot start %s: %s\\n" % (command[0], error.strerror))
    sys.exit(126)
"""
"""Exit codes are those of a shell. Any Python 3 understands it."""


def has_home(backend: Config) -> bool:
    """Whether there is a virtual environment around the command."""
    return backend.get(VENV) is not None or backend.get(CONDA) is not None


# ---------------------------------------------------------------------------- problems
def problems_of(backend: Config) -> list[Problem]:
    """Everything wrong with `venv` and `conda`, as far as it can be told from here."""
    venv, conda = backend.get(VENV), backend.get(CONDA)
    found = []
    if venv is not None and (not isinstance(venv, str) or not venv.strip()):
        found.append(problem(VENV, f"is {venv!r}, not a path", "venv: /envs/train"))
    if conda is not None:
        found += _wrong_conda(conda)
    if venv is not None and conda is not None:
        found.append(problem(CONDA, "does not go with venv", "leave one of them out"))
    return found


def _wrong_conda(conda: object) -> Iterator[Problem]:
    hint = "conda: {prefix: /envs/train}, or {env: NAME}"
    if not isinstance(conda, Mapping):
        yield problem(CONDA, f"is {conda!r}, not a mapping", hint)
        return
    yield from unknown_keys(conda, _CONDA_KEYS, CONDA)
    for key in _CONDA_KEYS:
        value = conda.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            yield problem(f"{CONDA}.{key}", f"is {value!r}, not text")
    given = [key for key in ("prefix", "env") if conda.get(key)]
    if len(given) != 1:
        what = "prefix and env are both given" if given else "needs prefix or env"
        yield problem(CONDA, what, hint)
    program = conda.get("program")
    if isinstance(program, str) and posixpath.basename(program) not in _RUNS:
        message = f"is {program!r}, which is none of {', '.join(_RUNS)}"
        yield problem(f"{CONDA}.program", message)


def unsayable(backend: Config, words: Sequence[str]) -> list[Problem]:
    """Words that `conda run` refuses."""
    if backend.get(CONDA) is None or not any("\n" in word for word in words):
        return []
    message = "`conda run` takes no word with a line break in it"
    hint = "put the script into a file, and run that"
    return [problem(CONDA, message, hint)]


def doubts(backend: Config, places: Places) -> Iterator[Problem]:
    """What may be right on a compute node, and looks wrong from here."""
    elsewhere = "right if compute nodes see it under this path"
    venv = backend.get(VENV)
    if isinstance(venv, str):
        python = _python_of(_whole(venv, places))
        if not os.path.lexists(python):
            yield problem(VENV, f"{python} is not here", elsewhere)
        return
    conda = backend.get(CONDA)
    if not isinstance(conda, Mapping):
        return
    prefix = conda.get("prefix")
    if prefix and not os.path.isdir(_whole(str(prefix), places)):
        yield problem(f"{CONDA}.prefix", f"{prefix} is not here", elsewhere)
    program = os.path.expanduser(str(conda.get("program") or CONDA))
    if shutil.which(program) is None:
        hint = "`program` names it by its whole path"
        yield problem(f"{CONDA}.program", f"{program} is not on the PATH here", hint)


# ------------------------------------------------------------------------------- words
def words(backend: Config, places: Places) -> tuple[str, ...]:
    """What stands in front of the command; empty where there is no environment."""
    venv = backend.get(VENV)
    if venv is not None:
        home = _whole(str(venv), places)
        return (_python_of(home), "-I", "-S", "-c", BECOME, home)
    conda = backend.get(CONDA)
    return _conda_run(cast(Config, conda), places) if conda is not None else ()


def _python_of(home: str) -> str:
    return os.path.join(home, "bin", "python")


def _whole(path: str, places: Places) -> str:
    return os.path.join(places.cwd, os.path.expanduser(path))


def _conda_run(conda: Config, places: Places) -> tuple[str, ...]:
    program = os.path.expanduser(str(conda.get("program") or CONDA))
    # micromamba never captures, and does not know the option.
    is_micro = posixpath.basename(program) == "micromamba"
    live = () if is_micro else ("--no-capture-output",)
    if conda.get("prefix"):
        return (program, "run", *live, "-p", _whole(str(conda["prefix"]), places))
    return (program, "run", *live, "-n", str(conda["env"]))
