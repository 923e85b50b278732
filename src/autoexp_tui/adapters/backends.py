"""Backends: what a job's `backend` subtree makes the job run.

`class_name` is one of `BACKENDS` (with or without the suffix Backend) or a dotted path
`pkg.mod:Class` to one's own. A backend has two functions (see `Backend`); neither runs
anything. The subtree is open: a key that a backend does not know belongs to the user
(to be read by `${backend.x}`) and is left alone.

How values become arguments of `Python`: `key: value` is `--key value`; `true` is the
bare flag and `false` or `null` leaves it out; a list gives the flag once and then every
item; a mapping is refused. Underscores in keys become dashes unless
`underscores: keep`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast

from autoexp_tui.core.errors import Problem
from autoexp_tui.plan.near import did_you_mean
from autoexp_tui.plan.ports import Launch, SpecRefused

Config: TypeAlias = Mapping[str, object]

_WHERE: Final = "backend"


class Backend(Protocol):
    """What a user's own class offers; it is made without arguments."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """Everything wrong in the subtree; `config` is the job's whole config."""
        ...

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """The words to run, without a shell; asked only when there are no problems."""
        ...


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

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """What is missing, doubled, or of the wrong type."""
        found = list(_one_of(backend, ("module", "script")))
        found += _each_text(backend, ("module", "script", "python", "verb"))
        found += _arguments_problems(backend.get("args"))
        style = backend.get("underscores", "dash")
        if style not in ("dash", "keep"):
            found.append(
                _problem("underscores", f"is {style!r}; it may be dash or keep")
            )
        if not _is_word_list(backend.get("positional", ())):
            found.append(_problem("positional", "must be a list of texts or numbers"))
        return found

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """`python -m module verb --key value ... positional ...`."""
        python = str(backend.get("python") or sys.executable)
        program = _program(backend)
        verb = [str(backend["verb"])] if backend.get("verb") else []
        dashes = backend.get("underscores", "dash") == "dash"
        args = cast(Config, backend.get("args") or {})
        positional = cast("Sequence[object]", backend.get("positional") or ())
        words = [spelled(value) for value in positional]
        return (python, *program, *verb, *_flags(args, dashes=dashes), *words)


class CommandBackend:
    """A command as a list of words; no shell sees it."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """Whether `command` is a list of words."""
        command = backend.get("command")
        if isinstance(command, str):
            hint = "write its words as a list, or use class_name: Bash with `script`"
            return (_problem("command", "is text, not a list", hint),)
        if not command or not _is_word_list(command):
            hint = 'command: [./train.sh, "--lr", "${backend.lr}"]'
            return (_problem("command", "must be a list of words", hint),)
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
        return (_problem("script", "must be the text of a script", hint),)

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """`bash -c SCRIPT`."""
        return ("bash", "-c", str(backend["script"]))


BACKENDS: Final[Mapping[str, Callable[[], Backend]]] = {
    "Null": NullBackend,
    "Python": PythonBackend,
    "Command": CommandBackend,
    "Bash": BashBackend,
}


def launch(config: Config, cwd: str) -> Launch:
    """What a job runs, from its resolved config.

    `cwd`: where it runs when `backend.cwd` does not say; absolute.

    Raises:
        SpecRefused: with everything that is wrong in `backend`.
    """
    backend = _subtree(config)
    chosen = _chosen(backend.get("class_name"))
    problems = [*chosen.problems(backend, config), *_environment_problems(backend)]
    problems += _each_text(backend, ("cwd",))
    if problems:
        raise SpecRefused(tuple(problems))
    return Launch(
        command=tuple(map(str, chosen.command(backend, config))),
        env=_environment(backend),
        cwd=os.path.normpath(os.path.join(cwd, str(backend.get("cwd") or ""))),
    )


def spelled(value: object) -> str:
    """A value as one word of a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _subtree(config: Config) -> Config:
    backend = config.get(_WHERE)
    if isinstance(backend, Mapping):
        return cast(Config, backend)
    hint = "backend: {class_name: Python, module: my.train}"
    what = "is missing" if backend is None else f"is {backend!r}, not a mapping"
    raise SpecRefused((Problem(what, where=_WHERE, hint=hint),))


