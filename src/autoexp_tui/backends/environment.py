"""What goes around any backend's command: variables, a container, a venv, conda.

A container is `apptainer exec ...`, without a shell; the runtime hands signals and exit
codes on. Variables go by `APPTAINERENV_NAME`, which takes any text and reaches the
inside of a closed container; the words of `--env` would be split at commas. Options:
https://apptainer.org/docs/user/latest/cli/apptainer_exec.html

For a venv a fixed text of Python, run by the venv's own interpreter, puts the venv
first on the PATH and becomes the command. `conda run` does as much for conda.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from autoexp_tui.backends.base import (
    FILLED_TEXT,
    SWITCH,
    Check,
    Config,
    Places,
    check_mapping,
    check_one_given,
    check_texts,
    find_value,
    format_word,
    is_word_list,
    problem,
)
from autoexp_tui.backends.torchrun import asks_for_gpus
from autoexp_tui.model.errors import Problem
from autoexp_tui.probes.config_files import DEFAULT_STATE_DIR

_RUNTIMES: Final = ("apptainer", "singularity")
"""In the order in which `auto` looks for them."""
_SEES_NOTHING: Final = frozenset({"--cleanenv", "-e", "--containall", "-C", "--compat"})
"""Options with which the variables of the job stay outside."""
_EXAMPLE: Final = "container: {image: /images/train.sif, nv: true, binds: [/data]}"
_CONDA_EXAMPLE: Final = "conda: {prefix: /envs/train}, or {env: NAME}"
_SPLITS: Final = "a comma or a colon in it"
_ELSEWHERE: Final = "right if compute nodes see it under this path"

SURROUNDINGS: Final = ("env", "cwd", "container", "venv", "conda")
"""The keys of the section that this module reads."""

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


def is_elsewhere(backend: Config) -> bool:
    """Whether the command has another Python than ours."""
    around = (backend.get("venv"), backend.get("conda"), _read_container(backend))
    return any(one is not None for one in around)


def _read_container(backend: Config) -> Config | None:
    """What `container` says, an image alone as a mapping; None: there is none."""
    value: Any = backend.get("container")
    if value is False:
        return None
    return {"image": value} if isinstance(value, str) else value


_BIND_OPTION: Final = r"(ro|rw|image-src|id)(=[^:,]*)?"
_BIND_FORM: Final = re.compile(
    rf"[^:,]+(:/[^:,]*(:({_BIND_OPTION}(,{_BIND_OPTION})*)?)?)?", re.DOTALL
)
_BIND: Final = Check(
    lambda value: isinstance(value, str) and bool(_BIND_FORM.fullmatch(value)),
    "is {!r}, which cannot be bound",
    "SOURCE, SOURCE:/TARGET or SOURCE:/TARGET:ro, none with a comma or another colon",
)
_CONTAINER: Final[Mapping[str, Check]] = {
    "image": FILLED_TEXT._replace(message="must be a path or a URI", hint=_EXAMPLE),
    "runtime": Check(
        lambda value: value == "auto" or posixpath.basename(str(value)) in _RUNTIMES,
        "is {!r}, which is not known",
        f"auto, {', '.join(_RUNTIMES)}, or a path that ends in one of them",
    ),
    **dict.fromkeys(("nv", "rocm", "bind_run"), SWITCH),
    "binds": Check(
        lambda value: not value or isinstance(value, list | tuple),
        "is {!r}, not a list",
        "binds: [/data, '/scratch/me:/scratch:ro']",
    ),
    "env": Check(lambda value: True, ""),  # with the variables themselves
    "workdir": Check(
        lambda value: isinstance(value, str) and value.startswith("/"),
        "is {!r}; inside a container a directory is named from / on",
    ),
    "options": Check(
        lambda value: not value or is_word_list(value),
        "must be a list of words",
        'options: ["--cleanenv"]',
    ),
}
_CONDA_PROGRAMS: Final = ("conda", "mamba", "micromamba")
_CONDA: Final[Mapping[str, Check]] = {
    "prefix": FILLED_TEXT,
    "env": FILLED_TEXT,
    "program": Check(
        lambda value: posixpath.basename(str(value)) in _CONDA_PROGRAMS,
        f"is {{!r}}, which is none of {', '.join(_CONDA_PROGRAMS)}",
    ),
}
_VENV: Final = FILLED_TEXT._replace(
    message="is {!r}, not a path", hint="venv: /envs/train"
)


def check_surroundings(backend: Config) -> list[Problem]:
    """What is wrong around the command, whatever the backend is."""
    venv, conda = backend.get("venv"), backend.get("conda")
    found = [
        *_check_variables(
            backend.get("env"),
            "env",
            lambda name: {"=", "\0"}.isdisjoint(name),
            "a variable is text or a number",
        ),
        *check_texts(backend, "cwd"),
        *_check_container(_read_container(backend)),
        *_VENV.find("venv", venv),
        *check_mapping(conda, "conda", _CONDA_EXAMPLE, _CONDA),
    ]
    if isinstance(conda, Mapping):
        found += check_one_given(conda, "prefix", "env", place="conda")
    if venv is not None and conda is not None:
        found.append(problem("conda", "does not go with venv", "leave one of them out"))
    return found


def _check_variables(
    env: Any, place: str, is_name: Callable[[str], bool], message: str
) -> list[Problem]:
    return check_mapping(env, place, "env: {NAME: value}") or [
        problem(f"{place}.{name}", f"is {value!r}; {message}")
        for name, value in (env or {}).items()
        if not isinstance(value, str | int | float | None)
        or "\0" in str(value)
        or not is_name(str(name))
    ]


def _check_container(given: Config | None) -> list[Problem]:
    found = check_mapping(given, "container", _EXAMPLE, _CONTAINER)
    if not isinstance(given, Mapping):
        return found
    if given.get("image") is None:
        found += _CONTAINER["image"].require("container.image", None)
    if given.get("nv") and given.get("rocm"):
        message = "does not go with nv"
        found.append(problem("container.rocm", message, "leave one of them out"))
    binds = given.get("binds")
    for at, bind in enumerate(binds if isinstance(binds, list | tuple) else ()):
        found += _BIND.find(f"container.binds.{at}", bind)
    message = "a variable is a name with text or a number"
    env = given.get("env")
    return found + _check_variables(env, "container.env", str.isidentifier, message)


@dataclass(frozen=True, slots=True)
class Environment:
    """What goes around one job's command, once nothing is wrong with it."""

    backend: Config
    config: Config
    places: Places
    cwd: str
    """Where the command starts, inside as outside unless `workdir` says."""

    def _find_path(self, path: object) -> str:
        return os.path.join(self.places.cwd, os.path.expanduser(str(path)))

    def words(self) -> tuple[str, ...]:
        inside: tuple[str, ...] = ()
        conda: Any = self.backend.get("conda")
        if self.backend.get("venv") is not None:
            home = self._find_path(self.backend["venv"])
            inside = (os.path.join(home, "bin/python"), "-I", "-S", "-c", BECOME, home)
        elif conda is not None:
            program = os.path.expanduser(str(conda.get("program") or "conda"))
            # micromamba never captures, and does not know the option.
            is_micro = posixpath.basename(program) == "micromamba"
            live = () if is_micro else ("--no-capture-output",)
            prefix, name = conda.get("prefix"), conda.get("env")
            which = ("-p", self._find_path(prefix)) if prefix else ("-n", str(name))
            inside = (program, "run", *live, *which)
        given = _read_container(self.backend)
        return inside if given is None else (*self._build_container(given), *inside)

    def _build_container(self, given: Any) -> Sequence[str]:
        """`apptainer exec OPTIONS IMAGE`."""
        words = [_select_runtime(given), "exec"]
        shows = "--nv" if given.get("nv") else "--rocm" if given.get("rocm") else ""
        words += [shows] if shows else []
        covered: list[str] = []
        for bind in given.get("binds") or ():
            source, colon, rest = bind.partition(":")
            words += ["--bind", self._find_path(source) + colon + rest]
            target = rest.partition(":")[0] if colon else os.path.expanduser(source)
            covered.append(os.path.normpath(target))
        for place in self._find_run_directories(given):
            if not any(_is_within(place, other) for other in covered):
                words += ["--bind", place]
        words += ["--pwd", str(given.get("workdir") or self.cwd)]
        image = str(given["image"])
        words += map(format_word, given.get("options") or ())
        return [*words, image if "://" in image else self._find_path(image)]

    def _find_run_directories(self, given: Config) -> Sequence[str]:
        """Directories that a job reads and writes; none within another. The whole of
        `base_output_dir`, since jobs read what others wrote. `/` would hide the
        image."""
        if given.get("bind_run") is False:
            return ()
        config, places = self.config, self.places
        state = places.state_dir or find_value(config, "monitoring.state_dir")
        named = (
            find_value(config, "project.base_output_dir") or "outputs",
            find_value(config, "slurm.log_dir"),
            state or DEFAULT_STATE_DIR,
            self.cwd,
        )
        paths = (os.path.join(places.cwd, str(name)) for name in named if name)
        found = {os.path.normpath(path) for path in paths} - {"/"}
        outer: list[str] = []
        for place in sorted(found, key=lambda place: (place.count("/"), place)):
            if not any(_is_within(place, other) for other in outer):
                outer.append(place)
        return outer

    def problems(self, words: Sequence[str]) -> list[Problem]:
        """Directories that no bind can name, and words that `conda run` refuses."""
        given = _read_container(self.backend)
        hint = "use paths without them, or bind_run: false"
        found = [
            problem("container", f"{place} cannot be bound: it has {_SPLITS}", hint)
            for place in (self._find_run_directories(given) if given else ())
            if not {",", ":"}.isdisjoint(place)
        ]
        if self.backend.get("conda") is not None and "\n" in "".join(words):
            message = "`conda run` takes no word with a line break in it"
            hint = "put the script into a file, and run that"
            found.append(problem("conda", message, hint))
        return found

    def variables(self, below: Mapping[str, str]) -> dict[str, str]:
        """`backend.env` over what the backend sets, and those for the inside."""
        own: Any = self.backend.get("env") or {}
        given: Any = _read_container(self.backend)
        found = _format_variables({**below, **own})
        if given is None:
            return found
        words = map(str, given.get("options") or ())
        inside = {} if _SEES_NOTHING.isdisjoint(words) else dict(found)
        inside |= _format_variables(given.get("env") or {})
        prefix = f"{posixpath.basename(_select_runtime(given)).upper()}ENV_"
        return found | {prefix + name: value for name, value in inside.items()}

    def warnings(self) -> Iterator[Problem]:
        """What may be right on a compute node, and looks wrong from here."""
        venv, conda = self.backend.get("venv"), self.backend.get("conda")
        given: Any = _read_container(self.backend)
        needed: list[tuple[str, object]] = []
        if given is not None:
            is_auto = (given.get("runtime") or "auto") == "auto"
            if is_auto and find_runtime(os.environ.get("PATH", "")) is None:
                message = "neither apptainer nor singularity is on the PATH here"
                hint = "apptainer is taken; `runtime` names another, or its whole path"
                yield problem("container.runtime", message, hint)
            options = set(map(str, given.get("options") or ()))
            is_said = any(given.get(key) is not None for key in ("nv", "rocm"))
            is_shown = is_said or options & {"--nv", "--rocm", "--nvccli"}
            if asks_for_gpus(self.config) and not is_shown:
                message = "the job asks for GPUs, and the container is shown none"
                hint = "nv: true (NVIDIA) or rocm: true (AMD)"
                yield problem("container", message, hint)
            sources = [bind.partition(":")[0] for bind in given.get("binds") or ()]
            needed = [("container.binds", source) for source in sources]
            if "://" not in str(given["image"]):
                needed.insert(0, ("container.image", given["image"]))
        elif venv is not None:
            needed = [("venv", os.path.join(str(venv), "bin/python"))]
        elif isinstance(conda, Mapping):
            program = os.path.expanduser(str(conda.get("program") or "conda"))
            if shutil.which(program) is None:
                hint = "`program` names it by its whole path"
                message = f"{program} is not on the PATH here"
                yield problem("conda.program", message, hint)
            needed = [("conda.prefix", conda.get("prefix") or "/")]
        for key, path in needed:
            place = self._find_path(path)
            # A venv's interpreter may be a link that only nodes can follow.
            if not os.path.lexists(place):
                yield problem(key, f"{place} is not here", _ELSEWHERE)


def _select_runtime(container: Config) -> str:
    """The runtime's name or path; `auto`: which of them this machine has."""
    name = str(container.get("runtime") or "auto")
    if name == "auto":
        return find_runtime(os.environ.get("PATH", "")) or _RUNTIMES[0]
    return os.path.expanduser(name)


@lru_cache(maxsize=8)
def find_runtime(path: str) -> str | None:
    """The first runtime on a PATH: every job asks, and disks may be slow."""
    return next((one for one in _RUNTIMES if shutil.which(one, path=path)), None)


def _format_variables(env: Mapping[str, object]) -> dict[str, str]:
    return {
        name: format_word(value) for name, value in env.items() if value is not None
    }


def _is_within(place: str, other: str) -> bool:
    return place == other or place.startswith(other.rstrip("/") + "/")
