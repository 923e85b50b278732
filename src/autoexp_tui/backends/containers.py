"""A container around any backend's command: `apptainer exec ...`, without a shell.

`backend.container` is a mapping (or an image alone). Signals and exit codes pass
through: the runtime becomes the command, or hands both on. Variables go by
`APPTAINERENV_NAME`, which takes any text and reaches the inside of a container that is
closed to others; the words of `--env` would be split at commas.

Options: https://apptainer.org/docs/user/latest/cli/apptainer_exec.html
"""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

from autoexp_tui.backends.messages import (
    Config,
    Places,
    is_word_list,
    problem,
    spelled,
    unknown_keys,
    within,
)
from autoexp_tui.model.errors import Problem
from autoexp_tui.probes.config_files import DEFAULT_STATE_DIR

KEY: Final = "container"
KEYS: Final = (
    "image", "runtime", "nv", "rocm", "binds", "bind_run", "env", "workdir", "options",
)  # fmt: skip
RUNTIMES: Final = ("apptainer", "singularity")
"""In the order in which `auto` looks for them."""
_BIND_OPTIONS: Final = ("ro", "rw", "image-src", "id")
_SEES_NOTHING: Final = frozenset({"--cleanenv", "-e", "--containall", "-C", "--compat"})
"""Options with which the variables of the job stay outside."""
_EXAMPLE: Final = "container: {image: /images/train.sif, nv: true, binds: [/data]}"


def settings(backend: Config) -> Config | None:
    """What `container` says, an image alone as a mapping; None: there is none."""
    value = backend.get(KEY)
    if value is None or value is False:
        return None
    if isinstance(value, str):
        return {"image": value}
    return cast(Config, value)


# ---------------------------------------------------------------------------- problems
def problems_of(backend: Config) -> list[Problem]:
    """Everything wrong with `container`, as far as it can be told from its text."""
    written = backend.get(KEY)
    if written not in (None, False) and not isinstance(written, str | Mapping):
        return [problem(KEY, f"is {written!r}, not a mapping", _EXAMPLE)]
    given = settings(backend)
    if given is None:
        return []
    found = unknown_keys(given, KEYS, KEY)
    image = given.get("image")
    if not isinstance(image, str) or not image.strip():
        found.append(problem(f"{KEY}.image", "must be a path or a URI", _EXAMPLE))
    found += _wrong_texts(given)
    found += _wrong_flags(given)
    found += _wrong_binds(given)
    found += _wrong_env(given.get("env"))
    if not is_word_list(given.get("options") or ()):
        hint = 'options: ["--cleanenv"]'
        found.append(problem(f"{KEY}.options", "must be a list of words", hint))
    return found


def _wrong_texts(given: Config) -> Iterator[Problem]:
    for key in ("runtime", "workdir"):
        value = given.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            yield problem(f"{KEY}.{key}", f"is {value!r}, not text")
    runtime = given.get("runtime")
    if isinstance(runtime, str) and not _is_runtime(runtime):
        hint = f"auto, {', '.join(RUNTIMES)}, or a path that ends in one of them"
        yield problem(f"{KEY}.runtime", f"is {runtime!r}, which is not known", hint)
    place = given.get("workdir")
    if isinstance(place, str) and place and not place.startswith("/"):
        message = f"is {place!r}; inside a container a directory is named from / on"
        yield problem(f"{KEY}.workdir", message)


def _is_runtime(name: str) -> bool:
    return name == "auto" or posixpath.basename(name) in RUNTIMES


def _wrong_flags(given: Config) -> Iterator[Problem]:
    for key in ("nv", "rocm", "bind_run"):
        value = given.get(key)
        if value is not None and not isinstance(value, bool):
            yield problem(f"{KEY}.{key}", f"is {value!r}; it may be true or false")
    if given.get("nv") and given.get("rocm"):
        yield problem(f"{KEY}.rocm", "does not go with nv", "leave one of them out")


