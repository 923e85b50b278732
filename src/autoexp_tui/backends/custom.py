"""Backends of the user's own, `pkg.mod:Class`, and where their code comes from.

Their code runs in the planning process alone. What they raise, or give back that is no
command, becomes a finding that names them. Looking at a directory must run nothing of
it: the working directory is not searched for modules, whatever PYTHONPATH says, until
the config names one.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from autoexp_tui.backends.base import Backend, Config, is_word_list, problem
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.text.did_you_mean import did_you_mean

_SEE: Final = "see autoexp_tui.backends.base.Backend"


def search_working_directory() -> None:
    """Search the working directory for modules from now on: the config names one."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


@contextmanager
def working_directory_left_out() -> Iterator[None]:
    """Import nothing from the working directory meanwhile."""
    before = list(sys.path)
    here = os.path.realpath(os.getcwd())
    sys.path[:] = [place for place in before if os.path.realpath(place) != here]
    try:
        yield
    finally:
        sys.path[:] = before


class CustomBackend(Backend):
    """A user's backend; every function raises SpecRefused for what it cannot use."""

    def __init__(self, path: str) -> None:
        """Raises SpecRefused: it cannot be imported or made, or lacks a function."""
        self._path = path
        self._made = _make_instance(path)

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """What it says, when that is a list of findings."""
        found = self._run("problems", (), backend, config)
        if isinstance(found, Sequence) and all(isinstance(p, Problem) for p in found):
            return found
        return self._raise_answer("problems", found, "a list of Problem")

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """What it says, when that is a list of words."""
        found = self._run_words("command", backend, config)
        return found or self._raise_answer("command", found, "a list of words")

    def outside(self, backend: Config, config: Config) -> Sequence[str]:
        """The same of `outside`, where it has one."""
        return self._run_words("outside", backend, config)

    def environment(self, backend: Config, config: Config) -> Mapping[str, str]:
        """The same of `environment`, where it has one."""
        found = self._run("environment", {}, backend, config)
        if isinstance(found, Mapping):
            return {str(name): str(value) for name, value in found.items()}
        return self._raise_answer("environment", found, "a mapping")

    def _run_words(self, name: str, backend: Config, config: Config) -> Sequence[str]:
        found = self._run(name, (), backend, config)
        if is_word_list(found):
            return tuple(map(str, found))
        return self._raise_answer(name, found, "a list of words")

    def _run(self, name: str, default: object, backend: Config, config: Config) -> Any:
        function = getattr(self._made, name, lambda *_: default)
        try:
            return function(backend, config)
        except SpecRefused:
            raise
        except (Exception, SystemExit) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            message = f"`{self._path}` failed in {name}: {_format_error(error)}"
            hint = f"raised at {last.filename}:{last.lineno}"
            raise SpecRefused((problem("class_name", message, hint),)) from error

    def _raise_answer(self, name: str, found: object, wanted: str) -> NoReturn:
        message = f"`{self._path}` gave {found!r} as its {name}, not {wanted}"
        raise SpecRefused((problem("class_name", message, _SEE),))


def _format_error(error: BaseException) -> str:
    """What was raised, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".rstrip(": ").split())


def _make_instance(path: str) -> object:
    module_name, _, attribute = path.partition(":")
    hint = "the module must be importable from where you start, as pkg.mod:Class"
    search_working_directory()
    try:
        module = importlib.import_module(module_name)
        if not hasattr(module, attribute):
            classes = [
                key for key, one in vars(module).items() if isinstance(one, type)
            ]
            hint = did_you_mean(attribute, classes, "its classes")
        made: object = getattr(module, attribute)()
    except (Exception, SystemExit) as error:
        text = "" if isinstance(error, SystemExit) else " ".join(str(error).split())
        message = f"`{path}` cannot be made: {text or _format_error(error)}"
        raise SpecRefused((problem("class_name", message, hint),)) from error
    lacking = [name for name in ("problems", "command") if not hasattr(made, name)]
    if lacking:
        message = f"`{path}` has no function {' and no function '.join(lacking)}"
        raise SpecRefused((problem("class_name", message, _SEE),))
    return made
