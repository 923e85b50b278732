"""What a job runs, from the `backend` section of its config.

`class_name` is one of `BACKENDS` (with or without the suffix Backend, also spelled
`megatron_torchrun`) or a dotted path `pkg.mod:Class` to one's own; see `base.Backend`.
No backend runs anything. The section is open: a key that a backend does not know
belongs to the user (to be read by `${backend.x}`) and is left alone. `container`,
`venv` and `conda` go around any backend's command.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from autoexp_tui.backends.arguments import Arguments
from autoexp_tui.backends.base import WHERE, Backend, Config, Places, problem
from autoexp_tui.backends.command import (
    BashBackend,
    CommandBackend,
    NullBackend,
    PythonBackend,
)
from autoexp_tui.backends.custom import CustomBackend
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