def _wrong_binds(given: Config) -> Iterator[Problem]:
    binds = given.get("binds") or ()
    if not isinstance(binds, Sequence) or isinstance(binds, str):
        hint = "binds: [/data, '/scratch/me:/scratch:ro']"
        yield problem(f"{KEY}.binds", f"is {binds!r}, not a list", hint)
        return
    for at, bind in enumerate(binds):
        message = _wrong_bind(bind)
        if message:
            hint = "SOURCE, SOURCE:TARGET, or SOURCE:TARGET:ro"
            yield problem(f"{KEY}.binds.{at}", message, hint)


def _wrong_bind(bind: object) -> str:
    """What is wrong with one bind; empty: nothing."""
    if not isinstance(bind, str) or not bind:
        return f"is {bind!r}, not text"
    if "," in bind.rpartition(":")[0] or ("," in bind and ":" not in bind):
        return f"is {bind!r}; a comma begins another bind, write one an entry"
    source, target, *rest = (*bind.split(":"), "")[: bind.count(":") + 2]
    options = [part for part in rest if part]
    if bind.count(":") > 2:
        return f"is {bind!r}, which has more than three parts"
    if not source:
        return f"is {bind!r}, which has no source"
    if bind.count(":") and not target.startswith("/"):
        return f"is {bind!r}; its target is named from / on, not {target!r}"
    for option in ",".join(options).split(",") if options else ():
        if option.partition("=")[0] not in _BIND_OPTIONS:
            return f"is {bind!r}; {option!r} is no option of a bind"
    return ""


def _wrong_env(env: object) -> Iterator[Problem]:
    if env is None:
        return
    if not isinstance(env, Mapping):
        yield problem(f"{KEY}.env", f"is {env!r}, not a mapping", "env: {NAME: value}")
        return
    for name, value in env.items():
        is_text = isinstance(value, str | int | float | None)
        if not is_text or not str(name).isidentifier() or "\0" in str(value):
            message = f"is {value!r}; a variable is a name with text or a number"
            yield problem(f"{KEY}.env.{name}", message)


# ---------------------------------------------------------------------------- warnings
def doubts(
    backend: Config, places: Places, *, asks_for_gpus: bool
) -> Iterator[Problem]:
    """What may be right on a compute node, and looks wrong from here."""
    given = settings(backend)
    if given is None:
        return
    image = str(given["image"])
    if "://" not in image and not os.path.exists(_whole(image, places.cwd)):
        message = f"{image} is not here"
        hint = "right if compute nodes see it under this path"
        yield problem(f"{KEY}.image", message, hint)
    if _runtime(given, here=True) is None:
        message = "neither apptainer nor singularity is on the PATH here"
        hint = "apptainer is taken; `runtime` names another, or its whole path"
        yield problem(f"{KEY}.runtime", message, hint)
    if asks_for_gpus and not _shows_gpus(given):
        message = "the job asks for GPUs, and the container is shown none"
        yield problem(KEY, message, "nv: true (NVIDIA) or rocm: true (AMD)")
    for bind in cast("Sequence[str]", given.get("binds") or ()):
        source = _whole(bind.partition(":")[0], places.cwd)
        if not os.path.exists(source):
            message = f"{source} is not here; a bind whose source is missing fails"
            hint = "right if compute nodes see it under this path"
            yield problem(f"{KEY}.binds", message, hint)


def _shows_gpus(given: Config) -> bool:
    options = {
        str(word) for word in cast("Sequence[object]", given.get("options") or ())
    }
    is_said = given.get("nv") is not None or given.get("rocm") is not None
    return is_said or bool({"--nv", "--rocm", "--nvccli"} & options)


# ------------------------------------------------------------------------------- words
def words(given: Config, config: Config, places: Places, cwd: str) -> tuple[str, ...]:
    """`apptainer exec OPTIONS IMAGE`; the command follows.

    `cwd`: where the command starts, inside as outside unless `workdir` says.
    """
    runtime = _runtime(given, here=False) or RUNTIMES[0]
    options = ["--nv"] if given.get("nv") else ["--rocm"] if given.get("rocm") else []
    for bind in _binds(given, config, places, cwd):
        options += ["--bind", bind]
    options += ["--pwd", str(given.get("workdir") or cwd)]
    more = cast("Sequence[object]", given.get("options") or ())
    image = str(given["image"])
    image = image if "://" in image else _whole(image, places.cwd)
    return (runtime, "exec", *options, *map(spelled, more), image)


