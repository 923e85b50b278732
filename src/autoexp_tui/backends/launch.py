"""What a job runs, from the `backend` section of its config.

`class_name` is one of `BACKENDS` (with or without the suffix Backend, also spelled
`megatron_torchrun`) or a dotted path `pkg.mod:Class` to one's own; see `base.Backend`.
No backend runs anything. The section is open: a key that a backend does not know
belongs to the user (to be read by `${backend.x}`) and is left alone. `container`,
`venv` and `conda` go around any backend's command.

Code of the user's runs in the planning process alone. What it raises, or gives back
that is no command, becomes a finding that names it. Looking at a directory must run
nothing of it: the working directory is not searched for modules, whatever PYTHONPATH
says, until the config names one.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn, cast

from autoexp_tui.backends.arguments import Arguments
from autoexp_tui.backends.base import (
    WHERE,
    Backend,
    Config,
    Places,
    is_word_list,
    problem,
)
from autoexp_tui.backends.command import (
    BashBackend,
    CommandBackend,
    NullBackend,
    PythonBackend,
)
from autoexp_tui.backends.environment import (
    Environment,
    check_surroundings,
    check_words,
)
from autoexp_tui.backends.megatron import MegatronFsdp, MegatronTorchrun
from autoexp_tui.backends.torchrun import asks_for_gpus
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import Launch, SpecRefused
from autoexp_tui.sweep.schema import shorten_text
from autoexp_tui.text.did_you_mean import did_you_mean

_SEE: Final = "see autoexp_tui.backends.base.Backend"


def search_working_directory() -> None:
    """Search the working directory for modules from now on: the config names one."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


@contextmanager
def skip_working_directory() -> Iterator[None]:
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


BACKENDS: Final[Mapping[str, Callable[[Arguments], Backend]]] = {
    "Null": lambda _: NullBackend(),
    "Python": PythonBackend,
    "Command": lambda _: CommandBackend(),
    "Bash": lambda _: BashBackend(),
    "MegatronTorchrun": MegatronTorchrun,
    "MegatronFsdp": MegatronFsdp,
}
_FOLDED: Final[Mapping[str, str]] = {name.casefold(): name for name in BACKENDS}


class Backends:
    """Makes commands of the configs of one plan; remembers what its jobs share."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._arguments = Arguments(places)
        self._made: dict[str, Backend] = {}
        self._warnings: dict[object, tuple[Problem, ...]] = {}

    def launch(self, config: Config) -> Launch:
        """What a job runs, from its resolved config.

        Raises:
            SpecRefused: with everything that is wrong in `backend`.
        """
        backend = _read_backend(config)
        chosen, found = self._check(backend, config)
        cwd = os.path.join(self._places.cwd, str(backend.get("cwd") or ""))
        cwd = os.path.normpath(cwd)
        around = Environment(backend, config, self._places, cwd)
        _raise_problems((*found, *around.problems()))
        words = tuple(map(str, chosen.command(backend, config)))
        _raise_problems((*check_words(backend, words), *_find_nulls(words)))
        return Launch(
            command=(*chosen.outside(backend, config), *around.words(), *words),
            env=around.variables(chosen.environment(backend, config)),
            cwd=cwd,
            warnings=self._find_warnings(around),
        )

    def _check(
        self, backend: Config, config: Config
    ) -> tuple[Backend, Sequence[Problem]]:
        """The backend, and what it finds wrong.

        Raises:
            SpecRefused: it cannot be had, or something is wrong around it.
        """
        around = check_surroundings(backend)
        try:
            chosen = self._select(backend)
            found = chosen.problems(backend, config)
        except SpecRefused as error:
            raise SpecRefused((*error.problems, *around)) from None
        if around:
            raise SpecRefused((*found, *around))
        return chosen, found

    def _select(self, backend: Config) -> Backend:
        name = backend.get("class_name", "")
        if name is None:  # `class_name: Null`, as likely as not
            hint = 'write "Null" in quotes for the backend that does nothing'
            message = "is null: YAML reads a bare `Null` as no value"
            raise SpecRefused((problem("class_name", message, hint),))
        if not isinstance(name, str) or not name:
            hint = did_you_mean("", BACKENDS, "backends")
            raise SpecRefused((problem("class_name", "is missing", hint),))
        if name not in self._made:
            self._made[name] = (
                CustomBackend(name)
                if ":" in name
                else BACKENDS[_find_name(name)](self._arguments)
            )
        return self._made[name]

    def _find_warnings(self, around: Environment) -> tuple[Problem, ...]:
        """What is odd about the surroundings; looked for once for each of them."""
        given = [around.backend.get(key) for key in ("container", "venv", "conda")]
        if not any(given):
            return ()
        known = (repr(given), asks_for_gpus(around.config))
        if known not in self._warnings:
            self._warnings[known] = tuple(around.warnings())
        return self._warnings[known]


def _raise_problems(problems: tuple[Problem, ...]) -> None:
    if problems:
        raise SpecRefused(problems)


def _read_backend(config: Config) -> Config:
    backend = config.get(WHERE)
    if isinstance(backend, Mapping):
        return cast(Config, backend)
    hint = "backend: {class_name: Python, module: my.train}"
    what = "is missing" if backend is None else f"is {backend!r}, not a mapping"
    raise SpecRefused((Problem(what, where=WHERE, hint=hint),))


def _find_name(name: str) -> str:
    """The name in `BACKENDS` that a config means."""
    folded = name.replace("_", "").casefold()
    for one in (folded, folded.removesuffix("backend")):
        if one in _FOLDED:
            return _FOLDED[one]
    short = name.removesuffix("Backend")
    hint = did_you_mean(short, BACKENDS, "backends") + "; your own: pkg.mod:Class"
    raise SpecRefused((problem("class_name", f"there is no backend `{name}`", hint),))


def _find_nulls(words: Sequence[str]) -> list[Problem]:
    """What no system starts: words with a null character in them."""
    if "\0" not in "".join(words):
        return []
    word = next(word for word in words if "\0" in word)
    message = f"the command has a null character in {shorten_text(repr(word))}"
    return [Problem(message, where=WHERE, hint="take it out: no system starts that")]
