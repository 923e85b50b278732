"""Backends: what a job's `backend` subtree makes the job run.

`class_name` is one of `BACKENDS` (with or without the suffix Backend, also spelled
`megatron_torchrun`) or a dotted path `pkg.mod:Class` to one's own. A backend has two
functions (see `backend_words.Backend`); neither runs anything. The subtree is open: a
key that a backend does not know belongs to the user (to be read by `${backend.x}`) and
is left alone. `container`, `venv` and `conda` go around any backend's command.

How values become arguments of `Python`: `key: value` is `--key value`; `true` is the
bare flag and `false` or `null` leaves it out; a list gives the flag once and then every
item; a mapping is refused. Underscores in keys become dashes unless
`underscores: keep`. With a `schema` the program's own spelling is known, and every
argument is checked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from autoexp_tui.backends import containers
from autoexp_tui.backends import python_environments as python_homes
from autoexp_tui.backends.argument_flags import flags, problems_of_flags
from autoexp_tui.backends.custom_backends import OwnBackend
from autoexp_tui.backends.megatron import MegatronFsdp, MegatronTorchrun
from autoexp_tui.backends.messages import (
    WHERE,
    Backend,
    Config,
    Places,
    each_text,
    is_word_list,
    one_of,
    problem,
    section,
    spelled,
)
from autoexp_tui.backends.schemas import Schemas
from autoexp_tui.backends.torchrun import asks_for_gpus
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import Launch, SpecRefused
from autoexp_tui.sweep.schema import shown
from autoexp_tui.text.did_you_mean import did_you_mean

__all__ = ["BACKENDS", "Backend", "Backends", "Places", "launch"]


class NullBackend:
    """Runs `true`: for plans that are only looked at, and for tests."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """None, ever."""
        return ()

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """`true`, which ends well at once."""
        return ("true",)


class PythonBackend:
    """A Python program: `module` or `script`, `verb`, `args`, `positional`."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """What is missing, doubled, or of the wrong type."""
        found = list(one_of(backend, ("module", "script")))
        found += each_text(backend, ("module", "script", "python", "verb"))
        wrong = problems_of_flags(backend.get("args"), "args")
        found += wrong
        style = backend.get("underscores", "dash")
        if style not in ("dash", "keep"):
            message = f"is {style!r}; it may be dash or keep"
            found.append(problem("underscores", message))
        if not is_word_list(backend.get("positional", ())):
            found.append(problem("positional", "must be a list of texts or numbers"))
        checker, refused = self._schemas.of(backend, "args")
        found += refused
        if checker is not None:
            found += checker.besides(backend.get("args"), wrong)
        return found

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """`python -m module verb --key value ... positional ...`."""
        verb = [str(backend["verb"])] if backend.get("verb") else []
        positional = cast("Sequence[object]", backend.get("positional") or ())
        words = [spelled(value) for value in positional]
        return (
            *(_python(backend), *_program(backend), *verb),
            *(*self._arguments(backend), *words),
        )

    def _arguments(self, backend: Config) -> Sequence[str]:
        args = section(backend, "args")
        checker, _ = self._schemas.of(backend, "args")
        if checker is not None:
            return checker.rendered(args).words
        return flags(args, dashes=backend.get("underscores", "dash") == "dash")


def _python(backend: Config) -> str:
    """The interpreter: the one that runs us, unless the command runs elsewhere."""
    is_elsewhere = containers.settings(backend) or python_homes.has_home(backend)
    return str(backend.get("python") or ("python" if is_elsewhere else sys.executable))


class CommandBackend:
    """A command as a list of words; no shell sees it."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """Whether `command` is a list of words."""
        command = backend.get("command")
        if isinstance(command, str):
            hint = "write its words as a list, or use class_name: Bash with `script`"
            return (problem("command", "is text, not a list", hint),)
        if not command or not is_word_list(command):
            hint = 'command: [./train.sh, "--lr", "${backend.lr}"]'
            return (problem("command", "must be a list of words", hint),)
        return ()

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """The words as written."""
        words = cast("Sequence[object]", backend["command"])
        return tuple(spelled(word) for word in words)


class BashBackend:
    """A shell script that the user wrote, run by `bash -c`.

    Nothing of ours is pasted into it but what its own `${...}` name. Bash's own
    variables are written `$NAME`, since `${NAME}` belongs to the config.
    """

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """Whether there is a script."""
        script = backend.get("script")
        if isinstance(script, str) and script.strip():
            return ()
        hint = "script: |\n  ./prepare.sh\n  ./train.sh"
        if script is None and backend.get("command") is not None:
            hint = "class_name: Command runs `command`; Bash runs `script`"
        return (problem("script", "must be the text of a script", hint),)

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """`bash -c SCRIPT`."""
        return ("bash", "-c", str(backend["script"]))


BACKENDS: Final[Mapping[str, Callable[[Schemas], Backend]]] = {
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
        self._schemas = Schemas(places)
        self._made: dict[str, Backend] = {}
        self._doubts: dict[object, tuple[Problem, ...]] = {}

    def launch(self, config: Config) -> Launch:
        """What a job runs, from its resolved config.

        Raises:
            SpecRefused: with everything that is wrong in `backend`.
        """
        backend = _subtree(config)
        try:
            chosen = self._chosen(backend)
        except SpecRefused as error:
            raise SpecRefused((*error.problems, *_of_every(backend))) from None
        cwd = os.path.join(self._places.cwd, str(backend.get("cwd") or ""))
        cwd = os.path.normpath(cwd)
        problems = chosen.problems(backend, config)
        around = _of_every(backend)
        if not around:
            around += containers.unbindable(backend, config, self._places, cwd)
        if problems or around:
            raise SpecRefused((*problems, *around))
        words = tuple(map(str, chosen.command(backend, config)))
        refused = [*python_homes.unsayable(backend, words), *_no_words(words)]
        if refused:
            raise SpecRefused(tuple(refused))
        given = containers.settings(backend)
        inside = python_homes.words(backend, self._places)
        if given is not None:
            inside = (*containers.words(given, config, self._places, cwd), *inside)
        env = _environment(backend, _more(chosen, "environment", backend, config) or {})
        if given is not None:
            env |= containers.environment(given, env)
        return Launch(
            command=(*_more(chosen, "outside", backend, config), *inside, *words),
            env=env,
            cwd=cwd,
            warnings=self._looked_at(backend, config),
        )

    def _chosen(self, backend: Config) -> Backend:
        name = backend.get("class_name", "")
        if name is None:  # `class_name: Null`, as likely as not
            hint = 'write "Null" in quotes for the backend that does nothing'
            message = "is null: YAML reads a bare `Null` as no value"
            raise SpecRefused((problem("class_name", message, hint),))
        if not isinstance(name, str) or not name:
            hint = did_you_mean("", BACKENDS, "backends")
            raise SpecRefused((problem("class_name", "is missing", hint),))
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._new(name)
        return made

    def _new(self, name: str) -> Backend:
        if ":" in name:
            return OwnBackend(name)
        return BACKENDS[_listed(name)](self._schemas)

    def _looked_at(self, backend: Config, config: Config) -> tuple[Problem, ...]:
        """What is odd about the surroundings; looked for once for each of them."""
        around = tuple(backend.get(key) for key in _AROUND)
        if not any(around):
            return ()
        wants = asks_for_gpus(config)
        mark = (repr(around), wants)
        if mark not in self._doubts:
            found = containers.doubts(backend, self._places, asks_for_gpus=wants)
            homes: Sequence[Problem] = ()
            if containers.settings(backend) is None:
                homes = tuple(python_homes.doubts(backend, self._places))
            self._doubts[mark] = (*found, *homes)
        return self._doubts[mark]


_AROUND: Final = (containers.KEY, python_homes.VENV, python_homes.CONDA)


def launch(config: Config, cwd: str) -> Launch:
    """What one job runs, from its resolved config.

    `cwd`: where it runs when `backend.cwd` does not say; absolute.

    Raises:
        SpecRefused: with everything that is wrong in `backend`.
    """
    return Backends(Places(cwd)).launch(config)


def _subtree(config: Config) -> Config:
    backend = config.get(WHERE)
    if isinstance(backend, Mapping):
        return cast(Config, backend)
    hint = "backend: {class_name: Python, module: my.train}"
    what = "is missing" if backend is None else f"is {backend!r}, not a mapping"
    raise SpecRefused((Problem(what, where=WHERE, hint=hint),))


def _of_every(backend: Config) -> list[Problem]:
    """What is wrong whatever the backend is."""
    return [
        *_environment_problems(backend),
        *each_text(backend, ("cwd",)),
        *containers.problems_of(backend),
        *python_homes.problems_of(backend),
    ]


def _listed(name: str) -> str:
    """The name in `BACKENDS` that a config means."""
    for short in (name, name.removesuffix("Backend")):
        if short in BACKENDS:
            return short
    folded = name.replace("_", "").casefold()
    for short in (folded, folded.removesuffix("backend")):
        if short in _FOLDED:
            return _FOLDED[short]
    short = name.removesuffix("Backend")
    hint = did_you_mean(short, BACKENDS, "backends") + "; your own: pkg.mod:Class"
    raise SpecRefused((problem("class_name", f"there is no backend `{name}`", hint),))


def _more(made: object, name: str, backend: Config, config: Config) -> Any:
    """What a backend offers beside its two functions; empty where it does not."""
    function = getattr(made, name, None)
    return () if function is None else function(backend, config)


def _program(backend: Config) -> tuple[str, ...]:
    module = backend.get("module")
    return ("-m", str(module)) if module else (str(backend["script"]),)


def _no_words(words: Sequence[str]) -> list[Problem]:
    """What no system starts: words with a null character in them."""
    if "\0" not in "".join(words):
        return []
    word = next(word for word in words if "\0" in word)
    message = f"the command has a null character in {shown(repr(word))}"
    return [Problem(message, where=WHERE, hint="take it out: no system starts that")]


# ----------------------------------------------------------------------- environment
def _environment_problems(backend: Config) -> list[Problem]:
    env = backend.get("env")
    if env is None:
        return []
    if not isinstance(env, Mapping):
        return [problem("env", f"is {env!r}, not a mapping", "env: {NAME: value}")]
    return [
        problem(f"env.{name}", f"is {value!r}; a variable is text or a number")
        for name, value in env.items()
        if not isinstance(value, str | int | float | None)
        or "=" in str(name)
        or "\0" in f"{name}{value}"
    ]


def _environment(backend: Config, below: Mapping[str, str]) -> dict[str, str]:
    """`backend.env` as text, over what the backend sets; null leaves a variable out."""
    env = {**below, **cast(Config, backend.get("env") or {})}
    return {name: spelled(value) for name, value in env.items() if value is not None}