def _runtime(given: Config, *, here: bool) -> str | None:
    """The runtime's name or path; `auto`: which of them this machine has.

    `here`: None where it is to be found on the PATH and is not.
    """
    name = str(given.get("runtime") or "auto")
    if name != "auto":
        return os.path.expanduser(name)
    found = _installed(shutil.which, os.environ.get("PATH", ""))
    return found if here else found or RUNTIMES[0]


@lru_cache(maxsize=8)
def _installed(which: Callable[[str], str | None], path: str) -> str | None:
    """The first runtime on the PATH: asked for by every job, and as slow as its disks.

    `path`: what `which` looks through.
    """
    return next((one for one in RUNTIMES if which(one)), None)


def _binds(given: Config, config: Config, places: Places, cwd: str) -> Iterator[str]:
    """The user's own, and each directory of the run that none of them covers."""
    own = [str(bind) for bind in cast("Sequence[object]", given.get("binds") or ())]
    yield from (_anchored(bind, places) for bind in own)
    if given.get("bind_run") is False:
        return
    covered = [_target(bind) for bind in own]
    for place in _of_the_run(config, places, cwd):
        if not any(_is_within(place, other) for other in covered):
            covered.append(place)
            yield place


def _anchored(bind: str, places: Places) -> str:
    """A bind whose source is a whole path."""
    source, colon, rest = bind.partition(":")
    return _whole(source, places.cwd) + colon + rest


def _whole(path: str, cwd: str) -> str:
    return os.path.join(cwd, os.path.expanduser(path))


def _target(bind: str) -> str:
    parts = bind.split(":")
    return os.path.normpath(os.path.expanduser(parts[1] if len(parts) > 1 else bind))


def _is_within(place: str, other: str) -> bool:
    return place == other or place.startswith(other.rstrip("/") + "/")


def _of_the_run(config: Config, places: Places, cwd: str) -> Sequence[str]:
    """Directories that a job reads and writes, outer ones first; none within another.

    The whole of `base_output_dir`, since jobs read what others wrote. `/` would hide
    the image.
    """
    state = places.state_dir or within(config, "monitoring.state_dir")
    named = (
        within(config, "project.base_output_dir") or "outputs",
        within(config, "slurm.log_dir"),
        state or DEFAULT_STATE_DIR,
        cwd,
    )
    found = {
        os.path.normpath(os.path.join(places.cwd, str(name))) for name in named if name
    }
    outer: list[str] = []
    for place in sorted(found - {"/"}, key=lambda place: (place.count("/"), place)):
        if not any(_is_within(place, other) for other in outer):
            outer.append(place)
    return outer


def unbindable(
    backend: Config, config: Config, places: Places, cwd: str
) -> list[Problem]:
    """Directories of the run that no bind can name."""
    given = settings(backend)
    if given is None or given.get("bind_run") is False:
        return []
    hint = "use paths without them, or bind_run: false"
    return [
        problem(KEY, f"{place} cannot be bound: it has a comma or a colon in it", hint)
        for place in _of_the_run(config, places, cwd)
        if "," in place or ":" in place
    ]


def environment(given: Config, env: Mapping[str, str]) -> dict[str, str]:
    """Variables for the inside, beside those that it takes from the outside by itself.

    `env`: those of the job; repeated for a container that is closed to others.
    """
    runtime = _runtime(given, here=False) or RUNTIMES[0]
    prefix = f"{posixpath.basename(runtime).upper()}ENV_"
    own = cast(Config, given.get("env") or {})
    inside = dict(env) if _is_closed(given) else {}
    inside |= {name: spelled(value) for name, value in own.items() if value is not None}
    return {prefix + name: value for name, value in inside.items()}


def _is_closed(given: Config) -> bool:
    more = cast("Sequence[object]", given.get("options") or ())
    return any(str(word) in _SEES_NOTHING for word in more)
