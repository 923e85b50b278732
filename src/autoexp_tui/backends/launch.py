"""What a job runs, from the `backend` section of its config.

`class_name` is one of `BACKENDS` (with or without the suffix Backend, also spelled
`megatron_torchrun`) or a dotted path `pkg.mod:Class` to one's own; see `base.Backend`.
The section is open: a key that a backend does not know belongs to the user.

Code of the user's runs in the planning process alone; what it raises becomes a finding.
Looking at a directory must run nothing of it: the working directory is not searched for
modules, whatever PYTHONPATH says, until the config names one.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from autoexp_tui.backends.arguments import Arguments
from autoexp_tui.backends.base import (
    WHERE,
    Backend,
    Config,
    Places,
    is_word_list,
    problem,
)
from autoexp_tui.backends.environment import (
    SURROUNDINGS,
    Environment,
    check_surroundings,
)
from autoexp_tui.backends.kinds import (
    BashBackend,
    CommandBackend,
    MegatronFsdp,
    MegatronTorchrun,
    NullBackend,
    PythonBackend,
)
from autoexp_tui.backends.torchrun import asks_for_gpus
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import Launch, SpecRefused
from autoexp_tui.text.did_you_mean import did_you_mean

T = TypeVar("T")

_SEE: Final = "see autoexp_tui.backends.base.Backend"


def search_working_directory() -> None:
    """Search the working directory for modules from now on: the config names one."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


@contextmanager
def skip_working_directory() -> Iterator[None]:
    """Import nothing from the working directory meanwhile."""
    before, here = list(sys.path), os.path.realpath(os.getcwd())
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
        module_name, _, attribute = path.partition(":")
        hint = "the module must be importable from where you start, as pkg.mod:Class"
        search_working_directory()
        try:
            module = importlib.import_module(module_name)
            if not hasattr(module, attribute):
                names = [k for k, one in vars(module).items() if isinstance(one, type)]
                hint = did_you_mean(attribute, names, "its classes")
            self._made: object = getattr(module, attribute)()
        except (Exception, SystemExit) as error:
            text = "" if isinstance(error, SystemExit) else " ".join(str(error).split())
            message = f"`{path}` cannot be made: {text or _format_error(error)}"
            raise _refuse_class(message, hint) from error
        needed = ("problems", "command")
        lacking = [name for name in needed if not hasattr(self._made, name)]
        if lacking:
            message = f"`{path}` has no function {' and no function '.join(lacking)}"
            raise _refuse_class(message, _SEE)

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        return self._run("problems", _read_problems, backend, config)

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        return self._run("command", _read_words, backend, config)

    def outside(self, backend: Config, config: Config) -> Sequence[str]:
        return self._run("outside", _read_words, backend, config)

    def environment(self, backend: Config, config: Config) -> Mapping[str, str]:
        return self._run("environment", _read_variables, backend, config)

    def _run(self, name: str, read: Callable[[Any], T], *given: Config) -> T:
        """What its function gives back, or the usual, when it can be used."""
        function = getattr(self._made, name, None) or getattr(super(), name)
        try:
            return read(function(*given))
        except SpecRefused:
            raise
        except (Exception, SystemExit) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            message = f"`{self._path}` failed in {name}: {_format_error(error)}"
            hint = f"raised at {last.filename}:{last.lineno}"
            raise _refuse_class(message, hint) from error


def _read_problems(found: Any) -> Sequence[Problem]:
    if not all(isinstance(one, Problem) for one in found):
        raise TypeError(f"{found!r} is no list of Problem")
    return tuple(found)


def _read_words(found: Any) -> Sequence[str]:
    if not is_word_list(found):
        raise TypeError(f"{found!r} is no list of words")
    return tuple(map(str, found))


def _read_variables(found: Any) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in found.items()}


def _refuse_class(message: str, hint: str) -> SpecRefused:
    return SpecRefused((problem("class_name", message, hint),))


def _format_error(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".rstrip(": ").split())


BACKENDS: Final[Mapping[str, Callable[[Arguments], Backend]]] = {
    "Null": lambda _: NullBackend(),
    "Python": PythonBackend,
    "Command": lambda _: CommandBackend(),
    "Bash": lambda _: BashBackend(),
    "MegatronTorchrun": MegatronTorchrun,
    "MegatronFsdp": MegatronFsdp,
}
_FOLDED: Final[Mapping[str, str]] = {name.casefold(): name for name in BACKENDS}


@dataclass(slots=True)
class Backends:
    """Makes commands of the configs of one plan; remembers what its jobs share."""

    places: Places
    _made: dict[str, Backend] = field(default_factory=dict)
    _warnings: dict[object, tuple[Problem, ...]] = field(default_factory=dict)

    def launch(self, config: Config) -> Launch:
        """What a job runs; raises SpecRefused with everything wrong in `backend`."""
        backend = config.get(WHERE)
        if not isinstance(backend, Mapping):
            hint = "backend: {class_name: Python, module: my.train}"
            what = "is missing" if backend is None else f"is {backend!r}, not a mapping"
            raise SpecRefused((Problem(what, where=WHERE, hint=hint),))
        is_bare = all(backend.get(key) is None for key in SURROUNDINGS)
        found = [] if is_bare else check_surroundings(backend)
        try:
            chosen = self._select(backend)
            found[:0] = chosen.problems(backend, config)
        except SpecRefused as error:
            found[:0] = error.problems
        if found:
            raise SpecRefused(tuple(found))
        words = tuple(chosen.command(backend, config))
        if not words:
            raise _refuse_class("gives no command", _SEE)
        made = Launch(
            command=words,
            env=chosen.environment(backend, config),
            cwd=os.path.normpath(
                os.path.join(self.places.cwd, str(backend.get("cwd") or ""))
            ),
        )
        outside = chosen.outside(backend, config)
        made = made if is_bare else self._surround(made, backend, config)
        return replace(made, command=(*outside, *made.command))

    def _surround(self, bare: Launch, backend: Config, config: Config) -> Launch:
        """The command in its container or environment, with all variables."""
        around = Environment(backend, config, self.places, bare.cwd)
        if found := around.problems(bare.command):
            raise SpecRefused(tuple(found))
        # What is odd is looked for once for each of the surroundings.
        given = [backend.get(key) for key in ("container", "venv", "conda")]
        known = (repr(given), asks_for_gpus(config))
        if known not in self._warnings:
            self._warnings[known] = tuple(around.warnings())
        return Launch(
            command=(*around.words(), *bare.command),
            env=around.variables(bare.env),
            cwd=bare.cwd,
            warnings=self._warnings[known],
        )

    def _select(self, backend: Config) -> Backend:
        name = backend.get("class_name", "")
        if name is None:  # `class_name: Null`, as likely as not
            hint = 'write "Null" in quotes for the backend that does nothing'
            raise _refuse_class("is null: YAML reads a bare `Null` as no value", hint)
        if not isinstance(name, str) or not name:
            raise _refuse_class("is missing", did_you_mean("", BACKENDS, "backends"))
        if name not in self._made:
            folded = name.replace("_", "").casefold()
            known = _FOLDED.get(folded) or _FOLDED.get(folded.removesuffix("backend"))
            if ":" in name:
                self._made[name] = CustomBackend(name)
            elif known:
                self._made[name] = BACKENDS[known](Arguments(self.places))
            else:
                near = did_you_mean(name.removesuffix("Backend"), BACKENDS, "backends")
                message = f"there is no backend `{name}`"
                raise _refuse_class(message, f"{near}; your own: pkg.mod:Class")
        return self._made[name]
