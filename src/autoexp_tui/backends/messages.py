"""What the backends share: their subtree's type, its findings, and texts of values.

Nothing here knows a single backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, cast

from autoexp_tui.model.errors import Problem
from autoexp_tui.text.did_you_mean import did_you_mean

Config: TypeAlias = Mapping[str, object]

WHERE: Final = "backend"


class Backend(Protocol):
    """What a user's own class offers; it is made without arguments.

    It may also have `environment(backend, config)`, variables below those of
    `backend.env`, and `outside(backend, config)`, words that stand in front of a
    container or a virtual environment (`srun ...`).
    """

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """Everything wrong in the subtree; `config` is the job's whole config."""
        ...

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """The words to run, without a shell; asked only when there are no problems."""
        ...


@dataclass(frozen=True, slots=True)
class Places:
    """Where the backends of one plan look for what a config names, and what is ours."""

    cwd: str
    """Where relative paths start; absolute."""
    state_dir: str = ""
    """Holds the records of jobs; empty: where the config says."""
    config_dirs: tuple[str, ...] = ()
    """Roots of configs, in which the schemas of arguments are."""


def problem(key: str, message: str, hint: str = "") -> Problem:
    """A finding at a key of the subtree."""
    return Problem(message, where=f"{WHERE}.{key}", hint=hint)


def spelled(value: object) -> str:
    """A value as one word of a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def is_word_list(value: object) -> bool:
    """Whether it is a list of nothing but texts, numbers and truths."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return all(isinstance(word, str | int | float) for word in value)


def one_of(backend: Config, names: Sequence[str]) -> list[Problem]:
    """What is wrong where exactly one of these keys must be given."""
    given = [name for name in names if backend.get(name)]
    if len(given) == 1:
        return []
    both = " and ".join(names) if given else " or ".join(names)
    what = f"{both} are both given" if given else f"needs {both}"
    return [Problem(what, where=WHERE)]


def each_text(backend: Config, names: Sequence[str]) -> list[Problem]:
    """The keys that hold something other than text; null is nothing."""
    return [
        problem(name, f"is {value!r}, not text")
        for name in names
        if (value := backend.get(name)) is not None and not isinstance(value, str)
    ]


def section(backend: Config, key: str) -> Config:
    """A mapping inside the subtree; an absent one, or none at all, is empty."""
    value = backend.get(key)
    return cast(Config, value) if isinstance(value, Mapping) else {}


def unknown_keys(found: Config, known: Iterable[str], place: str) -> list[Problem]:
    """The keys of a closed mapping inside the subtree that it does not have."""
    names = tuple(known)
    return [
        problem(f"{place}.{key}", "is no key here", did_you_mean(key, names, "keys"))
        for key in found
        if key not in names
    ]


def within(config: Config, path: str) -> object:
    """The value at a dotted path of a resolved config; None where there is none."""
    value: object = config
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
