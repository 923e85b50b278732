"""What the backends share: the type of their section, its findings, words of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, cast

from autoexp_tui.model.errors import Problem
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.plain_tree import ABSENT, at

Config: TypeAlias = Mapping[str, object]

WHERE: Final = "backend"


class Backend:
    """What a job runs. A user's own class has the first two functions, or all four."""

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """Everything wrong in the section; `config` is the job's whole config."""
        return ()

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """The words to run, without a shell; asked only when there are no problems."""
        raise NotImplementedError

    def environment(self, backend: Config, config: Config) -> Mapping[str, str]:
        """Variables below those of `backend.env`."""
        return {}

    def outside(self, backend: Config, config: Config) -> Sequence[str]:
        """Words in front of a container or a virtual environment (`srun ...`)."""
        return ()


@dataclass(frozen=True, slots=True)
class Places:
    """Where the backends of one plan look for what a config names, and what is ours."""

    cwd: str
    """Where relative paths start; absolute."""
    state_dir: str = ""
    """Holds the records of jobs; empty: where the config says."""
    config_dirs: tuple[str, ...] = ()
    """Roots of configs, in which the schemas of arguments are."""


class Refused(Exception):
    """A value that cannot be used, and the next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def problem(key: str, message: str, hint: str = "") -> Problem:
    """A finding at a key of the section."""
    return Problem(message, where=f"{WHERE}.{key}", hint=hint)


def format_word(value: object) -> str:
    """A plain value as a word of a command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_section(backend: Config, key: str) -> Config:
    """A mapping inside the section; an absent one, or none at all, is empty."""
    value = backend.get(key)
    return cast(Config, value) if isinstance(value, Mapping) else {}


def find_value(config: Config, path: str) -> object:
    """The value at a dotted path of a resolved config; None where there is none."""
    found: object = at(config, tuple(path.split(".")))
    return None if found is ABSENT else found


class Check(NamedTuple):
    """What a key may hold."""

    accepts: Callable[[object], bool]
    message: str
    """What is wrong otherwise, `{!r}` where the value stands."""
    hint: str = ""

    def find(self, key: str, value: object) -> list[Problem]:
        """What is wrong with the value of a key of the section; null is nothing."""
        return [] if value is None else self.require(key, value)

    def require(self, key: str, value: object) -> list[Problem]:
        """The same of a key that must be there."""
        if self.accepts(value):
            return []
        return [problem(key, self.message.format(value), self.hint)]


def is_word_list(value: object) -> bool:
    """Whether it is a list of nothing but texts, numbers and truths."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return all(isinstance(word, str | int | float) for word in value)


def choice_of(names: Sequence[str]) -> Check:
    accepts = lambda value: value in names  # noqa: E731
    return Check(accepts, f"is {{!r}}; it may be {', '.join(names)}")


TEXT: Final = Check(lambda value: isinstance(value, str), "is {!r}, not text")
FILLED_TEXT: Final = Check(
    lambda value: isinstance(value, str) and bool(value.strip()), "is {!r}, not text"
)
SWITCH: Final = Check(
    lambda value: isinstance(value, bool), "is {!r}; it may be true or false"
)


def check_texts(backend: Config, *names: str) -> list[Problem]:
    """The keys that hold something other than text; null is nothing."""
    return [one for name in names for one in TEXT.find(name, backend.get(name))]


def check_one_given(given: Config, *names: str, place: str = "") -> list[Problem]:
    """What is wrong where exactly one of these keys must be given."""
    count = len([name for name in names if given.get(name)])
    if count == 1:
        return []
    both = " and ".join(names) if count else " or ".join(names)
    what = f"{both} are both given" if count else f"needs {both}"
    return [Problem(what, where=f"{WHERE}.{place}".rstrip("."))]


ANY_KEYS: Final[Mapping[str, Check]] = {}


def check_mapping(
    value: object, place: str, example: str, checks: Mapping[str, Check] = ANY_KEYS
) -> list[Problem]:
    """What is wrong with a mapping at a key of the section; null is nothing. `checks`:
    of all the keys that it may have; none: it may have any."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        return [problem(place, f"is {value!r}, not a mapping", example)]
    found: list[Problem] = []
    for key, item in value.items() if checks else ():
        if key in checks:
            found += checks[key].find(f"{place}.{key}", item)
        else:
            hint = did_you_mean(str(key), checks, "keys")
            found.append(problem(f"{place}.{key}", "is no key here", hint))
    return found
