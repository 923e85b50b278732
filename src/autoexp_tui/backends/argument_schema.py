"""The arguments of a program as its argparse parser tells them, read from a file.

`autoexp-import-args` writes such files (see `argument_import`), `NAME.schema.json` with
`"autoexp_schema": 1`. An *action* is one `add_argument`; several may set the same
destination, such as `--fp8` and `--no-fp8`. Nothing here imports the program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from autoexp_tui.backends.messages import Places
from autoexp_tui.text.did_you_mean import did_you_mean

VERSION: Final = 1
SUFFIX: Final = ".schema.json"
FOLDER: Final = "args"
"""Of a root of configs: where schemas are looked for by name."""

PLAIN_TYPES: Final = frozenset({"int", "float", "str", "bool"})
"""Types whose values can be judged without the program."""
TAKES_VALUES: Final = frozenset({"store", "append", "extend", "other"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One `add_argument`."""

    dest: str
    options: tuple[str, ...] = ()
    """Spellings as they stand on a command line; none: it goes by position."""
    action: str = "store"
    """store, true, false, const, count, append, append_const, extend, boolean, other"""
    nargs: str | int | None = None
    type: str = "str"
    """One of `PLAIN_TYPES`, or the name of a function of the program's."""
    choices: tuple[object, ...] = ()
    const: object = None
    required: bool = False
    group: str = ""
    help: str = ""

    @property
    def flag(self) -> str:
        """The spelling that is used: the first long one."""
        return _longest_kind(self.options)

    @property
    def refusal(self) -> str:
        """Of a `boolean`, the spelling that turns it off."""
        return _longest_kind([o for o in self.options if o.startswith("--no-")])

    @property
    def is_list(self) -> bool:
        """Whether its value is a list."""
        return self.action in ("append", "extend") or self.nargs not in (None, "?")


def _longest_kind(options: Sequence[str]) -> str:
    long_ones = [option for option in options if option[:2] == option[:1] * 2]
    return (long_ones or list(options) or [""])[0]


@dataclass(frozen=True, slots=True)
class Alone:
    """Destinations of which one may be given; argparse's exclusive group."""

    dests: tuple[str, ...]
    required: bool = False


@dataclass(frozen=True)
class Schema:
    """All arguments of a program."""

    actions: tuple[Action, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    """By destination; one that is no plain value is not there."""
    alone: tuple[Alone, ...] = ()
    source: str = ""
    prefix_chars: str = "-"
    from_file_chars: str = ""

    @cached_property
    def by_dest(self) -> Mapping[str, tuple[Action, ...]]:
        """The actions that set a destination."""
        found: dict[str, list[Action]] = {}
        for action in self.actions:
            found.setdefault(action.dest, []).append(action)
        return {dest: tuple(actions) for dest, actions in found.items()}

    @cached_property
    def by_alias(self) -> Mapping[str, Action]:
        """Other spellings of keys: options without their dashes, `_` for `-`."""
        found: dict[str, Action] = {}
        for action in self.actions:
            for option in action.options:
                key = option.lstrip(self.prefix_chars).replace("-", "_")
                if key not in self.by_dest and not _turns_off(action, option):
                    found.setdefault(key, action)
        return found

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Destinations without which the program does not start."""
        return tuple(dict.fromkeys(a.dest for a in self.actions if a.required))

    @cached_property
    def has_negative_options(self) -> bool:
        """Whether `-1` would be an option: then it is no number for argparse."""
        options = (option for action in self.actions for option in action.options)
        return any(option[:1] == "-" and option[1:2].isdigit() for option in options)


def _turns_off(action: Action, option: str) -> bool:
    return action.action == "boolean" and option.startswith("--no-")


# --------------------------------------------------------------------------- reading
@dataclass(eq=False)
class SchemaError(Exception):
    """A schema that cannot be had; `hint` is the next step."""

    message: str
    hint: str = ""


def load_schema(name: str, places: Places) -> Schema:
    """The schema that a config names: a name (of `args/` of a root), or a path.

    Raises:
        SchemaError: it is not there, or cannot be read.
    """
    for path in _candidates(name, places):
        if os.path.isfile(path):
            return _read(path)
    known = sorted(set(_known(places)))
    hint = did_you_mean(name, known, "schemas") if known else _MAKE_ONE
    raise SchemaError(f"there is no schema `{name}`", hint)


_MAKE_ONE: Final = (
    f"`autoexp-import-args MODULE:FUNCTION --name NAME` writes config/args/NAME{SUFFIX}"
)


def _candidates(name: str, places: Places) -> Iterator[str]:
    if "/" not in name and not name.endswith(".json"):
        for root in places.config_dirs:
            yield os.path.join(root, FOLDER, name + SUFFIX)
        return
    for root in (*places.config_dirs, places.cwd):
        yield os.path.join(root, os.path.expanduser(name))


def _known(places: Places) -> Iterator[str]:
    for root in places.config_dirs:
        folder = os.path.join(root, FOLDER)
        if os.path.isdir(folder):
            files = (f for f in os.listdir(folder) if f.endswith(SUFFIX))
            yield from (file.removesuffix(SUFFIX) for file in files)


def _read(path: str) -> Schema:
    try:
        with open(path, encoding="utf-8") as file:
            return decoded(json.load(file))
    except OSError as error:
        raise SchemaError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path} is no schema of arguments: {error!r}"
        raise SchemaError(message, "write it again: autoexp-import-args") from None


def decoded(data: Any) -> Schema:
    """A schema from its JSON.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is none of ours.
    """
    if not isinstance(data, dict) or "autoexp_schema" not in data:
        raise ValueError("it has no `autoexp_schema`")
    if data["autoexp_schema"] != VERSION:
        raise ValueError(f"its version is {data['autoexp_schema']!r}, not {VERSION}")
    return Schema(
        actions=tuple(_action(item) for item in data["arguments"]),
        defaults=dict(data.get("defaults", {})),
        alone=tuple(
            Alone(tuple(item["dests"]), bool(item.get("required")))
            for item in data.get("exclusive", ())
        ),
        source=str(data.get("source", "")),
        prefix_chars=str(data.get("prefix_chars", "-")),
        from_file_chars=str(data.get("fromfile_prefix_chars", "")),
    )


def _action(item: Mapping[str, Any]) -> Action:
    return Action(
        dest=str(item["dest"]),
        options=tuple(map(str, item.get("options", ()))),
        action=str(item.get("action", "store")),
        nargs=item.get("nargs"),
        type=str(item.get("type", "str")),
        choices=tuple(item.get("choices", ())),
        const=item.get("const"),
        required=bool(item.get("required")),
        group=str(item.get("group", "")),
        help=str(item.get("help", "")),
    )


def listed_choices(choices: Iterable[object], most: int = 8) -> str:
    """Choices as people read them."""
    names = [str(choice) for choice in choices]
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