def _chosen(name: object) -> Backend:
    if not isinstance(name, str) or not name:
        hint = did_you_mean("", BACKENDS, "backends")
        raise SpecRefused((_problem("class_name", "is missing", hint),))
    if ":" in name:
        return _imported(name)
    short = name.removesuffix("Backend")
    if short in BACKENDS:
        return BACKENDS[short]()
    hint = did_you_mean(short, BACKENDS, "backends") + "; your own: pkg.mod:Class"
    raise SpecRefused((_problem("class_name", f"there is no backend `{name}`", hint),))


def _imported(path: str) -> Backend:
    """A user's own class; their code runs in the planning process alone."""
    module_name, _, attribute = path.partition(":")
    try:
        made: Any = getattr(importlib.import_module(module_name), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        hint = "the module must be importable from where you start, as pkg.mod:Class"
        message = f"`{path}` cannot be made: {error}"
        raise SpecRefused((_problem("class_name", message, hint),)) from error
    lacking = [name for name in ("problems", "command") if not hasattr(made, name)]
    if lacking:
        message = f"`{path}` has no function {' and no function '.join(lacking)}"
        hint = "see autoexp_tui.adapters.backends.Backend"
        raise SpecRefused((_problem("class_name", message, hint),))
    return cast(Backend, made)


# ------------------------------------------------------------------------- arguments
def _program(backend: Config) -> tuple[str, ...]:
    module = backend.get("module")
    return ("-m", str(module)) if module else (str(backend["script"]),)


def _flags(args: Config, *, dashes: bool) -> list[str]:
    words: list[str] = []
    for key, value in args.items():
        flag = "--" + (key.replace("_", "-") if dashes else key)
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            words += [flag, *map(spelled, value)]
        else:
            words += [flag, spelled(value)]
    return words


def _arguments_problems(args: object) -> list[Problem]:
    if args is None:
        return []
    if not isinstance(args, Mapping):
        return [_problem("args", f"is {args!r}, not a mapping", "args: {lr: 0.001}")]
    return [
        _problem(
            f"args.{key}", "is a mapping or a nested list; flags take plain values"
        )
        for key, value in args.items()
        if isinstance(value, Mapping)
        or (isinstance(value, list) and not _is_word_list(value))
    ]


def _is_word_list(value: object) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return all(isinstance(word, str | int | float) for word in value)


def _one_of(backend: Config, names: Sequence[str]) -> list[Problem]:
    given = [name for name in names if backend.get(name)]
    if len(given) == 1:
        return []
    both = " and ".join(names) if given else " or ".join(names)
    what = f"{both} are both given" if given else f"needs {both}"
    return [Problem(what, where=_WHERE)]


def _each_text(backend: Config, names: Sequence[str]) -> list[Problem]:
    return [
        _problem(name, f"is {value!r}, not text")
        for name in names
        if (value := backend.get(name)) is not None and not isinstance(value, str)
    ]


# ----------------------------------------------------------------------- environment
def _environment_problems(backend: Config) -> list[Problem]:
    env = backend.get("env")
    if env is None:
        return []
    if not isinstance(env, Mapping):
        return [_problem("env", f"is {env!r}, not a mapping", "env: {NAME: value}")]
    return [
        _problem(f"env.{name}", f"is {value!r}; a variable is text or a number")
        for name, value in env.items()
        if not isinstance(value, str | int | float | None)
        or "=" in str(name)
        or "\0" in f"{name}{value}"
    ]


def _environment(backend: Config) -> dict[str, str]:
    """`backend.env` as text; null leaves a variable out."""
    env = cast(Config, backend.get("env") or {})
    return {name: spelled(value) for name, value in env.items() if value is not None}


def _problem(key: str, message: str, hint: str = "") -> Problem:
    return Problem(message, where=f"{_WHERE}.{key}", hint=hint)
