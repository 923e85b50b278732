"""Backends of the user's own, `pkg.mod:Class`: made, and kept from breaking a plan.

Their code runs in the planning process alone. What they raise, or give back that is no
command, becomes a finding that names them.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from autoexp_tui.backends.custom_code import search_working_directory
from autoexp_tui.backends.messages import Config, problem
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.text.did_you_mean import did_you_mean

_KEY: Final = "class_name"
_SEE: Final = "see autoexp_tui.backends.backends.Backend"


class OwnBackend:
    """A user's backend; see `backend_words.Backend` for what it offers."""

    def __init__(self, path: str) -> None:
        """Raises SpecRefused: it cannot be imported or made, or lacks a function."""
        self._path = path
        self._made = _made(path)

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """What it says, when that is a list of findings."""
        found = self._asked("problems", backend, config)
        if isinstance(found, Sequence) and all(isinstance(p, Problem) for p in found):
            return found
        return (self._no_answer("problems", found, "a list of Problem"),)

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """What it says, when that is a list of words."""
        found = self._asked("command", backend, config)
        if is_words(found) and found:
            return tuple(map(str, found))
        raise SpecRefused((self._no_answer("command", found, "a list of words"),))

    def outside(self, backend: Config, config: Config) -> Sequence[str]:
        """The same of `outside`, where it has one."""
        found = self._asked("outside", backend, config, otherwise=())
        if is_words(found):
            return tuple(map(str, found))
        raise SpecRefused((self._no_answer("outside", found, "a list of words"),))

    def environment(self, backend: Config, config: Config) -> Mapping[str, str]:
        """The same of `environment`, where it has one."""
        found = self._asked("environment", backend, config, otherwise={})
        if isinstance(found, Mapping):
            return {str(name): str(value) for name, value in found.items()}
        raise SpecRefused((self._no_answer("environment", found, "a mapping"),))

    def _asked(
        self, name: str, backend: Config, config: Config, otherwise: object = None
    ) -> Any:
        function: Callable[[Config, Config], object] | None
        function = getattr(self._made, name, None)
        if function is None:
            return otherwise
        try:
            return function(backend, config)
        except SpecRefused:
            raise
        except (Exception, SystemExit) as error:
            message = f"`{self._path}` failed in {name}: {_said(error)}"
            raise SpecRefused((problem(_KEY, message, _raised_at(error)),)) from error

    def _no_answer(self, name: str, found: object, wanted: str) -> Problem:
        message = f"`{self._path}` gave {found!r} as its {name}, not {wanted}"
        return problem(_KEY, message, _SEE)


def _said(error: BaseException) -> str:
    """What was raised, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".rstrip(": ").split())


def _raised_at(error: BaseException) -> str:
    """The line of the user's that failed."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"raised at {last.filename}:{last.lineno}"


def is_words(found: object) -> bool:
    """Whether it is a list of texts and numbers."""
    if isinstance(found, str) or not isinstance(found, Sequence):
        return False
    return all(isinstance(word, str | int | float) for word in found)


def _made(path: str) -> object:
    module_name, _, attribute = path.partition(":")
    hint = "the module must be importable from where you start, as pkg.mod:Class"
    search_working_directory()
    try:
        module = importlib.import_module(module_name)
        if not hasattr(module, attribute):
            hint = did_you_mean(attribute, _classes(module), "its classes")
        made: Any = getattr(module, attribute)()
    except (Exception, SystemExit) as error:
        ends = isinstance(error, SystemExit) or not str(error)
        said = _said(error) if ends else " ".join(str(error).split())
        message = f"`{path}` cannot be made: {said}"
        raise SpecRefused((problem(_KEY, message, hint),)) from error
    lacking = [name for name in ("problems", "command") if not hasattr(made, name)]
    if lacking:
        message = f"`{path}` has no function {' and no function '.join(lacking)}"
        raise SpecRefused((problem(_KEY, message, _SEE),))
    return made


def _classes(module: ModuleType) -> list[str]:
    """The classes that a module says, or imports, by name."""
    return [name for name, value in vars(module).items() if isinstance(value, type)]
